# SPDX-License-Identifier: Apache-2.0
"""Rows that are held narrow across reductions and computed again behind them (passes/gpu/hold_rows.h). All numbers are
integers that their types hold, so that results are exact."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F64, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
narrow = pytest.mark.parametrize("dtype", [F16, BF16], ids=["fp16", "bf16"])


@libtile.jit
def later_first(x, a, b, B: tl.constexpr):
    i = tl.arange(0, B)
    w = tl.load(x + i).to(tl.float32)
    d = w * 2.0
    m = tl.max(w, 0)
    tl.store(a + i, (d - m).to(a.dtype.element_ty))
    tl.store(b + i, (w + m).to(b.dtype.element_ty))


@everywhere
@narrow
def test_a_row_made_of_another_is_used_first(device, dtype):
    x = np.random.default_rng(1).integers(-8, 9, 32768).astype(dtype)
    on = OnDevice(device)
    a, b = on(poisoned(x.size, dtype)), on(poisoned(x.size, dtype))
    later_first[(1,)](on(x), a, b, B=x.size, num_warps=8)
    wide = x.astype(F64)
    np.testing.assert_array_equal(on.back(a).astype(F64), 2 * wide - wide.max())
    np.testing.assert_array_equal(on.back(b).astype(F64), wide + wide.max())


@libtile.jit
def round_a_loop(x, o, rows, n, B: tl.constexpr):
    i = tl.arange(0, B)
    before, kept = 0.0, tl.zeros((B,), tl.float16)
    for row in range(rows):
        w = tl.load(x + row * B + i, i < n, 0).to(tl.float32)
        d = w - before
        c = d * 2
        before = tl.max(d, 0)
        before += tl.sum(tl.where(i < n, d - before, 0.0), 0) * 0
        tl.store(o + row * B + i, c + before + kept.to(tl.float32), i < n)
        kept = (w + before).to(tl.float16)


@everywhere
def test_rows_of_a_loop(device, B=32768, n=32759, rows=3):
    x = np.random.default_rng(2).integers(-4, 5, (rows, B)).astype(F16)
    on = OnDevice(device)
    o = on(poisoned((rows, B), F16))
    round_a_loop[(1,)](on(x), o, rows, n, B=B, num_warps=8)
    before, kept, inside = 0.0, np.zeros(B), np.arange(B) < n
    want = poisoned((rows, B), F16).astype(F64)
    for row in range(rows):
        d = np.where(inside, x[row].astype(F64), 0) - before
        before, w = d.max(), d + before
        want[row] = np.where(inside, 2 * d + before + kept, want[row])
        kept = w + before
    np.testing.assert_array_equal(on.back(o).astype(F64), want)


@libtile.jit
def two_rows(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a, c = tl.load(x + i).to(tl.float32), tl.load(y + i).to(tl.float32)
    d, e = a * c, a + c
    f = tl.abs(d)
    s, t = tl.sum(d, 0), tl.max(e, 0)
    g = e * 2 - t
    u = tl.sum(f, 0)
    tl.store(o + i, f - t + 0 * s)
    tl.store(o + B + i, g + a + 0 * u)
    tl.store(o + 2 * B + i, d - c)
    tl.store(o + 3 * B + i, e)


@everywhere
@pytest.mark.parametrize("dtype", [np.int8, np.int16, F16])
def test_two_rows_at_once(device, dtype, B=32768):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-3, 4, B).astype(dtype) for _ in range(2))
    on = OnDevice(device)
    o = on(poisoned((4, B), F16))
    two_rows[(1,)](on(x), on(y), o, B=B, num_warps=8)
    a, c = x.astype(F64), y.astype(F64)
    most = (a + c).max()
    np.testing.assert_array_equal(on.back(o).astype(F64), [abs(a * c) - most, 2 * (a + c) - most + a, a * c - c, a + c])
