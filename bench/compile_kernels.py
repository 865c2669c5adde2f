# SPDX-License-Identifier: Apache-2.0
"""Kernels whose compile time is measured: code that is unrolled as often as its constant N says."""
import libtile
import libtile.language as tl


@libtile.jit
def copies(x, out, N: tl.constexpr):
    i = tl.arange(0, 128)
    for k in tl.static_range(N):
        tl.store(out + k * 128 + i, tl.load(x + k * 128 + i) + k)


@libtile.jit
def sums(x, out, N: tl.constexpr):
    i = tl.arange(0, 128)
    total = tl.zeros((128,), tl.float32)
    for k in tl.static_range(N):
        total += tl.load(x + k * 128 + i)
    tl.store(out + i, total)


@libtile.jit
def scalars(x, out, N: tl.constexpr):
    total = 0.0
    for k in tl.static_range(N):
        total += tl.load(x + k)
        tl.store(out + k, total)
