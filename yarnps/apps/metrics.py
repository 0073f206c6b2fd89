"""Metrics that can be added up over batches, splits and workers.

Log loss is exact. The area under the ROC curve comes from histograms of the logits. No fixed
bins are fine enough for all models: at the start of training all logits may lie within a
hundredth. So bins that hold many rows of a batch are divided, again and again, into narrower
ones. Bins of all widths are named by their place in nested grids; equal names are added up
anywhere, and `finish` puts the grids together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

# Bins are 2**-level wide (on the stretched scale).
COARSEST = 8
FINEST = 32
STEP = 4
# A bin with more than this part of a batch's rows is divided. Rows of one bin count as tied, so
# this bounds the error that one narrow heap of scores can make to 1/2 · (1/256)² < 1e-5.
HEAVY = 1 / 256
LEAST_HEAVY = 1  # rows; matters for short batches
# Bins are added up in blocks, and only blocks with something in them are sent.
BLOCK = 128
# What infinite scores are taken as: keeps the log loss a number that can be written down.
LARGEST = 1e15
PREFIX = "auc:"
NAN_ROWS = "nan_rows"
# A sum of this kind becomes the root of its mean.
ROOT = "root:"


def binary_sums(logits: npt.ArrayLike, labels: npt.ArrayLike) -> dict[str, Vector]:
    """What a batch adds to the metrics.

    Parameters
    ----------
    logits : array_like, shape (rows,)
        Scores on the logit scale; beyond ±`LARGEST` they count as that.
    labels : array_like, shape (rows,)
        Positive where greater than 0: both -1/1 and 0/1 are understood.

    Returns
    -------
    dict of str to ndarray of float64
        ``logloss`` is ``[sum, rows]``; each ``auc:<grid>:<block>`` holds the positive, then the
        negative rows of `BLOCK` bins. To be added up by name and given to `finish`. If a logit
        is not a number, only ``nan_rows``: how many.
    """
    scores = np.clip(np.asarray(logits, dtype=np.float64).ravel(), -LARGEST, LARGEST)
    positive = np.asarray(labels).ravel() > 0
    if len(scores) != len(positive):
        raise ValueError(f"{len(scores)} logits for {len(positive)} labels")
    unordered = int(np.isnan(scores).sum())
    if unordered:  # the model has diverged: there is nothing to measure
        return {NAN_ROWS: np.array([float(unordered)])}
    losses = np.logaddexp(0.0, np.where(positive, -scores, scores))
    sums = {"logloss": np.array([losses.sum(), float(len(losses))])}
    sums.update(_histogram(np.arcsinh(scores), positive))
    return sums


def squared_sums(predictions: npt.ArrayLike, labels: npt.ArrayLike) -> dict[str, Vector]:
    """What a batch of a regression adds to ``rmse`` and ``mae``.

    Parameters
    ----------
    predictions, labels : array_like, shape (rows,)

    Returns
    -------
    dict of str to ndarray of float64
        To be added up by name and given to `finish`.
    """
    missed = np.asarray(predictions, np.float64).ravel() - np.asarray(labels, np.float64).ravel()
    rows = float(len(missed))
    return {
        f"{ROOT}rmse": np.array([(missed * missed).sum(), rows]),
        "mae": np.array([np.abs(missed).sum(), rows]),
    }


def finish(sums: Mapping[str, npt.ArrayLike]) -> dict[str, float]:
    """The metrics of everything that was added up.

    Parameters
    ----------
    sums
        Sums of `binary_sums` and `squared_sums` by name, and any others: a vector
        ``[sum, weight]`` becomes its mean (the root of it, if the name begins with `ROOT`), a
        single number stays what it is, and longer vectors are left out.

    Returns
    -------
    dict of str to float
        Only what is defined and finite: no ``auc`` for rows of one class, no mean of nothing, and
        neither ``auc`` nor ``logloss`` but ``nan_rows`` when some logits were not numbers.
    """
    result: dict[str, float] = {}
    for name, given in sums.items():
        values = np.asarray(given, dtype=np.float64).ravel()
        if name.startswith(PREFIX) or not np.isfinite(values).all():
            continue
        if len(values) == 2 and values[1] != 0:
            mean = float(values[0] / values[1])
            result[name.removeprefix(ROOT)] = mean**0.5 if name.startswith(ROOT) else mean
        elif len(values) == 1:
            result[name] = float(values[0])
    if NAN_ROWS in result:
        result.pop("logloss", None)
        return result
    blocks = {n: np.asarray(v, dtype=np.float64) for n, v in sums.items() if n.startswith(PREFIX)}
    auc = _auc(blocks)
    if auc is not None:
        result["auc"] = auc
    return result


def _histogram(scores: Vector, positive: npt.NDArray[np.bool_]) -> Iterator[tuple[str, Vector]]:
    """The non-empty blocks of a batch's histogram.

    Scores are stretched: where extreme ones are far apart, they are close together.
    """
    heavy = max(LEAST_HEAVY, HEAVY * len(scores))
    for level in range(COARSEST, FINEST + 1, STEP):
        cells = np.floor(np.ldexp(scores, level)).astype(np.int64)
        _, inverse, counts = np.unique(cells, return_inverse=True, return_counts=True)
        divide = (counts > heavy)[inverse] if level < FINEST else np.zeros(len(cells), np.bool_)
        yield from _blocks(level, cells[~divide], positive[~divide])
        scores, positive = scores[divide], positive[divide]


def _blocks(
    level: int, cells: npt.NDArray[np.int64], positive: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, Vector]]:
    numbers, inverse = np.unique(cells // BLOCK, return_inverse=True)
    index = inverse * 2 * BLOCK + np.where(positive, 0, BLOCK) + cells % BLOCK
    counts = np.bincount(index, minlength=len(numbers) * 2 * BLOCK).astype(np.float64)
    for number, block in zip(numbers, counts.reshape(-1, 2 * BLOCK), strict=True):
        yield f"{PREFIX}{level}:{number}", block


def _auc(blocks: Mapping[str, Vector]) -> float | None:
    """Area under the ROC curve of the rows in the blocks; rows of one bin count as tied.

    A bin of a coarse grid may enclose bins of a finer one. Its rows count as tied with theirs:
    half of them are placed before and half after the finer bins, which comes to the same.
    """
    if not blocks:
        return None
    parsed = [(int(n.split(":")[1]), int(n.split(":")[2]), v) for n, v in blocks.items()]
    finest = max(level for level, _, _ in parsed)
    starts, widths, pos, neg = [], [], [], []
    for level, block, counts in parsed:
        used = np.flatnonzero(counts[:BLOCK] + counts[BLOCK:])
        scale = 1 << (finest - level)
        starts.append((block * BLOCK + used) * scale)
        widths.append(np.full(len(used), scale, dtype=np.int64))
        pos.append(counts[used])
        neg.append(counts[BLOCK + used])
    start, width = np.concatenate(starts), np.concatenate(widths)
    position = np.concatenate([start, start + width])
    # Where one bin ends and another starts, the end comes first; an enclosing bin starts before
    # and ends after what it encloses.
    rank = np.concatenate([width.max() + 1 - width, width - width.max() - 1])
    order = np.lexsort((rank, position))
    p = np.tile(np.concatenate(pos), 2)[order] / 2
    n = np.tile(np.concatenate(neg), 2)[order] / 2
    positives, negatives = p.sum(), n.sum()
    if positives == 0 or negatives == 0:
        return None
    below = np.cumsum(n) - n
    return float((p * (below + n / 2)).sum() / (positives * negatives))
