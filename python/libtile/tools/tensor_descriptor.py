# SPDX-License-Identifier: Apache-2.0
"""Descriptors of arrays, made on the host and passed to kernels.

```python
import numpy as np
import libtile
import libtile.language as tl
from libtile.tools.tensor_descriptor import TensorDescriptor

@libtile.jit
def double(x):
    at = [tl.program_id(0) * x.block_shape[0], 0]
    x.store(at, 2 * x.load(at))

x = np.ones((100, 16), np.float32)
double[(libtile.cdiv(100, 32),)](TensorDescriptor.from_tensor(x, [32, 16]))
assert (x == 2).all()
```
"""
from dataclasses import dataclass
from typing import Any, List

__all__ = ["TensorDescriptor"]

_MOST_AXES = 5
_ALIGNMENT = 16  # bytes


def _address(base):
    if hasattr(base, "data_ptr"):
        return base.data_ptr()
    for name in ("__array_interface__", "__cuda_array_interface__"):
        interface = getattr(base, name, None)
        if interface is not None:
            return interface["data"][0]
    return 0


def _item_bytes(base):
    dtype = base.dtype
    size = getattr(dtype, "itemsize", None)
    return size if size is not None else base.element_size()


@dataclass
class TensorDescriptor:
    """An array that a kernel reads and writes in blocks; there it is a tl.tensor_descriptor.

    base: array (1 to 5 axes); shape and strides: integers, strides in elements, the last one 1; block_shape:
    extents of a block, any from 1 on; padding: what lies outside of the array is read as, "zero" or "nan";
    round_f32_to_tf32: elements of fp32 are rounded to 10 bits of mantissa when they are read. ValueError for
    what does not fit; the address and the other strides must be multiples of 16 bytes. The fields may be
    changed afterwards (by hooks of an autotuner); a kernel gets what they hold at the launch.
    """
    base: Any
    shape: List[int]
    strides: List[int]
    block_shape: List[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self):
        rank = len(self.shape)
        if not 1 <= rank <= _MOST_AXES:
            raise ValueError(f"a tensor descriptor has 1 to {_MOST_AXES} axes, got {rank}")
        if len(self.strides) != rank or len(self.block_shape) != rank:
            raise ValueError(f"shape, strides and block_shape need {rank} entries each, got {len(self.strides)} "
                             f"strides and {len(self.block_shape)} extents of a block")
        if any(extent < 1 for extent in self.block_shape):
            raise ValueError(f"extents of a block are at least 1, got {list(self.block_shape)}")
        if self.strides[-1] != 1:
            raise ValueError(f"the last stride must be 1, got {self.strides[-1]}")
        size = _item_bytes(self.base)
        if _address(self.base) % _ALIGNMENT != 0:
            raise ValueError(f"the address of the array must be a multiple of {_ALIGNMENT}")
        for stride in self.strides[:-1]:
            if stride * size % _ALIGNMENT != 0:
                raise ValueError(f"strides but the last must be multiples of {_ALIGNMENT} bytes, got {stride} elements "
                                 f"of {size}")
        name = str(self.base.dtype)
        if self.padding not in ("zero", "nan"):
            raise ValueError(f"padding must be 'zero' or 'nan', got {self.padding!r}")
        if self.padding == "nan" and "float" not in name and not name.startswith(("fp", "bf")):
            raise ValueError(f"padding 'nan' is for floats, not for {name}")
        if self.round_f32_to_tf32 and name.removeprefix("torch.") not in ("float32", "fp32"):
            raise ValueError(f"round_f32_to_tf32 is for float32, not for {name}")

    @staticmethod
    def from_tensor(tensor: Any, block_shape: List[int], padding: str = "zero",
                    round_f32_to_tf32: bool = False) -> "TensorDescriptor":
        """Of an array with its own shape and strides (NumPy's, torch's, or a libtile.DeviceArray)."""
        if callable(getattr(tensor, "stride", None)):
            strides = list(tensor.stride())
        elif getattr(tensor, "strides", None) is not None:
            strides = [stride // tensor.itemsize for stride in tensor.strides]
        else:
            strides = [1] * len(tensor.shape)
            for axis in reversed(range(len(strides) - 1)):
                strides[axis] = strides[axis + 1] * tensor.shape[axis + 1]
        return TensorDescriptor(tensor, list(tensor.shape), strides, list(block_shape), padding, round_f32_to_tf32)
