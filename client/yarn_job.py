"""A job on YARN as a client sees it: its ApplicationMaster first, else the resource manager."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from yarnps._errors import ClusterError, InputError, YarnpsError
from yarnps.client import exits, hadoop_conf, rm
from yarnps.client.job import FilesStore, JobView, Sight, Store
from yarnps.client.output import size

if TYPE_CHECKING:
    from yarnps.client.credentials import Credentials
    from yarnps.client.rm import Queue, Report
    from yarnps.status import Status

JOB_DIRS = ".yarnps"
# While the AM answers, the RM is asked this seldom.
REPORT_EVERY_S = 5.0


def default_job_dir(application: str) -> str:
    """Where a job's directory is when the job file does not say."""
    from yarnps.files import home_address

    return f"{home_address().rstrip('/')}/{JOB_DIRS}/{application}"


def reports(*, all_states: bool, user: str | None) -> list[Report]:
    """Our applications on the cluster, oldest first."""
    try:
        manager = rm.ResourceManager.of(hadoop_conf.load())
        return manager.applications(all_states=all_states, user=user)
    except rm.RmRefused:
        from yarnps.client.driver import Driver

        with Driver() as driver:
            return driver.applications(all_states=all_states, user=user)


class YarnView(JobView):
    """A job on YARN.

    Parameters
    ----------
    job_dir
        The job directory, when it is not the default one.
    credentials
        The application's pair, known to the one who submitted it.
    """

    kind = "yarn"

    def __init__(
        self,
        application: str,
        *,
        job_dir: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(application, credentials)
        self._job_dir = job_dir
        self._store: Store | None = None
        self.manager = rm.ResourceManager.of(hadoop_conf.load())
        self._report: Report | None = None
        self._note = ""
        self._last_words = ""
        self._reported_at = 0.0

    def store(self) -> Store:
        if self._store is None:
            self._store = FilesStore(self._job_dir or default_job_dir(self.application))
        return self._store

    def look(self, events_after: int = 0) -> Sight:
        trouble = ""
        status: Status | None = None
        try:
            status, trouble = self.ask_am(events_after)
        except (YarnpsError, OSError, ValueError) as error:
            trouble = str(getattr(error, "what", error))
        live = status is not None
        report: Report | None = None
        if not live or (status is not None and status.outcome is not None) or self._report_is_old():
            try:
                report = self._ask_rm()
            except InputError:
                raise
            except YarnpsError as error:
                trouble = trouble or error.what
        if report is not None and report.ended:
            # Written before the application ended, so it is the last word.
            try:
                status = self.recorded() or status
            except (YarnpsError, OSError) as error:
                trouble = str(getattr(error, "what", error))
            if status is None and exits.no_environment(report.diagnostics):
                report = self._with_last_words(report)
            return Sight(status=status, report=report, gone=True, trouble=trouble)
        return Sight(status=status, live=live, report=report, note=self._note, trouble=trouble)

    def _with_last_words(self, report: Report) -> Report:
        """YARN only says that a script failed; what the script said is in its log."""
        from yarnps.client import last_words

        self._last_words = self._last_words or last_words.of_master(self)
        diagnostics = f"{report.diagnostics}\n{self._last_words}".strip()
        return dataclasses.replace(report, diagnostics=diagnostics)

    def am_expected(self) -> bool:
        try:
            return self.report().state == "RUNNING"
        except ClusterError:
            return False

    def force_kill(self, reason: str) -> None:
        from yarnps.client.driver import Driver

        with Driver() as driver:
            driver.kill(self.application)

    def report(self) -> Report:
        """The RM's view.

        Raises
        ------
        InputError
            The RM knows no such application.
        ClusterError
            The RM cannot be reached.
        """
        try:
            try:
                return self.manager.application(self.application)
            except rm.RmRefused:
                from yarnps.client.driver import Driver

                with Driver() as driver:
                    return driver.application(self.application)
        except KeyError:
            raise InputError(
                f"the resource manager knows no such application: {self.application}",
                "`yarnps list --all` shows the jobs it knows.",
            ) from None

    def _report_is_old(self) -> bool:
        return time.monotonic() - self._reported_at > REPORT_EVERY_S

    def _ask_rm(self) -> Report:
        self._report = self.report()
        self._reported_at = time.monotonic()
        self._note = "" if self._report.ended else self._queue_note(self._report.queue)
        return self._report

    def _queue_note(self, name: str) -> str:
        try:
            queue = rm.find_queue(self.manager.queues(), name)
        except (ClusterError, KeyError):
            return ""
        return "" if queue is None else queue_text(queue)


def queue_text(queue: Queue) -> str:
    """What a queue has used of its limit, and its AM share."""
    parts = []
    if queue.used_memory is not None and queue.max_memory:
        parts.append(f"queue uses {size(queue.used_memory)} of {size(queue.max_memory)}")
    elif queue.used_percent is not None:
        parts.append(f"queue uses {queue.used_percent:.0f} % of {queue.max_percent or 100:.0f} %")
    if queue.am_used_memory is not None and queue.am_limit_memory is not None:
        used, limit = size(queue.am_used_memory), size(queue.am_limit_memory)
        parts.append(f"ApplicationMasters {used} of {limit}")
    if queue.pending_applications:
        parts.append(f"{queue.pending_applications} applications wait")
    return ", ".join(parts)
