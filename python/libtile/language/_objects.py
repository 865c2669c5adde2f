# SPDX-License-Identifier: Apache-2.0
"""What the names of the kernel language are in Python.

They come from libtile.so (frontend/language.def), where their meaning lives. Kernels never run the
objects here: they stand for the names, and say so when they are called in ordinary Python.
"""
import operator

from .. import _libtile, aggregates, errors
from ._dtypes import LanguageType, block_type, constexpr_type, dtype, get_int_dtype, pointer_type, str_to_ty, tuple_type, type_of


class LanguageObject:
    """Something that kernels know by `_value`, a Value."""
    __slots__ = ()


class base_value:
    """The root of what kernels compute with."""
    __slots__ = ()


class constexpr(base_value):
    """A compile-time constant; as an annotation: a parameter that takes one."""

    def __init__(self, value):
        self.value = value.value if isinstance(value, constexpr) else value

    def __repr__(self):
        return f"constexpr[{self.value}]"

    @property
    def type(self):
        return constexpr_type(self.value)

    def __getitem__(self, *args):
        return self.value.__getitem__(*map(_constant, args))

    def __iter__(self):
        return iter(self.value)

    def __not__(self):
        return constexpr(not self.value)

    def logical_and(self, other):
        return constexpr(self.value and _constant(other))

    def logical_or(self, other):
        return constexpr(self.value or _constant(other))

    def __hash__(self):
        return hash(self.value)

    def __bool__(self):
        return bool(self.value)

    def __index__(self):
        return self.value.__index__()

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    def __call__(self, *args, **kwargs):
        return self.value(*args, **kwargs)


def _constant(value):
    return value.value if isinstance(value, constexpr) else value


def _add_constant_operators():
    """Python's own arithmetic; with a tensor the tensor's."""
    def binary(function):
        def method(self, other):
            if isinstance(other, tensor):
                return NotImplemented
            return constexpr(function(self.value, _constant(other)))
        return method

    def reflected(function):
        return lambda self, other: constexpr(function(_constant(other), self.value))

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
                 "rshift"):
        function = getattr(operator, f"__{name}__")
        setattr(constexpr, f"__{name}__", binary(function))
        setattr(constexpr, f"__r{name}__", reflected(function))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        function = getattr(operator, f"__{name}__")
        setattr(constexpr, f"__{name}__", binary(function))
        setattr(constexpr, f"__r{name}__", reflected(function))
    for name in ("neg", "pos", "invert"):
        setattr(constexpr, f"__{name}__",
                (lambda function: lambda self: constexpr(function(self.value)))(getattr(operator, f"__{name}__")))


_add_constant_operators()


class Operation(LanguageObject):
    """A name of the language that only means something in a kernel."""

    def __init__(self, name, signature, doc):
        self.__name__ = self.name = name
        self.__doc__ = f"{name}({signature})\n\n{doc}"
        self.__module__ = __package__
        self._signature = signature
        self._value = _libtile.language_value(name)

    def __call__(self, *args, _semantic=None, **kwargs):
        if _semantic is None:
            raise RuntimeError(f"tl.{self.name} can only be called in a kernel: in a function decorated "
                               "with @libtile.jit, or in one that takes _semantic and passes it on")
        return _call(_semantic, self._value, args, kwargs)

    def __repr__(self):
        return f"<tl.{self.name}({self._signature})>"


class Enumeration(LanguageObject):
    """A class of constants; each is the text of its name."""

    def __init__(self, name, members):
        self.__name__ = name
        self._value = _libtile.language_value(name)
        for member in members:
            setattr(self, member, member)

    def __repr__(self):
        return f"<tl.{self.__name__}>"


def _operator(text, swapped=False):
    def method(self, other, _semantic=None):
        a, b = _plain(self, self._semantic), _plain(other, self._semantic)
        return _wrap(self._semantic.operator(text, b, a) if swapped
                     else self._semantic.operator(text, a, b), self._semantic)
    return method


def _unary(text):
    def method(self, _semantic=None):
        return _wrap(self._semantic.operator(text, self._value), self._semantic)
    return method


