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


# ---- inverses

@libtile.jit
def inverse_in_middle(x):
    """erfinv of fp64 |x| <= 0.9, to 2^-27: x times a polynomial in -log(1 - x^2)."""
    w = -log_of_one_and(-x * x)
    return x * polynomial(w - 3.0, (1.6235420103927158, 0.24163040379017345, -0.005738166673979439, -0.0008361787581922573,
                                    0.00019510229640199938, -1.2720408570086267e-05, -1.7676169065443272e-06, 4.519472619499686e-07,
                                    -1.9411591408408924e-08, -5.917819597720749e-09, 6.745184100173228e-10, 1.9701289962659887e-11))


@libtile.jit
def inverse_of_complement(q):
    """erfcinv of fp64 0 < q < 0.5, to 2^-27: polynomials in the root of -log q."""
    s = tl.sqrt(-tl.log(q))
    near = polynomial(tl.minimum(s, 4.0) - 2.5, (2.1925459186820837, 1.0469835959437879, -0.00464882566726044, -0.0014555741667380412,
                                                 0.0013738081966354588, -0.0007211221880739588, 0.0003144024666079257, -0.00012029824941369092,
                                                 4.212550595039033e-05, -1.604678357319219e-05, 5.83025022901416e-06, -1.0775686711449642e-06))
    middle = polynomial(tl.minimum(tl.maximum(s, 4.0), 10.0) - 7.0, (6.818904454506163, 1.0158572859734567, -0.0015621088320620386, 0.00015710187328929454,
                                                                     -1.5393027959778667e-05, 1.4106270791542097e-06, -1.294008866755556e-07, 8.07649573829014e-09,
                                                                     2.631572722198743e-09, -5.995214065233234e-10))
    far = polynomial(tl.maximum(s, 10.0) - 19.0, (18.907318452292337, 1.0035022343661189, -0.0001483928467708338, 6.559823759668194e-06,
                                                  -2.98081882526255e-07, 1.3624826907858402e-08, -5.637062431361182e-10, 2.608507168487909e-11,
                                                  -2.1028861670029454e-12, 9.657527710808621e-14))
    return tl.where(s < 4.0, near, tl.where(s < 10.0, middle, far))


@libtile.jit
def inverse(x, q, SINGLE: tl.constexpr):
    """y >= 0 with erf(y) = x and erfc(y) = q for fp64 0 <= x and q <= 1, x + q = 1.

    Unless SINGLE, one step of Halley, from 2^-27 to all bits, on whichever of both functions is the smaller.
    """
    middle = q >= 0.25
    inside = inverse_in_middle(tl.where(middle, x, 0.5))
    tail = inverse_of_complement(tl.where(middle | (q <= 0.0), 0.125, q))
    y = tl.where(middle, inside, tail)
    if not SINGLE:
        square = product(y, y)
        # (erf(y) - x) / erf'(y), in the tail over exp(y^2), which would underflow.
        slope = 0.8862269254527580 * tl.exp(tl.minimum(square, 700.0))
        off = tl.where(middle, tl.erf(y) - x, 0.0) * slope
        rest = tl.exp(square + tl.log(tl.where(middle, 0.5, q)))
        lost = tl.fma(y, y, -square)
        off = tl.where(middle, off, 0.8862269254527580 * (rest * (1.0 + lost) - scaled_complement(y)))
        y -= off / (1.0 + y * off)
    y = tl.where(q == 0.0, float("inf"), y)
    return tl.where((x >= 0.0) & (q >= 0.0), y, float("nan"))


@libtile.jit
def erfinv(arg0):
    """Below 6 ulp (fp32: 0.65); infinite at 1, NaN beyond."""
    x = arg0.to(tl.float64)
    size = tl.abs(x)
    value = inverse(size, 1.0 - size, arg0.dtype == tl.float32)
    return with_sign(tl.where(x == 0.0, x, value), x).to(arg0.dtype)


@libtile.jit
def inverse_complement(q, SINGLE: tl.constexpr):
    upper = q > 1.0
    x = tl.where(upper, q - 1.0, 1.0 - q)
    value = inverse(x, tl.where(upper, 2.0 - q, q), SINGLE)
    return tl.where(upper, -value, value)


@libtile.jit
def erfcinv(arg0):
    """Below 8 ulp (fp32: 0.65), but around 1, where it is 0: by 2^-53; NaN outside of [0, 2]."""
    return inverse_complement(arg0.to(tl.float64), arg0.dtype == tl.float32).to(arg0.dtype)


@libtile.jit
def normcdfinv(arg0):
    """-sqrt(2) erfcinv(2 x): below 8 ulp (fp32: 0.65), but around 1/2, where it is 0: by 2^-52; NaN outside of [0, 1]."""
    value = inverse_complement(2.0 * arg0.to(tl.float64), arg0.dtype == tl.float32)
    # Not -0 for 1/2.
    return (-1.4142135623730951 * value + 0.0).to(arg0.dtype)
