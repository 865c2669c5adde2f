# SPDX-License-Identifier: Apache-2.0
"""Casts between floats that targets have no instruction for: 8-bit floats, and rounding towards zero.

float8_decode_FORMAT and float8_encode_FORMAT are the ops of those names (ir/ops.def), ir/float8.h lists the
formats. Codes are uint8. The code is straight, of integers and fp32 (of fp64 where that is encoded), so that
it runs on whole vectors; that of FORMAT_bf16 is of 16-bit integers, so that vectors hold twice as many.
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


# ---- from 8 bits to bf16

@libtile.jit
def float8_as_bf16(code, mantissa: tl.constexpr, bias: tl.constexpr):
    """The bits of the bf16 of a code, if all codes were numbers.

    The bits of a positive float are a function of the number that consists of straight lines, one for each
    exponent, each half as steep as the one before: the least of these lines. The numbers of one exponent of the
    format lie on one line, and so do its subnormal ones with as many leading zeros; 0 lies on none.
    """
    wide = code.to(tl.uint16)
    size = wide & 0x7F
    bits = (size << (7 - mantissa)) + ((127 - bias) << 7)
    for zeros in tl.static_range(1, mantissa + 1):
        bits = tl.minimum(bits, (size << (7 - mantissa + zeros)) + ((127 - bias - zeros) << 7))
    return tl.where(size == 0, 0, bits) | ((wide & 0x80) << 8)


@libtile.jit
def float8_decode_e5_bf16(code):
    """The infinities' exponent is that of 65536, 0x4780."""
    bits = float8_as_bf16(code, 2, 15)
    return tl.where((code & 0x7F) < 0x7C, bits, bits + (0x7F80 - 0x4780)).to(tl.bfloat16, bitcast=True)


@libtile.jit
def float8_decode_e4nv_bf16(code):
    bits = float8_as_bf16(code, 3, 7)
    return tl.where((code & 0x7F) == 0x7F, 0x7FC0, bits).to(tl.bfloat16, bitcast=True)


@libtile.jit
def float8_decode_e4b15_bf16(code):
    return float8_as_bf16(code, 3, 15).to(tl.bfloat16, bitcast=True)


@libtile.jit
def float8_decode_e4b8_bf16(code):
    return tl.where(code == 0x80, 0x7FC0, float8_as_bf16(code, 3, 8)).to(tl.bfloat16, bitcast=True)


@libtile.jit
def float8_decode_e5b16_bf16(code):
    return tl.where(code == 0x80, 0x7FC0, float8_as_bf16(code, 2, 16)).to(tl.bfloat16, bitcast=True)


# ---- to 8 bits

@libtile.jit
def float8_abs(x):
    """|x| by its code: without the sign, which NaN needs where there is no -0."""
    code = x.to(tl.uint8, bitcast=True)
    size = code & 0x7F
    if x.dtype == tl.float8e4b8 or x.dtype == tl.float8e5b16:
        size = tl.where(code == 0x80, code, size)
    return size.to(x.dtype, bitcast=True)


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


# ---- from bf16 to 8 bits

@libtile.jit
def float8_fixed(bits, mantissa: tl.constexpr, bias: tl.constexpr, largest: tl.constexpr):
    """The code of a bf16 without its sign, by its bits, with eight places behind the point.

    Normal numbers of both lie equally far apart: bits that are moved and another bias. A subnormal code counts
    what the leading 1 and the mantissa hold, moved by the exponent. By up to eight places nothing is lost; what
    is moved farther is less than half a code.
    """
    size = tl.minimum(bits & 0x7FFF, largest)
    normal = (size << (1 + mantissa)) - (((127 - bias) << (8 + mantissa)) & 0xFFFF)
    subnormal = ((size << 8) | 0x8000) >> tl.minimum((135 - bias - mantissa) - (size >> 7), 15)
    return tl.where(size < ((128 - bias) << 7), subnormal, normal)


@libtile.jit
def float8_encode_bf16(x, mantissa: tl.constexpr, bias: tl.constexpr, largest: tl.constexpr,
                       one_zero: tl.constexpr):
    bits = x.to(tl.uint16, bitcast=True)
    fixed = float8_fixed(bits, mantissa, bias, largest)
    rounded = fixed + 0x7F + ((fixed >> 8) & 1)
    code = (rounded | (bits & 0x8000)) >> 8
    if one_zero:
        code = tl.where((bits & 0x7FFF) > 0x7F80, 0x80, tl.where(rounded < 0x100, 0, code))
    else:
        code = tl.where((bits & 0x7FFF) > 0x7F80, 0x7F, code)
    return code.to(tl.uint8)


@libtile.jit
def float8_encode_e5_bf16(x):
    return float8_encode_bf16(x, 2, 15, 0x4760, False)


@libtile.jit
def float8_encode_e4nv_bf16(x):
    return float8_encode_bf16(x, 3, 7, 0x43E0, False)


@libtile.jit
def float8_encode_e4b8_bf16(x):
    return float8_encode_bf16(x, 3, 8, 0x4370, True)


@libtile.jit
def float8_encode_e5b16_bf16(x):
    return float8_encode_bf16(x, 2, 16, 0x4760, True)


@libtile.jit
def float8_encode_e4b15_bf16(x):
    """Ties away from zero."""
    bits = x.to(tl.uint16, bitcast=True)
    return (((float8_fixed(bits, 3, 15, 0x3FE0) + 0x80) | (bits & 0x8000)) >> 8).to(tl.uint8)


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
