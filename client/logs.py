"""Where the output of a job's containers is, while they run and afterwards.

On this machine it is in folders. On YARN the node managers' web services give the files of running
applications, and `yarn logs` those of ended ones (when the cluster aggregates logs).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from yarnps._errors import ClusterError, InputError
from yarnps.client import local, rm
from yarnps.client.clusters import need_yarn
from yarnps.client.job import JobView, LocalView

if TYPE_CHECKING:
    from yarnps.client.yarn_job import YarnView
    from yarnps.status import Event, Process

AM = "am"
YARN_LOGS_LIMIT_S = 300.0
# Not output: what a local container's folder holds besides.
NOT_LOGS = {"container.json", "exit_code", ".skein.crt", ".skein.pem", "yarnps-job.json",
            "process.json"}  # fmt: skip
LOG_NAMES = re.compile(r"^(stdout|stderr|prelaunch\.(out|err)|.*\.(log|out|err))$")
YARN_ID = re.compile(r"container_(?:e\d+_)?\d+_\d+_\d+_\d+")
CONTENTS = re.compile(r"^Log ?Contents:\n", re.MULTILINE)
ROLE_LOG = re.compile(r"^(server|worker)-(\d+)-(\d+)\.log$")


@dataclass(frozen=True)
class LogFile:
    """One file of a container's output; `read` gives all of it that there is now."""

    container: str
    name: str
    node: str
    read: Callable[[], str] = field(repr=False)


@dataclass(frozen=True)
class Owner:
    """Whose container it was: the role, the rank, and its incarnations there in order."""

    role: str
    rank: int | None = None
    incarnations: tuple[int, ...] = ()


@dataclass(frozen=True)
class Chosen:
    """A file and whose it is."""

    file: LogFile
    owner: Owner | None

    def title(self) -> str:
        """A line that stands above the file's content."""
        who = self.file.container
        if self.owner is not None:
            rank = "" if self.owner.rank is None else f" {self.owner.rank}"
            who = f"{self.owner.role}{rank} ({who})"
        node = f" on {self.file.node}" if self.file.node else ""
        return f"==> {who}{node}: {self.file.name} <=="


def owners(events: Iterable[Event], processes: Iterable[Process] = ()) -> dict[str, Owner]:
    """Container (by any id that it goes by) -> whose it was."""
    found: dict[str, Owner] = {}

    def add(ids: set[str], role: str, rank: int | None, incarnation: int | None) -> None:
        for name in ids:
            before = found.get(name, Owner(role, rank)).incarnations
            if incarnation is not None and incarnation not in before:
                before = (*before, incarnation)
            found[name] = Owner(role, rank, before)

    for event in events:
        if event.container and event.role and event.rank is not None:
            ids = {event.container, *YARN_ID.findall(str(event.data)), *YARN_ID.findall(event.text)}
            add(ids, event.role, event.rank, event.incarnation)
    for process in processes:
        if process.container:
            ids = {process.container, *YARN_ID.findall(process.logs)}
            add(ids, process.role, process.rank, process.incarnation or None)
    return found


def choose(
    files: Iterable[LogFile],
    known: dict[str, Owner],
    *,
    role: str | None = None,
    rank: int | None = None,
    incarnation: int | None = None,
) -> list[Chosen]:
    """The files that were asked for, with their owners."""
    chosen = []
    for file in files:
        owner = Owner(AM) if file.container == AM else known.get(file.container)
        if role is not None and (owner is None or owner.role != role):
            continue
        if rank is not None and (owner is None or owner.rank != rank):
            continue
        if incarnation is not None and not _of_incarnation(file, owner, incarnation):
            continue
        chosen.append(Chosen(file, owner))
    return chosen


def _of_incarnation(file: LogFile, owner: Owner | None, incarnation: int) -> bool:
    """Whether the file is the output of this incarnation: starts in a container count from 0."""
    named = ROLE_LOG.match(file.name)
    if owner is None or named is None or incarnation not in owner.incarnations:
        return False
    return owner.incarnations.index(incarnation) == int(named[3])


