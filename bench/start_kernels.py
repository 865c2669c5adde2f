# SPDX-License-Identifier: Apache-2.0
"""start_kernels.py DEVICE: ten kernels of many parts of the language, each launched once, as a program's first; prints the
seconds that these launches took."""
import sys
import time

import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@libtile.jit
def softmax(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.softmax(tl.load(x + i, i < n, other=-float("inf"))), i < n)


@libtile.jit
def normalise(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=0.0)
    mean = tl.sum(v, 0) / n
    d = tl.where(i < n, v - mean, 0.0)
    var = tl.sum(d * d, 0) / n
    tl.store(out + i, d * tl.rsqrt(var + 1e-5), i < n)


@libtile.jit
def running_sum(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.cumsum(tl.load(x + i, i < n, other=0.0), 0), i < n)


@libtile.jit
def gelu(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=0.0)
    tl.store(out + i, 0.5 * v * (1 + tl.erf(v * 0.7071)), i < n)


@libtile.jit
def dropout(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    r = tl.rand(42, i)
    v = tl.load(x + i, i < n, other=0.0)
    tl.store(out + i, tl.where(r > 0.5, v / 0.5, 0.0), i < n)


@libtile.jit
def product(x, y, out, n, BLOCK: tl.constexpr):
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    acc = tl.zeros((32, 32), tl.float32)
    for k in range(0, 32, 32):
        acc = tl.dot(tl.load(x + i * 32 + k + j), tl.load(y + (k + i) * 32 + j), acc)
    tl.store(out + i * 32 + j, acc)


@libtile.jit
def sort(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.sort(tl.load(x + i, i < n, other=0.0)), i < n)


@libtile.jit
def gate(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.sigmoid(tl.load(x + i, i < n)) * tl.load(y + i, i < n), i < n)


@libtile.jit
def logits(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=0.0)
    tl.store(out + i, tl.exp(v - tl.max(v, 0)) + tl.log(tl.abs(v) + 1), i < n)


def main(device):
    x, y, out = (libtile.to_device(np.ones(1024, np.float32), device) for _ in range(3))
    start = time.perf_counter()
    for kernel in (add, softmax, normalise, running_sum, gelu, dropout, product, sort, gate, logits):
        kernel[(1,)](x, y, out, 1000, BLOCK=1024)
    print(time.perf_counter() - start)


main(sys.argv[1])
