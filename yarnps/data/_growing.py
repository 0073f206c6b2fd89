"""How a split is cut into batches: of one size, or of one that grows with the training.

While little has been learned, many small batches learn more than few large ones. Later a batch
changes little of what has been learned before, and larger ones are faster: rows share features,
and each is sent once. So a batch gets a certain share of the rows that came before it, by the
place of its split in the whole training as if all splits were gone through one after the other.

That makes the size a function of the split, its place and the number of the batch, and of nothing
else: not of who works on what at the same time. Bytes are turned into rows with a fixed number, not
a measured one, which would depend on the pieces in which a file arrives.
"""

from __future__ import annotations

from typing import NamedTuple

from yarnps.protocol.settings import LEAST_ROWS, MOST_ROWS

from ._settings import DataSettings

# A batch has at most this part of the rows before it: that many steps are behind it at least.
_PART = 32
# Lines of 20 to 40 features have twice that and more, columns in Parquet less.
_BYTES_OF_A_ROW = 128
# Batches are of one size within so many rows, which are shuffled together.
_GROUP_ROWS = 2 * MOST_ROWS


class Cut(NamedTuple):
    """How a split is cut.

    Attributes
    ----------
    group_rows
        Rows that are shuffled together.
    fixed
        Rows of a batch; None: they grow.
    before
        Rows of the training before this split, about.
    """

    group_rows: int
    fixed: int | None
    before: int = 0

    def batch_rows(self, first: int) -> int:
        """Rows of a batch in the group that begins with row `first` of the split."""
        if self.fixed is not None:
            return self.fixed
        wanted = max(LEAST_ROWS, min((self.before + first) // _PART, MOST_ROWS))
        return 1 << wanted.bit_length() - 1  # a power of two, so that it divides the group


def cut_of(
    settings: DataSettings, length: int, *, shuffle: bool, span: tuple[float, float] | None
) -> Cut:
    """How a split is cut.

    Parameters
    ----------
    length
        Its bytes.
    shuffle
        Whether its rows change places.
    span
        The stretch of the whole training, from 0 to 1, that it stands for; None: it is not for
        training, and batches do not grow.
    """
    buffer = settings.shuffle_buffer if shuffle else 1
    if settings.growing and span is not None:
        return Cut(_up(buffer, _GROUP_ROWS), None, _rows_before(length, *span))
    return Cut(_up(buffer, settings.batch_rows), settings.batch_rows)


def _rows_before(length: int, begins: float, ends: float) -> int:
    """About how many rows of the training come before a split."""
    if ends <= begins:
        return 0
    return int(length * (begins / (ends - begins))) // _BYTES_OF_A_ROW


def _up(rows: int, unit: int) -> int:
    return -(-max(rows, 1) // unit) * unit
