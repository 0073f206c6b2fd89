"""Finding a job and seeing how it is, wherever it runs and whether it has ended."""

from __future__ import annotations

import dataclasses
import getpass
import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from yarnps._errors import ClusterError, DataError, InputError, YarnpsError
from yarnps.client import local
from yarnps.client.clusters import Cluster
from yarnps.client.credentials import CERTIFICATE_FILE, KEY_FILE, Credentials
from yarnps.client.home import home

if TYPE_CHECKING:
    from yarnps.client.rm import Report
    from yarnps.status import Event, Status

# The names in the job directory; `yarnps.jobdir` explains them. Repeated here, because that
# module loads every file system there is, which a job on this machine has no need for.
AM_JSON, AM_CERTIFICATE, AM_KEY = "am.json", "am.crt", "am.pem"
STATUS_JSON, OUTCOME_JSON = "status.json", "outcome.json"
CALL_LIMIT_S = 5.0
# An AM that has just been started listens within this time, even on a busy machine.
AM_COMES_S = 15.0
RETRY_S = 0.2


@dataclass(frozen=True)
class Sight:
    """What could be seen of a job at one moment.

    Attributes
    ----------
    status
        The job's own words, from its ApplicationMaster (AM) or its directory.
    live
        The status came from a running AM.
    report
        The resource manager's view.
    note
        More of the cluster's view in one line: queue used and limit, AM share.
    gone
        The job's processes are not there any more; `status`, if any, is the last that was written.
    trouble
        Why nothing, or not everything, could be seen.
    """

    status: Status | None = None
    live: bool = False
    report: Report | None = None
    note: str = ""
    gone: bool = False
    trouble: str = ""


class Store(Protocol):
    """Reads a job directory."""

    address: str

    def read(self, name: str) -> bytes | None:
        """The content of a file, None when there is none."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none when there is no folder."""


class LocalStore:
    """A job directory on this machine, read without any file system library."""

    def __init__(self, folder: Path) -> None:
        self.address = f"file://{folder}"
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ClusterError(f"cannot be read: {error.filename}: {error.strerror}") from error

    def names(self, folder: str) -> list[str]:
        path = self._folder / folder
        return sorted(p.name for p in path.iterdir()) if path.is_dir() else []


class FilesStore:
    """A job directory on any file system."""

    def __init__(self, address: str) -> None:
        from yarnps.files import open_files

        self.address = address.rstrip("/")
        self._files, path = open_files(self.address)
        self._path = path.rstrip("/")

    def read(self, name: str) -> bytes | None:
        path = f"{self._path}/{name}"
        try:
            return bytes(self._files.read_bytes(path))
        except DataError:
            if self._files.exists(path):
                raise
            return None

    def names(self, folder: str) -> list[str]:
        path = f"{self._path}/{folder}"
        if not self._files.exists(path):
            return []
        return sorted(info.path.rsplit("/", 1)[-1] for info in self._files.list(path))


class AmClient:
    """Speaks to a running ApplicationMaster."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        import grpc

        from yarnps.protocol.service import CHANNEL_OPTIONS, kill_call, status_call

        self.address = address
        trust = grpc.ssl_channel_credentials(
            credentials.certificate, credentials.key, credentials.certificate
        )
        self._channel = grpc.secure_channel(address, trust, options=CHANNEL_OPTIONS)
        self._status, self._kill = status_call(self._channel), kill_call(self._channel)

    def status(self, events_after: int = 0) -> Status:
        """The status document now."""
        from yarnps.protocol import control_pb2 as pb
        from yarnps.status import status_from_json

        reply = self._status(pb.StatusRequest(events_after=events_after), timeout=CALL_LIMIT_S)
        return status_from_json(reply.json)

    def kill(self, reason: str) -> None:
        """Ask it to end the job."""
        from yarnps.protocol import control_pb2 as pb

        self._kill(pb.KillRequest(reason=reason, user=getpass.getuser()), timeout=CALL_LIMIT_S)

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()


class JobView(ABC):
    """A job as a client sees it; subclasses add what their cluster knows.

    Parameters
    ----------
    application
        The job's id.
    credentials
        The application's certificate pair, where it is known already.
    """

    kind = ""

    def __init__(self, application: str, credentials: Credentials | None = None) -> None:
        self.application = application
        self._credentials = credentials
        self._am: AmClient | None = None

    @abstractmethod
    def store(self) -> Store:
        """The job directory."""

    @abstractmethod
    def look(self, events_after: int = 0) -> Sight:
        """How the job is now. Never raises for what is only not there yet."""

    @abstractmethod
    def force_kill(self, reason: str) -> None:
        """End the job without its AM's help."""

    @abstractmethod
    def am_expected(self) -> bool:
        """Whether the AM can be expected to answer soon, though it does not now."""

    def close(self) -> None:
        """Let go of connections."""
        if self._am is not None:
            self._am.close()
            self._am = None

    # ------------------------------------------------------------ shared

    def kill(self, reason: str) -> bool:
        """End the job: by its AM, else by force. Returns whether the AM took it."""
        deadline = time.monotonic() + AM_COMES_S
        while True:
            if self._ask_to_end(reason):
                return True
            if time.monotonic() > deadline or not self.am_expected():
                break
            time.sleep(RETRY_S)
        self.force_kill(reason)
        return False

    def _ask_to_end(self, reason: str) -> bool:
        import grpc

        try:
            am = self.am()
            if am is None:
                return False
            am.kill(reason)
        except (grpc.RpcError, YarnpsError):
            self.close()
            return False
        return True

    def am(self) -> AmClient | None:
        """A connection to the AM, None while there is no AM to connect to."""
        store = self.store()
        text = store.read(AM_JSON)
        if text is None:
            return None
        address = str(json.loads(text)["address"])
        if self._am is not None and self._am.address != address:
            self.close()
        if self._am is None:
            if self._credentials is None:
                certificate, key = store.read(AM_CERTIFICATE), store.read(AM_KEY)
                if certificate is None or key is None:
                    return None
                self._credentials = Credentials(certificate, key)
            self._am = AmClient(address, self._credentials)
        return self._am

    def ask_am(self, events_after: int) -> tuple[Status | None, str]:
        """The live status, or why there is none."""
        import grpc

        try:
            am = self.am()
            if am is None:
                return None, ""
            return am.status(events_after), ""
        except grpc.RpcError as error:
            # A channel that has failed backs off for long; a new one tries at once.
            self.close()
            code, details = error.code(), error.details()
            return None, f"the ApplicationMaster does not answer: {code.name}: {details}"

    def recorded(self) -> Status | None:
        """The status document in the job directory."""
        from yarnps.status import status_from_json

        text = self.store().read(STATUS_JSON)
        return None if text is None else status_from_json(text.decode())

    def has_outcome(self) -> bool:
        """Whether the job has ended for good, by its own word."""
        return self.store().read(OUTCOME_JSON) is not None

    def events(self) -> list[Event]:
        """The whole event log: what was uploaded, and what a running AM adds."""
        from yarnps.status import Event

        store = self.store()
        known: dict[int, Event] = {}
        for name in store.names("events"):
            text = store.read(f"events/{name}") or b""
            for line in text.decode().splitlines():
                event = Event(**json.loads(line))
                known[event.seq] = event
        status, _ = self.ask_am(max(known, default=0))
        for event in status.events if status else ():
            known[event.seq] = event
        return [known[seq] for seq in sorted(known)]


