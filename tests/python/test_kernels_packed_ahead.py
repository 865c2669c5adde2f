# SPDX-License-Identifier: Apache-2.0
"""Dots in loops whose operands are the same in each iteration: a CPU packs them in front of the loop (passes/cpu/pack_ahead.h),
and what another iteration changes in each."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F32, OnDevice, poisoned

import libtile
import libtile.language as tl

SAYS = "in front of the loop"


def integers(rng, shape, dtype=F32):
    return rng.integers(-4, 5, shape).astype(dtype)


def ahead(launched):
    """Of each dot, which operands are packed there; None where no CPU's plan says so."""
    plan = launched.asm["plan"] if "nested" in launched.asm else None
    dots = [line.split(", ") for line in (plan or "").splitlines() if "blocks of" in line]
    return plan and [next((part.split(" ")[0] for part in dot if SAYS in part), "") for dot in dots]


@libtile.jit
def turned(a, b, out, turns, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    """Of each block of b, largest first, a @ b and b.T @ a.T: neither is a plain sum, so that the loop is in no chunks."""
    rows, k, cols = tl.arange(0, M)[:, None], tl.arange(0, K), tl.arange(0, N)[None, :]
    x = tl.load(a + rows * K + k[None, :])
    largest = tl.full((M, N), -1e30, tl.float32)
    for i in range(turns):
        y = tl.load(b + i * K * N + k[:, None] * N + cols)
        first = tl.dot(x, y, out_dtype=tl.float32)
        second = tl.dot(y.T, x.T, out_dtype=tl.float32)
        largest = tl.maximum(largest, tl.maximum(first, second.T))
    tl.store(out + rows * N + cols, largest)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("turns", [0, 2, 3])
def test_operands_from_in_front_of_the_loop(device, dtype, turns):
    rng, (m, k, n) = np.random.default_rng(turns), (32, 16, 64)
    a, b = integers(rng, (m, k), dtype), integers(rng, (max(turns, 1), k, n), dtype)
    on, out = OnDevice(device), poisoned((m, n), F32)
    there = on(out)
    launched = turned[(1,)](on(a), on(b), there, turns, M=m, K=k, N=n)
    want = np.max([a.astype(np.float64) @ block.astype(np.float64) for block in b[:turns]], axis=0, initial=-1e30)
    np.testing.assert_array_equal(on.back(there), np.broadcast_to(want, (m, n)).astype(F32))
    assert ahead(launched) in (None, ["a", "b"])


@libtile.jit
def written(a, b, out, turns, M: tl.constexpr, N: tl.constexpr):
    """a is read once and twice a turn, and each turn writes to where it lies."""
    rows, cols = tl.arange(0, M)[:, None], tl.arange(0, N)
    at = rows * M + tl.arange(0, M)[None, :]
    old = tl.load(a + at)
    y = tl.load(b + rows * N + cols[None, :])
    largest = tl.full((M, N), -1e30, tl.float32)
    for _ in range(turns):
        new = tl.load(a + at)
        largest = tl.maximum(tl.maximum(largest, tl.dot(old, y)), tl.dot(new, y))
        tl.store(a + at, new + 1)
    tl.store(out + rows * N + cols[None, :], largest)


@pytest.mark.parametrize("device", DEVICES)
def test_what_the_loop_writes_is_as_it_was(device):
    rng, (m, n), turns = np.random.default_rng(3), (16, 32), 4
    a, b = integers(rng, (m, m)), integers(rng, (m, n))
    on = OnDevice(device)
    x, out = on(a.copy()), on(poisoned((m, n), F32))
    launched = written[(1,)](x, on(b), out, turns, M=m, N=n)
    want = np.max([(a + i).astype(np.float64) @ b for i in range(turns)], axis=0)
    np.testing.assert_array_equal(on.back(out), want.astype(F32))
    np.testing.assert_array_equal(on.back(x), a + turns)
    assert ahead(launched) in (None, ["both", "b"])
