"""Submitting to YARN: everything that can be found wrong is found before the job is queued."""

from __future__ import annotations

import os
import shlex
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yarnps._errors import ClusterError, InputError, JobFileError
from yarnps.client import checks, environments, hadoop_conf, job, package, rm
from yarnps.client.cache import ArchiveCache
from yarnps.client.clusters import need_yarn
from yarnps.client.credentials import Credentials, new_credentials
from yarnps.client.driver import Driver, import_skein, java
from yarnps.client.local import JOB_FILE
from yarnps.client.output import Say
from yarnps.client.yarn_job import JOB_DIRS, YarnView, default_job_dir

if TYPE_CHECKING:
    from yarnps.client.hadoop_conf import HadoopConf
    from yarnps.spec import Job, Limits, RenderParts

PACKAGE_FOLDER = "yarnps_pkg"
CACHE = f"{JOB_DIRS}/cache"
DRIVER_LIMIT_S = 90.0


class _DriverSoon:
    """A driver that starts while everything is checked: it takes about three seconds."""

    def __init__(self) -> None:
        # All imports of the other thread are done here, before it runs: two threads that import
        # at the same time may wait for each other for ever (Python 3.11).
        import_skein()
        self.credentials = new_credentials(rsa=True)
        self._driver: Driver | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="driver")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._driver = Driver(self.credentials)
        except BaseException as error:  # noqa: BLE001 - raised again in `get`
            self._error = error

    def get(self) -> tuple[Driver, Credentials]:
        """Wait for it; raises what its start raised."""
        self._thread.join(DRIVER_LIMIT_S)
        if self._error is not None:
            raise self._error
        if self._driver is None:
            raise ClusterError("skein's driver does not come up", "yarnps doctor looks for why.")
        return self._driver, self.credentials

    def close(self) -> None:
        """End the driver, if it came up."""
        if self._driver is not None:
            self._driver.close()


@dataclass(frozen=True)
class Prepared:
    """A checked job with everything that its containers need on the cluster."""

    parts: RenderParts
    job_dir: str  # with {app} for the application's id


def submit(
    spec: Job, say: Say, *, dry_run: bool = False, begins: Callable[[], None] = lambda: None
) -> YarnView | None:
    """Check and submit a job; None after a dry run.

    `begins` is called when all checks have passed and the job is handed to the cluster.

    Raises
    ------
    InputError
        The job file, the input or the environment is wrong; nothing has been queued.
    ClusterError
        YARN or HDFS cannot be reached, or the submission failed.
    """
    conf = hadoop_conf.load()
    need_yarn(os.environ)
    java()
    soon = None if dry_run else _DriverSoon()
    try:
        check_cluster(spec, conf, say)
        if spec.block is not None:
            checks.model(spec)
            checks.data(spec, say)
        if soon is None:
            if spec.block is not None:
                environments.prepare(spec.block.environment, spec.folder, None, say)
                if spec.block.dmlc.environment is not None:
                    wanted = spec.block.dmlc.environment
                    environments.prepare_program(wanted, spec.folder, None, say)
            return None
        prepared = prepare(spec, say) if spec.block is not None else None
        driver, credentials = soon.get()
        with tempfile.TemporaryDirectory(prefix="yarnps-submit-") as folder:
            rendered = specification(spec, prepared, credentials, Path(folder))
            begins()
            application = driver.submit(rendered)
    finally:
        if soon is not None:
            soon.close()
    view = _view(application, prepared, credentials)
    say(f"job: {application}")
    return view


def _view(application: str, prepared: Prepared | None, credentials: Credentials) -> YarnView:
    if prepared is None:
        return YarnView(application)
    job_dir = prepared.job_dir.replace("{app}", application)
    if job_dir != default_job_dir(application):
        job.remember(application, job_dir)
    return YarnView(application, job_dir=job_dir, credentials=credentials)


def check_cluster(spec: Job, conf: HadoopConf, say: Say) -> None:
    """YARN and HDFS answer, the queue takes jobs, and no container is too large.

    Raises
    ------
    ClusterError
        One of them does not answer.
    InputError
        The queue does not exist or is stopped, or a container is larger than any may be.
    """
    from yarnps.files import home_address, open_files

    manager = rm.ResourceManager.of(conf)
    try:
        _check_queue(spec, manager)
        _check_size(spec, manager, conf, say)
    except rm.RmRefused:
        say("the resource manager's web service wants a login: the queue is not checked first")
    files, path = open_files(home_address())
    files.exists(path)  # raises where HDFS does not answer


