# SPDX-License-Identifier: Apache-2.0
"""libdevice on integers and on the bits of floats, exact."""
import libtile
import libtile.language as tl


@libtile.jit
def abs(arg0):
    """The least integer stays."""
    return tl.abs(arg0)


@libtile.jit
def brev(arg0):
    return tl.brev(arg0)


@libtile.jit
def popc(arg0):
    return tl.popc(arg0).to(tl.int32)


@libtile.jit
def clz(arg0):
    """The width for 0."""
    return tl.clz(arg0).to(tl.int32)


@libtile.jit
def ffs(arg0):
    """Counted from 1; 0 for 0."""
    return arg0.dtype.primitive_bitwidth - clz(arg0 & -arg0)


@libtile.jit
def byte_perm(arg0, arg1, arg2):
    """Byte k of the result is that of arg0 (0 to 3) and arg1 (4 to 7) whose number stands in the k-th four bits of
    arg2; with their highest bit set it is the sign of that byte, eight times."""
    both = arg0.to(tl.uint32).to(tl.uint64) | (arg1.to(tl.uint32).to(tl.uint64) << 32)
    selector = arg2.to(tl.uint32)
    result = selector * 0
    for k in tl.static_range(4):
        chosen = selector >> (4 * k)
        byte = (both >> ((chosen & 7) * 8).to(tl.uint64)).to(tl.uint32) & 0xff
        sign = (byte >> 7) * 0xff
        result |= tl.where((chosen & 8) != 0, sign, byte) << (8 * k)
    return result.to(tl.int32)


@libtile.jit
def mulhi(arg0, arg1):
    return tl.mulhi(arg0, arg1)


@libtile.jit
def mul24(arg0, arg1):
    """The low 32 bits of the product of the low 24 bits of both."""
    return ((arg0 << 8) >> 8) * ((arg1 << 8) >> 8)


@libtile.jit
def sad(arg0, arg1, arg2):
    distance = tl.where(arg0 > arg1, arg0 - arg1, arg1 - arg0)
    return (distance.to(tl.uint32) + arg2).to(arg0.dtype)


@libtile.jit
def hadd(arg0, arg1):
    """(arg0 + arg1) >> 1 without overflow: what both have, and half of what one has."""
    return (arg0 & arg1) + ((arg0 ^ arg1) >> 1)


@libtile.jit
def rhadd(arg0, arg1):
    """(arg0 + arg1 + 1) >> 1 without overflow."""
    return (arg0 | arg1) - ((arg0 ^ arg1) >> 1)


@libtile.jit
def float_as_int(arg0):
    return arg0.to(tl.int32, bitcast=True)


@libtile.jit
def float_as_uint(arg0):
    return arg0.to(tl.int32, bitcast=True)


@libtile.jit
def int_as_float(arg0):
    return arg0.to(tl.float32, bitcast=True)


@libtile.jit
def uint_as_float(arg0):
    return arg0.to(tl.float32, bitcast=True)


@libtile.jit
def double_as_longlong(arg0):
    return arg0.to(tl.int64, bitcast=True)


@libtile.jit
def longlong_as_double(arg0):
    return arg0.to(tl.float64, bitcast=True)


@libtile.jit
def double2hiint(arg0):
    return (arg0.to(tl.int64, bitcast=True) >> 32).to(tl.int32)


@libtile.jit
def double2loint(arg0):
    return arg0.to(tl.int64, bitcast=True).to(tl.int32)


@libtile.jit
def hiloint2double(arg0, arg1):
    low = arg1.to(tl.uint32).to(tl.int64)
    return ((arg0.to(tl.int64) << 32) | low).to(tl.float64, bitcast=True)


@libtile.jit
def rcp64h(arg0):
    """1 / arg0, cut off behind its upper 32 bits."""
    bits = (1.0 / arg0).to(tl.int64, bitcast=True)
    return ((bits >> 32) << 32).to(tl.float64, bitcast=True)
