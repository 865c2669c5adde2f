# SPDX-License-Identifier: Apache-2.0
"""Scans: sums and products of every type, user's functions of tuples that do not commute, both ways,
along each axis, over extents that are no multiple of anything."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, ROUNDING, OnDevice, most_warps, poisoned, random

import libtile
import libtile.language as tl

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
SHAPES = [(1, 1), (1, 7), (7, 33), (64, 64), (3, 100), (100, 3), (2, 1000), (33, 1), (16, 256)]


@libtile.jit
def running(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, SUM: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + i)
    if SUM:
        tl.store(out + i, tl.cumsum(a, AXIS, REVERSE))
    else:
        tl.store(out + i, a.cumprod(AXIS, reverse=REVERSE))


@libtile.jit
def running_row(x, out, n, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i, i < n, other=0)
    tl.store(out + i, tl.cumsum(a, 0, REVERSE), i < n)


def accumulated(a, axis, reverse, function):
    a = np.flip(a, axis) if reverse else a
    with np.errstate(over="ignore"):
        total = function.accumulate(a, axis, dtype=a.dtype)
    return np.flip(total, axis) if reverse else total


def wide(dtype):
    """The type of a cumsum's result."""
    if np.issubdtype(dtype, np.integer) and np.dtype(dtype).itemsize < 4:
        return np.dtype(np.int32 if np.issubdtype(dtype, np.signedinteger) else np.uint32)
    return np.dtype(dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_integers_are_exact(device, shape, dtype):
    rng = np.random.default_rng(shape[1])
    x = random(rng, shape, dtype)
    on = OnDevice(device)
    for axis in (0, 1):
        for reverse in (False, True):
            for is_sum in (True, False):
                out = on(poisoned(shape, wide(dtype)))
                running[(1,)](on(x), out, M=shape[0], N=shape[1], AXIS=axis, REVERSE=reverse, SUM=is_sum)
                want = accumulated(x.astype(wide(dtype)), axis, reverse, np.add if is_sum else np.multiply)
                np.testing.assert_array_equal(on.back(out), want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64])
@pytest.mark.parametrize("shape", [(7, 33), (3, 1000), (128, 64)], ids=str)
def test_floats_are_within_their_roundings(device, shape, dtype):
    rng = np.random.default_rng(shape[1])
    x = random(rng, shape, dtype)
    on = OnDevice(device)
    for axis in (0, 1):
        for reverse in (False, True):
            out = on(poisoned(shape, dtype))
            running[(1,)](on(x), out, M=shape[0], N=shape[1], AXIS=axis, REVERSE=reverse, SUM=True)
            exact = accumulated(x.astype(F64), axis, reverse, np.add)
            # Of additions in fp32 or wider, each of partial sums, and one rounding to the type.
            sizes = accumulated(np.abs(x.astype(F64)), axis, reverse, np.add)
            unit = ROUNDING[F64 if dtype == F64 else F32]
            bound = 2 * shape[axis] * unit * sizes + ROUNDING[dtype] * np.abs(exact) + 2 * unit * sizes
            assert (np.abs(on.back(out).astype(F64) - exact) <= bound * (1 + 2.0**-20)).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("warps", [1, 4, 32])
@pytest.mark.parametrize("n, block", [(1, 1), (5, 5), (31, 33), (33, 64), (777, 1000), (1000, 1024), (4097, 4097)])
def test_rows_over_many_warps(device, n, block, warps):
    x = np.random.default_rng(n).integers(-2**30, 2**30, block, dtype=np.int32)
    on = OnDevice(device)
    for reverse in (False, True):
        out = on(poisoned(block, np.int32))
        running_row[(1,)](on(x), out, n, N=block, REVERSE=reverse, num_warps=min(warps, most_warps(device)))
        want = poisoned(block, np.int32)
        want[:n] = accumulated(x[:n], 0, reverse, np.add)
        np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def compose(a, b, c, d):
    """x -> a x + b, then x -> c x + d: associates, and does not commute."""
    return a * c, b * c + d


@libtile.jit
def compose_all(a, b, out_a, out_b, L: tl.constexpr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr,
                REVERSE: tl.constexpr):
    i = (tl.arange(0, L)[:, None, None] * M + tl.arange(0, M)[None, :, None]) * N + tl.arange(0, N)[None, None, :]
    p, q = tl.associative_scan((tl.load(a + i), tl.load(b + i)), AXIS, compose, reverse=REVERSE)
    tl.store(out_a + i, p)
    tl.store(out_b + i, q)


def compositions(a, b, axis, reverse):
    """In uint32."""
    a, b = (np.moveaxis(np.flip(x, axis) if reverse else x, axis, -1).copy() for x in (a, b))
    for i in range(1, a.shape[-1]):
        a[..., i], b[..., i] = a[..., i - 1] * a[..., i], b[..., i - 1] * a[..., i] + b[..., i]
    return [np.flip(np.moveaxis(x, -1, axis), axis) if reverse else np.moveaxis(x, -1, axis) for x in (a, b)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 5), (3, 5, 7), (2, 3, 100), (5, 64, 3), (40, 3, 8), (1, 1, 1000)], ids=str)
