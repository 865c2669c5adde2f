# SPDX-License-Identifier: Apache-2.0
"""sort, topk and bitonic_merge: every type with its special numbers, each axis, any extent."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, most_warps, poisoned, random

import libtile
import libtile.language as tl

TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, F16, BF16, F32, F64]
FLOATS = [F16, BF16, F32, F64]


@libtile.jit
def sort_axis(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, DESCENDING: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.sort(tl.load(x + i), AXIS, DESCENDING))


@libtile.jit
def sort_row(x, out, N: tl.constexpr, DESCENDING: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).sort(descending=DESCENDING))


@libtile.jit
def top_row(x, out, N: tl.constexpr, K: tl.constexpr, DESCENDING: tl.constexpr):
    i = tl.program_id(0)
    tl.store(out + i * K + tl.arange(0, K), tl.topk(tl.load(x + i * N + tl.arange(0, N)), K, descending=DESCENDING))


def in_order(x, axis=-1, descending=False):
    """NaN last; of numbers -0.0 before 0.0. Descending: the same the other way round."""
    if np.issubdtype(x.dtype, np.integer):
        keys = np.sort(x, axis)
        return np.flip(keys, axis) if descending else keys
    wide = x.astype(F64)
    zeros = np.where((wide == 0) & np.signbit(wide), 0, 1)
    order = np.lexsort((zeros, wide), axis=axis)
    sorted_ = np.take_along_axis(x, order, axis)
    return np.flip(sorted_, axis) if descending else sorted_


def same(got, want):
    """Bit for bit, but for the NaNs'."""
    got, want = np.asarray(got), np.asarray(want)
    if np.issubdtype(got.dtype, np.integer):
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(F64), want.astype(F64)
    np.testing.assert_array_equal(got, want)
    signs = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[signs], np.signbit(want)[signs])


def samples(rng, shape, dtype):
    x = random(rng, shape, dtype)
    if dtype in FLOATS:
        for number in (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0):
            x = np.where(rng.random(shape) < 0.05, np.array(number, dtype), x)
    return x.astype(dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (1, 64), (33, 7), (8, 100), (64, 16)], ids=str)
def test_each_axis(device, shape, dtype):
    x = samples(np.random.default_rng(shape[1]), shape, dtype)
    on = OnDevice(device)
    for axis in (0, 1, -1):
        for descending in (False, True):
            out = on(poisoned(shape, dtype))
            sort_axis[(1,)](on(x), out, *shape, AXIS=axis, DESCENDING=descending)
            same(on.back(out), in_order(x, axis, descending))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("warps", [1, 4, 32])
@pytest.mark.parametrize("n", [1, 2, 17, 32, 128, 500, 1024, 1025, 4096])
def test_rows_over_many_warps(device, n, warps):
    rng = np.random.default_rng(n)
    x = samples(rng, (3, n), F32)
    on = OnDevice(device)
    for descending in (False, True):
        out = on(poisoned(x.shape, F32))
        sort_row[(3,)](on(x), out, N=n, DESCENDING=descending, num_warps=min(warps, most_warps(device)))
        same(on.back(out), in_order(x, -1, descending))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.int16, F32, np.int64])
def test_a_long_row(device, dtype):
    x = samples(np.random.default_rng(1), (2, 32768 if dtype != np.int64 else 8192), dtype)
    on = OnDevice(device)
    out = on(poisoned(x.shape, dtype))
    sort_row[(2,)](on(x), out, N=x.shape[1], DESCENDING=False)
    same(on.back(out), in_order(x))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, F16, F32])
@pytest.mark.parametrize("n, k", [(1, 1), (8, 8), (16, 4), (100, 7), (1000, 1), (1024, 32)])
def test_top(device, n, k, dtype):
    x = samples(np.random.default_rng(n), (3, n), dtype)
    on = OnDevice(device)
    for descending in (False, True):
        out = on(poisoned((3, k), dtype))
        top_row[(3,)](on(x), out, N=n, K=k, DESCENDING=descending)
        same(on.back(out), in_order(x, -1, descending)[:, :k])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.int8, np.int64, F32])
@pytest.mark.parametrize("n, k", [(129, 20), (500, 3), (2000, 33), (2048, 512)])
def test_top_of_rows_in_some_order(device, n, k, dtype):
    """Where few numbers replace those found so far, or all of them do."""
    rng = np.random.default_rng(n)
    rising = np.sort(random(rng, n, dtype))
    x = np.stack([rising, rising[::-1], np.concatenate([rising[::2], rising[1::2][::-1]]), np.full(n, rising[n // 2]),
                  np.where(np.arange(n) == n - 1, rising[0], rising[-1]), np.where(np.arange(n) % 64 == 63, rising, rising[n // 2])])
    on = OnDevice(device)
    for descending in (False, True):
        out = on(poisoned((len(x), k), dtype))
        top_row[(len(x),)](on(x), out, N=n, K=k, DESCENDING=descending)
        same(on.back(out), in_order(x, -1, descending)[:, :k])


@libtile.jit
def top_axis(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    o = tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + o, tl.topk(tl.load(x + i), K, dim=0))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("m, n, k", [(7, 33, 3), (64, 5, 64), (100, 1, 9)])
def test_top_along_the_first_axis(device, m, n, k):
    x = samples(np.random.default_rng(m), (m, n), F32)
    on = OnDevice(device)
    out = on(poisoned((k, n), F32))
    top_axis[(1,)](on(x), out, M=m, N=n, K=k)
    same(on.back(out), in_order(x, 0, True)[:k])


@libtile.jit
def sort_flags(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.sort(tl.load(x + i) > 0).to(tl.int32))


@pytest.mark.parametrize("device", DEVICES)
def test_conditions(device):
    x = np.random.default_rng(0).integers(-1, 2, 100, dtype=np.int32)
    on = OnDevice(device)
    out = on(poisoned(100, np.int32))
    sort_flags[(1,)](on(x), out, N=100)
    np.testing.assert_array_equal(on.back(out), np.sort(x > 0))


@libtile.jit
def merge_row(x, out, N: tl.constexpr, DESCENDING: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.bitonic_merge(tl.load(x + i), descending=DESCENDING))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [1, 2, 64, 77, 1024])
def test_a_bitonic_sequence_is_merged(device, n):
    rng = np.random.default_rng(n)
    x = random(rng, n, F32)
    x = np.concatenate([np.sort(x[:n // 3]), np.sort(x[n // 3:])[::-1]])
    on = OnDevice(device)
    for descending in (False, True):
        out = on(poisoned(n, F32))
        merge_row[(1,)](on(x), out, N=n, DESCENDING=descending)
        same(on.back(out), in_order(x, -1, descending))


@libtile.jit
def top_rows(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.arange(0, M)[:, None]
    a = tl.load(x + row * N + tl.arange(0, N)[None, :])
    tl.store(out + row * K + tl.arange(0, K)[None, :], tl.topk(a + 1, K))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("m, n, k", [(3, 200, 5), (1, 513, 1), (7, 64, 16), (2, 65, 17)])
def test_top_of_rows(device, m, n, k):
    x = np.random.default_rng(n).integers(-2**30, 2**30, (m, n), dtype=np.int32)
    on = OnDevice(device)
    out = on(poisoned((m, k), np.int32))
    top_rows[(1,)](on(x), out, M=m, N=n, K=k)
    np.testing.assert_array_equal(on.back(out), np.sort(x + 1, 1)[:, ::-1][:, :k])
