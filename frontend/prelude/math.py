# SPDX-License-Identifier: Apache-2.0
"""Elementary functions: what exp, log and the like are where a target has no instruction for them.

A function bears the mnemonic of its op (a FUNCTION row of ir/ops.def). Parameters are scalars, fp32 or
fp64; fp16 and bf16 go through fp32. The code is straight, without branches on values, so that it runs
on whole vectors, and it is defined for every input.

Errors are against the exact value in units of the last place (ulp), found over floats and random
doubles (tests/cpu/test_math.cpp). Results below the least normal number are no less exact. A sum may
be fused with a product that goes into it (docs/semantics.md): where an error is computed, products
stand in tl.fma, so that it is the same on every target. Coefficients are Chebyshev fits of the
functions named beside them.

References: W. J. Cody, W. Waite, Software Manual for the Elementary Functions, Prentice-Hall 1980
(reduction with a constant in two parts); J.-M. Muller, Elementary Functions, Birkhaeuser 2016; P. T. P.
Tang, Table-driven implementation of the logarithm function, ACM TOMS 16 (1990).
"""
import libtile
import libtile.language as tl


# ---- pieces

@libtile.jit
def polynomial(x, coefficients: tl.constexpr):
    """coefficients[0] + coefficients[1] x + ..., from the highest power down."""
    last: tl.constexpr = len(coefficients) - 1
    value = tl.full((), coefficients[last], x.dtype)
    for i in tl.static_range(1, last + 1):
        value = tl.fma(value, x, coefficients[last - i])
    return value


@libtile.jit
def exponent(x, low: tl.constexpr, high: tl.constexpr):
    """(keep, y): whether the power of x is more than 0, and x as an exponent that gives no 0.

    keep is false below `low`, where powers are 0. y is 0 there, at most `high`, and else x; a NaN stays. So
    no power is computed that vanishes: a CPU may spend a hundred cycles on an instruction whose exact
    result lies below the least normal number, one that rounds to 0 too, and zeros are common (softmax
    over masked-off elements).
    """
    keep = not (x < low)
    return keep, tl.where(keep, tl.where(x > high, high, x), 0.0)


@libtile.jit
def scalb(x, n):
    """x * 2^n for an integer n, |n| <= 252 (fp64: 2044); other n give some number.

    In two factors of about 2^(n/2), which are normal numbers, so the result overflows and underflows as it
    should; it is rounded once where |x| >= 2^-100. Adding 1.5 * 2^p puts an integer into the low bits of a
    float, here with the exponents' bias for both factors, so there is no conversion, which a NaN would need
    a rule for; what stands above the exponent falls out as that is moved to its place.
    """
    if x.dtype == tl.float64:
        both = (n + (1.5 * 2.0 ** 52 + 2 * 1023)).to(tl.int64, bitcast=True)
        half = both >> 1
        power = (half << 52).to(tl.float64, bitcast=True)
        rest = ((both - half) << 52).to(tl.float64, bitcast=True)
    else:
        both = (n + (1.5 * 2.0 ** 23 + 2 * 127)).to(tl.int32, bitcast=True)
        half = both >> 1
        power = (half << 23).to(tl.float32, bitcast=True)
        rest = ((both - half) << 23).to(tl.float32, bitcast=True)
    return x * power * rest


# ---- exponentials

@libtile.jit
def exp_of_rest(x, n):
    """e^(x - n ln 2) for an integer n and |x - n ln 2| up to ln 2 / 2 (Cody and Waite). The first part of ln 2 has so few
    bits that n times it is exact."""
    if x.dtype == tl.float64:
        r = tl.fma(-n, 2.8235290563031577e-13, tl.fma(-n, 0.693147180559663, x))
        # Behind the first two (e^r - 1 - r) / r^2.
        return polynomial(r, (1.0, 1.0, 0.5000000000000001, 0.16666666666666669, 0.04166666666662413,
                              0.008333333333330062, 0.0013888888917213717, 0.00019841269863053618,
                              2.4801521295954376e-05, 2.7557268459997064e-06, 2.7620088445409746e-07,
                              2.510038549551032e-08))
    else:
        r = tl.fma(-n, 1.4286068203094173e-06, tl.fma(-n, 0.693145751953125, x))
        return polynomial(r, (1.0, 1.0, 0.5, 0.166665763, 0.0416665561, 0.00836317893, 0.0013926184))


