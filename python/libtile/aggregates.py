# SPDX-License-Identifier: Apache-2.0
"""Objects of the user's classes in kernels.

A kernel takes such an object apart into its fields; Python code that runs while a kernel is compiled sees
an instance of the class, with tensors and constants in it.
"""
from __future__ import annotations

from . import _libtile

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from typing import Any, TypeVar
    _Class = TypeVar("_Class", bound=type)


def is_aggregate(cls):
    return isinstance(cls, type) and "__aggregate_fields__" in cls.__dict__


def aggregate(cls: _Class) -> _Class:
    """Makes a class whose objects kernels may make, pass on and return: a struct of tensors, constants and
    other aggregates.

    Its annotations are its fields, in order, with those of the aggregates that it inherits from in front; a
    value behind one is the default. Each says what the field holds: `tl.tensor`, `tl.constexpr`, `tl.tuple`,
    another aggregate or named tuple, or several of these (`a | b`). Without an `__init__` the class is called
    with its fields in order or by name. With one, that is run by Python while a kernel is compiled, and sets
    every field. Methods are jit functions, `libtile.constexpr_function`s, or functions of Python, which get
    `_semantic` if they have a parameter of that name; `__add__`, `__radd__`, `__lt__`, `__getitem__`,
    `__call__`, `__len__` and the like carry out operators, and `__enter__` and `__exit__` a `with`. An object
    does not change: `tl.aggregate_replace(object, field=value)` makes another one.
    """
    types, defaults = _fields(cls)
    init = cls.__dict__.get("__init__")
    cls.__aggregate_fields__ = tuple(types)
    cls.__aggregate_types__ = types
    cls.__aggregate_defaults__ = defaults
    cls.__aggregate_init__ = init
    cls.__init__ = _initialiser(cls, init)
    cls.__setattr__ = _set_field
    return cls


def _fields(cls):
    """(annotation of each field, default of each that has one)"""
    import inspect
    types, defaults = {}, {}
    for base in reversed(cls.__mro__[1:]):
        if is_aggregate(base):
            types.update(base.__aggregate_types__)
            defaults.update(base.__aggregate_defaults__)
        elif base is not object and base.__name__ != "base_value":
            raise TypeError(f"Aggregates can only inherit from other aggregates: {base.__name__}, a base of {cls.__name__}, is none")
    for name, annotation in inspect.get_annotations(cls).items():
        types[name] = _resolved(cls, annotation)
        if name in cls.__dict__ and not isinstance(cls.__dict__[name], property):
            defaults[name] = cls.__dict__[name]
    return types, defaults


def _resolved(cls, annotation):
    """The object that an annotation in text means; None, which is anything, if that is not known."""
    if not isinstance(annotation, str):
        return annotation
    import sys
    scope = vars(sys.modules.get(cls.__module__, object))
    try:
        return eval(annotation, dict(scope), dict(vars(cls)))
    except Exception:
        return None


def _initialiser(cls, init):
    """The __init__ of the class: sets every field, once."""
    import inspect
    fields = cls.__aggregate_fields__
    is_constant = getattr(init, "__libtile_constexpr__", False)
    passed = () if init is None else [name for name in ("_semantic", "_generator")
                                      if name in inspect.signature(init).parameters]

    def __init__(self, *args, _semantic=None, _generator=None, **kwargs):
        if init is None:
            _fill(self, args, kwargs)
        else:
            if is_constant:
                args = [_unwrapped(value) for value in args]
                kwargs = {name: _unwrapped(value) for name, value in kwargs.items()}
            hidden = {"_semantic": _semantic, "_generator": _generator}
            init(self, *args, **kwargs, **{name: hidden[name] for name in passed})
        for name in fields:
            if name not in self.__dict__:
                raise AttributeError(f"the constructor of {cls.__name__} does not set the field '{name}'")
        self.__dict__["_is_complete"] = True

    return __init__


def _unwrapped(value):
    from .language._objects import constexpr
    return value.value if isinstance(value, constexpr) else value