def _check_queue(spec: Job, manager: rm.ResourceManager) -> None:
    queues = manager.queues()
    queue = rm.find_queue(queues, spec.queue or "default")
    if queue is None:
        names = ", ".join(sorted(q.name for q in queues))
        raise InputError(
            f"there is no queue {spec.queue!r} on this cluster",
            f"Set queue to one of: {names}",
        )
    if queue.state != "RUNNING":
        raise InputError(
            f"the queue {spec.queue!r} takes no jobs: it is {queue.state}",
            "Choose another queue, or ask the cluster's administrator.",
        )


def yarn_limits(manager: rm.ResourceManager, conf: HadoopConf) -> Limits:
    """What the cluster gives one container, in the job model's terms."""
    from yarnps.spec import Limits

    most = manager.limits(conf)
    least = int(conf.get("yarn.scheduler.minimum-allocation-mb")) * rm.MIB
    step = int(conf.get("yarn.resource-types.memory-mb.increment-allocation", "0") or 0) * rm.MIB
    return Limits(
        min_memory=least,
        max_memory=most.max_memory,
        memory_step=step or least,
        max_vcores=most.max_vcores,
    )


def _check_size(spec: Job, manager: rm.ResourceManager, conf: HadoopConf, say: Say) -> None:
    from yarnps.spec import needs

    found = needs(spec, yarn_limits(manager, conf))
    if found.problems:
        raise JobFileError(
            "the cluster cannot give what the job asks for:\n"
            + "\n".join(str(p) for p in found.problems),
            "Ask for less in services.*.resources, or another cluster.",
            problems=found.problems,
        )
    for warning in found.warnings:
        say(f"note: {warning}")


def prepare(spec: Job, say: Say) -> Prepared:
    """Put the environment and yarnps itself on the cluster."""
    from yarnps.files import home_address
    from yarnps.spec import RenderParts

    assert spec.block is not None
    base = home_address().rstrip("/")
    cache = ArchiveCache(f"{base}/{CACHE}", say)
    environment = environments.prepare(spec.block.environment, spec.folder, cache, say)
    ours = environments.archive_file(cache.put_bytes(package.archive(), "zip", "yarnps"))
    files = {**environment.files, PACKAGE_FOLDER: ours}
    role_files = dict(files)
    if spec.block.dmlc.environment is not None:
        wanted = spec.block.dmlc.environment
        role_files |= environments.prepare_program(wanted, spec.folder, cache, say).files
    script = environment.script()
    job_dir = _full_address(spec.block.job_dir) if spec.block.job_dir else ""
    job_dir = job_dir or f"{base}/{JOB_DIRS}/{{app}}"
    return Prepared(
        RenderParts(
            files=role_files,
            master_files=files,
            setup=script,
            master_setup=(*script, _export("YARNPS_JOB_DIR", job_dir)),
            python='"$PYTHON"',
            master_python='"$PYTHON"',
            env=environment.env,
            master_env=environment.env,
        ),
        job_dir,
    )


def _full_address(address: str) -> str:
    from yarnps.files import open_files

    files, path = open_files(address)
    return files.address(path)


def _export(name: str, value: str) -> str:
    """A line of bash; ``{app}`` in the value becomes the application's id, known only there."""
    parts = [shlex.quote(part) if part else "" for part in value.split("{app}")]
    return f"export {name}=" + '"$SKEIN_APPLICATION_ID"'.join(parts)


def specification(
    spec: Job, prepared: Prepared | None, credentials: Credentials, folder: Path
) -> dict[str, Any]:
    """What is handed to skein; files that it uploads from this machine are put into `folder`."""
    from yarnps.spec import render

    if prepared is None:
        return render(spec)
    rendered = render(spec, prepared.parts)
    master = rendered["master"]
    (folder / JOB_FILE).write_text(spec.to_json())
    master["files"][JOB_FILE] = f"file://{folder / JOB_FILE}"
    master["security"] = {
        "cert_bytes": credentials.certificate.decode(),
        "key_bytes": credentials.key.decode(),
    }
    rendered["tags"] = sorted({*(rendered.get("tags") or ()), rm.TAG})
    return rendered
