"""word2vec's vocabulary and blocks: from lines of text to rows."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from yarnps._errors import DataError
from yarnps.apps.word2vec import _vocabulary
from yarnps.apps.word2vec._blocks import MAX_SENTENCE, Block, Blocks, drawn, kept_share
from yarnps.apps.word2vec._vocabulary import Vocabulary, count_words, merged, read_tsv
from yarnps.data import hash64

LINES = ["the cat sat on the mat", "", "the dog sat", "a\x0bcat  and\ta dog"]


def counted(*splits: list[str]) -> list[bytes]:
    return [count_words([SimpleNamespace(items=lines)]) for lines in splits]  # type: ignore[list-item]


def vocabulary(lines: list[str] = LINES, **more: Any) -> Vocabulary:
    return merged(counted(lines), **{"min_count": 1, **more})


# ---------------------------------------------------------------- vocabulary


def test_counts_of_all_splits_whatever_the_split() -> None:
    whole = vocabulary()
    parts = merged(counted(LINES[:1], LINES[1:], []), min_count=1)
    expected = Counter(" ".join(LINES).split())
    assert dict(zip(whole.words, whole.counts.tolist(), strict=True)) == expected
    assert whole.words == parts.words
    assert whole.counts.tolist() == parts.counts.tolist()


def test_keys_are_increasing_hashes() -> None:
    whole = vocabulary()
    assert whole.keys.tolist() == [hash64(word) for word in whole.words]
    assert (np.diff(whole.keys) > 0).all()


def test_words_that_are_too_rare_or_too_many_are_left_out() -> None:
    assert sorted(vocabulary(min_count=2).words) == ["a", "cat", "dog", "sat", "the"]
    # Of equally frequent ones the first in the alphabet stays.
    assert sorted(vocabulary(max_words=2).words) == ["a", "the"]


def test_no_word_left() -> None:
    with pytest.raises(DataError, match="no word occurs 9 times"):
        vocabulary(min_count=9)


def test_two_words_with_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vocabulary, "hash64", lambda word: len(word))
    with pytest.raises(DataError, match="same 63-bit key: 'and' and 'cat'"):
        vocabulary()


def test_the_file_is_by_frequency_and_keeps_strange_words() -> None:
    odd = ["\u2028x \x1cy \x85 x\ufeff", "\u2028x a b b"]
    found = list(read_tsv(vocabulary(odd).to_tsv()))
    assert found == sorted(Counter(" ".join(odd).split(" ")).items(), key=lambda x: (-x[1], x[0]))


# ---------------------------------------------------------------- blocks


def blocks_of(known: Vocabulary, **more: Any) -> Blocks:
    settings = {"sample": 0.0, "exponent": 0.75, "block_words": 1000, "pool_share": 1.0, **more}
    return Blocks(known, **settings)


def text_of(block: Block, known: Vocabulary) -> list[list[str]]:
    """The sentences of a block, by its input rows; its output rows say the same."""
    words = [known.words[i] for i in block.input_words[block.ins]]
    assert words == [known.words[i] for i in block.output_words[block.outs]]
    return [words[a:b] for a, b in zip([0, *block.ends], block.ends, strict=False)]


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_sentences_without_unknown_words_and_empty_lines() -> None:
    known = vocabulary(min_count=2)
    (block,) = blocks_of(known).of(LINES, rng())
    assert text_of(block, known) == [
        ["the", "cat", "sat", "the"],
        ["the", "dog", "sat"],
        ["a", "cat", "a", "dog"],
    ]


def test_each_row_is_needed_once_and_by_something() -> None:
    known = vocabulary()
    maker = blocks_of(known, block_words=5)
    found = list(maker.of(LINES, rng()))
    assert [len(block) for block in found] == [6, 8]
    for block in found:
        for rows in (block.input_words, block.output_words):
            assert (np.diff(rows) > 0).all()
        assert set(block.ins) == set(range(len(block.input_words)))
        assert set(block.outs) | set(block.pool) == set(range(len(block.output_words)))


def test_the_same_batch_gives_the_same_blocks_whatever_came_before() -> None:
    maker = blocks_of(vocabulary(), sample=0.05)
    first = list(maker.of(LINES, rng()))
    list(maker.of(LINES[2:], np.random.default_rng(8)))
    again = list(maker.of(LINES, rng()))
    for one, other in zip(first, again, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_nothing_known_is_no_block() -> None:
    assert list(blocks_of(vocabulary()).of(["what is this", "unknown"], rng())) == []
    assert list(blocks_of(vocabulary()).of([], rng())) == []


def test_a_long_line_is_several_sentences() -> None:
    known = vocabulary(["a b"])
    (block,) = blocks_of(known, block_words=9999).of(["a " * (2 * MAX_SENTENCE), "b"], rng())
    assert block.ends.tolist() == [MAX_SENTENCE, 2 * MAX_SENTENCE, 2 * MAX_SENTENCE + 1]


def test_frequent_words_are_thinned_by_the_formula_of_the_reference_program() -> None:
    counts = np.array([6_000, 3_000, 1_000], np.int64)
    share = kept_share(counts, 0.05)
    threshold = 0.05 * 10_000
    expected = [(np.sqrt(c / threshold) + 1) * threshold / c for c in counts[:2]]
    np.testing.assert_allclose(share, [*expected, 1.0], rtol=1e-6)
    words = ["a"] * 6_000 + ["b"] * 3_000 + ["c"] * 1_000
    known = vocabulary([" ".join(words)])
    (block,) = blocks_of(known, sample=0.05, block_words=10**6).of([" ".join(words)], rng())
    kept = Counter(known.words[i] for i in block.input_words[block.ins])
    assert [kept[w] / c for w, c in zip("abc", counts, strict=True)] == pytest.approx(
        share.tolist(), abs=0.03
    )


def test_the_pool_holds_each_word_by_its_count_to_the_power() -> None:
    known = vocabulary(["a " * 8_000 + "b " * 1_000 + "c"])
    (block,) = blocks_of(known, pool_share=0.5, block_words=10**6).of(["a b " * 5_000], rng())
    found = Counter(known.words[i] for i in block.output_words[block.pool])
    weights = {"a": 8_000**0.75, "b": 1_000**0.75, "c": 1.0}
    assert sum(found.values()) == len(block.pool) == 5_000
    for word, weight in weights.items():
        # Independent draws would be off by 27, for two of the words.
        assert abs(found[word] - 5_000 * weight / sum(weights.values())) < 2


def test_every_word_may_be_drawn() -> None:
    sums = np.cumsum([1.0, 1e-3, 0.0, 2.0])
    found = np.concatenate([drawn(sums, 3, np.random.default_rng(i)) for i in range(3_000)])
    shares = np.bincount(found, minlength=4) / len(found)
    np.testing.assert_allclose(shares, [1 / 3.001, 1e-3 / 3.001, 0, 2 / 3.001], atol=3e-4)
    assert shares[1] > 0
