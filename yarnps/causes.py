"""Cause codes: one short word for every way in which a process or a job ends.

A code is for programs and for search; the sentence beside it is for people. `RETRY_HELPS`
is what the outcome rule goes by.
"""

from __future__ import annotations

from enum import Enum


class Cause(str, Enum):
    """Why a process, a container or a job ended."""

    EXIT = "exit"  # non-zero exit status of the role's process
    SIGNAL = "signal"  # ended by a signal that was not ours
    MEMORY = "memory"  # over the container's memory limit (YARN or the kernel)
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    DISK_FAILED = "disk_failed"
    LOCALISATION = "localisation"  # the node could not fetch the container's files
    LAUNCH = "launch"  # the container did not start
    ENVIRONMENT = "environment"  # no interpreter, or a package is missing
    OUR_KILL = "our_kill"  # ordered by the ApplicationMaster
    KILLED_BY_USER = "killed_by_user"
    SILENT = "silent"  # not heard of for too long
    SCRIPT = "script"  # an exception in the user's program
    NO_INPUT_READ = "no_input_read"  # a worker ended well without having asked for its input
    NOT_JOINED = "not_joined"  # a ps-lite program ended well without having met the others
    DATA = "data"  # records that do not parse, a file that changed or cannot be read
    INPUT = "input"  # the job file or the options are wrong
    START_TIMEOUT = "start_timeout"
    BUDGET = "budget"  # a rank died too often
    MODEL = "model"  # the model could not be written
    AM = "am"  # the ApplicationMaster itself failed
    UNKNOWN = "unknown"


# False: the same again ends the same way; None: it depends.
RETRY_HELPS: dict[Cause, bool | None] = {
    Cause.PREEMPTED: True,
    Cause.NODE_LOST: True,
    Cause.DISK_FAILED: True,
    Cause.START_TIMEOUT: True,
    Cause.SILENT: True,
    Cause.MEMORY: False,
    Cause.ENVIRONMENT: False,
    Cause.SCRIPT: False,
    Cause.NO_INPUT_READ: False,
    Cause.NOT_JOINED: False,
    Cause.DATA: False,
    Cause.INPUT: False,
}
