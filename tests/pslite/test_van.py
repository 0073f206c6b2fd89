"""The thread of a scheduler's ports, and its owner on an asyncio loop."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from pslite_nodes import barrier, heartbeat

from yarnps.pslite import one_core
from yarnps.pslite import van as pslite_van
from yarnps.pslite.ports import Ports
from yarnps.pslite.scheduler import Round
from yarnps.pslite.van import Van
from yarnps.pslite.wire import HALL, SERVER_GROUP, WORKER_GROUP, Address, Seat

W0, W1 = Seat("worker", 0), Seat("worker", 1)
HERE = "127.0.0.1"
LIMIT_S = 10.0
OVER = b"the barrier is over"


class Owner:
    """Hears what two workers say, who have met in the hall."""

    def __init__(self) -> None:
        self.heard: list[tuple[Seat, bytes, bytes]] = []
        self.threads: set[int] = set()
        self.heard_at_pause = 0
        self.failures: list[Exception] = []
        self.rounds: dict[int, Round] = {}
        self.then: Callable[[bytes], object] = lambda message: None
        self.van = Van(self._hear, self.failures.append, HERE, self._pause, self.rounds.get)
        self._context = zmq.Context()
        self._made: list[Any] = []
        port = self.van.open(HALL)
        self.speak = [self.node(port, seat.name) for seat in (W0, W1)]
        self.listen = [self._socket(zmq.ROUTER) for _ in self.speak]
        for made in self.listen:
            made.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a way is closed and made anew
        nodes = {}
        for seat, made in zip((W0, W1), self.listen, strict=True):
            nodes[seat] = Address(HERE, made.bind_to_random_port(f"tcp://{HERE}"))
        self.nodes = nodes

    def usual(self) -> None:
        """From now on, the workers' barriers are nothing out of the ordinary."""
        ports = {W0.name: HALL, W1.name: HALL}
        self.rounds[WORKER_GROUP] = Round(ports, self.nodes, OVER)

    def all_wait(self, number: int = 0) -> None:
        for made in self.speak:
            made.send(barrier(WORKER_GROUP, number))

    def released(self) -> None:
        """Each is let through one barrier; the loop stands still while this waits."""
        assert [made.recv_multipart()[1] for made in self.listen] == [OVER, OVER]

    def answer(self, message: bytes) -> None:
        """As a scheduler does, for one of the words was too late for a usual barrier."""
        if len(self.heard) % 2 == 0:
            for seat, to in self.nodes.items():
                self.van.send(seat, to, OVER)

    async def answered(self) -> None:
        """Each is let through one barrier."""
        for made in self.listen:
            await until(lambda made=made: made.poll(0))
            assert made.recv_multipart()[1] == OVER

    def node(self, port: int, name: bytes) -> Any:
        made = self._socket(zmq.DEALER)
        made.setsockopt(zmq.IDENTITY, name)
        made.connect(f"tcp://{HERE}:{port}")
        return made

    def _socket(self, kind: int) -> Any:
        made: Any = self._context.socket(kind)
        made.setsockopt(zmq.RCVTIMEO, int(1000 * LIMIT_S))
        self._made.append(made)
        return made

    def _hear(self, *said: Any) -> None:
        self.heard.append(said)
        self.threads.add(threading.get_ident())
        self.then(said[2])

    def _pause(self) -> None:
        self.heard_at_pause = len(self.heard)

    def messages(self) -> list[bytes]:
        return [message for _, _, message in self.heard]

    def close(self) -> None:
        self.van.stop()
        for made in self._made:
            made.close(0)
        self._context.term()


@pytest.fixture
async def owner(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Owner]:
    # What is to happen does not happen because the thread looks now and then.
    monkeypatch.setattr(pslite_van, "LOOK_S", 6 * LIMIT_S)
    made = Owner()
    yield made
    made.close()


