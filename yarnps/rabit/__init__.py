"""Rabit, the way in which XGBoost's distributed workers find and lose one another.

Their tracker is XGBoost's own, which runs as a process of its own (`tracker`): the programs that
start it need no XGBoost themselves, and outlive whatever happens to it.
"""
