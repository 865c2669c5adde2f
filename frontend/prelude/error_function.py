# SPDX-License-Identifier: Apache-2.0
"""The error function and its complement, as prelude/math.py has the other elementary functions.

Coefficients are Chebyshev fits of the functions named beside them. The complement is fitted over a fraction
of x that takes [0, inf) to [-1, 1) (M. M. Shepherd, J. G. Laframboise, Chebyshev approximation of
(1 + 2x) exp(x^2) erfc x, Math. Comp. 36, 1981).
"""
import libtile
import libtile.language as tl


@libtile.jit
def scaled_complement(x):
    """exp(x^2) erfc(x) for fp64 x >= 0: error below 4 ulp; 0 for inf."""
    near = tl.minimum(x, 2.0 ** 100)
    t = (near - 3.0) / (near + 3.0)
    p = polynomial(t, (1.2530080582697296, -0.13562110612458111, -0.04756229435345081, 0.12964515870275467,
                          -0.11927366341531323, 0.06830802734415681, -0.023770514918458382, 0.0025293918136220454,
                          0.0018886903565861653, -0.0007798322536798543, -0.00010515978043799876, 0.000125099268228489,
                          4.94939653562609e-06, -2.0100323320843498e-05, -7.312533165075165e-07, 3.471951922389832e-06,
                          3.563518980777751e-07, -6.160830253559502e-07, -1.4100490643320885e-07, 1.0143721018814486e-07,
                          4.1352776247877285e-08, -1.313907394027125e-08, -8.303467649672259e-09, 9.535427812788092e-10,
                          8.495815229367698e-10))
    return p / (1.0 + 2.0 * x)


@libtile.jit
def erf(x):
    """Error function: error below 1.5 ulp; erf(-0) = -0, erf(inf) = 1.

    Below 1 it is x times a polynomial; above, 1 less a complement that is small: fp32 has its logarithm to base 2 as a
    polynomial.
    """
    if x.dtype != tl.float64:
        return erf_of_single(x)
    size = tl.abs(x)
    z = tl.minimum(x * x, 1.0)
    # erf(x) / x - 1
    small = tl.fma(x, polynomial(z, (0.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.02686617064512984,
                              0.0052239776254232985, -0.000854832702193483, 0.00012055332902888736, -1.4925647567519332e-05,
                              1.6462045441468418e-06, -1.6364642158167616e-07, 1.4792401209404813e-08, -1.216456005728345e-09,
                              8.709045129053106e-11, -4.230945824295338e-12)), x)
    far = tl.minimum(size, 6.0)
    complement = tl.exp(-far * far) * scaled_complement(far)
    large = tl.where(x < 0.0, complement - 1.0, 1.0 - complement)
    value = tl.where(size < 1.0, small, large)
    return tl.where(x != x, x, value)


@libtile.jit
def erf_of_single(x):
    """erf of fp32. The two polynomials are one whose coefficients are chosen: of x^2, or of |x|, weighted by the complement.

    From 4 on the complement is below half a unit of 1. The bits of the sum with 1.5 * 2^23 end in the power's exponent.
    """
    size = tl.abs(x)
    is_far = size >= 1.0
    z = tl.where(is_far, tl.minimum(size, 4.0), x * x)
    p = tl.where(is_far, 2.6772798e-04, 7.889119e-05)
    p = tl.fma(p, z, tl.where(is_far, -0.004240969, -0.00080208413))
    p = tl.fma(p, z, tl.where(is_far, 0.031458472, 0.0051895353))
    p = tl.fma(p, z, tl.where(is_far, -0.1486516, -0.026854445))
    p = tl.fma(p, z, tl.where(is_far, -0.9207649, 0.112836))
    p = tl.fma(p, z, tl.where(is_far, -1.6259751, -0.37612627))
    p = tl.fma(p, z, tl.where(is_far, -5.102941e-04, 0.12837917))
    shifted = p + 1.5 * 2.0 ** 23
    power = polynomial(p - (shifted - 1.5 * 2.0 ** 23), (1.0, 0.69314723, 0.24022107, 0.055502973, 0.009676036, 0.001341))
    complement = power.to(tl.int32, bitcast=True) + (shifted.to(tl.int32, bitcast=True) << 23)
    far = (1.0 - complement.to(tl.float32, bitcast=True)).to(tl.int32, bitcast=True)
    sign = x.to(tl.int32, bitcast=True) & -0x80000000
    return tl.where(is_far, (far | sign).to(tl.float32, bitcast=True), tl.fma(x, p, x))
