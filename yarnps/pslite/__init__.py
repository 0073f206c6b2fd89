"""The scheduler's side of ps-lite's protocol, so that unmodified ps-lite programs (MXNet among
them) run without a scheduler process of their own.

`scheduler` is the state machine, without I/O; `ports` gives it sockets; `contract` is the
environment that the programs are started with. The ApplicationMaster and `yarnps launch` both
use them.
"""