def test_lefts_come_before_rights(device, shape, reverse):
    rng = np.random.default_rng(shape[2])
    a, b = (rng.integers(0, 2**32, shape, dtype=np.uint32) | 1 for _ in range(2))
    on = OnDevice(device)
    for axis in range(3):
        outs = [on(poisoned(shape, np.uint32)) for _ in range(2)]
        compose_all[(1,)](on(a), on(b), *outs, *shape, AXIS=axis, REVERSE=reverse)
        for out, each in zip(outs, compositions(a, b, axis, reverse)):
            np.testing.assert_array_equal(on.back(out), each)


@libtile.jit
def last_true(a, x, b, y):
    """The newest value whose flag is set: types of a tuple differ."""
    return a | b, tl.where(b, y, x)


@libtile.jit
def carried_forward(flags, x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    flag = tl.load(flags + i) > 0
    _, kept = tl.associative_scan((flag, tl.load(x + i)), 0, last_true)
    tl.store(out + i, kept)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.int8, F16, F32, np.int64])
@pytest.mark.parametrize("n", [3, 100, 1024])
def test_tuples_of_different_types(device, n, dtype):
    rng = np.random.default_rng(n)
    flags = (rng.random(n) < 0.2).astype(np.int32)
    x = random(rng, n, dtype)
    on = OnDevice(device)
    out = on(poisoned(n, dtype))
    carried_forward[(1,)](on(flags), on(x), out, N=n)
    newest = np.maximum.accumulate(np.where(flags > 0, np.arange(n), 0))
    np.testing.assert_array_equal(on.back(out), x[newest])


@libtile.jit
def rows_in_a_loop(x, out, rows, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), dtype=tl.int32)
    for row in range(rows):
        total += tl.cumsum(tl.load(x + row * N + i) + total, 0)
    tl.store(out + i, total)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [5, 64, 300])
def test_a_scan_in_a_loop(device, n):
    x = np.random.default_rng(n).integers(-9, 9, (4, n), dtype=np.int32)
    total = np.zeros(n, np.int32)
    for row in x:
        total = total + np.cumsum(row + total, dtype=np.int32)
    on = OnDevice(device)
    out = on(poisoned(n, np.int32))
    rows_in_a_loop[(1,)](on(x), out, 4, N=n)
    np.testing.assert_array_equal(on.back(out), total)


@libtile.jit
def special(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))
    tl.store(out + N + i, tl.cumsum(tl.load(x + i), 0, reverse=True))


@pytest.mark.parametrize("device", DEVICES)
def test_infinities_and_nan_spread_only_onward(device):
    x = np.ones(50, F32)
    x[20], x[30] = np.inf, -np.inf
    on = OnDevice(device)
    out = on(poisoned(100, F32))
    special[(1,)](on(x), out, N=50)
    with np.errstate(invalid="ignore"):
        want = np.concatenate([np.cumsum(x), np.cumsum(x[::-1])[::-1]])
    np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def typed(x, out, N: tl.constexpr, DTYPE: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.cumsum(tl.load(x + i), dtype=DTYPE))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name, dtype", [("int8", np.int8), ("int64", np.int64), ("float64", F64)])
def test_the_type_of_sums(device, name, dtype):
    x = np.random.default_rng(0).integers(-100, 100, 77, dtype=np.int8)
    on = OnDevice(device)
    out = on(poisoned(77, dtype))
    typed[(1,)](on(x), out, N=77, DTYPE=getattr(tl, name))
    np.testing.assert_array_equal(on.back(out), np.cumsum(x, dtype=dtype))


def test_functions_that_give_something_else_are_refused():
    @libtile.jit
    def less(a, b):
        return a < b

    @libtile.jit
    def kernel(x, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x + i, tl.associative_scan(tl.load(x + i), 0, less))

    with pytest.raises(libtile.CompilationError, match="gives tensor of int1 where a scalar of fp32 is expected"):
        kernel[(1,)](np.zeros(8, F32), N=8)


@libtile.jit
def larger(a, b):
    if a > b:
        r = a
    else:
        r = b
    return r


@libtile.jit
def common_divisor(a, b):
    while b != 0:
        rest = a % b
        a = b
        b = rest
    return a


@libtile.jit
def added_in_steps(a, b):
    for _ in range(2):
        a += b
        b = b * 0
    return a


@libtile.jit
def combined(x, scanned, reduced, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, FUNCTION: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + i)
    tl.store(scanned + i, tl.associative_scan(a, AXIS, FUNCTION, reverse=REVERSE))
    r = tl.reduce(a, AXIS, FUNCTION)
    tl.store(reduced + tl.arange(0, r.shape[0]), r)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["larger", "common_divisor", "added_in_steps"])
@pytest.mark.parametrize("shape, axis, reverse", [((1, 48), 1, False), ((5, 12), 1, True), ((12, 40), 0, False), ((4, 4), 1, False)])
def test_functions_with_control_flow(device, name, shape, axis, reverse):
    """Branches and loops of a function may go another way for each element."""
    functions = {"larger": (larger, np.maximum), "common_divisor": (common_divisor, np.gcd), "added_in_steps": (added_in_steps, np.add)}
    function, want = functions[name]
    x = 6 * np.random.default_rng(7).integers(1, 900, shape, dtype=np.int32)
    on = OnDevice(device)
    scanned, reduced = on(poisoned(shape, np.int32)), on(poisoned(shape[1 - axis], np.int32))
    combined[(1,)](on(x), scanned, reduced, *shape, AXIS=axis, FUNCTION=function, REVERSE=reverse)
    np.testing.assert_array_equal(on.back(scanned), accumulated(x, axis, reverse, want))
    np.testing.assert_array_equal(on.back(reduced), want.reduce(x, axis))
