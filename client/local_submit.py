"""Submitting to the local cluster: quick checks, then the ApplicationMaster is started.

What takes longer (importing the readers, trying a sample of the input) is done while the
ApplicationMaster starts, and ends it again when something is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnps._errors import InputError, YarnpsError
from yarnps.client import checks, job, local
from yarnps.client.output import Say

if TYPE_CHECKING:
    from yarnps.spec import Job


def submit(spec: Job, say: Say, *, dry_run: bool = False) -> job.LocalView | None:
    """Start a job on this machine.

    Raises
    ------
    InputError
        The job file or the input is wrong; nothing runs then.
    """
    if spec.block is None:
        raise InputError(
            f"a plain skein file (no `yarnps:` block) needs a Hadoop cluster: {spec.path}",
            "Use --cluster yarn or --cluster sandbox.",
        )
    checks.model(spec)
    if dry_run:
        checks.data(spec, say)
        return None
    started = local.start(spec)
    say(f"job: {started.application}, its folder is {started.folder}")
    view = job.LocalView(started)
    try:
        checks.data(spec, say)
    except YarnpsError:
        # The folder stays: the job has an id by now, and its logs tell what it did.
        started.end()
        raise
    return view
