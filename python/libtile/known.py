# SPDX-License-Identifier: Apache-2.0
"""Which Python objects are names of the language: told by identity.

These are the modules `libtile.language` and below, what they hold, and the objects of the same names
in `triton.language` where a program has imported that: `from triton.language import load` gives
another object than ours, which stands for the same operation.
"""
import sys

from . import _libtile, language, math
from .language import _objects

_SUBMODULES = [name for sort, name, *_ in _objects.rows() if sort == "module"]
_NAMES = [name for sort, name, kind, *_ in _objects.rows()
          if sort not in ("module", "namespace") and kind not in ("MemberOnly", "TypeMember", "DescriptorMember")]
# (namespace, path that its names have)
_NAMESPACES = [(name, of) for sort, name, of, *_ in _objects.rows() if sort == "namespace"]
# id -> (object, name); "" is the language itself. The objects are kept, so an id is theirs.
_own = {}
_foreign = {}
_foreign_language = None  # the modules that _foreign was made from


def _add(table, value, name):
    # Constants are no names: equal ones may be one object.
    if value is not None and not isinstance(value, (bool, int, float, str)):
        table[id(value)] = (value, name)


def _add_module(table, module):
    for name in _NAMES:
        _add(table, vars(module).get(name), name)
    for name in _SUBMODULES:
        part = vars(module).get(name)
        for inner in _NAMES:
            _add(table, getattr(part, "__dict__", {}).get(inner), inner)
        _add(table, part, name)
    for name, of in _NAMESPACES:
        part = sys.modules.get(f"{module.__name__}.{name}")
        for inner in _NAMES:
            if inner.startswith(of + "."):
                _add(table, getattr(part, "__dict__", {}).get(inner[len(of) + 1:]), inner)
        _add(table, part, name)
    _add(table, module, "")


def _foreign_modules():
    """What of triton.language is imported."""
    modules = sys.modules
    return (modules.get("triton.language"), modules.get("triton.language.extra.libdevice"),
            modules.get("triton.language.extra.cuda.libdevice"))


def _index_foreign(modules):
    global _foreign_language
    _foreign.clear()
    _foreign_language = modules
    module = modules[0]
    if module is not None:
        _add_module(_foreign, module)
        _add(_foreign, getattr(sys.modules.get("triton"), "cdiv", None), "cdiv")


def name_of(value):
    """The name that the object stands for in the language; None if it is another object."""
    modules = _foreign_modules()
    if modules != _foreign_language:
        _index_foreign(modules)
    found = _own.get(id(value)) or _foreign.get(id(value))
    return found[1] if found is not None else None


_add_module(_own, language)
_add(_own, math.cdiv, "cdiv")
