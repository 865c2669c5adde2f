# SPDX-License-Identifier: Apache-2.0
"""What the names of the kernel language are in Python.

They come from libtile.so (frontend/language.def), where their meaning lives. Kernels never run the
objects here: they stand for the names, and say so when they are called in ordinary Python.
"""
import operator
import re

from .. import _libtile, aggregates, errors


class LanguageObject:
    """Something that kernels know by `_value`, a Value."""
    __slots__ = ()


class constexpr:
    """A compile-time constant; as an annotation: a parameter that takes one."""

    def __init__(self, value):
        self.value = value.value if isinstance(value, constexpr) else value

    def __repr__(self):
        return f"constexpr({self.value!r})"

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
        setattr(constexpr, f"__{name}__", binary(getattr(operator, f"__{name}__")))
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


class dtype(LanguageObject):
    """An element type."""

    def __init__(self, name):
        self._value = _libtile.type_value(name)
        self.name = self._value.type()[0]

    def __repr__(self):
        return self.name

    def __eq__(self, other):
        return isinstance(other, dtype) and self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def __getattr__(self, name):
        """is_int(), is_fp16() and the like; primitive_bitwidth."""
        if name in _TESTS:
            return lambda: _TESTS[name](self.name)
        if name in ("primitive_bitwidth", "itemsize"):
            bits = int((re.findall(r"\d+", self.name) or [0])[0])
            return bits if name == "primitive_bitwidth" else (bits + 7) // 8
        raise AttributeError(name)


def _is_float(name):
    return name.startswith(("fp", "bf"))


_TESTS = {
    "is_floating": _is_float,
    "is_standard_floating": lambda name: _is_float(name) and not name.startswith("fp8"),
    "is_int": lambda name: "int" in name and not name.startswith("pointer"),
    "is_int_signed": lambda name: name.startswith("int") and name != "int1",
    "is_int_unsigned": lambda name: name.startswith("uint") or name == "int1",
    "is_bool": lambda name: name == "int1",
    "is_fp8": lambda name: name.startswith("fp8"),
    "is_ptr": lambda name: name.startswith("pointer"),
    "is_block": lambda name: False,
    **{f"is_{name}": (lambda wanted: lambda name: name == wanted)(name) for name in (
        "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "fp16", "bf16",
        "fp32", "fp64", "fp8e5", "fp8e4nv", "fp8e4b15", "fp8e4b8", "fp8e5b16")},
}


def _operator(text, swapped=False):
    def method(self, other):
        a, b = _plain(self, self._semantic), _plain(other, self._semantic)
        return _wrap(self._semantic.operator(text, b, a) if swapped
                     else self._semantic.operator(text, a, b), self._semantic)
    return method


def _unary(text):
    def method(self):
        return _wrap(self._semantic.operator(text, self._value), self._semantic)
    return method


class tensor(LanguageObject):
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
    __neg__, __invert__ = _unary("-"), _unary("~")
    for _text, _method in (("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "truediv"),
                           ("//", "floordiv"), ("%", "mod"), ("&", "and"), ("|", "or"), ("^", "xor"),
                           ("<<", "lshift"), (">>", "rshift")):
        locals()[f"__{_method}__"] = _operator(_text)
        locals()[f"__r{_method}__"] = _operator(_text, True)
    for _text, _method in (("==", "eq"), ("!=", "ne"), ("<", "lt"), ("<=", "le"), (">", "gt"),
                           (">=", "ge")):
        locals()[f"__{_method}__"] = _operator(_text)
    del _text, _method


class TileType(LanguageObject):
    """The type of a tile: `.element_ty`, `.shape`."""

    def __init__(self, value):
        self._value = value
        name, self.shape = value.type()
        self.element_ty = self.scalar = dtype(name)

    def __repr__(self):
        return f"<{'x'.join(map(str, self.shape))} of {self.element_ty}>"


def type_of(value):
    """A Value of a type, or of a tensor, as a dtype or the type of a tile."""
    name, shape = value.type()
    return TileType(value) if shape else dtype(name)


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


class const:
    """As an annotation: a pointer that the kernel only reads."""


def rows():
    """(sort, name, kind, signature, doc) of each row of frontend/language.def."""
    return _libtile.language()


LATER = frozenset(name for sort, name, *_ in rows() if sort == "later")
# Classes of Python that stand for names of the language.
CLASSES = {"constexpr": constexpr, "tensor": tensor, "dtype": dtype, "tuple": tuple, "slice": slice,
           "const": const, "aggregate_replace": aggregates.aggregate_replace}


def names():
    """The names of the language and what they are in Python, submodules apart.

    Those with dots ("extra.libdevice.exp") are of a namespace.
    """
    made = {}
    for sort, name, kind, signature, doc in rows():
        if name in CLASSES:
            made[name] = CLASSES[name]
        elif sort == "operation" and kind not in ("MemberOnly", "TypeMember", "DescriptorMember"):
            made[name] = Operation(name, signature, doc)
        elif sort == "dtype":
            made[name] = dtype(kind)
        elif sort == "enum":
            made[name] = Enumeration(name, kind.split(", "))
    return made


def names_under(every, path):
    """Of names() those of a namespace, without its path."""
    prefix = path + "."
    return {name[len(prefix):]: value for name, value in every.items()
            if name.startswith(prefix) and "." not in name[len(prefix):]}
