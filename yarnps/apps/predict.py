"""Scores of a model for the records of a file, as `yarnps predict` writes them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from yarnps._errors import DataError, InputError
from yarnps.apps import fm, ftrl
from yarnps.apps._features import probabilities
from yarnps.apps._measure import ClassMeasure, Measure, RegressionMeasure
from yarnps.apps._model_folder import ModelFolder
from yarnps.data import BadRecord, DataSettings, Rows, list_input, read_file
from yarnps.files import open_files
from yarnps.spec import APPS, Block

BATCH_ROWS = 8192


class Scorer(Protocol):
    """What predicts with the models of a program."""

    regression: bool

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Logits, or the predictions of a regression."""


SCORERS: dict[str, Callable[[ModelFolder, Any], Scorer]] = {"ftrl": ftrl.Scorer, "fm": fm.Scorer}
STDOUT = "-"
BAD_SHOWN = 3


@dataclass(frozen=True)
class Prediction:
    """What was done.

    Attributes
    ----------
    out
        Address of the scores; ``-``: standard output.
    files, rows
        What was read; as many lines as rows were written.
    bad
        Records that could not be read and were left out.
    metrics
        ``auc`` and ``logloss``, or ``rmse`` and ``mae``, of the rows that have labels.
    note
        What a reader should know about the metrics.
    """

    model: str
    out: str
    files: int
    rows: int
    bad: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def predict(
    model: str, file: str, overrides: Mapping[str, Any] | None = None, out: str = STDOUT
) -> Prediction:
    """Write a score for each record, one a line, in the order of the input.

    It is the probability of class 1 or, of a regression, the predicted number.

    Parameters
    ----------
    model
        Folder that a job with `app: ftrl` or `app: fm` has written.
    file
        A file, a folder or a glob; several files are read in the order of their names.
    overrides
        Fields of `data:` that differ from the job's, such as ``{"format": "csv"}``; deeper ones
        with dots, ``{"csv.delimiter": ";"}``.
    out
        Where the scores go; a file appears when it is complete, and replaces an older one.

    Returns
    -------
    Prediction
        Metrics too, where the records have labels. Log loss is exact; so is the area under the
        curve for up to `EXACT_ROWS` rows, beyond that within 1e-5.

    Raises
    ------
    DataError
        No model, no input, or more records that cannot be read than `max_bad_records` of the
        overrides (0): a score that is missing would put the others in the wrong lines.
    """
    folder = ModelFolder(model)
    scorer = _scorer(folder)
    measure: Measure = RegressionMeasure() if scorer.regression else ClassMeasure()
    settings = _settings(folder, overrides or {})
    listing = list_input(file, settings, workers=1, need_label=False)
    paths = list(dict.fromkeys(split.path for split in listing.splits))
    rows = bad = 0
    with _opened(out) as (sink, address):
        for path in paths:
            good, wrong = _score(path, settings, scorer, measure, sink, (rows, bad))
            rows, bad = rows + good, bad + wrong
    return Prediction(
        folder.address, address, len(paths), rows, bad, measure.metrics(), measure.note()
    )


def _score(
    path: str,
    settings: DataSettings,
    scorer: Scorer,
    measure: Measure,
    sink: IO[bytes],
    before: tuple[int, int],
) -> tuple[int, int]:
    """Score one file; returns its rows and its bad records."""
    rows = bad = 0
    seen: list[BadRecord] = []
    for batch in read_file(path, settings):
        bad = batch.bad_total
        seen = (seen + batch.bad)[:BAD_SHOWN]
        # With a share as the limit, only the whole file can tell.
        if settings.max_bad >= 1 or settings.max_bad == 0:
            _check_bad(settings, seen, before[1] + bad, before[0] + rows)
        if not isinstance(batch.rows, Rows):
            raise DataError(
                f"the records are not rows of features: {path}",
                "Name the format of the file, such as --set format=libsvm; a parse function must "
                "return (label, keys, values).",
            )
        scores = scorer.scores(batch.rows)
        measure.add(scores, batch.rows.labels)
        shown = scores if scorer.regression else probabilities(scores)
        sink.write("".join(f"{p!r}\n" for p in shown.tolist()).encode())
        rows += len(batch.rows)
    _check_bad(settings, seen, before[1] + bad, before[0] + rows)
    return rows, bad


def _check_bad(settings: DataSettings, seen: list[BadRecord], bad: int, good: int) -> None:
    if not settings.too_many_bad(bad, good):
        return
    shown = "\n".join(f"{r.path}:{r.line}: {r.error} in {r.text!r}" for r in seen)
    raise DataError(
        f"{bad:,} records cannot be read as {settings.format}:\n{shown}",
        "Correct them or name the right format (--set format=…). With --set max_bad_records=N "
        "that many are left out: the lines of scores are then those of the other records.",
    )


def _scorer(folder: ModelFolder) -> Scorer:
    """What predicts with this model."""
    make = SCORERS.get(folder.app)
    if make is None:
        named = f"by the program {folder.app}" if folder.app else "by a program of its own"
        known = " and ".join(f"`app: {name}`" for name in SCORERS)
        raise InputError(
            f"the model was trained {named}: {folder.address}",
            f"`predict` knows the models of {known}. Others are read with safetensors: "
            "<table>/keys and <table>/values of each part.",
        )
    try:
        params = APPS[folder.app].model_validate(folder.params)
    except ValidationError as error:
        raise DataError(
            f"the parameters in the model's manifest are not those of {folder.app}: "
            f"{folder.address}",
            f"It may be of another version of yarnps: {_words(error)}",
        ) from error
    return make(folder, params)


def _settings(folder: ModelFolder, overrides: Mapping[str, Any]) -> DataSettings:
    """How to read: as the model's job did, but for the overrides."""
    data = dict(folder.data)
    data["max_bad_records"] = 0
    for name, value in overrides.items():
        *above, last = name.removeprefix("data.").split(".")
        place = data
        for step in above:
            inner = place.get(step)
            place[step] = dict(inner) if isinstance(inner, Mapping) else {}
            place = place[step]
        place[last] = value
    try:
        block = Block.model_validate({"data": data, "train": {"batch_rows": BATCH_ROWS}})
    except ValidationError as error:
        raise InputError(
            f"this is not how a file can be read: {_words(error)}",
            "The names are those under `data:` in a job file: docs/job-file.md.",
        ) from error
    return DataSettings.from_block(block)


def _words(error: ValidationError) -> str:
    return "; ".join(
        ".".join(str(step) for step in entry["loc"] if step != "data") + ": " + entry["msg"]
        for entry in error.errors(include_url=False)
    )


@contextmanager
def _opened(out: str) -> Iterator[tuple[IO[bytes], str]]:
    """Where to write, and its address. A file gets its name when everything is in it."""
    if out == STDOUT:
        yield sys.stdout.buffer, STDOUT
        sys.stdout.buffer.flush()
        return
    files, path = open_files(out)
    if files.exists(path) and files.info(path).is_dir:
        raise InputError(f"it is a folder: {files.address(path)}", "Name a file with --out.")
    beside = f"{path}.part"
    try:
        with files.open(beside, "wb") as sink:
            yield sink, files.address(path)
        files.delete(path)
        files.rename(beside, path)
    except BaseException:
        files.delete(beside)
        raise
