"""The worker: for each block of words its rows are pulled, changed here, and the changes pushed."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from yarnps.apps.word2vec import INPUT, OUTPUT, _kernel
from yarnps.apps.word2vec._blocks import Block, Blocks
from yarnps.apps.word2vec._evaluate import Evaluation
from yarnps.apps.word2vec._vocabulary import FILE, Vocabulary, count_words, merged
from yarnps.jobdir import JobDir
from yarnps.protocol.tables import Add, Uniform

if TYPE_CHECKING:
    from yarnps import Batch, Job, SparseTable
    from yarnps.spec import Word2vecParams

REPORT_S = 2.0

Rows = NDArray[np.float32]


def train(job: Job) -> None:
    """Train until the job's input has ended."""
    # Checked and complete since the submission: the job model need not be loaded for it.
    params = cast("Word2vecParams", SimpleNamespace(**job.params))
    # As gensim's begin; the first program's began with half of that.
    most = 1 / params.dim
    inputs = job.sparse(INPUT, params.dim, optimizer=Add(), init=Uniform(-most, most))
    outputs = job.sparse(OUTPUT, params.dim, optimizer=Add())
    known = Known(job, params)
    evaluation = Evaluation(inputs, known)
    trainer: Trainer | None = None
    for batch in job.data(evaluate=evaluation, prepare=count_words):
        with batch:
            trainer = trainer or Trainer(job, params, known(), inputs, outputs)
            trainer.train(batch)


class Known:
    """The vocabulary, merged when it is asked for the first time."""

    def __init__(self, job: Job, params: Word2vecParams) -> None:
        self._job = job
        self._params = params
        self._vocabulary: Vocabulary | None = None

    def __call__(self) -> Vocabulary:
        """What was counted before the first epoch; only there once that is through."""
        if self._vocabulary is None:
            params = self._params
            self._vocabulary = merged(
                self._job.prepared(), min_count=params.min_count, max_words=params.max_words
            )
            self._write(self._vocabulary.to_tsv())
        return self._vocabulary

    def _write(self, text: bytes) -> None:
        """Every worker has the same: the first one writes it, or one after another resumes."""
        folder = JobDir(self._job.job_dir)
        if not folder.exists(FILE) or folder.read(FILE) != text:
            folder.write(FILE, text)


class Trainer:
    """Trains on batches."""

    def __init__(
        self,
        job: Job,
        params: Word2vecParams,
        vocabulary: Vocabulary,
        inputs: SparseTable,
        outputs: SparseTable,
    ) -> None:
        self._params = params
        self._keys = vocabulary.keys
        self._inputs = inputs
        self._outputs = outputs
        self._kernel = _kernel.cbow if params.algorithm == "cbow" else _kernel.skip_gram
        self._blocks = Blocks(
            vocabulary,
            sample=params.sample,
            exponent=params.ns_exponent,
            block_words=params.block_words,
            pool_share=params.negative_pool,
        )
        self._progress = _Progress(job)

    def train(self, batch: Batch) -> None:
        """Every random number follows from (seed, epoch, split, batch)."""
        rng = batch.rng
        params = self._params
        rate = params.alpha - (params.alpha - params.min_alpha) * batch.progress
        for block in self._blocks.of(batch.items, rng):
            loss = self._block(block, rate, int(rng.integers(1 << 63)))
            self._progress.add(loss, len(block), rate)

    def _block(self, block: Block, rate: float, seed: int) -> float:
        """Returns the sum of the words' losses."""
        in_keys, out_keys = self._keys[block.input_words], self._keys[block.output_words]
        pulls = self._inputs.pull(in_keys), self._outputs.pull(out_keys)
        old_in, old_out = (pull.wait() for pull in pulls)
        new_in, new_out = padded(old_in), padded(old_out)
        loss = self._kernel(
            block.ends,
            block.ins,
            block.outs,
            new_in,
            new_out,
            block.pool,
            self._params.window,
            self._params.negative,
            np.float32(rate),
            np.uint64(seed),
        )
        # The servers add: what others have pushed meanwhile stays.
        self._inputs.push(in_keys, changes(new_in, old_in))
        self._outputs.push(out_keys, changes(new_out, old_out))
        return float(loss)


def padded(rows: Rows) -> Rows:
    """A copy whose width is a multiple of the kernel's lanes."""
    count, dim = rows.shape
    copy = np.empty((count, -(-dim // _kernel.LANES) * _kernel.LANES), np.float32)
    copy[:, :dim] = rows
    copy[:, dim:] = 0
    return copy


def changes(new: Rows, old: Rows) -> Rows:
    """New minus old, in the place of old."""
    return np.subtract(new[:, : old.shape[1]], old, out=old)


class _Progress:
    """The loss of words as they are before being learned from, reported now and then."""

    def __init__(self, job: Any) -> None:
        self._job = job
        self._next = 0.0  # the first block's loss is that of vectors that know nothing
        self._loss = 0.0
        self._words = 0

    def add(self, loss: float, words: int, rate: float) -> None:
        self._loss += loss
        self._words += words
        now = time.monotonic()
        if now >= self._next:
            self._job.report(train_loss=self._loss / self._words, learning_rate=rate)
            self._next, self._loss, self._words = now + REPORT_S, 0.0, 0
