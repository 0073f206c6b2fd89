"""From lines of text to what the kernel works on: blocks of words with the rows they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError
from yarnps._kernels import inlined, jit
from yarnps.apps.word2vec._vocabulary import Vocabulary
from yarnps.protocol.shards import mix

Ints = NDArray[np.int64]

# As in the reference program: a line that is longer is more than one sentence.
MAX_SENTENCE = 1000


class Block(NamedTuple):
    """Some sentences, with their words as places among the rows that are needed.

    Attributes
    ----------
    ends
        int64: sentence s is the words ``ends[s - 1]`` to ``ends[s]``.
    input_words, output_words
        int64, increasing: numbers of the words whose rows are needed.
    ins, outs
        int64, for each word of the text: its row among `input_words` and `output_words`.
    pool
        int64: rows of `output_words` that negative samples are taken from.
    """

    ends: Ints
    input_words: Ints
    output_words: Ints
    ins: Ints
    outs: Ints
    pool: Ints

    def __len__(self) -> int:
        return len(self.ins)


class Blocks:
    """Makes blocks; keeps its work space between them.

    Parameters
    ----------
    sample
        Threshold of the subsampling of frequent words, 0: none.
    exponent
        Negative samples are drawn by count to the power of this.
    block_words
        A block has about so many words.
    pool_share
        The pool's size, in words of the block.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        sample: float,
        exponent: float,
        block_words: int,
        pool_share: float,
    ) -> None:
        self._lookup = Lookup(vocabulary.words)
        self._keep = kept_share(vocabulary.counts, sample)
        self._noise = np.cumsum(vocabulary.counts.astype(np.float64) ** exponent)
        self._block_words = block_words
        self._pool_share = pool_share
        self._places = np.full(len(vocabulary), -1, np.int64)

    def of(self, lines: Sequence[str], rng: np.random.Generator) -> Iterator[Block]:
        """The blocks of some lines; what is random is drawn from `rng`."""
        words, ends = self._thinned(lines, rng)
        first = begin = 0
        while first < len(ends):
            last = int(np.searchsorted(ends, begin + self._block_words)) + 1
            end = int(ends[min(last, len(ends)) - 1])
            if end > begin:
                yield self._block(words[begin:end], ends[first:last] - begin, rng)
            first, begin = last, end

    def _thinned(self, lines: Sequence[str], rng: np.random.Generator) -> tuple[Ints, Ints]:
        """The words that stay, as numbers, and where the sentences end."""
        numbers, ends = self._lookup(lines)
        chances = rng.random(len(numbers), np.float32)
        new_ends = np.empty(len(ends) + len(numbers) // MAX_SENTENCE, np.int64)
        kept, sentences = _thin(numbers, ends, self._keep, chances, new_ends, MAX_SENTENCE)
        return numbers[:kept], new_ends[:sentences]

    def _block(self, words: Ints, ends: Ints, rng: np.random.Generator) -> Block:
        size = max(1, round(self._pool_share * len(words)))
        pool = drawn(self._noise, size, rng)
        found = np.empty(len(words) + size, np.int64)
        inputs = _find_new(words, self._places, found, 0)
        outputs = _find_new(pool, self._places, found, inputs)
        output_words = np.sort(found[:outputs])
        input_words = np.sort(found[:inputs])
        outs, pool = _ranked(output_words, self._places, words, pool)
        ins, _ = _ranked(input_words, self._places, words, pool[:0])
        _forget(output_words, self._places)
        return Block(ends, input_words, output_words, ins, outs, pool)


class Lookup:
    """Finds the numbers of words in text.

    A word stands here for its 64-bit hash: in the table of the vocabulary no two may have the same
    (nobody will ever see that), and that an unknown word has a known one's is as unlikely.
    """

    def __init__(self, words: Sequence[str]) -> None:
        text, ends = _joined(words)
        size = 1 << max(4, (3 * len(words)).bit_length())
        self._hashes, self._places = np.zeros(size, np.uint64), np.full(size, -1, np.int64)
        clash = _fill(text, ends, self._hashes, self._places)
        if clash >= 0:
            raise DataError(
                f"two words have the same 64-bit hash, one is {words[clash]!r}",
                "Replace it in the text.",
            )

    def __call__(self, lines: Sequence[str]) -> tuple[Ints, Ints]:
        """Numbers of all words (-1: unknown), and where among them each line ends."""
        text, ends = _joined(lines)
        numbers = np.empty(len(text) // 2 + len(lines), np.int64)
        sentences = np.empty(len(lines), np.int64)
        count = _look_up(text, ends, self._hashes, self._places, numbers, sentences)
        return numbers[:count], sentences


def _joined(lines: Sequence[str]) -> tuple[NDArray[np.uint8], Ints]:
    """All lines in UTF-8, each with a line feed, and where each one ends."""
    encoded = [line.encode() for line in lines]
    ends = np.cumsum([len(line) + 1 for line in encoded], dtype=np.int64)
    return np.frombuffer(b"\n".join([*encoded, b""]), np.uint8), ends


def kept_share(counts: Ints, sample: float) -> NDArray[np.float32]:
    """How much of each word stays; the formula of the reference program."""
    if sample == 0:
        return np.ones(len(counts), np.float32)
    threshold = sample * float(counts.sum())
    share = (np.sqrt(counts / threshold) + 1) * threshold / counts
    return np.minimum(share, 1).astype(np.float32)


def drawn(sums: NDArray[np.float64], size: int, rng: np.random.Generator) -> Ints:
    """A sample of places by weights, given their running sums; in increasing order.

    One from each of `size` parts of equal weight: so a place is there less than two times more, or
    less, than its share of `size`. Wholly independent draws would be off by the root of that share.
    """
    spots = (np.arange(size) + rng.random(size)) * (sums[-1] / size)
    places: Ints = np.searchsorted(sums, spots, side="right")
    return np.minimum(places, len(sums) - 1)  # rounding may put the last spot at the very end


# FNV-1a, mixed at the end because its low bits alone are poor.
_BASIS, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)


@inlined
def _is_space(byte):  # type: ignore[no-untyped-def]
    return byte == 32 or 9 <= byte <= 13


@inlined
def _slot(hashed, hashes, places):  # type: ignore[no-untyped-def]
    """Where a hash is, or would be."""
    last = np.uint64(hashes.shape[0] - 1)
    slot = hashed & last
    while places[slot] >= 0 and hashes[slot] != hashed:
        slot = (slot + np.uint64(1)) & last
    return slot


@jit
def _fill(text, ends, hashes, places):  # type: ignore[no-untyped-def]
    """Enter one word a line; returns the number of one whose hash was there already, or -1."""
    begin = 0
    for number in range(ends.shape[0]):
        hashed = _BASIS
        for i in range(begin, ends[number] - 1):
            hashed = (hashed ^ np.uint64(text[i])) * _PRIME
        hashed = mix(hashed)
        slot = _slot(hashed, hashes, places)
        if places[slot] >= 0:
            return number
        hashes[slot], places[slot] = hashed, number
        begin = ends[number]
    return -1


@jit
def _look_up(text, ends, hashes, places, numbers, sentences):  # type: ignore[no-untyped-def]
    """Numbers of the words between white space; a free place's number is -1."""
    count = begin = 0
    for line in range(ends.shape[0]):
        hashed, inside = _BASIS, False
        for i in range(begin, ends[line]):
            byte = text[i]
            if not _is_space(byte):
                hashed, inside = (hashed ^ np.uint64(byte)) * _PRIME, True
            elif inside:
                numbers[count] = places[_slot(mix(hashed), hashes, places)]
                count += 1
                hashed, inside = _BASIS, False
        sentences[line] = count
        begin = ends[line]
    return count


@jit
def _thin(words, ends, keep, chances, new_ends, longest):  # type: ignore[no-untyped-def]
    """Leave out unknown words (-1) and some of the frequent ones, in place; cut long sentences."""
    kept = sentences = begin = 0
    for sentence in range(ends.shape[0]):
        start = kept
        for i in range(begin, ends[sentence]):
            word = words[i]
            if word >= 0 and chances[i] < keep[word]:
                words[kept] = word
                kept += 1
                if kept - start == longest:
                    new_ends[sentences] = start = kept
                    sentences += 1
        if kept > start:
            new_ends[sentences] = kept
            sentences += 1
        begin = ends[sentence]
    return kept, sentences


@jit
def _find_new(words, places, found, count):  # type: ignore[no-untyped-def]
    """Append the words that have no place yet to the `count` that were found before."""
    for i in range(words.shape[0]):
        word = words[i]
        if places[word] < 0:
            places[word] = 0
            found[count] = word
            count += 1
    return count


@jit
def _ranked(ordered, places, words, others):  # type: ignore[no-untyped-def]
    """The places of words, and of others, among the ordered ones."""
    for place in range(ordered.shape[0]):
        places[ordered[place]] = place
    first, second = np.empty_like(words), np.empty_like(others)
    for i in range(words.shape[0]):
        first[i] = places[words[i]]
    for i in range(others.shape[0]):
        second[i] = places[others[i]]
    return first, second


@jit
def _forget(words, places):  # type: ignore[no-untyped-def]
    for i in range(words.shape[0]):
        places[words[i]] = -1
