# SPDX-License-Identifier: Apache-2.0
"""Several sums and several results of a row that is read once, also where the results lie over what is read."""
import numpy as np
import pytest
from spine import DEVICES, OnDevice

import libtile
import libtile.language as tl


@libtile.jit
def moments(x, scaled, squared, sums, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + i, mask=i < cols, other=0.0)
    total, squares, most = tl.sum(a), tl.sum(a * a), tl.max(tl.where(i < cols, a, -float("inf")))
    tl.store(sums + row * 3, total)
    tl.store(sums + row * 3 + 1, squares)
    tl.store(sums + row * 3 + 2, most)
    tl.store(scaled + row * cols + i, a * most, mask=i < cols)
    # Of what lies there by now: the scaled row, where the arrays are one.
    b = tl.load(x + row * cols + i, mask=i < cols, other=0.0)
    tl.store(squared + row * cols + i, b * b + total, mask=i < cols)


def wanted(x, over):
    x = x.astype(np.float64)
    total, squares, most = x.sum(1), (x * x).sum(1), x.max(1)
    scaled = x * most[:, None]
    b = scaled if over else x
    return scaled, b * b + total[:, None], np.stack([total, squares, most], 1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cols", (1, 7, 64, 781, 1000))
@pytest.mark.parametrize("over", (False, True))
def test_sums_and_results_of_one_row(device, cols, over):
    on = OnDevice(device)
    x = np.random.default_rng(cols).standard_normal((5, cols)).astype(np.float32)
    source = on(x.copy())
    scaled = source if over else on(np.full_like(x, np.nan))
    squared, sums = on(np.full_like(x, np.nan)), on(np.full((5, 3), np.nan, np.float32))
    moments[(5,)](source, scaled, squared, sums, cols, BLOCK=libtile.next_power_of_2(cols))
    # Sums of up to 1000 numbers of about 1, rounded as fp32.
    for got, want in zip((scaled, squared, sums), wanted(x, over)):
        np.testing.assert_allclose(on.back(got), want, rtol=1e-4, atol=1e-4)


@libtile.jit
def centred(x, out, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + i, mask=i < n, other=0.0)
    mean = tl.sum(total) / n
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n) - mean, mask=i < n)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_of_one_step_and_of_several(device):
    """GPUs have code of its own for one step; each launch finds out which it needs."""
    on = OnDevice(device)
    for n in (100, 1, 0, -3, 128, 129, 1000, 7):
        x = np.random.default_rng(n + 5).standard_normal(max(n, 1)).astype(np.float32)
        out = on(np.full_like(x, 7))
        kernel = centred[(1,)](on(x), out, n, BLOCK=128)
        want = x[:n] - x[:n].mean(dtype=np.float64) if n > 0 else [7]
        np.testing.assert_allclose(on.back(out), want, rtol=1e-5, atol=1e-5)
    if device != "cpu":
        assert "0 < n <= 128" in kernel.guards


@libtile.jit
def read_three_times(x, out, least, ROWS: tl.constexpr, COLS: tl.constexpr):
    i = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    a = tl.load(x + i)
    wide = a.to(tl.float64)
    low = wide + tl.min(wide, axis=0, keep_dims=True)
    whole = a.to(tl.int32)
    high = tl.maximum(whole + tl.max(whole, axis=1, keep_dims=True), low.to(tl.int32)).to(tl.float64)
    tl.store(out + i, a)
    tl.store(least + tl.arange(0, COLS), tl.min(high + tl.max(high, axis=1, keep_dims=True) + wide, axis=0))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", (np.int8, np.int16), ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("rows", (39, 41, 42, 43))
def test_numbers_that_fill_no_word_are_kept(device, dtype, rows):
    """A lane's column of them is kept between its sums by words."""
    on, cols = OnDevice(device), 159
    x = np.random.default_rng(rows).integers(-100, 100, (rows, cols)).astype(dtype)
    out, least = on(np.zeros_like(x)), on(np.zeros(cols))
    read_three_times[(1,)](on(x), out, least, rows, cols, num_warps=8)
    wide = x.astype(np.int64)
    high = np.maximum(wide + wide.max(1, keepdims=True), wide + wide.min(0))
    np.testing.assert_array_equal(on.back(out), x)
    np.testing.assert_array_equal(on.back(least), (high + high.max(1, keepdims=True) + wide).min(0))
