# SPDX-License-Identifier: Apache-2.0
"""The standard library of the kernel language: functions that language.def declares in LIBRARY rows.

Each is inlined where it is called, as a jit function is: on tiles of any shape, on scalars, and on
constants, which give constants. A function goes here when others of the language express it well
(softmax, sigmoid, cumulative sums, sorting, random numbers); an op pays when a target has an
instruction for it or when passes want to know it (docs/adding-an-op.md).
"""
import libtile
import libtile.language as tl


@libtile.jit
def cdiv(x, div):
    """The least integer that is not below x / div, for div > 0 and x > -div.

    Constants give a constant. x + div - 1 must not overflow.
    """
    return (x + (div - 1)) // div


@libtile.jit
def wide(x):
    """16-bit floats as fp32, others as they are."""
    x = tl.to_tensor(x)
    if x.dtype.primitive_bitwidth == 16 and x.dtype.is_floating():
        return x.to(tl.float32)
    else:
        return x


@libtile.jit
def sigmoid(x):
    """1 / (1 + exp(-x)), which is 0 where exp overflows; 16-bit floats in fp32, rounded once."""
    x = tl.to_tensor(x)
    y = wide(x)
    return (1.0 / (1.0 + tl.exp(-y))).to(x.dtype)


@libtile.jit
def softmax(x, dim=None, *, keep_dims=None, ieee_rounding=False):
    """exp(x - max) / sum along the axis; 16-bit floats in fp32, rounded once."""
    axis: tl.constexpr = 0 if dim is None else dim
    y = wide(x)
    power = tl.exp(y - tl.max(y, axis, keep_dims=True))
    return tl.fdiv(power, tl.sum(power, axis, keep_dims=True), ieee_rounding).to(x.dtype)


@libtile.jit
def expect_zero(x, mask):
    """x, which is 0 where mask is true, whatever else it is there."""
    tl.device_assert((x == 0) | (mask == 0), "expect_zero: x is not 0 where mask is true")
    return x


@libtile.jit
def swizzle2d(i, j, size_i, size_j, size_g):
    """Where the (i size_j + j)-th place lies if each group of size_g rows is walked column by column.

    The last group has the rows that are left.
    """
    index = i * size_j + j
    group = size_g * size_j
    first = index // group * size_g
    rows = tl.minimum(size_i - first, size_g)
    inside = index % group
    return first + inside % rows, inside // rows
