# SPDX-License-Identifier: Apache-2.0
"""libdevice: exponentials, logarithms, powers and roots.

fp32 is computed in fp64 and rounded once, unless a function says otherwise: error below 0.51 ulp. Errors
named beside a function are those of fp64. Specials are those of C's functions of the same name.
"""
import libtile
import libtile.language as tl


# ---- those of the language

@libtile.jit
def exp(arg0):
    return tl.exp(arg0)


@libtile.jit
def exp2(arg0):
    return tl.exp2(arg0)


@libtile.jit
def log(arg0):
    return tl.log(arg0)


@libtile.jit
def log2(arg0):
    return tl.log2(arg0)


@libtile.jit
def sqrt(arg0):
    return tl.sqrt(arg0)


@libtile.jit
def rsqrt(arg0):
    return tl.rsqrt(arg0)


# ---- exponentials

@libtile.jit
def exp10(arg0):
    """Below 2.5 ulp. 10^x = 2^n e^(r ln 10) with n the nearest integer of x log2 10."""
    x = arg0.to(tl.float64)
    x = tl.where(x > 400.0, 400.0, tl.where(x < -400.0, -400.0, x))
    n = tl.rint(x * 3.321928094887362)
    # The first part of log10 2 has so few bits that n times it is exact.
    r = tl.fma(-n, -8.532344317057107e-14, tl.fma(-n, 0.3010299956640665, x))
    return tl.scalb(tl.exp(r * 2.302585092994046), n).to(arg0.dtype)


@libtile.jit
def expm1(arg0):
    """Below 2.5 ulp; exact 0 for 0, with its sign."""
    x = arg0.to(tl.float64)
    p, n = power_less_one(tl.where(x > 720.0, 720.0, x))
    # 2^n (p + (1 - 2^-n)); of n = 0 it is p.
    value = tl.scalb(p + (1.0 - tl.scalb(n * 0.0 + 1.0, -n)), n)
    value = tl.where(n == 0.0, p, value)
    value = tl.where(x == 0.0, x, value)
    return tl.where(x > 720.0, float("inf"), value).to(arg0.dtype)


# ---- logarithms

@libtile.jit
def log10(arg0):
    """Below 1 ulp. As log2, with log10 2 in two parts."""
    x = arg0.to(tl.float64)
    e, f = take_apart(x)
    head, tail = log_of_fraction(f)
    fraction = product(head, 0.4342944819032518)
    lost = tl.fma(head, 0.4342944819032518, -fraction)
    lost = tl.fma(tail, 0.4342944819032518, tl.fma(head, 1.098319650216765e-17, lost))
    # The first part of log10 2 has so few bits that e times it is exact.
    total = tl.fma(e, 0.3010299956640665, fraction)
    error = tl.fma(e, 0.3010299956640665, -total) + fraction
    return with_special_cases(x, total + (error + tl.fma(e, -8.532344317057107e-14, lost))).to(arg0.dtype)


@libtile.jit
def log1p(arg0):
    """Below 1.6 ulp; exact 0 for 0, with its sign."""
    return log_of_one_and(arg0.to(tl.float64)).to(arg0.dtype)


# ---- powers

@libtile.jit
def log2_in_two(x):
    """log2 x as a sum of two for positive finite fp64 x, error below 2^-66 of it.

    With s = f / (2 + f): log(1 + f) = s (2 + 2/3 s^2 + s^4 Q(s^2)); all but the last term in two parts.
    """
    e, f = take_apart(x)
    whole = 2.0 + f
    s = f / whole
    s_low = (tl.fma(-s, whole, f) - s * (f - (whole - 2.0))) / whole
    z = product(s, s)
    z_low = tl.fma(s, s, -z) + 2.0 * s * s_low
    q = polynomial(z, (0.4, 0.28571428571429364, 0.22222222221655943, 0.18181818335379513, 0.153845949639382,
                       0.1333480461663011, 0.11706238407260777, 0.11723157001190189))
    third = product(z, 0.6666666666666666)
    third_low = tl.fma(z, 0.6666666666666666, -third) + tl.fma(z, 3.700743415417188e-17, z_low * 0.6666666666666666)
    third_low += z * z * q
    factor = 2.0 + third
    factor_low = third - (factor - 2.0) + third_low
    total = factor + factor_low
    factor_low -= total - factor
    # The logarithm, then by 1 / ln 2.
    high = product(s, total)
    low = tl.fma(s, total, -high) + tl.fma(s, factor_low, s_low * total)
    log_high = product(high, 1.4426950408889634)
    log_low = tl.fma(high, 1.4426950408889634, -log_high)
    log_low += tl.fma(high, 2.0355273740931033e-17, low * 1.4426950408889634)
    # Where e is not 0 it is larger than the rest.
    total = e + log_high
    rest = tl.where(e == 0.0, 0.0, log_high - (total - e)) + log_low
    value = total + rest
    return value, rest - (value - total)


