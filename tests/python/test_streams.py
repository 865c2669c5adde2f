# SPDX-License-Identifier: Apache-2.0
"""Loops over rows whose stages the user gives, so that rows run ahead (passes/gpu/plan_streams.h): each iteration gets its own row, whatever the
loop does beside. Numbers are small integers, so that all sums are exact."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
STAGES = [1, 2, 3, 5]


def small(seed, shape, dtype):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@libtile.jit
def scaled_rows(x, factors, o, rows, n, OTHER: tl.constexpr, B: tl.constexpr, S: tl.constexpr):
    cols = tl.arange(0, B)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=S):
        a = tl.load(x + row * n + cols, cols < n, other=OTHER).to(tl.float32)
        d = a - tl.max(a, 0)
        total = tl.sum(tl.where(cols < n, d, 0.0), 0)
        tl.store(o + row * n + cols, d * tl.load(factors + row) + total, cols < n)


@everywhere
@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("n, programs, warps", [(1024, 3, 4), (781, 2, 8), (96, 1, 1), (1000, 20, 2)])
def test_rows_with_their_numbers(device, dtype, n, programs, warps, stages):
    for rows in (0, 1, 2, 13):
        x, factors = small(rows, (max(rows, 1), n), dtype), small(99, max(rows, 1), F32)
        on = OnDevice(device)
        o = on(poisoned(x.shape, F32))
        scaled_rows[(programs,)](on(x), on(factors), o, rows, n, OTHER=-float("inf"), B=libtile.next_power_of_2(n), S=stages, num_warps=warps)
        d = x[:rows].astype(F64) - x[:rows].astype(F64).max(1, keepdims=True, initial=-9)
        want = poisoned(x.shape, F32).astype(F64)
        want[:rows] = d * factors[:rows, None] + d.sum(1, keepdims=True)
        np.testing.assert_array_equal(on.back(o).astype(F64), want)


@everywhere
@pytest.mark.parametrize("stages", STAGES)
def test_rows_in_place(device, stages, n=512, rows=9):
    x, factors = small(1, (rows, n), F32), small(2, rows, F32)
    on = OnDevice(device)
    there = on(x.copy())
    scaled_rows[(2,)](there, on(factors), there, rows, n, OTHER=0.0, B=n, S=stages)
    d = x.astype(F64) - x.max(1, keepdims=True)
    np.testing.assert_array_equal(on.back(there).astype(F64), d * factors[:, None] + d.sum(1, keepdims=True))


@libtile.jit
def recurrence(x, rows, B: tl.constexpr, S: tl.constexpr):
    cols = tl.arange(0, B)
    for row in tl.range(1, rows, num_stages=S):
        before = tl.load(x + (row - 1) * B + cols)
        here = tl.load(x + row * B + cols)
        tl.store(x + row * B + cols, here - before + tl.sum(here, 0))


@everywhere
@pytest.mark.parametrize("stages", STAGES)
def test_a_row_made_of_the_one_before(device, stages, n=256, rows=6):
    x = small(3, (rows, n), np.int32)
    on = OnDevice(device)
    there = on(x.copy())
    recurrence[(1,)](there, rows, B=n, S=stages)
    for row in range(1, rows):
        x[row] = x[row] - x[row - 1] + x[row].sum()
    np.testing.assert_array_equal(on.back(there), x)


@libtile.jit
def list_of_rows(x, rows, o, count, B: tl.constexpr, S: tl.constexpr):
    """The next row's number lies in memory, and each row is used in two ways and two layouts."""
    cols = tl.arange(0, B)
    sums, kept = tl.zeros((B,), tl.float32), tl.zeros((B, B), tl.float32)
    for i in tl.range(0, count, num_stages=S):
        row = tl.load(rows + i)
        a = tl.load(x + row * B + cols)
        b = tl.load(x + i * B + cols)
        sums += a + tl.max(b, 0)
        kept += a[:, None] * b[None, :]
    tl.store(o + cols, sums + tl.sum(kept, 0))


