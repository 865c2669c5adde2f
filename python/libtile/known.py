# SPDX-License-Identifier: Apache-2.0
"""Which Python objects are names of the language: told by identity.

These are the modules `libtile.language` and below, what they hold, and the objects of the same names
in `triton.language` where a program has imported that: `from triton.language import load` gives
another object than ours, which stands for the same operation.
"""
import sys
import types

from . import language, math
from .language import _objects

# namespace -> [(name in it, its name with the namespace)]; "" are the names of the language and its submodules.
_NAMES = {}
# (module below that of the language, namespace of its names)
_PARTS = []
for _sort, _name, _kind, *_ in _objects.ROWS:
    if _sort in ("module", "namespace"):
        _PARTS.append((_name, _kind if _sort == "namespace" else ""))
    elif _kind not in ("MemberOnly", "TypeMember", "DescriptorMember"):
        _of, _, _last = _name.rpartition(".")
        _NAMES.setdefault(_of, []).append((_last, _name))
# (what of triton.language was imported, id -> (object, name)); "" is the language itself. The objects are kept,
# so an id is theirs. Made when it is first asked for, which importing libtile need not wait for; replaced as a
# whole, so threads need no lock. Modules have a table of their own: most kernels name no other part of the language
# by themselves, and all that modules hold takes longer.
_known_modules = (None, {})
_known = (None, {})


def _add(table, value, name):
    # Constants are no names: equal ones may be one object.
    if value is not None and not isinstance(value, (bool, int, float, str)):
        table[id(value)] = (value, name)


def _parts(module):
    """(object, name, namespace of what it holds) of the language and of what lies below it."""
    for name, namespace in _PARTS:
        yield sys.modules.get(f"{module.__name__}.{name}", vars(module).get(name)), name, namespace
    yield module, "", ""


def _languages(foreign):
    return [module for module in (foreign[0], language) if module is not None]


def _foreign_modules():
    """What of triton.language is imported."""
    modules = sys.modules
    return (modules.get("triton.language"), modules.get("triton.language.extra.libdevice"),
            modules.get("triton.language.extra.cuda.libdevice"))


def _index_modules(foreign):
    table = {}
    for module in _languages(foreign):
        for part, name, _ in _parts(module):
            _add(table, part, name)
    return foreign, table


def _index(foreign):
    table = {}
    for module in _languages(foreign):
        for part, _, namespace in _parts(module):
            held = getattr(part, "__dict__", {})
            for last, name in _NAMES.get(namespace, ()):
                _add(table, held.get(last), name)
    if foreign[0] is not None:
        _add(table, getattr(sys.modules.get("triton"), "cdiv", None), "cdiv")
    _add(table, math.cdiv, "cdiv")
    return foreign, table


def name_of(value):
    """The name that the object stands for in the language; None if it is another object."""
    global _known, _known_modules
    foreign = _foreign_modules()
    if foreign != _known_modules[0]:
        _known_modules = _index_modules(foreign)
    found = _known_modules[1].get(id(value))
    if found is None and not isinstance(value, types.ModuleType):
        if foreign != _known[0]:
            _known = _index(foreign)
        found = _known[1].get(id(value))
    return found[1] if found is not None else None
