"""Unmodified distributed XGBoost on the local cluster: deaths, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path

from local_run import LocalRun

ROUNDS = 8

# Nothing in it knows of yarnps. It says what it does in files, one for each start of each worker.
PROGRAM = """
import json, os, sys, time
from pathlib import Path
import numpy as np
import xgboost
from xgboost.callback import TrainingCallback
from xgboost.collective import CommunicatorContext, get_rank, get_world_size

brake, folder = Path(sys.argv[1]), Path(sys.argv[1]).parent
kept = folder / "checkpoint.json"
env = {name: value for name, value in os.environ.items() if name.startswith("DMLC_")}

class Keep(TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        if get_rank() == 0:
            model.save_model(folder / "new.json")
            (folder / "new.json").rename(kept)
        while brake.exists() and model.num_boosted_rounds() >= 3:
            time.sleep(0.05)
        return False

rng = np.random.default_rng(int(env["DMLC_TASK_ID"]))
x = rng.normal(size=(200, 3)).astype(np.float32)
data = xgboost.DMatrix(x, (x[:, 0] * x[:, 1] > 0).astype(np.float32))
with CommunicatorContext(
    dmlc_tracker_uri=env["DMLC_TRACKER_URI"],
    dmlc_tracker_port=int(env["DMLC_TRACKER_PORT"]),
    dmlc_task_id=env["DMLC_TASK_ID"],
):
    model, done = None, 0
    if kept.exists():
        model = xgboost.Booster(model_file=kept)
        done = model.num_boosted_rounds()
    said = {"rank": get_rank(), "world": get_world_size(), "done": done, "env": env}
    name = f"said-{env['DMLC_NUM_ATTEMPT']}-{env['DMLC_TASK_ID']}"
    (folder / name).write_text(json.dumps(said))
    params = {"objective": "binary:logistic", "nthread": 1, "max_depth": 3}
    xgboost.train(params, data, 8 - done, xgb_model=model, callbacks=[Keep()])
print("done", flush=True)
"""


def test_the_gang_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    block = {"runtime": "xgboost"}
    run = LocalRun(tmp_path / "gang", block, program=PROGRAM, servers=0, workers=2)
    run.brake.touch()
    with run:
        run.wait(lambda: rounds(run) == 3, "three rounds")
        assert run.status().state == "TRAINING"
        # The ApplicationMaster's death costs nobody anything: the tracker outlives it.
        before = run.kill("am")
        run.event("am_restart", after=before)
        assert len(run.events("tracker")) == 1
        # A worker's death starts all again, with a tracker of their own.
        before = run.kill("role", "worker", 1)
        run.event("death", role="worker", rank=1, after=before)
        run.event("tracker", "listens on port", after=before)
        run.wait(lambda: (run.folder / "said-1-0").exists(), "the second start")
        run.brake.unlink()
        assert run.outcome().state == "SUCCEEDED"
        said = {path.name: json.loads(path.read_text()) for path in run.folder.glob("said-*")}
        assert set(said) == {"said-0-0", "said-0-1", "said-1-0", "said-1-1"}
        for name, one in said.items():
            assert name.endswith(f"-{one['rank']}")  # ranks are those of the containers
            assert one["world"] == 2
            assert one["env"]["DMLC_NUM_WORKER"] == "2"
        assert (said["said-0-0"]["done"], said["said-1-0"]["done"]) == (0, 3)
        assert rounds(run) == ROUNDS
        assert [d.rank for d in run.events("death")] == [1]


def rounds(run: LocalRun) -> int:
    """How many rounds the checkpoint has."""
    path = run.folder / "checkpoint.json"
    if not path.exists():
        return 0
    model = json.loads(path.read_text())
    return len(model["learner"]["gradient_booster"]["model"]["trees"])
