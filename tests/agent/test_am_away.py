"""The ApplicationMaster goes away: the agent comes back to it, or ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_am import LIMIT_S, FakeAM, Session
from harness import AgentProcess, Pair, until

from yarnps.agent import _link
from yarnps.agent._settings import Settings
from yarnps.protocol import control_pb2 as pb

StartRole = Callable[..., None]

# Says how it was greeted, and goes on speaking when told so by a file.
ROLE = """
import pathlib
for m in messages():
    kind = m.WhichOneof("kind")
    channel.send(pb.FromRole(event=pb.RoleEvent(name=kind, text=str(m.am_back.same_attempt))))
    if kind == "begin":
        def speak():
            while not pathlib.Path("speak").exists():
                time.sleep(0.01)
            for n in range(100):
                channel.send(pb.FromRole(stats=pb.Stats(clock=n)))
                p = pb.Progress(epoch=1, phase="train", split=4, token=1, batches=n)
                channel.send(pb.FromRole(progress=p))
            channel.send(pb.FromRole(report=pb.Report(values={"loss": 1})))
            pathlib.Path("spoken").touch()
        threading.Thread(target=speak, daemon=True).start()
"""


def welcome(attempt: int = 1, silence_s: float = 60) -> pb.Welcome:
    return pb.Welcome(heartbeat_s=0.1, am_silence_s=silence_s, attempt=attempt)


@pytest.mark.parametrize(("attempt", "same"), [(1, "True"), (2, "False")])
def test_back_to_a_restarted_am(
    am: FakeAM,
    session: Session,
    agent: AgentProcess,
    pair: Pair,
    start_role: StartRole,
    attempt: int,
    same: str,
) -> None:
    start_role(session, ROLE)
    started = session.started()
    session.begin(started.incarnation)
    session.role_said("event")
    am.stop()
    until(lambda: "not reachable" in agent.log.read_text())
    (agent.folder / "speak").touch()
    until((agent.folder / "spoken").exists)
    again = FakeAM(pair.certificate, pair.key, port=am.port, welcome=welcome(attempt))
    second = again.session()
    assert list(second.register.running) == [started.incarnation]
    # Greeted as one that the ApplicationMaster knew.
    event = second.wait(lambda m: m.role.message.event.name == "am_back").role.message.event
    assert event.text == same
    assert second.role_said("report").message.report.values["loss"] == 1
    # What is cumulative comes once only, the newest.
    said = [m.role.message for m in second.said]
    assert [m.stats.clock for m in said if m.HasField("stats")] == [99]
    assert [m.progress.batches for m in said if m.HasField("progress")] == [99]
    again.stop()


def test_what_may_have_been_lost_is_said_again(
    am: FakeAM, session: Session, agent: AgentProcess, pair: Pair, start_role: StartRole
) -> None:
    """An ApplicationMaster may die between hearing of an end and writing it down."""
    start_role(session, "sys.exit(3)", hello=False)
    exited = session.exited()
    am.stop()
    again = FakeAM(pair.certificate, pair.key, port=am.port, welcome=welcome())
    assert again.session().exited() == exited
    again.stop()


def test_a_first_hello_is_said_until_it_is_answered(
    am: FakeAM, session: Session, pair: Pair, start_role: StartRole
) -> None:
    start_role(session, ROLE)
    session.role_said("hello")
    am.stop()
    again = FakeAM(pair.certificate, pair.key, port=am.port, welcome=welcome())
    second = again.session()
    says = second.role_said("hello")
    second.begin(says.incarnation)
    assert second.role_said("event").message.event.name == "begin"
    again.stop()


def test_restarts_in_place_go_on_without_an_am(
    am: FakeAM, session: Session, agent: AgentProcess, pair: Pair, start_role: StartRole
) -> None:
    start_role(session, "for m in messages(): pass", restart=True)
    session.role_said("hello")
    pid = session.started().pid
    am.stop()
    until(lambda: "not reachable" in agent.log.read_text())
    os.kill(pid, signal.SIGKILL)
    until(lambda: "started worker-0-1.log" in agent.log.read_text())
    again = FakeAM(pair.certificate, pair.key, port=am.port, welcome=welcome())
    second = again.session()
    assert [i.start for i in second.register.running] == [1]
    assert second.exited().incarnation.start == 0
    second.wait(lambda m: m.role_started.incarnation.start == 1)
    again.stop()


def test_silence_ends_role_and_agent(
    pair: Pair, start_agent: Callable[..., AgentProcess], start_role: StartRole
) -> None:
    am = FakeAM(pair.certificate, pair.key, welcome=welcome(silence_s=1.0))
    agent = start_agent(am.address)
    session = am.session()
    start_role(session, "for m in messages(): pass", restart=True)
    session.role_said("hello")
    am.stop()
    assert agent.process.wait(LIMIT_S) == 71
    assert agent.leftovers() == []
    text = agent.log.read_text()
    assert "nothing heard of the ApplicationMaster for 1 s" in text
    assert text.count("not reachable") == 1, "the log is not filled with the same message"


def test_silence_counts_before_the_first_contact(
    am: FakeAM, start_agent: Callable[..., AgentProcess]
) -> None:
    am.stop()
    agent = start_agent(am.address, YARNPS_AM_SILENCE="0.5")
    assert agent.process.wait(LIMIT_S) == 71


def test_an_am_that_hangs_is_tried_anew(
    am: FakeAM, session: Session, agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to answer heartbeats and does so no more, with the connection open."""
    for n in range(1, 4):
        session.heartbeat(n)
        session.send(period=pb.HeartbeatPeriod(seconds=0.1))
    second = am.session(limit_s=30)
    assert second.register.pid == agent.process.pid
    assert session.ended.wait(LIMIT_S)


def settings(am: str, lookup: str, pair: Pair, folder: Path) -> Settings:
    return Settings(
        am=am,
        application="application_1_0001",
        container="worker_0",
        nonce="n",
        role="worker",
        rank=0,
        node="node-1",
        lookup=lookup,
        log_dir=folder,
        certificate=pair.certificate,
        key=pair.key,
        am_silence_s=60,
        env={},
    )


def test_the_address_is_looked_up(
    am: FakeAM, pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_link, "LOOKUP_AFTER_S", 0.2)
    gone = am.address
    am.stop()
    now = FakeAM(pair.certificate, pair.key)
    (tmp_path / "yarnps.am").write_text(now.address)
    link = _link.Link(
        settings(gone, f"file:{tmp_path}", pair, tmp_path),
        lambda ends: pb.Register(address=ends.ours, am_host=ends.theirs),
        lambda event: None,
    )
    link.start()
    register = now.session().register
    assert (register.address, register.am_host) == ("127.0.0.1", "127.0.0.1")
    link.close(LIMIT_S)
    now.stop()


def test_another_certificate_gets_nowhere(am: FakeAM, tmp_path: Path) -> None:
    told: list[object] = []
    link = _link.Link(
        settings(am.address, "", Pair(), tmp_path),
        lambda ends: pb.Register(address=ends.ours, am_host=ends.theirs),
        told.append,
    )
    link.start()
    until(lambda: len(told) >= 2)
    link.close(LIMIT_S)
    assert {type(t) for t in told} == {_link.Lost}
