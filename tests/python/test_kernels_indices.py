# SPDX-License-Identifier: Apache-2.0
"""Indices as values: what an address may assume of them is no fact, and a run is no group of its size."""
import numpy as np
import pytest
from spine import DEVICES, F16, F32, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)


@libtile.jit
def divided_indices(out, start, row, N: tl.constexpr, BY: tl.constexpr, EQUAL: tl.constexpr, BELOW: tl.constexpr):
    i = start + tl.arange(0, N)
    o = out + row * 6 * N + tl.arange(0, N)
    tl.store(o, tl.where(i // BY == EQUAL, 1, 2))
    tl.store(o + N, tl.where(i % BY < BELOW, 3, 4))
    tl.store(o + 2 * N, i // BY)
    tl.store(o + 3 * N, tl.where((i // BY) * BY == i, i % BY, i // BY))
    mask = (i // BY == EQUAL) | (tl.arange(0, N) < 5)
    tl.store(o + 4 * N, tl.where(mask, 5, 6))
    tl.store(o + 5 * N, tl.sum(mask.to(tl.int32)) + tl.where(mask & (i % BY < BELOW), 7, 8))


@everywhere
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("n, by", [(64, 16), (64, 8), (96, 12), (48, 16), (100, 3), (256, 128)])
def test_dividends_may_be_negative(device, n, by, num_warps):
    starts = [-2 * by, -by, -2 * by - 1, -3, 0, 5, 16, -(2**31), -(2**31) + 16, 2**31 - n]
    on = OnDevice(device)
    out = on(poisoned((len(starts), 6, n), np.int32))
    want = []
    for row, start in enumerate(starts):
        divided_indices[(1,)](out, start, row, n, by, EQUAL=-1, BELOW=-by // 4, num_warps=num_warps)
        i = start + np.arange(n)
        rest = np.fmod(i, by)
        quotient = (i - rest) // by
        mask = (quotient == -1) | (np.arange(n) < 5)
        want.append([np.where(quotient == -1, 1, 2), np.where(rest < -by // 4, 3, 4), quotient,
                     np.where(rest == 0, rest, quotient), np.where(mask, 5, 6),
                     mask.sum() + np.where(mask & (rest < -by // 4), 7, 8)])
    np.testing.assert_array_equal(on.back(out), np.array(want, np.int32))


@libtile.jit
def runs_of_equals(x, ids, out, n, M: tl.constexpr, N: tl.constexpr, RUN: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)
    mask = (tl.max_constancy(tl.load(ids + c), [RUN]) < n)[None, :]
    v = tl.load(x + r * N + c[None, :], tl.broadcast_to(mask, (M, N)), 9.0)
    tl.store(out + r * N + c[None, :], v)
    tl.store(out + (M + r) * N + c[None, :], tl.where(tl.broadcast_to(mask, (M, N)), v, -1.0))
    tl.store(out + (2 * M + r) * N + c[None, :], v, tl.broadcast_to(mask, (M, N)))


@everywhere
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("dtype", [F16, F32, np.int8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("m, n, run", [(64, 48, 12), (64, 48, 4), (16, 96, 6), (8, 120, 20), (33, 72, 24), (4, 64, 3)])
def test_runs_need_not_be_powers_of_two(device, dtype, m, n, run, num_warps):
    rng = np.random.default_rng(n)
    x = rng.integers(-100, 100, (m, n)).astype(dtype)
    ids = np.repeat(rng.integers(0, 4, n // run + 1), run)[:n].astype(np.int32)
    on = OnDevice(device)
    for bound in range(5):
        out = on(poisoned((3, m, n), dtype))
        want = on.back(out).copy()
        runs_of_equals[(1,)](on(x), on(ids), out, bound, m, n, run, num_warps=num_warps)
        mask = np.broadcast_to(ids < bound, (m, n))
        want[0], want[1] = np.where(mask, x, 9), np.where(mask, x, -1)
        want[2][mask] = x[mask]
        np.testing.assert_array_equal(on.back(out).view(np.uint8), want.view(np.uint8))


@libtile.jit
def runs_of_addresses(x, starts, out, N: tl.constexpr, RUN: tl.constexpr):
    i = tl.arange(0, N)
    place = tl.max_contiguous(tl.load(starts + i), [RUN])
    tl.store(out + i, tl.load(x + place))
    tl.store(out + N + place, i)


@everywhere
@pytest.mark.parametrize("n, run", [(48, 12), (96, 12), (64, 4), (120, 20), (90, 6)])
def test_runs_of_addresses_need_not_be_powers_of_two(device, n, run):
    x = np.arange(1000, 1000 + 2 * n, dtype=np.int32)
    blocks = np.random.default_rng(n).permutation(-(-n // run))
    places = (blocks[:, None] * run + np.arange(run)).ravel()[:n].astype(np.int32)
    on = OnDevice(device)
    out = on(poisoned(3 * n, np.int32))
    want = on.back(out).copy()
    want[:n] = x[places]
    want[n + places] = np.arange(n)
    runs_of_addresses[(1,)](on(x), on(places), out, n, run, num_warps=1)
    np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def moved_by_conditions(x, out, base, N: tl.constexpr):
    i = tl.arange(0, N)
    above = i > 3
    tl.store(out + 2 * i + above, tl.load(x + i + above))
    tl.store(out + 2 * N + i, tl.load(x + N - above))
    tl.store(out + 3 * N + i, tl.load(above + (x + i)))
    one = base > 3
    tl.store(out + 4 * N + i, tl.load((x + one) + i))
    tl.store(out + 5 * N + i, tl.load((x - one) + N - i))


@everywhere
@pytest.mark.parametrize("n", [1, 5, 64, 100])
def test_a_condition_moves_a_pointer_by_0_or_1(device, n):
    """int1 is an unsigned type: True is 1."""
    on = OnDevice(device)
    x, i = np.arange(1000, 1000 + n + 2, dtype=np.int32), np.arange(n)
    above = (i > 3).astype(np.int64)
    for base in (0, 9):
        out = on(poisoned(6 * n, np.int32))
        want = on.back(out).copy()
        moved_by_conditions[(1,)](on(x), out, base, n)
        want[2 * i + above] = x[i + above]
        want[2 * n + i], want[3 * n + i] = x[n - above], x[i + above]
        want[4 * n + i], want[5 * n + i] = x[i + (base > 3)], x[n - i - (base > 3)]
        np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def cast_indices(x, out, start, base, n, N: tl.constexpr):
    i = tl.arange(0, N)
    unsigned, cut = (i + 7).to(tl.uint32), (i.to(tl.int64) * 2 + 1).to(tl.int32)
    tl.store(out + i, tl.load(x + unsigned))
    tl.store(out + N + i.to(tl.uint32), tl.load(x + cut))
    tl.store(out + 2 * N + (N - 1 - i).to(tl.uint16), tl.load(x + (i.to(tl.uint32) >> 1)))
    tl.store(out + 3 * N + i, tl.load(x + (start.to(tl.uint32) + unsigned)))
    tl.store(out + 4 * N + i, tl.load(x + (i.to(tl.int64) + base).to(tl.int32)))
    tl.store(out + 5 * N + i, tl.load(x + unsigned, i < n, -1))


@everywhere
@pytest.mark.parametrize("n", [1, 5, 64, 200, 1000])
def test_casts_of_indices(device, n):
    """Casts keep the low bits, whether or not a range shows that they change nothing: -3 as uint32 and 7 more are 4,
    2^32 + 5 as int32 is 5."""
    on = OnDevice(device)
    x, i = np.arange(3 * n + 20, dtype=np.int32), np.arange(n)
    out = on(poisoned((6, n), np.int32))
    cast_indices[(1,)](on(x), out, -3, 2**32 + 5, n // 2, n)
    np.testing.assert_array_equal(on.back(out), [i + 7, 2 * i + 1, (n - 1 - i) // 2, i + 4, i + 5,
                                                 np.where(i < n // 2, i + 7, -1)])


@libtile.jit
def taken_twice(doubles, floats, out_doubles, out_floats, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = (i * 7 + 3) % n
    tl.store(out_doubles + i, tl.load(doubles + at) * 2, mask=i < n)
    tl.store(out_floats + i, tl.load(floats + at) * 2, mask=i < n)


@everywhere
@pytest.mark.parametrize("n", [1, 3, 7, 9, 17, 63])
@pytest.mark.parametrize("block", [64, 128, 1024])
def test_indices_behind_a_mask_address_nothing(device, block, n):
    """Two nests of vectors of different lengths go by one tile of indices, which ends where the masks do."""
    at = (np.arange(n) * 7 + 3) % n
    on = OnDevice(device)
    arrays = [on(np.arange(n).astype(dtype)) for dtype in (np.float64, F32)]
    outs = [on(poisoned(block, dtype)) for dtype in (np.float64, F32)]
    taken_twice[(1,)](*arrays, *outs, n, BLOCK=block)
    for out in map(on.back, outs):
        want = poisoned(block, out.dtype)
        want[:n] = 2 * at
        np.testing.assert_array_equal(out, want)


@libtile.jit
def wide_compares(x, out, n, N: tl.constexpr, WIDE: tl.constexpr, CONSTANT: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i).to(WIDE)[None, :]
    for which in tl.static_range(2):
        b = n.to(WIDE) if which == 0 else tl.full((1, N), CONSTANT, WIDE)
        o = out + which * 6 * N + i[None, :]
        tl.store(o, a < b)
        tl.store(o + N, a <= b)
        tl.store(o + 2 * N, a > b)
        tl.store(o + 3 * N, a >= b)
        tl.store(o + 4 * N, a == b)
        tl.store(o + 5 * N, a != b)


@everywhere
@pytest.mark.parametrize("wide", [np.int64, np.uint64], ids=lambda wide: wide.__name__)
@pytest.mark.parametrize("constant", [0, 5, -1, 2**31 - 1, -(2**31), 2**31, 2**32 + 5, -(2**31) - 1, 2**63 - 1])
def test_wide_numbers_are_compared_as_such(device, wide, constant):
    """Also where both are extended from narrower ones, which are compared instead."""
    x = np.array([0, 1, 5, 6, -1, -5, 2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1, 77, -77, 2**30, -(2**30), 4, -4], np.int32)
    constant, on = (constant % 2**64 if wide is np.uint64 else constant), OnDevice(device)
    for n in (5, 0, -1, 2**31 - 1, -(2**31)):
        out = on(np.zeros((2, 6, 16), np.int8))
        wide_compares[(1,)](on(x), out, n, N=16, WIDE=tl.int64 if wide is np.int64 else tl.uint64, CONSTANT=constant)
        a, both = x.astype(np.int64).astype(wide), (np.int64(n).astype(wide), wide(constant))
        want = [[a < b, a <= b, a > b, a >= b, a == b, a != b] for b in both]
        np.testing.assert_array_equal(on.back(out), np.array(want, np.int8))


@libtile.jit
def behind_wide_masks(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK).to(tl.int64)
    tl.store(out + i, tl.exp(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)


def test_wide_masks_end_nests():
    """A nest ends where its mask does, whatever width its indices are compared in."""
    kernel = behind_wide_masks.warmup("*fp32", "*fp32", "i32", grid=(1,), target="avx512", BLOCK=1024)
    assert "nest %" in kernel.asm["nested"]
