"""Where a sandbox lives, what it records, and whose folders it removes."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarnps.client.sandbox import AlreadyRunning, SandboxInputError, find_running, status, stop
from yarnps.client.sandbox import _state as states
from yarnps.client.sandbox._processes import ProcessId
from yarnps.client.sandbox._state import (
    Layout,
    NodePorts,
    Ports,
    Settings,
    State,
    choose_ports,
    claim_home,
    locked_home,
    read_state,
    remove_run,
    resolve_home,
    write_state,
)

STATE = State(
    settings=Settings(nodes=1, hide=("/a",), node_env={"HOME": "/nonexistent"}),
    ports=Ports(1, 2, 3, 4, 5, 6, 7, nodes=(NodePorts(8, 9, 10, 11, 12, 13),)),
    hadoop="/cache/hadoop-3.4.2",
    java_home="/java",
    ready=True,
    daemons={"namenode": ProcessId(123456789, 42)},
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    home = tmp_path / "home"
    home.mkdir()
    return Layout(home)


def test_state_comes_back_as_written(layout: Layout) -> None:
    write_state(layout, STATE)
    assert read_state(layout) == STATE


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 99}'])
def test_a_record_that_cannot_be_read_is_none(layout: Layout, text: str) -> None:
    layout.state.write_text(text)
    assert read_state(layout) is None


def test_a_sandbox_of_dead_pids_does_not_run(layout: Layout) -> None:
    write_state(layout, STATE)
    assert find_running(layout.home) is None
    found = status(layout.home)
    assert not found.running
    assert [(daemon.name, daemon.alive) for daemon in found.daemons] == [("namenode", False)]


def test_a_pid_of_someone_else_is_not_a_daemon(layout: Layout) -> None:
    # After a reboot the recorded pid may be anyone's: here it is the one of pid 1.
    content = json.loads(json.dumps({"namenode": ProcessId(1, 42)}))
    write_state(layout, State(STATE.settings, STATE.ports, "/h", "/j", True, content))
    assert find_running(layout.home) is None
    assert stop(layout.home)
    assert not layout.home.exists()


@pytest.mark.parametrize(
    ("argument", "sandbox_home", "yarnps_home", "expected"),
    [
        ("/given", "/named", "/all", "/given"),
        (None, "/named", "/all", "/named"),
        (None, None, "/all", "/all/sandbox"),
        (None, None, None, "~/.yarnps/sandbox"),
    ],
)
def test_home(
    monkeypatch: pytest.MonkeyPatch,
    argument: str | None,
    sandbox_home: str | None,
    yarnps_home: str | None,
    expected: str,
) -> None:
    for name, value in (("YARNPS_SANDBOX_HOME", sandbox_home), ("YARNPS_HOME", yarnps_home)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    found = resolve_home(Path(argument) if argument else None)
    assert found == Path(expected).expanduser().resolve()


def test_home_that_hadoop_cannot_live_in() -> None:
    with pytest.raises(SandboxInputError, match="/tmp/a b"):
        resolve_home(Path("/tmp/a b"))


def test_ports_are_free_and_different_and_not_for_outgoing_connections() -> None:
    ports = choose_ports(3)
    numbers = [value for name, value in vars(ports).items() if name != "nodes"]
    numbers += [value for node in ports.nodes for value in vars(node).values()]
    assert len(numbers) == 7 + 3 * 6
    assert len(set(numbers)) == len(numbers)
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(10000 <= number < first_outgoing for number in numbers)
    with socket.socket() as server:
        server.bind(("127.0.0.13", ports.nodes[2].manager))


def test_a_taken_port_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sequence:
        def __init__(self, taken: int) -> None:
            self.numbers: Iterator[int] = iter([taken, *range(20000, 30000)])

        def randint(self, _low: int, _high: int) -> int:
            return next(self.numbers)

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        taken: int = server.getsockname()[1]
        sequence = Sequence(taken)
        monkeypatch.setattr("random.SystemRandom", lambda: sequence)
        assert choose_ports(1).name != taken


def test_a_folder_with_other_things_in_it_is_refused(layout: Layout) -> None:
    (layout.home / "thesis.tex").write_text("precious")
    with pytest.raises(SandboxInputError, match=r"thesis\.tex"):
        claim_home(layout)


def test_only_own_entries_are_removed(layout: Layout) -> None:
    (layout.home / "thesis.tex").write_text("precious")
    (layout.home / "outside").mkdir()
    locked = layout.home / "nodes" / "1" / "closed"
    locked.mkdir(parents=True)
    (locked / "file").write_text("")
    locked.chmod(0)
    (layout.home / "hdfs").symlink_to(layout.home / "outside")
    write_state(layout, STATE)
    remove_run(layout)
    assert sorted(entry.name for entry in layout.home.iterdir()) == ["outside", "thesis.tex"]


def test_two_at_a_time_are_refused(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "LOCK_LIMIT_S", 0.0)
    with locked_home(layout):
        with pytest.raises(AlreadyRunning, match=str(layout.home)) as raised, locked_home(layout):
            pass
        assert raised.value.exit_code == 2
    with locked_home(layout):
        pass


def test_nothing_to_stop(tmp_path: Path) -> None:
    assert not stop(tmp_path / "never")
    (tmp_path / "file").write_text("")
    assert not stop(tmp_path)
    assert (tmp_path / "file").exists()


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SandboxInputError, match="cannot be made"),
        locked_home(Layout(tmp_path / "file" / "home")),
    ):
        pass
