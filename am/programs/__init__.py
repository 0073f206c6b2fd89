"""Runtimes whose programs know nothing of yarnps: how they are started, and who starts again when
one of them dies."""
