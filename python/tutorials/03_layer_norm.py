# SPDX-License-Identifier: Apache-2.0
"""Lesson 3: layer normalisation, forward.

A row may be longer than a tile: the kernel goes over it in steps of BLOCK and carries a tile of
partial sums through the loop, which it reduces once at the end. New here: tiles carried by a loop,
and results that are scalars (mean and 1/deviation of each row).

    python 03_layer_norm.py
"""
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def layer_norm(x, out, weight, bias, mean_out, rstd_out, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    out += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x + cols, mask=cols < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        a = tl.load(x + cols, mask=cols < n, other=0.0).to(tl.float32)
        d = tl.where(cols < n, a - mean, 0.0)
        squares += d * d
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n
        w = tl.load(weight + cols, mask=mask)
        b = tl.load(bias + cols, mask=mask)
        a = tl.load(x + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + cols, (a - mean) * rstd * w + b, mask=mask)


def run(x, weight, bias, out, mean, rstd, eps=1e-5, block=None):
    """out = (x - mean) / sqrt(variance + eps) * weight + bias for each row of the 2-D array x."""
    rows, n = x.shape
    block = block or min(libtile.next_power_of_2(n), 16384)
    layer_norm[(rows,)](x, out, weight, bias, mean, rstd, n, n, eps, BLOCK=block)
    return out


def reference(x, weight, bias, eps=1e-5):
    """In float64, with NumPy: out, mean and 1/deviation."""
    x = x.astype(np.float64)
    mean = x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + eps)
    out = (x - mean) * rstd * weight.astype(np.float64) + bias.astype(np.float64)
    return out, mean[:, 0], rstd[:, 0]


def main():
    rng = np.random.default_rng(0)
    for rows, n in ((5, 3), (151, 1000), (64, 8192)):
        x = rng.standard_normal((rows, n), dtype=np.float32)
        weight = rng.standard_normal(n, dtype=np.float32)
        bias = rng.standard_normal(n, dtype=np.float32)
        mean, rstd = np.empty(rows, np.float32), np.empty(rows, np.float32)
        out = run(x, weight, bias, np.empty_like(x), mean, rstd)
        want, want_mean, want_rstd = reference(x, weight, bias)
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(mean, want_mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(rstd, want_rstd, rtol=1e-5)
        print(f"{rows} x {n}: right")


if __name__ == "__main__":
    main()