def files_of(view: JobView, *, ended: bool) -> list[LogFile]:
    """All log files of a job.

    Raises
    ------
    InputError
        There are none (any more).
    """
    if isinstance(view, LocalView):
        found = list(_local(view.job))
    else:
        from yarnps.client.yarn_job import YarnView

        assert isinstance(view, YarnView)
        found = list(aggregated(view.application) if ended else _running(view))
    if not found:
        raise InputError(
            f"there is no output of this job: {view.application}",
            "It may not have started a container yet, or its logs have been deleted.",
        )
    return found


# ---------------------------------------------------------------- this machine


def _local(job: local.LocalJob) -> Iterator[LogFile]:
    folders = [(AM, job.folder / local.AM_FOLDER)]
    containers = job.folder / "containers"
    if containers.is_dir():
        folders += [(p.name, p) for p in sorted(containers.iterdir()) if p.is_dir()]
    for name, folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file() and path.name not in NOT_LOGS and LOG_NAMES.match(path.name):
                yield LogFile(name, path.name, "", _reader(path))


def _reader(path: Path) -> Callable[[], str]:
    return lambda: path.read_text(errors="replace")


# ---------------------------------------------------------------- YARN, running


def _running(view: YarnView) -> Iterator[LogFile]:
    manager = view.manager
    master, _ = manager.am_container(view.application)
    for node in manager.nodes():
        base = f"http://{node.web}/ws/v1/node"
        try:
            app = rm.get_json(f"{base}/apps/{view.application}")["app"]
        except (OSError, KeyError, ValueError):
            continue  # no container of the job is or was on this node
        for container in sorted(app.get("containerids") or ()):
            try:
                listing = rm.get_json(f"{base}/containers/{container}/logs")
            except (OSError, ValueError) as error:
                raise ClusterError(
                    f"the node manager does not list the logs of {container}: {node.web}: {error}",
                    "Try again in a moment.",
                ) from error
            for name in sorted({str(d["fileName"]) for d in _dicts(listing) if "fileName" in d}):
                if LOG_NAMES.match(name):
                    url = f"{base}/containerlogs/{container}/{quote(name)}"
                    who = AM if container == master else container
                    yield LogFile(who, name, node.web.split(":")[0], _web_reader(url))


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    """All mappings in parsed JSON: versions of Hadoop differ in how they nest this."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _dicts(item)


def _web_reader(url: str) -> Callable[[], str]:
    def read() -> str:
        try:
            return content(rm.get_text(url))
        except OSError as error:
            raise ClusterError(f"a log cannot be had: {url}: {error}") from error

    return read


def content(text: str) -> str:
    """A log file's content without what the web service or `yarn logs` puts around it."""
    head = CONTENTS.search(text)
    if head is None:
        return text
    return re.sub(r"\n?End of LogType:[^\n]*\n?.*\Z", "", text[head.end() :], flags=re.DOTALL)


# ---------------------------------------------------------------- YARN, ended


def aggregated(application: str) -> Iterator[LogFile]:
    command = [need_yarn(os.environ), "logs", "-applicationId", application]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=YARN_LOGS_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"`yarn logs` failed: {error}", "Try it by hand.") from error
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise ClusterError(
            f"the logs of {application} cannot be had: {tail}",
            "They are there some seconds after the end, if the cluster aggregates logs "
            "(yarn.log-aggregation-enable).",
        )
    yield from parse_yarn_logs(done.stdout)


def parse_yarn_logs(text: str) -> Iterator[LogFile]:
    """The files in the output of `yarn logs`. The AM's container has number 1."""
    container = node = ""
    head = re.compile(r"^Container: (\S+) on (\S+)$|^LogType:(.*)$", re.MULTILINE)
    marks = list(head.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        if mark[1]:
            container, node = mark[1], re.split(r"[_:]\d+$", mark[2])[0]
            continue
        end = following.start() if following else len(text)
        body = content(text[mark.start() : end])
        who = AM if container.endswith("_000001") else container
        yield LogFile(who, mark[3].strip(), node, lambda body=body: body)  # type: ignore[misc]