def is_free(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((HERE, port)) != 0


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


def blocked_until(condition: Callable[[], object]) -> None:
    """The same, while the owner's loop stands still."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


async def test_words_are_heard_in_order_on_the_owners_loop(owner: Owner) -> None:
    owner.usual()
    words = [heartbeat(W0, number) for number in range(200)]
    words[100:100] = [barrier(WORKER_GROUP, 1)]
    for word in words:
        owner.speak[0].send(word)
    await until(lambda: len(owner.heard) == len(words))
    assert owner.heard == [(HALL, W0.name, word) for word in words]
    assert owner.threads == {threading.get_ident()}
    await until(lambda: owner.heard_at_pause == len(words))


async def test_barriers_do_not_wait_for_the_owner(owner: Owner) -> None:
    owner.usual()
    for number in range(50):
        owner.all_wait(number)
        blocked_until(lambda: owner.listen[0].poll(0) or owner.van.unheard)
        if owner.van.unheard:  # one of them was too late: it is no usual one
            break
        owner.released()
    assert number > 0, "one at least was"
    assert owner.heard == []


async def test_what_the_owner_has_still_to_hear_comes_first(owner: Owner) -> None:
    owner.usual()
    owner.speak[0].send(b"odd")
    blocked_until(lambda: owner.van.unheard)
    each = len(barrier(WORKER_GROUP, 0)) + pslite_van.EACH_BYTES
    odd = owner.van.unheard
    owner.all_wait()
    blocked_until(lambda: owner.van.unheard == odd + 2 * each)
    await until(lambda: len(owner.heard) == 3)
    assert owner.messages()[0] == b"odd"
    assert not owner.listen[0].poll(50), "the owner ends this barrier"
    owner.all_wait(1)
    owner.released()


async def test_one_that_stops_being_usual_is_the_owners(owner: Owner) -> None:
    owner.usual()
    word = barrier(WORKER_GROUP, 1)
    owner.speak[0].send(word)
    await until(lambda: owner.heard)
    assert owner.messages() == [word]
    del owner.rounds[WORKER_GROUP]
    owner.speak[1].send(word)
    await until(lambda: len(owner.heard) == 2)
    assert not owner.listen[0].poll(50)


async def test_words_of_a_process_that_is_gone_are_not_heard(owner: Owner) -> None:
    port = owner.van.open(W0)
    early = owner.node(port, b"ps9")
    early.send(b"on its way when it is closed")
    blocked_until(lambda: owner.van.unheard)
    owner.van.close(W0)
    await asyncio.sleep(0.05)
    other = owner.node(owner.van.open(W0), b"ps9")
    other.send(b"on its way when there is another one")
    blocked_until(lambda: owner.van.unheard)
    port = owner.van.open(W0)
    assert owner.van.unheard
    owner.node(port, b"ps9").send(b"of the newest")
    await until(lambda: owner.heard)
    assert owner.heard == [(W0, b"ps9", b"of the newest")]
    assert not owner.van.unheard


async def test_words_that_are_held_are_of_the_process_before(owner: Owner) -> None:
    port = owner.van.open(W0)
    owner.rounds[WORKER_GROUP] = Round({W0.name: W0, W1.name: HALL}, owner.nodes, OVER)
    owner.node(port, W0.name).send(barrier(WORKER_GROUP, 1))
    for made in (owner.speak[1], owner.speak[0]):  # others are heard, so that was, too
        await asyncio.sleep(0.02)
        made.send(b"odd")
    await until(lambda: len(owner.heard) == 3)
    held = owner.node(owner.van.open(W0), W0.name)
    held.send(barrier(WORKER_GROUP, 2))
    blocked_until(lambda: owner.van._rounds.begun or owner.van.unheard)
    port = owner.van.open(W0)
    owner.node(port, W0.name).send(b"of the newest")
    await until(lambda: owner.messages()[-1] == b"of the newest")
    assert len(owner.heard) == 4


async def test_groups_in_turns_are_not_mixed(owner: Owner) -> None:
    owner.usual()
    other = WORKER_GROUP + SERVER_GROUP
    owner.rounds[other] = owner.rounds[WORKER_GROUP]
    for made, group in zip(owner.speak, (WORKER_GROUP, other), strict=True):
        made.send(barrier(group, 1))
    await until(lambda: len(owner.heard) == 2)
    assert not owner.listen[0].poll(50)


async def test_ways_are_found_again_when_one_was_closed(owner: Owner) -> None:
    owner.usual()
    owner.then = owner.answer
    for number in range(3):
        owner.all_wait(number)
        await owner.answered()
        owner.van.close(W1)
    assert not owner.failures


async def test_orders_of_a_callback_do_not_wait(owner: Owner) -> None:
    """Not even when the thread waits for words again."""
    done: list[str] = []

    def act(message: bytes) -> None:
        time.sleep(0.1)
        if message == b"send":
            owner.van.send(W0, owner.nodes[W0], b"answer")
        elif message == b"open":
            owner.van.open(W1)
        else:
            owner.van.stop()
        done.append(message.decode())

    owner.then = act
    begun = time.monotonic()
    owner.speak[0].send(b"send")
    await until(lambda: done)
    assert owner.listen[0].recv_multipart()[1] == b"answer"
    for number, word in enumerate((b"open", b"stop"), 2):
        owner.speak[0].send(word)
        await until(lambda number=number: len(done) == number)
    assert time.monotonic() - begun < pslite_van.ANSWER_S
    assert done == ["send", "open", "stop"]
    owner.speak[0].send(b"after the end")
    await asyncio.sleep(0.05)
    assert len(owner.heard) == 3


async def test_orders_outside_of_callbacks_do_not_wait(owner: Owner) -> None:
    time.sleep(0.05)  # the thread waits
    owner.van.send(W0, owner.nodes[W0], b"one")
    assert owner.listen[0].recv_multipart()[1] == b"one"
    port = owner.van.open(W1)
    time.sleep(0.05)
    owner.van.close(W1)
    blocked_until(lambda: is_free(port))


async def test_orders_are_carried_out_while_the_owner_hears(owner: Owner) -> None:
    ports: list[int] = []

    def act(message: bytes) -> None:
        ports.append(owner.van.open(W1))
        owner.van.send(W0, owner.nodes[W0], b"answer to " + message)
        owner.van.close(W1)

    owner.then = act
    owner.speak[0].send(b"one")
    await until(lambda: ports)
    assert owner.listen[0].recv_multipart()[1] == b"answer to one"
    await until(lambda: is_free(ports[0]))


async def test_an_error_of_the_owner_loses_nothing_else(owner: Owner) -> None:
    def fail(message: bytes) -> None:
        owner.then = lambda message: None
        raise RuntimeError("the owner's own")

    owner.usual()
    owner.then = fail
    for word in (b"one", b"two", b"six"):
        owner.speak[0].send(word)
    blocked_until(lambda: owner.van.unheard == 3 * (3 + pslite_van.EACH_BYTES))
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    await until(lambda: len(owner.heard) == 3)
    await until(lambda: not owner.van.unheard)
    owner.all_wait()
    owner.released()


async def test_others_on_the_loop_have_their_turn(owner: Owner) -> None:
    owner.then = lambda message: time.sleep(0.01)
    for _ in range(100):
        owner.speak[0].send(b"x")
    blocked_until(lambda: owner.van.unheard == 100 * (1 + pslite_van.EACH_BYTES))
    turns = 0
    while len(owner.heard) < 100:
        before = len(owner.heard)
        await asyncio.sleep(0)
        assert len(owner.heard) - before <= 20
        turns += 1
    assert turns >= 5


async def test_held_words_do_not_wait_for_the_next_ones(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that was over before there was a pause leaves them to the next one."""
    monkeypatch.setattr("yarnps.pslite.ports.TURN_S", 0.0)
    own = owner.node(owner.van.open(W0), W0.name)
    owner.rounds[WORKER_GROUP] = Round({W0.name: W0, W1.name: HALL}, owner.nodes, OVER)
    for number in range(3):
        own.send(barrier(WORKER_GROUP, number))
        await until(lambda number=number: len(owner.heard) == number + 1)


async def test_sockets_that_cannot_be_had_are_no_end(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(context: object, kind: int) -> None:
        raise zmq.ZMQError(24)

    with monkeypatch.context() as there:
        there.setattr(zmq.Context, "socket", none)
        with pytest.raises(OSError, match="no port for worker 0: Too many open files"):
            owner.van.open(W0)
    assert owner.van.open(W0)


async def test_no_more_is_read_than_the_owner_can_hear(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pslite_van, "MOST_BYTES", 50_000)
    word = bytes(1000)
    for _ in range(100):
        owner.speak[0].send(word)
    blocked_until(lambda: owner.van.unheard > 50_000)
    time.sleep(0.1)  # a turn is over
    before = owner.van.unheard
    for _ in range(100):
        owner.speak[1].send(word)
    time.sleep(0.1)
    assert owner.van.unheard == before
    assert owner.van.open(W0), "orders are carried out"
    await until(lambda: len(owner.heard) == 200)


async def test_the_owner_is_told_that_the_thread_has_failed(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    error = RuntimeError("a fault")

    def fail(ports: Ports, wait_s: float) -> bool:
        raise error

    monkeypatch.setattr(Ports, "turn", fail)
    owner.speak[0].send(b"one")
    await until(lambda: owner.failures)
    assert owner.failures == [error]
    assert "the thread that hears ps-lite's nodes has failed" in caplog.text
    monkeypatch.setattr(pslite_van, "ANSWER_S", 6 * LIMIT_S)  # which is not waited for
    begun = time.monotonic()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"no port for worker 0: .* has ended"):
            owner.van.open(W0)
    assert time.monotonic() - begun < LIMIT_S
    owner.van.send(W0, owner.nodes[W0], b"to nobody")


async def test_one_that_hangs_is_not_waited_for(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hangs, go_on = threading.Event(), threading.Event()

    def hang(ports: Ports, wait_s: float) -> bool:
        hangs.set()
        return go_on.wait(LIMIT_S)

    monkeypatch.setattr(Ports, "turn", hang)
    monkeypatch.setattr(pslite_van, "ANSWER_S", 0.05)
    owner.speak[0].send(b"one")
    assert hangs.wait(LIMIT_S)
    with pytest.raises(RuntimeError, match=r"no port for worker 0: .*, or hangs"):
        owner.van.open(W0)
    owner.van.stop()
    assert "has not ended within 0.05 s" in caplog.text
    go_on.set()
    await until(lambda: "ps-lite ports" not in {t.name for t in threading.enumerate()})


async def test_nothing_is_left_of_it() -> None:
    def things() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    Owner().close()  # what is made once is made
    before = things()
    for _ in range(3):
        made = Owner()
        made.speak[0].send(b"never heard")
        blocked_until(lambda made=made: made.van.unheard)
        made.close()
        made.van.stop()
        made.van.send(W0, Address(HERE, 9), b"too late")
        await asyncio.sleep(0.05)
        assert not made.heard
        assert made.heard_at_pause == 0
    await until(lambda: all(now <= then for now, then in zip(things(), before, strict=True)))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The threads that have been put on one core."""
    threads: list[int] = []
    really = os.sched_setaffinity

    def note(thread: int, cores: set[int]) -> None:
        if len(cores) == 1:
            threads.append(thread)
        really(thread, cores)

    monkeypatch.setattr(os, "sched_setaffinity", note)
    monkeypatch.setattr(one_core, "KEEP_AFTER_S", 0.0)
    yield threads


async def test_its_threads_are_free_when_nobody_speaks(owner: Owner, kept: list[int]) -> None:
    everywhere = os.sched_getaffinity(0)
    owner.usual()
    owner.then = owner.answer
    deadline = time.monotonic() + LIMIT_S
    while len(set(kept)) < 2 and time.monotonic() < deadline:  # all have to be quick
        owner.all_wait()
        await owner.answered()
    tasks = [Path("/proc/self/task") / str(thread) for thread in set(kept)]
    assert {(task / "comm").read_text().strip().split("/")[-1] for task in tasks} >= {"0"}
    assert len(tasks) == 2, "ZeroMQ's, and that of the ports"
    assert threading.main_thread().native_id not in kept
    await until(lambda: all(os.sched_getaffinity(t) == everywhere for t in kept))
