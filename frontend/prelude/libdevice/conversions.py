# SPDX-License-Identifier: Apache-2.0
"""libdevice: conversions in a given direction: rn to nearest even, rd down, ru up, rz towards 0.

Floats become the nearest integer of the type where that does not hold them. A NaN becomes 0 if it is an fp32
and the integer has 32 bits, else the integer of which the highest bit alone is set, as in PTX.
"""
import libtile
import libtile.language as tl


@libtile.jit
def to_integer(whole, dtype: tl.constexpr):
    """A float that is an integer, as that type."""
    if whole.dtype == tl.float64 or dtype.primitive_bitwidth == 64:
        if dtype.primitive_bitwidth == 64:
            highest: tl.constexpr = -9223372036854775808
        else:
            highest: tl.constexpr = -2147483648
        number = whole.to(dtype)
        return tl.where(whole != whole, tl.full((), highest, tl.int64).to(dtype), number)
    else:
        return whole.to(dtype)


@libtile.jit
def widened(x, direction: tl.constexpr):
    """A 64-bit integer as fp64: its upper 52 bits and the others are floats, and their sum is rounded."""
    low = x & 0xfff
    return sum_to((x - low).to(tl.float64), low.to(tl.float64), direction)


@libtile.jit
def double2int_rd(arg0):
    return to_integer(tl.floor(arg0), tl.int32)


@libtile.jit
def double2int_rn(arg0):
    return to_integer(tl.rint(arg0), tl.int32)


@libtile.jit
def double2int_ru(arg0):
    return to_integer(tl.ceil(arg0), tl.int32)


@libtile.jit
def double2int_rz(arg0):
    return to_integer(tl.chop(arg0), tl.int32)


@libtile.jit
def double2uint_rd(arg0):
    return to_integer(tl.floor(arg0), tl.uint32).to(tl.int32)


@libtile.jit
def double2uint_rn(arg0):
    return to_integer(tl.rint(arg0), tl.uint32).to(tl.int32)


@libtile.jit
def double2uint_ru(arg0):
    return to_integer(tl.ceil(arg0), tl.uint32).to(tl.int32)


@libtile.jit
def double2uint_rz(arg0):
    return to_integer(tl.chop(arg0), tl.uint32).to(tl.int32)


@libtile.jit
def double2ll_rd(arg0):
    return to_integer(tl.floor(arg0), tl.int64)


@libtile.jit
def double2ll_rn(arg0):
    return to_integer(tl.rint(arg0), tl.int64)


@libtile.jit
def double2ll_ru(arg0):
    return to_integer(tl.ceil(arg0), tl.int64)


@libtile.jit
def double2ll_rz(arg0):
    return to_integer(tl.chop(arg0), tl.int64)


@libtile.jit
def double2ull_rd(arg0):
    return to_integer(tl.floor(arg0), tl.uint64).to(tl.int64)


@libtile.jit
def double2ull_rn(arg0):
    return to_integer(tl.rint(arg0), tl.uint64).to(tl.int64)


@libtile.jit
def double2ull_ru(arg0):
    return to_integer(tl.ceil(arg0), tl.uint64).to(tl.int64)


@libtile.jit
def double2ull_rz(arg0):
    return to_integer(tl.chop(arg0), tl.uint64).to(tl.int64)


@libtile.jit
def float2int_rd(arg0):
    return to_integer(tl.floor(arg0), tl.int32)


@libtile.jit
def float2int_rn(arg0):
    return to_integer(tl.rint(arg0), tl.int32)


@libtile.jit
def float2int_ru(arg0):
    return to_integer(tl.ceil(arg0), tl.int32)


@libtile.jit
def float2int_rz(arg0):
    return to_integer(tl.chop(arg0), tl.int32)


@libtile.jit
def float2uint_rd(arg0):
    return to_integer(tl.floor(arg0), tl.uint32).to(tl.int32)


@libtile.jit
def float2uint_rn(arg0):
    return to_integer(tl.rint(arg0), tl.uint32).to(tl.int32)


@libtile.jit
def float2uint_ru(arg0):
    return to_integer(tl.ceil(arg0), tl.uint32).to(tl.int32)


@libtile.jit
def float2uint_rz(arg0):
    return to_integer(tl.chop(arg0), tl.uint32).to(tl.int32)