@libtile.jit
def exp(x):
    """e^x: error below 1.1 ulp for every x; exp(-inf) = 0, exp(inf) = inf, exp(0) = 1.

    e^x = 2^n e^r with n the nearest integer of x / ln 2.
    """
    if x.dtype == tl.float64:
        # Beyond, the result is 0 or infinite anyway.
        keep, x = exponent(x, -746.0, 710.0)
        n = tl.fma(x, 1.4426950408889634, 1.5 * 2.0 ** 52) - 1.5 * 2.0 ** 52
    else:
        keep, x = exponent(x, -104.0, 89.0)
        n = tl.fma(x, 1.4426950408889634, 1.5 * 2.0 ** 23) - 1.5 * 2.0 ** 23
    return tl.where(keep, tl.scalb(exp_of_rest(x, n), n), 0.0)


@libtile.jit
def exp2_of_rest(r):
    """2^r for |r| <= 1/2."""
    if r.dtype == tl.float64:
        # Behind the first (2^r - 1) / r.
        return polynomial(r, (1.0, 0.6931471805599453, 0.24022650695910072, 0.055504108664821625,
                              0.00961812910762848, 0.0013333558146406467, 0.00015403530393370732,
                              1.5252733841561274e-05, 1.321548680870779e-06, 1.0178057085418509e-07,
                              7.054897303009422e-09, 4.455818319966744e-10, 2.5729326214820692e-11))
    else:
        return polynomial(r, (1.0, 0.693147182, 0.240226507, 0.0555035695, 0.00961808302, 0.00133908656,
                              0.000154531648))


@libtile.jit
def exp2(x):
    """2^x: error below 1 ulp for every x; exact for integers, 0 for -inf, inf for inf.

    2^x = 2^n 2^r with n the nearest integer of x; x - n is exact.
    """
    if x.dtype == tl.float64:
        keep, x = exponent(x, -1075.0, 1025.0)
        n = (x + 1.5 * 2.0 ** 52) - 1.5 * 2.0 ** 52
    else:
        keep, x = exponent(x, -150.0, 129.0)
        n = (x + 1.5 * 2.0 ** 23) - 1.5 * 2.0 ** 23
    return tl.where(keep, tl.scalb(exp2_of_rest(x - n), n), 0.0)


# Of numbers that are at most 0 (Attr::nonpositive). Nothing overflows, so one offset of exponents suffices where scalb is code:
# the sum that rounds x to an integer n ends in the exponent of 2^(n + 65), which is a normal number wherever 2^n counts, and
# 2^-65 is taken off in the last product, the one that rounds.

@libtile.jit
def exp_nonpositive(x):
    """exp where x is at most 0 or a NaN: the same numbers; other x give some number."""
    if x.dtype == tl.float64:
        keep = not (x < -746.0)
        x = tl.where(keep, x, 0.0)
        shifted = tl.fma(x, 1.4426950408889634, 1.5 * 2.0 ** 52 + 1023 + 513)
        p = exp_of_rest(x, shifted - (1.5 * 2.0 ** 52 + 1023 + 513))
    else:
        keep = not (x < -104.0)
        x = tl.where(keep, x, 0.0)
        shifted = tl.fma(x, 1.4426950408889634, 1.5 * 2.0 ** 23 + 127 + 65)
        p = exp_of_rest(x, shifted - (1.5 * 2.0 ** 23 + 127 + 65))
    return tl.where(keep, raised_power(p, shifted), 0.0)


@libtile.jit
def exp2_nonpositive(x):
    """exp2 where x is at most 0 or a NaN: the same numbers; other x give some number."""
    if x.dtype == tl.float64:
        keep = not (x < -1075.0)
        x = tl.where(keep, x, 0.0)
        shifted = x + (1.5 * 2.0 ** 52 + 1023 + 513)
        p = exp2_of_rest(x - (shifted - (1.5 * 2.0 ** 52 + 1023 + 513)))
    else:
        keep = not (x < -150.0)
        x = tl.where(keep, x, 0.0)
        shifted = x + (1.5 * 2.0 ** 23 + 127 + 65)
        p = exp2_of_rest(x - (shifted - (1.5 * 2.0 ** 23 + 127 + 65)))
    return tl.where(keep, raised_power(p, shifted), 0.0)


