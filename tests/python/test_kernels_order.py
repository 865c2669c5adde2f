# SPDX-License-Identifier: Apache-2.0
"""Loops that read what is stored over after them, and addresses made from integers of few bits."""
import numpy as np
import pytest
from spine import DEVICES, F32, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)


def small(rng, shape, dtype):
    return rng.integers(-3, 4, shape).astype(dtype)


# ---- a loop over the numbers of an array, and a store over it

@libtile.jit
def product_in_place(x, y, K, B: tl.constexpr, STORE: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for k in range(K):
        acc += tl.load(x + k) * tl.load(y + k * B + i)
    if STORE == "value":
        tl.store(x + i, acc)
    elif STORE == "mask":
        tl.store(x + i, 7.0, acc > 0)
    else:
        tl.store(x + i, tl.where(i % 3 == 0, acc, 5.0), i < K)


@everywhere
@pytest.mark.parametrize("store", ["value", "mask", "where"])
@pytest.mark.parametrize("size", [1, 33, 256, 1000])
def test_a_product_is_stored_over_its_vector(device, size, store):
    rng = np.random.default_rng(size)
    on = OnDevice(device)
    x, y = small(rng, size, F32), small(rng, (size, size), F32)
    array = on(x.copy())
    product_in_place[(1,)](array, on(y), size, size, store)
    total = x @ y
    want = {"value": total, "mask": np.where(total > 0, 7, x), "where": np.where(np.arange(size) % 3 == 0, total, 5)}
    np.testing.assert_array_equal(on.back(array), want[store])


@libtile.jit
def until(x, out, K, M: tl.constexpr, N: tl.constexpr):
    place = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), tl.int32)
    steps = 0
    for k in range(K):
        one = tl.load(x + k)
        if one == 9:
            break
        acc = tl.where(one > 0, acc + place, acc - one)
        steps += one
    tl.store(x + place, acc)
    tl.store(out, steps)


@everywhere
@pytest.mark.parametrize("m, n", [(1, 50), (4, 64), (16, 33)])
@pytest.mark.parametrize("end", [0, 7, None])
def test_a_loop_ends_by_what_is_stored_over(device, m, n, end):
    x = small(np.random.default_rng(0), m * n, np.int32)
    if end is not None:
        x[end] = 9
    on = OnDevice(device)
    array, out = on(x.copy()), on(poisoned(1, np.int32))
    until[(1,)](array, out, m * n, m, n)
    read = x[:end]
    place = np.arange(m * n)
    np.testing.assert_array_equal(on.back(array), (read > 0).sum() * place - read[read <= 0].sum())
    assert on.back(out)[0] == read.sum()


@libtile.jit
def carried_beside(x, y, out, K, B: tl.constexpr):
    i = tl.arange(0, B)
    first = tl.zeros((B,), tl.int32)
    second = tl.zeros((B,), tl.int32)
    for k in range(K):
        first += tl.load(y + tl.load(x + k) + i)
        second += i
    tl.store(x + i, second * 1000003, first > 0)
    tl.store(out + i, first)


@everywhere
@pytest.mark.parametrize("size", [40, 300, 1000])
def test_an_index_is_read_before_something_else_is_stored_over_it(device, size):
    """Of what the loop carries the value needs no index, but the mask does, and both run in one loop."""
    rng = np.random.default_rng(size)
    x, y = rng.integers(0, 50, size).astype(np.int32), small(rng, size + 50, np.int32)
    on = OnDevice(device)
    array, out = on(x.copy()), on(poisoned(size, np.int32))
    carried_beside[(1,)](array, on(y), out, size, size)
    first = sum(y[j:j + size] for j in x)
    second = (np.arange(size, dtype=np.int64) * size * 1000003).astype(np.int32)
    np.testing.assert_array_equal(on.back(out), first)
    np.testing.assert_array_equal(on.back(array), np.where(first > 0, second, x))


# ---- indices of few bits are low bits, and wrap

@libtile.jit
def by_narrow_index(x, out, base, START: tl.constexpr, STEP: tl.constexpr, B: tl.constexpr, TYPE: tl.constexpr,
                    WIDE: tl.constexpr):
    index = (tl.arange(0, B) + START).to(TYPE) + STEP
    if WIDE is not None:
        index = index.to(WIDE)
    value = tl.load(x + base + index)
    tl.store(out + base + index, value * 2)


