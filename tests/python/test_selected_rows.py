# SPDX-License-Identifier: Apache-2.0
"""Sums and extremes of what is selected in a row: bounds at every place of a thread's elements, conditions of single elements,
NaN and infinities where the condition does not hold, and the signs of zeros."""
import numpy as np
import pytest
from spine import DEVICES, OnDevice

import libtile
import libtile.language as tl


@libtile.jit
def selected(x, y, taken, out, cols, stride, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    at = row[:, None] * stride + i[None, :]
    a, b = tl.load(x + at).to(tl.float32), tl.load(y + at).to(tl.float32)
    inside = (i < cols)[None, :]
    single = tl.load(taken + at) != 0
    squares = tl.where(inside, a, 0.0)
    left, right = tl.where(single, a, 0.0), tl.where(single, b, 0.0)
    other, crossed = tl.where(inside, b, 0.0), tl.where(single, a, 0.0)
    tl.store(out + row, tl.sum(tl.where(inside, a, 0.0), 1))
    tl.store(out + ROWS + row, tl.sum(squares * squares, 1))
    tl.store(out + 2 * ROWS + row, tl.sum(left * right, 1))
    tl.store(out + 3 * ROWS + row, tl.max(tl.where(inside, a, -float("inf")), 1))
    tl.store(out + 4 * ROWS + row, tl.min(tl.where(single, a, 3.0), 1))
    tl.store(out + 5 * ROWS + row, tl.sum(other * crossed, 1))
    tl.store(out + 6 * ROWS + row, tl.max(tl.where(inside, a, 0.5), 1))


def wanted(x, y, taken, cols):
    x, y = x.astype(np.float64), y.astype(np.float64)
    inside = np.arange(x.shape[1])[None, :] < cols
    bounded, single = np.where(inside, x, 0.0), np.where(taken, x, 0.0)
    return np.stack([bounded.sum(1), (bounded * bounded).sum(1), (single * np.where(taken, y, 0.0)).sum(1),
                     np.where(inside, x, -np.inf).max(1), np.where(taken, x, 3.0).min(1),
                     (np.where(inside, y, 0.0) * single).sum(1), np.where(inside, x, 0.5).max(1)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", (np.float16, np.float32))
@pytest.mark.parametrize("rows, block, warps", ((1, 32, 1), (1, 1024, 1), (2, 512, 4), (16, 64, 2), (64, 8, 4)))
def test_what_is_not_selected_does_not_count(device, dtype, rows, block, warps):
    on = OnDevice(device)
    random = np.random.default_rng(block + rows)
    for cols in sorted({0, 1, block // 2, block - 3, block}):
        x, y = (random.standard_normal((rows, block)).astype(dtype) for _ in range(2))
        taken = random.random((rows, block)) < 0.5
        # Nobody takes these: they are beyond the bound, and not taken one by one.
        x[:, cols:], taken[:, cols:] = np.resize(np.array([np.nan, np.inf, -np.inf], dtype), (rows, block - cols)), False
        y[~taken & (np.arange(block) >= cols)[None, :]] = np.nan
        out = on(np.full((7, rows), np.nan, np.float32))
        selected[(1,)](on(x), on(y), on(taken.astype(np.int8)), out, cols, block, BLOCK=block, ROWS=rows, num_warps=warps)
        # Sums of up to 1024 numbers of about 1, rounded as fp32.
        np.testing.assert_allclose(on.back(out), wanted(x, y, taken, cols), rtol=1e-4, atol=2e-4)


@libtile.jit
def zeros(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x + start + i, mask=start + i < n, other=-0.0)
    tl.store(out, tl.sum(total))
    tl.store(out + 1, tl.sum(tl.load(x + i, mask=i < n, other=-0.0) + 0.0))
    tl.store(out + 2, tl.sum(tl.where(i < n, tl.load(x + i, mask=i < n), -0.0)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("value", (0.0, -0.0, -2.0 ** -149, np.inf, -np.inf, np.nan))
@pytest.mark.parametrize("n", (1, 100, 128, 300))
def test_a_zero_added_to_each_term(device, value, n):
    on = OnDevice(device)
    x = np.full(max(n, 128), -0.0, np.float32)
    x[0] = value
    out = on(np.full(3, np.nan, np.float32))
    zeros[(1,)](on(x), out, n, BLOCK=128)
    got = on.back(out)
    # From -0.0 alone the first two make 0.0, and the third keeps it.
    want = np.array([np.float32(value) + np.float32(0.0)] * 2 + [value], np.float32)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(want[:2]))


@libtile.jit
def signed_products(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    wide = a.to(tl.float32) * b.to(tl.float32)
    tl.store(out + i, a * b)
    tl.store(out + BLOCK + i, wide.to(a.dtype))
    tl.store(out + 2 * BLOCK + i, (-wide).to(a.dtype))
    tl.store(out + 3 * BLOCK + i, (a.to(tl.float32) * 0.0).to(a.dtype))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", (np.float16, np.float32))
@pytest.mark.parametrize("block, warps", ((64, 1), (512, 2)))
def test_products_keep_the_signs_of_zeros(device, dtype, block, warps):
    """Instructions that multiply and convert to fp16 add a number, too."""
    on = OnDevice(device)
    random = np.random.default_rng(block)
    x, y = (random.choice(np.array([0.0, -0.0, 1.5, -2, 2.0 ** -14, -2.0 ** -14], dtype), block) for _ in range(2))
    out = on(np.full((4, block), np.nan, dtype))
    signed_products[(1,)](on(x), on(y), out, BLOCK=block, num_warps=warps)
    got, wide = on.back(out), x.astype(np.float32) * y.astype(np.float32)
    want = np.stack([wide, wide, -wide, x.astype(np.float32) * np.float32(0)]).astype(dtype)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
