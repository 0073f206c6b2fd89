"""Input: files cut into splits, splits read as batches."""

from __future__ import annotations

from ._hashing import hash64
from ._listing import Listing, list_input
from ._opening import check_unchanged
from ._reader import import_readers, read_batches, read_file, warm_up
from ._records import BadRecord, FileChanged, RawBatch, Records, Rows, Split
from ._sampling import Sample, sample
from ._settings import CsvSettings, DataSettings

__all__ = [
    "BadRecord",
    "CsvSettings",
    "DataSettings",
    "FileChanged",
    "Listing",
    "RawBatch",
    "Records",
    "Rows",
    "Sample",
    "Split",
    "check_unchanged",
    "hash64",
    "import_readers",
    "list_input",
    "read_batches",
    "read_file",
    "sample",
    "warm_up",
]
