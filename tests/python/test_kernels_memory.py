# SPDX-License-Identifier: Apache-2.0
"""Accesses that users write: permuted, strided, overlapping, through pointers from memory, atomic."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, OnDevice, fitted, poisoned, random
from test_memory import Guarded

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
numbers = pytest.mark.parametrize("dtype", [F32, F16, BF16, np.float64, np.int8, np.uint16, np.int64],
                                  ids=lambda dtype: dtype.__name__)


# ---- transposes

@libtile.jit
def transpose(x, out, rows, cols, BM: tl.constexpr, BN: tl.constexpr, HOW: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (i[:, None] < rows) & (j[None, :] < cols)
    tile = tl.load(x + i[:, None] * cols + j[None, :], mask)
    if HOW == "pointers":
        tl.store(out + j[None, :] * rows + i[:, None], tile, mask)
    else:
        turned = tile.T if HOW == "T" else tl.trans(tile) if HOW == "trans" else tl.permute(tile, (1, 0))
        tl.store(out + j[:, None] * rows + i[None, :], turned, tl.trans(mask))


@everywhere
@numbers
@pytest.mark.parametrize("how", ["pointers", "T", "trans", "permute"])
def test_transpose(device, dtype, how):
    rng = np.random.default_rng(0)
    on = OnDevice(device)
    for rows, cols, bm, bn in ((1, 1, 1, 1), (37, 50, 16, 32), (64, 33, 13, 24)):
        x = random(rng, (rows, cols), dtype)
        out = on(poisoned((cols, rows), dtype))
        transpose[(libtile.cdiv(rows, bm), libtile.cdiv(cols, bn))](on(x), out, rows, cols, bm, bn, how)
        np.testing.assert_array_equal(on.back(out), x.T)


@everywhere
@pytest.mark.parametrize("dtype, bm, bn", [(np.int16, 256, 256), (F32, 256, 256), (np.int64, 128, 256)])
@pytest.mark.parametrize("how", ["pointers", "T"])
def test_transpose_of_large_tiles(device, how, dtype, bm, bn):
    """128 and 256 KiB, for which most GPUs have no room at once between the threads that load and those that store."""
    on = OnDevice(device)
    x = random(np.random.default_rng(1), (bm - 3, bn + 5), dtype)
    out = on(poisoned(x.T.shape, dtype))
    transpose[(1, 2)](on(x), out, *x.shape, bm, bn, how, **fitted({"num_warps": 32}, device))
    np.testing.assert_array_equal(on.back(out), x.T)


@libtile.jit
def stored_both_ways(x, out, back, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    r = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None]
    for first in range(0, cols, BN):
        c = (first + tl.arange(0, BN))[None, :]
        inside = (r < rows) & (c < cols)
        a = tl.load(x + r * cols + c, inside)
        tl.store(out + c * rows + r, a + a, inside)  # across
        tl.store(back + r * cols + c, tl.where(inside & (c % 3 == 0), a, 1), inside)
        tl.store(out + cols * rows + c * rows + r, c * rows + r, inside)  # of no load


@everywhere
@numbers
@pytest.mark.parametrize("rows, cols, bm, bn", [(64, 128, 64, 32), (70, 61, 32, 32), (129, 64, 16, 64), (33, 40, 24, 40)])
def test_a_tile_is_stored_along_and_across(device, dtype, rows, cols, bm, bn):
    x = np.random.default_rng(1).integers(-20, 20, (rows, cols)).astype(np.int8).astype(dtype)
    on = OnDevice(device)
    out, back = on(poisoned((2, cols, rows), dtype)), on(poisoned((rows, cols), dtype))
    stored_both_ways[(libtile.cdiv(rows, bm),)](on(x), out, back, rows, cols, bm, bn)
    np.testing.assert_array_equal(on.back(out)[0], (x + x).T)
    np.testing.assert_array_equal(on.back(out)[1], np.arange(rows * cols).astype(dtype).reshape(cols, rows))
    np.testing.assert_array_equal(on.back(back), np.where(np.arange(cols) % 3 == 0, x, np.ones((), dtype)))


@libtile.jit
def axes_in_another_order(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    tl.store(out + (c * A + a) * B + b, tl.load(x + (a * B + b) * C + c))


@everywhere
@numbers
def test_three_axes_are_stored_across(device, dtype):
    on = OnDevice(device)
    for a, b, c in ((1, 1, 1), (4, 32, 32), (3, 20, 24), (2, 64, 16)):
        x = random(np.random.default_rng(2), (a, b, c), dtype)
        out = on(poisoned((c, a, b), dtype))
        axes_in_another_order[(1,)](on(x), out, a, b, c)
        np.testing.assert_array_equal(on.back(out), x.transpose(2, 0, 1))


@libtile.jit
def transpose_in_place(x, SIZE: tl.constexpr):
    r, c = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    tl.store(x + c * SIZE + r, tl.load(x + r * SIZE + c))


@everywhere
@numbers
@pytest.mark.parametrize("size", [8, 32, 48, 64])
def test_a_transpose_in_place(device, dtype, size):
    x = random(np.random.default_rng(3), (size, size), dtype)
    on = OnDevice(device)
    there = on(x.copy())
    transpose_in_place[(1,)](there, size)
    np.testing.assert_array_equal(on.back(there), x.T)


@libtile.jit
def read_back_turned(x, scratch, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tl.store(scratch + i[:, None] * N + j[None, :], tl.load(x + i[:, None] * N + j[None, :]) * 2)
    turned = tl.load(scratch + i[None, :] * N + j[:, None])
    tl.store(scratch + j[:, None] * M + i[None, :], turned + 1)
    tl.store(out + i[:, None] * N + j[None, :], tl.load(scratch + i[:, None] * N + j[None, :]))


@everywhere
@pytest.mark.parametrize("m, n", [(1, 1), (5, 9), (16, 16), (32, 48)])
def test_a_store_is_read_back_through_another_layout(device, m, n):
    x = np.arange(m * n, dtype=F32).reshape(m, n)
    on = OnDevice(device)
    out, scratch = on(poisoned((m, n), F32)), on(poisoned((m, n), F32))
    read_back_turned[(1,)](on(x), scratch, out, m, n)
    want = (2 * x.T + 1).reshape(m, n)
    np.testing.assert_array_equal(on.back(scratch), want)
    np.testing.assert_array_equal(on.back(out), want)


# ---- offsets beyond 32 bits in elements that are masked off

@libtile.jit
def far_rows(x, out, stride, first, ROWS: tl.constexpr, COLS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLS)
    mask = ((r >= first) & (r < first + 2))[:, None] & (c < COLS - 1)[None, :]
    tile = tl.load(x + (r - first)[:, None] * stride + c[None, :], mask, other=7)
    tl.store(out + r[:, None] * COLS + c[None, :], tile)


@everywhere
@pytest.mark.parametrize("rows, cols, first", [(128, 16, 120), (96, 5, 94), (64, 32, 61)])
def test_masked_rows_may_lie_where_32_bits_do_not_reach(device, rows, cols, first):
    """Rows before `first` have an offset that 32 bits do not hold; only the next two are touched."""
    stride = 2**31 // (first - 20)
    rng = np.random.default_rng(0)
    x = random(rng, (stride + cols,), np.int8)
    on = OnDevice(device)
    out = on(poisoned((rows, cols), np.int8))
    far_rows[(1,)](on(x), out, stride, first, rows, cols)
    want = np.full((rows, cols), 7, np.int8)
    want[first, :-1], want[first + 1, :-1] = x[:cols - 1], x[stride:stride + cols - 1]
    np.testing.assert_array_equal(on.back(out), want)


# ---- arrays that are updated while they are read

@libtile.jit
def move(x, n, shift, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = (i < n) & (i + shift >= 0) & (i + shift < n)
    tl.store(x + i + shift, tl.load(x + i, mask), mask)


@libtile.jit
def reverse(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + n - 1 - i, tl.load(x + i, i < n), i < n)


@libtile.jit
def move_in_blocks(x, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(x + i + 1, tl.load(x + i, i < n) + 1, i < n)


@libtile.jit
def neighbours(x, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for _ in range(STEPS):
        left = tl.load(x + i - 1, (i > 0) & (i < n), other=0)
        right = tl.load(x + i + 1, i + 1 < n, other=0)
        here = tl.load(x + i, i < n)
        tl.store(x + i, left + 2 * here + right, i < n)


@everywhere
@pytest.mark.parametrize("shift", [-20, -8, -1, 0, 1, 3, 16, 40])
def test_an_array_moves_within_itself(device, shift):
    on = OnDevice(device)
    for n in (1, 50, 100, 128):
        x = np.arange(n, dtype=np.int32)
        want = x.copy()
        i = np.arange(n)
        i = i[(i + shift >= 0) & (i + shift < n)]
        want[i + shift] = x[i]
        given = on(x.copy())
        move[(1,)](given, n, shift, BLOCK=128)
        np.testing.assert_array_equal(on.back(given), want)


@everywhere
def test_an_array_is_reversed_in_place(device):
    on = OnDevice(device)
    for n in (1, 2, 63, 100):
        x = np.arange(n, dtype=np.int64)
        given = on(x.copy())
        reverse[(1,)](given, n, BLOCK=100)
        np.testing.assert_array_equal(on.back(given), x[::-1])


@everywhere
@pytest.mark.parametrize("n, block", [(64, 16), (100, 32), (7, 1)])
def test_a_block_reads_what_the_block_before_it_wrote(device, n, block):
    x = np.arange(0, 10 * n + 10, 10, dtype=np.int32)
    want = x.copy()
    for start in range(0, n, block):
        stop = min(start + block, n)
        want[start + 1:stop + 1] = want[start:stop].copy() + 1
    on = OnDevice(device)
    given = on(x)
    move_in_blocks[(1,)](given, n, BLOCK=block)
    np.testing.assert_array_equal(on.back(given), want)


@everywhere
@pytest.mark.parametrize("n", [1, 33, 64])
def test_a_stencil_in_place_takes_all_loads_before_the_store(device, n):
    x = np.random.default_rng(n).integers(-5, 5, n).astype(np.int32)
    want = x.copy()
    for _ in range(5):
        padded = np.pad(want, 1)
        want = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    on = OnDevice(device)
    given = on(x)
    neighbours[(1,)](given, n, STEPS=5, BLOCK=64)
    np.testing.assert_array_equal(on.back(given), want)


@libtile.jit
def scattered(x, index, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    there = tl.load(index + i, i < n, other=0)
    tl.store(out + there, tl.load(x + i, i < n), i < n)
    tl.store(x + i, tl.load(out + there, i < n), i < n)


@pytest.mark.not_interpreted("it names what goes to one address as a fault")
@everywhere
def test_elements_that_go_to_one_address_are_not_torn(device):
    rng = np.random.default_rng(9)
    x, index = rng.standard_normal(100), rng.integers(0, 10, 100)
    on = OnDevice(device)
    given, out = on(x.copy()), on(np.zeros(10))
    scattered[(1,)](given, on(index), out, 100, BLOCK=128)
    stored = on.back(out)
    for slot in range(10):
        assert stored[slot] in x[index == slot]
    np.testing.assert_array_equal(on.back(given), stored[index])


@libtile.jit
def later_values(x, y, out, s, M: tl.constexpr, N: tl.constexpr):
    """Values that several stores need, made of loads before, between and after those stores."""
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    early = tl.load(out + i)
    tl.store(out + i, tl.load(x + i))
    factor = tl.load(y + s)
    mixed = (early // (factor + 7)) * (early % 5 + 3) // (early * early + 1)
    if s > 1:
        inner = (early // 3 + mixed) // (early * early + 2) + tl.load(out + i)
        tl.store(out + i, inner)
        tl.store(x + i, inner * 2)
    late = tl.load(out + i) // 3 + mixed
    tl.store(out + tl.arange(0, N)[None, :] * M + tl.arange(0, M)[:, None], late * factor)
    tl.store(y + i, late)


@everywhere
@pytest.mark.parametrize("s", [0, 1, 2])
@pytest.mark.parametrize("m, n", [(1, 1), (7, 7), (16, 33)])
def test_values_that_outlive_several_stores(device, m, n, s):
    rng = np.random.default_rng(m)
    x, y, out = (rng.integers(0, 1000, (m, n)).astype(np.int32) for _ in range(3))
    s = min(s, m * n - 1)
    on = OnDevice(device)
    given = [on(a.copy()) for a in (x, y, out)]
    later_values[(1,)](*given, s, m, n)
    early, factor = out, y.ravel()[s]
    mixed = (early // (factor + 7)) * (early % 5 + 3) // (early * early + 1)
    out = x.copy()
    if s > 1:
        out = (early // 3 + mixed) // (early * early + 2) + out
        x = 2 * out
    late = out // 3 + mixed
    for got, want in zip(given, (x, late, (late * factor).T.reshape(m, n))):
        np.testing.assert_array_equal(on.back(got), want)


# ---- strides

@libtile.jit
def strided(x, out, m, n, sm, sn, tm, tn, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    mask = (i < m) & (j < n)
    tl.store(out + i * tm + j * tn, tl.load(x + i * sm + j * sn, mask), mask)


@everywhere
@pytest.mark.parametrize("view", [np.s_[:, :], np.s_[::-1, :], np.s_[:, ::-1], np.s_[::-2, ::-3],
                                  np.s_[1::3, 2::5], np.s_[4:5, :], np.s_[:, 3:4]], ids=str)
@pytest.mark.parametrize("dtype", [F32, np.int8, np.int64], ids=lambda dtype: dtype.__name__)
def test_positive_and_negative_strides(device, dtype, view):
    rng = np.random.default_rng(3)
    whole = random(rng, (40, 50), dtype)
    x = whole[view]
    on = OnDevice(device)
    base = on(whole)
    out = on(poisoned(x.shape, dtype))
    first = (x.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // whole.itemsize
    sm, sn = (stride // whole.itemsize for stride in x.strides)
    strided_from[(1,)](base, first, out, *x.shape, sm, sn, BM=48, BN=64)
    np.testing.assert_array_equal(on.back(out), x)


@libtile.jit
def strided_from(x, first, out, m, n, sm, sn, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    mask = (i < m) & (j < n)
    tl.store(out + i * n + j, tl.load(x + first + i * sm + j * sn, mask), mask)


def test_numpy_views_start_where_they_start():
    x = np.arange(2000, dtype=F32).reshape(40, 50)[::-1, ::-1]
    out = poisoned(x.shape, F32)
    strided[(1,)](x, out, 40, 50, -50, -1, 50, 1, BM=40, BN=50)
    np.testing.assert_array_equal(out, x)


@libtile.jit
def same_address(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i * 0) + tl.load(x + 1), i < n)


@everywhere
def test_a_stride_of_zero(device):
    on = OnDevice(device)
    out = on(poisoned(33, F32))
    same_address[(1,)](on(np.array([3, 4], F32)), out, 33, BLOCK=64)
    np.testing.assert_array_equal(on.back(out), np.full(33, 7, F32))


# ---- pointers that stand in memory

@libtile.jit
def grouped(pointers, sizes, out, stride, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    x = tl.load(pointers + group).to(tl.pointer_type(tl.float32))
    n = tl.load(sizes + group)
    i = tl.arange(0, BLOCK)
    tl.store(out + group * stride + i, tl.load(x + i, i < n, other=-1.0) * 2, i < stride)


def test_pointers_loaded_from_memory():
    rng = np.random.default_rng(4)
    arrays = [random(rng, n, F32) for n in (5, 64, 1, 33)]
    pointers = np.array([a.__array_interface__["data"][0] for a in arrays], np.int64)
    sizes = np.array([a.size for a in arrays], np.int32)
    out = poisoned((4, 64), F32)
    grouped[(4,)](pointers, sizes, out, 64, BLOCK=64)
    for a, row in zip(arrays, out):
        np.testing.assert_array_equal(row[:a.size], 2 * a)
        np.testing.assert_array_equal(row[a.size:], np.full(64 - a.size, -2, F32))


@libtile.jit
def follow(pointers, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = tl.load(pointers + i, i < n, other=0).to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(out + i, tl.load(p, i < n, other=-7))


def test_a_tile_of_pointers_loaded_from_memory():
    values = np.arange(100, dtype=np.int32)
    chosen = np.array([5, 99, 0, 5, 42])
    pointers = values.__array_interface__["data"][0] + 4 * chosen
    out = poisoned(16, np.int32)
    follow[(1,)](pointers, out, 5, BLOCK=16)
    np.testing.assert_array_equal(out[:5], chosen)
    np.testing.assert_array_equal(out[5:], np.full(11, -7))


# ---- masks

@libtile.jit
def ragged(x, lengths, out, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.arange(0, BM), tl.arange(0, BN)
    length = tl.load(lengths + i, i < rows, other=0)
    mask = j[None, :] < length[:, None]
    tile = tl.load(x + i[:, None] * cols + j[None, :], mask, other=100)
    whole = (i[:, None] < rows) & (j[None, :] < cols)
    tl.store(out + i[:, None] * cols + j[None, :], tile, whole & (j[None, :] % 3 != 1))


@everywhere
@pytest.mark.parametrize("dtype", [F32, F16, np.int8, np.int64], ids=lambda dtype: dtype.__name__)
def test_masks_that_vary_per_row_and_hold_holes(device, dtype):
    rng = np.random.default_rng(11)
    rows, cols = 13, 50
    x = random(rng, (rows, cols), dtype)
    lengths = rng.integers(0, cols + 1, rows)
    on = OnDevice(device)
    before = np.full((rows, cols), 55, dtype)
    out = on(before.copy())
    ragged[(1,)](on(x), on(lengths), out, rows, cols, BM=16, BN=64)
    j = np.arange(cols)
    want = np.where(j < lengths[:, None], x, np.array(100, dtype))
    want[:, j % 3 == 1] = 55
    np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def masked_everywhere(x, out, n, lo, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = (i >= lo) & (i < n) & (i % 2 == 0)
    tl.store(out + i - lo, tl.load(x + i - lo, mask, other=0) + 1, mask)


@libtile.jit
def columns(x, out, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.arange(0, BM) - 2
    j = tl.arange(0, BN) - 3
    mask = ((i >= 0) & (i < rows))[:, None] & ((j >= 0) & (j < cols))[None, :]
    tile = tl.load(x + i[:, None] + j[None, :] * rows, mask, other=0)
    tl.store(out + i[:, None] + j[None, :] * rows, tile + 1, mask)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", [F32, F16, np.int8, np.float64], ids=lambda dtype: dtype.__name__)
def test_holes_at_both_ends_of_an_array_beside_guard_pages(dtype, at_end):
    for n in (1, 2, 31, 64):
        x, out = Guarded(n, dtype, at_end), Guarded(n, dtype, at_end)
        x.array[:] = np.arange(n)
        masked_everywhere[(1,)](x.array, out.array, n + 9, 9, BLOCK=100)
        i = np.arange(n)
        np.testing.assert_array_equal(out.array, np.where((i + 9) % 2 == 0, i + 1, 0).astype(dtype))
    rows, cols = 5, 7
    x, out = Guarded(rows * cols, dtype, at_end), Guarded(rows * cols, dtype, at_end)
    x.array[:] = np.arange(rows * cols)
    columns[(1,)](x.array, out.array, rows, cols, BM=16, BN=20)
    np.testing.assert_array_equal(out.array, x.array + np.ones(1, dtype))


@libtile.jit
def guarded_product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    a_ptrs = a + m[:, None] * K + k[None, :]
    b_ptrs = b + k[:, None] * N + n[None, :]
    for start in range(0, K, BK):
        x = tl.load(a_ptrs, (m[:, None] < M) & (start + k[None, :] < K), other=0.0)
        y = tl.load(b_ptrs, (start + k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (5, 7, 13), (16, 16, 33)])
def test_a_product_beside_guard_pages(dtype, at_end, m, n, k):
    rng = np.random.default_rng(m)
    a, b, c = Guarded(m * k, dtype, at_end), Guarded(k * n, dtype, at_end), Guarded(m * n, F32, at_end)
    a.array[:], b.array[:] = random(rng, m * k, dtype), random(rng, k * n, dtype)
    guarded_product[(1,)](a.array, b.array, c.array, m, n, k, BM=16, BN=16, BK=16)
    wide = a.array.astype(np.float64).reshape(m, k) @ b.array.astype(np.float64).reshape(k, n)
    np.testing.assert_allclose(c.array.reshape(m, n), wide, rtol=1e-5, atol=1e-4)


@libtile.jit
def squares(x, out, N: tl.constexpr, WIDE: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i).to(WIDE)
    tl.store(out + i, a * a + 1)


@everywhere
@pytest.mark.parametrize("narrow, wide", [(np.int32, tl.int64), (np.int16, tl.int64), (np.int8, tl.int32),
                                          (np.uint8, tl.int64), (F32, tl.float64), (F16, tl.float64),
                                          (BF16, tl.float32)],
                         ids=lambda dtype: getattr(dtype, "name", None) or dtype.__name__)
@pytest.mark.parametrize("n", [1, 9, 17, 33, 65, 129, 35])
def test_narrowed_values_write_no_more_than_their_elements(device, narrow, wide, n):
    x = np.random.default_rng(n).integers(-11, 11, n).astype(narrow)
    on = OnDevice(device)
    before = poisoned(2 * n, narrow)
    out = on(before.copy())
    squares[(1,)](on(x), out, n, wide)
    wanted = (x.astype(np.float64) ** 2 + 1).astype(np.int64).astype(narrow)
    got = on.back(out)
    np.testing.assert_array_equal(got[:n], wanted)
    assert got[n:].tobytes() == before[n:].tobytes()


# ---- masked scalars

@libtile.jit
def masked_scalars(x, out, on, OTHER: tl.constexpr):
    there = tl.load(x, on != 0, other=OTHER, cache_modifier="cg", eviction_policy="evict_first")
    nothing = tl.load(x, mask=on != 0)
    tl.store(out, there, on != 7)
    tl.store(out + 1, nothing, mask=on != 7, cache_modifier=".wb")
    tl.store(out + 2, OTHER, on == 7)
    tl.store(out + 2, tl.load(x, volatile=True), on == 1, eviction_policy="evict_last")


@everywhere
@numbers
@pytest.mark.parametrize("on", [0, 1, 2, 7])
def test_masked_scalars(device, dtype, on):
    to = OnDevice(device)
    x, kept = np.array([93], dtype), poisoned(3, dtype)
    out = to(kept.copy())
    masked_scalars[(1,)](to(x), out, on, 41)
    other = np.array([41], dtype)
    want = kept.copy()
    if on != 7:
        want[:2] = (x if on else other)[0], (x if on else np.zeros(1, dtype))[0]
    want[2] = {1: x[0], 7: other[0]}.get(on, kept[2])
    np.testing.assert_array_equal(to.back(out).view(np.uint8), want.view(np.uint8))


# ---- atomics and programs that meet

@libtile.jit
def segment_sum(x, segment, out, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    i = start
    while i < min(start + BLOCK, n):
        tl.atomic_add(out + tl.load(segment + i), tl.load(x + i))
        i += 1


@everywhere
def test_sums_of_segments(device):
    rng = np.random.default_rng(12)
    n, segments = 3000, 17
    x, segment = rng.integers(-100, 100, n).astype(np.int32), rng.integers(0, segments, n).astype(np.int32)
    on = OnDevice(device)
    out = on(np.zeros(segments, np.int32))
    segment_sum[(libtile.cdiv(n, 64),)](on(x), on(segment), out, n, BLOCK=64)
    np.testing.assert_array_equal(on.back(out), np.bincount(segment, x, segments).astype(np.int32))


@libtile.jit
def count_of(x, counts, n, value, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    hits = (tl.load(x + i, i < n, other=value + 1) == value).to(tl.int32)
    tl.atomic_add(counts, tl.sum(hits, axis=0))


@everywhere
def test_counting(device):
    rng = np.random.default_rng(13)
    x = rng.integers(0, 5, 5000).astype(np.int8)
    on = OnDevice(device)
    counts = on(np.zeros(1, np.int32))
    count_of[(libtile.cdiv(x.size, 300),)](on(x), counts, x.size, 3, BLOCK=300)
    assert on.back(counts)[0] == (x == 3).sum()


@libtile.jit
def relay(flags, out, BLOCK: tl.constexpr):
    """Each program waits for the one before it, by plain volatile loads; its warps meet while it waits."""
    pid = tl.program_id(0)
    seen, waited = 0, 0
    if pid > 0:
        seen = tl.load(flags + pid - 1, volatile=True)
        while seen == 0:
            waited += tl.sum(tl.arange(0, BLOCK), axis=0)
            seen = tl.load(flags + pid - 1, volatile=True)
    tl.atomic_xchg(flags + pid, seen + 1)
    tl.store(out + pid * BLOCK + tl.arange(0, BLOCK), seen + tl.zeros((BLOCK,), tl.int32))


@everywhere
@pytest.mark.parametrize("num_warps", [1, 4])
def test_programs_wait_by_volatile_loads(device, num_warps):
    on = OnDevice(device)
    flags, out = on(np.zeros(60, np.int32)), on(poisoned((60, 256), np.int32))
    relay[(60,)](flags, out, BLOCK=256, num_warps=num_warps)
    np.testing.assert_array_equal(on.back(flags), np.arange(1, 61))
    np.testing.assert_array_equal(on.back(out), np.repeat(np.arange(60)[:, None], 256, 1))


@libtile.jit
def locked(x, total, lock, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tile = tl.load(x + tl.program_id(0) * cols + i, i < cols)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total + i, tl.load(total + i, i < cols) + tile, i < cols)
    tl.atomic_xchg(lock, 0)


@everywhere
def test_a_lock_guards_a_sum_of_tiles(device):
    rng = np.random.default_rng(14)
    x = rng.integers(-1000, 1000, (200, 70)).astype(np.int32)
    on = OnDevice(device)
    total, lock = on(np.zeros(70, np.int32)), on(np.zeros(1, np.int32))
    locked[(200,)](on(x), total, lock, 70, BLOCK=128)
    np.testing.assert_array_equal(on.back(total), x.sum(0))


@libtile.jit
def running_total(x, out, carry, flags, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + i, i < n, other=0), axis=0)
    before = 0
    if pid > 0:
        while tl.atomic_cas(flags + pid - 1, 1, 1) != 1:
            pass
        before = tl.load(carry + pid - 1, volatile=True)
    tl.store(carry + pid, before + total)
    tl.atomic_xchg(flags + pid, 1)
    tl.store(out + pid, before)


@everywhere
def test_a_program_waits_for_the_one_before_it(device):
    x = np.random.default_rng(15).integers(-9, 9, 3000).astype(np.int32)
    programs = libtile.cdiv(x.size, 50)
    on = OnDevice(device)
    carry, flags, out = (on(np.zeros(programs, np.int32)) for _ in range(3))
    running_total[(programs,)](on(x), out, carry, flags, x.size, BLOCK=50)
    sums = np.cumsum(x.reshape(-1, 50).sum(1))
    np.testing.assert_array_equal(on.back(out), np.concatenate([[0], sums[:-1]]))


# ---- stores of numbers that were of a wider type, under masks that leave one lane of a vector

@libtile.jit
def cut(x, out, n, AT: tl.constexpr, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)
    if HOW == "tail":
        mask = (n == 7) | (i > 0)
    elif HOW == "or":
        mask = ((n == 7) | (i >= 0)) & (i == AT)
    elif HOW == "and":
        mask = (i == AT) & (n < 100)
    elif HOW == "where":
        mask = tl.where(n == 7, i == AT, i == AT)
    else:
        mask = ~((i != AT) | (n == 7))
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty), mask)


@everywhere
@pytest.mark.parametrize("how", ["tail", "or", "and", "where", "not"])
@pytest.mark.parametrize("wide,narrow", [(np.int64, np.int32), (np.int64, np.int16), (np.int64, np.int8),
                                         (np.int32, np.int16), (np.int32, np.int8), (np.int16, np.int8),
                                         (np.float64, np.float32), (np.float32, np.float16)],
                         ids=lambda dtype: dtype.__name__)
def test_one_lane_is_stored_as_wide_as_it_is(device, wide, narrow, how):
    on = OnDevice(device)
    for extent in (9, 17, 33, 65):
        for at in (0, extent // 2, extent - 1):
            x, out = np.arange(1, extent + 1).astype(wide), poisoned(extent + 40, narrow)
            held = on(out.copy())
            cut[(1,)](on(x), held, 3, at, extent, how)
            mask = np.arange(extent) > 0 if how == "tail" else np.arange(extent) == at
            out[:extent][mask] = x[mask].astype(narrow)
            assert np.array_equal(on.back(held).view(np.uint8), out.view(np.uint8)), (extent, at)
