"""The agent as a process, with real roles, against an ApplicationMaster that tests speak for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_am import LIMIT_S, FakeAM, Session
from harness import AgentProcess, Pair, until

from yarnps._version import VERSION
from yarnps.agent._agent import ORDERED_GRACE_S
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.identity import incarnation

StartRole = Callable[..., None]
StartAgent = Callable[..., AgentProcess]

WAITS = "for m in messages(): pass\n"
# Sends back, as an event, what it is sent.
ECHO = """
for m in messages():
    channel.send(pb.FromRole(event=pb.RoleEvent(name=m.WhichOneof("kind"), text=m.stop.reason)))
"""


def test_registration(session: Session, agent: AgentProcess) -> None:
    r = session.register
    assert (r.container, r.role, r.rank, r.nonce) == ("worker_3", "worker", 2, "n0nce")
    assert (r.host, r.address, r.version) == ("node-7", "127.0.0.1", VERSION)
    assert r.pid == agent.process.pid
    assert list(r.running) == []
    assert r.log_dir == str(agent.folder)


def test_an_agent_is_light(session: Session, agent: AgentProcess) -> None:
    session.heartbeat(3)
    status = Path(f"/proc/{agent.process.pid}/status").read_text()
    kb = {x.split()[0]: int(x.split()[1]) for x in status.splitlines() if x.endswith(" kB")}
    # About half is mapped files, which the containers of a node share.
    assert kb["VmRSS:"] < 46_000
    assert kb["RssAnon:"] < 24_000


def test_an_agent_loads_no_heavy_library() -> None:
    program = "import sys, yarnps.agent._agent; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"grpc", "google", "yarnps"} <= set(loaded)
    heavy = {"numpy", "numba", "zmq", "skein", "pydantic", "yaml", "fsspec", "aiohttp", "click"}
    assert heavy & set(loaded) == set()


def test_messages_between_role_and_am(session: Session, start_role: StartRole) -> None:
    start_role(session, ECHO, env={"EXTRA": "1"})
    started = session.started()
    assert started.incarnation == incarnation("application_1_0001", "worker_3", 0, 0)
    hello = session.role_said("hello")
    assert hello.incarnation == started.incarnation
    assert hello.message.hello.pid == started.pid
    session.begin(started.incarnation)
    session.to_role(stop=pb.Stop(reason="just said"))
    assert session.role_said("event", 1).message.event.name == "begin"
    assert session.role_said("event", 2).message.event.text == "just said"


def test_environment_of_a_role(session: Session, start_role: StartRole) -> None:
    program = """
names = ["EXTRA", "YARNPS_RANK", "YARNPS_PROCESS", "YARNPS_NONCE", "GRPC_VERBOSITY"]
print([os.environ.get(n) for n in names], os.getcwd(), os.getsid(0) == os.getpid())
"""
    start_role(session, program, hello=False, env={"EXTRA": "1"})
    tail = session.exited().output_tail
    cwd = Path.cwd()
    assert "['1', '2', '0', None, None]" in tail
    assert str(cwd) not in tail
    assert tail.endswith("True")


def test_how_a_role_ended(session: Session, start_role: StartRole, tmp_path: Path) -> None:
    program = "print('out');print('err', file=sys.stderr)\nsys.exit(5)"
    start_role(session, program, hello=False)
    exited = session.exited()
    assert (exited.exit_code, exited.restarting, exited.ordered) == (5, False, False)
    assert exited.output_tail == "out\nerr"
    assert (tmp_path / "worker-0-0.log").read_text() == "out\nerr\n"


def test_a_command_that_does_not_exist(session: Session) -> None:
    session.send(start=pb.StartRole(command=["/no/such/python", "-m", "x"], restart=True))
    exited = session.exited()
    assert (exited.exit_code, exited.restarting) == (127, False)
    assert "/no/such/python" in exited.output_tail


def test_restart_in_place_up_to_the_limit(session: Session, start_role: StartRole) -> None:
    start_role(session, "os.kill(os.getpid(), 9)", restart=True)
    exits = [session.exited(n) for n in (1, 2, 3, 4)]
    assert [e.exit_code for e in exits] == [-9] * 4
    assert [e.restarting for e in exits] == [True, True, True, False]
    assert [e.incarnation.start for e in exits] == [0, 1, 2, 3]
    assert len({e.incarnation.id for e in exits}) == 4


@pytest.mark.parametrize(
    "program",
    [
        "sys.exit(0)",
        "channel.send(pb.FromRole(failed=pb.RoleFailed(error='x', user_error=True)));sys.exit(1)",
    ],
)
def test_not_restarted_in_place(session: Session, start_role: StartRole, program: str) -> None:
    """Not after a good end, and not when the role has said that trying again is useless."""
    start_role(session, program, restart=True)
    assert session.exited().restarting is False


def test_last_words_come_before_the_end(session: Session, start_role: StartRole) -> None:
    program = "for i in range(500): channel.send(pb.FromRole(event=pb.RoleEvent(name=str(i))))\n"
    start_role(session, program)
    session.exited()
    kinds = [m.role.message.event.name for m in session.said if m.role.message.HasField("event")]
    assert kinds == [str(i) for i in range(500)]
    assert session.said[-1].HasField("role_exited") or session.said[-1].HasField("heartbeat")


def test_what_a_role_started_ends_with_it(session: Session, start_role: StartRole) -> None:
    program = """
