"""Skip-gram and CBOW as one would write them down: plain loops in float64, exact sigmoids.

Random numbers are drawn as the kernel draws them, so that both can be compared number by number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Draws:
    """The generator of the kernels."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, limit: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return ((self.state >> 33) * limit) >> 31


def windows(
    sentences: Sequence[Sequence[int]],
    pool: Sequence[int],
    window: int,
    negative: int,
    draws: Draws,
) -> Iterator[tuple[list[int], list[int]]]:
    """The neighbours of each word, and the word with its negative samples."""
    for words in sentences:
        for i, word in enumerate(words):
            reach = window - draws.below(window)
            near = [words[j] for j in range(max(0, i - reach), min(len(words), i + reach + 1))]
            near.remove(word) if near.count(word) == 1 else near.pop(i - max(0, i - reach))
            if near:
                samples = [pool[draws.below(len(pool))] for _ in range(negative)]
                yield near, [word, *(s for s in samples if s != word)]


def sigmoid(score: float) -> float:
    return float(1 / (1 + np.exp(-score)))


def skip_gram(
    inputs: Array, outputs: Array, parts: Iterator[tuple[list[int], list[int]]], rate: float
) -> None:
    """Each neighbour's vector learns to predict the word; scores are those before any change."""
    for near, targets in parts:
        old_in, old_out = inputs.copy(), outputs.copy()
        for context in near:
            for number, target in enumerate(targets):
                step = (float(number == 0) - sigmoid(old_in[context] @ old_out[target])) * rate
                inputs[context] += step * old_out[target]
                outputs[target] += step * old_in[context]


def cbow(
    inputs: Array, outputs: Array, parts: Iterator[tuple[list[int], list[int]]], rate: float
) -> None:
    """The mean of the neighbours' vectors learns to predict the word."""
    for near, targets in parts:
        mean, old_out = inputs[near].mean(axis=0), outputs.copy()
        move = np.zeros(inputs.shape[1])
        for number, target in enumerate(targets):
            step = (float(number == 0) - sigmoid(mean @ old_out[target])) * rate
            move += step * old_out[target]
            outputs[target] += step * mean
        for context in near:
            inputs[context] += move
