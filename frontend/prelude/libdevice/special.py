# SPDX-License-Identifier: Apache-2.0
"""libdevice: the error function and its kin.

fp32 is computed in fp64 and rounded once, unless a function says otherwise: error below 0.51 ulp. Errors
named beside a function are those of fp64. Specials are those of C's functions of the same name.
"""
import libtile
import libtile.language as tl


@libtile.jit
def complement(x, low):
    """erfc(x + low) for fp64, low far below x: below 6 ulp.

    From 0.5 on exp(-x^2) exp(x^2) erfc(x), with what the rounded square lacks as a factor.
    """
    far = tl.minimum(tl.maximum(x, 0.5), 30.0)
    square = far * far
    lost = tl.fma(far, far, -square) + 2.0 * far * low
    value = tl.exp(-square) * scaled_complement(far)
    value -= value * lost
    return tl.where(x != x, x, tl.where(x < 0.5, 1.0 - tl.erf(x), value))


@libtile.jit
def erf(arg0):
    return tl.erf(arg0)


@libtile.jit
def erfc(arg0):
    """Below 6 ulp."""
    return complement(arg0.to(tl.float64), 0.0).to(arg0.dtype)


@libtile.jit
def erfcx(arg0):
    """Below 6 ulp; below 0 it is 2 exp(x^2) less that of -x."""
    x = arg0.to(tl.float64)
    size = tl.abs(x)
    near = tl.minimum(size, 30.0)
    square = near * near
    power = tl.exp(square)
    power += power * tl.fma(near, near, -square)
    positive = scaled_complement(size)
    value = tl.where(x < 0.0, tl.where(size > 26.7, float("inf"), 2.0 * power - positive), positive)
    return tl.where(x != x, x, value).to(arg0.dtype)


@libtile.jit
def normcdf(arg0):
    """Below 6 ulp: erfc(-x / sqrt 2) / 2."""
    x = arg0.to(tl.float64)
    near = tl.where(x > 40.0, 40.0, tl.where(x < -40.0, -40.0, x))
    y = near * -0.7071067811865476
    low = tl.fma(near, -0.7071067811865476, -y) + near * 4.833646656726457e-17
    return (0.5 * complement(y, low)).to(arg0.dtype)
