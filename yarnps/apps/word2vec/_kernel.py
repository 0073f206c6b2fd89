"""The arithmetic of skip-gram and CBOW with negative sampling, on the rows of one block.

The objective and the update are those of Mikolov et al. (NIPS 2013), in the reference program's
order: pair after pair, each with negative samples of its own, and each pair's rows have moved when
the next pair is scored. A word's window shrinks at random, and an output row whose score is beyond
±6 is not moved.

One thing is done otherwise: samples are drawn from a pool that was drawn for the block, so that a
worker needs fewer rows.

Rows have a width that is a multiple of `LANES`: what is beyond the vectors' dimension is 0, and
stays so.
"""

from __future__ import annotations

import numpy as np

from yarnps._kernels import fast_jit, inlined

# Numbers that the processor takes at a time; loops over rows then have no rest.
LANES = 8

# As in the reference program: a score beyond this is taken for certain.
MAX_SCORE = 6.0
_STEPS = 1024
_SCALE = np.float32(_STEPS / (2 * MAX_SCORE))


_MIDDLES = (np.arange(_STEPS) + 0.5) / _STEPS * 2 * MAX_SCORE - MAX_SCORE
SIGMOID = (1 / (1 + np.exp(-_MIDDLES))).astype(np.float32)
LOSS = np.log1p(np.exp(-_MIDDLES)).astype(np.float32)  # of a score that should be high

_MULTIPLIER = np.uint64(6364136223846793005)
_INCREMENT = np.uint64(1442695040888963407)
_HIGH = np.uint64(33)


@inlined
def _next(state):  # type: ignore[no-untyped-def]
    return state * _MULTIPLIER + _INCREMENT


@inlined
def _below(state, limit):  # type: ignore[no-untyped-def]
    """A number in [0, limit) out of the state's high bits: the low ones repeat soon."""
    return np.int64(((state >> _HIGH) * np.uint64(limit)) >> np.uint64(31))


@inlined
def _judged(scores, count, rate):  # type: ignore[no-untyped-def]
    """Turn scores into steps along the gradient; the first should be high, the others low.

    Returns the sum of their losses.
    """
    loss = np.float32(0.0)
    for t in range(count):
        score = scores[t]
        place = np.int64((score + np.float32(MAX_SCORE)) * _SCALE)
        place = max(0, min(place, _STEPS - 1))
        label = np.float32(t == 0)
        certain = score <= -MAX_SCORE or score >= MAX_SCORE
        scores[t] = np.float32(0.0) if certain else (label - SIGMOID[place]) * rate
        loss += LOSS[place if t == 0 else _STEPS - 1 - place]
    return loss


@inlined
def _add_products(target, factors, rows, places, count):  # type: ignore[no-untyped-def]
    """``target += sum of factors[i] * rows[places[i]]``, four rows at a time."""
    width = target.shape[0]
    i = 0
    while i + 4 <= count:
        a, b, c, d = rows[places[i]], rows[places[i + 1]], rows[places[i + 2]], rows[places[i + 3]]
        p, q, r, s = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
        for k in range(width):
            target[k] += p * a[k] + q * b[k] + r * c[k] + s * d[k]
        i += 4
    if i + 2 <= count:
        a, b = rows[places[i]], rows[places[i + 1]]
        p, q = factors[i], factors[i + 1]
        for k in range(width):
            target[k] += p * a[k] + q * b[k]
        i += 2
    if i < count:
        a, p = rows[places[i]], factors[i]
        for k in range(width):
            target[k] += p * a[k]


@inlined
def _scores(row, rows, places, count, out):  # type: ignore[no-untyped-def]
    """Products of a row with some others, three at a time."""
    width = row.shape[0]
    i = 0
    while i + 3 <= count:
        a, b, c = rows[places[i]], rows[places[i + 1]], rows[places[i + 2]]
        p = q = r = np.float32(0.0)
        for k in range(width):
            x = row[k]
            p += x * a[k]
            q += x * b[k]
            r += x * c[k]
        out[i], out[i + 1], out[i + 2] = p, q, r
        i += 3
    while i < count:
        a = rows[places[i]]
        p = np.float32(0.0)
        for k in range(width):
            p += row[k] * a[k]
        out[i] = p
        i += 1


