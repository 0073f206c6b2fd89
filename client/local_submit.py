"""Submitting to the local cluster: quick checks, then the ApplicationMaster is started.

The input is listed while the ApplicationMaster starts, which is ended again when something is
wrong. No sample is tried: the workers read the input itself within a few seconds, and a sample
would take the processor from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from yarnps._errors import InputError, YarnpsError
from yarnps.client import checks, environments, job, local
from yarnps.client.output import Say

if TYPE_CHECKING:
    from yarnps.spec import Job


def submit(
    spec: Job, say: Say, *, dry_run: bool = False, begins: Callable[[], None] = lambda: None
) -> job.LocalView | None:
    """Start a job on this machine; `begins` is called just before.

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
    others = sorted(set(spec.skein.get("services") or {}) - set(spec.roles))
    if others:
        raise InputError(
            "the local cluster runs servers and workers only, and the job file has more services: "
            + ", ".join(others),
            "Leave them out, or use --cluster yarn or --cluster sandbox.",
        )
    spec = on_this_machine(spec)
    spec = _with_program(spec)
    assert spec.block is not None
    python = environments.local_python(spec.block.environment, spec.folder)
    checks.model(spec)
    if dry_run:
        checks.data(spec, say)
        return None
    begins()
    started = local.start(spec, python)
    say(f"job: {started.application}, its folder is {started.folder}")
    if spec.block.job_dir is not None:
        job.remember(started.application, spec.block.job_dir)
    view = job.LocalView(started)
    try:
        checks.data(spec, say, trying=False)
    except YarnpsError:
        # The folder stays: the job has an id by now, and its logs tell what it did.
        started.end()
        raise
    return view


def _with_program(spec: Job) -> Job:
    """The job with the interpreter of its programs spelled out, where they have one."""
    block = spec.block
    assert block is not None
    if block.dmlc.environment is None:
        return spec
    python = environments.local_python(block.dmlc.environment, spec.folder, needed=None)
    dmlc = block.dmlc.model_copy(update={"environment": f"python://{python}"})
    return replace(spec, block=block.model_copy(update={"dmlc": dmlc}))


def on_this_machine(spec: Job) -> Job:
    """The job with every address that has no scheme spelled out as a file of this machine.

    A relative path starts at the job file's folder: the processes of the job run elsewhere. On a
    machine that knows a cluster, a bare path would otherwise mean that cluster's file system.
    """
    block = spec.block
    assert block is not None

    def address(value: str) -> str:
        return here(value, spec.folder)

    def optional(value: str | None) -> str | None:
        return None if value is None else address(value)

    data = block.data.model_copy(
        update={
            "train": tuple(address(v) for v in checks.addresses(block.data.train)),
            "test": tuple(address(v) for v in checks.addresses(block.data.test)) or None,
        }
    )
    model = block.model.model_copy(
        update={"path": optional(block.model.path), "init_from": optional(block.model.init_from)}
    )
    changed = {"data": data, "model": model, "job_dir": optional(block.job_dir)}
    return replace(spec, block=block.model_copy(update=changed))


def here(address: str, folder: Path) -> str:
    """An address that has no scheme as a file of this machine; a relative one is in `folder`."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+:", address):
        return address
    return f"file://{folder / Path(address).expanduser()}"
