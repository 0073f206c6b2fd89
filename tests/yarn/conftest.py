"""A real Hadoop for the tests in this folder: started once, always stopped."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hdfs_input import LINES, Flights, put

from yarnps.client import sandbox as sandboxes
from yarnps.client.sandbox import Sandbox

# The helpers that the drill shares are in `bench/`, which no distribution holds.
sys.path.insert(0, str(Path(__file__).parents[2]))

# A sandbox of one's own that runs already: for repeated runs while writing a test.
USE_RUNNING = "YARNPS_TEST_SANDBOX"
# On a busy machine a Java ApplicationMaster may take longer than 20 s to register. What happens to
# a job when a node is lost does not depend on it.
AM_EXPIRY_S = 60

_running = pytest.StashKey[Sandbox]()


@pytest.fixture(scope="session")
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Return a sandbox with two nodes, shared by the session."""
    named = os.environ.get(USE_RUNNING)
    if named:
        running = sandboxes.find_running(Path(named))
        if running is None:
            pytest.fail(f"{USE_RUNNING} names a sandbox that does not run: {named}")
        request.config.stash[_running] = running
        yield running
        return
    folder = Path(tempfile.mkdtemp(prefix="yarnps-test-"))
    try:
        started = sandboxes.start(folder / "sandbox", nodes=2, am_expiry_s=AM_EXPIRY_S)
        request.config.stash[_running] = started
        yield started
    finally:
        sandboxes.stop(folder / "sandbox")
        shutil.rmtree(folder)


@pytest.fixture
def on_sandbox(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Return the sandbox, with this process's environment pointing at it."""
    for name, value in sandbox.environ().items():
        monkeypatch.setenv(name, value)
    return sandbox


@pytest.fixture(scope="session")
def client_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client's folder for the whole session; there are no site defaults in it."""
    home = tmp_path_factory.mktemp("client")
    (home / "site.yaml").write_text("")
    return home


@pytest.fixture
def hadoop(on_sandbox: Sandbox, client_home: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Return the sandbox, with everything set up for the client's commands."""
    monkeypatch.setenv("YARNPS_HOME", str(client_home))
    monkeypatch.setenv("YARNPS_CONFIG", str(client_home / "site.yaml"))
    return on_sandbox


@pytest.fixture(scope="session")
def flights(sandbox: Sandbox) -> Flights:
    """All flights in HDFS."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sandbox.environ().items():
            patch.setenv(name, value)
        return put("flights")


@pytest.fixture(scope="session")
def small(sandbox: Sandbox) -> Flights:
    """A few flights of each file in HDFS."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sandbox.environ().items():
            patch.setenv(name, value)
        return put("small", LINES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the daemons' last log lines with every failed test."""
    report = yield
    running = item.config.stash.get(_running, None)
    if report.failed and running is not None:
        report.sections.append(("sandbox daemons", running.tails()))
        for log in running.container_logs():
            if log.name in ("application.master.log", "application.driver.log", "stderr", "stdout"):
                report.sections.append((f"container {log.parent.name}/{log.name}", tail(log)))
    return report


def tail(log: Path, lines: int = 30) -> str:
    """Return the last lines of a log; it may vanish while we look."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"(gone: {error})"