import subprocess
print(subprocess.Popen(["sleep", "600"]).pid)
"""
    start_role(session, program, hello=False)
    child = int(session.exited().output_tail)
    until(lambda: not _exists(child))


def test_stop_and_start_again(session: Session, start_role: StartRole) -> None:
    start_role(session, WAITS, restart=True)
    session.role_said("hello")
    session.send(stop=pb.StopRole(reason="test", grace_s=5))
    exited = session.exited()
    assert (exited.exit_code, exited.ordered, exited.restarting) == (-15, True, False)
    start_role(session, WAITS)
    assert session.started(2).incarnation.start == 1


def test_a_role_that_ignores_sigterm_is_killed(session: Session, start_role: StartRole) -> None:
    start_role(session, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ECHO)
    session.begin(session.started().incarnation)
    session.role_said("event")
    session.send(stop=pb.StopRole(reason="test", grace_s=0.1))
    assert session.exited().exit_code == -9


def test_exit_ends_role_and_agent(
    session: Session, start_role: StartRole, agent: AgentProcess
) -> None:
    start_role(session, WAITS, restart=True)
    session.role_said("hello")
    session.send(exit=pb.Exit(reason="test", exit_code=6))
    assert session.exited().ordered
    assert agent.process.wait(LIMIT_S) == 6
    assert session.ended.wait(LIMIT_S)
    assert agent.leftovers() == []


def test_several_processes(session: Session, start_role: StartRole) -> None:
    start_role(session, ECHO, processes=3)
    started = [session.started(n).incarnation for n in (1, 2, 3)]
    assert [i.process for i in started] == [0, 1, 2]
    assert len({i.id for i in started}) == 3
    for n in (1, 2, 3):
        session.role_said("hello", n)
    for i in started:
        session.begin(i)
    session.to_role(process=1, stop=pb.Stop(reason="you"))
    said = session.wait(lambda m: m.role.message.event.text == "you").role
    assert said.incarnation == started[1]


def test_what_was_meant_for_an_earlier_incarnation_is_dropped(
    session: Session, start_role: StartRole
) -> None:
    start_role(session, ECHO, restart=True)
    first = session.started()
    session.role_said("hello")
    os.kill(first.pid, signal.SIGKILL)
    second = session.started(2)
    session.begin(first.incarnation)
    session.to_role(stop=pb.Stop(reason="for the first"))
    session.begin(second.incarnation)
    session.to_role(stop=pb.Stop(reason="for the second"))
    assert session.role_said("event", 1).message.event.name == "begin"
    assert session.role_said("event", 2).message.event.text == "for the second"


def test_heartbeats_tell_usage_and_follow_the_period(
    session: Session, start_role: StartRole
) -> None:
    program = "block = bytearray(150 << 20)\ndel block\nwhile True: pass"
    start_role(session, program)
    pid = session.started().pid
    session.role_said("hello")

    def busy(m: pb.FromAgent) -> bool:
        """The block is gone, its mark remains, and the loop runs."""
        return any(
            used.cpu_percent > 10
            and 0 < used.memory_bytes < 100 << 20
            and used.memory_peak_bytes > 150 << 20
            for used in m.heartbeat.usage
        )

    usage = session.wait(busy).heartbeat.usage[0]
    assert usage.incarnation.id == session.started().incarnation.id
    session.send(period=pb.HeartbeatPeriod(seconds=60))
    # The order is known to be obeyed when the role's end, ordered later, is reported.
    session.send(stop=pb.StopRole(reason="test", grace_s=1))
    session.exited()
    count = sum(m.HasField("heartbeat") for m in session.said)
    start_role(session, "time.sleep(0.3)", hello=False)
    session.exited(2)
    assert sum(m.HasField("heartbeat") for m in session.said) <= count + 1
    assert pid != os.getpid()


def test_refused(pair: Pair, start_agent: StartAgent) -> None:
    am = FakeAM(pair.certificate, pair.key, refuse="wrong nonce")
    agent = start_agent(am.address)
    assert agent.process.wait(LIMIT_S) == 70
    assert "refused this container: wrong nonce" in agent.log.read_text()
    am.stop()


def test_incomplete_environment(am: FakeAM, start_agent: StartAgent) -> None:
    agent = start_agent(am.address, YARNPS_NONCE="")
    assert agent.process.wait(LIMIT_S) == 72
    assert "YARNPS_NONCE" in agent.log.read_text()
    assert "Traceback" not in agent.log.read_text()


def test_sigterm_ends_all_at_once_and_says_so(
    session: Session, start_role: StartRole, agent: AgentProcess
) -> None:
    start_role(session, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ECHO, restart=True)
    session.begin(session.started().incarnation)
    session.role_said("event")
    began = time.monotonic()
    agent.process.send_signal(signal.SIGTERM)
    exited = session.exited()
    assert (exited.exit_code, exited.restarting, exited.ordered) == (-9, False, False)
    assert exited.leaving
    assert agent.process.wait(LIMIT_S) == 143
    assert time.monotonic() - began < ORDERED_GRACE_S
    assert agent.leftovers() == []


@pytest.mark.parametrize("listens", [True, False])
def test_roles_end_when_their_agent_is_killed(
    session: Session, start_role: StartRole, agent: AgentProcess, listens: bool
) -> None:
    """Also those that do not watch their channel, with what they have started."""
    program = "import subprocess\nsubprocess.Popen(['sleep', '600'])\nsignal.pause()\n"
    start_role(session, WAITS if listens else program, hello=listens)
    session.started()
    until(lambda: len(agent.leftovers()) == (1 if listens else 2))
    agent.process.kill()
    agent.process.wait(LIMIT_S)
    until(lambda: agent.leftovers() == [])


def _exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
