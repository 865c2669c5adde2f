# SPDX-License-Identifier: Apache-2.0
"""Kernels whose compile time is measured: code that is unrolled as often as its constant N says."""
import libtile
import libtile.language as tl


@libtile.jit
def copies(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 128)
    for k in tl.static_range(N):
        tl.store(out + k * 128 + i, tl.load(x + k * 128 + i) + k)


@libtile.jit
def sums(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 128)
    total = tl.zeros((128,), tl.float32)
    for k in tl.static_range(N):
        total += tl.load(x + k * 128 + i)
    tl.store(out + i, total)


@libtile.jit
def scalars(x, out, n, N: tl.constexpr):
    total = 0.0
    for k in tl.static_range(N):
        total += tl.load(x + k)
        tl.store(out + k, total)


@libtile.jit
def arithmetic(x, out, n, N: tl.constexpr):
    value = tl.load(x)
    for k in tl.static_range(N):
        value = value * 0.5 + (n ^ k)
    tl.store(out, value)


@libtile.jit
def chain(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 128)
    tile = tl.load(x + i)
    for k in tl.static_range(N):
        tile = tl.where(tile > k, tile * 0.5, tile + n)
    tl.store(out + i, tile)


@libtile.jit
def masked(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 128)
    for k in tl.static_range(N):
        mask = k * 128 + i < n
        tl.store(out + k * 128 + i, tl.load(x + k * 128 + i, mask=mask), mask=mask)


@libtile.jit
def reductions(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 128)
    tile = tl.load(x + i)
    total = 0.0
    for k in tl.static_range(N):
        total += tl.sum(tile * total + k, 0)
    tl.store(out, total)


@libtile.jit
def branches(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 64)
    for k in tl.static_range(N):
        if n > k:
            tl.store(out + k * 64 + i, tl.load(x + k * 64 + i) + k)


@libtile.jit
def choices(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 128)
    tile = tl.load(x + i)
    for k in tl.static_range(N):
        if n > k:
            tile = tile * 0.5 + k
    tl.store(out + i, tile)


@libtile.jit
def loops(x, out, n, N: tl.constexpr):
    value = tl.load(x)
    for k in tl.static_range(N):
        for j in range(n):
            value = value * 0.5 + (k + j)
    tl.store(out, value)


@libtile.jit(debug=True)
def asserts(x, out, n, N: tl.constexpr):
    for k in tl.static_range(N):
        tl.device_assert(n > k, "too small")
    tl.store(out, 1.0)


@libtile.jit
def atomics(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 64)
    tile = tl.load(x + i)
    for k in tl.static_range(N):
        tl.atomic_add(out + k * 64 + i, tile)


@libtile.jit
def dots(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    a = tl.load(x + i)
    total = tl.zeros((16, 16), tl.float32)
    for k in tl.static_range(N):
        total = tl.dot(a, tl.load(x + k * 256 + i), total)
    tl.store(out + i, total)


LONGEST = (scalars, arithmetic, loops, choices)  # of 10,000 statements
LONG = (copies, sums, scalars, arithmetic, chain, masked, reductions, branches, choices, loops, asserts, atomics, dots)
