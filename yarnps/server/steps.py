"""Bulk synchronous parallel training by parts, as a server keeps it.

Every step of an epoch has P parts. A worker that holds a part pushes what it computed and then
announces the part; the server holds the pushes. When all parts have announced themselves, or have
nothing more in this epoch, the step is closed: what they pushed is added up in the order of the
parts, and the optimizers run once. So a step's result does not depend on who computed which part,
or in which order the parts came. With `spare` parts (backup workers, Chen et al. 2016), a step is
closed when all but so many are there; a batch that comes too late is done again in a later step.

No sockets and no clock: `yarnps.server.service` asks what to do with each message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.wire import Code, Header, Message, Op, WireError

log = logging.getLogger(__name__)


# What may be asked in a step; a push that is answered with what comes of it cannot be.
READS = (Op.PULL, Op.CONTAINS)
OPERATIONS = (*READS, Op.PUSH, Op.ASSIGN, Op.ANNOUNCE, Op.END_PART)


class Verdict(Enum):
    """What is to be done with a message of a step."""

    TAKE = "take"
    WAIT = "wait"  # its step is not open yet
    REPEATED = "repeated"  # applied already
    LATE = "late"  # its step was closed without it
    STALE = "stale"  # the part has been leased to somebody else
    ELSEWHERE = "elsewhere"  # its shards are another server's


class Place(NamedTuple):
    """How far a part is in one split."""

    batches: int
    rows: int


@dataclass
class Part:
    """What a server knows of one part in the present epoch.

    Attributes
    ----------
    batches
        Of its stream, applied here.
    reached
        The first step that it may still contribute to.
    splits
        Where it is in each split that it has begun.
    """

    batches: int = 0
    reached: int = 0
    ended: bool = False
    token: int = 0
    splits: dict[int, Place] = field(default_factory=dict)


class Contribution(NamedTuple):
    """What one part has pushed for the step that is open."""

    part: int
    rows: int
    pushes: list[Message]


@dataclass
class _Held:
    """A contribution that is being collected."""

    pushes: dict[tuple[int, bytes], Message] = field(default_factory=dict)
    token: int = 0
    rows: int = 0
    announced: bool = False
    place: tuple[int, Place] = (0, Place(0, 0))


class Steps:
    """The steps of the present epoch; see the module's text.

    Parameters
    ----------
    parts
        Parts of every step.
    spare
        A step is closed when all but so many live parts are there.
    apply
        Changes the tables: called with the contributions of a step, in the order of the parts,
        and how many steps there have been before, over all epochs.

    Attributes
    ----------
    epoch, closed
        The present epoch, and how many of its steps are closed: the number of the open one.
    late
        Messages that came when their step had been closed without them.
    """

    def __init__(
        self, parts: int, spare: int, apply: Callable[[list[Contribution], int], None]
    ) -> None:
        self._spare = spare
        self._apply = apply
        self._parts = [Part() for _ in range(parts)]
        self._held: dict[int, _Held] = {}
        self._limit: tuple[int, int] | None = None
        self._broken: WireError | None = None
        self._before = 0  # steps of the epochs before this one
        self.epoch = 0
        self.closed = 0
        self.late = 0

    # ------------------------------------------------------------ messages

    def judge(self, header: Header) -> Verdict:
        """What is to be done with a message that has `Flag.STEP`.

        Raises
        ------
        WireError
            It names a part that there is not, or a batch out of its order, or an earlier step
            could not be applied.
        """
        if self._broken is not None:
            raise self._broken
        if header.split >= len(self._parts):
            raise WireError(
                Code.BAD_MESSAGE, f"part {header.split} of {len(self._parts)} was named"
            )
        if header.epoch > self.epoch:
            if not self.finished:
                return Verdict.WAIT
            self.begin(header.epoch)
        pull = header.op in READS
        if header.epoch < self.epoch:
            return Verdict.TAKE if pull else Verdict.REPEATED
        part = self._parts[header.split]
        if header.token < part.token:
            return Verdict.STALE
        part.token = header.token
        if header.op == Op.END_PART:
            return Verdict.TAKE
        if header.clock > self.closed:
            part.reached = max(part.reached, header.clock)  # nothing of it comes for earlier steps
            return Verdict.WAIT
        if pull:
            return Verdict.TAKE
        if header.batch < part.batches:
            part.reached = max(part.reached, header.clock + 1)
            return Verdict.REPEATED
        if header.clock < self.closed:
            self.late += 1
            return Verdict.LATE
        if header.batch > part.batches:
            raise WireError(
                Code.BAD_MESSAGE,
                f"batch {header.batch} of part {header.split} came before batch {part.batches}",
            )
        return Verdict.TAKE

    def is_open(self, header: Header) -> bool:
        """Whether a read of a step need not wait."""
        if self._broken is not None or header.epoch < self.epoch:
            return True
        return header.epoch == self.epoch and header.clock <= self.closed

    def hold(self, message: Message) -> None:
        """Keep a push for the close of its step. The same push again changes nothing."""
        header = message.header
        held = self._held.setdefault(header.split, _Held())
        if held.announced:
            return  # it is whole, whoever sends it again
        if header.token > held.token:
            # Another worker has the part now: what the one before left undone is not needed.
            held.token = header.token
            held.pushes.clear()
        # A long push comes in pieces, each for some of the shards.
        held.pushes.setdefault((header.push, bytes(message.shards)), message)

    def announce(self, header: Header, split: int, place: Place) -> None:
        """A part has pushed all that it has for the open step: `header.weight` rows."""
        held = self._held.setdefault(header.split, _Held())
        held.announced = True
        held.rows = header.weight
        held.place = (split, place)

    def end(self, part: int) -> None:
        """A part has nothing more in this epoch."""
        self._parts[part].ended = True

    # ------------------------------------------------------------ closing

    @property
    def finished(self) -> bool:
        """Nothing more comes in this epoch."""
        waiting = any(held.announced for held in self._held.values())
        return self.epoch == 0 or (all(part.ended for part in self._parts) and not waiting)

    def begin(self, epoch: int) -> None:
        """The first word of a new epoch."""
        self._before += self.closed
        self.epoch, self.closed = epoch, 0
        self._held.clear()
        # Tokens grow over the whole job: whoever was too late stays so.
        self._parts = [Part(token=part.token) for part in self._parts]

    def _missing(self) -> list[int]:
        """The parts that the open step lacks."""
        return [number for number in range(len(self._parts)) if not self._is_there(number)]

    def _is_there(self, number: int) -> bool:
        part, held = self._parts[number], self._held.get(number)
        return part.ended or part.reached > self.closed or (held is not None and held.announced)

    @property
    def closable(self) -> bool:
        """Whether the open step can be closed now."""
        if self.at_limit:
            return False
        live = [number for number, part in enumerate(self._parts) if not part.ended]
        missing = self._missing()
        announced = any(held.announced for held in self._held.values())
        # Where all live parts may be spare, one of them has to be there all the same.
        allowed = min(self._spare, max(len(live) - 1, 0))
        return (announced or len(live) > len(missing)) and len(missing) <= allowed

    def close(self) -> None:
        """Close the open step: apply what is there; what comes for it from now on is late."""
        complete = [
            Contribution(number, held.rows, [held.pushes[key] for key in sorted(held.pushes)])
            for number, held in sorted(self._held.items())
            if held.announced
        ]
        try:
            self._apply(complete, self._before + self.closed)
        except WireError as error:
            # Its callers have gone on: whoever comes next hears of it, and the job fails by name.
            text = f"step {self.closed} of epoch {self.epoch} could not be applied: {error}"
            log.error("%s", text)
            self._broken = WireError(error.code, text)
        for number, _, _ in complete:
            part, (split, place) = self._parts[number], self._held[number].place
            part.batches += 1
            part.splits[split] = place
        self._held.clear()
        self.closed += 1

    def who_is_missing(self) -> str:
        """For the message of a wait that has reached its limit."""
        names = ", ".join(str(number) for number in self._missing()) or "none"
        return f"step {self.closed} of epoch {self.epoch} is open; parts that are missing: {names}"

    # ------------------------------------------------------------ cuts

    def stop_at(self, epoch: int, step: int) -> None:
        """Close no step of `epoch` beyond the first `step` ones until `go_on`."""
        if epoch > self.epoch and self.finished:
            self.begin(epoch)
        self._limit = (epoch, step)

    def go_on(self) -> None:
        """The cut is taken, or there will be none."""
        self._limit = None

    @property
    def at_limit(self) -> bool:
        """Whether the last step before the limit is closed."""
        return self._limit == (self.epoch, self.closed)

    def _ended_before(self, number: int) -> bool:
        """Whether a part has nothing for the open step: what is held for that is not saved."""
        held = self._held.get(number)
        return self._parts[number].ended and (held is None or not held.announced)

    def positions(self) -> pb.StepsAt:
        """Where the tables are, for the ApplicationMaster's ledger."""
        found = pb.StepsAt(epoch=self.epoch, closed=self.closed)
        for number, part in enumerate(self._parts):
            at = found.parts.add(batches=part.batches, ended=self._ended_before(number))
            for split, place in part.splits.items():
                at.splits.add(split=split, batches=place.batches, rows=place.rows)
        return found

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`.

        What is held for the open step is not part of it, and so nobody has gone beyond that step.
        """
        return {
            "before": self._before,
            "epoch": self.epoch,
            "closed": self.closed,
            "parts": [
                {
                    "batches": part.batches,
                    "ended": self._ended_before(number),
                    "token": part.token,
                    "splits": [[split, *place] for split, place in part.splits.items()],
                }
                for number, part in enumerate(self._parts)
            ],
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self._before = data["before"]
        self.epoch, self.closed = data["epoch"], data["closed"]
        self._held.clear()
        self._parts = [
            Part(**{**part, "splits": _places(part["splits"])}) for part in data["parts"]
        ]


def _places(splits: Iterable[list[int]]) -> dict[int, Place]:
    return {split: Place(batches, rows) for split, batches, rows in splits}
