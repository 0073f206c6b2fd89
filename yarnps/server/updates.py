"""The optimizers' kernels: each formula once, applied to rows of a sparse table and to ranges.

A sparse row is ``[state 0 (dim numbers), state 1 (dim numbers), …]``, given by its address; a
dense table has one array per state. State 0 is the weight, except for FTRL, where it is z and the
weight follows from (z, n). Gradients have as many columns as a row has weights. No formula has a
branch, so that the loops over a row are vectorised; rows of one number have a loop of their own
where the kernel is light enough for it to matter, and FTRL's, which is not, some rows' states
brought together, so that it is vectorised over rows.
"""

from __future__ import annotations

import numpy as np

from yarnps._kernels import inlined, jit, row_at

# Rows whose states are brought together: they stay in the first level of the cache.
_AT_ONCE = 256

# ---------------------------------------------------------------------- add, SGD


@jit
def add_rows(rows, grads, scale):  # type: ignore[no-untyped-def]
    dim = grads.shape[1]
    if dim == 1:
        for i in range(rows.shape[0]):
            row_at(rows[i], 1, grads)[0] += scale * grads[i, 0]
    else:
        for i in range(rows.shape[0]):
            row, grad = row_at(rows[i], dim, grads), grads[i]
            for j in range(dim):
                row[j] += scale * grad[j]


@jit
def add_range(w, grads, scale):  # type: ignore[no-untyped-def]
    for i in range(grads.shape[0]):
        w[i] += scale * grads[i]


@jit
def decay_rows(rows, grads, rate, decay):  # type: ignore[no-untyped-def]
    dim = grads.shape[1]
    for i in range(rows.shape[0]):
        row, grad = row_at(rows[i], dim, grads), grads[i]
        for j in range(dim):
            row[j] -= rate * (grad[j] + decay * row[j])


@jit
def decay_range(w, grads, rate, decay):  # type: ignore[no-untyped-def]
    for i in range(grads.shape[0]):
        w[i] -= rate * (grads[i] + decay * w[i])


@inlined
def _momentum(w, m, g, rate, mu, decay, of_g, of_m):  # type: ignore[no-untyped-def]
    """The step is ``of_g * g + of_m * m``: (0, 1), or Nesterov's (1, mu)."""
    g = g + decay * w
    m = mu * m + g
    return w - rate * (of_g * g + of_m * m), m


@jit
def momentum_rows(rows, grads, rate, mu, decay, of_g, of_m):  # type: ignore[no-untyped-def]
    dim = grads.shape[1]
    for i in range(rows.shape[0]):
        row, grad = row_at(rows[i], 2 * dim, grads), grads[i]
        for j in range(dim):
            row[j], row[dim + j] = _momentum(
                row[j], row[dim + j], grad[j], rate, mu, decay, of_g, of_m
            )


@jit
def momentum_range(w, m, grads, rate, mu, decay, of_g, of_m):  # type: ignore[no-untyped-def]
    for i in range(grads.shape[0]):
        w[i], m[i] = _momentum(w[i], m[i], grads[i], rate, mu, decay, of_g, of_m)


# ---------------------------------------------------------------------- Adagrad, RMSProp


@inlined
def _scaled(w, a, g, rate, epsilon, keep, take):  # type: ignore[no-untyped-def]
    """``a = keep * a + take * g²``: (1, 1) is Adagrad, (decay, 1 - decay) RMSProp."""
    a = keep * a + take * g * g
    return w - rate * g / (np.sqrt(a) + epsilon), a


@jit
def scaled_rows(rows, grads, rate, epsilon, keep, take):  # type: ignore[no-untyped-def]
    dim = grads.shape[1]
    for i in range(rows.shape[0]):
        row, grad = row_at(rows[i], 2 * dim, grads), grads[i]
        for j in range(dim):
            row[j], row[dim + j] = _scaled(row[j], row[dim + j], grad[j], rate, epsilon, keep, take)


@jit
def scaled_range(w, a, grads, rate, epsilon, keep, take):  # type: ignore[no-untyped-def]
    for i in range(grads.shape[0]):
        w[i], a[i] = _scaled(w[i], a[i], grads[i], rate, epsilon, keep, take)


# ---------------------------------------------------------------------- Adam, AdamW


@inlined
def _adam(w, m, v, g, rate, epsilon, take1, take2, shrink):  # type: ignore[no-untyped-def]
    """`rate` and `epsilon` have the corrections of the step in them."""
    m = m + take1 * (g - m)
    v = v + take2 * (g * g - v)
    return w - rate * m / (np.sqrt(v) + epsilon) - shrink * w, m, v