# Where scalb is an instruction. Nothing has to be kept out of it but what gives 0, and that is masked off there: -inf has a
# NaN for its rest, and no power is computed that vanishes (`exponent`).

@libtile.jit
def exp_nonpositive_scaled(x):
    """exp_nonpositive by scalb."""
    if x.dtype == tl.float64:
        n = tl.fma(x, 1.4426950408889634, 1.5 * 2.0 ** 52) - 1.5 * 2.0 ** 52
        return tl.where(not (x < -746.0), tl.scalb(exp_of_rest(x, n), n), 0.0)
    else:
        n = tl.fma(x, 1.4426950408889634, 1.5 * 2.0 ** 23) - 1.5 * 2.0 ** 23
        return tl.where(not (x < -104.0), tl.scalb(exp_of_rest(x, n), n), 0.0)


@libtile.jit
def exp2_nonpositive_scaled(x):
    """exp2_nonpositive by scalb."""
    if x.dtype == tl.float64:
        n = (x + 1.5 * 2.0 ** 52) - 1.5 * 2.0 ** 52
        return tl.where(not (x < -1075.0), tl.scalb(exp2_of_rest(x - n), n), 0.0)
    else:
        n = (x + 1.5 * 2.0 ** 23) - 1.5 * 2.0 ** 23
        return tl.where(not (x < -150.0), tl.scalb(exp2_of_rest(x - n), n), 0.0)


@libtile.jit
def raised_power(p, shifted):
    """p * 2^n, where `shifted` ends in the exponent of 2^(n + 65) (fp64: 513)."""
    if p.dtype == tl.float64:
        return p * (shifted.to(tl.int64, bitcast=True) << 52).to(tl.float64, bitcast=True) * 2.0 ** -513
    else:
        return p * (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True) * 2.0 ** -65


# ---- logarithms

@libtile.jit
def take_apart(x):
    """(e, f) with x = 2^e (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x."""
    if x.dtype == tl.float64:
        # Numbers below the least normal one are scaled first. Subtracting the bits of sqrt(1/2) makes the
        # exponent that of a fraction from there on; the exponent plus 1024 (128) is read as the low bits of
        # a float.
        small = x < 2.0 ** -1022
        shifted = tl.where(small, x * 2.0 ** 54, x).to(tl.uint64, bitcast=True) - 0x3fe6a09e667f3bcd
        one = ((shifted & 0xfffffffffffff) + 0x3fe6a09e667f3bcd).to(tl.float64, bitcast=True)
        raised = ((shifted + (1024 << 52)) >> 52) | 0x4330000000000000
        e = raised.to(tl.float64, bitcast=True) - tl.where(
            small, tl.full((), 2.0 ** 52 + 1024 + 54, tl.float64), 2.0 ** 52 + 1024)
    else:
        small = x < 2.0 ** -126
        shifted = tl.where(small, x * 2.0 ** 25, x).to(tl.uint32, bitcast=True) - 0x3f3504f3
        one = ((shifted & 0x7fffff) + 0x3f3504f3).to(tl.float32, bitcast=True)
        raised = ((shifted + (128 << 23)) >> 23) | 0x4b000000
        e = raised.to(tl.float32, bitcast=True) - tl.where(
            small, tl.full((), 2.0 ** 23 + 128 + 25, tl.float32), 2.0 ** 23 + 128)
    return e, one - 1.0


@libtile.jit
def log_of_fraction(f):
    """log(1 + f) for f in [-0.3, 0.42) as a sum of two; the first is f - f^2/2, rounded."""
    half = 0.5 * f
    head = tl.fma(-half, f, f)
    # f - head is exact.
    lost = tl.fma(-half, f, f - head)
    if f.dtype == tl.float64:
        # With s = f / (2 + f): log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)), R(z) = z p(z).
        s = f / (2.0 + f)
        z = s * s
        p = polynomial(z, (0.666666666666667, 0.39999999999899444, 0.2857142862600327,
                           0.22222211130259878, 0.18182889455674947, 0.15331710618210773,
                           0.14616585424888623))
        tail = tl.fma(s, tl.fma(z, p, half * f), lost)
    else:
        # (log(1 + f) - f + f^2/2) / f^3
        p = polynomial(f, (0.333333313, -0.24999997, 0.200007156, -0.166678026, 0.142490581,
                           -0.124256872, 0.116854198, -0.114797339, 0.0697161183))
        tail = tl.fma(f * f * f, p, lost)
    return head, tail


