# SPDX-License-Identifier: Apache-2.0
"""Numbers as arguments: every value of the parameter's type arrives exactly, others are refused."""
import numpy as np
import pytest

import libtile
import libtile.language as tl

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@libtile.jit
def store_int8(out, x: tl.int8):
    tl.store(out, x)


@libtile.jit
def store_int16(out, x: tl.int16):
    tl.store(out, x)


@libtile.jit
def store_int32(out, x: tl.int32):
    tl.store(out, x)


@libtile.jit
def store_int64(out, x: tl.int64):
    tl.store(out, x)


@libtile.jit
def store_uint8(out, x: tl.uint8):
    tl.store(out, x)


@libtile.jit
def store_uint16(out, x: tl.uint16):
    tl.store(out, x)


@libtile.jit
def store_uint32(out, x: tl.uint32):
    tl.store(out, x)


@libtile.jit
def store_uint64(out, x: tl.uint64):
    tl.store(out, x)


@libtile.jit
def store_int1(out, x: tl.int1):
    tl.store(out, x)


@libtile.jit
def store_float32(out, x: tl.float32):
    tl.store(out, x)


@libtile.jit
def store_float16(out, x: tl.float16):
    tl.store(out, x)


@libtile.jit
def store_float64(out, x: tl.float64):
    tl.store(out, x)


@libtile.jit
def store(out, x):
    tl.store(out, x)


KERNELS = {name: globals()["store_" + name] for name in [*INTEGERS, "int1", "float16", "float32", "float64"]}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_the_type_arrive(name):
    limits = np.iinfo(name)
    out = np.zeros(1, name)
    values = [limits.min, limits.max, 0, 1, 16, limits.max // 3, limits.min // 3, limits.max - 15]
    for value in [*values, True, np.array(limits.max, name)[()]]:
        out[:] = 77
        KERNELS[name][(1,)](out, value)
        assert int(out[0]) == int(value)


@pytest.mark.parametrize("name", [*INTEGERS, "int1"])
def test_other_integers_are_refused(name):
    low, high = (0, 1) if name == "int1" else (np.iinfo(name).min, np.iinfo(name).max)
    out = np.full(1, 77, "int8" if name == "int1" else name)
    for value in (low - 1, high + 1, 16 * (high + 1), 2**40 * 3 + 5, 2**63, -2**63, np.int64(-2**40)):
        if low <= value <= high:
            continue
        with pytest.raises((ValueError, TypeError, OverflowError)) as error:
            KERNELS[name][(1,)](out, value)
        assert "argument 'x'" in str(error.value)
        if -2**63 <= value < 2**64:
            assert f"the integer {value} does not fit {name}" in str(error.value)
        assert out[0] == 77


@pytest.mark.parametrize("name", [*INTEGERS, "int1"])
def test_floats_are_no_integers(name):
    out = np.full(1, 77, np.int64)
    with pytest.raises(ValueError, match=f"argument 'x': the float 2.5 does not fit {name}"):
        KERNELS[name][(1,)](out, 2.5)
    assert out[0] == 77


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_numbers_are_rounded_once(name):
    # Beyond 2^53 through the nearest integer that NumPy rounds the same way.
    values = [0, 1, -1, 16, 2**24 + 1, 2**63 + 1, 2**64 - 1, -2**63, 2**62 + 2**38, 2**62 + 2**38 + 1,
              0.1, -1e300, float("inf"), 65519.99, 65520, True]
    out = np.zeros(1, name)
    for value in values:
        out[:] = 77
        KERNELS[name][(1,)](out, value)
        if name == "float32" and value == 2**62 + 2**38 + 1:
            want = np.float32(2**62 + 2**39)
        else:
            with np.errstate(over="ignore"):
                want = np.array(float(value)).astype(name)
        assert out[0] == want, value


def test_types_by_value():
    for value, name in [(2**31 - 1, "int32"), (2**31, "int64"), (-2**31 - 1, "int64"), (2**63, "uint64")]:
        out = np.zeros(1, name)
        kernel = store[(1,)](out, value)
        assert out[0] == value and f"<{name}" in kernel.signature


def test_floats_have_no_multiples():
    out = np.zeros(1, np.float32)
    assert store_float32[(1,)](out, 16) is store_float32[(1,)](out, 17.5)
