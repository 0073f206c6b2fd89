"""The job model: reading, checking and rendering job files.

A job file is a skein specification with one more block, `yarnps:`. `load` reads it, with site
defaults below and `--set` above, and names everything that is wrong with it at once.
"""

from yarnps._errors import JobFileError, Problem

from ._block import Block, Checkpoint, Model, Network, Server, Stop, Sync, Train
from ._data import Csv, Data, Shuffle
from ._job import Job, Role, Source
from ._load import load
from ._mask import masked, masked_job, masked_text
from ._needs import Ask, Limits, Needs, needs
from ._params import APPS, FINISHING_APPS, FmParams, FtrlParams, Word2vecParams
from ._render import AWAKE, RenderParts, render
from ._schema import json_schema
from ._units import format_duration, format_size, parse_duration, parse_size

__all__ = [
    "APPS",
    "AWAKE",
    "FINISHING_APPS",
    "Ask",
    "Block",
    "Checkpoint",
    "Csv",
    "Data",
    "FmParams",
    "FtrlParams",
    "Job",
    "JobFileError",
    "Limits",
    "Model",
    "Needs",
    "Network",
    "Problem",
    "RenderParts",
    "Role",
    "Server",
    "Shuffle",
    "Source",
    "Stop",
    "Sync",
    "Train",
    "Word2vecParams",
    "format_duration",
    "format_size",
    "json_schema",
    "load",
    "masked",
    "masked_job",
    "masked_text",
    "needs",
    "parse_duration",
    "parse_size",
    "reference",
    "render",
]


def reference() -> str:
    """The reference of the job file, as Markdown: what `docs/job-file.md` holds."""
    from ._reference import reference as write

    return write()
