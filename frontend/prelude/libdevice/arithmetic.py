# SPDX-License-Identifier: Apache-2.0
"""libdevice: arithmetic rounded in a given direction, right for every input: rd down, ru up, rz towards 0.

What a result to nearest lacks (prelude/directed.py) is for fp64 that of error-free transformations (J.-M. Muller
et al., Handbook of Floating-Point Arithmetic, Birkhaeuser 2018), and for a quotient or root a remainder; of fp32
the exact product or remainder fits into fp64.
"""
import libtile
import libtile.language as tl


@libtile.jit
def product_to(a, b, direction: tl.constexpr):
    if a.dtype == tl.float64:
        product = a * b
        # Small products would lose what they lack; their operands are far from overflow.
        small = tl.abs(product) < 2.0 ** -900
        first = tl.where(small, tl.full((), 2.0 ** 600, tl.float64), 1.0)
        second = tl.where(small, tl.full((), 2.0 ** 500, tl.float64), 1.0)
        lack = tl.fma(a * first, b * second, -(product * first * second))
        lack = lack_of_infinity(product, lack, is_finite(a) & is_finite(b))
        return directed(product, lack, direction)
    else:
        return narrowed_to(a.to(tl.float64) * b.to(tl.float64), direction)


@libtile.jit
def quotient_to(a, b, direction: tl.constexpr):
    quotient = tl.div_rn(a, b)
    usual = is_finite(a) & is_finite(b) & (b != 0.0)
    if a.dtype == tl.float64:
        m, e = binary_exponent(a)
        n, f = binary_exponent(b)
        q, g = binary_exponent(quotient)
        # The quotient in the scale of m / n: of 2^-2 to 2^2, or coarse where it is subnormal.
        q = times_power(q, g - e + f)
        rest = tl.fma(-q, n, m)
        rest = tl.where(b < 0.0, -rest, rest)
    else:
        rest = a.to(tl.float64) - quotient.to(tl.float64) * b.to(tl.float64)
        rest = tl.where(b < 0.0, -rest, rest)
    return directed(quotient, lack_of_infinity(quotient, tl.where(usual, rest, 0.0), usual), direction)


@libtile.jit
def root_to(a, direction: tl.constexpr):
    root = tl.sqrt(a)
    if a.dtype == tl.float64:
        small = a < 2.0 ** -900
        s = tl.where(small, root * 2.0 ** 100, root)
        rest = tl.fma(-s, s, tl.where(small, a * 2.0 ** 200, a))
    else:
        wide = root.to(tl.float64)
        rest = tl.fma(-wide, wide, a.to(tl.float64))
    return directed(root, tl.where(is_finite(a), rest, 0.0), direction)


@libtile.jit
def two_sum(a, b):
    total = a + b
    return total, lost_in_sum(a, b, total)


@libtile.jit
def lack_of_fma(a, b, c, nearest):
    """A number with the sign of a b + c less fma(a, b, c), for finite fp64 (S. Boldo, J.-M. Muller, Exact and
    approximated error of the FMA, IEEE Transactions on Computers 60, 2011).

    In the scale of fractions of a and b. Of product and addend the smaller one counts as 2^-250 of the other if it
    is less: it decides what is lacking by its sign alone.
    """
    m, e = binary_exponent(a)
    n, f = binary_exponent(b)
    k, g = binary_exponent(c)
    v, h = binary_exponent(nearest)
    apart = tl.where(c == 0.0, -250, g - e - f)
    apart = tl.where((a == 0.0) | (b == 0.0), 250, apart)
    held = tl.minimum(tl.maximum(apart, -250), 250)
    addend = times_power(k, held)
    scale = tl.where(apart > 250, held - g, -e - f)
    scale = tl.where((a == 0.0) | (b == 0.0), held - g, scale)
    result = times_power(v, h + scale)
    high = product(m, n)
    low = tl.fma(m, n, -high)
    first, rest = two_sum(addend, low)
    second, lost = two_sum(high, first)
    return ((second - result) + lost) + rest


