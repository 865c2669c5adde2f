# SPDX-License-Identifier: Apache-2.0
"""libdevice: circular and hyperbolic functions and their inverses.

fp32 is computed in fp64 and rounded once, unless a function says otherwise: error below 0.51 ulp. Errors
named beside a function are those of fp64. Specials are those of C's functions of the same name.
"""
import libtile
import libtile.language as tl


# ---- circular functions

@libtile.jit
def sin(arg0):
    return tl.sin(arg0)


@libtile.jit
def cos(arg0):
    return tl.cos(arg0)


@libtile.jit
def tan(arg0):
    """Below 3 ulp (fp32, which is not computed in fp64: 4 ulp)."""
    size = tl.abs(arg0)
    quadrant, r, low = quarter_turns(tl.where(size < float("inf"), size, 0.0))
    sine, cosine = sine_and_cosine(r, low)
    odd = (quadrant & 1) != 0
    value = tl.div_rn(tl.where(odd, -cosine, sine), tl.where(odd, sine, cosine))
    value = tl.where(bits_of(arg0) < 0, -value, value)
    return tl.where(size < float("inf"), value, float("nan"))


@libtile.jit
def of_half_turns(x):
    """(quadrant, sine, cosine) of pi x for fp64: |x| less quadrant/2 is exact."""
    size = tl.abs(x)
    # Whole turns first.
    size -= 2.0 * tl.chop(0.5 * size)
    quadrant = tl.rint(2.0 * size)
    r = size - 0.5 * quadrant
    head = product(r, 3.141592653589793)
    low = tl.fma(r, 3.141592653589793, -head) + r * 1.2246467991473532e-16
    sine, cosine = sine_and_cosine(head, low)
    return quadrant.to(tl.int32), sine, cosine


@libtile.jit
def sinpi(arg0):
    """Below 1 ulp; a 0 at integers has the sign of arg0."""
    x = arg0.to(tl.float64)
    quadrant, sine, cosine = of_half_turns(x)
    value = tl.where((quadrant & 1) != 0, cosine, sine)
    value = tl.where((quadrant & 2) != 0, -value, value)
    value = tl.where(value == 0.0, 0.0, value)
    return tl.where(bits_of(x) < 0, -value, value).to(arg0.dtype)


@libtile.jit
def cospi(arg0):
    """Below 1 ulp; +0 at halves."""
    quadrant, sine, cosine = of_half_turns(arg0.to(tl.float64))
    quadrant += 1
    value = tl.where((quadrant & 1) != 0, cosine, sine)
    value = tl.where((quadrant & 2) != 0, -value, value)
    return tl.where(value == 0.0, 0.0, value).to(arg0.dtype)


# ---- their inverses

@libtile.jit
def angle(y, x, SINGLE: tl.constexpr):
    """atan2(y, x) for fp64; SINGLE: to 2^-40.

    The angle of |y| / |x| is that of a quotient in [-0.42, 0.42], and 0, pi/4 or pi/2.
    """
    a, b = tl.abs(y), tl.abs(x)
    both = (a == float("inf")) & (b == float("inf"))
    a, b = tl.where(both, 1.0, a), tl.where(both, 1.0, b)
    # Sums and products of these stay within fp64.
    large = tl.maximum(a, b) > 2.0 ** 1000
    small = tl.maximum(a, b) < 2.0 ** -900
    scale = tl.where(large, tl.full((), 2.0 ** -100, tl.float64),
                     tl.where(small, tl.full((), 2.0 ** 100, tl.float64), 1.0))
    a, b = a * scale, b * scale
    low, high = a <= 0.41421356 * b, a > 2.4142136 * b
    top = tl.where(low, a, tl.where(high, -b, a - b))
    bottom = tl.where(low, b, tl.where(high, a, a + b))
    t = tl.where(bottom == 0.0, 0.0, tl.div_rn(top, tl.where(bottom == 0.0, 1.0, bottom)))
    z = t * t
    if SINGLE:
        p = polynomial(z, (-0.33333333331440346, 0.19999998917102724, -0.142856124970554, 0.11107494737165279,
                           -0.09028978546374875, 0.07135296999665997, -0.0404316541421241))
    else:
        p = polynomial(z, (-0.3333333333333333, 0.19999999999999993, -0.14285714285711518, 0.11111111110754629,
                           -0.09090909067003983, 0.07692306735789252, -0.0666664201537517, 0.058819251850306085,
                           -0.05258040893734644, 0.04719390811572335, -0.04104419217469267, 0.030635309075940594,
                           -0.013917829515677037))
    quarters = tl.where(low, tl.full((), 0.0, tl.float64), tl.where(high, tl.full((), 2.0, tl.float64), 1.0))
    # pi less the angle on the left: with t and its base reversed.
    left = bits_of(x) < 0
    t = tl.where(left, -t, t)
    quarters = tl.where(left, 4.0 - quarters, quarters)
    value = quarters * 0.7853981633974483 + (t + tl.fma(z * t, p, quarters * 3.061616997868383e-17))
    value = tl.where((y != y) | (x != x), float("nan"), value)
    return tl.where(bits_of(y) < 0, -value, value)


