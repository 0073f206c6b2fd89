"""Which inputs of a job's state machine have to outlive the ApplicationMaster's process."""

from __future__ import annotations

from yarnps.am import inputs as i
from yarnps.am.actions import Action, Log

# Messages that only carry figures.
_FIGURES = ("heartbeat", "stats", "event")

# That a node of ps-lite gets: two with PS_RESEND.
HEARTBEAT_ANSWERS = 2


def durable(event: i.Input, actions: list[Action]) -> bool:
    """Whether the journal has to hold an input, from which `actions` have followed."""
    if isinstance(event, i.Ticked):
        return bool(actions)  # also a mere log entry: a phase begins that nobody is told of yet
    if isinstance(event, i.AgentWent):
        return any(not isinstance(action, Log) for action in actions)
    if isinstance(event, i.AgentSaid):
        kind = event.message.WhichOneof("kind")
        if kind == "role":
            kind = event.message.role.message.WhichOneof("kind")
        return kind not in _FIGURES
    # A heartbeat is always answered, so most other words need no second look.
    if isinstance(event, i.NodeSaid) and 0 < len(actions) <= HEARTBEAT_ANSWERS:
        return not _is_heartbeat(event)
    return True


def _is_heartbeat(event: i.NodeSaid) -> bool:
    from yarnps.pslite.wire import is_heartbeat  # only where there are such programs

    return is_heartbeat(event.message)