@inlined
def _targets(center, pool, wanted, state, targets):  # type: ignore[no-untyped-def]
    """The word itself and its negative samples; a sample that is the word is left out."""
    targets[0] = center
    count = 1
    for _ in range(wanted):
        state = _next(state)
        sample = pool[_below(state, pool.shape[0])]
        targets[count] = sample
        count += sample != center
    return count, state


@inlined
def _contexts(ins, begin, end, i, window, state, contexts):  # type: ignore[no-untyped-def]
    """The words around word i of a sentence, in a window that shrinks at random."""
    state = _next(state)
    reach = window - _below(state, window)
    near = 0
    for j in range(max(begin, i - reach), min(end, i + reach + 1)):
        contexts[near] = ins[j]
        near += j != i
    return near, state


@inlined
def _learn(row, outputs, targets, steps, count, move):  # type: ignore[no-untyped-def]
    """Move the targets along the row, and the row along what they were before."""
    width = row.shape[0]
    for k in range(width):
        move[k] = 0
    for t in range(count):
        target, step = outputs[targets[t]], steps[t]
        for k in range(width):
            value = target[k]
            move[k] += step * value
            target[k] = value + step * row[k]
    for k in range(width):
        row[k] += move[k]


@fast_jit
def skip_gram(ends, ins, outs, inputs, outputs, pool, window, negative, rate, seed):  # type: ignore[no-untyped-def]
    """Go through the block's sentences; changes `inputs` and `outputs`.

    Returns the sum over all words of the mean loss of a word's pairs, before they are learned from.
    """
    contexts = np.empty(2 * window, np.int64)
    targets = np.empty(negative + 1, np.int64)
    steps = np.empty(negative + 1, np.float32)
    move = np.empty(inputs.shape[1], np.float32)
    state = seed
    loss = 0.0
    begin = 0
    for sentence in range(ends.shape[0]):
        end = ends[sentence]
        for i in range(begin, end):
            near, state = _contexts(ins, begin, end, i, window, state, contexts)
            for a in range(near):
                row = inputs[contexts[a]]
                count, state = _targets(outs[i], pool, negative, state, targets)
                _scores(row, outputs, targets, count, steps)
                loss += _judged(steps, count, rate) / near
                _learn(row, outputs, targets, steps, count, move)
        begin = end
    return loss


@fast_jit
def cbow(ends, ins, outs, inputs, outputs, pool, window, negative, rate, seed):  # type: ignore[no-untyped-def]
    """The same for CBOW: the mean of a window predicts its middle word."""
    width = inputs.shape[1]
    contexts = np.empty(2 * window, np.int64)
    shares = np.empty(2 * window, np.float32)
    targets = np.empty(negative + 1, np.int64)
    steps = np.empty(negative + 1, np.float32)
    mean, move = np.empty(width, np.float32), np.empty(width, np.float32)
    state = seed
    loss = 0.0
    begin = 0
    for sentence in range(ends.shape[0]):
        end = ends[sentence]
        for i in range(begin, end):
            near, state = _contexts(ins, begin, end, i, window, state, contexts)
            if near == 0:
                continue
            count, state = _targets(outs[i], pool, negative, state, targets)
            shares[:near] = np.float32(1.0) / np.float32(near)
            mean[:] = 0
            _add_products(mean, shares, inputs, contexts, near)
            _scores(mean, outputs, targets, count, steps)
            loss += _judged(steps, count, rate)
            _learn(mean, outputs, targets, steps, count, move)
            for a in range(near):
                row = inputs[contexts[a]]
                for k in range(width):
                    row[k] += move[k]
        begin = end
    return loss
