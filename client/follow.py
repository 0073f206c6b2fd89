"""Following a job, as a state machine without I/O: what was seen goes in, lines come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yarnps.client import exits
from yarnps.client.output import clock, count, duration, size

if TYPE_CHECKING:
    from yarnps.client.job import Sight
    from yarnps.client.rm import Report
    from yarnps.status import Event, Outcome, Status

# Without a terminal, a line this often says that all is well.
LINE_EVERY_S = 30.0
# Nothing at all could be seen for so long: the follower gives up, the job does not.
LOST_AFTER_S = 90.0
# An ended job's processes get this long to go before the follower stops waiting for that.
GONE_AFTER_S = 45.0
# The RM knows first that an application is over; the last status may be written a moment later.
WORD_AFTER_S = 5.0


@dataclass(frozen=True)
class End:
    """Following is over.

    Attributes
    ----------
    code
        Exit status.
    outcome
        How the job ended; None: it may still run, sight of it was lost.
    """

    code: int
    outcome: Outcome | None
    sentence: str


class Follow:
    """What is worth saying about a job, and when there is nothing more to say.

    Parameters
    ----------
    application
        The job's id.
    now
        Seconds on any clock that does not jump; the same clock goes into `see`.
    """

    def __init__(self, application: str, now: float) -> None:
        self.application = application
        self.end: End | None = None
        self.status: Status | None = None
        self.last_event = 0
        self._seen_at = now
        self._said_at = now
        self._said = ""
        self._state = ""
        self._trouble = ""
        self._over_since: float | None = None

    def see(self, sight: Sight, now: float) -> list[str]:
        """Take in what was seen; returns the lines to print, oldest first."""
        lines: list[str] = []
        if sight.status is not None:
            self.status = sight.status
            lines += self._new_events(sight.status)
        if sight.status or sight.report or sight.gone:
            self._seen_at = now
        lines += self._changes(sight)
        self.end = self._ended(sight, now)
        if self.end is None and not lines and now - self._said_at >= LINE_EVERY_S:
            lines.append(self.line(sight, now))
        if lines:
            self._said_at = now
        return lines

    # ------------------------------------------------------------ what to say

    def _new_events(self, status: Status) -> list[str]:
        new = [e for e in status.events if e.seq > self.last_event]
        if new:
            self.last_event = new[-1].seq
        return [event_line(e) for e in new]

    def _changes(self, sight: Sight) -> list[str]:
        """Lines for what differs from the last look, apart from events."""
        if sight.status is not None:
            # How it ended is said once, by whoever asked to follow it.
            text = sight.status.sentence if sight.status.outcome is None else ""
            state = sight.status.state
        elif sight.report is not None and not sight.report.ended and not self._outcome():
            text = state = report_line(sight.report, sight.note)
        else:
            text, state = "", self._state
        lines = [text] if text and state != self._state else []
        self._state = state
        trouble = "" if sight.status and sight.live else sight.trouble
        if trouble and trouble != self._trouble and not sight.gone:
            lines.append(trouble)
        self._trouble = trouble
        return lines

    def line(self, sight: Sight, now: float) -> str:
        """One line on how it is."""
        if sight.status is not None:
            return sight.status.sentence
        if sight.report is not None:
            return report_line(sight.report, sight.note)
        blind = duration(now - self._seen_at)
        return f"nothing could be seen of the job for {blind}: {sight.trouble or 'no answer'}"

    # ------------------------------------------------------------ when to stop

    def _outcome(self) -> Outcome | None:
        """The job's last word, once it has been heard: the AM goes before the application does."""
        return self.status.outcome if self.status else None

    def _ended(self, sight: Sight, now: float) -> End | None:
        outcome = self._outcome()
        over = sight.gone or (sight.report is not None and sight.report.ended)
        if outcome is not None or over:
            self._over_since = now if self._over_since is None else self._over_since
            waited = now - self._over_since
            if outcome is not None and (over or waited >= GONE_AFTER_S):
                return End(exits.exit_code(outcome), outcome, _last_words(self.status, outcome))
            if over and waited >= WORD_AFTER_S:
                return self._without_word(sight)
            return None
        self._over_since = None
        if now - self._seen_at >= LOST_AFTER_S:
            text = self.line(sight, now)
            return End(exits.LOST, None, f"{text}\n{how_to_attach(self.application)}")
        return None

    def _without_word(self, sight: Sight) -> End:
        """The job is over and its ApplicationMaster left no word on how."""
        from yarnps.status import Outcome

        if sight.report is not None:
            outcome = exits.outcome_of_report(sight.report)
        else:
            tail = f"; its last words:\n{sight.trouble}" if sight.trouble else ""
            outcome = Outcome("FAILED", f"the ApplicationMaster died{tail}", "am")
        return End(exits.exit_code(outcome), outcome, _last_words(None, outcome))


def _last_words(status: Status | None, outcome: Outcome) -> str:
    if status is not None:
        text = status.sentence
    else:
        text = f"{outcome.state.capitalize()}: {outcome.cause}" if outcome.cause else outcome.state
    if outcome.traceback and outcome.traceback.strip() not in text:
        text = f"{text}\n{outcome.traceback.rstrip()}"
    return text


def how_to_attach(application: str) -> str:
    """The line that a person needs when a client goes and the job stays."""
    return f"The job runs on. Watch it again: yarnps attach {application}"


def event_line(event: Event) -> str:
    """One event as a line of text."""
    who = f" {event.role} {event.rank}:" if event.role and event.rank is not None else ""
    text = event.text if who.strip(": ") in event.text else f"{who} {event.text}".strip()
    return f"{clock(event.time)}  {event.kind:<10}  {text}"


def report_line(report: Report, note: str = "") -> str:
    """The resource manager's view as text; its diagnostics are verbatim."""
    parts = [f"{report.state} in queue {report.queue}"]
    if report.containers:
        memory = size(report.memory)
        parts.append(f"{count(report.containers)} containers, {memory}, {report.vcores} vcores")
    if note:
        parts.append(note)
    text = "; ".join(parts)
    return f"{text}\n  {report.diagnostics}" if report.diagnostics else text
