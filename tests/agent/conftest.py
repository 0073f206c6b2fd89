"""Fixtures: an agent, its ApplicationMaster, and roles for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_am import FakeAM, Session
from harness import AgentProcess, Pair

from yarnps.protocol import control_pb2 as pb


@pytest.fixture(scope="session")
def pair() -> Pair:
    return Pair()


@pytest.fixture
def am(pair: Pair) -> Iterator[FakeAM]:
    am = FakeAM(pair.certificate, pair.key)
    yield am
    am.stop()


@pytest.fixture
def start_agent(pair: Pair, tmp_path: Path) -> Iterator[Callable[..., AgentProcess]]:
    agents: list[AgentProcess] = []

    def start(am: str, **env: str) -> AgentProcess:
        agents.append(AgentProcess(tmp_path, am, pair, **env))
        return agents[-1]

    yield start
    for agent in agents:
        agent.end()
        print(agent.log.read_text(errors="replace"))


@pytest.fixture
def agent(am: FakeAM, start_agent: Callable[..., AgentProcess]) -> AgentProcess:
    return start_agent(am.address)


@pytest.fixture
def session(am: FakeAM, agent: AgentProcess) -> Session:
    return am.session()


ROLE = """
import os, signal, sys, threading, time
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import RoleChannel

channel = RoleChannel.from_environment()
channel.send(pb.FromRole(hello=pb.RoleHello(pid=os.getpid())))

def messages():
    while (received := channel.receive()) is not None:
        yield from received
    os._exit(9)
"""


@pytest.fixture
def start_role(tmp_path: Path) -> Callable[..., None]:
    """Order an agent to start a Python program that has said hello and has `messages()`."""

    def start(session: Session, program: str, *, hello: bool = True, **more: object) -> None:
        path = tmp_path / "role.py"
        path.write_text((ROLE if hello else "import os, sys, signal, time\n") + program)
        session.send(
            start=pb.StartRole(command=[sys.executable, "-u", str(path)], **more)  # type: ignore[arg-type]
        )

    return start
