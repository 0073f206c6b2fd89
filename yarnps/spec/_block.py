"""The `yarnps:` block of a job file."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from yarnps.protocol.settings import BATCH_ROWS, LEAST_ROWS, MOST_ROWS

from ._data import Data
from ._params import PREPARING_APPS
from ._section import Section
from ._units import Duration, Text, fault

MODEL_PATH_NAMES: Final = ("date", "app", "name")


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise fault(f"expected a power of two such as 256 or 512, found {value}")
    return value


def _positive(value: float) -> float:
    if value <= 0:
        raise fault(f"expected more than 0, found {value:g}")
    return value


def _model_path(value: str) -> str:
    for name in re.findall(r"\{([^{}]*)\}", value):
        if name not in MODEL_PATH_NAMES:
            known = ", ".join(f"{{{known}}}" for known in MODEL_PATH_NAMES)
            raise fault(f"unknown placeholder {{{name}}}: known are {known}")
    return value


_ARCHIVES: Final = (".zip", ".tar.gz", ".tgz")
_ENVIRONMENTS: Final = ("python://", "venv://", "conda://", "docker://")


def _environment(value: str) -> str:
    if any(value.startswith(scheme) and len(value) > len(scheme) for scheme in _ENVIRONMENTS):
        return value
    if value.endswith(_ARCHIVES):
        return value
    raise fault(
        "expected python:///path, venv:///path, conda://name, docker://image or an archive "
        f"({', '.join(_ARCHIVES)}), found {value!r}"
    )


def _program_environment(value: str) -> str:
    if value.startswith("docker://"):
        raise fault("an image is for whole containers: give it as yarnps.environment")
    return _environment(value)


PositiveDuration = Annotated[Duration, AfterValidator(_positive)]


class Train(Section):
    """The training loop."""

    epochs: int = Field(default=1, ge=1, description="Passes over the training input.")
    batch_rows: int | None = Field(
        default=None,
        ge=1,
        description=f"Rows of a batch. Not given: {BATCH_ROWS:,}; with `app: ftrl` batches grow "
        f"with the training, from {LEAST_ROWS} rows to {MOST_ROWS:,}.",
    )
    seed: int = Field(
        default=1, ge=0, lt=2**63, description="Every random number of the job follows from it."
    )
    pace: Duration = Field(
        default=0.0, description="Least time for a batch. For drills: slows the training down."
    )
    batch_limit: PositiveDuration = Field(
        default=600.0,
        description="A worker that holds a part of the input and commits no batch of it for this "
        "long is started again.",
    )
    pull_ahead: bool = Field(
        default=True,
        description="A batch's pulls travel while the batch before it is in work; it does not see "
        "what that one pushes. With `false` a single worker's training is the same every time. "
        "Has no meaning with `sync.mode: bsp`.",
    )
    prepare: bool = Field(
        default=False,
        description="Go through the training input once before the first epoch, for the "
        "`prepare=` of the program's `data()`. `app: word2vec` does so by itself.",
    )
    audit: bool = Field(
        default=False,
        description="The servers count the rows of every split in an add-table, `yarnps.rows`.",
    )


class Sync(Section):
    """How far apart workers may be."""

    mode: Literal["ssp", "asp", "bsp"] = Field(
        default="ssp",
        description="`ssp`: bounded staleness. `asp`: no waiting. `bsp`: all together, step by "
        "step; the result does not depend on the number of workers and servers.",
    )
    staleness: int = Field(
        default=4, ge=0, description="Batches that a worker may be ahead of the slowest (ssp)."
    )
    parts: int | None = Field(
        default=None,
        ge=1,
        le=65536,
        description="Batches that make a step (bsp). Not given: as many as workers are asked for. "
        "It stays the same however many workers there are.",
    )
    spare: int = Field(
        default=0,
        ge=0,
        description="A step is closed when all but so many of its parts are there (bsp); a batch "
        "that comes too late is done again in a later step. Then the result is no longer the same "
        "in every run.",
    )

    def parts_of(self, workers: int) -> int | None:
        """Parts of a BSP step in a job submitted with so many workers; None: not BSP."""
        return (self.parts or workers) if self.mode == "bsp" else None


class Server(Section):
    """The parameter servers."""

    shards: Annotated[int, AfterValidator(_power_of_two)] = Field(
        default=256,
        ge=1,
        le=65536,
        description="Pieces that all tables are cut into: a power of two, at least 4 for each "
        "server process.",
    )
    replicas: int = Field(
        default=1, ge=1, le=2, description="Copies of each shard. 2: not in this version."
    )
    on_loss: Literal["replay", "rollback", "patch"] | None = Field(
        default=None,
        description="What happens when a server dies. `replay`: its shards come from the last "
        "checkpoint, the batches since then are done again, and the other servers drop them. "
        "`rollback`: all servers go back to the last checkpoint. `patch` (ssp and asp): its shards "
        "come from the last checkpoint and nothing is done again; what they have learned since is "
        "lost, and counted as `lost_rows`. Not given: `rollback` for bsp, else `replay`.",
    )
    table_memory: float = Field(
        default=0.7, gt=0, le=0.95, description="Share of a server's memory that tables may take."
    )
    request_limit: PositiveDuration = Field(
        default=600.0, description="A pull or push that takes longer fails the worker."
    )


class Checkpoint(Section):
    """Saves of the tables while the job runs."""

    every: PositiveDuration = Field(default=60.0, description="Time between two saves.")
    keep: int = Field(default=3, ge=1, description="How many are kept.")


class Model(Section):
    """What is written at the end."""

    path: Annotated[Text, AfterValidator(_model_path)] | None = Field(
        default=None,
        description="Folder of the model. `{date}` (YYYY-MM-DD), `{app}` (application id) and "
        "`{name}` are filled in. Not given: `model/` in the job directory.",
    )
    overwrite: bool = Field(default=False, description="Replace a model that exists at `path`.")
    init_from: Text | None = Field(
        default=None, description="Folder of a model to start from; any number of servers."
    )
    text: bool = Field(default=False, description="Write the model as text, too.")


class Stop(Section):
    """When to stop before the last epoch."""

    metric: Text | None = Field(
        default=None,
        description="A metric such as `test_logloss`. The best model by it is the one kept.",
    )
    patience: int = Field(
        default=2, ge=1, description="Epochs without a better value before the job stops."
    )
    mode: Literal["min", "max"] | None = Field(
        default=None,
        description="Which values are better. Not given: lower for names with loss, error or rmse, "
        "higher for others.",
    )
    max_time: PositiveDuration | None = Field(
        default=None, description="Stop training after this time."
    )

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value of the metric is the better one."""
        if self.mode is not None:
            return self.mode == "min"
        return any(word in (self.metric or "").lower() for word in ("loss", "error", "rmse"))


