"""What the page's server gives, to whom, and what it refuses."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import socket
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse
from importlib import resources
from pathlib import Path

import made_statuses as made
import pytest
from browsing import LIMIT_S, Served
from prometheus_client.parser import text_string_to_metric_families

from yarnps.am.web import server
from yarnps.am.web.server import Page
from yarnps.status import Point, Status, status_from_json

Serve = Callable[[Status], Served]


def ask(page: Served, path: str, method: str = "GET") -> tuple[HTTPResponse, str]:
    """The answer and its text; redirects are not followed."""
    connection = HTTPConnection("127.0.0.1", page.port, timeout=LIMIT_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def listening(port: int) -> set[str]:
    """Local addresses that listen on the port, as the kernel spells them."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                found.add(local.rpartition(":")[0])
    return found


def test_it_listens_on_loopback_only(serve: Serve) -> None:
    assert listening(serve(made.training()).port) == {"0100007F"}


def test_the_prefix_cannot_be_guessed_and_is_kept_when_given() -> None:
    first, second = Page(lambda _: made.training()), Page(lambda _: made.training())
    assert first.prefix != second.prefix
    assert len(first.prefix) >= 32
    assert Page(lambda _: made.training(), prefix=first.prefix).prefix == first.prefix


@pytest.mark.parametrize("path", ["/", "/status.json", "/metrics", "/x/", "/x/status.json"])
def test_without_the_prefix_there_is_nothing(serve: Serve, path: str) -> None:
    page = serve(made.training())
    answer, text = ask(page, path)
    assert answer.status == 404
    assert str(page.prefix) not in text


@pytest.mark.parametrize("name", ["../server.py", "%2e%2e/server.py", "server.py", "x.js"])
def test_other_files_are_not_given(serve: Serve, name: str) -> None:
    page = serve(made.training())
    assert ask(page, f"/{page.prefix}/{name}")[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("name", ["", "status.json", "metrics", "app.js"])
def test_only_get_is_there(serve: Serve, method: str, name: str) -> None:
    page = serve(made.training())
    answer, _ = ask(page, f"/{page.prefix}/{name}", method)
    assert (answer.status, answer.getheader("Allow")) == (405, "GET")


@pytest.mark.parametrize("name", ["", "status.json", "metrics", "style.css", "missing"])
def test_every_answer_says_what_a_browser_may_do(serve: Serve, name: str) -> None:
    page = serve(made.training())
    answer, _ = ask(page, f"/{page.prefix}/{name}")
    policy = answer.getheader("Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Referrer-Policy") == "no-referrer"
    assert answer.getheader("Cache-Control") == "no-store"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", "text/html; charset=utf-8"),
        ("index.html", "text/html; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml; charset=utf-8"),
        ("status.json", "application/json; charset=utf-8"),
    ],
)
def test_types_of_the_files(serve: Serve, name: str, kind: str) -> None:
    page = serve(made.training())
    answer, text = ask(page, f"/{page.prefix}/{name}")
    assert (answer.status, answer.getheader("Content-Type")) == (200, kind)
    assert text


def test_without_its_last_slash_the_address_leads_to_the_page(serve: Serve) -> None:
    page = serve(made.training())
    answer, _ = ask(page, f"/{page.prefix}")
    assert (answer.status, answer.getheader("Location")) == (307, f"{page.prefix}/")