@libtile.jit
def atan2(arg0, arg1):
    """Below 1.8 ulp."""
    return angle(arg0.to(tl.float64), arg1.to(tl.float64), arg0.dtype == tl.float32).to(arg0.dtype)


@libtile.jit
def atan(arg0):
    """Below 1.8 ulp."""
    x = arg0.to(tl.float64)
    return angle(x, tl.full(x.shape, 1.0, tl.float64), arg0.dtype == tl.float32).to(arg0.dtype)


@libtile.jit
def asin(arg0):
    """Below 2.5 ulp; NaN beyond 1."""
    x = arg0.to(tl.float64)
    return angle(x, tl.sqrt((1.0 - x) * (1.0 + x)), arg0.dtype == tl.float32).to(arg0.dtype)


@libtile.jit
def acos(arg0):
    """Below 2.5 ulp; NaN beyond 1."""
    x = arg0.to(tl.float64)
    return angle(tl.sqrt((1.0 - x) * (1.0 + x)), x, arg0.dtype == tl.float32).to(arg0.dtype)


# ---- hyperbolic functions

@libtile.jit
def sinh(arg0):
    """Below 4 ulp."""
    x = arg0.to(tl.float64)
    size = tl.minimum(tl.abs(x), 720.0)
    p, n = power_less_one(size)
    # Near 0 from e^x - 1 alone; else half of e^x - e^-x, of which the second counts up to n = 30.
    near = 0.5 * (p + p / (1.0 + p))
    far = (1.0 + p) - tl.scalb(1.0 / (1.0 + p), -2.0 * tl.minimum(n, 60.0))
    value = tl.where(n == 0.0, near, tl.scalb(far, n - 1.0))
    return tl.where(x != x, x, with_sign(value, x)).to(arg0.dtype)


@libtile.jit
def cosh(arg0):
    """Below 2 ulp."""
    x = arg0.to(tl.float64)
    p, n = power_less_one(tl.minimum(tl.abs(x), 720.0))
    far = (1.0 + p) + tl.scalb(1.0 / (1.0 + p), -2.0 * tl.minimum(n, 60.0))
    return tl.where(x != x, x, tl.scalb(far, n - 1.0)).to(arg0.dtype)


@libtile.jit
def tanh(arg0):
    """Below 2.5 ulp; fp32 below 2 ulp, which is not computed in fp64: x times a polynomial, from 0.55 on
    1 - 2 / (e^2x + 1)."""
    size = tl.abs(arg0)
    if arg0.dtype == tl.float64:
        p, n = power_less_one(2.0 * tl.minimum(size, 20.0))
        # e^2x - 1 over itself and 2, both by 2^n.
        small = tl.scalb(n * 0.0 + 1.0, -n)
        top = tl.where(n == 0.0, p, p + (1.0 - small))
        value = top / (top + 2.0 * small)
    else:
        z = tl.minimum(arg0 * arg0, 0.5)
        near = tl.fma(size * z, polynomial(z, (-0.3333333, 0.13333113, -0.05390943, 0.021309389, -0.0066102277)),
                      size)
        far = 1.0 - 2.0 / (tl.exp(2.0 * tl.minimum(size, 10.0)) + 1.0)
        value = tl.where(size < 0.55, near, far)
    return tl.where(arg0 != arg0, arg0, with_sign(value, arg0))


# ---- their inverses

@libtile.jit
def asinh(arg0):
    """Below 3 ulp."""
    x = arg0.to(tl.float64)
    size = tl.abs(x)
    near = tl.minimum(size, 2.0 ** 30)
    square = near * near
    value = log_of_one_and(near + square / (1.0 + tl.sqrt(1.0 + square)))
    value = tl.where(size > 2.0 ** 28, tl.log(size) + 0.6931471805599453, value)
    return tl.where(x != x, x, with_sign(value, x)).to(arg0.dtype)


@libtile.jit
def acosh(arg0):
    """Below 3 ulp; NaN below 1."""
    x = arg0.to(tl.float64)
    t = tl.where(x > 2.0 ** 30, 2.0 ** 30, x) - 1.0
    value = log_of_one_and(t + tl.sqrt(t * (t + 2.0)))
    value = tl.where(x >= 1.0, value, float("nan"))
    return tl.where(x > 2.0 ** 28, tl.log(x) + 0.6931471805599453, value).to(arg0.dtype)


@libtile.jit
def atanh(arg0):
    """Below 3 ulp; infinite at 1, NaN beyond."""
    x = arg0.to(tl.float64)
    size = tl.abs(x)
    value = 0.5 * log_of_one_and(2.0 * size / (1.0 - size))
    return with_sign(tl.where(size > 1.0, float("nan"), value), x).to(arg0.dtype)
