# SPDX-License-Identifier: Apache-2.0
"""libdevice: the gamma function, by Stirling's series from 8 on and the recurrence below; its logarithm from 1/2 to 3
by polynomials that keep its zeros, fits of our own.

fp32 is computed in fp64 and rounded once. Specials are those of C's functions of the same name.
"""
import libtile
import libtile.language as tl


@libtile.jit
def raised(x):
    """(y, p): y >= 8 and p = x (x + 1) ... (y - 1), for fp64 x >= 0.5."""
    product = tl.full(x.shape, 1.0, tl.float64)
    for _ in tl.static_range(8):
        below = x < 8.0
        product = tl.where(below, product * x, product)
        x = tl.where(below, x + 1.0, x)
    return x, product


@libtile.jit
def stirling_rest(x):
    """log gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2 for x >= 8."""
    z = 1.0 / (x * x)
    return polynomial(z, (0.08333333333333333, -0.002777777777773988, 0.0007936507897524059, -0.0005952365845057049,
                          0.0008414700852503147, -0.001890382993887715, 0.005065905360156132)) / x


@libtile.jit
def sine_of_turns(x):
    """sin(pi x) for |x| <= 1/2."""
    head = product(x, 3.141592653589793)
    sine, _ = sine_and_cosine_to_half(head, tl.fma(x, 3.141592653589793, -head) + x * 1.2246467991473532e-16)
    return sine


@libtile.jit
def sine_and_cosine_to_half(head, low):
    """Of head + low for |head| <= pi/2: from the half of it."""
    sine, cosine = sine_and_cosine(0.5 * head, 0.5 * low)
    return 2.0 * sine * cosine, cosine * cosine - sine * sine


@libtile.jit
def log_gamma_in_middle(x):
    """log gamma(x) for x from 1/2 to 3: x less the zero that is next, 1 or 2, times a polynomial."""
    first = x < 1.5
    t = tl.where(first, x - 1.0, x - 2.0)
    beside_1 = polynomial(2.0 * t, (
        -0.5772156649015329, 0.41123351671205655, -0.10017140859663283, 0.033822601053479215, -0.01296159693929511,
        0.005298661780914389, -0.0022507796368895602, 0.0009805442980769746, -0.0004348994784400015,
        0.00019550669938960455, -8.882225635458602e-05, 4.0700482911596765e-05, -1.8782530123863594e-05,
        8.718183257645187e-06, -4.0683292965356535e-06, 1.9125705100332427e-06, -9.001043748574675e-07,
        4.124357356492201e-07, -1.9522784780587107e-07, 1.1308438620887116e-07, -5.4015820715770284e-08,
        2.526829438240329e-09, -1.0693699369091374e-09, 1.889081792208472e-08, -9.143687204517106e-09,
        -5.158955192152566e-09, 2.5084309444514644e-09, 1.7300448143343167e-09, -8.387103803490076e-10))
    beside_2 = polynomial((t - 0.25) * 1.3333333333333333, (
        0.4994868595695864, 0.21917882116244464, -0.03054116466683435, 0.006196636568244012, -0.00147528422018824,
        0.0003832198800394913, -0.00010503681070229427, 2.9836329667639118e-05, -8.69038486239621e-06,
        2.5781217142369902e-06, -7.755374007946567e-07, 2.3583083834101397e-07, -7.233614070678952e-08,
        2.2348946472850323e-08, -6.9442011172837706e-09, 2.160926168625442e-09, -6.775885274811877e-10,
        2.2160031818362803e-10, -7.001023532537396e-11, 1.6323368951009147e-11, -5.167007974893094e-12,
        3.982737167496385e-12, -1.2728289026829804e-12))
    return t * tl.where(first, beside_1, beside_2)


@libtile.jit
def lgamma(arg0):
    """From 1/2 to 3 below 4 ulp (fp32: from 1/2 on 0.51). Else within 2^-47, or 8 ulp of the larger of result and, below
    1/2, log gamma(1 - x), which is taken away there (fp32: rounded once more); infinite at 0 and below at integers."""
    x = arg0.to(tl.float64)
    mirrored = x < 0.5
    size = tl.where(mirrored, 1.0 - x, x)
    y, product = raised(tl.where(size < float("inf"), size, 1.0))
    value = (y - 0.5) * (tl.log(y) - 1.0) + (stirling_rest(y) + (0.9189385332046728 - 0.5)) - tl.log(product)
    value = tl.where(size < 3.0, log_gamma_in_middle(tl.minimum(size, 3.0)), value)
    # gamma(x) gamma(1 - x) = pi / sin(pi x), which overflows where x is the least of numbers: its inverse.
    sine = sine_of_turns(x - tl.rint(x))
    value = tl.where(mirrored, -tl.log(tl.abs(sine) * 0.3183098861837907) - value, value)
    value = tl.where(value == 0.0, 0.0, value)
    return tl.where(tl.abs(x) < float("inf"), value, x * x).to(arg0.dtype)


@libtile.jit
def tgamma(arg0):
    """Below 20 ulp (fp32: 0.51); infinite at 0 with its sign, NaN below at integers."""
    x = arg0.to(tl.float64)
    mirrored = x < 0.5
    size = tl.minimum(tl.where(mirrored, 1.0 - x, x), 200.0)
    y, product = raised(size)
    # y^(y - 1/2) as a square, which overflows no sooner than the result.
    half = tl.extra.libdevice.pow(y, 0.5 * y - 0.25)
    other = half * tl.exp(-y) * tl.exp(stirling_rest(y)) * 2.5066282746310007 / product
    value = other * half
    # 1 - x is rounded; what is lost moves gamma by its logarithmic derivative.
    other *= 1.0 + tl.where(mirrored, (1.0 - size) - x, 0.0) * (tl.log(size) - 0.5 / size)
    sine = sine_of_turns(x - tl.rint(x))
    odd = tl.rint(0.5 * tl.rint(x)) != 0.5 * tl.rint(x)
    sine = tl.where(odd, -sine, sine)
    # Far below, gamma(1 - x) overflows before the quotient vanishes: in two factors.
    value = tl.where(mirrored, 3.141592653589793 / (sine * other) / half, value)
    value = tl.where((x < 0.0) & (tl.rint(x) == x), float("nan"), value)
    value = tl.where(x == 0.0, 1.0 / x, value)
    value = tl.where(x < -190.0, tl.where(tl.rint(x) == x, value, with_sign(sine * 0.0, sine)), value)
    return tl.where(x == float("inf"), x, tl.where(x != x, x, value)).to(arg0.dtype)
