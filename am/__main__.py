"""``python -m yarnps.am``: the ApplicationMaster's process.

Its working directory holds ``yarnps-job.json`` and the application's certificate pair. In the
environment: ``YARNPS_CLUSTER`` (yarn or local), ``YARNPS_APPLICATION`` (local only) and
``YARNPS_JOB_DIR`` (on YARN: without it, ``.yarnps/<application id>`` in the user's home folder).
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from yarnps._version import VERSION
from yarnps.am.clusters import connect
from yarnps.am.clusters.base import Cluster
from yarnps.am.config import Config
from yarnps.am.resources.outcome import diagnostics
from yarnps.am.shell.loop import Shell
from yarnps.am.supervisor import EXIT_ATTEMPT_OVER, EXIT_ENDED
from yarnps.files import home_address, open_files
from yarnps.jobdir import AM_CERTIFICATE, AM_KEY, JOB_JSON, JOB_YAML, OUTCOME, JobDir
from yarnps.spec import Job, masked_job
from yarnps.status import Outcome

logger = logging.getLogger("yarnps.am")

JOB_FILE = "yarnps-job.json"


class AttemptOver(Exception):
    """This attempt must not go on."""


def open_job_dir(job: Job, cluster: Cluster) -> JobDir:
    """The job's directory, which is made if it is not there."""
    given = os.environ.get("YARNPS_JOB_DIR") or (job.block.job_dir if job.block else None)
    address = given or f"{home_address().rstrip('/')}/.yarnps/{cluster.application}"
    job_dir = JobDir(address)
    job_dir.create()
    return job_dir


def make_config(job: Job, cluster: Cluster, job_dir: JobDir, folder: Path) -> Config:
    """What the state machine has to know."""
    if job.block is None:
        raise ValueError("this job file has no yarnps block")
    native = job.block.runtime == "native"
    model = job.block.model.path or (f"{job_dir.address}/model" if native else "")
    names = {
        # Of the job, and not of a process that comes back on another day: it has to find what the
        # one before it has written.
        "date": job_dir.began(time.strftime("%Y-%m-%d", time.gmtime())),
        "app": cluster.application,
        "name": job.name,
    }
    for name, value in names.items():
        model = model.replace("{" + name + "}", value)
    return Config(
        job=job,
        application=cluster.application,
        attempt=cluster.attempt,
        job_dir=job_dir.address,
        model=full_address(model) if model else "",
        secret=(folder / ".skein.pem").read_bytes(),
        version=VERSION,
        cluster=cluster.name,
    )


def full_address(address: str) -> str:
    """The address as it can be used from anywhere."""
    files, path = open_files(address)
    return files.address(path).rstrip("/")


def prepare(config: Config, job_dir: JobDir, folder: Path) -> Outcome | None:
    """Claim the job directory. Returns the outcome when the job has ended for good already.

    Raises
    ------
    AttemptOver
        A newer attempt has claimed it.
    """
    newest = job_dir.newest_attempt()
    if newest > config.attempt:
        # Its address and files are in the directory now: a process of ours that comes back late
        # must not put its own over them.
        raise AttemptOver(f"attempt {newest} has taken over")
    ended = job_dir.read_json(OUTCOME)
    if ended is not None:
        return Outcome(**ended)
    if newest < config.attempt:
        job_dir.claim(config.attempt, f"{os.uname().nodename} {os.getpid()}")
    shown = masked_job(config.job)
    job_dir.write(JOB_YAML, shown.text.encode(), mode=0o600)
    job_dir.write(JOB_JSON, shown.to_json().encode(), mode=0o600)
    job_dir.write(AM_CERTIFICATE, (folder / ".skein.crt").read_bytes(), mode=0o600)
    job_dir.write(AM_KEY, (folder / ".skein.pem").read_bytes(), mode=0o600)
    return None


async def serve(folder: Path) -> int:
    """Run the job of this folder; returns the exit status for the supervisor."""
    job = Job.from_json((folder / JOB_FILE).read_text())
    cluster = connect(job, folder)
    await cluster.open()
    job_dir = await asyncio.to_thread(open_job_dir, job, cluster)
    config = await asyncio.to_thread(make_config, job, cluster, job_dir, folder)
    try:
        ended = await asyncio.to_thread(prepare, config, job_dir, folder)
    except AttemptOver as error:
        logger.error("%s: this attempt stops here", error)
        return EXIT_ATTEMPT_OVER
    if ended is not None:
        # An earlier attempt has ended the job; YARN shows what its last attempt says.
        state: Any = ended.state
        await cluster.finish(state, diagnostics(ended))
        return EXIT_ENDED
    certificate, key = (folder / ".skein.crt").read_bytes(), (folder / ".skein.pem").read_bytes()
    shell = Shell(config, cluster, job_dir, folder, certificate, key)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        if cluster.name == "yarn":
            # YARN takes the container (preemption, a node that stops, skein's process died): that
            # is no order to end the job. Who kills the application kills it at the RM.
            loop.add_signal_handler(number, shell.leave, signal.Signals(number).name)
        else:
            loop.add_signal_handler(number, shell.kill, "a signal", signal.Signals(number).name)
    shell.recall()
    await shell.listen()
    outcome = await shell.run()
    if outcome is None:
        return EXIT_ATTEMPT_OVER
    await cluster.close()
    return EXIT_ENDED


def main() -> None:
    """Entry point."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    sys.exit(asyncio.run(serve(Path.cwd())))


if __name__ == "__main__":
    main()
