"""`connect()`: from a process that the agent has started to the job that it belongs to."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
from types import TracebackType

from yarnps._errors import YarnpsError
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import CHANNEL_FD, RoleChannel, exit_without_agent
from yarnps.worker.job import Job

_job: Job | None = None


def connect() -> Job:
    """The job that this process is a worker of.

    Raises
    ------
    YarnpsError
        This process was not started by yarnps.

    Examples
    --------
    >>> job = yarnps.connect()                             # doctest: +SKIP
    >>> job.rank, job.params                               # doctest: +SKIP
    (0, {'alpha': 0.1})
    """
    global _job
    if _job is not None:
        return _job
    if CHANNEL_FD not in os.environ:
        raise YarnpsError(
            "this process is not a worker of a job",
            "start the program with `yarnps submit`; `--cluster local` runs it on this machine",
        )
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    channel = RoleChannel.from_environment()
    channel.send(pb.FromRole(hello=pb.RoleHello(pid=os.getpid())))
    messages = channel.receive_begin()
    if messages is None:
        exit_without_agent()
    job = Job(channel, messages[0].begin, messages[1:])
    _tell_of_exceptions(job)
    atexit.register(job.finish)
    _job = job
    return job


def _tell_of_exceptions(job: Job) -> None:
    """An exception that ends the program is told to the ApplicationMaster, then shown as usual."""
    shown = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        job.fail(error)
        shown(kind, error, trace)

    sys.excepthook = hook
