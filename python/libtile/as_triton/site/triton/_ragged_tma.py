# SPDX-License-Identifier: Apache-2.0
"""`triton.tools.ragged_tma`: one descriptor for slices of different lengths that lie behind each other along an axis. What is
outside of a slice is read as zero and not written.

The descriptor has two coordinates along that axis: one grows, and its extent ends where a slice does; the other moves back
to where the slice lies.
"""
import triton.language as tl
from triton._jit import jit
from libtile.tools.tensor_descriptor import TensorDescriptor

_END = tl.constexpr(1 << 30)  # above every row, with which a slice's end is the extent's


def create_ragged_descriptor(T, block_shape, ragged_dim=0):
    """Of a tensor of at most 4 axes; slices lie along `ragged_dim`."""
    rank = len(T.shape)
    axis = ragged_dim + rank if ragged_dim < 0 else ragged_dim
    if not 0 <= axis < rank or rank > 4 or len(block_shape) != rank:
        raise ValueError(f"a ragged descriptor is of 1 to 4 axes, with one of them ragged and an extent of a block for each; "
                         f"got {rank} axes, {ragged_dim} and {list(block_shape)}")
    plain = TensorDescriptor.from_tensor(T, list(block_shape))
    if plain.shape[axis] >= _END.value:
        raise ValueError(f"the ragged axis has 2^30 rows or more: {plain.shape[axis]}")
    shape = [*plain.shape[:axis], _END.value, *plain.shape[axis + 1:]]
    return TensorDescriptor(T, [_END.value + 1, *shape], [-plain.strides[axis], *plain.strides], [1, *block_shape])


@jit
def to_ragged_indices(slice_off, slice_size, row):
    """How far back, and the row, of a row of the slice that begins at slice_off."""
    return _END - slice_size - slice_off, _END - slice_size + row


@jit
def _coordinates(slice_off, slice_size, coords, ragged_dim: tl.constexpr):
    back, row = to_ragged_indices(slice_off, slice_size, coords[ragged_dim])
    return (back,) + coords[:ragged_dim] + (row,) + coords[ragged_dim + 1:]


@jit
def load_ragged(TMA, slice_off, slice_size, coords, ragged_dim: tl.constexpr = 0):
    """The block at coordinates within the slice."""
    block = TMA.load(_coordinates(slice_off, slice_size, coords, ragged_dim))
    return tl.reshape(block, block.shape[1:])


@jit
def store_ragged(TMA, slice_off, slice_size, coords, data, ragged_dim: tl.constexpr = 0):
    """Writes the block at coordinates within the slice."""
    TMA.store(_coordinates(slice_off, slice_size, coords, ragged_dim), tl.expand_dims(data, 0))


@jit
def atomic_add_ragged(TMA, slice_off, slice_size, coords, data, ragged_dim: tl.constexpr = 0):
    """Adds the block at coordinates within the slice."""
    TMA.atomic_add(_coordinates(slice_off, slice_size, coords, ragged_dim), tl.expand_dims(data, 0))
