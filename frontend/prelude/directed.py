# SPDX-License-Identifier: Apache-2.0
"""Pieces of functions that round in a given direction: rd down, ru up, rz towards 0.

The result to nearest is computed together with a number that has the sign of what it lacks, and one step is
made where that is not the direction asked for.
"""
import libtile
import libtile.language as tl


@libtile.jit
def directed(nearest, lack, direction: tl.constexpr):
    """The neighbour of `nearest` if the exact result less it has the sign of `lack` (0 or NaN: it is exact)."""
    if direction == "rd":
        return tl.where(lack < 0.0, next_down(nearest), nearest)
    elif direction == "ru":
        return tl.where(lack > 0.0, next_up(nearest), nearest)
    else:
        down, up = (lack < 0.0) & (nearest > 0.0), (lack > 0.0) & (nearest < 0.0)
        return tl.where(down, next_down(nearest), tl.where(up, next_up(nearest), nearest))


@libtile.jit
def lack_of_infinity(nearest, lack, finite):
    """Infinity is too far from a finite result: where all operands are finite."""
    return tl.where(tl.abs(nearest) == float("inf"), tl.where(finite, -nearest, 0.0), lack)


@libtile.jit
def lost_in_sum(a, b, total):
    """a + b less the rounded total, exactly (where that is finite)."""
    swap = tl.abs(a) < tl.abs(b)
    large, small = tl.where(swap, b, a), tl.where(swap, a, b)
    return small - (total - large)


@libtile.jit
def zero_sum(total, a, b, direction: tl.constexpr):
    """Downwards 0 is -0, unless both of its parts are +0."""
    if direction == "rd":
        return tl.where((total == 0.0) & ((bits_of(a) | bits_of(b)) != 0), -0.0, total)
    else:
        return total


@libtile.jit
def sum_to(a, b, direction: tl.constexpr):
    total = a + b
    lack = lack_of_infinity(total, lost_in_sum(a, b, total), is_finite(a) & is_finite(b))
    # Where something is lost the sum is no 0: sums of floats do not underflow.
    return zero_sum(directed(total, lack, direction), a, b, direction)


@libtile.jit
def narrowed_to(x, direction: tl.constexpr):
    """fp64 as fp32."""
    nearest = x.to(tl.float32)
    back = nearest.to(tl.float64)
    lack = tl.where(back > x, -1.0, tl.where(back < x, 1.0, 0.0))
    return directed(nearest, lack, direction)
