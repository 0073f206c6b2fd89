"""The vocabulary: words that are frequent enough, counted in a pass before the first epoch.

Each split's counts are a file of the job (`Job.prepared`). Every worker merges all of them, and
gets the same vocabulary, whoever has counted what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError
from yarnps.data import hash64

if TYPE_CHECKING:
    from yarnps import Batch

# In the job directory, for whoever names the rows of the model.
FILE = "vocabulary.tsv"


@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their keys: a word's number is its place here.

    Attributes
    ----------
    words
        Each once.
    keys
        int64, shape (n,), increasing: `hash64` of each word.
    counts
        int64, shape (n,): how often each occurs in the training input.
    """

    words: list[str]
    keys: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.words)

    def by_frequency(self) -> NDArray[np.int64]:
        """Numbers of all words, the most frequent first; of equals the first in the alphabet."""
        order = sorted(range(len(self)), key=lambda i: (-int(self.counts[i]), self.words[i]))
        return np.array(order, np.int64)

    def to_tsv(self) -> bytes:
        """Lines ``word <tab> count``, the most frequent first."""
        order = self.by_frequency().tolist()
        return "".join(f"{self.words[i]}\t{self.counts[i]}\n" for i in order).encode()


def count_words(batches: Iterable[Batch]) -> bytes:
    """The words of a split with their counts, as text: for `data(prepare=)`.

    As in the reference program, words are what stands between ASCII white space.
    """
    counts: Counter[bytes] = Counter()
    for batch in batches:
        counts.update("\n".join(batch.items).encode().split())
    return b"".join(b"%b\t%d\n" % item for item in counts.items())


def merged(parts: Iterable[bytes], *, min_count: int, max_words: int | None = None) -> Vocabulary:
    """The vocabulary, from the counts of all splits.

    Parameters
    ----------
    parts
        What `count_words` made of each split.
    min_count
        Words that occur less often are left out.
    max_words
        At most so many words: the most frequent.

    Raises
    ------
    DataError
        No word is left, or two words have the same key.
    """
    counts: Counter[str] = Counter()
    for part in parts:
        for word, count in read_tsv(part):
            counts[word] += count
    kept = [(word, count) for word, count in counts.items() if count >= min_count]
    if max_words is not None and len(kept) > max_words:
        kept = sorted(kept, key=lambda item: (-item[1], item[0]))[:max_words]
    if not kept:
        raise DataError(
            f"no word occurs {min_count} times in the training input, which has {len(counts):,} "
            "different words",
            "Set params.min_count lower, or give more text.",
        )
    keyed = sorted((hash64(word), word, count) for word, count in kept)
    keys = np.array([key for key, _, _ in keyed], np.int64)
    same = np.flatnonzero(keys[1:] == keys[:-1])
    if len(same):
        one, other = keyed[same[0]][1], keyed[same[0] + 1][1]
        raise DataError(
            f"two words have the same 63-bit key: {one!r} and {other!r}",
            "Replace one of them in the text.",
        )
    words = [word for _, word, _ in keyed]
    return Vocabulary(words, keys, np.array([count for _, _, count in keyed], np.int64))


def read_tsv(data: bytes) -> Iterator[tuple[str, int]]:
    """Words and counts of lines ``word <tab> count``."""
    # Not by splitlines, which knows many more ends of lines.
    for line in data.decode().split("\n"):
        if line:
            word, count = line.split("\t")
            yield word, int(count)
