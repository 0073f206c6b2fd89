"""Distributed XGBoost: what `specs/xgboost.yaml` runs in each worker.

All that is yarnps' here is where the rows come from (`yarnps.shard`) and where files go
(`yarnps.files`). The variables DMLC_TRACKER_URI, DMLC_TRACKER_PORT and DMLC_TASK_ID say where
XGBoost's tracker is, as they always have.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import scipy.sparse
import xgboost
from xgboost.callback import TrainingCallback
from xgboost.collective import CommunicatorContext, Op, allreduce, get_rank

import yarnps
from yarnps.data import Rows
from yarnps.files import open_files


def main() -> None:
    """Train, and write the model and its checkpoints into the job directory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--every", type=int, default=4, help="rounds from checkpoint to checkpoint")
    asked = parser.parse_args()

    train, test = yarnps.shard("train").rows(), yarnps.shard("test").rows()
    params = {
        "objective": "binary:logistic",
        "eval_metric": "auc",
        "max_depth": asked.depth,
        "eta": asked.rate,
        "min_child_weight": 20,
        "nthread": int(os.environ["OMP_NUM_THREADS"]),
    }
    with CommunicatorContext(**tracker()):
        # The matrices of all workers have to have as many columns: one more than the largest key.
        largest = max((rows.keys.max(initial=0) for rows in (train, test)), default=0)
        columns = int(allreduce(np.array([largest]), Op.MAX)[0]) + 1
        checkpoint = Checkpoint(asked.every)
        done, begun = checkpoint.load()
        print(f"worker {get_rank()}: {len(train)} rows, from round {done} on", flush=True)
        model = xgboost.train(
            params,
            matrix(train, columns),
            asked.rounds - done,
            evals=[(matrix(test, columns), "test")],
            xgb_model=begun,
            callbacks=[checkpoint],
            verbose_eval=get_rank() == 0,
        )
        if get_rank() == 0:
            write("model.json", model.save_raw("json"))
            print(f"the model is {os.environ['YARNPS_JOB_DIR']}/model.json", flush=True)


def tracker() -> dict[str, str | int]:
    """What XGBoost wants to know of its tracker."""
    return {
        "dmlc_tracker_uri": os.environ["DMLC_TRACKER_URI"],
        "dmlc_tracker_port": int(os.environ["DMLC_TRACKER_PORT"]),
        "dmlc_task_id": os.environ["DMLC_TASK_ID"],
    }


def matrix(rows: Rows, columns: int) -> xgboost.DMatrix:
    """Rows as XGBoost takes them."""
    parts = (rows.values, rows.keys, rows.indptr)
    return xgboost.DMatrix(scipy.sparse.csr_matrix(parts, shape=(len(rows), columns)), rows.labels)


class Checkpoint(TrainingCallback):
    """Saves the model every few rounds, so that a restart of all goes on from there."""

    NAME = "checkpoint.json"

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every

    def load(self) -> tuple[int, xgboost.Booster | None]:
        """The rounds that are done, and the model of them."""
        files, path = place(self.NAME)
        if not files.exists(path):
            return 0, None
        model = xgboost.Booster()
        model.load_model(bytearray(files.read_bytes(path)))
        return model.num_boosted_rounds(), model

    def after_iteration(self, model: xgboost.Booster, epoch: int, evals_log: object) -> bool:
        """Called by XGBoost after each round; true ends the training."""
        if get_rank() == 0 and model.num_boosted_rounds() % self.every == 0:
            write(self.NAME, model.save_raw("json"))
        return False


def place(name: str) -> tuple[yarnps.files.Files, str]:
    """A file of the job directory: its file system, and its path there."""
    return open_files(f"{os.environ['YARNPS_JOB_DIR']}/{name}")


def write(name: str, data: bytearray) -> None:
    """Write a file whole, or not at all."""
    files, path = place(name)
    files.write_bytes(path, bytes(data), overwrite=True)


if __name__ == "__main__":
    main()
