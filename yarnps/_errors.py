"""Every exception that yarnps raises on purpose.

YarnpsError
├── InputError            what the user wrote is wrong: job file, data, options      (exit 2)
│   ├── JobFileError      one or more problems of a job file, each with its place
│   └── DataError         input that cannot be listed, opened or parsed
├── ClusterError          the cluster (or the running job) cannot be reached          (exit 3)
├── ServerRefused         a server refused a call; the message says why
└── LeaseRevoked          the lease of this batch is void; `data()` goes on by itself
    ├── LateBatch         BSP: its step was closed without it; `data()` gives it out again
    └── EarlyBatch        BSP: this worker has work for an earlier step by now, which comes first
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class YarnpsError(Exception):
    """Base of all. `remedy` says what to do about it."""

    exit_code = 1

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}\n  {self.remedy}" if self.remedy else self.what


class InputError(YarnpsError):
    """What the user wrote is wrong."""

    exit_code = 2


class Problem(NamedTuple):
    """One thing that is wrong in a job file, a file of site defaults or a `--set`."""

    line: int  # from 1; 0: no line of its own
    path: str  # of the field, such as "yarnps.train.epochs"; "": the file as a whole
    message: str
    near: str = ""  # the nearest known key or value
    source: str = ""  # the file, or "--set path=value"

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        near = f"; did you mean {self.near}?" if self.near else ""
        return ": ".join(part for part in (place, self.path, self.message + near) if part)


class JobFileError(InputError):
    """Everything that is wrong with a job file."""

    def __init__(self, what: str, remedy: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(what, remedy)
        self.problems = tuple(problems)


class DataError(InputError):
    """Input that cannot be listed, opened or parsed."""


class ClusterError(YarnpsError):
    """The cluster, or a running job, cannot be reached."""

    exit_code = 3


class ServerRefused(YarnpsError):
    """A parameter server refused a call. `certain`: it would refuse it again, and the job ends."""

    def __init__(self, what: str, remedy: str = "", *, certain: bool = False) -> None:
        super().__init__(what, remedy)
        self.certain = certain


class LeaseRevoked(YarnpsError):
    """The lease that this batch belongs to is void."""


class LateBatch(LeaseRevoked):
    """The batch came when its BSP step had been closed without it. `step` is the open one."""

    def __init__(self, what: str, remedy: str = "", *, step: int = 0) -> None:
        super().__init__(what, remedy)
        self.step = step


class EarlyBatch(LeaseRevoked):
    """The batch waits for an earlier BSP step, of which this worker has a part by now."""
