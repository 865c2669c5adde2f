# SPDX-License-Identifier: Apache-2.0
"""The kernel language, imported as `tl`.

The names come from libtile.so (frontend/language.def), where their meaning lives. Kernels never run
the objects here: they stand for the names, and say so when they are called in ordinary Python. A
Python function that takes `_semantic` runs while a kernel is compiled; it may call operations with
`_semantic=_semantic`, and use the operators of the tensors that it is given.
"""
import operator

from .. import _libtile
from ..errors import UnsupportedError


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


class _Name:
    """A name of the language that only means something in a kernel."""

    def __init__(self, name, signature, doc, value):
        self.__name__ = self.name = name
        self.__doc__ = f"{name}({signature})\n\n{doc}"
        self.__module__ = __name__
        self._signature = signature
        self._value = value

    def __call__(self, *args, _semantic=None, **kwargs):
        if _semantic is None:
            raise RuntimeError(f"tl.{self.name} can only be called in a kernel: in a function decorated "
                               "with @libtile.jit, or in one that takes _semantic and passes it on")
        return _wrap(_semantic.call(self._value, tuple(map(_plain, args)),
                                    {name: _plain(value) for name, value in kwargs.items()}), _semantic)

    def __repr__(self):
        return f"<tl.{self.name}({self._signature})>"


class Later:
    """A name of the language that libtile does not have yet."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *args, **kwargs):
        raise UnsupportedError(f"tl.{self.name} is not there yet")

    def __repr__(self):
        return f"<tl.{self.name}, not there yet>"


class dtype:
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
        if name.startswith("is_"):
            return lambda: _TESTS[name](self.name)
        if name in ("primitive_bitwidth", "itemsize"):
            bits = int("".join(filter(str.isdigit, self.name)) or 0)
            return bits if name == "primitive_bitwidth" else (bits + 7) // 8
        raise AttributeError(name)


def _is_float(name):
    return name.startswith(("fp", "bf"))


_TESTS = {
    "is_floating": _is_float,
    "is_standard_floating": _is_float,
    "is_int": lambda name: "int" in name and not name.startswith("pointer"),
    "is_int_signed": lambda name: name.startswith("int") and name != "int1",
    "is_int_unsigned": lambda name: name.startswith("uint") or name == "int1",
    "is_bool": lambda name: name == "int1",
    "is_fp8": lambda name: False,
    "is_ptr": lambda name: name.startswith("pointer"),
    "is_block": lambda name: False,
    **{f"is_{name}": (lambda wanted: lambda name: name == wanted)(name) for name in (
        "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "fp16", "bf16",
        "fp32", "fp64")},
}


def _operator(text, swapped=False):
    def method(self, other):
        a, b = _plain(self), _plain(other)
        return _wrap(self._semantic.operator(text, b, a) if swapped
                     else self._semantic.operator(text, a, b), self._semantic)
    return method


def _unary(text):
    def method(self):
        return _wrap(self._semantic.operator(text, self._value), self._semantic)
    return method


class tensor:
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
        found = self._semantic.attribute(self._value, name)
        if found.kind == "unbound":
            raise AttributeError(f"a tensor has no attribute '{name}'")
        if found.kind == "method":
            semantic = self._semantic
            return lambda *args, _semantic=None, **kwargs: _wrap(
                semantic.call(found, tuple(map(_plain, args)),
                              {key: _plain(value) for key, value in kwargs.items()}), semantic)
        return _wrap(found, self._semantic)

    def __getitem__(self, index):
        return _wrap(self._semantic.subscript(self._value, _index(index)), self._semantic)

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


class block_shape_type:
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
    return block_shape_type(value) if shape else dtype(name)


def _plain(value):
    """What the extension module takes: constants without their wrapper, lists as tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return _constant(value)


def _index(index):
    if isinstance(index, tuple):
        return tuple(map(_index, index))
    if isinstance(index, slice):
        return _libtile.slice_value(_plain(index.start), _plain(index.stop), _plain(index.step))
    return _plain(index)


def _wrap(value, semantic):
    from ..host import to_python
    return to_python(value, semantic, True)


class _Module:
    """A submodule of the language (tl.math), which has all of its names."""

    def __init__(self, name):
        self.__name__ = name
        self._value = _libtile.module_value(f"tl.{name}", None)

    def __getattr__(self, name):
        if self.__name__ == "PropagateNan" and name in ("NONE", "ALL"):
            return name
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(f"tl.{self.__name__} has no attribute '{name}'") from None

    def __repr__(self):
        return f"<tl.{self.__name__}>"


# As an annotation: a pointer that the kernel only reads.
class const:
    pass


_OWN = {"constexpr": constexpr, "tensor": tensor, "dtype": dtype, "tuple": tuple, "slice": slice,
        "const": const}


def _rows():
    for row in _libtile.language().split("\x1e"):
        fields = row.split("\x1f")
        if len(fields) >= 5:
            yield fields[:5]


def _fill(names):
    for sort, name, kind, signature, doc in _rows():
        if name in _OWN:
            names[name] = _OWN[name]
        elif sort == "operation" and kind not in ("MemberOnly", "TypeMember"):
            names[name] = _Name(name, signature, doc, _libtile.operation_value(name))
        elif sort == "dtype":
            names[name] = dtype(kind)
        elif sort == "module":
            names[name] = _Module(name)
        elif sort == "later":
            names[name] = Later(name)


_fill(globals())
__all__ = [name for name in globals() if not name.startswith("_") and name not in (
    "UnsupportedError", "operator", "Later", "block_shape_type", "type_of")]
