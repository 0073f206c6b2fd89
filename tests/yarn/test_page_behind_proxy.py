"""The page as people reach it: through the ResourceManager's proxy and skein's."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Browser
from selenium.webdriver.support.ui import WebDriverWait

from yarnps.client.sandbox import Sandbox

HERE = Path(__file__).parent
LIMIT_S = 240.0


def specification(folder: Path) -> dict[str, Any]:
    python = f"PYTHONPATH=$PWD {sys.executable} page_am.py {folder}"
    return {
        "name": "page-test",
        "max_attempts": 1,
        "master": {
            "resources": {"memory": "1 GiB", "vcores": 1},
            "files": {
                "page_am.py": str(HERE / "page_am.py"),
                "made_statuses.py": str(HERE.parent / "am" / "web" / "made_statuses.py"),
            },
            "script": f"{python} || {python}",
        },
    }


@pytest.fixture
def application(on_sandbox: Sandbox, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A bare application whose master serves the page; ended after the test."""
    submit = subprocess.Popen(
        [sys.executable, str(HERE / "submit_bare.py"), str(LIMIT_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert submit.stdin is not None
    submit.stdin.write(json.dumps(specification(tmp_path)))
    submit.stdin.close()
    submit.stdin = None
    yield submit
    for name in ("seen-once", "seen-again"):
        (tmp_path / name).touch()
    submit.communicate(timeout=LIMIT_S)


def refused(address: str, method: str) -> int:
    request = urllib.request.Request(address, method=method)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=20)
    error.value.close()
    return error.value.code


@pytest.mark.timeout(600)
def test_the_page_lives_behind_the_proxies(
    application: subprocess.Popen[str], browser: Browser, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    started = WebDriverWait(browser.driver, LIMIT_S, poll_frequency=0.1)
    started.until(lambda _: kept.exists() or application.poll() is not None, "the page")
    where = json.loads(kept.read_text())
    address = where["address"]
    assert "/proxy/application_" in address
    assert where["prefix"] not in address

    browser.open(address)
    assert browser.text("#sentence") == "First."
    assert browser.texts(".metric-name") == ["test_auc", "test_logloss", "loss"]
    assert len(browser.texts("#rows tr")) == 5
    assert browser.run("return getComputedStyle(document.body).margin") == "0px"  # it has its CSS
    assert browser.complaints() == []
    assert refused(address, "PUT") == 405

    browser.run("window.same = true")
    (tmp_path / "seen-once").touch()  # the first process dies now
    back = "return document.getElementById('sentence').innerText === 'Back again.'"
    WebDriverWait(browser.driver, LIMIT_S).until(lambda _: browser.run(back), "the second process")
    assert browser.run("return window.same")
    with urllib.request.urlopen(f"{address}metrics", timeout=20) as reply:
        assert b"yarnps_rows 447300.0" in reply.read()

    (tmp_path / "seen-again").touch()
    out, errors = application.communicate(timeout=LIMIT_S)
    assert application.returncode == 0, errors
    assert json.loads(out)["final_status"] == "SUCCEEDED"