@everywhere
@pytest.mark.parametrize("stages", STAGES)
def test_rows_whose_place_is_loaded(device, stages, n=64, count=7):
    x, rows = small(4, (count, n), F32), np.random.default_rng(5).permutation(count).astype(np.int32)
    on = OnDevice(device)
    o = on(poisoned(n, F32))
    list_of_rows[(1,)](on(x), on(rows), o, count, B=n, S=stages)
    a, b = x[rows].astype(F64), x.astype(F64)
    want = (a + b.max(1, keepdims=True)).sum(0) + np.einsum("im,in->n", a, b)
    np.testing.assert_array_equal(on.back(o).astype(F64), want)


@libtile.jit
def loops_in_a_loop(x, y, o, rows, parts, B: tl.constexpr, S: tl.constexpr, T: tl.constexpr):
    cols = tl.arange(0, B)
    for row in tl.range(0, rows, num_stages=S):
        total = tl.load(y + row * B + cols)
        for part in tl.range(0, parts, 2, num_stages=T):
            a = tl.load(x + (row * parts + part) * B + cols, cols < B - part, 1)
            total += a + tl.sum(a, 0)
        tl.store(o + row * B + cols, total)


@everywhere
@pytest.mark.parametrize("outer, inner", [(2, 3), (3, 1), (1, 2), (4, 4)])
def test_both_loops_run_ahead(device, outer, inner, n=128, rows=5, parts=7):
    x, y = small(6, (rows, parts, n), np.int32), small(7, (rows, n), np.int32)
    on = OnDevice(device)
    o = on(poisoned((rows, n), np.int32))
    loops_in_a_loop[(1,)](on(x), on(y), o, rows, parts, B=n, S=outer, T=inner)
    a = np.where(np.arange(n) < n - np.arange(parts)[:, None], x, 1)[:, ::2]
    np.testing.assert_array_equal(on.back(o), y + (a + a.sum(2, keepdims=True)).sum(1))


@libtile.jit
def rows_without_numbers(x, factors, o, rows, OTHER: tl.constexpr, B: tl.constexpr, S: tl.constexpr):
    """Outside of masks: a constant, what the loop counts, and what it has summed."""
    cols = tl.arange(0, B)
    total = 7
    for row in tl.range(0, rows, num_stages=S):
        a = tl.load(x + row * B + cols)
        k = tl.load(factors + row, row % 3 != 1, OTHER)
        m = tl.load(factors + row, row % 2 == 1, row + 100)
        total += tl.sum(a, 0) + tl.load(factors + row, row % 3 == 1, total)
        tl.store(o + row * B + cols, a + k * m + total)


@everywhere
@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("other", [0, 5])
def test_numbers_outside_of_their_masks(device, stages, other, n=64, rows=7):
    x, factors = small(8, (rows, n), np.int32), small(9, rows, np.int32) + 5
    on = OnDevice(device)
    o = on(poisoned((rows, n), np.int32))
    rows_without_numbers[(1,)](on(x), on(factors), o, rows, OTHER=other, B=n, S=stages)
    total, want = 7, np.zeros((rows, n), np.int32)
    for row in range(rows):
        total += x[row].sum() + (factors[row] if row % 3 == 1 else total)
        want[row] = x[row] + (factors[row] if row % 3 != 1 else other) * (factors[row] if row % 2 == 1 else row + 100) + total
    np.testing.assert_array_equal(on.back(o), want)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_code_copies_ahead_and_meets_in_reductions_alone(target):
    def code(stages, n="i32:16"):
        return scaled_rows.warmup("*fp32:16", "*fp32:16", "*fp32:16", "i32", n, OTHER=0.0, B=1024, S=stages, num_warps=8, target=target)
    plain, ahead = code(1), code(3)
    assert not ahead.fallbacks
    assert "cp.async" in ahead.asm["ptx"] and "cp.async" not in plain.asm["ptx"]
    barriers = [kernel.asm["ptx"].count("bar.sync") + kernel.asm["ptx"].count("barrier.sync") for kernel in (plain, ahead)]
    assert barriers[0] == barriers[1] > 0


def test_halves_that_are_not_aligned_stay_and_say_so():
    kernel = scaled_rows.warmup("*fp16:16", "*fp32:16", "*fp32:16", "i32", "i32", OTHER=0.0, B=1024, S=3, target="sm_90a")
    assert any("neighbours of fewer than 4 bytes" in each for each in kernel.fallbacks)
