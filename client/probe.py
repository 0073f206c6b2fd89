"""Trying the Python of a job in a real container, without the job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from yarnps._errors import YarnpsError
from yarnps.client import environments, exits
from yarnps.client.doctor import BAD, OK, Finding, vcores_finding
from yarnps.client.output import Say, duration

MEMORY, VCORES = 512 << 20, 2
PROBE_LIMIT_S = 300.0
LOGS_LIMIT_S = 30.0
SAYS = "yarnps probe:"
SCRIPT = f"""\
"$PYTHON" -c 'import platform, socket, sys
print("{SAYS} Python", platform.python_version(), "at", sys.executable, "on", socket.gethostname())
import numpy, numba, grpc, zmq
print("{SAYS} numpy", numpy.__version__, "numba", numba.__version__)'
"""


def probe(environment: str | None, folder: Path, queue: str, say: Say) -> Iterator[Finding]:
    """Run the environment's interpreter in one container of the cluster."""
    from yarnps.client.cache import ArchiveCache
    from yarnps.client.driver import Driver
    from yarnps.client.submission import CACHE
    from yarnps.client.yarn_job import YarnView
    from yarnps.files import home_address

    cache = ArchiveCache(f"{home_address().rstrip('/')}/{CACHE}", say)
    ready = environments.prepare(environment, folder, cache, say)
    specification = {
        "name": "yarnps-probe",
        "queue": queue or "default",
        "max_attempts": 1,
        "tags": ["yarnps-probe"],
        "master": {
            "resources": {"memory": "512 MiB", "vcores": VCORES},
            "files": dict(ready.files),
            "env": dict(ready.env),
            "script": "\n".join([*ready.script(), SCRIPT]),
        },
    }
    started = time.monotonic()
    with Driver() as driver:
        application = driver.submit(specification)
        say(f"probe: {application}")
        view = YarnView(application)
        while True:
            report = view.report()
            if report.ended:
                break
            if time.monotonic() - started > PROBE_LIMIT_S:
                driver.kill(application)
                text = f"did not end within {duration(PROBE_LIMIT_S)}: {report.diagnostics}"
                yield Finding("probe", BAD, text, "The queue may be full: yarnps doctor.")
                return
            time.sleep(1.0)
    outcome = exits.outcome_of_report(report)
    words = _words(application)
    if outcome.state == "SUCCEEDED":
        took = duration(time.monotonic() - started)
        yield Finding("probe", OK, f"{words or 'the interpreter works in a container'} ({took})")
    else:
        yield Finding("probe", BAD, words or outcome.cause, exits.ENVIRONMENT_REMEDY)
    if report.memory_seconds and report.vcore_seconds:
        seconds = report.memory_seconds / MEMORY  # at least: memory may have been rounded up
        yield vcores_finding(report.vcore_seconds / seconds > (1 + VCORES) / 2)


def _words(application: str) -> str:
    """What the probe said, from the aggregated logs; they come some seconds after the end."""
    from yarnps.client import logs

    deadline = time.monotonic() + LOGS_LIMIT_S
    while time.monotonic() < deadline:
        try:
            text = "\n".join(f.read() for f in logs.aggregated(application))
        except YarnpsError:
            time.sleep(2.0)
            continue
        said = [x for x in text.splitlines() if x.startswith("yarnps")]
        return "; ".join(line.removeprefix(SAYS).strip() for line in said)
    return ""
