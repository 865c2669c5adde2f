# SPDX-License-Identifier: Apache-2.0
"""Tensor descriptors against NumPy, made in the kernel and on the host: every rank, blocks that leave their
array, padding, rows by index, reductions."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned, random
from test_block_pointers import assert_equal, strides_of, window
from test_memory import Guarded

import libtile
import libtile.language as tl
from libtile.tools.tensor_descriptor import TensorDescriptor

everywhere = pytest.mark.parametrize("device", DEVICES)
numbers = pytest.mark.parametrize("dtype", [F32, F16, BF16, F64, np.int8, np.uint16, np.int64],
                                  ids=lambda dtype: dtype.__name__)


@libtile.jit
def copy_made(x, out, shape, strides, offsets, BLOCK: tl.constexpr, PADDING: tl.constexpr):
    described = tl.make_tensor_descriptor(x, shape, strides, BLOCK, padding_option=PADDING)
    tl.static_assert(isinstance(described, tl.tensor_descriptor))
    tl.static_assert(described.block_shape == BLOCK and described.dtype == x.dtype.element_ty)
    block = described.load(offsets)
    whole = tl.make_tensor_descriptor(out, BLOCK, strides_in(BLOCK), BLOCK)
    whole.store((0,) * len(BLOCK), block)


@libtile.constexpr_function
def strides_in(block):
    strides = [1]
    for extent in block[:0:-1]:
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


@libtile.jit
def copy_given(x, out, offsets):
    tl.store_tensor_descriptor(out, (0,) * len(out.block_shape), tl.load_tensor_descriptor(x, offsets))


@everywhere
@numbers
@pytest.mark.parametrize("shape, block, offsets", [
    ((37,), (64,), (0,)), ((100,), (17,), (90,)), ((5, 16), (8, 16), (-1, -3)), ((33, 64), (16, 32), (17, 40)),
    ((64, 64), (64, 64), (0, 0)), ((3, 5, 16), (2, 4, 8), (1, 2, 3)), ((2, 3, 4, 16), (2, 2, 3, 32), (0, 2, 2, -1)),
    ((2, 3, 2, 3, 32), (1, 2, 2, 2, 16), (1, 1, 1, 1, 1)), ((8, 16), (4, 16), (100, 3))])
def test_a_block_is_what_lies_there(device, dtype, shape, block, offsets):
    rng = np.random.default_rng(0)
    on = OnDevice(device)
    x = random(rng, shape, dtype)
    for padding in ("zero", "nan") if dtype in (F32, F16, BF16, F64) else ("zero",):
        want, _ = window(x, offsets, block, np.nan if padding == "nan" else 0)
        out = on(poisoned(block, dtype))
        copy_made[(1,)](on(x), out, shape, (*strides_of(x)[:-1], 1), offsets, block, padding)
        assert_equal(on.back(out), want)
        out = on(poisoned(block, dtype))
        if any(stride * x.itemsize % 16 for stride in strides_of(on.back(out))[:-1]):
            continue
        copy_given[(1,)](TensorDescriptor.from_tensor(on(x), list(block), padding),
                         TensorDescriptor.from_tensor(out, list(block)), offsets)
        assert_equal(on.back(out), want)


@libtile.jit
def double(x, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    described = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [BM, BN])
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    described.store(at, 2 * described.load(at))


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("rows, cols, bm, bn", [(1, 1, 4, 16), (33, 20, 16, 16), (64, 64, 32, 32)])
def test_nothing_is_touched_outside_of_the_array(at_end, rows, cols, bm, bn):
    guarded = Guarded(rows * cols, F32, at_end)
    guarded.array[:] = np.arange(rows * cols)
    double[(libtile.cdiv(rows, bm), libtile.cdiv(cols, bn))](guarded.array, rows, cols, bm, bn)
    np.testing.assert_array_equal(guarded.array, 2 * np.arange(rows * cols))


@libtile.jit
def matmul(a, b, c, K):
    """Of block shapes that the host chose; what they are is looked up in the descriptors."""
    BM: tl.constexpr = c.block_shape[0]
    BN: tl.constexpr = c.block_shape[1]
    BK: tl.constexpr = a.block_shape[1]
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([m, k]), b.load([k, n]), total)
    c.store([m, n], total.to(c.dtype))


@everywhere
@pytest.mark.parametrize("dtype", [F32, F16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("m, n, k, blocks", [(64, 64, 64, (32, 32, 16)), (37, 48, 64, (32, 32, 16)), (5, 136, 16, (16, 64, 32))])
def test_matmul(device, dtype, m, n, k, blocks):
    rng = np.random.default_rng(1)
    on = OnDevice(device)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n)))
    out = on(poisoned((m, n), dtype))
    bm, bn, bk = blocks
    left, right, result = (TensorDescriptor.from_tensor(x, [1, 1]) for x in (on(a), on(b), out))
    left.block_shape, right.block_shape, result.block_shape = [bm, bk], [bk, bn], [bm, bn]
    matmul[(libtile.cdiv(m, bm), libtile.cdiv(n, bn))](left, right, result, k)
    np.testing.assert_array_equal(on.back(out), (a.astype(F64) @ b.astype(F64)).astype(dtype))


@libtile.jit
def pick_rows(x, out, back, rows, cols, indices, column, R: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, N)
    source = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [1, N])
    target = tl.make_tensor_descriptor(back, [rows, cols], [cols, 1], [1, N])
    which = tl.load(indices + i)
    picked = source.gather(which, column)
    tl.store(out + i[:, None] * N + j[None, :], picked)
    target.scatter(picked, which, column)


@everywhere
@numbers
@pytest.mark.parametrize("rows, cols, r, n, column", [(40, 32, 8, 16, 0), (20, 20, 32, 32, 7), (100, 64, 12, 8, -3)])
def test_gather_and_scatter(device, dtype, rows, cols, r, n, column):
    rng = np.random.default_rng(2)
    on = OnDevice(device)
    x = random(rng, (rows, cols), dtype)
    indices = rng.permutation(np.arange(-rows, 2 * rows))[:r].astype(np.int32)
    out, back = on(poisoned((r, n), dtype)), on(np.ones((rows, cols), dtype))
    pick_rows[(1,)](on(x), out, back, rows, cols, on(indices), column, r, n)
    want = np.stack([window(x, (row, column), (1, n))[0][0] for row in indices])
    np.testing.assert_array_equal(on.back(out), want)
    scattered = np.ones((rows, cols), dtype)
    for row in indices[(indices >= 0) & (indices < rows)]:
        inside = slice(max(column, 0), min(column + n, cols))
        scattered[row, inside] = x[row, inside]
    np.testing.assert_array_equal(on.back(back), scattered)


@libtile.jit
def reduce_block(x, value, rows, cols, BM: tl.constexpr, BN: tl.constexpr, KIND: tl.constexpr):
    described = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [BM, BN])
    i, j = tl.arange(0, BM), tl.arange(0, BN)
    block = tl.load(value + i[:, None] * BN + j[None, :])
    at = [tl.program_id(0) * BM - 3, -2]
    if KIND == "add":
        described.atomic_add(at, block)
    elif KIND == "max":
        described.atomic_max(at, block)
    elif KIND == "min":
        described.atomic_min(at, block)
    elif KIND == "and":
        described.atomic_and(at, block)
    elif KIND == "or":
        described.atomic_or(at, block)
    else:
        described.atomic_xor(at, block)


REDUCTIONS = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
              "xor": np.bitwise_xor}


@everywhere
@pytest.mark.parametrize("dtype, kind", [
    pytest.param(dtype, kind, id=f"{dtype.__name__}-{kind}")
    for dtype in (np.uint32, np.int32, np.uint64, np.int64, np.int8, F32, F16, BF16, F64) for kind in REDUCTIONS
    if np.issubdtype(dtype, np.integer) or kind in ("add", "max", "min")])
def test_reductions(device, dtype, kind):
    rng = np.random.default_rng(3)
    rows, cols, bm, bn = 20, 24, 8, 32
    integer = np.issubdtype(dtype, np.integer)
    x, value = ((rng.integers(0, 100, s).astype(dtype) if integer else rng.integers(-50, 50, s).astype(dtype))
                for s in ((rows, cols), (bm, bn)))
    on = OnDevice(device)
    got = on(x.copy())
    reduce_block[(3,)](got, on(value), rows, cols, bm, bn, kind)
    want = np.full((3 * bm + 32, cols + 32), 0).astype(dtype)
    want[3:3 + rows, 2:2 + cols] = x
    for program in range(3):
        part = want[program * bm:program * bm + bm, :bn]
        part[...] = REDUCTIONS[kind](part, value)
    np.testing.assert_array_equal(on.back(got), want[3:3 + rows, 2:2 + cols])


@libtile.jit
def read_rounded(x, out):
    tl.store(out + tl.arange(0, x.block_shape[0]), x.load([0]))


@everywhere
def test_numbers_are_rounded_to_tf32(device):
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.standard_normal(58).astype(F32),
                        np.array([np.inf, -np.inf, np.nan, 1 + 2.0**-11, -1 - 2.0**-11, 0], F32)])
    on = OnDevice(device)
    out = on(poisoned(64, F32))
    read_rounded[(1,)](TensorDescriptor.from_tensor(on(x), [64], round_f32_to_tf32=True), out)
    away = (x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    np.testing.assert_array_equal(on.back(out), np.where(np.isfinite(x), away.view(F32), x))


@pytest.mark.parametrize("change, message", [
    (dict(shape=[], strides=[], block_shape=[]), "1 to 5 axes"), (dict(strides=[1]), "2 entries"),
    (dict(block_shape=[8]), "2 entries"), (dict(block_shape=[0, 8]), "at least 1"), (dict(strides=[16, 2]), "last stride"),
    (dict(strides=[18, 1]), "multiples of 16 bytes"), (dict(padding="one"), "padding"),
    (dict(base=np.zeros((8, 16), np.int32), padding="nan"), "floats"), (dict(base=np.zeros(200, F32)[1:129]), "address"),
    (dict(base=np.zeros((8, 32), F16), round_f32_to_tf32=True), "float32")])
def test_what_the_host_refuses(change, message):
    given = dict(base=np.zeros((8, 16), F32), shape=[8, 16], strides=[16, 1], block_shape=[4, 16])
    TensorDescriptor(**given)
    with pytest.raises(ValueError, match=message):
        TensorDescriptor(**{**given, **change})
