"""word2vec's file formats, and the words nearest to one.

Both formats begin with a line ``<words> <dim>``. Then, for each word, the most frequent first: in
text, the word and its numbers with spaces between; in binary, the word, a space, the numbers as
little-endian float32, and a line feed. Gensim's `KeyedVectors.load_word2vec_format` reads both.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError, InputError
from yarnps.files import open_files

BINARY, TEXT = "vectors.bin", "vectors.txt"

Rows = NDArray[np.float32]

_READ_BYTES = 4 << 20
_LONGEST_HEADER = 64
_REMEDY = "Give a folder that a job with `app: word2vec` wrote, or a file in word2vec's format."


class Neighbour(NamedTuple):
    """A word, and the cosine of the angle between its vector and another's."""

    word: str
    cosine: float


class WordVectors:
    """Words with their vectors.

    Attributes
    ----------
    words
        In the order of the file.
    rows
        float32, shape (n, dim).
    """

    def __init__(self, words: list[str], rows: Rows) -> None:
        self.words = words
        self.rows = rows
        self._places = {word: place for place, word in enumerate(words)}
        lengths = np.linalg.norm(rows, axis=1)
        self._lengths = np.where(lengths == 0, np.float32(1), lengths)

    def nearest(self, word: str, count: int) -> list[Neighbour]:
        """The words whose vectors have the smallest angle to that of `word`, nearest first.

        Raises
        ------
        InputError
            The word has no vector.
        """
        place = self._places.get(word)
        if place is None:
            alike = difflib.get_close_matches(word, self.words[:50_000], n=3)
            hint = f"Did you mean {', '.join(alike)}?" if alike else "Its spelling has to be exact."
            raise InputError(f"the model has no word {word!r}", hint)
        cosines = self.rows @ self.rows[place] / (self._lengths * self._lengths[place])
        cosines[place] = -np.inf
        count = min(count, len(self.words) - 1)
        best = np.argpartition(-cosines, count)[:count] if count else np.empty(0, np.int64)
        best = best[np.lexsort((best, -cosines[best]))]
        return [Neighbour(self.words[i], float(cosines[i])) for i in best.tolist()]


def write_binary(file: BinaryIO, count: int, dim: int, vectors: Iterable[tuple[str, Rows]]) -> None:
    """Write vectors in the binary format."""
    file.write(f"{count} {dim}\n".encode())
    for word, row in vectors:
        file.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")


def write_text(file: BinaryIO, count: int, dim: int, vectors: Iterable[tuple[str, Rows]]) -> None:
    """Write vectors in the text format: with nine digits no float32 is changed."""
    file.write(f"{count} {dim}\n".encode())
    line = " ".join(["%s", *["%.9g"] * dim]) + "\n"
    for word, row in vectors:
        file.write((line % (word, *row.tolist())).encode())


def read(address: str) -> WordVectors:
    """Vectors of a model's folder, or of a file in one of the formats.

    Raises
    ------
    DataError
        There are none, or the file is cut short.
    """
    files, path = open_files(address)
    if files.info(path).is_dir:
        names = [f"{path.rstrip('/')}/{name}" for name in (BINARY, TEXT)]
        there = [name for name in names if files.exists(name)]
        if not there:
            raise DataError(f"no vectors of words in {files.address(path)}", _REMEDY)
        path = there[0]
    with files.open(path, "rb") as file:
        return _Reader(file, files.address(path)).read()


class _Reader:
    """Reads a file piece by piece."""

    def __init__(self, file: BinaryIO, address: str) -> None:
        self._file = file
        self._address = address
        self._data = b""

    def read(self) -> WordVectors:
        header = self._until(b"\n", _LONGEST_HEADER)
        try:
            count, dim = (int(number) for number in header.split())
        except ValueError:
            raise self._broken("it does not begin with two numbers") from None
        if count < 1 or dim < 1:
            raise self._broken(f"it says that it has {count} words of {dim} numbers")
        found = list(self._text(count, dim) if self._is_text(dim) else self._binary(count, dim))
        return WordVectors([word for word, _ in found], np.stack([row for _, row in found]))

    def _is_text(self, dim: int) -> bool:
        """Whether the first line is a word and as many numbers as there should be."""
        while b"\n" not in self._data[1:] and len(self._data) < 32 * (dim + 2) and self._more():
            pass
        parts = self._data.partition(b"\n")[0].split()
        try:
            return len(parts) == dim + 1 and all(np.isfinite(float(part)) for part in parts[1:])
        except ValueError:
            return False

    def _text(self, count: int, dim: int) -> Iterator[tuple[str, Rows]]:
        for _ in range(count):
            line = self._until(b"\n", 1 << 20)
            word, _, numbers = line.partition(b" ")
            row = np.array(numbers.split(), np.float32)
            if len(row) != dim:
                raise self._broken(f"{_word(word)!r} has {len(row)} numbers instead of {dim}")
            yield _word(word), row

    def _binary(self, count: int, dim: int) -> Iterator[tuple[str, Rows]]:
        for _ in range(count):
            # The reference program writes a line feed after each row; gensim writes none.
            word = self._until(b" ", 1 << 20).lstrip(b"\n")
            while len(self._data) < 4 * dim:
                if not self._more():
                    raise self._broken(f"it ends in the vector of {_word(word)!r}")
            row = np.frombuffer(self._data[: 4 * dim], "<f4").astype(np.float32)
            self._data = self._data[4 * dim :]
            yield _word(word), row

    def _until(self, end: bytes, longest: int) -> bytes:
        """What comes before the next `end`, which is passed over."""
        while (place := self._data.find(end)) < 0:
            if len(self._data) > longest or not self._more():
                raise self._broken("it ends too early, or is something else")
        found, self._data = self._data[:place], self._data[place + 1 :]
        return found

    def _more(self) -> bool:
        piece = self._file.read(_READ_BYTES)
        self._data += piece
        return bool(piece)

    def _broken(self, why: str) -> DataError:
        return DataError(f"not a file of word vectors: {self._address}: {why}", _REMEDY)


def _word(data: bytes) -> str:
    return data.decode("utf-8", "replace")
