"""word2vec's files, nearest words, and metrics: against gensim."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from gensim.test.utils import datapath

from yarnps._errors import DataError, InputError
from yarnps.apps.metrics import finish
from yarnps.apps.word2vec import _evaluate, vectors
from yarnps.apps.word2vec._evaluate import at_length_one

WORDS = ["king", "queen", "man", "woman", "Zürich", "the\u2028end", "\x1c", "漢字"]
SIMILAR = ["wordsim353.tsv", "simlex999.txt"]


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(len(WORDS), 5)).astype(np.float32)


def written(folder: Path, name: str, rows: np.ndarray) -> Path:
    write = vectors.write_binary if name == vectors.BINARY else vectors.write_text
    with open(folder / name, "wb") as file:
        write(file, len(WORDS), rows.shape[1], zip(WORDS, rows, strict=True))
    return folder / name


@pytest.mark.parametrize("name", [vectors.BINARY, vectors.TEXT])
def test_gensim_reads_what_was_written(tmp_path: Path, rows: np.ndarray, name: str) -> None:
    path = written(tmp_path, name, rows)
    words = KeyedVectors.load_word2vec_format(str(path), binary=name == vectors.BINARY)
    assert words.index_to_key == WORDS
    assert (words.vectors == rows).all()


@pytest.mark.parametrize("binary", [True, False])
def test_what_gensim_has_written_is_read(tmp_path: Path, rows: np.ndarray, binary: bool) -> None:
    theirs = KeyedVectors(5)
    theirs.add_vectors(WORDS, rows)
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary, write_header=True)
    ours = vectors.read(str(tmp_path / "theirs"))
    assert ours.words == WORDS
    np.testing.assert_allclose(ours.rows, rows, rtol=1e-6)


@pytest.mark.parametrize("name", [vectors.BINARY, vectors.TEXT])
def test_a_folder_and_pieces_of_any_size(
    tmp_path: Path, rows: np.ndarray, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, name, rows)
    monkeypatch.setattr(vectors, "_READ_BYTES", 7)
    ours = vectors.read(str(tmp_path))
    assert ours.words == WORDS
    assert (ours.rows == rows).all()


def test_nearest_words_are_those_of_gensim(tmp_path: Path, rows: np.ndarray) -> None:
    theirs = KeyedVectors(5)
    theirs.add_vectors(WORDS, rows)
    expected = theirs.most_similar("king", topn=4)
    found = vectors.WordVectors(WORDS, rows).nearest("king", 4)
    assert [neighbour.word for neighbour in found] == [word for word, _ in expected]
    assert [n.cosine for n in found] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
    assert len(vectors.WordVectors(WORDS, rows).nearest("king", 99)) == len(WORDS) - 1


def test_an_unknown_word_and_one_that_is_meant() -> None:
    words = vectors.WordVectors(WORDS, np.eye(len(WORDS), dtype=np.float32))
    with pytest.raises(InputError) as caught:
        words.nearest("quen", 3)
    assert "queen" in caught.value.remedy


@pytest.mark.parametrize("data", [b"", b"2 3\nking ", b"hello world\n", b"0 5\n", b"1 2\nx 1\n"])
def test_a_broken_file(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "broken").write_bytes(data)
    with pytest.raises(DataError, match="not a file of word vectors"):
        vectors.read(str(tmp_path / "broken"))


def test_a_folder_without_vectors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no vectors of words"):
        vectors.read(str(tmp_path))


# ---------------------------------------------------------------- metrics


@pytest.fixture(scope="module")
def made() -> tuple[list[str], np.ndarray, KeyedVectors]:
    """Vectors for most words of the files, at random, but with a common direction and in two
    spellings, so that all rules matter."""
    rng = np.random.default_rng(7)
    texts = [Path(datapath(name)).read_text() for name in (*SIMILAR, "questions-words.txt")]
    known = sorted({word.lower() for text in texts for word in text.split() if word.isalpha()})
    words = [word for word in known if rng.random() < 0.9]
    words += [word.title() for word in words[:200]]
    rng.shuffle(words)
    rows = (rng.normal(size=(len(words), 6)) + 0.5).astype(np.float32)
    theirs = KeyedVectors(6)
    theirs.add_vectors(words, rows)
    return words, rows, theirs


def metrics(name: str, words: list[str], rows: np.ndarray) -> dict[str, float]:
    path = Path(datapath(name))
    sums = _evaluate.judged(path.stem, path.read_text().split("\n"), _evaluate.Vectors(words, rows))
    return finish({key: np.array(value) for key, value in sums.items()})


@pytest.mark.parametrize("name", SIMILAR)
def test_similarity_has_gensims_meaning(
    name: str, made: tuple[list[str], np.ndarray, KeyedVectors]
) -> None:
    words, rows, theirs = made
    pearson, spearman, unknown = theirs.evaluate_word_pairs(datapath(name))
    ours, stem = metrics(name, words, rows), Path(name).stem
    assert ours[f"{stem}_spearman"] == pytest.approx(spearman[0], abs=1e-6)
    assert ours[f"{stem}_pearson"] == pytest.approx(pearson[0], abs=1e-6)
    assert ours[f"{stem}_unknown"] == pytest.approx(unknown / 100, abs=1e-9)


def test_analogies_have_gensims_meaning(
    made: tuple[list[str], np.ndarray, KeyedVectors], tmp_path: Path
) -> None:
    words, rows, _ = made
    rows = rows.copy()
    all_lines = Path(datapath("questions-words.txt")).read_text().split("\n")
    lines = [": all", *(line for line in all_lines[::20] if not line.startswith(":"))]
    (tmp_path / "few").write_text("\n".join(lines))
    places = {word.upper(): place for place, word in reversed(list(enumerate(words)))}
    for line in lines[1::4]:  # at random hardly any answer would be right
        a, b, c, d = (places.get(word.upper(), -1) for word in line.split())
        rows[d] = at_length_one(rows[[b]]) - at_length_one(rows[[a]]) + at_length_one(rows[[c]])
    theirs = KeyedVectors(rows.shape[1])
    theirs.add_vectors(words, rows)
    accuracy, sections = theirs.evaluate_word_analogies(str(tmp_path / "few"))
    ours = _evaluate.judged("few", lines, _evaluate.Vectors(words, rows))
    right, asked = len(sections[-1]["correct"]), len(sections[-1]["incorrect"])
    assert 0 < right < asked
    assert ours == {"few": [right, right + asked]}
    assert accuracy == pytest.approx(right / (right + asked))


def test_a_file_of_something_else() -> None:
    with pytest.raises(DataError, match="line 2 is not two words and a number"):
        _evaluate.judged("x", ["one two 3", "this is text"], _evaluate.Vectors(["a"], np.eye(1)))
    with pytest.raises(DataError, match="line 2 is not four words"):
        _evaluate.judged("x", [": a", "one two"], _evaluate.Vectors(["a"], np.eye(1)))
