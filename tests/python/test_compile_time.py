# SPDX-License-Identifier: Apache-2.0
"""Compile time: bounds of single kernels, and how it grows with the length of unrolled code. Processor time of this
process, the assembler not included, the least of several: other programs disturb it little."""
import time

import pytest

import libtile
import libtile.language as tl


@libtile.jit
def sorted_rows(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.sort(tl.load(x + i)))


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
def running_scalars(x, out, N: tl.constexpr):
    total = 0.0
    for k in tl.static_range(N):
        total += tl.load(x + k)
        tl.store(out + k, total)


def seconds(kernel, constant, target, times):
    best = float("inf")
    for _ in range(times):
        fresh = libtile.jit(kernel.fn)
        start = time.process_time()
        fresh.warmup("*fp32:16", "*fp32:16", constant, grid=(1,), target=target)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "x86-64-v3"])
def test_a_sort_of_1024(target):
    assert seconds(sorted_rows, 1024, target, 4) < 0.1


# A store of a tile on a CPU is a loop of its own, whose number LLVM takes more than linear time for.
@pytest.mark.parametrize("kernel, target", [(copies, "sm_90a"), (sums, "sm_90a"), (running_scalars, "sm_90a"),
                                            (sums, "x86-64-v3"), (running_scalars, "x86-64-v3")],
                         ids=lambda value: value if isinstance(value, str) else value.fn.__name__)
def test_time_is_linear_in_the_length(kernel, target):
    short, long = (seconds(kernel, length, target, 2) for length in (300, 1200))
    assert long < 1.7 * 4 * short
