# SPDX-License-Identifier: Apache-2.0
"""Casts between floats that targets have no instruction for: 8-bit floats, and rounding towards zero.

float8_decode_FORMAT and float8_encode_FORMAT are the ops of those names (ir/ops.def), ir/float8.h lists the
formats. Codes are uint8. The code is straight, of integers and fp32 (of fp64 where that is encoded), so that
it runs on whole vectors.
"""
import libtile
import libtile.language as tl


# ---- from 8 bits

@libtile.jit
def float8_as_half(code, shift: tl.constexpr):
    """The fp32 of the fp16 whose exponent begins with the code's: that number times a power of two."""
    bits = code.to(tl.uint16)
    return (((bits & 0x80) << 8) | ((bits & 0x7F) << shift)).to(tl.float16, bitcast=True).to(tl.float32)


@libtile.jit
def float8_decode_e5(code):
    return float8_as_half(code, 8)


@libtile.jit
def float8_decode_e4nv(code):
    return tl.where((code & 0x7F) == 0x7F, float("nan"), float8_as_half(code, 7) * 256.0)


@libtile.jit
def float8_decode_e4b15(code):
    return float8_as_half(code, 7)


@libtile.jit
def float8_decode_e4b8(code):
    return tl.where(code == 0x80, float("nan"), float8_as_half(code, 7) * 128.0)


@libtile.jit
def float8_decode_e5b16(code):
    """The greatest exponent is that of infinities in fp16, so it takes the one below, and twice that."""
    top = (code & 0x7C) == 0x7C
    number = float8_as_half(tl.where(top, code - 4, code), 8) * tl.where(top, 1.0, 0.5)
    return tl.where(code == 0x80, float("nan"), number)


# ---- to 8 bits

@libtile.jit
def float8_sign(x):
    """The sign of a float where a code has it."""
    if x.dtype == tl.float64:
        return (x.to(tl.int64, bitcast=True) >> 56).to(tl.int32) & 0x80
    else:
        return (x.to(tl.int32, bitcast=True) >> 24) & 0x80


@libtile.jit
def float8_rounded(bits, rough, places: tl.constexpr, own: tl.constexpr, mantissa: tl.constexpr,
                   bias: tl.constexpr):
    """The code of a float by its bits, and by those of it plus `rough`, a power of two, both integers.

    Where the code is that of a normal number, the bits are rounded where the code ends, and a carry goes into
    the exponent by itself. Below, codes count multiples of the unit of the sum's last place, so the sum is
    rounded already.
    """
    drop: tl.constexpr = places - mantissa
    half: tl.constexpr = (1 << (drop - 1)) - 1
    normal = ((bits + half + ((bits >> drop) & 1)) >> drop) - ((own - bias) << mantissa)
    subnormal = rough - ((own + drop + 1 - bias) << places)
    return tl.where(bits < ((own + 1 - bias) << places), subnormal, normal).to(tl.int32)


@libtile.jit
def float8_encode(x, mantissa: tl.constexpr, bias: tl.constexpr, largest: tl.constexpr,
                  one_zero: tl.constexpr):
    size = tl.minimum(tl.abs(x), largest)
    if x.dtype == tl.float64:
        rough = (size + 2.0 ** (52 - mantissa + 1 - bias)).to(tl.int64, bitcast=True)
        code = float8_rounded(size.to(tl.int64, bitcast=True), rough, 52, 1023, mantissa, bias)
    else:
        rough = (size + 2.0 ** (23 - mantissa + 1 - bias)).to(tl.int32, bitcast=True)
        code = float8_rounded(size.to(tl.int32, bitcast=True), rough, 23, 127, mantissa, bias)
    if one_zero:
        signed = tl.where(x != x, 0x80, tl.where(code == 0, 0, code | float8_sign(x)))
    else:
        signed = tl.where(x != x, 0x7F, code | float8_sign(x))
    return signed.to(tl.uint8)


@libtile.jit
def float8_encode_e5(x):
    return float8_encode(x, 2, 15, 57344.0, False)


@libtile.jit
def float8_encode_e4nv(x):
    return float8_encode(x, 3, 7, 448.0, False)


@libtile.jit
def float8_encode_e4b8(x):
    return float8_encode(x, 3, 8, 240.0, True)


@libtile.jit
def float8_encode_e5b16(x):
    return float8_encode(x, 2, 16, 57344.0, True)


@libtile.jit
def float8_encode_e4b15(x):
    """Of the fp16 towards zero, which has the same exponents and seven bits more; ties away from zero."""
    half = cast_towards_zero(tl.minimum(tl.abs(x), 1.75), tl.float16).to(tl.uint16, bitcast=True)
    return (((half + 0x40) >> 7).to(tl.int32) | float8_sign(x)).to(tl.uint8)


# ---- towards zero

@libtile.jit
def cast_towards_zero(x, dtype: tl.constexpr):
    """x in a narrower type of floats, of the two neighbours there the one nearer to zero.

    Infinities stay where the type has them; in 8 bits what is beyond the largest number becomes it. NaN is
    cast as ever.
    """
    nearest = x.to(dtype)
    if dtype.primitive_bitwidth == 8:
        bits = nearest.to(tl.uint8, bitcast=True)
    elif dtype.primitive_bitwidth == 16:
        bits = nearest.to(tl.uint16, bitcast=True)
    else:
        bits = nearest.to(tl.uint32, bitcast=True)
    towards = tl.where(tl.abs(nearest.to(x.dtype)) > tl.abs(x), bits - 1, bits)
    if dtype == tl.float8e5:
        towards = tl.where(tl.abs(x) == float("inf"), (bits & 0x80) | 0x7C, towards)
    elif dtype == tl.float8e4b8 or dtype == tl.float8e5b16:
        towards = tl.where((towards == 0x80) & (x == x), 0, towards)  # there is no -0
    return towards.to(dtype, bitcast=True)
