"""Skip-gram and CBOW as one would write them down: plain loops in float64, exact sigmoids.

Random numbers are drawn as the kernel draws them, so that both can be compared number by number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Settings(NamedTuple):
    """Of a training."""

    window: int
    negative: int
    rate: float


class Draws:
    """The generator of the kernels."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, limit: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return ((self.state >> 33) * limit) >> 31


def windows(
    sentences: Sequence[Sequence[int]], window: int, draws: Draws
) -> Iterator[tuple[int, list[int]]]:
    """Each word that has neighbours, with these."""
    for words in sentences:
        for i, word in enumerate(words):
            reach = window - draws.below(window)
            near = [
                words[j] for j in range(max(0, i - reach), min(len(words), i + reach + 1)) if j != i
            ]
            if near:
                yield word, near


def targets(word: int, pool: Sequence[int], negative: int, draws: Draws) -> list[int]:
    """The word, and negative samples that are not the word."""
    samples = [pool[draws.below(len(pool))] for _ in range(negative)]
    return [word, *(sample for sample in samples if sample != word)]


def sigmoid(score: float) -> float:
    return float(1 / (1 + np.exp(-score)))


def step(row: Array, outputs: Array, words: Sequence[int], rate: float) -> Array:
    """Move the words' output rows along a row; what the row is to be moved by.

    The first word should score high, the others low; scores are those before any row moves.
    """
    scores = [row @ outputs[word] for word in words]
    move = np.zeros(len(row))
    for number, (word, score) in enumerate(zip(words, scores, strict=True)):
        error = float(number == 0) - sigmoid(score)
        move += rate * error * outputs[word]
        outputs[word] += rate * error * row
    return move


def skip_gram(
    inputs: Array,
    outputs: Array,
    sentences: Sequence[Sequence[int]],
    pool: Sequence[int],
    settings: Settings,
    draws: Draws,
) -> None:
    """Each neighbour's vector learns to predict the word, one after the other."""
    for word, near in windows(sentences, settings.window, draws):
        for context in near:
            words = targets(word, pool, settings.negative, draws)
            inputs[context] += step(inputs[context], outputs, words, settings.rate)


def cbow(
    inputs: Array,
    outputs: Array,
    sentences: Sequence[Sequence[int]],
    pool: Sequence[int],
    settings: Settings,
    draws: Draws,
) -> None:
    """The mean of the neighbours' vectors learns to predict the word."""
    for word, near in windows(sentences, settings.window, draws):
        words = targets(word, pool, settings.negative, draws)
        move = step(inputs[near].mean(axis=0), outputs, words, settings.rate)
        for context in near:
            inputs[context] += move
