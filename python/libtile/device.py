# SPDX-License-Identifier: Apache-2.0
"""Memory on a device, without torch."""
from __future__ import annotations

import sys

from . import _libtile, errors

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from typing import Any

    import numpy as np


def available_devices() -> list[str]:
    """The names of the devices of this machine: "cpu", then "cuda:0", ..., "hip:0", ..."""
    return _libtile.devices()


def set_num_threads(threads: int) -> None:
    """Sets the number of threads that CPU kernels use, the calling one included: 1 to 1024, or 0 for all cores that the
    process may use.

    It holds for launches of all threads of the process that begin later. ValueError for another number.
    """
    _libtile.set_num_threads(threads)


def num_threads() -> int:
    """How many threads CPU kernels use, the calling one included, but for launches on torch's threads, which take all of those."""
    return _libtile.num_threads()


_GPUS = {"cuda": 0, "hip": 100}


def ordinal(device: str) -> int:
    """-1 for "cpu", -3 for "interpreter", the number of "cuda:1" ("cuda": 0), 100 and that of "hip:1"."""
    if device in ("cpu", "interpreter"):
        return -1 if device == "cpu" else -3
    kind, _, number = str(device).partition(":")
    if kind not in _GPUS or not (number.isdigit() and len(number) < 3 or number == ""):
        raise errors.DeviceError(f"there is no device '{device}': give cpu, interpreter, cuda, cuda:N, hip or hip:N")
    return _GPUS[kind] + int(number or 0)


def name_of(number: int) -> str:
    """The name of the device that `ordinal` gives this number."""
    if number < 0:
        return "cpu" if number == -1 else "interpreter"
    return f"hip:{number - _GPUS['hip']}" if number >= _GPUS["hip"] else f"cuda:{number}"


def set_allocator(allocator: Any) -> None:
    """Takes a function as Triton does, and has no use for it: descriptors that kernels make need no memory."""


class DeviceArray:
    """A contiguous array in a device's memory, freed with the object; made by `to_device`.

    Kernels take it, and so does whatever reads `__cuda_array_interface__` (in a GPU's memory).
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: str) -> None:
        self.shape, self.dtype = tuple(shape), dtype
        self._ordinal = ordinal(device)
        self.nbytes: int = dtype.itemsize
        for extent in self.shape:
            self.nbytes *= extent
        self._address: int = 0
        self._address = _libtile.allocate(self._ordinal, self.nbytes)
        # What the launcher reads.
        self.__libtile_array__ = (self._address, sys.intern(dtype.name), self._ordinal, self.nbytes)

    def __del__(self, release: Any = _libtile.release) -> None:
        # At the interpreter's end modules are empty already.
        if getattr(self, "_address", 0):
            release(self._ordinal, self._address)

    @property
    def device(self) -> str:
        """Its device: "cpu", "interpreter", "cuda:0", "hip:0", ..."""
        return name_of(self._ordinal)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def __len__(self) -> int:
        return self.shape[0]

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._address

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._ordinal < 0:
            raise AttributeError("the array is in host memory")
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self._address, False),
                "version": 3, "strides": None, "stream": None}

    def copy_from(self, array: Any) -> None:
        """Overwrites the whole array with a NumPy array of the same number of bytes; ValueError if it has another."""
        import numpy as np
        source = np.ascontiguousarray(array, dtype=self.dtype)
        if source.nbytes != self.nbytes:
            raise ValueError(f"{source.nbytes} bytes do not fill {self.nbytes}")
        if source.nbytes:
            _libtile.copy(self._ordinal, self._address, source.view(np.uint8).reshape(-1).data, True)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as a NumPy array; waits for the kernels before it."""
        import numpy as np
        out = np.empty(self.shape, self.dtype)
        if out.nbytes:
            _libtile.synchronize(self._ordinal)
            _libtile.copy(self._ordinal, self._address, out.reshape(-1).view(np.uint8).data, False)
        return out

    def __repr__(self) -> str:
        return f"<array {'x'.join(map(str, self.shape))} of {self.dtype} on {self.device}>"


def to_device(array: Any, device: str = "cuda") -> DeviceArray:
    """A copy of a NumPy array (or of what np.asarray takes) in the memory of "cpu", "interpreter", "cuda", "cuda:N", "hip"
    or "hip:N".

    `x = libtile.to_device(a)`, launch, `x.numpy()`: a GPU without torch.
    """
    import numpy as np
    source = np.asarray(array)
    if not source.dtype.isnative:
        source = source.astype(source.dtype.newbyteorder("="))
    made = DeviceArray(source.shape, source.dtype, device)
    made.copy_from(source)
    return made
