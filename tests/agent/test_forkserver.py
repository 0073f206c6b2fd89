"""Containers of the fork server: everything about them is as if their processes were new ones."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_am import FakeAM, Session
from harness import Pair, until

from yarnps._threads import THREAD_COUNTS
from yarnps.am.clusters import _processes as processes
from yarnps.am.clusters._forks import Forks, ForksLost
from yarnps.am.forks import LOG_FILE, SOCKET, serving
from yarnps.protocol import control_pb2 as pb

# A program in a package: does what a variable says.
PROGRAM = """
import atexit, json, os, signal, sys
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import RoleChannel

channel = RoleChannel.from_environment()
channel.send(pb.FromRole(hello=pb.RoleHello(pid=os.getpid())))
exec(os.environ["YARNPS_TEST_DOES"])
while channel.receive() is not None:
    pass
os._exit(9)
"""

# What it finds, for the test to read in its output.
FACTS = """
print(json.dumps({
    "env": dict(os.environ),
    "argv": sys.argv[1:],
    "path": sys.path[0],
    "cwd": os.getcwd(),
    "session": os.getsid(0) == os.getpid(),
    "parent": os.getppid(),
    "name": __name__,
    "signals": [str(signal.getsignal(n)) for n in (15, 2, 1, 17)],
    "open": len(os.listdir("/proc/self/fd")),
    "random": __import__("numpy").random.rand(),
}))
atexit.register(print, "the last words")
sys.exit(4)
"""

START = Callable[..., "Container"]
COMMAND = ["@python", "-m", "played"]
ONE_THREAD = dict.fromkeys(THREAD_COUNTS, "1")


class Container:
    """A container that the fork server has started."""

    def __init__(self, folder: Path, leader: int, session: Session) -> None:
        self.folder = folder
        self.leader = leader
        self.session = session
        self.agent = session.register.pid

    def order(self, does: str, *, command: Sequence[str] = COMMAND, **more: Any) -> None:
        env = {**ONE_THREAD, "YARNPS_TEST_DOES": does, **more.pop("env", {})}
        self.session.send(start=pb.StartRole(command=command, env=env, **more))

    def log(self, start: int = 0) -> str:
        return (self.folder / f"worker-0-{start}.log").read_text()

    def exit_code(self) -> str:
        until((self.folder / "exit_code").exists)
        return (self.folder / "exit_code").read_text().strip()


@pytest.fixture
def forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forks]:
    package = tmp_path / "package" / "played"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import numpy\n")
    (package / "__main__.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("YARNPS_KERNEL_CACHE", str(tmp_path / "kernels"))
    with asking(["played"], tmp_path, monkeypatch) as forks:
        yield forks
    print((tmp_path / LOG_FILE).read_text())


@contextmanager
def asking(
    packages: Sequence[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Forks]:
    """The supervisor's part and the ApplicationMaster's in one process."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # changes from step to step
    monkeypatch.setenv(SOCKET, "")  # so that it is as before in the end
    with serving(packages, folder) as descriptor:
        pid = os.environ[SOCKET].split()[1]
        os.environ[SOCKET] = f"{os.dup(descriptor)} {pid}"  # each closes its own
        forks = Forks.from_environment()
        assert forks is not None
        yield forks
        forks.close()


def environment(folder: Path, am: str, **env: str) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "YARNPS_AM": am,
        "YARNPS_APPLICATION": "application_1_0001",
        "YARNPS_CONTAINER": "worker_3",
        "YARNPS_NONCE": "n0nce",
        "YARNPS_ROLE": "worker",
        "LOG_DIRS": str(folder),
        processes.MARK: str(folder),
        **env,
    }


@pytest.fixture
def start(forks: Forks, am: FakeAM, pair: Pair, tmp_path: Path) -> Iterator[START]:
    folders: list[Path] = []

    def begin(**env: str) -> Container:
        folder = tmp_path / f"container_{len(folders)}"
        folders.append(folder)
        folder.mkdir()
        (folder / ".skein.crt").write_bytes(pair.certificate)
        (folder / ".skein.pem").write_bytes(pair.key)
        full_env = environment(folder, am.address, **env)
        leader = asyncio.run(forks.start("worker_3", folder, full_env))
        assert leader is not None
        return Container(folder, leader, am.session())

    yield begin
    for folder in folders:
        for pid in processes.marked(str(folder)):
            os.kill(pid, signal.SIGKILL)
        until(lambda folder=folder: not processes.marked(str(folder)))
        print((folder / "stderr").read_text())


def command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def environment_of(pid: int) -> dict[str, str]:
    words = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    return dict(word.split("=", 1) for word in words)


def forked(pid: int, of: Container) -> bool:
    """Whether a role process is a fork: a new one's memory is that of its own program."""
    return (
        Path(f"/proc/{pid}/maps").read_text().splitlines()[:1]
        == (Path(f"/proc/{of.leader}/maps").read_text().splitlines()[:1])
    )


def test_all_processes_are_found_as_what_they_are(start: START) -> None:
    container = start()
    container.order("")
    role = container.session.role_said("hello").message.hello.pid
    assert role == container.session.started().pid
    pids = [container.leader, container.agent, role]
    assert sorted(processes.marked(str(container.folder))) == sorted(pids)
    assert [command_of(pid) for pid in pids] == [
        ["container", "worker_3"],
        [sys.executable, "-m", "yarnps.agent"],
        [sys.executable, "-m", "played"],
    ]
    assert "YARNPS_INCARNATION" in environment_of(role)
    assert "YARNPS_INCARNATION" not in environment_of(container.agent)
    assert os.getpgid(container.agent) == os.getsid(container.agent) == container.leader
    assert forked(role, container)


