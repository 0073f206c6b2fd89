"""The web page of the ApplicationMaster: a small server, and a page that polls it.

The page lives on loopback behind skein's proxy, under a first path segment that cannot be guessed.
It shows the status document (`yarnps.status.Status`), the same that `yarnps status -o json` prints.
Everything in it is relative and comes from this folder; nothing is loaded from elsewhere.
"""
