# SPDX-License-Identifier: Apache-2.0
"""Blocks of strided arrays: what block pointers and tensor descriptors stand for.

A block has an extent an axis (`block_shape`, constants) and begins at `offsets` of an array that has
`shape` and `strides` (in elements). Where elements lie is computed as a kernel would write it by hand, so
that passes see in it what they see there.
"""
import libtile
import libtile.language as tl


@libtile.jit
def alone(x, rank: tl.constexpr, axis: tl.constexpr):
    """A tile with one axis as one with `rank` axes, of which the others have extent 1."""
    for other in tl.static_range(rank):
        if other != axis:
            x = tl.expand_dims(x, other)
    return x


@libtile.jit
def along(offset, rank: tl.constexpr, axis: tl.constexpr, extent: tl.constexpr):
    """The indices of a block along an axis: offset, offset + 1, ..."""
    return offset.to(tl.int64) + alone(tl.arange(0, extent), rank, axis)


@libtile.jit
def inside(size, offset, rank: tl.constexpr, axis: tl.constexpr, extent: tl.constexpr):
    """Which of these indices lie in an axis of that size.

    The ends are moved instead of the indices, so that 32 bits are enough for what is done with each.
    """
    start = offset.to(tl.int64)
    first = tl.minimum(tl.maximum(-start, 0), extent).to(tl.int32)
    last = tl.minimum(tl.maximum(size.to(tl.int64) - start, 0), extent).to(tl.int32)
    index = tl.arange(0, extent)
    return alone((index >= first) & (index < last), rank, axis)


@libtile.jit
def block_pointers(base, strides, offsets, block_shape):
    """Pointers to the elements of the block."""
    pointers = base
    for axis in tl.static_range(len(block_shape)):
        pointers = pointers + along(offsets[axis], len(block_shape), axis, block_shape[axis]) * strides[axis]
    return pointers


@libtile.jit
def block_mask(shape, offsets, block_shape, axes):
    """Which elements of the block lie in the array along these axes; None: there are no axes."""
    mask = None
    for i in tl.static_range(len(axes)):
        here = inside(shape[axes[i]], offsets[axes[i]], len(block_shape), axes[i], block_shape[axes[i]])
        if mask is None:
            mask = here
        else:
            mask = mask & here
    return mask


@libtile.jit
def rows_pointers(base, strides, rows, column, columns: tl.constexpr):
    """Pointers to `columns` elements from `column` on of each of the rows, of a matrix."""
    return base + rows.to(tl.int64)[:, None] * strides[0] + along(column, 2, 1, columns) * strides[1]


@libtile.jit
def rows_mask(shape, rows, column, columns: tl.constexpr):
    """Which of these elements lie in the matrix."""
    row = rows.to(tl.int64)[:, None]
    return (row >= 0) & (row < shape[0]) & inside(shape[1], column, 2, 1, columns)


@libtile.jit
def round_to_tf32(x):
    """fp32 with 10 bits of mantissa: the nearest, of two the one further from 0. A NaN stays one."""
    bits = x.to(tl.uint32, bitcast=True)
    rounded = (bits + 0x1000) & 0xFFFFE000
    return tl.where((bits & 0x7F800000) == 0x7F800000, x, rounded.to(tl.float32, bitcast=True))
