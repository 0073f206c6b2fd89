"""Similarity and analogy files, with the meaning that gensim gives them.

A job's test input (`data.test`) is such files. A line of a similarity file is two words and what
people said of them, in three columns; a line of an analogy file is four words (*a* is to *b* as
*c* is to *d*), under headings that begin with a colon. Case does not count. Questions about words
that are not among the most frequent `RESTRICT` are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError
from yarnps.files import open_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarnps import Batch, SparseTable
    from yarnps.apps.word2vec._vocabulary import Vocabulary

RESTRICT = 300_000

# Numbers in the matrix of questions by words: 64 MB.
_AT_ONCE = 16 << 20

Rows = NDArray[np.float32]
Sums = dict[str, list[float]]


class Pair(NamedTuple):
    """Two words, and how alike people find them."""

    one: str
    other: str
    score: float


class Analogy(NamedTuple):
    """`a` is to `b` as `c` is to `d`."""

    a: str
    b: str
    c: str
    d: str


class Vectors:
    """Words, the most frequent first, and their vectors at length 1.

    Parameters
    ----------
    words
        Any spelling; of those that differ in case only the first counts.
    rows
        float32, shape (n, dim).
    """

    def __init__(self, words: Sequence[str], rows: Rows) -> None:
        upper = [word.upper() for word in words]
        self.places: dict[str, int] = {}
        for place, word in enumerate(upper):
            self.places.setdefault(word, place)
        # Words that differ in case only are one answer to a question.
        self.first = np.array([self.places[word] for word in upper], np.int64)
        self.rows = at_length_one(rows)


class Evaluation:
    """`data(evaluate=)`: each file is judged as a whole, by whoever gets its first batch."""

    def __init__(self, table: SparseTable, vocabulary: Callable[[], Vocabulary]) -> None:
        self._table = table
        self._vocabulary = vocabulary
        self._vectors: Vectors | None = None
        self._epoch = 0

    def __call__(self, batch: Batch) -> Sums:
        split = batch.lease.split
        if split.start > 0 or batch.index > 0:
            return {}
        files, path = open_files(split.path)
        text = files.read_bytes(path).decode("utf-8", "replace")
        return judged(PurePosixPath(path).stem, text.split("\n"), self._at(batch.epoch))

    def _at(self, epoch: int) -> Vectors:
        """The vectors as they are in this test phase."""
        if self._vectors is None or epoch != self._epoch:
            vocabulary = self._vocabulary()
            most = vocabulary.by_frequency()[:RESTRICT]
            numbers = np.sort(most)
            rows = np.empty((len(vocabulary), self._table.spec.dim), np.float32)
            rows[numbers] = self._table.pull(vocabulary.keys[numbers]).wait()
            self._vectors = Vectors([vocabulary.words[i] for i in most], rows[most])
            self._epoch = epoch
        return self._vectors


def judged(name: str, lines: Sequence[str], vectors: Vectors) -> Sums:
    """Metrics of a file, each as [value, 1].

    Raises
    ------
    DataError
        It is neither a similarity nor an analogy file.
    """
    if any(line.startswith(":") for line in lines):
        right, asked = analogies(list(analogies_of(name, lines)), vectors)
        return {name: [right, asked]} if asked else {}
    pairs = list(pairs_of(name, lines))
    found = [pair for pair in pairs if known(pair[:2], vectors)]
    sums: Sums = {f"{name}_unknown": [float(len(pairs) - len(found)), float(len(pairs))]}
    if len(found) >= 2:
        said = np.array([pair.score for pair in found])
        ours = similarities(found, vectors)
        sums[f"{name}_spearman"] = [correlation(ranks(said), ranks(ours)), 1.0]
        sums[f"{name}_pearson"] = [correlation(said, ours), 1.0]
    return sums


def pairs_of(name: str, lines: Sequence[str]) -> Iterator[Pair]:
    """The questions of a similarity file; what begins with # is a remark."""
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = re.split(r"\s*[\t,;]\s*|\s+", line.strip())
        try:
            one, other, score = parts
            yield Pair(one.upper(), other.upper(), float(score))
        except ValueError:
            if number == 1:  # a heading
                continue
            raise DataError(
                f"{name}, line {number} is not two words and a number: {line[:80]!r}",
                "data.test of word2vec is similarity files (two words and a score a line) and "
                "analogy files (four words a line, headings begin with a colon).",
            ) from None


def analogies_of(name: str, lines: Sequence[str]) -> Iterator[Analogy]:
    """The questions of an analogy file."""
    for number, line in enumerate(lines, 1):
        if line.startswith(":") or not line.strip():
            continue
        words = line.upper().split()
        if len(words) != 4:
            raise DataError(
                f"{name}, line {number} is not four words: {line[:80]!r}",
                "A line of an analogy file is four words, or a heading that begins with a colon.",
            )
        yield Analogy(*words)


def known(words: Sequence[str | float], vectors: Vectors) -> bool:
    """Whether all words have vectors."""
    return all(word in vectors.places for word in words)


def similarities(pairs: Sequence[Pair], vectors: Vectors) -> NDArray[np.float64]:
    """Cosines."""
    ones = vectors.rows[[vectors.places[pair.one] for pair in pairs]]
    others = vectors.rows[[vectors.places[pair.other] for pair in pairs]]
    found: NDArray[np.float64] = np.einsum("ij,ij->i", ones, others, dtype=np.float64)
    return found


def analogies(questions: Sequence[Analogy], vectors: Vectors) -> tuple[float, float]:
    """How many answers are right, and how many could be asked.

    The answer is the word nearest to b - a + c (each at length 1), other than these three.
    """
    asked = [q for q in questions if known(q, vectors)]
    right, step = 0, max(1, _AT_ONCE // max(1, len(vectors.rows)))
    for start in range(0, len(asked), step):
        part = asked[start : start + step]
        places = np.array([[vectors.places[word] for word in q] for q in part], np.int64)
        a, b, c, d = places.T
        wanted = vectors.rows[b] - vectors.rows[a] + vectors.rows[c]
        near = wanted @ vectors.rows.T
        near[:, vectors.first != np.arange(len(vectors.first))] = -np.inf
        for given in (a, b, c):
            near[np.arange(len(part)), given] = -np.inf
        right += int((near.argmax(axis=1) == d).sum())
    return float(right), float(len(asked))


def at_length_one(rows: Rows) -> Rows:
    """The rows scaled to length 1; zeros stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    lengths[lengths == 0] = 1
    scaled: Rows = (rows / lengths[:, None]).astype(np.float32)
    return scaled


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of theirs."""
    _, which, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes).astype(np.float64)
    return (ends - (sizes - 1) / 2)[which]


def correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Pearson's; of ranks it is Spearman's. 0 where one of them does not vary."""
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size else 0.0
