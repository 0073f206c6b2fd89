"""The input in a job file: the `data:` section of the block."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ._section import Section
from ._units import Addresses, BadRecords, SplitSize, Text, Texts, fault


def _one_character(value: str) -> str:
    value = {"tab": "\t", "\\t": "\t"}.get(value, value)
    if len(value) != 1:
        raise fault(f"expected one character (or tab), found {value!r}")
    return value


def _function(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", value):
        raise fault(f"expected module:function such as reader:parse, found {value!r}")
    return value


class Shuffle(Section):
    """How the order of the input is mixed; seeded, so that it can be repeated."""

    splits: bool = Field(default=True, description="Give out the splits in a mixed order.")
    buffer: int = Field(
        default=10_000,
        ge=0,
        description="Rows mixed at a time within a split. 0: rows in the file's order.",
    )


class Csv(Section):
    """How CSV files are written."""

    delimiter: Annotated[str, AfterValidator(_one_character)] = Field(
        default=",", description="The character between two fields; `tab` for a tab."
    )
    header: bool = Field(default=True, description="Each file begins with the columns' names.")
    nulls: Texts = Field(
        default=("", "NA", "null", "NaN"), description="Texts that mean: no value."
    )
    quote: Annotated[str, AfterValidator(_one_character)] = Field(
        default='"', description="The character around fields that hold delimiters."
    )
    multiline: bool = Field(
        default=False, description="Quoted fields may hold line ends. Such files are not split."
    )


class Data(Section):
    """The input."""

    train: Addresses = Field(
        description="Address, or list of addresses, of the training input; with `*`, folders too."
    )
    test: Addresses | None = Field(
        default=None, description="Test input, gone through after every epoch."
    )
    format: Literal["libsvm", "csv", "text", "parquet", "custom"] = Field(
        default="libsvm", description="How records are written. `custom` needs `parse`."
    )
    parse: Annotated[str, AfterValidator(_function)] | None = Field(
        default=None,
        description="A function of yours, `module:function`, that makes a record of a line.",
    )
    split_size: SplitSize = Field(
        default="auto",
        description="Bytes of a split. `auto`: by the file system's blocks and the workers.",
    )
    shuffle: Shuffle = Field(default_factory=Shuffle)
    max_bad_records: BadRecords = Field(
        default=0,
        description="How many records may be unreadable before the job fails: a count, or a share "
        "of all records such as `0.1%` or `0.001`.",
    )
    label: Text | None = Field(default=None, description="The label's column (csv, parquet).")
    features: Texts | None = Field(
        default=None,
        description="The features' columns (csv, parquet). Not given: all but the label.",
    )
    csv: Csv = Field(default_factory=Csv)
    on_failed_split: Literal["fail", "skip"] = Field(
        default="fail",
        description="When a split has failed three times: fail the job, or end `with skips`.",
    )
