"""`app: ftrl` end to end: accuracy, agreement of its metrics, warm start, stop, wrong labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jobs import Done, labels, predict, scores, submit, yarnps
from sklearn.datasets import load_svmlight_files
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

WITHIN = 1e-4


def test_metrics_agree_with_scikit_learn(specs: Path, first: Done, tmp_path: Path) -> None:
    """Of the distributed evaluation, of `predict`, and of scikit-learn on predict's scores."""
    test = specs / "flights" / "test"
    said = predict(first.model, test, tmp_path / "scores")
    found, truth = scores(tmp_path / "scores"), labels(test)
    assert said["rows"] == len(truth) == len(found)
    auc, loss = roc_auc_score(truth, found), log_loss(truth, found)
    assert first.metrics["test_auc"] == pytest.approx(auc, abs=WITHIN)
    assert first.metrics["test_logloss"] == pytest.approx(loss, abs=1e-6)
    assert said["metrics"]["auc"] == pytest.approx(auc, abs=1e-12)
    assert said["metrics"]["logloss"] == pytest.approx(loss, abs=1e-9)


def test_as_good_as_one_machine(specs: Path, first: Done) -> None:
    """Against scikit-learn on the same rows, with the better of some regularisations."""
    names = [
        str(p) for part in ("train", "test") for p in sorted((specs / "flights" / part).iterdir())
    ]
    loaded = load_svmlight_files(names)
    from scipy.sparse import vstack

    split = len(list((specs / "flights" / "train").iterdir()))
    x, y = vstack(loaded[: 2 * split : 2]), np.concatenate(loaded[1 : 2 * split : 2])
    xt, yt = vstack(loaded[2 * split :: 2]), np.concatenate(loaded[2 * split + 1 :: 2])
    peers = [LogisticRegression(C=c, max_iter=300).fit(x, y).predict_proba(xt) for c in (0.1, 0.3)]
    assert first.metrics["test_auc"] > max(roc_auc_score(yt, p[:, 1]) for p in peers) - 0.015
    assert first.metrics["test_logloss"] < min(log_loss(yt, p[:, 1]) for p in peers) + 0.015


@pytest.mark.timeout(300)
def test_the_whole_task(specs: Path, flights: Path, tmp_path: Path) -> None:
    """What `specs/flights.yaml` promises."""
    done = submit(
        specs / "flights.yaml",
        [
            f"data.train={flights}/train/*",
            f"data.test={flights}/test/*",
            f"model.path={tmp_path}/model",
        ],
    )
    assert done.outcome["rows"] == 3 * 261_877
    assert done.metrics["test_auc"] >= 0.770
    assert done.metrics["test_logloss"] <= 0.454
    predict(done.model, flights / "test", tmp_path / "scores")
    exact = roc_auc_score(labels(flights / "test"), scores(tmp_path / "scores"))
    assert done.metrics["test_auc"] == pytest.approx(exact, abs=WITHIN)


@pytest.mark.parametrize("servers", [1, 3])
def test_warm_start_keeps_the_scores(
    specs: Path, first: Done, tmp_path: Path, servers: int
) -> None:
    """With a learning rate of next to nothing the new model is the old one.

    It was written by two servers. The optimizer is another one, so weights are taken over and not
    its state: the harder way.
    """
    test = specs / "flights" / "test"
    path = f"services.server.instances={servers}"
    yarnps(
        *("submit", str(specs / "warm_start.yaml"), "--cluster", "local", "--set", path),
        *("--set", "yarnps.params.alpha=1e-9", "--set", f"yarnps.model.path={tmp_path}/model"),
    )
    assert len(list((tmp_path / "model").glob("*.safetensors"))) == servers
    predict(first.model, test, tmp_path / "before")
    predict(tmp_path / "model", test, tmp_path / "after")
    before, after = scores(tmp_path / "before"), scores(tmp_path / "after")
    assert before.std() > 0.05
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_stop_keeps_the_best_model(specs: Path, tmp_path: Path) -> None:
    """Without regularisation and with a high rate the model is best early, then overfits."""
    done = submit(
        specs / "flights.yaml",
        [
            "params.alpha=1.0",
            "params.l1=0",
            "train.epochs=12",
            "stop.metric=test_logloss",
            "stop.patience=2",
            f"model.path={tmp_path}/model",
        ],
    )
    measured = done.per_epoch("test_logloss")
    best = int(np.argmin(measured))
    assert len(measured) == best + 3 < 12  # two epochs without a better value, and that was it
    said = predict(done.model, specs / "flights" / "test", tmp_path / "scores")
    assert said["metrics"]["logloss"] == pytest.approx(measured[best], abs=1e-6)
    assert done.metrics["test_logloss"] == pytest.approx(measured[best], abs=1e-9)


def test_hashed_features(specs: Path, tmp_path: Path) -> None:
    """Few buckets hold few weights, and prediction hashes as training did."""
    done = submit(
        specs / "flights.yaml",
        ["params.hash_buckets=500", "train.epochs=1", f"model.path={tmp_path}/model"],
    )
    said = predict(done.model, specs / "flights" / "test", tmp_path / "scores")
    assert said["metrics"]["logloss"] == pytest.approx(done.metrics["test_logloss"], abs=1e-6)
    assert done.metrics["test_auc"] > 0.6


def test_minus_one_for_no(specs: Path, first: Done, tmp_path: Path) -> None:
    """Labels -1 and 1 make the same model as 0 and 1."""
    train = tmp_path / "train"
    train.mkdir()
    for path in (specs / "flights" / "train").iterdir():
        text = path.read_text()
        (train / path.name).write_text(
            "-1" + text[1:].replace("\n0 ", "\n-1 ")
            if text.startswith("0")
            else text.replace("\n0 ", "\n-1 ")
        )
    done = submit(specs / "flights.yaml", [f"data.train={train}/*", f"model.path={tmp_path}/model"])
    assert done.metrics["test_auc"] == pytest.approx(first.metrics["test_auc"], abs=0.01)


def test_a_wrong_label_ends_the_job(specs: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.svm"
    bad.write_text("1 3:1\n0 4:1\n" * 300 + "7 3:1\n")
    done = submit(
        specs / "flights.yaml",
        [f"data.train={bad}", f"model.path={tmp_path}/model"],
        status=2,
    )
    assert done.outcome["state"] == "FAILED"
    sentence = "7 is no label for ftrl: split 0, batch 0 of the train input. Labels must be 0 and 1"
    assert sentence in done.outcome["cause"]
    assert done.outcome["cause_code"] == "data"
    assert "Traceback" not in done.log + str(done.outcome)  # a user's mistake, not a program's
    assert done.outcome["retry_helps"] is False
    assert not (tmp_path / "model").exists()
