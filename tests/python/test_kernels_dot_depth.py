# SPDX-License-Identifier: Apache-2.0
"""Dots whose masks end within a step of the reduction: what lies behind both ends changes nothing, what lies behind one does."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F32, OnDevice, poisoned

import libtile
import libtile.language as tl

M, N, STEP = 19, 37, 64


@libtile.jit
def product(a, b, out, K, first, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr, ACC: tl.constexpr):
    rows, cols = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), ACC)
    for start in range(first, first + K, STEP):
        k = start + tl.arange(0, STEP)
        x = tl.load(a + rows * K + (k - first)[None, :], mask=(k < first + K)[None, :] & (rows < M - 1), other=0)
        y = tl.load(b + (k - first)[:, None] * N + cols, mask=(k[:, None] < first + K) & (cols < N - 1), other=0)
        acc = tl.dot(x, y, acc)
    tl.store(out + rows * N + cols, acc)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.int8, BF16, F32])
@pytest.mark.parametrize("k", [1, 2, 63, 64, 65, 77, 130, 191, 1234])
def test_any_depth(device, dtype, k):
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((M, k), (k, N)))
    on = OnDevice(device)
    integers = dtype == np.int8
    out = on(poisoned((M, N), np.int32 if integers else F32))
    product[(1,)](on(a), on(b), out, k, 0, M, N, STEP, tl.int32 if integers else tl.float32)
    a[-1], b[:, -1] = 0, 0
    np.testing.assert_array_equal(on.back(out), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("first", [-2**31, -5, 2**31 - 1 - 128])
def test_any_first_index(first):
    k = 100
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (M, k)).astype(F32), rng.integers(-9, 9, (k, N)).astype(F32)
    out = poisoned((M, N), F32)
    product[(1,)](a, b, out, k, first, M, N, STEP, tl.float32)
    a[-1], b[:, -1] = 0, 0
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


@libtile.jit
def uneven(a, b, ends_a, ends_b, out, turns, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr, OTHER_A: tl.constexpr,
           OTHER_B: tl.constexpr):
    rows, cols, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, STEP)
    acc = tl.zeros((M, N), tl.float32)
    for turn in range(turns):
        at = turn * STEP + k
        x = tl.load(a + rows * turns * STEP + at[None, :], mask=k[None, :] < tl.load(ends_a + turn), other=OTHER_A)
        y = tl.load(b + at[:, None] * N + cols, mask=k[:, None] < tl.load(ends_b + turn), other=OTHER_B)
        acc = tl.dot(x, y, acc)
    tl.store(out + rows * N + cols, acc)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("others", [(0, 0), (1, 0), (0, 2), (1, 2)])
def test_each_step_ends_where_it_likes(device, dtype, others):
    """Also in the midst, at none, behind the step, and each operand by itself: an infinity meets a zero that was not loaded."""
    rng = np.random.default_rng(1)
    turns = 11
    a, b = rng.integers(-9, 9, (M, turns * STEP)).astype(dtype), rng.integers(-9, 9, (turns * STEP, N)).astype(dtype)
    ends = [rng.integers(-3, STEP + 9, turns).astype(np.int32) for _ in range(2)]
    ends[0][3], ends[1][3], ends[0][5], ends[1][5] = 0, -7, 40, 20
    ends[0][7], ends[1][7] = 20, 40
    b[7 * STEP + 30, 4] = np.inf
    on = OnDevice(device)
    out = on(poisoned((M, N), F32))
    uneven[(1,)](on(a), on(b), on(ends[0]), on(ends[1]), out, turns, M, N, STEP, *others)
    step = np.arange(turns * STEP) % STEP
    inside = [step < np.repeat(end, STEP) for end in ends]
    x = np.where(inside[0][None, :], a.astype(np.float64), others[0])
    y = np.where(inside[1][:, None], b.astype(np.float64), others[1])
    with np.errstate(invalid="ignore"):
        want = x @ y
    np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def wrapped(a, b, out, m, K, BLOCK_M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    rows, cols, k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, N)[None, :], tl.arange(0, STEP)
    x_ptrs, y_ptrs = a + (rows % m)[:, None] * K + k[None, :], b + k[:, None] * N + cols
    acc = tl.zeros((BLOCK_M, N), tl.float32)
    for start in range(0, K, STEP):
        acc = tl.dot(tl.load(x_ptrs, mask=k[None, :] < K - start, other=0), tl.load(y_ptrs, mask=k[:, None] < K - start, other=0), acc)
        x_ptrs += STEP
        y_ptrs += STEP * N
    tl.store(out + rows[:, None] * N + cols, acc, mask=rows[:, None] < m)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("k", [64, 128, 640, 700, 1101])
@pytest.mark.parametrize("unit", [1.0, 2.0**-128])
def test_rows_read_in_place(device, dtype, k, unit):
    """Whole steps are read where they lie, the last one is not; also numbers that vdpbf16ps would take for 0."""
    rng = np.random.default_rng(k)
    m, block, n = 41, 24, 64
    a, b = rng.integers(-9, 9, (m, k)) * unit, rng.integers(-9, 9, (k, n)) / unit
    on = OnDevice(device)
    out = on(poisoned((m, n), F32))
    kernel = wrapped[(-(-m // block),)](on(a.astype(dtype)), on((b * 2.0**-20).astype(dtype)), out, m, k, block, n, STEP)
    np.testing.assert_array_equal(on.back(out), a @ b * 2.0**-20)
    if device == "cpu" and dtype == F32:
        assert "rows of a in place" in kernel.asm["plan"]
