"""What a table does with a gradient before its optimizer sees it: NaN, infinity and clipping."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._kernels import jit
from yarnps.protocol import wire
from yarnps.protocol.shards import frozen
from yarnps.protocol.tables import Clip, TableSpec


class Screened(NamedTuple):
    """A gradient that may be applied.

    Attributes
    ----------
    grads
        Read-only, as kernels take it.
    skipped
        Rows (dense: elements) that must be left out; None: none.
    nonfinite
        How many rows or elements had NaN or infinity in them.
    """

    grads: NDArray[Any]
    skipped: NDArray[np.bool_] | None = None
    nonfinite: int = 0


@jit
def all_finite(values):  # type: ignore[no-untyped-def]
    """Whether no number is NaN or infinite; read-only values, in one dimension."""
    strange = 0
    for i in range(values.shape[0]):
        strange += not (abs(values[i]) < np.inf)
    return strange == 0


def screened(spec: TableSpec, grads: NDArray[Any]) -> Screened:
    """Apply a table's policy for NaN and infinity, and its limits.

    Parameters
    ----------
    grads
        Sparse: (n, dim); dense: (n,).

    Raises
    ------
    WireError
        There is NaN or infinity, and the policy is to refuse it.
    """
    skipped, count = None, 0
    if all_finite(grads.reshape(-1)):
        if spec.clip is None:
            return Screened(frozen(grads) if grads.flags.writeable else grads)
    else:
        finite = np.isfinite(grads)
        bad = ~(finite.all(axis=1) if grads.ndim == 2 else finite)
        count = int(bad.sum())
        if spec.nonfinite == "fail":
            what = "rows" if spec.kind == "sparse" else "elements"
            raise wire.WireError(
                wire.Code.NONFINITE,
                f"table {spec.name}: {count} of {len(grads)} {what} of the gradient hold NaN or "
                'infinity (the table may be opened with nonfinite="skip" or "clip")',
            )
        if spec.nonfinite == "skip":
            skipped = bad
            grads = np.where(bad[:, np.newaxis] if grads.ndim == 2 else bad, 0, grads)
        else:  # infinity is clipped with the other numbers
            grads = np.where(np.isnan(grads), grads.dtype.type(0), grads)
    if spec.clip is not None:
        grads = clipped(spec.clip, grads)
    return Screened(frozen(grads), skipped, count)


def clipped(clip: Clip, grads: NDArray[Any]) -> NDArray[Any]:
    """The limits that servers apply: on numbers, then on rows."""
    if clip.value is not None:
        grads = np.clip(grads, -clip.value, clip.value)
    if clip.row_norm is not None and len(grads):
        norms = np.sqrt(np.square(grads, dtype=np.float64).sum(axis=1, keepdims=True))
        factors = clip.row_norm / np.maximum(norms, clip.row_norm)
        grads = grads * factors.astype(grads.dtype)
    return grads
