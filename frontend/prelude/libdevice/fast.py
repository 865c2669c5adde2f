# SPDX-License-Identifier: Apache-2.0
"""libdevice's fast_* functions: approximations there, here as exact as the others where that costs little."""
import libtile
import libtile.language as tl


@libtile.jit
def fast_sinf(arg0):
    return tl.sin(arg0)


@libtile.jit
def fast_cosf(arg0):
    return tl.cos(arg0)


@libtile.jit
def fast_tanf(arg0):
    return tl.extra.libdevice.tan(arg0)


@libtile.jit
def fast_tanhf(arg0):
    return tl.extra.libdevice.tanh(arg0)


@libtile.jit
def fast_expf(arg0):
    return tl.exp(arg0)


@libtile.jit
def fast_exp10f(arg0):
    """2^(x log2 10): the product is rounded, so that the error grows with x, to 80 ulp."""
    return tl.exp2(arg0 * 3.3219280948873623)


@libtile.jit
def fast_logf(arg0):
    return tl.log(arg0)


@libtile.jit
def fast_log2f(arg0):
    return tl.log2(arg0)


@libtile.jit
def fast_log10f(arg0):
    """Below 2.5 ulp."""
    return tl.log2(arg0) * 0.30102999566398120


@libtile.jit
def fast_powf(arg0, arg1):
    return tl.extra.libdevice.pow(arg0, arg1)


@libtile.jit
def fast_dividef(arg0, arg1):
    return tl.fdiv(arg0, arg1)