class Network(Section):
    """Addresses of the servers."""

    interface: Text | None = Field(
        default=None,
        description="Network interface of the servers; with `runtime: dmlc` of the workers, too. "
        "Not given: the one that reaches the AM.",
    )


class Dmlc(Section):
    """Programs of ps-lite (`runtime: dmlc`)."""

    restart: Literal["gang", "worker", "never"] = Field(
        default="gang",
        description="After a death. `gang`: all programs start again, from their own checkpoint. "
        "`worker`: a worker starts again alone, but for worker 0; only for programs that train "
        "asynchronously, so with `sync.mode: asp`. `never`: the job ends.",
    )
    environment: Annotated[str, AfterValidator(_program_environment)] | None = Field(
        default=None,
        description="Python of the programs, of any version: `python:///path`, `venv:///path`, "
        "`conda://name`, or an archive. Not given: `yarnps.environment`, which yarnps' own "
        "processes have in any case.",
    )
    barrier_limit: PositiveDuration = Field(
        default=3600.0,
        description="Who keeps others waiting at a barrier for so long is taken for dead.",
    )


class Block(Section):
    """The `yarnps:` block."""

    runtime: Literal["native", "dmlc", "xgboost"] = Field(
        default="native",
        description="What the roles run. `native`: yarnps' own servers, and workers that call "
        "`yarnps.connect()`. `dmlc`: unmodified programs of ps-lite, such as MXNet's. `xgboost`: "
        "unmodified distributed XGBoost, which has workers only.",
    )
    app: Text | None = Field(
        default=None,
        description="A built-in program: `ftrl`, `fm` or `word2vec`. Not given: "
        "`services.worker.script`.",
    )
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="Parameters of the program: of `app`, or whatever your own program reads.",
    )
    environment: Annotated[str, AfterValidator(_environment)] | None = Field(
        default=None,
        description="Python of the containers: `python:///path`, `venv:///path`, `conda://name`, "
        "`docker://image`, or an archive, local or in HDFS. Not given: the one that submits.",
    )
    data: Data = Field(
        default_factory=lambda: Data.model_construct(train=()),
        description="The input. Needed with `runtime: native`; with `xgboost`, the workers find "
        "their shares of it with `yarnps.shard()`.",
    )
    train: Train = Field(default_factory=Train)
    sync: Sync = Field(default_factory=Sync)
    server: Server = Field(default_factory=Server)
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    model: Model = Field(default_factory=Model)
    stop: Stop = Field(default_factory=Stop)
    start_timeout: PositiveDuration = Field(
        default=600.0,
        description="Time, from the AM's start, for all containers to come; then the job ends.",
    )
    am_silence: PositiveDuration = Field(
        default=300.0, description="A container that does not reach the AM so long ends itself."
    )
    silence: PositiveDuration = Field(
        default=60.0, description="A container that is not heard of for so long is given up."
    )
    retry_memory: float | None = Field(
        default=None,
        gt=1,
        le=16,
        description="After a death for lack of memory, the next container gets this many times "
        "the memory.",
    )
    dmlc: Dmlc = Field(default_factory=Dmlc)
    network: Network = Field(default_factory=Network)
    job_dir: Text | None = Field(
        default=None,
        description="The job directory. Not given: `.yarnps/<application id>/` in your home.",
    )
    retention: Duration = Field(
        default=2_592_000.0, description="`yarnps clean` removes job directories older than this."
    )
    kill_on_exit: bool = Field(
        default=False, description="The job ends when the `submit` that follows it does."
    )

    @property
    def prepares(self) -> bool:
        """Whether there is a pass over the training input before its first epoch."""
        return self.train.prepare or self.app in PREPARING_APPS

    @property
    def on_loss(self) -> str:
        """What happens when a server dies, with the default filled in."""
        return self.server.on_loss or ("rollback" if self.sync.mode == "bsp" else "replay")
