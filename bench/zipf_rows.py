"""Made rows for the benchmarks of sparse models: clicks, as far as numbers go.

Features follow a zipf law, so that a few are in every other row and most are rare; a row's label is
drawn from a logistic model with a random weight for each feature.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._kernels import jit

FEATURES = 1_000_000
PER_ROW = 40
EXPONENT = 1.1
# With it the true model has an area under the curve of about 0.925 on its own rows.
WEIGHT_STD = 0.55
BLOCK_ROWS = 50_000
SEED = 7


class Made(NamedTuple):
    """Files of one task, each in two dialects with the same rows.

    Attributes
    ----------
    train, test
        libsvm, labels 1 and -1.
    vw_train, vw_test
        The same for Vowpal Wabbit: with its bar between label and features.
    ceiling
        Area under the curve of the true model on the test rows.
    """

    train: Path
    test: Path
    vw_train: Path
    vw_test: Path
    ceiling: float


def make(folder: Path, rows: int, test_rows: int = 100_000) -> Made:
    """Write the task, unless it is there."""
    train, test = folder / "train.svm", folder / "test.svm"
    made = Made(train, test, train.with_suffix(".vw"), test.with_suffix(".vw"), 0.0)
    done = folder / f"DONE-{rows}-{test_rows}"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        law = _Law()
        _write(made.train, made.vw_train, law, rows)
        scores, positive = _write(made.test, made.vw_test, law, test_rows)
        from yarnps.apps._measure import exact_auc

        done.write_text(repr(exact_auc(scores, positive)))
    return made._replace(ceiling=float(done.read_text()))


class _Law:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(SEED)
        shares = np.arange(1, FEATURES + 1) ** -EXPONENT
        self.shares = np.cumsum(shares / shares.sum())
        self.weights = self.rng.normal(0, WEIGHT_STD, FEATURES)
        # How frequent a feature is cannot be told from its number.
        self.ids = self.rng.permutation(FEATURES)

    def block(self, rows: int) -> NDArray[np.int64]:
        """Features of rows: increasing, none twice in a row."""
        keys = self._drawn(rows * PER_ROW).reshape(rows, PER_ROW)
        keys.sort(axis=1)
        while (again := keys[:, 1:] == keys[:, :-1]).any():
            keys[:, 1:][again] = self._drawn(int(again.sum()))
            keys.sort(axis=1)
        return keys

    def _drawn(self, count: int) -> NDArray[np.int64]:
        places = np.searchsorted(self.shares, self.rng.random(count), side="right")
        found: NDArray[np.int64] = self.ids[np.minimum(places, FEATURES - 1)]
        return found


def _write(
    libsvm: Path, vw: Path, law: _Law, rows: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    scores, labels = [], []
    with libsvm.open("wb") as plain, vw.open("wb") as barred:
        for first in range(0, rows, BLOCK_ROWS):
            keys = law.block(min(BLOCK_ROWS, rows - first))
            logits = law.weights[keys].sum(axis=1)
            positive = law.rng.random(len(keys)) < 1 / (1 + np.exp(-logits))
            for file, bar in ((plain, False), (barred, True)):
                out = np.empty(keys.size * 12 + 8 * len(keys), np.uint8)
                file.write(out[: _format(keys, positive, bar, out)].tobytes())
            scores.append(logits)
            labels.append(positive)
    return np.concatenate(scores), np.concatenate(labels)


@jit
def _format(keys, positive, bar, out):  # type: ignore[no-untyped-def]
    """Rows as text; returns the number of bytes."""
    at = 0
    digits = np.empty(20, np.uint8)
    for row in range(keys.shape[0]):
        if not positive[row]:
            out[at] = 45  # -
            at += 1
        out[at] = 49  # 1
        at += 1
        if bar:
            out[at], out[at + 1] = 32, 124  # a space and |
            at += 2
        for column in range(keys.shape[1]):
            out[at] = 32
            at += 1
            number = keys[row, column]
            count = 0
            while number > 0 or count == 0:
                digits[count] = 48 + number % 10
                number //= 10
                count += 1
            for place in range(count - 1, -1, -1):
                out[at] = digits[place]
                at += 1
            out[at], out[at + 1] = 58, 49  # :1
            at += 2
        out[at] = 10
        at += 1
    return at
