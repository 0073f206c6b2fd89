"""What the job's state machine asks of a runtime whose programs know nothing of yarnps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from yarnps.am import inputs as i
from yarnps.am.actions import Action
from yarnps.am.resources.decisions import Decision, Died, Expiry, StartProcess, Work

if TYPE_CHECKING:
    from yarnps.pslite.scheduler import Round  # only where there are such programs


class Programs(ABC):
    """The programs of one job. No I/O, no clock."""

    @abstractmethod
    def start(self, order: StartProcess) -> list[Action]:
        """A container is there for the program of a rank."""

    def port_opened(self, event: i.PortOpened) -> list[Action]:
        """The port for a node of ps-lite is there."""
        return []

    def port_lost(self, event: i.PortLost) -> tuple[str, int] | None:
        """Whose node of ps-lite has to start again, as a port is lost."""
        return None

    def heard(self, event: i.NodeSaid, now: float) -> list[Action]:
        """A message of a node of ps-lite has come."""
        return []

    def round(self, group: int) -> Round | None:
        """What a barrier of nodes of ps-lite is, if it leaves no trace; asked in any thread."""
        return None

    def tracker_up(self, event: i.TrackerUp, now: float) -> list[Action]:
        """The tracker of XGBoost's workers is there."""
        return []

    def tracker_down(self, event: i.TrackerDown, now: float) -> tuple[list[Action], list[Decision]]:
        """It is gone."""
        return [], []

    def returned(self, now: float) -> list[Action]:
        """The ApplicationMaster's process is back: what it had begun and not done."""
        return []

    @abstractmethod
    def work(self, role: str, rank: int) -> Work:
        """What the end of a program means, if it is an end with exit status 0."""

    @abstractmethod
    def ended_well(self, role: str, rank: int, now: float) -> list[Action]:
        """A program is through."""

    @abstractmethod
    def died(self, died: Died, now: float) -> tuple[list[Action], list[Decision]]:
        """A program, or its container, is gone."""

    @abstractmethod
    def over(self, now: float) -> bool:
        """Whether everything has ended, or has had its time."""

    @abstractmethod
    def overdue(self, now: float) -> list[Expiry]:
        """Who keeps the others waiting for too long."""

    @abstractmethod
    def has_joined(self, role: str, rank: int) -> bool:
        """Whether a rank's program counts as up, once it runs."""

    @property
    @abstractmethod
    def state(self) -> str:
        """In the words of `yarnps.status.STATES`."""

    @abstractmethod
    def waits(self, now: float) -> list[str]:
        """What has been waited for for long, for people."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """As JSON-ready data."""

    @abstractmethod
    def restore(self, data: dict[str, Any]) -> None:
        """The inverse of `snapshot`."""
