# SPDX-License-Identifier: Apache-2.0
"""libdevice: floats to integers that stay floats, signs, exponents, neighbours, classes; all exact."""
import libtile
import libtile.language as tl


@libtile.jit
def ceil(arg0):
    return tl.ceil(arg0)


@libtile.jit
def floor(arg0):
    return tl.floor(arg0)


@libtile.jit
def trunc(arg0):
    return tl.chop(arg0)


@libtile.jit
def rint(arg0):
    return tl.rint(arg0)


@libtile.jit
def nearbyint(arg0):
    return tl.rint(arg0)


@libtile.jit
def round(arg0):
    """Halves away from 0."""
    whole = tl.chop(arg0)
    return tl.where(tl.abs(arg0 - whole) >= 0.5, whole + with_sign(tl.full(arg0.shape, 1.0, arg0.dtype), arg0),
                    whole)


@libtile.jit
def copysign(arg0, arg1):
    return with_sign(arg0, arg1)


@libtile.jit
def signbit(arg0):
    """1 for negative numbers, -0 and NaNs with that sign; else 0."""
    return (bits_of(arg0) < 0).to(tl.int32)


@libtile.jit
def finitef(arg0):
    return is_finite(arg0)


@libtile.jit
def isfinited(arg0):
    return is_finite(arg0)


@libtile.jit
def isinf(arg0):
    return tl.abs(arg0) == float("inf")


@libtile.jit
def isnan(arg0):
    return arg0 != arg0


@libtile.jit
def saturatef(arg0):
    """0 for NaN."""
    return tl.where(arg0 > 0.0, tl.where(arg0 < 1.0, arg0, 1.0), 0.0)


@libtile.jit
def fdim(arg0, arg1):
    return tl.where(arg0 <= arg1, 0.0, arg0 - arg1)


@libtile.jit
def fma(arg0, arg1, arg2):
    return tl.fma(arg0, arg1, arg2)


@libtile.jit
def fmod(arg0, arg1):
    return arg0 % arg1


@libtile.jit
def remainder(arg0, arg1):
    """arg0 - n arg1 with n the integer nearest to the quotient, of two the even one; exact, with the sign of arg0 if
    it is 0."""
    size = tl.abs(arg1)
    r = tl.abs(arg0) % (size + size)
    # Within twice the divisor: it is taken away where more than half of it is left, and again where half or more is.
    once = r > size - r
    r = tl.where(once, r - size, r)
    r = tl.where(once & (r >= size - r), r - size, r)
    return tl.where(bits_of(arg0) < 0, -r, r)


@libtile.jit
def nextafter(arg0, arg1):
    stepped = tl.where(arg0 < arg1, next_up(arg0), next_down(arg0))
    value = tl.where(arg0 == arg1, arg1, stepped)
    return tl.where((arg0 != arg0) | (arg1 != arg1), float("nan"), value)


@libtile.jit
def ilogb(arg0):
    """The least int32 for 0 and NaN, the largest for infinities."""
    _, e = binary_exponent(arg0)
    e = tl.where((arg0 == 0.0) | (arg0 != arg0), -2147483648, e)
    return tl.where(tl.abs(arg0) == float("inf"), 2147483647, e)


@libtile.jit
def logb(arg0):
    """-inf for 0, inf for infinities."""
    _, e = binary_exponent(arg0)
    value = tl.where(arg0 == 0.0, -float("inf"), e.to(arg0.dtype))
    return tl.where(is_finite(arg0), value, arg0 * arg0)


@libtile.jit
def ldexp(arg0, arg1):
    """Rounded once."""
    if arg0.dtype == tl.float64:
        m, e = binary_exponent(arg0)
        return times_power(m, e + tl.minimum(tl.maximum(arg1, -5000), 5000))
    else:
        # As fp64 the product is exact for any n that matters.
        n = tl.minimum(tl.maximum(arg1, -400), 400)
        return (arg0.to(tl.float64) * power_of_two(n.to(tl.int64))).to(tl.float32)


@libtile.jit
def scalbn(arg0, arg1):
    return ldexp(arg0, arg1)