@jit
def adam_rows(rows, grads, rate, epsilon, take1, take2, shrink):  # type: ignore[no-untyped-def]
    dim = grads.shape[1]
    for i in range(rows.shape[0]):
        row, grad = row_at(rows[i], 3 * dim, grads), grads[i]
        for j in range(dim):
            row[j], row[dim + j], row[2 * dim + j] = _adam(
                row[j],
                row[dim + j],
                row[2 * dim + j],
                grad[j],
                rate,
                epsilon,
                take1,
                take2,
                shrink,
            )


@jit
def adam_range(w, m, v, grads, rate, epsilon, take1, take2, shrink):  # type: ignore[no-untyped-def]
    for i in range(grads.shape[0]):
        w[i], m[i], v[i] = _adam(w[i], m[i], v[i], grads[i], rate, epsilon, take1, take2, shrink)


# ---------------------------------------------------------------------- FTRL


@inlined
def _ftrl_weight(z, n, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    """Without a branch: a weight with |z| <= l1 comes out as 0 over something positive."""
    size = max(abs(z) - l1, z * 0)
    return -np.copysign(size, z) / ((beta + np.sqrt(n)) * inverse_alpha + l2)


@inlined
def _ftrl(z, n, g, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    w = _ftrl_weight(z, n, inverse_alpha, beta, l1, l2)
    m = n + g * g
    return z + g - (np.sqrt(m) - np.sqrt(n)) * inverse_alpha * w, m


@inlined
def _ftrl_states(rows, z, n):  # type: ignore[no-untyped-def]
    """Bring the states of rows of one number together."""
    for i in range(rows.shape[0]):
        row = row_at(rows[i], 2, z)
        z[i], n[i] = row[0], row[1]


@jit
def ftrl_rows(rows, grads, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    dim = grads.shape[1]
    if dim == 1:
        z, n = np.empty(_AT_ONCE, grads.dtype), np.empty(_AT_ONCE, grads.dtype)
        for first in range(0, rows.shape[0], _AT_ONCE):
            some, given = rows[first : first + _AT_ONCE], grads[first : first + _AT_ONCE]
            _ftrl_states(some, z, n)
            for i in range(some.shape[0]):
                z[i], n[i] = _ftrl(z[i], n[i], given[i, 0], inverse_alpha, beta, l1, l2)
            for i in range(some.shape[0]):
                row = row_at(some[i], 2, grads)
                row[0], row[1] = z[i], n[i]
    else:
        for i in range(rows.shape[0]):
            row, grad = row_at(rows[i], 2 * dim, grads), grads[i]
            for j in range(dim):
                row[j], row[dim + j] = _ftrl(
                    row[j], row[dim + j], grad[j], inverse_alpha, beta, l1, l2
                )


@jit
def ftrl_range(z, n, grads, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    for i in range(grads.shape[0]):
        z[i], n[i] = _ftrl(z[i], n[i], grads[i], inverse_alpha, beta, l1, l2)


@jit
def ftrl_gather(rows, out, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    dim = out.shape[1]
    if dim == 1:
        z, n = np.empty(_AT_ONCE, out.dtype), np.empty(_AT_ONCE, out.dtype)
        for first in range(0, rows.shape[0], _AT_ONCE):
            some, weights = rows[first : first + _AT_ONCE], out[first : first + _AT_ONCE]
            _ftrl_states(some, z, n)
            for i in range(some.shape[0]):
                weights[i, 0] = _ftrl_weight(z[i], n[i], inverse_alpha, beta, l1, l2)
    else:
        for i in range(rows.shape[0]):
            row, target = row_at(rows[i], 2 * dim, out), out[i]
            for j in range(dim):
                target[j] = _ftrl_weight(row[j], row[dim + j], inverse_alpha, beta, l1, l2)


@jit
def ftrl_read(z, n, out, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = _ftrl_weight(z[i], n[i], inverse_alpha, beta, l1, l2)


# ---------------------------------------------------------------------- reading


@jit
def gather(rows, out):  # type: ignore[no-untyped-def]
    """The first numbers of each row."""
    dim = out.shape[1]
    if dim == 1:
        for i in range(rows.shape[0]):
            out[i, 0] = row_at(rows[i], 1, out)[0]
    else:
        for i in range(rows.shape[0]):
            row, target = row_at(rows[i], dim, out), out[i]
            for j in range(dim):
                target[j] = row[j]
