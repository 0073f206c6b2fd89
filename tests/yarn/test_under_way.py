"""One job under way: its page behind the ResourceManager's proxy, and the ways to let go of it."""

from __future__ import annotations

import signal
import urllib.request
from pathlib import Path

import pytest
from browsing import Browser
from hdfs_input import Flights
from yarn_run import LIMIT_S, Client, Run, until, write_job, yarnps

from bench import processes
from yarnps.client.sandbox import Sandbox

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


def endless(folder: Path) -> Path:
    """A job that somebody has to end."""
    block = {
        "app": "ftrl",
        "params": {"alpha": 0.1},
        "data": {"train": "small/train/*", "format": "libsvm"},
        "train": {"epochs": 1000, "batch_rows": 20, "pace": "0.2 s"},
    }
    return write_job(folder, block)


def test_a_job_under_way(hadoop: Sandbox, small: Flights, browser: Browser, tmp_path: Path) -> None:
    """Its page survives the ApplicationMaster; its clients come and go; who kills it, ends it."""
    with Run(hadoop, endless(tmp_path / "under-way")) as run:
        run.training()
        page = run.event("page").text.rpartition(" ")[2]
        assert f"/proxy/{run.application}/" in page
        assert "200" in str(urllib.request.urlopen(run.rm()["trackingUrl"], timeout=20).status)
        look_at_the_page(run, browser, page)

        # Whoever goes leaves the job, and says how to come back.
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            client: Client = run if number == signal.SIGTERM else run.attach()
            watching(client)
            client.send(number)
            done = client.wait(60)
            assert done.code == 3, done.text
            assert f"yarnps attach {run.application}" in done.err
            assert "Traceback" not in done.text
            assert run.rm()["state"] == "RUNNING"

        # And one who only watches hears that it was killed, and by whom.
        watcher = run.attach()
        watching(watcher)
        assert yarnps("kill", run.application, "--reason", "enough of it").code == 0
        done = watcher.wait(60)
        assert done.code == 5, done.text
        assert "killed by" in done.err and "enough of it" in done.err
        said = run.rm()
        assert (said["state"], said["finalStatus"]) == ("FINISHED", "KILLED")
        assert "enough of it" in said["diagnostics"]
        assert yarnps("status", run.application, "-o", "json").json()["state"] == "KILLED"
        again = yarnps("kill", run.application)
        assert again.code == 0 and "has ended already: KILLED" in again.err


def watching(client: Client) -> None:
    """Until it shows how the job is."""
    until(lambda: "Training: epoch" in client.err, "the client's view", report=client.report)


def look_at_the_page(run: Run, browser: Browser, page: str) -> None:
    browser.open(page)
    assert browser.text("#state").upper() == "TRAINING"
    assert "epoch 1 of 1000" in browser.text("#sentence")
    assert len(browser.texts("#rows tr")) == 5
    assert set(run.sandbox.nodes) <= set(" ".join(browser.texts("#rows tr")).split())
    assert browser.complaints() == []

    browser.run("window.same = true")
    before = run.kill("am")
    back = run.event("am_restart", after=before)
    shown = "return document.body.innerText.includes(arguments[0])"
    browser.until("the page of the restarted ApplicationMaster", shown, back.text)
    assert browser.run("return window.same"), "the page was loaded again"
    assert "epoch 1 of 1000" in browser.text("#sentence")


def test_kill_on_exit(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    """Also while the job still waits for its ApplicationMaster."""
    with Run(hadoop, endless(tmp_path / "kill-on-exit"), (), "--kill-on-exit") as run:
        assert run.application
        run.send(signal.SIGTERM)
        done = run.wait(120)
        assert done.code == 5, done.text
        assert "Killed: " in done.err and run.application in done.err
        assert "Traceback" not in done.err
        said = until(lambda: run.rm() if run.rm()["finalStatus"] == "KILLED" else None, "the end")
        assert said is not None
        until(lambda: not processes.of_application(run.application), "the end of all processes")
