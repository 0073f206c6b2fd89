"""The resource side of the job, without I/O: ranks, their containers, and what becomes of them."""
