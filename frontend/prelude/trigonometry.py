# SPDX-License-Identifier: Apache-2.0
"""Sine and cosine of any float, as prelude/math.py has the other elementary functions.

The angle is taken to [-pi/4, pi/4] by a product with as many bits of 2 / pi as its exponent asks for
(M. H. Payne, R. N. Hanek, Radian reduction for trigonometric functions, ACM SIGNUM Newsletter 18, 1983),
so there are no large angles that would go another way. Coefficients are Chebyshev fits.
"""
import libtile
import libtile.language as tl


@libtile.jit
def numbers(values: tl.constexpr, dtype: tl.constexpr):
    """Constants as scalars of that type."""
    made = ()
    for i in tl.static_range(len(values)):
        made += (tl.full((), values[i], dtype),)
    return made


@libtile.jit
def skip(words, index, step: tl.constexpr, count: tl.constexpr):
    """The first `count` of the words, or of those from `step` on if the index has that bit."""
    is_set = (index & step) != 0
    left = ()
    for i in tl.static_range(count):
        if i + step < len(words):
            left += (tl.where(is_set, words[i + step], words[i]),)
        else:
            left += (words[i],)
    return left


@libtile.jit
def quarter_turns(size):
    """(quadrant, high, low): size = quadrant pi/2 + high + low but for whole turns, |high| <= pi/4.

    For finite size >= 0; quadrant is a uint32, of which the last two bits count. An integer M times 2^e is
    multiplied by the 96 bits (fp64: 192) of 2 / pi from weight 2^(1 - e) down: what lies above are whole
    turns, and no float comes closer to a multiple of pi/2 than the bits below can tell.
    """
    near = size < 0.785398
    if size.dtype == tl.float64:
        bits = size.to(tl.uint64, bitcast=True)
        # Before the point of 2 / pi stand 64 zeros; sizes below pi/4 have no use for the product.
        start = tl.where(near, 0, (bits >> 52) - 1013)
        words = numbers((0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                     0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                     0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                     0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                     0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab), tl.uint64)
        index = start >> 6
        words = skip(skip(skip(words, index, 16, 19), index, 8, 11), index, 4, 7)
        words = skip(skip(words, index, 2, 5), index, 1, 4)
        left, right = start & 63, 64 - (start & 63)
        m = (bits & 0xfffffffffffff) | 0x10000000000000
        middle = (words[1] << left) | (words[2] >> right)
        low = tl.umulhi(m, (words[2] << left) | (words[3] >> right))
        product = m * middle + low
        high = m * ((words[0] << left) | (words[1] >> right)) + tl.umulhi(m, middle)
        high += (product < low).to(tl.uint64)
        turn = (high + (1 << 61)) >> 62
        # What is left as a signed number of 128 bits, the lower half signed as well.
        upper = (high - (turn << 62) + (product >> 63)).to(tl.int64)
        first = upper.to(tl.float64)
        rest = (upper - first.to(tl.int64)).to(tl.float64) + product.to(tl.int64).to(tl.float64) * 2.0 ** -64
        whole = first + rest
        rest = rest - (whole - first)
        whole *= 2.0 ** -62
        head = whole * 1.5707963267948966
        tail = tl.fma(whole, 1.5707963267948966, -head)
        tail += tl.fma(whole, 6.123233995736766e-17, rest * (2.0 ** -62 * 1.5707963267948966))
    else:
        bits = size.to(tl.uint32, bitcast=True)
        start = tl.where(near, 0, (bits >> 23) - 120)
        words = numbers((0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab), tl.uint32)
        index = start >> 5
        words = skip(skip(skip(words, index, 4, 7), index, 2, 5), index, 1, 4)
        left, right = start & 31, 32 - (start & 31)
        m = ((bits & 0x7fffff) | 0x800000).to(tl.uint64)
        product = (m * ((words[2] << left) | (words[3] >> right))) >> 32
        product += m * ((words[1] << left) | (words[2] >> right))
        product += (m * ((words[0] << left) | (words[1] >> right))) << 32
        turn = (product + (1 << 61)) >> 62
        upper = (product - (turn << 62)).to(tl.int64)
        # All that a float holds of the angle: what is lost is less than half a unit of its last place.
        head = (upper.to(tl.float64) * (2.0 ** -62 * 1.5707963267948966)).to(tl.float32)
        tail = head * 0.0
    return tl.where(near, 0, turn.to(tl.uint32)), tl.where(near, size, head), tl.where(near, 0.0, tail)


@libtile.jit
def sine_and_cosine(r, low):
    """Of r + low for |r| <= pi/4 and a low far below r."""
    z = r * r
    if r.dtype == tl.float64:
        s = polynomial(z, (-0.16666666666666666, 0.008333333333333331, -0.0001984126984126504,
                           2.755731921932058e-06, -2.50521062259944e-08, 1.6058530596645953e-10,
                           -7.586636882825159e-13))
        c = polynomial(z, (0.041666666666666664, -0.0013888888888888887, 2.4801587301584632e-05,
                           -2.755731922139249e-07, 2.0876755787492604e-09, -1.1470460319209511e-11,
                           4.745838412531023e-14))
    else:
        s = polynomial(z, (-0.16666667, 0.008333332, -1.9840084e-04, 2.724962e-06))
        c = polynomial(z, (0.041666668, -0.0013888888, 2.4800598e-05, -2.7300703e-07))
    # sin(r + low) = sin r + low cos r, cos(r + low) = cos r - low sin r; 1 - z/2 is the head of the cosine.
    sine = r + tl.fma(r * z, s, tl.fma(-0.5 * z, low, low))
    head = 1.0 - 0.5 * z
    return sine, head + tl.fma(z * z, c, tl.fma(-r, low, tl.fma(-0.5, z, 1.0 - head)))


@libtile.jit
def sine_or_cosine(x, quadrants: tl.constexpr):
    """sin(x + quadrants pi/2); NaN for infinities."""
    size = tl.abs(x)
    quadrant, r, low = quarter_turns(tl.where(size < float("inf"), size, 0.0))
    quadrant += quadrants
    sine, cosine = sine_and_cosine(r, low)
    value = tl.where((quadrant & 1) != 0, cosine, sine)
    value = tl.where((quadrant & 2) != 0, -value, value)
    return tl.where(size < float("inf"), value, float("nan"))


@libtile.jit
def sin(x):
    """Sine of x in radians: error below 1.6 ulp (fp64: 1 ulp) for every x; sin(-0) = -0, NaN for infinities."""
    value = sine_or_cosine(x, 0)
    if x.dtype == tl.float64:
        sign = x.to(tl.int64, bitcast=True) & (-9223372036854775807 - 1)
        return (value.to(tl.int64, bitcast=True) ^ sign).to(tl.float64, bitcast=True)
    else:
        sign = x.to(tl.int32, bitcast=True) & (-2147483647 - 1)
        return (value.to(tl.int32, bitcast=True) ^ sign).to(tl.float32, bitcast=True)


@libtile.jit
def cos(x):
    """Cosine of x in radians: error below 1.6 ulp (fp64: 1 ulp) for every x; NaN for infinities."""
    return sine_or_cosine(x, 1)
