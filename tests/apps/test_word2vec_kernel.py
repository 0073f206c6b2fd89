"""The kernels of word2vec against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import word2vec_plain as plain

from yarnps.apps.word2vec import _kernel

WORDS = 40
WINDOW, NEGATIVE, RATE, SEED = 3, 4, 0.05, 99


def rows(rng: np.random.Generator, width: int, scale: float = 0.6) -> np.ndarray:
    return rng.normal(scale=scale, size=(WORDS, width)).astype(np.float32)


@pytest.mark.parametrize("name", ["skip_gram", "cbow"])
@pytest.mark.parametrize("dim", [8, 24])
def test_the_same_numbers_as_plain_loops(name: str, dim: int) -> None:
    rng = np.random.default_rng(dim)
    inputs, outputs = rows(rng, dim), rows(rng, dim)
    sentences = [rng.integers(0, WORDS, size).tolist() for size in (1, 2, 7, 30)]
    pool = rng.integers(0, WORDS, 12)
    words = np.array([word for sentence in sentences for word in sentence], np.int64)
    ends = np.cumsum([len(sentence) for sentence in sentences])
    expected = inputs.astype(np.float64), outputs.astype(np.float64)
    settings = plain.Settings(WINDOW, NEGATIVE, RATE)
    getattr(plain, name)(*expected, sentences, pool.tolist(), settings, plain.Draws(SEED))
    before = inputs.copy()
    loss = getattr(_kernel, name)(
        ends,
        words,
        words,
        inputs,
        outputs,
        pool,
        WINDOW,
        NEGATIVE,
        np.float32(RATE),
        np.uint64(SEED),
    )
    assert loss > 0
    assert np.abs(inputs - before).max() > 0.02
    # The table of sigmoids has steps: within 1.5e-3 of each value.
    np.testing.assert_allclose(inputs, expected[0], atol=2e-3)
    np.testing.assert_allclose(outputs, expected[1], atol=2e-3)


def run(inputs: np.ndarray, outputs: np.ndarray, words: list[int], **more: Any) -> float:
    settings = {"window": 1, "negative": 1, "rate": 0.1, "pool": [0], **more}
    return float(
        _kernel.skip_gram(
            np.array([len(words)]),
            np.array(words),
            np.array(words),
            inputs,
            outputs,
            np.array(settings["pool"]),
            settings["window"],
            settings["negative"],
            np.float32(settings["rate"]),
            np.uint64(1),
        )
    )


def test_a_score_that_is_certain_moves_nothing() -> None:
    inputs = np.full((2, 8), 2.0, np.float32)
    outputs = np.full((2, 8), 2.0, np.float32)
    outputs[0] = -2.0  # the sample's score is -32, the word's 32
    before = inputs.copy(), outputs.copy()
    assert run(inputs, outputs, [1, 1]) < 0.02
    assert (inputs == before[0]).all()
    assert (outputs == before[1]).all()


def test_a_sample_that_is_the_word_itself_is_left_out() -> None:
    inputs, outputs = np.ones((1, 8), np.float32), np.zeros((1, 8), np.float32)
    run(inputs, outputs, [0, 0], negative=50)
    # Twice a step towards 1, as many as there are pairs, and none towards 0.
    np.testing.assert_allclose(outputs, 0.1 * (0.5 + 1 - plain.sigmoid(0.4)), atol=1e-3)


def test_a_pair_starts_where_the_one_before_it_has_left_the_rows() -> None:
    inputs, outputs = np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32)
    run(inputs, outputs, [0, 1, 0], negative=0)
    # Both neighbours of 1 are 0: the first one's step makes the score of the second 0.4.
    np.testing.assert_allclose(outputs[1], 0.1 * (0.5 + 1 - plain.sigmoid(0.4)), atol=1e-3)


def test_each_pair_has_samples_of_its_own() -> None:
    inputs = np.full((1, 8), 0.1, np.float32)
    outputs, pool = np.zeros((200, 8), np.float32), np.arange(1, 200)
    run(inputs, outputs, [0, 0, 0], pool=pool, window=1, negative=5)
    # Four pairs; of 20 samples out of 199 one or two may be the same.
    assert 18 <= np.any(outputs[1:], axis=1).sum() <= 20


def test_a_lone_word_has_no_window_and_draws_no_samples() -> None:
    inputs, outputs = np.ones((1, 8), np.float32), np.ones((1, 8), np.float32)
    assert run(inputs, outputs, [0]) == 0.0
    assert (inputs == 1).all()


def test_the_loss_falls_on_text_that_repeats() -> None:
    rng = np.random.default_rng(5)
    inputs, outputs = rows(rng, 16, 0.03), np.zeros((WORDS, 16), np.float32)
    words = [1, 2, 3, 4] * 50
    pool = list(range(WORDS))
    losses = [
        run(inputs, outputs, words, window=2, negative=5, pool=pool, rate=0.05) for _ in range(5)
    ]
    assert losses[-1] < 0.5 * losses[0]
    assert losses[0] / len(words) == pytest.approx(6 * np.log(2), rel=0.25)