def test_a_role_finds_what_a_new_process_finds(start: START) -> None:
    """The first one is a fork; the agent starts the second one, after its death, as usual."""
    container = start()
    container.order(FACTS, restart=True, env={"YARNPS_EXTRA": "\u00e9"})
    ends = [container.session.exited(n) for n in (1, 2)]
    assert [e.exit_code for e in ends] == [4, 4]
    outputs = [container.log(n).splitlines() for n in (0, 1)]
    assert [lines[1:] for lines in outputs] == [["the last words"]] * 2
    fork, new = (json.loads(lines[0]) for lines in outputs)
    assert fork.pop("random") != new.pop("random")
    differing = {"YARNPS_INCARNATION", "YARNPS_CHANNEL_FD"}
    for facts in (fork, new):
        assert facts["parent"] == container.agent
        assert facts["env"].pop("YARNPS_EXTRA") == "\u00e9"
        assert facts["path"] == facts["cwd"] == str(container.folder)
        assert {facts["env"].pop(name, "") for name in differing} != {""}
    assert fork.pop("env") == new.pop("env")
    assert fork == new


def test_forks_draw_other_random_numbers(start: START) -> None:
    containers = [start(), start()]
    for container in containers:
        container.order("print(__import__('numpy').random.rand()); sys.exit(0)")
        container.session.exited()
    assert containers[0].log() != containers[1].log()


def test_an_exception_is_shown_and_ends_it(start: START) -> None:
    container = start()
    container.order("raise LookupError('of the test')")
    exited = container.session.exited()
    assert exited.exit_code == 1
    assert exited.output_tail.endswith("LookupError: of the test")


@pytest.mark.parametrize(
    ("env", "command"),
    [
        ({"OMP_NUM_THREADS": "2"}, COMMAND),
        ({"LD_BIND_NOW": "1"}, COMMAND),
        ({"YARNPS_KERNEL_CACHE": "/elsewhere"}, COMMAND),
        ({"YARNPS_LONG": "x" * 20_000}, COMMAND),
        ({}, ["@python", "-m", "played", "with more words than there is room for" * 9]),
        ({}, ["@python", "-c", PROGRAM]),
        ({}, ["@python", "-m", "played.__main__"]),
    ],
)
def test_what_a_fork_would_not_follow_gets_a_new_process(
    start: START, env: dict[str, str], command: list[str]
) -> None:
    container = start()
    container.order("", env=env, command=command)
    role = container.session.role_said("hello").message.hello.pid
    assert not forked(role, container)
    assert env.items() <= environment_of(role).items()
    # The understudy that was not taken is gone.
    assert len(processes.marked(str(container.folder))) == 3


def test_kill_of_a_role_is_seen_and_made_good(start: START) -> None:
    container = start()
    container.order("", restart=True)
    os.kill(container.session.started().pid, signal.SIGKILL)
    exited = container.session.exited()
    assert (exited.exit_code, exited.restarting) == (-9, True)
    assert container.session.started(2).incarnation.start == 1
    container.session.role_said("hello")


def test_kill_of_the_agent_ends_the_role(start: START) -> None:
    container = start()
    container.order("")
    container.session.role_said("hello")
    os.kill(container.agent, signal.SIGKILL)
    assert container.exit_code() == "137"
    until(lambda: processes.marked(str(container.folder)) == [])


def test_end_before_there_was_a_part(start: START) -> None:
    """The order to the whole group ends the agent and its understudy; the leader notes it."""
    container = start()
    os.killpg(container.leader, signal.SIGTERM)
    assert container.exit_code() == "143"
    until(lambda: processes.marked(str(container.folder)) == [])


def test_containers_outlive_the_fork_server(start: START, forks: Forks) -> None:
    container = start()
    forks.close()
    container.order("sys.exit(3)")
    assert container.session.exited().exit_code == 3
    container.session.send(exit=pb.Exit(exit_code=6))
    assert container.exit_code() == "6"


def test_an_environment_that_the_imports_did_not_see_is_refused(
    forks: Forks, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = environment(tmp_path, "127.0.0.1:1", MALLOC_ARENA_MAX="2")
    with caplog.at_level("INFO"):
        assert asyncio.run(forks.start("worker_3", tmp_path, env)) is None
    assert "worker_3 is not forked: its environment differs in MALLOC_ARENA_MAX" in caplog.text
    assert processes.marked(str(tmp_path)) == []


def test_a_folder_that_is_not_there_is_refused(
    forks: Forks, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "none"
    with caplog.at_level("INFO"):
        pid = asyncio.run(forks.start("worker_3", folder, environment(folder, "127.0.0.1:1")))
    assert pid is None
    assert f"No such file or directory: {folder}" in caplog.text


def test_a_fork_server_that_has_ended(forks: Forks, tmp_path: Path) -> None:
    os.kill(forks.pid, signal.SIGKILL)
    with pytest.raises(ForksLost, match="does not answer"):
        asyncio.run(forks.start("worker_3", tmp_path, environment(tmp_path, "127.0.0.1:1")))


def test_an_import_that_fails_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with asking(["no_such_package"], tmp_path, monkeypatch) as forks, pytest.raises(ForksLost):
        asyncio.run(forks.start("worker_3", tmp_path, environment(tmp_path, "127.0.0.1:1")))
    assert "No module named 'no_such_package'" in (tmp_path / LOG_FILE).read_text()