@libtile.jit
def fma_to(a, b, c, direction: tl.constexpr):
    if a.dtype == tl.float64:
        nearest = tl.fma(a, b, c)
        finite = is_finite(a) & is_finite(b) & is_finite(c)
        lack = tl.where(finite & is_finite(nearest), lack_of_fma(a, b, c, nearest), 0.0)
        stepped = directed(nearest, lack_of_infinity(nearest, lack, finite), direction)
        # A product that underflows is no 0.
        part = with_sign(tl.where((a == 0.0) | (b == 0.0), a * b, 1.0), a * b)
        return tl.where(lack == 0.0, zero_sum(stepped, part, c, direction), stepped)
    else:
        return narrowed_to(sum_to(a.to(tl.float64) * b.to(tl.float64), c.to(tl.float64), direction), direction)


@libtile.jit
def add_rn(arg0, arg1):
    return arg0 + arg1


@libtile.jit
def sub_rn(arg0, arg1):
    return arg0 - arg1


@libtile.jit
def mul_rn(arg0, arg1):
    return arg0 * arg1


@libtile.jit
def div_rn(arg0, arg1):
    return tl.div_rn(arg0, arg1)


@libtile.jit
def fma_rn(arg0, arg1, arg2):
    return tl.fma(arg0, arg1, arg2)


@libtile.jit
def rcp_rn(arg0):
    return tl.div_rn(1.0, arg0)


@libtile.jit
def sqrt_rn(arg0):
    return tl.sqrt(arg0)


@libtile.jit
def add_rd(arg0, arg1):
    return sum_to(arg0, arg1, "rd")


@libtile.jit
def sub_rd(arg0, arg1):
    return sum_to(arg0, -arg1, "rd")


@libtile.jit
def mul_rd(arg0, arg1):
    return product_to(arg0, arg1, "rd")


@libtile.jit
def div_rd(arg0, arg1):
    return quotient_to(arg0, arg1, "rd")


@libtile.jit
def fma_rd(arg0, arg1, arg2):
    return fma_to(arg0, arg1, arg2, "rd")


@libtile.jit
def rcp_rd(arg0):
    return quotient_to(tl.full(arg0.shape, 1.0, arg0.dtype), arg0, "rd")


@libtile.jit
def sqrt_rd(arg0):
    return root_to(arg0, "rd")


@libtile.jit
def add_ru(arg0, arg1):
    return sum_to(arg0, arg1, "ru")


@libtile.jit
def sub_ru(arg0, arg1):
    return sum_to(arg0, -arg1, "ru")


@libtile.jit
def mul_ru(arg0, arg1):
    return product_to(arg0, arg1, "ru")


@libtile.jit
def div_ru(arg0, arg1):
    return quotient_to(arg0, arg1, "ru")


@libtile.jit
def fma_ru(arg0, arg1, arg2):
    return fma_to(arg0, arg1, arg2, "ru")


@libtile.jit
def rcp_ru(arg0):
    return quotient_to(tl.full(arg0.shape, 1.0, arg0.dtype), arg0, "ru")


@libtile.jit
def sqrt_ru(arg0):
    return root_to(arg0, "ru")


@libtile.jit
def add_rz(arg0, arg1):
    return sum_to(arg0, arg1, "rz")


@libtile.jit
def sub_rz(arg0, arg1):
    return sum_to(arg0, -arg1, "rz")


@libtile.jit
def mul_rz(arg0, arg1):
    return product_to(arg0, arg1, "rz")


@libtile.jit
def div_rz(arg0, arg1):
    return quotient_to(arg0, arg1, "rz")


@libtile.jit
def fma_rz(arg0, arg1, arg2):
    return fma_to(arg0, arg1, arg2, "rz")


@libtile.jit
def rcp_rz(arg0):
    return quotient_to(tl.full(arg0.shape, 1.0, arg0.dtype), arg0, "rz")


@libtile.jit
def sqrt_rz(arg0):
    return root_to(arg0, "rz")


@libtile.jit
def rsqrt_rn(arg0):
    """1 / sqrt(arg0), rounded correctly: of fp32 in fp64, one step of which is far less than what decides."""
    x = arg0.to(tl.float64)
    return (1.0 / tl.sqrt(x)).to(tl.float32)
