# SPDX-License-Identifier: Apache-2.0
"""Parts of floats, and steps from one float to the next: pieces of other functions."""
import libtile
import libtile.language as tl


@libtile.jit
def bits_of(x):
    """The bits as a signed integer, so that a set sign is a number below 0."""
    if x.dtype == tl.float64:
        return x.to(tl.int64, bitcast=True)
    else:
        return x.to(tl.int32, bitcast=True)


@libtile.jit
def from_bits(bits):
    if bits.dtype == tl.int64:
        return bits.to(tl.float64, bitcast=True)
    else:
        return bits.to(tl.float32, bitcast=True)


@libtile.jit
def with_sign(size, of):
    """|size| with the sign of `of`."""
    if of.dtype == tl.float64:
        least: tl.constexpr = -9223372036854775808
    else:
        least: tl.constexpr = -2147483648
    return from_bits((bits_of(size) & ~least) | (bits_of(of) & least))


@libtile.jit
def product(a, b):
    """a b, rounded: where a sum follows that knows the rounding, no target fuses the two."""
    return tl.fma(a, b, -0.0)


@libtile.jit
def next_up(x):
    """The next larger float; NaN and inf give some float."""
    bits = bits_of(x)
    return from_bits(tl.where(x == 0.0, 1, tl.where(bits < 0, bits - 1, bits + 1)))


@libtile.jit
def next_down(x):
    return -next_up(-x)


@libtile.jit
def is_finite(x):
    return tl.abs(x) < float("inf")


@libtile.jit
def binary_exponent(x):
    """(m, e): x = m 2^e with 1 <= |m| < 2 and e an int32; 0, infinities and NaN are their own m, with e = 0."""
    usual = is_finite(x) & (x != 0.0)
    if x.dtype == tl.float64:
        small = tl.abs(x) < 2.0 ** -1022
        bits = bits_of(tl.where(small, x * 2.0 ** 54, x))
        e = ((bits >> 52) & 0x7ff).to(tl.int32) - tl.where(small, 1077, 1023)
        m = from_bits((bits & -9218868437227405313) | (1023 << 52))
    else:
        small = tl.abs(x) < 2.0 ** -126
        bits = bits_of(tl.where(small, x * 2.0 ** 25, x))
        e = ((bits >> 23) & 0xff) - tl.where(small, 152, 127)
        m = from_bits((bits & -2139095041) | (127 << 23))
    return tl.where(usual, m, x), tl.where(usual, e, 0)


@libtile.jit
def times_power(m, e):
    """m 2^e for fp64 with 1 <= |m| < 2 (or 0, inf, NaN) and any int32 e, rounded once."""
    e = tl.minimum(tl.maximum(e, -1200), 1100)
    first = tl.minimum(tl.maximum(e, -1022), 1023)
    return m * power_of_two(first.to(tl.int64)) * power_of_two((e - first).to(tl.int64))
