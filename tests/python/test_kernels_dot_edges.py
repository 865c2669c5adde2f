# SPDX-License-Identifier: Apache-2.0
"""Products of tiles that hang over the edges of their matrices: what nobody stores need not be computed, all else is."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)


def numbers(shape, dtype, seed):
    """Small whole numbers, so that every sum is exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@libtile.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr):
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), ACC)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        x = tl.load(a + (rows % M)[:, None] * K + ks[None, :], mask=ks[None, :] < K, other=0)
        y = tl.load(b + ks[:, None] * N + (cols % N)[None, :], mask=ks[:, None] < K, other=0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


@everywhere
@pytest.mark.parametrize("dtype", [F16, BF16, F32, np.int8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (33, 17, 40), (64, 65, 70), (100, 130, 33), (191, 63, 128), (129, 257, 64)])
@pytest.mark.parametrize("bm, bn", [(64, 64), (32, 128), (128, 32)])
def test_edges(device, dtype, m, n, k, bm, bn):
    acc, out = (tl.int32, np.int32) if dtype is np.int8 else (tl.float32, F32)
    a, b, on = numbers((m, k), dtype, 0), numbers((k, n), dtype, 1), OnDevice(device)
    c = on(poisoned((m + 1, n), out))
    product[(-(-m // bm), -(-n // bn))](on(a), on(b), c, m, n, k, BM=bm, BN=bn, BK=32, ACC=acc)
    want = poisoned((m + 1, n), out)
    want[:m] = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(on.back(c), want)


@libtile.jit
def readers(a, b, wide, narrow, turned, sums, M, N, ROWS, COLS, B: tl.constexpr, WHICH: tl.constexpr):
    """A product of which several nests read parts that are not the same."""
    i = tl.arange(0, B)
    x, y = tl.load(a + i[:, None] * B + i[None, :]), tl.load(b + i[:, None] * B + i[None, :])
    acc = tl.dot(x, y)
    at = i[:, None] * B + i[None, :]
    inside = (i[:, None] < M) & (i[None, :] < N)
    tl.store(narrow + at, acc, mask=inside)
    if WHICH == "wider":
        tl.store(wide + at, acc + 1, mask=(i[:, None] <= ROWS) & (i[None, :] <= COLS))
    if WHICH == "turned":
        tl.store(turned + at, tl.trans(acc) + 1, mask=inside)
    if WHICH == "sums":
        tl.store(sums + i, tl.sum(acc, 1), mask=i < M)
        tl.store(sums + B + i, tl.sum(acc, 0), mask=i < N)
    if WHICH == "again":
        tl.store(wide + at, tl.dot(acc, y), mask=inside)
    if WHICH == "either":
        tl.store(wide + at, acc, mask=(i[:, None] < M) | (i[None, :] < N))


@everywhere
@pytest.mark.parametrize("which", ["wider", "turned", "sums", "again", "either"])
@pytest.mark.parametrize("m, n, rows, cols", [(5, 9, 40, 3), (33, 1, 2, 50), (0, 20, 7, 7), (64, 30, -1, 63), (-5, 64, 63, -9),
                                              (17, 100, 2**31 - 1, 16), (47, 49, 20, 2**31 - 1)])
def test_each_reader_gets_what_it_needs(device, which, m, n, rows, cols):
    size, on = 64, OnDevice(device)
    a, b = numbers((size, size), F32, 2), numbers((size, size), F32, 3)
    outs = [on(poisoned(shape, F32)) for shape in ((size, size), (size, size), (size, size), (2, size))]
    readers[(1,)](on(a), on(b), *outs, m, n, rows, cols, B=size, WHICH=which)
    wide, narrow, turned, sums = (poisoned(shape, F32) for shape in ((size, size), (size, size), (size, size), (2, size)))
    i = np.arange(size)
    inside = (i[:, None] < m) & (i[None, :] < n)
    acc = a @ b
    narrow[inside] = acc[inside]
    if which == "wider":
        kept = (i[:, None] <= rows) & (i[None, :] <= cols)
        wide[kept] = acc[kept] + 1
    elif which == "turned":
        turned[inside] = acc.T[inside] + 1
    elif which == "sums":
        sums[0][i < m], sums[1][i < n] = acc.sum(1)[i < m], acc.sum(0)[i < n]
    elif which == "again":
        wide[inside] = (acc @ b)[inside]
    else:
        kept = (i[:, None] < m) | (i[None, :] < n)
        wide[kept] = acc[kept]
    for got, want in zip(outs, (wide, narrow, turned, sums)):
        np.testing.assert_array_equal(on.back(got), want)


@libtile.jit
def in_a_loop(a, b, c, d, M, N, TURNS, B: tl.constexpr, SCALED: tl.constexpr):
    """Sums that the loop itself reads, in each turn, further than they are stored in the end."""
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    acc = tl.zeros((B, B), tl.float32)
    most = tl.zeros((B,), tl.float32)
    for turn in range(TURNS):
        x, y = tl.load(a + at), tl.load(b + at + turn * B * B)
        if SCALED:
            acc = acc * 2
        acc = tl.dot(x, y, acc)
        most = tl.maximum(most, tl.max(acc, 1))
    tl.store(c + at, acc, mask=(i[:, None] < M) & (i[None, :] < N))
    tl.store(d + i, most)


@everywhere
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("m, n, turns", [(3, 5, 1), (20, 32, 3), (32, 1, 4), (9, 31, 0)])
def test_sums_that_a_loop_reads(device, scaled, m, n, turns):
    size, on = 32, OnDevice(device)
    a, b = numbers((size, size), F32, 4), numbers((4, size, size), F32, 5)
    c, d = on(poisoned((size, size), F32)), on(poisoned(size, F32))
    in_a_loop[(1,)](on(a), on(b), c, d, m, n, turns, B=size, SCALED=scaled)
    acc, most = np.zeros((size, size)), np.zeros(size)
    for turn in range(turns):
        acc = acc * (2 if scaled else 1) + a.astype(np.float64) @ b[turn]
        most = np.maximum(most, acc.max(1))
    want = poisoned((size, size), F32)
    want[:m, :n] = acc[:m, :n]
    np.testing.assert_array_equal(on.back(c), want)
    np.testing.assert_array_equal(on.back(d), most)


@libtile.jit
def shifted(a, c, START, LIMIT, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i[:, None] * B + i[None, :])
    acc = tl.dot(x, x)
    rows = START + i
    tl.store(c + i[:, None] * B + i[None, :], acc, mask=(rows[:, None] < LIMIT) & (rows[None, :] < LIMIT))


@everywhere
@pytest.mark.parametrize("start, limit", [(0, 7), (2**31 - 20, 2**31 - 10), (2**31 - 5, 100), (-40, -30), (-(2**31), 5), (50, 20)])
def test_bounds_that_wrap(device, start, limit):
    """An index behind the greatest number is a negative one, which lies below the limit again."""
    size, on = 64, OnDevice(device)
    a, c = numbers((size, size), F32, 6), on(poisoned((size, size), F32))
    shifted[(1,)](on(a), c, start, limit, B=size)
    kept = (start + np.arange(size) + 2**31) % 2**32 - 2**31 < limit
    want = poisoned((size, size), F32)
    want[np.ix_(kept, kept)] = (a @ a)[np.ix_(kept, kept)]
    np.testing.assert_array_equal(on.back(c), want)


@libtile.jit
def masked_step(a, b, acc, k, K, first, shift, rows_end, inner_end, cols_end, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, i = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), k + tl.arange(0, BK)
    inner = shift + i < inner_end
    x = tl.load(a + rows[:, None] * K + (i - first)[None, :], mask=(rows[:, None] + shift < rows_end) & inner[None, :], other=0)
    y = tl.load(b + (i - first)[:, None] * BN + cols[None, :], mask=inner[:, None] & ((first + cols + shift)[None, :] < cols_end), other=0)
    return tl.dot(x, y, acc)


@libtile.jit
def masked(a, b, c, K, first, shift, rows_end, inner_end, cols_end, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, LOOP: tl.constexpr,
           ACC: tl.constexpr):
    """c: all rows and columns of the grid. Indices along the depth begin at `first`; each mask adds `shift` to an index that has a term."""
    acc = tl.zeros((BM, BN), ACC)
    if LOOP:
        for k in range(first, first + K, BK):
            acc = masked_step(a, b, acc, k, K, first, shift, rows_end, inner_end, cols_end, BM, BN, BK)
    else:
        acc = masked_step(a, b, acc, first, K, first, shift, rows_end, inner_end, cols_end, BM, BN, BK)
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    tl.store(c + rows[:, None] * BN + cols[None, :], acc)


@everywhere
@pytest.mark.parametrize("dtype", [BF16, F32, np.int8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("loop", [True, False])
@pytest.mark.parametrize("first, shift", [(0, 7), (0, -90), (-192, 192), (100, -37)])
def test_masks_of_indices_with_terms(device, dtype, loop, first, shift):
    m, n, k, bm, bk = 128, 32, 256 if loop else 64, 32, 64
    acc, out = (tl.int32, np.int32) if dtype is np.int8 else (tl.float32, F32)
    a, b, on = numbers((m, k), dtype, 0), numbers((k, n), dtype, 1), OnDevice(device)
    for rows, inner, cols in ((m, k, n), (99, k, n), (m, k - 51, n), (m, k, 17), (64, 40, 32)):
        c = on(poisoned((m, n), out))
        masked[(m // bm,)](on(a), on(b), c, k, first, shift, rows + shift, inner + first + shift, cols + first + shift, bm, n, bk, loop, acc)
        x, y = a.astype(np.float64), b.astype(np.float64)
        x[rows:], x[:, inner:], y[:, cols:] = 0, 0, 0
        np.testing.assert_array_equal(on.back(c), x @ y)
