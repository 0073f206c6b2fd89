"""The job model: reading, checking and rendering job files.

A job file is a skein specification with one more block, `yarnps:`. `load` reads it, with site
defaults below and `--set` above, and names everything that is wrong with it at once.
"""

from .._errors import JobFileError, Problem
from ._block import (
    Block,
    Checkpoint,
    Csv,
    Data,
    Model,
    Network,
    Server,
    Shuffle,
    Stop,
    Sync,
    Train,
)
from ._job import Job, Role, Source
from ._load import load
from ._params import APPS, FtrlParams
from ._units import format_size, parse_duration, parse_size

__all__ = [
    "APPS",
    "Block",
    "Checkpoint",
    "Csv",
    "Data",
    "FtrlParams",
    "Job",
    "JobFileError",
    "Model",
    "Network",
    "Problem",
    "Role",
    "Server",
    "Shuffle",
    "Source",
    "Stop",
    "Sync",
    "Train",
    "format_size",
    "load",
    "parse_duration",
    "parse_size",
]