def _fill(self, args, kwargs):
    cls = type(self)
    fields = cls.__aggregate_fields__
    if len(args) > len(fields):
        raise TypeError(f"{cls.__name__} has {len(fields)} fields, not {len(args)}")
    given = dict(zip(fields, args))
    for name, value in kwargs.items():
        if name not in fields:
            raise TypeError(f"{cls.__name__} has no field '{name}'")
        if name in given:
            raise TypeError(f"{cls.__name__} is given two values for '{name}'")
        given[name] = value
    for name in fields:
        if name not in given and name not in cls.__aggregate_defaults__:
            raise TypeError(f"{cls.__name__} needs a value for '{name}'")
        setattr(self, name, given[name] if name in given else cls.__aggregate_defaults__[name])


def _set_field(self, name, value):
    cls = type(self)
    if name not in cls.__aggregate_fields__:
        raise AttributeError(f"{cls.__name__} has no field '{name}'")
    if "_is_complete" in self.__dict__:
        raise AttributeError(f"cannot assign to field '{name}' on immutable aggregate {cls.__name__}: tl.aggregate_replace() "
                             "makes another one")
    wanted = cls.__aggregate_types__[name]
    if not any(_fits(value, one) for one in _alternatives(wanted)):
        raise TypeError(f"the field '{name}' of {cls.__name__} is declared as {wanted} and cannot hold {value!r}")
    from .language import _objects
    plain = value is None or isinstance(value, (bool, int, float, str))
    self.__dict__[name] = _objects.constexpr(value) if plain else value


def _alternatives(annotation):
    """`a | b` and Union[a, b] as a tuple."""
    import types
    import typing
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _fits(value, annotation):
    from .language import _objects
    if _objects.names_class(annotation, "constexpr"):
        return not isinstance(value, _objects.tensor) and not is_aggregate(type(value))
    if _objects.names_class(annotation, "tensor"):
        return isinstance(value, _objects.tensor)
    if _objects.names_class(annotation, "tuple"):
        return isinstance(value, (tuple, list))
    if is_aggregate(annotation) or _objects.is_named_tuple(annotation):
        return isinstance(value, annotation)
    return True


def _type_value(annotation):
    """What the compiler compares a field with; None: anything."""
    from . import host
    from .language import _objects
    alternatives = _alternatives(annotation)
    if len(alternatives) > 1:
        many = tuple(map(_type_value, alternatives))
        return None if None in many else many
    known = any(_objects.names_class(annotation, name) for name in ("constexpr", "tensor", "tuple"))
    is_class = is_aggregate(annotation) or _objects.is_named_tuple(annotation)
    return host.convert(annotation) if known or is_class else None


def class_value(cls):
    return _libtile.class_value(cls, cls.__name__, cls.__aggregate_fields__,
                                tuple(map(_type_value, cls.__aggregate_types__.values())), False,
                                cls.__aggregate_init__ is not None)


def instance_value(value, convert):
    """An instance as a Value; `convert` takes a field."""
    cls = type(value)
    return _libtile.aggregate_value(class_value(cls), tuple(convert(value.__dict__[name])
                                                            for name in cls.__aggregate_fields__))


def instance(cls, fields):
    """An instance with these fields, made without its constructor."""
    made = cls.__new__(cls)
    made.__dict__.update(zip(cls.__aggregate_fields__, fields), _is_complete=True)
    return made


def aggregate_replace(instance: Any, **changes: Any) -> Any:
    """The aggregate made anew with the fields that are named."""
    cls = type(instance)
    if not is_aggregate(cls):
        raise TypeError(f"aggregate_replace expects an aggregate instance, not {cls.__name__}")
    for name in changes:
        if name not in cls.__aggregate_fields__:
            raise TypeError(f"{cls.__name__} has no field '{name}'")
    return cls(**{**{name: instance.__dict__[name] for name in cls.__aggregate_fields__}, **changes})
