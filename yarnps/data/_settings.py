"""All that reading needs to know, taken from the job file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, cast

from yarnps._errors import InputError
from yarnps.protocol.settings import BATCH_ROWS, GROWING_APPS

Format = Literal["libsvm", "csv", "text", "parquet", "custom"]
FORMATS: tuple[Format, ...] = ("libsvm", "csv", "text", "parquet", "custom")


@dataclass(frozen=True)
class CsvSettings:
    """How CSV files are written; see the job file's `data.csv`."""

    delimiter: str = ","
    header: bool = True
    nulls: tuple[str, ...] = ("", "NA", "null", "NaN")
    quote: str = '"'
    multiline: bool = False


@dataclass(frozen=True)
class DataSettings:
    """Settings of `data:` and `train:` that decide what a record and a batch are.

    Attributes
    ----------
    format
        libsvm, csv, text, parquet or custom.
    parse
        For custom: `module:function`, called with each line.
    split_size
        Bytes; None: chosen by the size of the input and the number of workers.
    shuffle_buffer
        Rows that are shuffled together; rounded up to whole batches.
    max_bad
        Bad records that are allowed: a count, or (below 1) a part of all records.
    batch_rows, growing
        Rows of a batch; `growing`: in training they grow instead, see `_growing`.
    label, features
        Column names of CSV and Parquet. A feature may be written `column:number`,
        `column:category`, `column:id`, or `column:id:weights` with a second column.
    """

    format: Format = "libsvm"
    parse: str | None = None
    split_size: int | None = None
    shuffle_splits: bool = True
    shuffle_buffer: int = 10_000
    max_bad: float = 0
    label: str | None = None
    features: tuple[str, ...] | None = None
    csv: CsvSettings = field(default_factory=CsvSettings)
    on_failed_split: str = "fail"
    batch_rows: int = BATCH_ROWS
    growing: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(
                f"there is no data format of this name: {self.format}",
                f"Use one of {', '.join(FORMATS)}.",
            )
        if self.format == "custom" and not self.parse:
            raise InputError(
                "data.format is custom, but data.parse is not set",
                "Name your function: data.parse: module:function",
            )
        if self.batch_rows < 1:
            raise InputError(f"train.batch_rows is {self.batch_rows}", "Use at least 1.")

    @classmethod
    def from_block(cls, block: Any) -> DataSettings:
        """The settings in a job file's `yarnps:` block."""
        data, train = block.data, block.train
        size = data.split_size
        label = data.label
        features = data.features
        return cls(
            format=cast(Format, str(data.format)),
            parse=data.parse,
            split_size=None if size in (None, "auto") else int(size),
            shuffle_splits=bool(data.shuffle.splits),
            shuffle_buffer=int(data.shuffle.buffer),
            max_bad=data.max_bad_records,
            label=None if label is None else str(label),
            features=None if features is None else tuple(str(name) for name in features),
            csv=CsvSettings(
                delimiter=data.csv.delimiter,
                header=data.csv.header,
                nulls=tuple(data.csv.nulls),
                quote=data.csv.quote,
                multiline=data.csv.multiline,
            ),
            on_failed_split=str(data.on_failed_split),
            batch_rows=BATCH_ROWS if train.batch_rows is None else int(train.batch_rows),
            growing=train.batch_rows is None and block.app in GROWING_APPS,
            seed=int(train.seed),
        )

    @classmethod
    def from_job_json(cls, text: str) -> DataSettings:
        """The same out of what `yarnps.spec.Job.to_json` wrote, without loading the job model."""
        block = json.loads(text)["block"]
        return cls.from_block(_fields({name: block[name] for name in ("app", "data", "train")}))

    def too_many_bad(self, bad: int, good: int) -> bool:
        """Whether `bad` records beside `good` ones are more than the job file allows."""
        if 0 < self.max_bad < 1:
            return bad > self.max_bad * (bad + good)
        return bad > self.max_bad

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DataSettings:
        values: Mapping[str, Any] = json.loads(text)
        csv = dict(values["csv"])
        csv["nulls"] = tuple(csv["nulls"])
        features = values["features"]
        rest = {key: value for key, value in values.items() if key not in ("csv", "features")}
        return cls(
            **rest,
            csv=CsvSettings(**csv),
            features=None if features is None else tuple(features),
        )


def _fields(values: Mapping[str, Any]) -> SimpleNamespace:
    """Nested mappings with their keys as attributes."""
    return SimpleNamespace(
        **{k: _fields(v) if isinstance(v, dict) else v for k, v in values.items()}
    )