@libtile.jit
def with_special_cases(x, value):
    """The logarithm, where `value` is right for positive finite x: -inf for 0, inf for inf, else NaN."""
    # x + x keeps inf and NaN.
    special = tl.where(x == 0.0, -float("inf"), x + x)
    special = tl.where(x < 0.0, float("nan"), special)
    return tl.where((x > 0.0) & (x < float("inf")), value, special)


@libtile.jit
def log(x):
    """Natural logarithm: error below 0.7 ulp; log(0) = -inf, log(inf) = inf, NaN below 0.

    log x = e ln 2 + log(1 + f); the first part of ln 2 has so few bits that e times it is exact, and where e
    is not 0 that product is larger than the rest.
    """
    e, f = take_apart(x)
    head, tail = log_of_fraction(f)
    if x.dtype == tl.float64:
        high: tl.constexpr = 0.693147180559663
        low: tl.constexpr = 2.8235290563031577e-13
    else:
        high: tl.constexpr = 0.693145751953125
        low: tl.constexpr = 1.4286068203094173e-06
    total = tl.fma(e, high, head)
    error = tl.fma(e, high, -total) + head
    return with_special_cases(x, total + (error + tl.fma(e, low, tail)))


@libtile.jit
def log2(x):
    """Logarithm to base 2: error below 0.8 ulp; exact for powers of 2, -inf for 0, NaN below 0.

    log2 x = e + log(1 + f) / ln 2, with 1 / ln 2 in two parts. Where e is not 0 it is at least twice as
    large as the rest, so e minus the rounded sum is exact.
    """
    e, f = take_apart(x)
    head, tail = log_of_fraction(f)
    if x.dtype == tl.float64:
        high: tl.constexpr = 1.4426950408889634
        low: tl.constexpr = 2.0355273740931033e-17
    else:
        high: tl.constexpr = 1.4426950216293335
        low: tl.constexpr = 1.925963033500011e-08
    total = tl.fma(head, high, e)
    error = tl.fma(head, high, e - total)
    return with_special_cases(x, total + tl.fma(tail, high, tl.fma(head, low, error)))


# ---- roots

@libtile.jit
def rsqrt(x):
    """1 / sqrt(x): error below 1.5 ulp, from two correct roundings; inf for 0, NaN below 0."""
    return 1.0 / tl.sqrt(x)


# ---- pieces of functions of other files

@libtile.jit
def power_of_two(bits):
    """2^n of fp64, where the low bits of the 64-bit integer are n + 2^k: n lies in the exponent's range."""
    return ((bits << 52) + (1023 << 52)).to(tl.float64, bitcast=True)


@libtile.jit
def power_less_one(x):
    """(p, n): e^x = 2^n (1 + p) for fp64, p below 1 ulp also where it is small. x is at most 720, and counts as -60
    below that."""
    x = tl.where(x < -60.0, -60.0, x)
    n = tl.fma(x, 1.4426950408889634, 1.5 * 2.0 ** 52) - 1.5 * 2.0 ** 52
    r = tl.fma(-n, 2.8235290563031577e-13, tl.fma(-n, 0.693147180559663, x))
    q = polynomial(r, (0.5000000000000001, 0.16666666666666669, 0.04166666666662413, 0.008333333333330062,
                       0.0013888888917213717, 0.00019841269863053618, 2.4801521295954376e-05,
                       2.7557268459997064e-06, 2.7620088445409746e-07, 2.510038549551032e-08))
    return tl.fma(r * r, q, r), n


@libtile.jit
def log_of_one_and(x):
    """log(1 + x) for fp64: below 1.6 ulp; the logarithm of the rounded sum, and what was lost as its derivative."""
    whole = 1.0 + x
    lost = tl.where(tl.abs(x) < 1.0, x - (whole - 1.0), 1.0 - (whole - x))
    usual = (whole > 0.0) & (whole < float("inf"))
    value = tl.log(whole) + tl.where(usual, lost / whole, 0.0)
    return tl.where(x == 0.0, x, value)