class tensor(LanguageObject, base_value):
    """A tile or scalar of a running specialisation, as Python functions with _semantic see it.

    Immutable; of no use after the specialisation or in another thread.
    """
    __slots__ = ("_value", "_semantic")

    def __init__(self, value, semantic):
        self._value, self._semantic = value, semantic

    @property
    def shape(self):
        return self._value.type()[1]

    @property
    def dtype(self):
        return dtype(self._value.type()[0])

    @property
    def type(self):
        return type_of(self._value)

    @property
    def handle(self):
        return self._value

    def __str__(self):
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __getattr__(self, name):
        semantic = self._semantic
        found = semantic.attribute(self._value, name)
        if found.kind == "unbound":
            raise errors.missing("tensor", name, LATER)
        if found.kind == "method":
            return lambda *args, _semantic=None, **kwargs: _call(semantic, found, args, kwargs)
        return _wrap(found, semantic)

    def __getitem__(self, index):
        semantic = self._semantic
        return _wrap(semantic.subscript(self._value, _index(index, semantic)), semantic)

    def __bool__(self):
        raise RuntimeError("a tensor has no truth value while its kernel is compiled")

    def __repr__(self):
        return repr(self._value)

    __hash__ = None
    __neg__, __invert__, __not__ = _unary("-"), _unary("~"), _unary("not")
    for _text, _method in (("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "truediv"),
                           ("//", "floordiv"), ("%", "mod"), ("&", "and"), ("|", "or"), ("^", "xor"),
                           ("<<", "lshift"), (">>", "rshift")):
        locals()[f"__{_method}__"] = _operator(_text)
        locals()[f"__r{_method}__"] = _operator(_text, True)
    for _text, _method in (("==", "eq"), ("!=", "ne"), ("<", "lt"), ("<=", "le"), (">", "gt"),
                           (">=", "ge")):
        locals()[f"__{_method}__"] = _operator(_text)
        locals()[f"__r{_method}__"] = _operator(_text, True)
    del _text, _method


def _plain(value, semantic):
    """What the extension module takes: constants without their wrapper, lists as tuples."""
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, tuple):
        return tuple_like(value, [_plain(item, semantic) for item in value])
    if isinstance(value, tensor) and value._semantic is not semantic:
        raise RuntimeError("a tensor is used after the end of its specialisation")
    if aggregates.is_aggregate(type(value)):
        return aggregates.instance_value(value, lambda field: _plain(field, semantic))
    return _constant(value)


def tuple_like(value, items):
    """A named tuple if `value` is one, of the same class."""
    return tuple.__new__(type(value), items) if is_named_tuple(type(value)) else tuple(items)


def names_class(value, name):
    """Whether the object is that class of the language, ours or Triton's."""
    from .. import known
    return known.name_of(value) == name


def is_named_tuple(cls):
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def _index(index, semantic):
    if isinstance(index, tuple):
        return tuple(_index(item, semantic) for item in index)
    if isinstance(index, slice):
        return _libtile.slice_value(*[_plain(part, semantic) for part in (index.start, index.stop, index.step)])
    return _plain(index, semantic)


def _call(semantic, callee, args, kwargs):
    return _wrap(semantic.call(callee, tuple(_plain(value, semantic) for value in args),
                               {name: _plain(value, semantic) for name, value in kwargs.items()}), semantic)


def _wrap(value, semantic):
    from ..host import to_python
    return to_python(value, semantic, True)


class Tuple(tuple):
    """A tuple of values, as Python functions with _semantic see it: tl.tuple."""

    def __new__(cls, args=(), type=None):
        return tuple.__new__(cls, args)

    @property
    def values(self):
        return list(self)

    @property
    def type(self):
        return tuple_type([value.type if isinstance(value, (base_value, Tuple)) else constexpr_type(value)
                           for value in self])


class _Loop:
    """What a `for` or `while` of a kernel runs over; nothing outside of one."""
    _names = ()

    def __init__(self, *args, **kwargs):
        for name, standard in self._names:
            setattr(self, name, standard)
        for (name, _), value in zip(self._names, args):
            setattr(self, name, value)
        for name, value in kwargs.items():
            if name not in dict(self._names):
                raise TypeError(f"tl.{type(self).__name__} has no parameter '{name}'")
            setattr(self, name, value)

    def __iter__(self):
        raise RuntimeError(f"tl.{type(self).__name__} can only be used in a kernel")

    __next__ = __iter__


