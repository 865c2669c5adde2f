# SPDX-License-Identifier: Apache-2.0
"""dot_scaled: a product of matrices in small floats, a scale for each run of elements along K.

Operands are brought to a type that holds them exactly and then multiplied: to bf16, whose 8 bits hold a float of at most 8
bits times a scale (4 bits each at most), and a bf16 times a power of two; to two bf16s, whose sum is an fp16 times a power of
two; else to fp32. Leading axes are a batch.
"""
import libtile
import libtile.language as tl


@libtile.jit
def scaled_dot_nibble(code):
    """The number of an e2m1, by the fp16 of the same bits, whose exponents are 14 apart."""
    bits = code.to(tl.uint16)
    return (((bits & 8) << 12) | ((bits & 7) << 9)).to(tl.float16, bitcast=True) * 16384.0


@libtile.jit
def scaled_dot_unpacked(x):
    """Two numbers a byte along the last axis, the lower bits first."""
    return tl.interleave(scaled_dot_nibble(x & 15), scaled_dot_nibble((x >> 4) & 15))


@libtile.jit
def scaled_dot_numbers(x, format: tl.constexpr, k_pack: tl.constexpr):
    """The operand, K along the last axis, as floats."""
    if format == "e2m1":
        tl.static_assert(x.dtype == tl.uint8 or x.dtype == tl.int8, "dot_scaled takes e2m1 as bytes")
        if k_pack:
            return scaled_dot_unpacked(x)
        else:
            return tl.trans(scaled_dot_unpacked(tl.trans(x)))
    elif format == "e4m3":
        return scaled_dot_typed(x, tl.float8e4nv)
    elif format == "e5m2":
        return scaled_dot_typed(x, tl.float8e5)
    elif format == "bf16":
        return scaled_dot_typed(x, tl.bfloat16)
    else:
        tl.static_assert(format == "fp16",
                         "a format of dot_scaled is 'e2m1', 'e4m3', 'e5m2', 'bf16' or 'fp16'")
        return scaled_dot_typed(x, tl.float16)


@libtile.jit
def scaled_dot_typed(x, dtype: tl.constexpr):
    bits: tl.constexpr = dtype.primitive_bitwidth
    tl.static_assert(x.dtype == dtype or (x.dtype.is_int() and x.dtype.primitive_bitwidth == bits),
                     "an operand of dot_scaled is of its format's type, or an integer that holds the bits")
    return x.to(dtype, bitcast=True)


@libtile.jit
def scaled_dot_factor(scale):
    """The number of an e8m0, 2^(code - 127), 0xff is NaN; or of an 8-bit float."""
    if scale.dtype.is_fp8():
        return scale.to(tl.float32)
    else:
        tl.static_assert(scale.dtype == tl.uint8 or scale.dtype == tl.int8,
                         "a scale of dot_scaled is a byte, an e8m0, or an 8-bit float")
        code = scale.to(tl.uint8).to(tl.int32)
        power = tl.where(code == 0, 0x400000, code << 23).to(tl.float32, bitcast=True)
        return tl.where(code == 0xFF, float("nan"), power)


@libtile.jit
def scaled_dot_operand(x, scale, format: tl.constexpr, k_pack: tl.constexpr, dtype: tl.constexpr):
    """Rows of K elements in that type, times their scales."""
    numbers = scaled_dot_numbers(x, format, k_pack)
    if scale is None:
        return numbers.to(dtype)
    else:
        shape: tl.constexpr = numbers.shape
        rows: tl.constexpr = shape[:-1]
        groups: tl.constexpr = scale.shape[-1]
        tl.static_assert(scale.shape[:-1] == rows and shape[-1] % groups == 0,
                         "a scale of dot_scaled has a row for each row of lhs or column of rhs, and a column for "
                         "each run of elements along K")
        spread = tl.broadcast_to(tl.expand_dims(scaled_dot_factor(scale), -1), rows + (groups, shape[-1] // groups))
        return (numbers.to(tl.float32) * tl.reshape(spread, shape)).to(dtype)


@libtile.jit
def dot_scaled(lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc=None, fast_math=False, lhs_k_pack=True,
               rhs_k_pack=True, out_dtype=tl.float32):
    """acc + (lhs times its scales) x (rhs times its scales), summed in fp32. fast_math changes nothing."""
    tl.static_assert(out_dtype == tl.float32, "out_dtype of dot_scaled must be fp32")
    if lhs_scale is not None and rhs_scale is not None:
        left_run: tl.constexpr = scaled_dot_depth(lhs, lhs_format, lhs_k_pack) // lhs_scale.shape[-1]
        right_run: tl.constexpr = scaled_dot_depth(tl.trans(rhs), rhs_format, rhs_k_pack) // rhs_scale.shape[-1]
        tl.static_assert(left_run == right_run, f"the scales of dot_scaled are for runs of one length, got runs of {left_run} in lhs "
                                                f"and of {right_run} in rhs")
    bits: tl.constexpr = max(scaled_dot_bits(lhs_format, lhs_scale), scaled_dot_bits(rhs_format, rhs_scale))
    dtype: tl.constexpr = tl.bfloat16 if bits <= 8 else tl.float32
    precision: tl.constexpr = "bf16x3" if bits <= 11 else "ieee"
    left = scaled_dot_operand(lhs, lhs_scale, lhs_format, lhs_k_pack, dtype)
    right = scaled_dot_operand(tl.trans(rhs), rhs_scale, rhs_format, rhs_k_pack, dtype)
    return tl.dot(left, tl.trans(right), acc, input_precision=precision, out_dtype=tl.float32)


@libtile.jit
def scaled_dot_depth(x, format: tl.constexpr, k_pack: tl.constexpr):
    """K of an operand whose last axis holds it."""
    return x.shape[-1] * 2 if format == "e2m1" and k_pack else x.shape[-1]


@libtile.jit
def scaled_dot_bits(format: tl.constexpr, scale):
    """Significant bits of an operand's numbers times their scales, at most."""
    bits: tl.constexpr = 11 if format == "fp16" else 8 if format == "bf16" else 4
    if scale is None:
        return bits
    else:
        return bits + 4 if scale.dtype.is_fp8() else bits
