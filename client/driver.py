"""skein's Java driver: submits, kills, and reports where the web services refuse us.

Its errors become ours, with the driver's own log at hand; every call has a limit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from yarnps._errors import ClusterError, InputError, YarnpsError
from yarnps.client.clusters import need_yarn
from yarnps.client.credentials import Credentials, new_credentials
from yarnps.client.home import home, logs
from yarnps.client.rm import Report

START_LIMIT_S = 60.0
SUBMIT_LIMIT_S = 300.0
CALL_LIMIT_S = 60.0
LOG_TAIL_LINES = 8
OUR_HOSTS = "127.0.0.1,localhost"
NO_PROXY = "no_grpc_proxy"  # looked at by gRPC only, in this spelling

T = TypeVar("T")


def with_limit(work: Callable[[], T], limit_s: float, what: str) -> T:
    """The result of `work`, done in a thread; ClusterError when it takes too long."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name=what)
    thread.start()
    thread.join(limit_s)
    if errors:
        raise errors[0]
    if not results:
        raise ClusterError(
            f"{what} took longer than {limit_s:.0f} s",
            "Look whether the cluster is well: yarnps doctor.",
        )
    return results[0]


def is_noexec(folder: str) -> bool:
    """Whether programs and libraries in `folder` may not be run."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)
    except OSError:
        return False


def java() -> str:
    """The `java` that skein will start."""
    base = os.environ.get("JAVA_HOME")
    found = shutil.which(f"{base}/bin/java") if base else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({base})" if base else "on PATH, and JAVA_HOME is not set"
        raise ClusterError(
            f"there is no `java` {where}",
            "Install a Java runtime (8 or newer) and set JAVA_HOME.",
        )
    return found


def import_skein() -> Any:
    """skein, without the deprecation warnings of its old imports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import skein
        except ImportError as error:
            raise ClusterError(
                f"skein cannot be imported: {error}",
                "Install it: pip install skein setuptools (it needs setuptools from Python 3.12).",
            ) from error
    return skein


class Driver:
    """A running driver; use it as a context manager.

    Parameters
    ----------
    credentials
        The pair that driver and client trust each other by; a new one by default.
    """

    def __init__(self, credentials: Credentials | None = None) -> None:
        self.log = logs() / f"driver-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        need_yarn(os.environ)
        java()
        self._skein = import_skein()
        pair = credentials or new_credentials(rsa=True)
        # A proxy for the world outside must not be asked for our own driver.
        known = os.environ.get(NO_PROXY)
        os.environ[NO_PROXY] = f"{known},{OUR_HOSTS}" if known else OUR_HOSTS
        security = self._skein.Security(cert_bytes=pair.certificate, key_bytes=pair.key)
        self._failed = False
        self._client = self._skein.Client.__new__(self._skein.Client)
        # A client whose start fails is closed by its finalizer, which looks at this first.
        self._client._proc = None
        self._guarded(
            lambda: self._client.__init__(
                security=security, log=str(self.log), java_options=_java_options()
            ),
            START_LIMIT_S,
            "starting skein's driver",
        )

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the driver. Its log stays when something has failed."""
        threading.Thread(target=self._client.close, daemon=True).start()
        if not self._failed:
            self.log.unlink(missing_ok=True)

    def submit(self, specification: dict[str, Any]) -> str:
        """Submit a skein specification; returns the application's id."""
        spec = self._guarded(
            lambda: self._skein.ApplicationSpec.from_dict(specification),
            CALL_LIMIT_S,
            "building the skein specification",
        )
        return str(
            self._guarded(lambda: self._client.submit(spec), SUBMIT_LIMIT_S, "submitting to YARN")
        )

    def kill(self, application: str) -> None:
        """End an application."""
        self._guarded(
            lambda: self._client.kill_application(application), CALL_LIMIT_S, "killing on YARN"
        )

    def application(self, application: str) -> Report:
        """The RM's report; KeyError when it knows no such application."""
        return _report(
            self._guarded(
                lambda: self._client.application_report(application),
                CALL_LIMIT_S,
                "asking the resource manager",
            )
        )

    def applications(self, *, all_states: bool, user: str | None) -> list[Report]:
        """All skein applications that carry our tag."""
        from yarnps.client.rm import TAG

        states = [str(s) for s in self._skein.model.ApplicationState] if all_states else None
        found = self._guarded(
            lambda: self._client.get_applications(states=states, user=user),
            CALL_LIMIT_S,
            "asking the resource manager",
        )
        return [_report(r) for r in found if TAG in r.tags]

    def _guarded(self, work: Callable[[], T], limit_s: float, what: str) -> T:
        """`work` with skein's and Java's errors turned into ours."""
        try:
            return with_limit(work, limit_s, what)
        except KeyError:
            raise  # the application is not known: no failure of the driver's
        except Exception as error:
            self._failed = True
            raise self._in_our_words(error, what) from error

    def _in_our_words(self, error: Exception, what: str) -> YarnpsError:
        if isinstance(error, ClusterError):
            return ClusterError(error.what, f"{error.remedy}\n{self._words()}")
        if isinstance(error, subprocess.CalledProcessError):
            return ClusterError(
                f"`yarn classpath --glob` failed with status {error.returncode}",
                "Run it by hand to see why: the cluster's client installation is broken.",
            )
        text = str(error).strip() or type(error).__name__
        if isinstance(error, (ValueError, TypeError)):
            return InputError(f"{what}: YARN or skein refuses it: {text}", self._words())
        return ClusterError(
            f"{what} failed: {text}",
            f"`yarnps doctor` looks for the usual reasons.\n{self._words()}",
        )

    def _words(self) -> str:
        """The end of the driver's log, and where it is."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        tail = "\n".join(lines[-LOG_TAIL_LINES:])
        return f"The driver's last words ({self.log}):\n{tail}" if tail else ""


def _java_options() -> list[str]:
    """Options for the driver on top of the user's own (SKEIN_DRIVER_JAVA_OPTIONS)."""
    options = os.environ.get("SKEIN_DRIVER_JAVA_OPTIONS", "").split()
    if not is_noexec("/tmp"):
        return options
    # The driver unpacks a native library there, and cannot load it from a noexec file system.
    for folder in (home() / "tmp", Path.cwd()):
        if folder.parent.exists() and not is_noexec(str(folder.parent)):
            folder.mkdir(parents=True, exist_ok=True)
            return [*options, f"-Djava.io.tmpdir={folder}"]
    raise ClusterError(
        "/tmp is mounted noexec, and no other folder was found for skein's native library",
        "Set SKEIN_DRIVER_JAVA_OPTIONS=-Djava.io.tmpdir=<a folder that allows programs>.",
    )


def _report(r: Any) -> Report:
    """skein's report as ours."""
    return Report(
        application=r.id,
        name=r.name,
        user=r.user,
        queue=r.queue,
        state=str(r.state),
        final_status=str(r.final_status),
        diagnostics=(r.diagnostics or "").strip(),
        progress=float(r.progress),
        started=r.start_time.timestamp() if r.start_time else None,
        finished=r.finish_time.timestamp() if r.finish_time else None,
        url=r.tracking_url or "",
        containers=int(r.usage.num_used_containers),
        memory=int(r.usage.used_resources.memory) << 20,
        vcores=int(r.usage.used_resources.vcores),
        tags=tuple(r.tags),
    )