@everywhere
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("wide", [None, tl.int32, tl.int64], ids=str)
@pytest.mark.parametrize("step", [0, 3, 100])
def test_narrow_indices_wrap(device, dtype, wide, step):
    info = np.iinfo(dtype)
    on = OnDevice(device)
    for start in (0, 17, info.max - 30, info.max // 2):
        index = (np.arange(200) + start).astype(dtype) + np.dtype(dtype).type(step)
        index = index.astype(np.int64)
        base = -info.min
        # With room for an index that does not wrap.
        x = np.random.default_rng(start % 97).integers(-99, 99, info.max - info.min + 400).astype(np.int32)
        out = on(poisoned(x.size, np.int32))
        by_narrow_index[(1,)](on(x), out, base, start, step, 200, getattr(tl, np.dtype(dtype).name), wide)
        want = poisoned(x.size, np.int32)
        want[index + base] = x[index + base] * 2
        np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def low_words(x, out, first, B: tl.constexpr):
    index = (first + tl.arange(0, B).to(tl.int64)).to(tl.int32)
    tl.store(out + tl.arange(0, B), tl.load(x + index))


@everywhere
@pytest.mark.parametrize("high", [0, 1, -3, 2**20])
def test_the_low_word_of_a_long_index(device, high):
    x = np.arange(500, dtype=F32)
    on = OnDevice(device)
    out = on(poisoned(200, F32))
    low_words[(1,)](on(x), out, high * 2**32 + 60, 200)
    np.testing.assert_array_equal(on.back(out), x[60:260])


@libtile.jit
def minus(x, out, by, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + 1000 - tl.load(by + i)))


@everywhere
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64], ids=lambda dtype: dtype.__name__)
def test_a_pointer_minus_the_least_number(device, dtype):
    """Its own type does not hold its negative."""
    info = np.iinfo(dtype)
    by = np.array([max(info.min, -40000), 1, -1, 0, min(info.max, 1000), 5, -6, 7], dtype)
    x = np.arange(41001, dtype=F32)
    on = OnDevice(device)
    out = on(poisoned(by.size, F32))
    minus[(1,)](on(x), out, on(by), by.size)
    np.testing.assert_array_equal(on.back(out), x[1000 - by.astype(np.int64)])


# ---- a number that is read in front of a loop or a branch, in which it is stored over

@libtile.jit
def number_in_front(x, n, IN: tl.constexpr, B: tl.constexpr):
    number = tl.load(x + 12)
    if IN == "loop":
        for k in range(0, n, B):
            i = k + tl.arange(0, B)
            tl.store(x + i, tl.load(x + i, i < n, 0) + number, i < n)
    elif n > 100:
        i = tl.arange(0, B)
        tl.store(x + i, tl.load(x + i, i < n, 0) + number, i < n)


@everywhere
@pytest.mark.parametrize("where", ["loop", "branch"])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_a_number_in_front_of_what_stores_over_it(device, where, dtype, warps, n=250, block=256):
    """Every warp reads it before any warp stores."""
    x = small(np.random.default_rng(6), 300, dtype)
    x[12] = 3
    want = x.copy()
    want[:n] += x[12]
    on = OnDevice(device)
    array = on(x)
    number_in_front[(1,)](array, n, where, B=block, num_warps=warps)
    np.testing.assert_array_equal(on.back(array), want)


# ---- tiles whose axes change, through memory that threads share

@libtile.jit
def reshaped_again(x, out, turns, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + rows[:, None] * N + columns)
    for turn in range(turns):
        b = tl.reshape(a, (N, M))
        c = tl.reshape(b * 2 + tl.sum(b, 1)[:, None], (M, N))
        a = (a + c + tl.reshape(tl.trans(c), (M, N)) + turn) & 1023
    tl.store(out + rows[:, None] * N + columns, a)


@everywhere
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (9, 13), (17, 31), (31, 17), (6, 4), (12, 20), (16, 32)])
def test_other_axes_in_the_same_layout(device, shape, warps, turns=3):
    x = small(np.random.default_rng(shape[0]), shape, np.int32)
    on = OnDevice(device)
    out = on(poisoned(shape, np.int32))
    reshaped_again[(1,)](on(x), out, turns, M=shape[0], N=shape[1], num_warps=warps)
    a = x.astype(np.int64)
    for turn in range(turns):
        b = a.reshape(shape[::-1])
        c = (b * 2 + b.sum(1, keepdims=True)).reshape(shape)
        a = (a + c + c.T.reshape(shape) + turn) & 1023
    np.testing.assert_array_equal(on.back(out), a)
