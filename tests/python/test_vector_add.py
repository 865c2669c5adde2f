# SPDX-License-Identifier: Apache-2.0
"""Vector add over element types, sizes, views and sources of arrays."""
import array

import ml_dtypes
import numpy as np
import pytest

import libtile
import libtile.language as tl
from spine import add, poisoned

DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int16, np.int32, np.int64,
          np.uint8, np.uint16, np.uint32, np.uint64]
SIZES = [1, 2, 31, 96, 1000, 1024, 1025, 4097, 100_003]


def random(rng, n, dtype):
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    return rng.standard_normal(n).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("n", SIZES)
def test_add(dtype, n):
    rng = np.random.default_rng(n)
    x, y = random(rng, n, dtype), random(rng, n, dtype)
    # Space behind the array shows writes past the mask.
    memory = poisoned(n + 64, dtype)
    before = memory.copy()
    add.run(x, y, memory[:n])
    with np.errstate(over="ignore"):
        want = x + y
    np.testing.assert_array_equal(memory[:n].view(np.uint8), want.view(np.uint8))
    np.testing.assert_array_equal(memory[n:].view(np.uint8), before[n:].view(np.uint8))


@pytest.mark.parametrize("block", [1, 3, 16, 96, 1000, 2048])
def test_any_block(block):
    x = np.arange(5000, dtype=np.float32)
    out = np.zeros_like(x)
    add.run(x, x, out, block=block)
    np.testing.assert_array_equal(out, 2 * x)


def test_in_place():
    x = np.arange(3000, dtype=np.float32)
    y = np.ones_like(x)
    add.run(x, y, x)
    np.testing.assert_array_equal(x, np.arange(3000, dtype=np.float32) + 1)


def test_offset_views_of_one_array():
    memory = np.arange(4096, dtype=np.float32)
    want = memory[:1000] + memory[1001:2001]
    add.run(memory[:1000], memory[1001:2001], memory[2003:3003])
    np.testing.assert_array_equal(memory[2003:3003], want)


@libtile.jit
def copy_strided(x, out, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i * stride, mask=i < n), mask=i < n)


@pytest.mark.parametrize("stride", [2, 3, -1, -2])
def test_strided_views_pass_as_their_pointer(stride):
    x = np.arange(1001, dtype=np.float32)[::stride]
    out = np.zeros(x.shape, np.float32)
    copy_strided[(libtile.cdiv(x.size, 128),)](x, out, x.size, x.strides[0] // 4, BLOCK=128)
    np.testing.assert_array_equal(out, x)


def test_transposed_and_two_dimensional_views():
    x = np.arange(12 * 7, dtype=np.float32).reshape(12, 7)
    out = np.zeros(12, np.float32)
    copy_strided[(1,)](x.T[3], out, 12, x.strides[0] // 4, BLOCK=16)
    np.testing.assert_array_equal(out, x[:, 3])


def test_buffer_protocol():
    x, out = array.array("f", [1, 2, 3]), bytearray(12)
    copy_strided[(1,)](x, memoryview(out).cast("f"), 3, 1, BLOCK=4)
    np.testing.assert_array_equal(np.frombuffer(out, np.float32), [1, 2, 3])


class Dlpack:
    """An array that speaks DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OldDlpack(Dlpack):
    """As before DLPack 1.0: no versions, and no word for read-only."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__(stream=stream)


@pytest.mark.parametrize("kind", [Dlpack, OldDlpack])
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.uint32, np.int64, np.bool_])
def test_dlpack(kind, dtype):
    x, out = np.arange(10).astype(dtype), np.zeros(10, dtype)
    copy_strided[(1,)](kind(x), kind(out), 10, 1, BLOCK=16)
    np.testing.assert_array_equal(out, x)


class LikeJax(Dlpack):
    """Has an attribute _value, as constants of the language have, and no hash."""
    __hash__ = None

    @property
    def _value(self):
        return np.asarray(self.array)


def test_arrays_that_look_like_constants():
    x, out = read_only(np.arange(10, dtype=np.float32)), np.zeros(10, np.float32)
    copy_strided[(1,)](LikeJax(x), out, 10, 1, BLOCK=16)
    np.testing.assert_array_equal(out, x)
    with pytest.raises(ValueError, match="read-only"):
        copy_strided[(1,)](out, LikeJax(x), 10, 1, BLOCK=16)


def test_dlpack_is_refused():
    x = np.zeros(4, np.complex64)
    with pytest.raises(TypeError, match="'x'.*element type"):
        copy_strided[(1,)](Dlpack(x), np.zeros(4), 4, 1, BLOCK=4)


def test_host_memory_of_our_own():
    x = np.arange(10, dtype=ml_dtypes.bfloat16)
    out = libtile.to_device(np.zeros(10, ml_dtypes.bfloat16), "cpu")
    copy_strided[(1,)](libtile.to_device(x, "cpu"), out, 10, 1, BLOCK=16)
    np.testing.assert_array_equal(out.numpy(), x)


def test_to_device_keeps_values():
    for array in (np.arange(10, dtype=">f4"), np.arange(12).reshape(3, 4).T, np.float64(3), np.zeros((0, 3))):
        copied = libtile.to_device(array, "cpu")
        assert copied.shape == np.shape(array)
        np.testing.assert_array_equal(copied.numpy(), array)


def test_numpy_scalars_are_numbers():
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    copy_strided[(np.int64(1),)](x, out, np.int32(10), np.int64(1), BLOCK=16)
    np.testing.assert_array_equal(out, x)


# ---- what is refused

def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("kind", [np.asarray, Dlpack, memoryview])
def test_read_only_arrays_may_be_read_and_not_written(kind):
    x, out = read_only(np.ones(8, np.float32)), np.zeros(8, np.float32)
    copy_strided[(1,)](kind(x), out, 8, 1, BLOCK=8)
    assert (out == 1).all()
    with pytest.raises(ValueError, match="'out' is a read-only array"):
        copy_strided[(1,)](out, kind(x), 8, 1, BLOCK=8)
    assert (x == 1).all()


@pytest.mark.parametrize("bad, why", [
    (np.zeros(8, ">f4"), "byte-swapped"),
    (np.zeros(8, object), "object"),
    (np.zeros(8, np.complex64), "complex64"),
    (np.zeros(8, "S4"), "not supported"),
    (np.frombuffer(bytearray(33), np.float32, 8, 1), "aligned"),
])
def test_refused_arrays(bad, why):
    with pytest.raises(TypeError, match=why):
        copy_strided[(1,)](bad, np.zeros(8, np.float32), 8, 1, BLOCK=8)


@pytest.mark.parametrize("bad", [{}, [1, 2], 1j, object()])
def test_refused_objects(bad):
    with pytest.raises(TypeError, match="neither an array nor a constant|'x'"):
        copy_strided[(1,)](bad, np.zeros(8, np.float32), 8, 1, BLOCK=8)
