"""What the messages of a BSP step do to the steps and their store."""

from __future__ import annotations

import numpy as np

from yarnps.protocol.wire import Code, Message, Op, WireError
from yarnps.server.contents import array
from yarnps.server.steps import OPERATIONS, Place, Steps, Verdict
from yarnps.server.store import Store


def take(steps: Steps, store: Store, message: Message) -> Verdict:
    """Take a message in, if it is its time; what is wrong with a push is said now.

    Raises
    ------
    WireError
        It is refused.
    """
    header = message.header
    if header.op not in OPERATIONS:
        raise WireError(
            Code.UNSUPPORTED,
            f"operation {Op(header.op).name} in a BSP batch: what is pushed counts when the step "
            "is closed",
        )
    verdict = steps.judge(header)
    if verdict is Verdict.REPEATED:
        store.duplicates += 1
    if verdict is not Verdict.TAKE:
        return verdict
    if header.op == Op.END_PART:
        steps.end(header.split)
    elif header.op == Op.ANNOUNCE:
        _announce(steps, message)
    elif header.op in (Op.PUSH, Op.ASSIGN):
        return _hold(steps, store, message)
    return verdict


def _announce(steps: Steps, message: Message) -> None:
    """Keys: the split that the part is in, with the batches and rows of it that are done."""
    keys = array(message.keys, np.dtype(np.int64))
    if len(keys) != 3:
        raise WireError(Code.BAD_MESSAGE, f"3 numbers are announced, {len(keys)} came")
    split, batches, rows = keys.tolist()
    steps.announce(message.header, split, Place(batches, rows))


def _hold(steps: Steps, store: Store, message: Message) -> Verdict:
    if not store.owns(store.sections(message)):
        return Verdict.ELSEWHERE
    found = store.gradient(message)
    store.table(message.header).nonfinite += found.nonfinite
    steps.hold(message)
    return Verdict.TAKE


def close(steps: Steps) -> bool:
    """Close the steps that have all their parts; whether there was one."""
    before = (steps.epoch, steps.closed)
    while steps.closable:
        steps.close()
    return (steps.epoch, steps.closed) != before