class LocalView(JobView):
    """A job whose processes run on this machine."""

    kind = "local"

    def __init__(self, job: local.LocalJob) -> None:
        super().__init__(job.application)
        self.job = job
        am = job.folder / local.AM_FOLDER
        if (am / KEY_FILE).exists():
            self._credentials = Credentials(
                (am / CERTIFICATE_FILE).read_bytes(), (am / KEY_FILE).read_bytes()
            )

    def store(self) -> Store:
        elsewhere = remembered(self.application)
        return LocalStore(self.job.folder) if elsewhere is None else FilesStore(elsewhere)

    def look(self, events_after: int = 0) -> Sight:
        alive = self.job.am_alive()
        if alive:
            status, trouble = self.ask_am(events_after)
            if status is not None:
                return Sight(status=status, live=True)
            if not self.has_outcome():
                return Sight(trouble=trouble)
        # Written before the process ended, so read after that was seen.
        status = self.recorded()
        if alive and status is not None and status.outcome is None:
            return Sight(trouble="the job is ending")
        return Sight(status=status, gone=not alive, trouble="" if status else self.job.output())

    def am_expected(self) -> bool:
        return self.job.am_alive() and not self.has_outcome()

    def force_kill(self, reason: str) -> None:
        self.job.end()
        if not self.has_outcome():
            self._record_kill(reason)

    def _record_kill(self, reason: str) -> None:
        """Leave a last word in the AM's place: it was ended before it could."""
        from yarnps.status import Outcome, Status, to_json

        now = time.time()
        text = f"killed by {getpass.getuser()}: {reason}"
        status = self.recorded() or Status(self.application, "", getpass.getuser(), "", "")
        outcome = Outcome("KILLED", text, "killed_by_user")
        last = dataclasses.replace(
            status,
            state="KILLED",
            sentence=f"Killed: {text}.",
            outcome=outcome,
            ended=now,
            now=now,
            job_dir=self.store().address,
            cluster=self.kind,
        )
        for name, record in ((STATUS_JSON, last), (OUTCOME_JSON, outcome)):
            (self.job.folder / name).write_text(to_json(record))


def find(cluster: Cluster, application: str, job_dir: str | None = None) -> JobView:
    """The job with this id.

    Raises
    ------
    InputError
        There is no such job here.
    ClusterError
        The cluster cannot be reached.
    """
    if cluster.local:
        found = local.find(application)
        if found is None:
            raise InputError(
                f"no such job on this machine: {application}", "`yarnps list --all` shows them."
            )
        return LocalView(found)
    from yarnps.client.yarn_job import YarnView

    return YarnView(application, job_dir=job_dir or remembered(application))


def remember(application: str, job_dir: str) -> None:
    """Note where a job's directory is, when its job file puts it elsewhere."""
    path = home() / "jobs" / f"{application}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"job_dir": job_dir, "time": time.time()}))
    except OSError as error:
        raise YarnpsError(f"cannot be written: {path}: {error.strerror}") from error


def remembered(application: str) -> str | None:
    """What `remember` noted."""
    try:
        value = json.loads((home() / "jobs" / f"{application}.json").read_text())
    except (OSError, ValueError):
        return None
    return str(value["job_dir"])
