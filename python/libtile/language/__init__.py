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
    def missing(wanted):
        raise _errors.missing(f"tl.{name}" if names is not _names else "tl", wanted, _objects.LATER)

    module = _types.ModuleType(f"{__name__}.{name}", "Names of the kernel language.")
    vars(module).update(names, __getattr__=missing, __all__=list(names))
    _sys.modules[module.__name__] = module
    return module


_by_namespace = _objects.names()
_names = _by_namespace[""]
__all__ = list(_names)
globals().update(_names)
for _sort, _name, _of, *_ in _objects.ROWS:
    if _sort == "module":
        _made = _submodule(_name, _names)
    elif _sort == "namespace":
        _made = _submodule(_name, _by_namespace.get(_of, {}))
        _made.__path__ = []  # a package: `import libtile.language.extra.libdevice` is allowed
    else:
        continue
    _above, _, _last = _name.rpartition(".")
    setattr(_sys.modules[f"{__name__}.{_above}" if _above else __name__], _last, _made)
    if not _above:
        __all__.append(_last)
vars(_sys.modules[f"{__name__}.core"]).update(_objects.CORE)
