# SPDX-License-Identifier: Apache-2.0
"""Block pointers against NumPy: every rank, odd extents, blocks that leave their array, advance in loops,
through conditions and calls; nothing outside of the array is touched."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, OnDevice, poisoned, random
from test_memory import Guarded

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
numbers = pytest.mark.parametrize("dtype", [F32, F16, BF16, np.float64, np.int8, np.uint16, np.int64, np.bool_],
                                  ids=lambda dtype: dtype.__name__)


def window(x, offsets, block, outside=0):
    """The block at these offsets, with `outside` where it leaves the array."""
    index = np.meshgrid(*[np.arange(o, o + b) for o, b in zip(offsets, block)], indexing="ij")
    inside = np.ones(block, bool)
    for i, extent in zip(index, x.shape):
        inside &= (i >= 0) & (i < extent)
    clipped = tuple(np.clip(i, 0, extent - 1) for i, extent in zip(index, x.shape))
    return np.where(inside, x[clipped], np.asarray(outside).astype(x.dtype)), inside


def assert_equal(got, want):
    """NaNs are equal, those of bf16 too."""
    wide = np.float64 if got.dtype == BF16 else got.dtype
    np.testing.assert_array_equal(got.astype(wide), want.astype(wide))


def strides_of(x):
    return tuple(stride // x.itemsize for stride in x.strides)


@libtile.jit
def copy_block(x, out, shape, strides, offsets, out_strides, BLOCK: tl.constexpr, ALL: tl.constexpr, ORDER: tl.constexpr,
               PADDING: tl.constexpr):
    source = tl.make_block_ptr(x, shape, strides, offsets, BLOCK, ORDER)
    target = tl.make_block_ptr(out, BLOCK, out_strides, (0,) * len(BLOCK), BLOCK, ORDER)
    tl.store(target, tl.load(source, boundary_check=ALL, padding_option=PADDING))


@everywhere
@numbers
@pytest.mark.parametrize("shape, block, offsets", [
    ((1,), (1,), (0,)), ((37,), (64,), (0,)), ((100,), (17,), (90,)), ((50,), (32,), (-5,)),
    ((5, 7), (8, 16), (-1, -3)), ((33, 65), (16, 32), (17, 40)), ((64, 64), (64, 64), (0, 0)),
    ((3, 5, 9), (2, 4, 8), (1, 2, 3)), ((4, 6, 1), (5, 3, 2), (-2, 4, 0)), ((2, 3, 4, 5), (2, 2, 3, 7), (0, 2, 2, -1)),
    ((2, 3, 2, 3, 4), (1, 2, 2, 2, 4), (1, 1, 1, 1, 1)), ((8, 8), (4, 4), (100, 3))])
def test_a_block_is_what_lies_there(device, dtype, shape, block, offsets):
    rng = np.random.default_rng(0)
    on = OnDevice(device)
    x = (rng.random(shape) < 0.5) if dtype == np.bool_ else random(rng, shape, dtype)
    axes = tuple(range(len(block)))
    floating = not np.issubdtype(dtype, np.integer) and dtype != np.bool_
    for padding in ("zero", "nan") if floating else ("", "zero"):
        for turned in (x, np.ascontiguousarray(x.T).T):
            out = on(poisoned(block, dtype))
            copy_block[(1,)](on(turned.T.copy() if turned is not x else x), out, shape, strides_of(turned), offsets,
                             strides_of(np.empty(block, dtype)), block, axes, axes[::-1], padding)
            want, _ = window(x, offsets, block, np.nan if padding == "nan" else 0)
            assert_equal(on.back(out), want)


@libtile.jit
def add_one(x, shape, strides, BLOCK: tl.constexpr, AXES: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1)
    at = tl.make_block_ptr(base=x, shape=shape, strides=strides, offsets=(m * BLOCK[0], n * BLOCK[1]), block_shape=BLOCK,
                           order=(1, 0))
    tl.store(at, tl.load(at, boundary_check=AXES) + 1, boundary_check=AXES)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("rows, cols, block", [(1, 1, (4, 8)), (33, 19, (16, 16)), (16, 50, (16, 32)), (40, 32, (24, 32)),
                                               (64, 64, (32, 32))])
def test_nothing_is_touched_outside_of_the_array(at_end, rows, cols, block):
    """Along an axis whose blocks fit none needs to be checked."""
    guarded = Guarded(rows * cols, F32, at_end)
    guarded.array[:] = np.arange(rows * cols)
    axes = tuple(axis for axis, extent in enumerate((rows, cols)) if extent % block[axis] != 0)
    add_one[(libtile.cdiv(rows, block[0]), libtile.cdiv(cols, block[1]))](guarded.array, (rows, cols), (cols, 1), block, axes)
    np.testing.assert_array_equal(guarded.array, np.arange(rows * cols) + 1)


@libtile.jit
def matmul(a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    left = tl.make_block_ptr(a, (M, K), (stride_am, stride_ak), (pid_m * BM, 0), (BM, BK), (1, 0))
    right = tl.make_block_ptr(b, (K, N), (stride_bk, stride_bn), (0, pid_n * BN), (BK, BN), (1, 0))
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        total = tl.dot(tl.load(left, boundary_check=(0, 1)), tl.load(right, boundary_check=(0, 1)), total)
        left = tl.advance(left, (0, BK))
        right = right.advance([BK, 0])
    out = tl.make_block_ptr(c, (M, N), (stride_cm, stride_cn), (pid_m * BM, pid_n * BN), (BM, BN), (1, 0))
    tl.store(out, total.to(out.dtype.element_ty), boundary_check=(0, 1))


@everywhere
@pytest.mark.parametrize("dtype", [F32, F16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("m, n, k, blocks", [(64, 64, 64, (32, 32, 16)), (37, 50, 61, (32, 32, 16)), (5, 130, 7, (16, 64, 32)),
                                             (48, 40, 100, (24, 40, 20))])
def test_matmul(device, dtype, m, n, k, blocks):
    rng = np.random.default_rng(1)
    on = OnDevice(device)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n)))
    out = on(poisoned((m, n), dtype))
    bm, bn, bk = blocks
    matmul[(libtile.cdiv(m, bm), libtile.cdiv(n, bn))](on(a), on(b), out, m, n, k, k, 1, n, 1, n, 1, bm, bn, bk)
    np.testing.assert_array_equal(on.back(out), (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype))


@libtile.jit
def further(block, step):
    return tl.advance(block, (step,))


@libtile.jit
def wander(x, out, n, steps, BLOCK: tl.constexpr):
    """Which of two arrays is read, and how far on, is decided while the kernel runs."""
    here = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    total = tl.zeros((BLOCK,), tl.int32)
    pair = (here, 0)
    for i in range(steps):
        block = pair[0]
        total += tl.load(block, boundary_check=(0,))
        if i % 3 == 0:
            block = further(block, 2 * i - 3)
        else:
            block = block.advance((1,))
        pair = (block, pair[1] + 1)
    while pair[1] > 0:
        pair = (further(pair[0], -1), pair[1] - 1)
    tl.store(out + tl.arange(0, BLOCK), total + tl.load(pair[0], boundary_check=0))


@everywhere
@pytest.mark.parametrize("steps", [0, 1, 8])
def test_block_pointers_go_through_loops_conditions_and_calls(device, steps):
    n, block = 23, 12
    x = np.arange(1, n + 1, dtype=np.int32) ** 2
    on = OnDevice(device)
    out = on(poisoned((block,), np.int32))
    wander[(1,)](on(x), out, n, steps, block)
    want, at = np.zeros(block, np.int32), 0
    for i in range(steps):
        want += window(x, (at,), (block,))[0]
        at += 2 * i - 3 if i % 3 == 0 else 1
    want += window(x, (at - steps,), (block,))[0]
    np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def far(x, out, rows, stride, row):
    at = tl.make_block_ptr(x, (rows, 8), (stride, 1), (row, 0), (4, 8), (1, 0))
    i, j = tl.arange(0, 4), tl.arange(0, 8)
    tl.store(out + i[:, None] * 8 + j[None, :], tl.load(at, boundary_check=(0, 1)))


@everywhere
def test_rows_may_lie_further_than_32_bits_reach(device):
    """Row 0 is read with a stride of 2^40 elements; the others would lie there, and are outside."""
    on = OnDevice(device)
    x = np.arange(8, dtype=F32)
    out = on(poisoned((4, 8), F32))
    far[(1,)](on(x), out, 1, 2**40, 0)
    np.testing.assert_array_equal(on.back(out), np.concatenate([x[None], np.zeros((3, 8), F32)]))
    far[(1,)](on(x), out, 1, 2**40, -2)
    np.testing.assert_array_equal(on.back(out), np.concatenate([np.zeros((2, 8), F32), x[None], np.zeros((1, 8), F32)]))
    far[(1,)](on(x), out, 1, 2**40, 2**31 - 2)
    np.testing.assert_array_equal(on.back(out), np.zeros((4, 8), F32))