@libtile.jit
def float2ll_rd(arg0):
    return to_integer(tl.floor(arg0), tl.int64)


@libtile.jit
def float2ll_rn(arg0):
    return to_integer(tl.rint(arg0), tl.int64)


@libtile.jit
def float2ll_ru(arg0):
    return to_integer(tl.ceil(arg0), tl.int64)


@libtile.jit
def float2ll_rz(arg0):
    return to_integer(tl.chop(arg0), tl.int64)


@libtile.jit
def float2ull_rd(arg0):
    return to_integer(tl.floor(arg0), tl.uint64).to(tl.int64)


@libtile.jit
def float2ull_rn(arg0):
    return to_integer(tl.rint(arg0), tl.uint64).to(tl.int64)


@libtile.jit
def float2ull_ru(arg0):
    return to_integer(tl.ceil(arg0), tl.uint64).to(tl.int64)


@libtile.jit
def float2ull_rz(arg0):
    return to_integer(tl.chop(arg0), tl.uint64).to(tl.int64)


@libtile.jit
def double2float_rn(arg0):
    return arg0.to(tl.float32)


@libtile.jit
def double2float_rd(arg0):
    return narrowed_to(arg0, "rd")


@libtile.jit
def double2float_ru(arg0):
    return narrowed_to(arg0, "ru")


@libtile.jit
def double2float_rz(arg0):
    return narrowed_to(arg0, "rz")


@libtile.jit
def int2double_rn(arg0):
    return arg0.to(tl.float64)


@libtile.jit
def uint2double_rn(arg0):
    return arg0.to(tl.float64)


@libtile.jit
def int2float_rn(arg0):
    return arg0.to(tl.float32)


@libtile.jit
def int2float_rd(arg0):
    return narrowed_to(arg0.to(tl.float64), "rd")


@libtile.jit
def int2float_ru(arg0):
    return narrowed_to(arg0.to(tl.float64), "ru")


@libtile.jit
def int2float_rz(arg0):
    return narrowed_to(arg0.to(tl.float64), "rz")


@libtile.jit
def uint2float_rn(arg0):
    return arg0.to(tl.float32)


@libtile.jit
def uint2float_rd(arg0):
    return narrowed_to(arg0.to(tl.float64), "rd")


@libtile.jit
def uint2float_ru(arg0):
    return narrowed_to(arg0.to(tl.float64), "ru")


@libtile.jit
def uint2float_rz(arg0):
    return narrowed_to(arg0.to(tl.float64), "rz")


@libtile.jit
def ll2double_rn(arg0):
    return arg0.to(tl.float64)


@libtile.jit
def ll2float_rn(arg0):
    return arg0.to(tl.float32)


@libtile.jit
def ll2double_rd(arg0):
    return widened(arg0, "rd")


@libtile.jit
def ll2float_rd(arg0):
    return narrowed_to(widened(arg0, "rd"), "rd")


@libtile.jit
def ll2double_ru(arg0):
    return widened(arg0, "ru")


@libtile.jit
def ll2float_ru(arg0):
    return narrowed_to(widened(arg0, "ru"), "ru")


@libtile.jit
def ll2double_rz(arg0):
    return widened(arg0, "rz")


@libtile.jit
def ll2float_rz(arg0):
    return narrowed_to(widened(arg0, "rz"), "rz")


@libtile.jit
def ull2double_rn(arg0):
    return arg0.to(tl.float64)


@libtile.jit
def ull2float_rn(arg0):
    return arg0.to(tl.float32)


@libtile.jit
def ull2double_rd(arg0):
    return widened(arg0, "rd")


@libtile.jit
def ull2float_rd(arg0):
    return narrowed_to(widened(arg0, "rd"), "rd")


@libtile.jit
def ull2double_ru(arg0):
    return widened(arg0, "ru")


@libtile.jit
def ull2float_ru(arg0):
    return narrowed_to(widened(arg0, "ru"), "ru")


@libtile.jit
def ull2double_rz(arg0):
    return widened(arg0, "rz")


@libtile.jit
def ull2float_rz(arg0):
    return narrowed_to(widened(arg0, "rz"), "rz")


@libtile.jit
def llrint(arg0):
    return to_integer(tl.rint(arg0), tl.int64)


@libtile.jit
def llround(arg0):
    return to_integer(tl.extra.libdevice.round(arg0), tl.int64)
