"""``python -m yarnps.apps.word2vec.finish FOLDER JOB_DIR PARAMS``: vectors beside the tables.

The ApplicationMaster runs it when the servers have written their parts of a model into FOLDER, in
a process of its own: it goes on serving the job meanwhile. The rows come in the order of their
keys' shards, the files want them by the frequency of words, so they are put in order in a file on
the local disk; memory holds the words, and a few rows.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError, YarnpsError
from yarnps.apps.word2vec import INPUT
from yarnps.apps.word2vec._vocabulary import FILE, read_tsv
from yarnps.apps.word2vec.vectors import BINARY, TEXT, write_binary, write_text
from yarnps.data import hash64
from yarnps.files import Files, open_files
from yarnps.jobdir import JobDir
from yarnps.server.tensors import TensorReader

_WRITERS = {"binary": {BINARY: write_binary}, "text": {TEXT: write_text}}
_WRITERS["both"] = {**_WRITERS["binary"], **_WRITERS["text"]}
_ROWS_AT_ONCE = 1 << 14


def finish(folder: str, job_dir: str, params: dict[str, Any]) -> list[str]:
    """Write the vectors of a model; returns the names of the files.

    Parameters
    ----------
    folder
        Address of the folder with the servers' parts.
    job_dir
        Address of the job directory, which has the vocabulary.
    params
        `yarnps.params` of the job file, complete.

    Raises
    ------
    DataError
        No word of the vocabulary has a row: parts and vocabulary do not belong together.
    """
    words = [word for word, _ in read_tsv(JobDir(job_dir).read(FILE))]
    files, path = open_files(folder)
    with tempfile.TemporaryFile() as scratch:
        rows = _in_order(files, path, words, int(params["dim"]), scratch)
        writers = _WRITERS[params["output"]]
        for name, write in writers.items():
            with files.open(f"{path.rstrip('/')}/{name}", "wb") as file:
                write(file, len(words), rows.shape[1], zip(words, rows, strict=True))
        return list(writers)


def _in_order(
    files: Files, path: str, words: list[str], dim: int, scratch: BinaryIO
) -> NDArray[np.float32]:
    """The words' rows, in a file that is mapped into memory.

    A word that was never trained on (the time was over, all its places were thinned out) has no
    row, and gets zeros.
    """
    keys = np.array([hash64(word) for word in words], np.int64)
    order = np.argsort(keys)
    scratch.truncate(len(words) * dim * 4)
    rows = np.memmap(scratch, np.float32, "r+", shape=(len(words), dim))
    found = 0
    for part_keys, values in _parts(files, path):
        near = np.searchsorted(keys, part_keys, sorter=order)
        places = order[np.minimum(near, len(keys) - 1)]
        ours = keys[places] == part_keys  # a model that was trained on may know more words
        rows[places[ours]] = values[ours]
        found += int(ours.sum())
    if not found:
        raise DataError(
            f"none of {len(words):,} words has a row in {files.address(path)}",
            "The tables are not those of this vocabulary: submit the job anew.",
        )
    return rows


def _parts(files: Files, path: str) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Keys and rows of the input table, some at a time."""
    for info in files.list(path):
        if not info.path.endswith(".safetensors"):
            continue
        with files.open(info.path, "rb") as file:
            reader = TensorReader(file, files.address(info.path))
            count = reader.rows(f"{INPUT}/keys") if f"{INPUT}/keys" in reader else 0
            for first in range(0, count, _ROWS_AT_ONCE):
                size = min(_ROWS_AT_ONCE, count - first)
                yield (
                    reader.read(f"{INPUT}/keys", first, size),
                    reader.read(f"{INPUT}/values", first, size),
                )


def main() -> int:
    """The program."""
    folder, job_dir, params = sys.argv[1:]
    try:
        names = finish(folder, job_dir, json.loads(params))
    except YarnpsError as error:
        print(f"{error.what}. {error.remedy}", file=sys.stderr)
        return 1
    print(", ".join(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
