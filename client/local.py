"""Jobs on this machine: the ApplicationMaster is started as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from yarnps._errors import ClusterError
from yarnps.client.credentials import new_credentials
from yarnps.client.home import local_jobs

if TYPE_CHECKING:
    from yarnps.spec import Job

AM_FOLDER = "am"
PROCESS_FILE = "process.json"
JOB_FILE = "yarnps-job.json"
# The AM ends its containers itself; this is how long it gets before it is killed.
END_LIMIT_S = 20.0

# The ones that this process has started; they outlive it.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class LocalJob:
    """A job of the local cluster, by its folder on this machine."""

    application: str
    folder: Path

    @property
    def address(self) -> str:
        """The job directory as an address."""
        return f"file://{self.folder}"

    def am_alive(self) -> bool:
        """Whether the process that keeps the ApplicationMaster up is there."""
        known = self._process()
        if known is not None:
            _reap(known[0])
        return known is not None and process_started(known[0]) == known[1]

    def end(self) -> None:
        """End the ApplicationMaster's process group without asking it."""
        known = self._process()
        if known is None or process_started(known[0]) != known[1]:
            return
        pid, started = known
        deadline = time.monotonic() + END_LIMIT_S
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
        while time.monotonic() < deadline and process_started(pid) == started:
            _reap(pid)
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def output(self, lines: int = 15) -> str:
        """The last lines that the ApplicationMaster's process wrote."""
        parts = []
        for name in ("stdout", "stderr"):
            path = self.folder / AM_FOLDER / name
            if path.exists():
                parts += path.read_text(errors="replace").splitlines()
        return "\n".join(parts[-lines:])

    def _process(self) -> tuple[int, int] | None:
        try:
            known = json.loads((self.folder / AM_FOLDER / PROCESS_FILE).read_text())
        except (OSError, ValueError):
            return None
        return int(known["pid"]), int(known["started"])


def process_started(pid: int) -> int | None:
    """When a process started (clock ticks since boot), None when it is gone or a zombie.

    With the pid it names a process for good: pids are used again.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def find(application: str) -> LocalJob | None:
    """The job with this id, if this machine knows it."""
    folder = local_jobs() / application
    return LocalJob(application, folder) if folder.is_dir() else None


def all_jobs() -> list[LocalJob]:
    """All jobs that have a folder here, oldest first."""
    folder = local_jobs()
    if not folder.is_dir():
        return []
    return [LocalJob(p.name, p) for p in sorted(folder.glob("local_*")) if p.is_dir()]


def start(job: Job, python: str = sys.executable) -> LocalJob:
    """Start a job's ApplicationMaster; it goes on when this process ends.

    Parameters
    ----------
    python
        The interpreter of all the job's processes.

    Raises
    ------
    ClusterError
        The job's folder cannot be written.
    """
    try:
        made = _new_folder()
        folder = made.folder / AM_FOLDER
        folder.mkdir()
        (folder / JOB_FILE).write_text(job.to_json())
        new_credentials().write(folder)
        path = _our_package(folder) if python != sys.executable else ""
    except OSError as error:
        raise ClusterError(
            f"the job's folder cannot be written: {error.filename}: {error.strerror}",
            "Set YARNPS_HOME to a folder that you may write.",
        ) from error
    folders = (str(Path(python).parent), os.environ.get("PATH", os.defpath))
    environ = {
        # Shared by all local jobs, so that a job finds its kernels compiled.
        "YARNPS_KERNEL_CACHE": str(local_jobs().parent / "kernels"),
        **os.environ,
        # The user's script finds the job's interpreter under these names, as on YARN.
        "PYTHON": python,
        "PATH": os.pathsep.join(folders),
        "YARNPS_CLUSTER": "local",
        "YARNPS_APPLICATION": made.application,
        "YARNPS_FORK_PACKAGES": " ".join(fork_packages(job)),
        "YARNPS_JOB_DIR": job.block.job_dir if job.block and job.block.job_dir else made.address,
    }
    if path:
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
    with open(folder / "stdout", "ab") as out, open(folder / "stderr", "ab") as err:
        process = subprocess.Popen(
            [python, "-m", "yarnps.am.supervisor"],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,  # Ctrl-C in this terminal is for the client only
        )
    _children[process.pid] = process
    known = {"pid": process.pid, "started": process_started(process.pid) or 0}
    (folder / PROCESS_FILE).write_text(json.dumps(known))
    return made


def fork_packages(job: Job) -> list[str]:
    """What the job's processes import and that takes long: it is imported once for all."""
    block = job.block
    if block is None or block.runtime != "native":
        return []
    packages = ["yarnps.server"]
    if not job.roles["worker"].script:
        packages += ["yarnps.worker", *([f"yarnps.apps.{block.app}"] if block.app else [])]
    return packages


def _our_package(folder: Path) -> str:
    """Put yarnps itself beside the job: another interpreter may have none, or another version."""
    import io
    import zipfile

    from yarnps.client.package import archive

    target = folder / "yarnps_pkg"
    with zipfile.ZipFile(io.BytesIO(archive())) as file:
        file.extractall(target)
    return str(target)


def _new_folder() -> LocalJob:
    base = local_jobs()
    base.mkdir(parents=True, exist_ok=True)
    stamp = int(time.time() * 1000)
    while True:
        application = f"local_{stamp}_{os.getpid()}"
        folder = base / application
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            stamp += 1
            continue
        return LocalJob(application, folder)


def _reap(pid: int) -> None:
    """Take the exit status of a child of ours, so that it does not stay as a zombie."""
    child = _children.get(pid)
    if child is not None:
        child.poll()