class range(_Loop):
    """The iterable of a for loop, with hints."""
    _names = (("arg1", None), ("arg2", None), ("step", None), ("num_stages", None), ("loop_unroll_factor", None),
              ("disallow_acc_multi_buffer", False), ("flatten", False), ("warp_specialize", False),
              ("disable_licm", False))

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.start, self.end = (0, self.arg1) if self.arg2 is None else (self.arg1, self.arg2)
        self.step = 1 if self.step is None else self.step


class static_range(range):
    """The iterable of a for loop that is unrolled; the loop variable is a constant."""
    _names = range._names[:3]


class condition(_Loop):
    """The condition of a while loop, with hints."""
    _names = (("arg1", None), ("disable_licm", False))

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.condition = self.arg1


class TargetQuestion(Operation):
    """A name of target_info: outside of kernels it asks for the device that a launch would take."""

    def __call__(self, *args, _semantic=None, **kwargs):
        if _semantic is not None:
            return super().__call__(*args, _semantic=_semantic, **kwargs)
        name, target = self.name.rpartition(".")[2], _standard_target()
        capability = int("".join(filter(str.isdigit, target))) if target.startswith("sm_") else 0
        if name == "cuda_capability_geq":
            wanted = (*args, *kwargs.values(), 0)
            return divmod(capability, 10) >= (wanted[0], wanted[1]) if capability else False
        if name == "current_target":
            from collections import namedtuple
            backend = "cuda" if capability else "hip" if target.startswith("gfx") else "cpu"
            return namedtuple("GPUTarget", ["backend", "arch", "warp_size"])(
                backend, capability or target, {"cuda": 32, "hip": 64}.get(backend, 1))
        return {"is_cuda": capability > 0, "is_hip": target.startswith("gfx"), "is_hip_cdna3": target == "gfx942",
                "is_hip_cdna4": target == "gfx950", "is_hip_gfx1250": target == "gfx1250"}[name]


def _standard_target():
    for device in (0, -1):
        try:
            return _libtile.target(device)
        except errors.Error:
            continue
    return ""


# ---- helpers for functions that take _semantic; they are names of tl.core alone

def builtin(fn):
    """Marks a function that takes _semantic and runs while a kernel is compiled."""
    fn.__triton_builtin__ = True
    return fn


def is_builtin(fn):
    return isinstance(fn, Operation) or getattr(fn, "__triton_builtin__", False)


def must_use_result(x, s=True):
    from ..jit import must_use_result as decorate
    return decorate(x, s)


def _no_libraries(*args, **kwargs):
    raise errors.UnsupportedError("functions of bitcode libraries cannot be called: libtile has none; tl.extra.libdevice "
                                  "has their names")


CORE = {"CONSTEXPR_0": constexpr(0), "builtin_max": max, "builtin_min": min, "base_value": base_value,
        "base_type": LanguageType.__mro__[1], "builtin": builtin, "extern": builtin, "is_builtin": is_builtin,
        "must_use_result": must_use_result, "dispatch": _no_libraries, "extern_elementwise": _no_libraries}


class const:
    """As an annotation: a pointer that the kernel only reads."""


# (sort, name, kind, signature, doc) of each row of frontend/language.def.
ROWS = _libtile.language()
LATER = frozenset(name for sort, name, *_ in ROWS if sort == "later")
# Classes of Python that stand for names of the language.
CLASSES = {"constexpr": constexpr, "tensor": tensor, "dtype": dtype, "pointer_type": pointer_type,
           "block_type": block_type, "tuple_type": tuple_type, "constexpr_type": constexpr_type,
           "get_int_dtype": get_int_dtype, "str_to_ty": str_to_ty, "range": range, "static_range": static_range,
           "condition": condition, "tuple": Tuple, "slice": slice,
           "const": const, "aggregate_replace": aggregates.aggregate_replace}


def names():
    """The names of the language and what they are in Python, submodules apart: a dict for each namespace,
    "" the language itself."""
    made = {}
    for sort, name, kind, signature, doc in ROWS:
        namespace, _, last = name.rpartition(".")
        if name in CLASSES:
            value = CLASSES[name]
        elif sort == "operation" and kind not in ("MemberOnly", "TypeMember", "DescriptorMember"):
            value = (TargetQuestion if namespace == "target_info" else Operation)(name, signature, doc)
        elif sort == "constant":
            value = int(kind)
        elif sort == "dtype":
            value = dtype(kind)
        elif sort == "enum":
            value = Enumeration(name, kind.split(", "))
        else:
            continue
        made.setdefault(namespace, {})[last] = value
    return made
