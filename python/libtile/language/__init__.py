# SPDX-License-Identifier: Apache-2.0
"""The kernel language, imported as `tl`.

Its public names are the names that there are, and so are those of its submodules (`tl.math`,
`tl.core`, `tl.standard`), each of which has all of them. Kernels never run the objects here: they
stand for the names, and say so when they are called in ordinary Python. A Python function that takes
`_semantic` runs while a kernel is compiled; it may call operations with `_semantic=_semantic`, and use
the operators of the tensors that it is given.
"""
import sys as _sys
import types as _types

from .. import errors as _errors
from . import _objects


def __getattr__(name):
    raise _errors.missing("tl", name, _objects.LATER)


def _submodule(name, names):
    module = _types.ModuleType(f"{__name__}.{name}", "The names of the kernel language.")
    vars(module).update(names, __getattr__=__getattr__, __all__=list(names))
    _sys.modules[module.__name__] = module
    return module


_names = _objects.names()
__all__ = list(_names)
_submodules = {name: _submodule(name, _names) for sort, name, *_ in _objects.rows() if sort == "module"}
globals().update(_names)
globals().update(_submodules)
__all__ += _submodules
