"""What tests of several folders share: one real browser, and MXNet."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import LIMIT_S, Browser
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).parents[1]

# A shell that runs tests in the background lets them ignore Ctrl-C, nohup a hang-up, and every
# program that they start inherits that: signals to those programs would then test the shell.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of a run."""
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if not all(programs):
        pytest.fail("the page is tested in a browser: apt-get install chromium chromium-driver")
    folder = tempfile.mkdtemp(prefix="yarnps-browser-")
    options = Options()
    options.binary_location = str(programs[0])
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(programs[1])))
    try:
        driver.set_page_load_timeout(LIMIT_S)
        yield Browser(driver)
    finally:
        driver.quit()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser at a desk, in daylight; on an empty page after the test."""
    chromium.screen(1280)
    yield chromium
    chromium.driver.get("about:blank")


@pytest.fixture(scope="session")
def mxnet() -> Path:
    """The interpreter of an environment with MXNet; made once for all sessions."""
    folder = ROOT / ".data" / "mxnet"
    script = [sys.executable, str(ROOT / "specs" / "mxnet_venv.py"), str(folder)]
    subprocess.run(script, check=True, timeout=280)
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def digits() -> Path:
    """Handwritten digits, as the specs read them."""
    file = ROOT / ".data" / "digits.npz"
    if not file.exists():
        script = [sys.executable, str(ROOT / "specs" / "digits_data.py"), str(file)]
        subprocess.run(script, check=True, timeout=100)
    return file
