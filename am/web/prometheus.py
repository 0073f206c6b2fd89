"""The status document as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from yarnps.status import STATES, Process, Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PROCESS = ("role", "rank", "node")


class _Collector:
    """Reads the status when it is asked, so nothing has to be kept up to date."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def describe(self) -> Sequence[Metric]:
        """Nothing in advance: registration must not build a status."""
        return ()

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield from _job(status)
        yield from _progress(status)
        yield from _processes(status.processes)
        yield from _tables(status.processes)


def exposition(status: Callable[[], Status]) -> Callable[[], bytes]:
    """A function that gives the text of all metrics as they are at that moment.

    Its registry is its own: nothing of the process is in it but the job's status.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(status))
    return lambda: generate_latest(registry)


def _gauge(name: str, text: str, value: float | None) -> Iterator[Metric]:
    if value is not None:
        yield GaugeMetricFamily(f"yarnps_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Iterator[Metric]:
    yield CounterMetricFamily(f"yarnps_{name}", text, value=value)


def _job(status: Status) -> Iterator[Metric]:
    facts = ("application", "name", "user", "cluster", "queue", "runtime", "app", "attempt")
    info = GaugeMetricFamily("yarnps_job_info", "What this job is; always 1.", labels=facts)
    info.add_metric([str(getattr(status, fact)) for fact in facts], 1)
    yield info
    states = GaugeMetricFamily("yarnps_job_state", "1 for the state of the job.", labels=["state"])
    for state in STATES:
        states.add_metric([state], float(state == status.state))
    yield states
    metric = GaugeMetricFamily("yarnps_metric", "Newest value of a metric.", labels=["metric"])
    for name, value in status.metrics.items():
        metric.add_metric([name], value)
    yield metric
    yield from _gauge("job_started_seconds", "Start of the job, Unix time.", status.started)
    yield from _gauge("generation", "Grows at every rollback or resume.", status.generation)
    yield from _gauge(
        "last_cut_seconds", "Time of the newest cut, Unix time.", status.last_cut_time
    )
    yield from _gauge(
        "am_loop_lag_seconds", "Lag of the ApplicationMaster's loop.", status.am_loop_lag_s
    )
    yield from _counter("restarts", "Deaths of workers and servers.", status.restarts)
    yield from _counter("am_restarts", "Returns of the ApplicationMaster.", status.am_restarts)


def _progress(status: Status) -> Iterator[Metric]:
    p = status.progress
    # Rows and splits go back at a rollback, so they are gauges.
    yield from _gauge("epoch", "The epoch that is being trained or evaluated.", p.epoch)
    yield from _gauge("epochs", "Epochs to train.", p.epochs)
    yield from _gauge("rows", "Rows committed in the ledger.", p.rows)
    yield from _gauge("rows_expected", "Rows of all epochs, estimated.", p.rows_total)
    yield from _gauge("splits_done", "Splits that are done.", p.splits_done)
    yield from _gauge("splits_expected", "Splits of all.", p.splits_total)
    yield from _gauge("splits_leased", "Splits that are leased.", p.splits_leased)
    yield from _gauge("progress_ratio", "How much of the job is done, 0 to 1.", p.fraction)
    yield from _gauge("rows_per_second", "Rows committed per second.", p.rows_per_s)
    yield from _gauge("time_left_seconds", "Estimated time to the end.", p.seconds_left)
    yield from _gauge("bad_records", "Records that could not be parsed.", p.bad_records)
    yield from _gauge("lost_rows", "Rows whose pushes were lost with servers.", status.lost_rows)
    yield from _gauge("skipped_splits", "Splits given up.", p.skipped_splits)


def _processes(processes: Sequence[Process]) -> Iterator[Metric]:
    up = GaugeMetricFamily("yarnps_process_up", "1 while it is running.", labels=_PROCESS)
    deaths = CounterMetricFamily("yarnps_process_deaths", "Deaths of a rank.", labels=_PROCESS)
    gauges = (
        ("cpu_percent", "cpu_percent", "Use of processor, percent of one core."),
        ("memory", "memory_bytes", "Resident memory."),
        ("memory_peak", "memory_peak_bytes", "Peak of the resident memory."),
        ("memory_limit", "memory_limit_bytes", "Memory of the container."),
        ("rows_per_s", "rows_per_second", "Rows trained per second."),
        ("clock", "clock", "Count of batches."),
        ("idle_s", "waited_seconds", "Waited for input, pulls or the gate, in this start."),
        ("last_heard", "last_heard_seconds", "When it was last heard of, Unix time."),
    )
    families = {
        field: GaugeMetricFamily(f"yarnps_process_{name}", text, labels=_PROCESS)
        for field, name, text in gauges
    }
    for process in processes:
        labels = [process.role, str(process.rank), process.node]
        up.add_metric(labels, float(process.state == "running"))
        deaths.add_metric(labels, process.deaths)
        for field, family in families.items():
            value = getattr(process, field)
            if value is not None:
                family.add_metric(labels, value)
    yield from (up, deaths, *families.values())


def _tables(processes: Sequence[Process]) -> Iterator[Metric]:
    labels = ["server", "table"]
    gauges = {
        "rows": "Rows of a table on a server.",
        "bytes": "Memory of a table on a server.",
        "ignored": "New rows of a table for which there was no memory.",
        "evicted": "Rows of a table that made room for others.",
        "expired": "Rows of a table that were not pushed for too long.",
        "waiting": "Keys of a table that were not yet seen often enough for a row.",
        "nonfinite": "Rows of gradients for a table with NaN or infinity in them.",
    }
    for field, text in gauges.items():
        family = GaugeMetricFamily(f"yarnps_table_{field}", text, labels=labels)
        for process in processes:
            for table in process.tables:
                family.add_metric([str(process.rank), table.name], getattr(table, field))
        yield family
