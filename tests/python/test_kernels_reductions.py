# SPDX-License-Identifier: Apache-2.0
"""Reductions by functions that associate: of those that do not commute lefts come before rights on every device; places of extremes."""
import numpy as np
import pytest
from spine import DEVICES, F16, OnDevice, fitted, most_warps, poisoned

import libtile
import libtile.language as tl


@libtile.jit
def compose(a, b, c, d):
    """x -> a x + b, then x -> c x + d: associates, and does not commute."""
    return a * c, b * c + d


@libtile.jit
def compose_axis(a, b, out_a, out_b, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    p, q = tl.reduce((tl.load(a + i), tl.load(b + i)), AXIS, compose)
    o = tl.arange(0, M if AXIS == 1 else N)
    tl.store(out_a + o, p)
    tl.store(out_b + o, q)


@libtile.jit
def compose_row(a, b, out_a, out_b, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p, q = tl.reduce((tl.load(a + i, i < n, other=1), tl.load(b + i, i < n, other=0)), 0, compose)
    tl.store(out_a, p)
    tl.store(out_b, q)


def compositions(a, b):
    """Along the last axis, in uint32."""
    p, q = np.ones(a.shape[:-1], np.uint32), np.zeros(a.shape[:-1], np.uint32)
    for i in range(a.shape[-1]):
        p, q = p * a[..., i], q * a[..., i] + b[..., i]
    return p, q


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(7, 33), (64, 64), (3, 100), (100, 3)], ids=str)
def test_lefts_come_before_rights(device, shape, axis):
    rng = np.random.default_rng(shape[0])
    a, b = (rng.integers(0, 2**32, shape, dtype=np.uint32) | 1 for _ in range(2))
    on = OnDevice(device)
    outs = [on(poisoned(shape[1 - axis], np.uint32)) for _ in range(2)]
    compose_axis[(1,)](on(a), on(b), *outs, M=shape[0], N=shape[1], AXIS=axis)
    want = compositions(np.moveaxis(a, axis, 1), np.moveaxis(b, axis, 1))
    for out, each in zip(outs, want):
        np.testing.assert_array_equal(on.back(out), each)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n, block", [(5, 5), (33, 64), (1000, 1000), (1000, 1024)])
def test_lefts_come_before_rights_in_a_row(device, n, block):
    rng = np.random.default_rng(n)
    a, b = (rng.integers(0, 2**32, block, dtype=np.uint32) | 1 for _ in range(2))
    on = OnDevice(device)
    outs = [on(poisoned(1, np.uint32)) for _ in range(2)]
    compose_row[(1,)](on(a), on(b), *outs, n, BLOCK=block)
    for out, each in zip(outs, compositions(a[:n], b[:n])):
        assert on.back(out)[0] == each


@libtile.jit
def places_of_maxima(x, out, M: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr):
    """Columns lie side by side in memory, so that neighbours of a reshaped row are far apart among lanes and warps."""
    a = tl.load(x + tl.arange(0, M)[:, None] + tl.arange(0, N)[None, :] * M)
    tl.store(out + tl.arange(0, ROWS), tl.argmax(tl.reshape(a, (ROWS, M * N // ROWS)), 1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("warps", [1, 4, 16, 32])
@pytest.mark.parametrize("m, n, rows", [(16, 64, 4), (32, 32, 2), (64, 16, 1), (8, 256, 8)])
def test_rows_over_lanes_and_warps_in_any_order(device, m, n, rows, warps):
    x = np.random.default_rng(4).integers(-9, 10, (m, n), np.int32)
    on = OnDevice(device)
    out = on(poisoned((rows,), np.int32))
    places_of_maxima[(1,)](on(np.ascontiguousarray(x.T)), out, m, n, rows, num_warps=min(warps, most_warps(device)))
    np.testing.assert_array_equal(on.back(out), np.argmax(x.reshape(rows, -1), 1))


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("warps", [1, 2, 8, 32])
@pytest.mark.parametrize("m, n, rows", [(16, 64, 4), (64, 16, 1), (16, 16, 1), (24, 32, 3)])
def test_rows_over_lanes_and_warps_compile(m, n, rows, warps, target):
    """Where a lane stands between two warps the row is laid out anew."""
    kernel = places_of_maxima.warmup("*i32:16", "*i32:16", m, n, rows, num_warps=warps, target=target, grid=(1,))
    assert kernel.fallbacks == []


@libtile.jit
def places_of_extremes(x, where, most, n, stride, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    a = tl.load(x + row * stride + i, i < n, other=-float("inf"))
    value, place = tl.max(a, 0, return_indices=True)
    tl.store(most + row, value)
    tl.store(where + row * 2, place)
    tl.store(where + row * 2 + 1, tl.argmin(tl.where(i < n, a, float("inf")), 0))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("warps", [None, 1, 4, 16])
@pytest.mark.parametrize("block, n, stride", [(1024, 1021, 1021), (4096, 4096, 4096), (3000, 2999, 3001), (8192, 5003, 5003)])
def test_first_of_equal_extremes(device, block, n, stride, warps):
    """The first of them, wherever registers, lanes and warps have them: one of a row, all of it, or every so many."""
    x = np.random.default_rng(n).integers(-3, 3, (12, stride)).astype(F16)
    for row, place in enumerate((0, 1, 31, 32, 127, 128, n - 1, n // 2)):
        x[row, place:n:1 if row % 2 else n] = 5
    x[8] = 2
    x[9, 700:n:64], x[10, 999:n:1000] = -7, 9
    on = OnDevice(device)
    where, most = on(poisoned((12, 2), np.int32)), on(poisoned(12, F16))
    places_of_extremes[(12,)](on(x), where, most, n, stride, B=block, **fitted({} if warps is None else {"num_warps": warps}, device))
    row = x[:, :n]
    np.testing.assert_array_equal(on.back(where), np.stack([row.argmax(1), row.argmin(1)], 1))
    np.testing.assert_array_equal(on.back(most), row.max(1))


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("block", [32768, 20000])
def test_places_cost_few_exchanges(block, target):
    """A thread's elements meet before those of other lanes, whatever the rows are aligned to: texts stay short."""
    for kind, stride in (("*fp16:16", "i32:16"), ("*fp16:16", "i32"), ("*fp32:16", "i32")):
        kernel = places_of_extremes.warmup(kind, "*i32:16", kind, "i32", stride, grid=(1,), target=target, B=block)
        ptx = kernel.asm["ptx"]
        assert ptx.count("shfl.sync.bfly") == 2 * 2 * 5 and len(ptx) < 200_000, (kind, stride, len(ptx))
