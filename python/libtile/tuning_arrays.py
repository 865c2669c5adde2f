# SPDX-License-Identifier: Apache-2.0
"""Arrays of all kinds set to zero, kept and restored: NumPy's, torch's, libtile's, and those that do as one of them."""
from . import _libtile
from .device import DeviceArray


def _refuse(name, value):
    raise TypeError(f"autotune cannot reset or restore argument '{name}', an object of type '{type(value).__name__}'")


def zero(name, array):
    """Sets all elements to zero; None stays."""
    if array is None:
        return
    if isinstance(array, DeviceArray):
        if array.nbytes:
            _libtile.fill(array._ordinal, array.data_ptr(), 0, array.nbytes)
    elif hasattr(array, "zero_"):
        array.zero_()
    elif hasattr(array, "fill"):
        array.fill(0)
    else:
        _refuse(name, array)


def kept(name, array):
    """A copy for restore()."""
    if array is None:
        return None
    if isinstance(array, DeviceArray):
        return array.numpy()
    for method in ("clone", "copy"):
        if hasattr(array, method):
            return getattr(array, method)()
    return _refuse(name, array)


def restore(array, copy):
    """Gives the array the copy's elements."""
    if array is None:
        return
    if isinstance(array, DeviceArray):
        array.copy_from(copy)
    elif hasattr(array, "copy_"):
        array.copy_(copy)
    else:
        array[...] = copy
