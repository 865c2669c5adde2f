# SPDX-License-Identifier: Apache-2.0
"""Tuples and named tuples of arrays and numbers as arguments, *args, and parameters by keyword only."""
import collections
import typing

import numpy as np
import pytest

import libtile
import libtile.language as tl

Pair = collections.namedtuple("Pair", "x out")


class Strided(typing.NamedTuple):
    array: typing.Any
    stride: int
    rest: tuple = ()


@libtile.jit
def add_all(arrays, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.load(arrays[0] + i, i < n)
    for k in tl.static_range(1, len(arrays)):
        total += tl.load(arrays[k] + i, i < n)
    tl.store(out + i, total, i < n)


@libtile.jit
def named(pair, factor, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(pair.out + i, tl.load(pair.x + i) * factor)


@libtile.jit
def nested(a, out):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.load(a.array + i * a.stride) + a.rest[0] + a.rest[1][0])


@libtile.jit
def variadic(out, *arrays, n, BLOCK: tl.constexpr = 16):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(len(arrays)):
        total += tl.load(arrays[k] + i, i < n)
    tl.store(out + i, total, i < n)


@libtile.jit
def constants(out, *values: tl.constexpr):
    for k in tl.static_range(len(values)):
        tl.store(out + k, values[k])


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_tuples_of_arrays(count, dtype):
    rng = np.random.default_rng(count)
    arrays = tuple(rng.integers(-50, 50, 13).astype(dtype) for _ in range(count))
    out = np.full(13, 77, dtype)
    kernel = add_all[(1,)](arrays, out, 13, BLOCK=16)
    np.testing.assert_array_equal(out, sum(arrays))
    assert add_all[(1,)](arrays[::-1], out, 13, BLOCK=16) is kernel
    assert add_all[(1,)](arrays + (arrays[0],), out, 13, BLOCK=16) is not kernel


def test_items_specialise_by_themselves():
    x, y, out = np.ones(16, np.float32), np.ones(17, np.float64)[1:], np.zeros(16, np.float64)
    kernel = add_all[(1,)]((x, y), out, 16, BLOCK=16)
    np.testing.assert_array_equal(out, 2)
    assert "arrays=(<pointer<fp32>:16>,<pointer<fp64>>,)" in kernel.signature


def test_named_tuples():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    kernel = named[(1,)](Pair(x, out), 3.0, BLOCK=8)
    np.testing.assert_array_equal(out, 3 * x)
    assert "pair=Pair(x=" in kernel.signature
    assert named[(1,)](Pair(out=out, x=x), 4.0, BLOCK=8) is kernel
    with pytest.raises(libtile.CompilationError, match="x"):
        named[(1,)]((x, out), 3.0, BLOCK=8)


def test_nested_tuples_numbers_and_constants():
    x, out = np.arange(40, dtype=np.int64), np.zeros(4, np.int64)
    for stride, a, b in ((3, 5, 7), (1, 1, 1), (2, 16, 2**40), (9, -1, None)):
        rest = (a, (b,)) if b is not None else (a, (np.int64(0),))
        nested[(1,)](Strided(x, stride, rest), out)
        np.testing.assert_array_equal(out, x[:4 * stride:stride] + a + (b or 0))


def test_the_rest_of_the_arguments():
    arrays = [np.full(16, k, np.float32) for k in range(1, 5)]
    for count in range(5):
        out = np.full(16, 77, np.float32)
        variadic[(1,)](out, *arrays[:count], n=9)
        np.testing.assert_array_equal(out[:9], sum(range(1, count + 1)))
        np.testing.assert_array_equal(out[9:], 77)


def test_the_rest_as_constants():
    out = np.zeros(3, np.int32)
    kernel = constants[(1,)](out, 4, 5, 6)
    assert out.tolist() == [4, 5, 6]
    assert constants[(1,)](out, 4, 5, 7) is not kernel and out.tolist() == [4, 5, 7]


def test_by_keyword_only():
    out = np.zeros(16, np.float32)
    with pytest.raises(TypeError, match="'n' is missing"):
        variadic[(1,)](out, out)
    with pytest.raises(TypeError, match="several values for parameter 'arrays'"):
        variadic[(1,)](out, arrays=(out,), n=3)


def test_tuples_for_a_target_alone():
    kernel = add_all.warmup((tl.float32, tl.float32), tl.float32, 16, target="sm_80", BLOCK=16)
    assert kernel.asm["ptx"].count(".param .u64") == 3
    kernel = named.warmup(Pair(tl.float16, "*fp16"), "fp32", target="sm_80", BLOCK=16)
    assert "x=<pointer<fp16>:16>,out=<pointer<fp16>:16>" in kernel.signature


def test_misfits_say_which_item():
    out = np.zeros(16, np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"argument 'pair\[1\]' is a read-only array"):
        named[(1,)](Pair(np.ones(16, np.float32), out), 2.0, BLOCK=16)
    with pytest.raises(TypeError, match="'arrays': an object of type dict"):
        add_all[(1,)]((out, {}), out, 16, BLOCK=16)
    with pytest.raises(TypeError, match="more than 256"):
        add_all[(1,)]((1,) * 300, out, 16, BLOCK=16)
    with pytest.raises(TypeError, match="more than 256"):
        add_all[(1,)](((1,) * 200, (1,) * 200), out, 16, BLOCK=16)


def test_overlapping_arrays_in_tuples():
    """The guard that arrays do not overlap sees the items."""
    @libtile.jit
    def shift(pair, n, BLOCK: tl.constexpr):
        for start in range(0, n, BLOCK):
            i = start + tl.arange(0, BLOCK)
            tl.store(pair[1] + i, tl.load(pair[0] + i, i < n) + 1, i < n)

    memory = np.arange(65, dtype=np.float32)
    want = memory.copy()
    for start in range(0, 64, 8):
        want[start + 1:start + 9] = want[start:start + 8] + 1
    shift[(1,)]((memory[:64], memory[1:]), 64, BLOCK=8)
    np.testing.assert_array_equal(memory, want)
