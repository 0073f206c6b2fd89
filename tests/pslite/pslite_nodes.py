"""ps-lite's nodes for tests: their messages, and what they understand of a scheduler's."""

from __future__ import annotations

from yarnps.pslite import wire_pb2 as pb
from yarnps.pslite.barriers import Passed
from yarnps.pslite.scheduler import Effect, Refused, Scheduler, Send
from yarnps.pslite.wire import EVERYONE, HALL, Address, Command, Seat

UNKNOWN = 2**31 - 1
HERE = Address("10.0.0.1", 7000)


def registration(seat: Seat, address: Address, *, customer: int = 0) -> bytes:
    """A node's first message."""
    node = pb.Node(
        role={"server": 0, "worker": 1}[seat.role],
        id=UNKNOWN,
        hostname=address.host,
        port=address.port,
        is_recovery=False,
        customer_id=customer,
    )
    control = pb.Control(cmd=Command.ADD_NODE, node=[node])
    return pb.Meta(head=0, control=control, timestamp=0).SerializeToString()


def barrier(group: int, timestamp: int) -> bytes:
    control = pb.Control(cmd=Command.BARRIER, barrier_group=group)
    meta = pb.Meta(control=control, request=True, app_id=0, timestamp=timestamp)
    return meta.SerializeToString()


def heartbeat(seat: Seat, timestamp: int) -> bytes:
    control = pb.Control(cmd=Command.HEARTBEAT, node=[pb.Node(id=seat.id)])
    return pb.Meta(control=control, timestamp=timestamp).SerializeToString()


def home(seat: Seat) -> Address:
    """Where a seat's process finds the scheduler."""
    return Address("10.0.0.1", 7000 + seat.id)


class World:
    """A scheduler, and for each seat the messages that it was sent and has not looked at."""

    def __init__(self, workers: int, servers: int, *, resend: bool = False) -> None:
        self.scheduler = Scheduler(workers, servers, resend=resend)
        self.seats = [Seat("server", r) for r in range(servers)]
        self.seats += [Seat("worker", r) for r in range(workers)]
        self.inbox: dict[Seat, list[pb.Meta]] = {seat: [] for seat in self.seats}
        self.addresses: dict[Seat, Address] = {}
        self.effects: list[Effect] = []
        self._port = 9000
        self._timestamp = 0

    def take(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Send):
                assert effect.to == self.addresses[effect.seat]
                self.inbox[effect.seat].append(pb.Meta.FromString(effect.message))
            else:
                self.effects.append(effect)
        return effects

    def join(self, seat: Seat) -> list[Effect]:
        """A new process of the seat starts and registers."""
        self._port += 1
        self.addresses[seat] = Address("10.0.0.2", self._port)
        self.scheduler.opened(seat, home(seat), "10.0.0.2")
        return self.say(seat, registration(seat, self.addresses[seat]), named=False)

    def join_all(self) -> None:
        for seat in self.seats:
            self.join(seat)
        for seat in self.seats:
            self.inbox[seat].clear()

    def say(
        self, seat: Seat, message: bytes, *, named: bool = True, now: float = 0.0
    ) -> list[Effect]:
        sender = seat.name if named else b"\0abcd"
        return self.take(self.scheduler.heard(seat, sender, message, now))

    def in_hall(self, seat: Seat, message: bytes) -> list[Effect]:
        """The same, on the port of all."""
        return self.take(self.scheduler.heard(HALL, seat.name, message, 0.0))

    def wait_at(self, group: int, *seats: Seat, now: float = 0.0) -> None:
        for seat in seats:
            self._timestamp += 1
            self.say(seat, barrier(group, self._timestamp), now=now)

    def start(self) -> None:
        """All join, and pass the first barrier of everyone."""
        self.join_all()
        self.wait_at(EVERYONE, *self.seats)
        assert self.released() == self.seats

    def released(self) -> list[Seat]:
        """Who has been let through a barrier since the last look."""
        through = []
        for seat, messages in self.inbox.items():
            if any(m.control.cmd == Command.BARRIER and not m.request for m in messages):
                through.append(seat)
            messages.clear()
        return through

    def refusals(self) -> list[str]:
        return [e.text for e in self.effects if isinstance(e, Refused)]

    def passed(self) -> list[tuple[int, int]]:
        return [(e.group, e.nth) for e in self.effects if isinstance(e, Passed)]
