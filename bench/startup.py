"""From `yarnps submit` to the first acknowledged push, beside a bare skein application.

``python -m bench.startup [--repeats N] [--home SANDBOX]``

Both run on one sandbox, in turns, after one run of each that is not counted: the files that travel
are on the cluster, the compiled kernels on the nodes. The bare application is what anybody has to
wait for: skein's client starts, submits, and YARN runs the first command in the first container.
Prints lines ``name value unit``: medians, where the time of ours goes, and at last the difference.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from yarnps.client import sandbox as sandboxes
from yarnps.client.sandbox import Sandbox
from yarnps.files import open_files
from yarnps.jobdir import JobDir

REPEATS = 5
LIMIT_S = 300.0
TARGET_S = 6.0
ROWS, FEATURES, NONZEROS = 20_000, 10_000, 20
INPUT = "bench-startup/train"

# Submits one container whose first command notes the time; ends the application when it has.
BARE = """
import sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import skein
note = Path(sys.argv[1])
service = skein.Service(
    script=f"date +%s.%N > {note}.new && mv {note}.new {note}; sleep 60",
    resources=skein.Resources(memory="512 MiB", vcores=1),
)
spec = skein.ApplicationSpec(name="bare", services={"one": service}, max_attempts=1)
spec.master.security = skein.Security.new_credentials()
with skein.Client(log=False) as client:
    application = client.submit(spec)
    deadline = time.monotonic() + float(sys.argv[2])
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    client.kill_application(application)
sys.exit(0 if note.exists() else "no container came up")
"""


def bare() -> float:
    """Seconds to the first container of a bare application."""
    with tempfile.TemporaryDirectory(prefix="yarnps-bench-") as folder:
        note = Path(folder) / "started"
        began = time.time()
        command = [sys.executable, "-W", "ignore", "-c", BARE, str(note), str(LIMIT_S)]
        subprocess.run(command, check=True, timeout=LIMIT_S + 60, capture_output=True)
        return float(note.read_text()) - began


def ours(file: Path) -> dict[str, float]:
    """Seconds to each step of a job, up to the first acknowledged push."""
    began = time.time()
    command = [sys.executable, "-m", "yarnps.client.main", "submit", str(file)]
    done = subprocess.run(
        [*command, "--cluster", "yarn", "-o", "json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode:
        raise SystemExit(f"the job has failed:\n{done.stderr}")
    result = json.loads(done.stdout)
    steps = {"submitted": submitted_at(result["application"]) - began}
    firsts: dict[str, float] = {}
    for event in JobDir(result["job_dir"]).events():
        name = f"{event['kind']}_{event['role']}".rstrip("_")
        firsts.setdefault(name, event["time"] - began)
    for step, event_name in STEPS.items():
        steps[step] = firsts[event_name]
    return steps


# Our names of the steps, and the event that ends each.
STEPS = {
    "am_up": "start",
    "container_granted": "grant_server",
    "server_up": "up_server",
    "server_ready": "ready_server",
    "worker_up": "up_worker",
    "training_begins": "epoch",
    "first_push": "first_push_worker",
}


def submitted_at(application: str) -> float:
    """When YARN took the application."""
    from yarnps.client import hadoop_conf, rm

    report = rm.ResourceManager.of(hadoop_conf.load()).application(application)
    assert report.started is not None
    return report.started


def write_input() -> None:
    """A small made input in HDFS."""
    draw = random.Random(1)
    lines = []
    for _ in range(ROWS):
        keys = sorted(draw.sample(range(FEATURES), NONZEROS))
        lines.append(f"{draw.randint(0, 1)} " + " ".join(f"{key}:1" for key in keys))
    files, path = open_files(INPUT)
    files.write_bytes(path, ("\n".join(lines) + "\n").encode(), overwrite=True)


def write_job(folder: Path) -> Path:
    """The job: two servers and three workers, as in the main example."""
    size = {"memory": "640 MiB", "vcores": 1}
    document = {
        "name": "startup",
        "services": {
            "server": {"instances": 2, "resources": size},
            "worker": {"instances": 3, "resources": size},
        },
        "yarnps": {
            "app": "ftrl",
            "params": {"alpha": 0.1},
            "data": {"train": INPUT, "format": "libsvm"},
            "model": {"path": "bench-startup/model-{app}"},
        },
    }
    path = folder / "startup.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def measure(folder: Path, repeats: int) -> None:
    """Run both in turns and print the medians."""
    write_input()
    file = write_job(folder)
    pairs = [(bare(), ours(file)) for _ in range(repeats + 1)][1:]
    floor = statistics.median(seconds for seconds, _ in pairs)
    print(f"bare_first_container {floor:.2f} s")
    for step in ("submitted", *STEPS):
        print(f"yarnps_{step} {statistics.median(steps[step] for _, steps in pairs):.2f} s")
    over = statistics.median(steps["first_push"] - seconds for seconds, steps in pairs)
    print(f"startup_over_bare {over:.2f} s")
    print(f"startup_over_bare_target {TARGET_S:.2f} s", flush=True)


@contextmanager
def running(home: Path | None, folder: Path) -> Iterator[Sandbox]:
    """The sandbox in this home, or one of our own."""
    if home is not None:
        found = sandboxes.find_running(home)
        if found is None:
            raise SystemExit(f"no sandbox runs in {home}")
        yield found
        return
    try:
        yield sandboxes.start(folder / "sandbox")
    finally:
        sandboxes.stop(folder / "sandbox")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--home", type=Path, help="of a sandbox that runs already")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="yarnps-bench-") as name:
        folder = Path(name)
        with running(options.home, folder) as sandbox:
            os.environ.update(sandbox.environ(), YARNPS_HOME=str(folder / "client"))
            measure(folder, options.repeats)


if __name__ == "__main__":
    main()
