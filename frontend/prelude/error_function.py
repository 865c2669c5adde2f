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

    Below 1 it is x times a polynomial; above, 1 less a complement that is small: fp32 has its logarithm as a
    polynomial.
    """
    size = tl.abs(x)
    z = tl.minimum(x * x, 1.0)
    if x.dtype == tl.float64:
        # erf(x) / x - 1
        small = tl.fma(x, polynomial(z, (0.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.02686617064512984,
                                  0.0052239776254232985, -0.000854832702193483, 0.00012055332902888736, -1.4925647567519332e-05,
                                  1.6462045441468418e-06, -1.6364642158167616e-07, 1.4792401209404813e-08, -1.216456005728345e-09,
                                  8.709045129053106e-11, -4.230945824295338e-12)), x)
        far = tl.minimum(size, 6.0)
        complement = tl.exp(-far * far) * scaled_complement(far)
    else:
        small = tl.fma(x, polynomial(z, (0.12837917, -0.37612638, 0.11283782, -0.02686543, 0.0052210316,
                                         -8.4840803e-04, 1.1265959e-04, -9.667045e-06)), x)
        complement = tl.exp(polynomial(tl.minimum(size, 4.0), (
            3.1853965e-04, -1.130231, -0.6318239, -0.110087164, 0.026427638, -0.004762626, 5.9758575e-04,
            -4.616386e-05, 1.6430637e-06)))
    large = tl.where(x < 0.0, complement - 1.0, 1.0 - complement)
    value = tl.where(size < 1.0, small, large)
    return tl.where(x != x, x, value)