def test_nobody_is_waited_for_who_does_not_look(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LAST_WORD_LIMIT_S", 600.0)  # longer than any test may take
    page = serve(made.training())
    ask(page, f"/{page.prefix}/status.json")  # a program, not an open page
    page.status = made.succeeded()
    page.stop()


def test_the_page_needs_nothing_from_elsewhere() -> None:
    for entry in resources.files("yarnps.am.web").iterdir():
        if not entry.name.endswith((".html", ".css", ".js")):
            continue
        text = entry.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text.replace("/^https?:\\/\\//i", "").replace("/^file:\\/\\//", "")
        for absolute in ('href="/', 'src="/', "url(/", 'from "/', "@import", "innerHTML", "eval("):
            assert absolute not in text, f"{entry.name} has {absolute}"


def test_the_document_is_the_status(serve: Serve) -> None:
    status = made.training()
    page = serve(status)
    _, text = ask(page, f"/{page.prefix}/status.json")
    assert status_from_json(text) == status


def test_only_newer_events_are_sent(serve: Serve) -> None:
    status = made.training()
    page = serve(status)
    last = status.events[-1].seq
    _, text = ask(page, f"/{page.prefix}/status.json?events_after={last - 2}")
    assert [event["seq"] for event in json.loads(text)["events"]] == [last - 1, last]
    _, text = ask(page, f"/{page.prefix}/status.json?events_after={last}")
    assert status_from_json(text) == dataclasses.replace(status, events=())


def test_a_wrong_event_number_is_named(serve: Serve) -> None:
    page = serve(made.training())
    answer, text = ask(page, f"/{page.prefix}/status.json?events_after=last")
    assert answer.status == 400
    assert text.startswith("events_after is not a number")


def test_values_that_are_not_finite_are_null(serve: Serve) -> None:
    curve = (Point(1.0, 0.5), Point(2.0, math.nan))
    page = serve(made.status(metrics={"loss": math.inf}, curves={"loss": curve}))
    _, text = ask(page, f"/{page.prefix}/status.json")
    document = json.loads(text, parse_constant=pytest.fail)
    assert document["metrics"] == {"loss": None}
    assert [point["value"] for point in document["curves"]["loss"]] == [0.5, None]


async def test_viewers_share_one_document() -> None:
    asked = []

    def status(events_after: int) -> Status:
        asked.append(events_after)
        return made.training()

    page = Page(status)
    port = await page.start()
    try:
        for after in (0, 3, 9):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            path = f"/{page.prefix}/status.json?events_after={after}"
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            assert b"200 OK" in await asyncio.wait_for(reader.readline(), LIMIT_S)
            writer.close()
            await writer.wait_closed()
    finally:
        await page.stop()
    assert asked == [0]


async def test_a_taken_port_gives_another_one(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        page = Page(lambda _: made.training())
        port = await page.start(taken)
        await page.stop()
    assert port not in (0, taken)
    assert f"port {taken} is not to be had" in caplog.text


async def test_the_port_is_had_again_after_a_stop() -> None:
    page = Page(lambda _: made.training())
    port = await page.start()
    await page.stop()
    again = Page(lambda _: made.training(), prefix=page.prefix)
    assert await again.start(port) == port
    await again.stop()


def metrics_of(page: Served) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by name, then by the values of the labels in the order of the labels' names."""
    answer, text = ask(page, f"/{page.prefix}/metrics")
    assert answer.getheader("Content-Type", "").startswith("text/plain")
    out: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            out.setdefault(sample.name, {})[
                tuple(sample.labels[k] for k in sorted(sample.labels))
            ] = sample.value
    return out


def test_prometheus_reads_the_job(serve: Serve) -> None:
    status = made.training()
    got = metrics_of(serve(status))
    assert got["yarnps_rows"] == {(): 447300.0}
    assert got["yarnps_rows_per_second"] == {(): 40812.0}
    assert got["yarnps_am_restarts_total"] == {(): 1.0}
    assert {s for (s,), on in got["yarnps_job_state"].items() if on} == {"TRAINING"}
    assert got["yarnps_metric"][("test_auc",)] == 0.7612
    assert got["yarnps_process_deaths_total"][("127.0.0.11", "2", "worker")] == 1.0
    assert got["yarnps_process_memory_limit_bytes"][("127.0.0.11", "0", "server")] == 2**30
    worker = next(p for p in status.processes if (p.role, p.rank) == ("worker", 0))
    assert got["yarnps_process_waited_seconds"][(worker.node, "0", "worker")] == worker.idle_s
    assert got["yarnps_table_rows"] == {("0", "w"): 524288.0, ("1", "w"): 524288.0}


def test_prometheus_gets_no_figure_that_is_not_known(serve: Serve) -> None:
    got = metrics_of(serve(made.starting()))
    assert "yarnps_rows_expected" not in got
    assert ("", "1", "worker") not in got.get("yarnps_process_cpu_percent", {})
    assert got["yarnps_process_up"][("", "1", "worker")] == 0.0


def test_labels_of_prometheus_are_escaped(serve: Serve) -> None:
    evil = 'a"b\\c\nd{x="1"} 9'
    got = metrics_of(serve(made.status(metrics={evil: 2.5, "loss": math.nan})))
    assert got["yarnps_metric"][(evil,)] == 2.5
    assert math.isnan(got["yarnps_metric"][("loss",)])
