# SPDX-License-Identifier: Apache-2.0
"""Tuples and named tuples of arrays and numbers as arguments, *args, and parameters by keyword only."""
import collections
import dataclasses
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


@libtile.jit
def floats(x: "*fp32", out: "*const fp64"):
    tl.store(x, 2.5)


@libtile.jit
def flags(x: "*i1", out: "*u8"):
    tl.store(out, tl.load(x))


@libtile.jit
def number(x, n: tl.int32):
    tl.store(x, n)


def test_arrays_of_the_annotated_type():
    x, y = np.zeros(1, np.float32), np.zeros(1)
    floats[(1,)](x, y)
    assert x[0] == 2.5
    kernel = floats[(1,)](x, None)
    assert "None" in kernel.signature
    assert floats.warmup("*fp32", "*fp64", target="cpu").name == "floats"
    assert floats.warmup("*fp32:16", tl.float64, target="sm_80").name == "floats"
    out = np.zeros(1, np.uint8)
    flags[(1,)](np.ones(1, np.bool_), out)
    assert out[0] == 1


@pytest.mark.parametrize("given, what", [
    (np.zeros(1), "an array of fp64"), (np.zeros(1, np.int32), "an array of int32"),
    (np.zeros(1, np.float16), "an array of fp16"), (1, "the integer 1"), (16, "the integer 16"),
    (2**63, f"the integer {2**63}"), (0.5, "the float 0.5"), (True, "True")])
def test_what_is_no_array_of_the_annotated_type(given, what):
    for _ in range(2):
        with pytest.raises(ValueError, match=rf"argument 'x': {what} does not fit pointer<fp32>"):
            floats[(1,)](given, np.zeros(1))
    x = np.zeros(1, np.float32)
    floats[(1,)](x, np.zeros(1))
    assert x[0] == 2.5


@pytest.mark.parametrize("given, what", [
    ("*fp64", "the type pointer<fp64>"), ("*i32", "the type pointer<int32>"), ("fp32", "the type fp32"),
    (tl.float16, "the type pointer<fp16>")])
@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_types_that_are_not_the_annotated_one(given, what, target):
    with pytest.raises(ValueError, match=rf"argument 'x': {what} does not fit pointer<fp32>"):
        floats.warmup(given, "*fp64", target=target)


def test_no_array_for_an_annotated_number():
    x = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="argument 'n': an array of int32 does not fit int32"):
        number[(1,)](x, x)
    with pytest.raises(ValueError, match=r"argument 'n': the type pointer<int64> does not fit int32"):
        number.warmup("*i32", "*i64", target="cpu")
    number[(1,)](x, 7)
    assert x[0] == 7


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array(np.ones(4, np.float32), mask=[0, 1, 0, 0])
    x = np.zeros(4, np.float32)
    for _ in range(2):
        with pytest.raises(TypeError, match="argument 'x'.* a masked array; pass x.data or x.filled"):
            floats[(1,)](masked, None)
    floats[(1,)](masked.data, None)
    assert masked.data[0] == 2.5
    with pytest.raises(TypeError, match="masked array"):
        add_all[(1,)]((x, masked), x, 4, BLOCK=4)


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


@dataclasses.dataclass(frozen=True)
class Settings:
    block: int
    factor: float


@libtile.jit
def scaled(x, SETTINGS: tl.constexpr):
    i = tl.arange(0, SETTINGS.block)
    tl.store(x + i, tl.load(x + i) * SETTINGS.factor)


def test_any_object_with_a_hash_is_a_constant():
    x = np.arange(48, dtype=np.float32)
    first = scaled[(1,)](x, SETTINGS=Settings(16, 2.0))
    assert scaled[(1,)](x, Settings(16, 2.0)) is first
    assert scaled[(1,)](x, Settings(32, 0.5)) is not first
    want = np.arange(48, dtype=np.float32)
    want[:16] *= 4
    want[:32] *= 0.5
    np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("what", [{}, [1], {1}, np.ones(4), dataclasses.make_dataclass("Loose", ["block"])(16)])
def test_an_object_without_one_is_not(what):
    with pytest.raises(TypeError, match="'SETTINGS': an object of type .* is neither an array nor a constant"):
        scaled[(1,)](np.ones(16, np.float32), what)
    with pytest.raises(TypeError, match="'x': an object of type Settings is neither"):
        scaled[(1,)](Settings(16, 2.0), Settings(16, 2.0))


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
