"""Parameters of the built-in programs (`yarnps.params` with `yarnps.app`)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from ._section import Section

# What programs on sparse features have in common.
HashBuckets = Annotated[
    int | None,
    Field(
        ge=1,
        le=2**62,
        description="Feature ids are hashed into so many buckets. Not given: ids stay as they are.",
    ),
]
Bias = Annotated[bool, Field(description="Learn a constant term, too.")]


class FtrlParams(Section):
    """FTRL-proximal logistic regression (McMahan et al., KDD 2013)."""

    hash_buckets: HashBuckets = None
    alpha: float = Field(
        default=0.1, gt=0, allow_inf_nan=False, description="Learning rate: alpha of the paper."
    )
    beta: float = Field(
        default=1.0, ge=0, allow_inf_nan=False, description="Smooths the first steps: beta."
    )
    l1: float = Field(
        default=1.0, ge=0, allow_inf_nan=False, description="L1 penalty: makes weights exactly 0."
    )
    l2: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="L2 penalty.")
    bias: Bias = True
    admit: int = Field(
        default=1,
        ge=1,
        lt=2**32,
        description="A feature gets a weight in the n-th batch that has it; rare ones take no "
        "memory.",
    )
    when_full: Literal["fail", "ignore", "evict"] = Field(
        default="fail",
        description="New features when `server.table_memory` is used up: the job fails, they get "
        "no weight, or the weights not learned for the longest time are forgotten.",
    )


class FmParams(Section):
    """Factorization machines for regression or two classes (Rendle, ICDM 2010)."""

    task: Literal["classification", "regression"] = Field(
        default="classification",
        description="`classification`: labels 0 and 1, or -1 and 1, log loss. `regression`: any "
        "numbers, squared loss.",
    )
    dim: int = Field(
        default=8, ge=1, le=4096, description="Factors of a feature: numbers of its vector."
    )
    hash_buckets: HashBuckets = None
    optimizer: Literal["adagrad", "sgd", "ftrl"] = Field(
        default="adagrad",
        description="`ftrl`: for the weights, with `beta` and `l1`; the factors have Adagrad then.",
    )
    learning_rate: float = Field(
        default=0.1,
        gt=0,
        allow_inf_nan=False,
        description="Of the mean gradient of a batch's rows that have a feature; alpha of `ftrl`.",
    )
    l2: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Penalty on weights: half of it times the square, for each entry of a row.",
    )
    l2_factors: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="The same on factors."
    )
    l1: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Only with `ftrl`: makes weights exactly 0.",
    )
    beta: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Only with `ftrl`: smooths the first steps.",
    )
    init_std: float = Field(
        default=0.05,
        gt=0,
        allow_inf_nan=False,
        description="Factors begin as normal random numbers with this standard deviation.",
    )
    bias: Bias = True
    low: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Only for `regression`: predictions below this count as this.",
    )
    high: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Only for `regression`: predictions above this count as this.",
    )


class Word2vecParams(Section):
    """Vectors of words: skip-gram or CBOW with negative sampling (Mikolov et al., NIPS 2013)."""

    algorithm: Literal["skipgram", "cbow"] = Field(
        default="skipgram",
        description="`skipgram`: a word's neighbours predict it one by one. `cbow`: their mean "
        "does, which is faster and knows rare words less well.",
    )
    dim: int = Field(default=100, ge=2, le=4096, description="Numbers of a vector.")
    window: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="A word's neighbours are at most so many words away; the distance is drawn "
        "for each word, from 1 to this.",
    )
    negative: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="Negative samples of a pair of words; of a word with `cbow`.",
    )
    min_count: int = Field(default=5, ge=1, description="Words that occur less often are left out.")
    max_words: int | None = Field(
        default=None, ge=1, description="At most so many words, the most frequent. Not given: all."
    )
    sample: float = Field(
        default=1e-3,
        ge=0,
        allow_inf_nan=False,
        description="Words whose share of the text is above this are thinned out. 0: none.",
    )
    alpha: float = Field(
        default=0.025, gt=0, allow_inf_nan=False, description="Learning rate at the beginning."
    )
    min_alpha: float = Field(
        default=0.0001,
        ge=0,
        allow_inf_nan=False,
        description="Learning rate at the end; in between it falls with the share of the training "
        "that is done.",
    )
    ns_exponent: float = Field(
        default=0.75,
        allow_inf_nan=False,
        description="Negative samples are drawn by a word's count to the power of this.",
    )
    block_words: int = Field(
        default=10_000,
        ge=100,
        description="Words that are trained on between a pull and a push.",
    )
    negative_pool: float = Field(
        default=1.0,
        gt=0,
        le=1000,
        description="For each block so many samples a word are drawn, and its words take their "
        "negative samples from these. With less, fewer rows travel, and rare words are "
        "drawn seldom, but then often.",
    )
    output: Literal["binary", "text", "both"] = Field(
        default="binary",
        description="In which of word2vec's formats the vectors are written, beside the tables: "
        "`vectors.bin`, `vectors.txt`, or both.",
    )


APPS: Final[dict[str, type[BaseModel]]] = {
    "ftrl": FtrlParams,
    "fm": FmParams,
    "word2vec": Word2vecParams,
}

# Programs that go through the training input once before its first epoch.
PREPARING_APPS: Final = frozenset({"word2vec"})

# Programs that add files to the model that the servers have written (`yarnps.apps.<app>.finish`).
FINISHING_APPS: Final = frozenset({"word2vec"})