@libtile.jit
def power_of_size(size, y):
    """size^y for size >= 0 of fp64, below 1.2 ulp; right for 0 and infinities, 1 for size = 1."""
    usual = (size > 0.0) & (size < float("inf")) & (tl.abs(y) < float("inf"))
    high, low = log2_in_two(tl.where(usual, size, 1.0))
    # Of larger exponents the power overflows or vanishes as well: a logarithm is 0 or at least 2^-53.
    y = tl.minimum(tl.maximum(y, -(2.0 ** 70)), 2.0 ** 70)
    exponent = product(y, high)
    rest = tl.fma(y, high, -exponent) + y * low
    far = tl.abs(exponent) > 1100.0
    exponent = tl.where(far, tl.where(exponent > 0.0, 1100.0, -1100.0), exponent)
    n = tl.rint(exponent)
    r = (exponent - n) + tl.where(far, 0.0, rest)
    # (2^r - 1) / r
    p = polynomial(r, (0.6931471805599453, 0.24022650695910072, 0.055504108664821625, 0.00961812910762848,
                       0.0013333558146406467, 0.00015403530393370732, 1.5252733841561274e-05,
                       1.321548680870779e-06, 1.0178057085418509e-07, 7.054897303009422e-09,
                       4.455818319966744e-10, 2.5729326214820692e-11))
    value = tl.scalb(tl.fma(r, p, 1.0), n)
    grows = (size > 1.0) == (y > 0.0)
    limit = tl.where(size == 1.0, 1.0, tl.where(grows, float("inf"), 0.0))
    return tl.where(usual, value, limit)


@libtile.jit
def power(x, y):
    """x^y of fp64, as C's pow."""
    size = tl.abs(x)
    value = power_of_size(size, y)
    half = 0.5 * y
    whole = tl.rint(y) == y
    odd = whole & (tl.rint(half) != half)
    value = tl.where((bits_of(x) < 0) & odd, -value, value)
    value = tl.where((x < 0.0) & (size < float("inf")) & (tl.abs(y) < float("inf")) & (not whole), float("nan"), value)
    value = tl.where((x != x) | (y != y), float("nan"), value)
    return tl.where((x == 1.0) | (y == 0.0), 1.0, value)


@libtile.jit
def pow(arg0, arg1):
    """Below 1.2 ulp; an int32 exponent counts as the float of that value."""
    return power(arg0.to(tl.float64), arg1.to(tl.float64)).to(arg0.dtype)


# ---- roots

@libtile.jit
def cube_root(x):
    """Of fp64 x >= 0: a power, and one step of Newton with a residue that is nearly exact."""
    small = x < 2.0 ** -900
    a = tl.where(small, x * 2.0 ** 960, x)
    a = tl.where((a > 0.0) & (a < float("inf")), a, 1.0)
    y = tl.exp2(tl.log2(a) * 0.3333333333333333)
    square = product(y, y)
    residue = tl.fma(-square, y, a) - tl.fma(y, y, -square) * y
    y += residue / (3.0 * square)
    y = tl.where(small, y * 2.0 ** -320, y)
    return tl.where((x > 0.0) & (x < float("inf")), y, x)


@libtile.jit
def cbrt(arg0):
    """Below 0.6 ulp."""
    x = arg0.to(tl.float64)
    return with_sign(cube_root(tl.abs(x)), x).to(arg0.dtype)


@libtile.jit
def rcbrt(arg0):
    """Below 1.6 ulp."""
    x = arg0.to(tl.float64)
    return (1.0 / with_sign(cube_root(tl.abs(x)), x)).to(arg0.dtype)


@libtile.jit
def length(a, b, c, d):
    """(root, scale): sqrt(a^2 + b^2 + c^2 + d^2) = root / scale, a power of two, for fp64; inf if one is infinite."""
    a, b, c, d = tl.abs(a), tl.abs(b), tl.abs(c), tl.abs(d)
    most = tl.maximum(tl.maximum(a, b), tl.maximum(c, d))
    scale = tl.where(most > 2.0 ** 500, tl.full((), 2.0 ** -600, tl.float64),
                     tl.where(most < 2.0 ** -450, tl.full((), 2.0 ** 600, tl.float64), 1.0))
    a, b, c, d = a * scale, b * scale, c * scale, d * scale
    root = tl.sqrt(tl.fma(a, a, b * b) + tl.fma(c, c, d * d))
    return tl.where(most == float("inf"), most, root), scale


@libtile.jit
def norm_of(a, b, c, d, like):
    root, scale = length(a.to(tl.float64), b.to(tl.float64), tl.cast(c, tl.float64), tl.cast(d, tl.float64))
    return (root / scale).to(like.dtype)


@libtile.jit
def inverse_norm_of(a, b, c, d, like):
    root, scale = length(a.to(tl.float64), b.to(tl.float64), tl.cast(c, tl.float64), tl.cast(d, tl.float64))
    return (scale / root).to(like.dtype)


@libtile.jit
def hypot(arg0, arg1):
    """Below 1.5 ulp, as the norms below; their inverses 2.5 ulp."""
    return norm_of(arg0, arg1, 0.0, 0.0, arg0)


@libtile.jit
def rhypot(arg0, arg1):
    return inverse_norm_of(arg0, arg1, 0.0, 0.0, arg0)


@libtile.jit
def norm3d(arg0, arg1, arg2):
    return norm_of(arg0, arg1, arg2, 0.0, arg0)


@libtile.jit
def rnorm3d(arg0, arg1, arg2):
    return inverse_norm_of(arg0, arg1, arg2, 0.0, arg0)


@libtile.jit
def norm4d(arg0, arg1, arg2, arg3):
    return norm_of(arg0, arg1, arg2, arg3, arg0)


@libtile.jit
def rnorm4d(arg0, arg1, arg2, arg3):
    return inverse_norm_of(arg0, arg1, arg2, arg3, arg0)
