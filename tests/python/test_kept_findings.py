# SPDX-License-Identifier: Apache-2.0
"""Products of bf16 with tiny numbers in a few rows or columns: what one program found out about a and b says nothing of other numbers."""
import numpy as np
import pytest
from spine import BF16, F32, poisoned

import libtile
import libtile.language as tl


@libtile.jit
def sums(a, b, start, ends, m, n, M, N, K, MODE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    depth = K
    if MODE == "depth of rows":
        depth = tl.load(ends + m)
    if MODE == "depth of columns":
        depth = tl.load(ends + n)
    factor = tl.load(ends + 192 + n).to(tl.float32)
    first = tl.load(ends + 64 + m) if MODE == "first" else 0
    x_rows = tl.load(ends + 128 + rows, mask=rows < M, other=0) if MODE == "gathered" else rows
    if MODE == "wrapped":
        x_rows = rows % M
    acc = tl.zeros((BM, BN), tl.float32)
    if MODE == "started":
        acc += tl.load(start + rows[:, None] * N + cols[None, :], mask=(rows[:, None] < M) & (cols[None, :] < N), other=0.0)
    for k in range(first, depth, BK):
        i = k + tl.arange(0, BK)
        if MODE == "wrapped":
            x = tl.load(a + x_rows[:, None] * K + i[None, :], mask=i[None, :] < depth, other=0.0)
        else:
            x = tl.load(a + x_rows[:, None] * K + i[None, :], mask=(rows[:, None] < M) & (i[None, :] < depth), other=0.0)
        if MODE == "factor of columns":
            x = (x.to(tl.float32) * factor).to(tl.bfloat16)
        y = tl.load(b + i[:, None] * N + cols[None, :], mask=(i[:, None] < depth) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    return acc


@libtile.jit
def one(a, b, start, out, ends, m, n, M, N, K, MODE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    rows_end, cols_end = M, N
    if MODE == "rows end":
        rows_end = tl.load(ends + 256 + n)
    if MODE == "columns end":
        cols_end = tl.load(ends + 256 + m)
    acc = sums(a, b, start, ends, m, n, M, N, K, MODE, BM, BN, BK)
    tl.store(out + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < rows_end) & (cols[None, :] < cols_end))


@libtile.jit
def product(a, b, start, out, order, ends, M, N, K, MODE: tl.constexpr, EACH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    down = tl.cdiv(M, BM)
    if EACH == 1:
        tile = tl.load(order + tl.program_id(0))
        one(a, b, start, out, ends, tile % down, tile // down, M, N, K, MODE, BM, BN, BK)
    else:
        for turn in range(EACH):
            t = tl.program_id(0) * EACH + turn
            if t < down * tl.cdiv(N, BN):
                tile = tl.load(order + t)
                one(a, b, start, out, ends, tile % down, tile // down, M, N, K, MODE, BM, BN, BK)


def numbers(rng, rows, depth, cols):
    """Small integers, and at some depths tiny numbers of one operand with large ones of the other: all sums are exact."""
    a, b = rng.integers(-3, 4, (rows, depth)).astype(np.float64), rng.integers(-3, 4, (depth, cols)).astype(np.float64)
    for _ in range(rng.integers(0, 4)):
        k, unit = rng.integers(depth), 2.0 ** -int(rng.integers(118, 131))
        tiny, large = (a[:, k], b[k]) if rng.integers(2) else (b[k], a[:, k])
        large[:] = rng.integers(-1, 2, large.size) * 2.0**-8 / unit
        tiny[:] = 0
        tiny[rng.integers(0, tiny.size, rng.choice([2, tiny.size // 4 + 1]))] = unit
    return a, b


MODES = ("plain", "depth of rows", "depth of columns", "first", "gathered", "wrapped", "started", "factor of columns", "rows end", "columns end")


def expected(a, b, start, ends, mode, bm, bn):
    rows, cols = np.arange(len(a)), np.arange(b.shape[1])
    depth = np.arange(a.shape[1])
    if mode == "gathered":
        a = a[ends[128 + rows]]
    if mode in ("depth of rows", "first"):
        a = a * (depth < ends[rows // bm][:, None] if mode == "depth of rows" else depth >= ends[64 + rows // bm][:, None])
    if mode == "depth of columns":
        b = b * (depth[:, None] < ends[cols // bn])
    want = a @ b + (start if mode == "started" else 0)
    if mode == "factor of columns":
        want = want * ends[192 + cols // bn]
    if mode == "rows end":
        want[rows[:, None] >= ends[256 + cols // bn]] = np.nan
    if mode == "columns end":
        want[cols >= ends[256 + rows // bm][:, None]] = np.nan
    return want


@pytest.mark.parametrize("each", [1, 5])
@pytest.mark.parametrize("mode", MODES)
def test_what_was_found_out(mode, each):
    rng = np.random.default_rng(MODES.index(mode) * 2 + each)
    for bm, bn, bk in ((32, 32, 32), (64, 64, 32), (16, 128, 64)):
        for _ in range(8):
            rows, depth, cols = (int(x) for x in rng.integers(1, (200, 1500, 200)))
            a, b = numbers(rng, rows, depth, cols)
            down, across = -(-rows // bm), -(-cols // bn)
            ends = np.zeros(512, np.int32)
            ends[:64], ends[64:128] = rng.integers(0, depth + 1, (2, 64))
            ends[192:256] = rng.choice([1, -2, 4], 64)
            ends[256:] = rng.integers(0, (rows if mode == "rows end" else cols) + 1, 256)
            if mode == "gathered":
                ends[128:128 + rows] = rng.integers(0, rows, rows)
            order = np.arange(down * across, dtype=np.int32)
            kind = rng.integers(3)
            order = order if kind == 0 else order.reshape(across, down).T.ravel() if kind == 1 else rng.permutation(order)
            start = rng.integers(-3, 4, (rows, cols)).astype(F32)
            if mode == "started":
                nothing = rng.integers(0, rows, 2)
                a[nothing], start[nothing] = 0, 2.0**-140
            out = poisoned((rows, cols), F32)
            kernel = product[(-(-order.size // each),)](a.astype(BF16), b.astype(BF16), start, out, np.ascontiguousarray(order), ends, rows, cols, depth, mode, each, bm, bn, bk)
            want = expected(a, b, start, ends, mode, bm, bn)
            written = ~np.isnan(want)
            np.testing.assert_array_equal(out[written], want[written], f"{rows}x{depth}x{cols} by {bm}x{bn}x{bk}, order {kind}")
            if "vdpbf16ps" in kernel.asm["plan"]:  # keys are integers and addresses
                assert ("findings about a remembered" in kernel.asm["plan"]) == (mode != "factor of columns")
            assert (out[~written].view(np.uint8) == 0xA5).all()
