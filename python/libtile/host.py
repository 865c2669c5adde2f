# SPDX-License-Identifier: Apache-2.0
"""What kernels may see of Python: globals, defaults, attributes, and calls while they are compiled.

The compiler asks through the extension module. An answer is a plain constant, a jit function, an
object with a `_value` (names of the language, dtypes, tensors), or a Value; Unbound says that there is
no such name. Which objects are the language is told by identity (known.py), never by a name.
"""
import atexit
import sys
import types
import weakref

from . import _libtile, aggregates, errors, known
from .language import _objects

Unbound = object()
_PLAIN = (bool, int, float, str)
# Modules of plain Python functions that kernels may call on constants.
_CALLABLE_MODULES = ("math", "copy", "builtins")
_functions = weakref.WeakKeyDictionary()  # Python function -> JITFunction, weakly


def remember(fn, jit):
    _functions[fn] = weakref.ref(jit)


def jit_of(fn):
    """The JITFunction made of a Python function; None if it is gone."""
    reference = _functions.get(fn)
    return reference() if reference is not None else None


def _convert(value, name, is_plain_allowed, semantic=None):
    """The value as the compiler takes it. Tensors are those of a running `semantic` alone."""
    if value is None or value is NotImplemented or isinstance(value, (_libtile.Jit, _libtile.Value)):
        return value
    word = known.name_of(value)
    if word in _objects.LATER:
        raise errors.UnsupportedError(f"tl.{word} is not there yet")
    if word is not None:
        return _libtile.language_value(word)
    if isinstance(value, _objects.constexpr) or known.name_of(type(value)) == "constexpr":
        return _convert(value.value, name, True)
    if isinstance(value, _PLAIN):
        if is_plain_allowed:
            return value
        raise errors.CompilationError(
            f"`{name}` is a plain global variable, which a kernel cannot use: make it "
            f"`{name} = tl.constexpr({value!r})`, or pass it as an argument")
    if isinstance(value, tuple) or (isinstance(value, list) and is_plain_allowed):
        return _objects.tuple_like(
            value, [_convert(item, name, is_plain_allowed, semantic) for item in value])
    if isinstance(value, _objects.tensor) and value._semantic is not semantic:
        raise errors.CompilationError(f"`{name}` is a tensor that another compilation has left behind")
    if isinstance(value, (_objects.LanguageObject, _objects.LanguageType)):
        return value
    if isinstance(value, type) and _objects.is_named_tuple(value):
        return _libtile.class_value(value, value.__name__, value._fields, (None,) * len(value._fields), True)
    if isinstance(value, type) and aggregates.is_aggregate(value):
        return aggregates.class_value(value)
    if aggregates.is_aggregate(type(value)):
        return aggregates.instance_value(value, lambda field: _convert(field, name, True, semantic))
    if isinstance(value, types.ModuleType) or callable(value) or is_plain_allowed:
        return _libtile.object_value(value)
    raise errors.CompilationError(
        f"`{name}` is a global of type '{type(value).__name__}', which a kernel cannot use")


def convert(value):
    """An argument of a call, or a constant of a launch."""
    return _convert(value, type(value).__name__, True)


def _closure(fn):
    return dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))


def global_value(fn, name):
    cell = _closure(fn).get(name)
    if cell is not None:
        try:
            return _convert(cell.cell_contents, name, False)
        except ValueError:
            return Unbound
    if name not in fn.__globals__:
        return Unbound
    return _convert(fn.__globals__[name], name, False)


def default_value(callee, name):
    """The default of a parameter of a function, or of a field of a class."""
    if isinstance(callee, type):
        defaults = getattr(callee, "__aggregate_defaults__", getattr(callee, "_field_defaults", {}))
        return _convert(defaults[name], name, True) if name in defaults else Unbound
    code, values = callee.__code__, callee.__defaults__ or ()
    defaults = dict(zip(code.co_varnames[code.co_argcount - len(values):], values), **(callee.__kwdefaults__ or {}))
    return _convert(defaults[name], name, True) if name in defaults else Unbound


def attribute_value(owner, name):
    # What every class of Python has is no member of it: the comparisons of `object`, say.
    if isinstance(owner, type) and name in vars(object) and not any(name in vars(base) for base in owner.__mro__[:-1]):
        return Unbound
    try:
        value = getattr(owner, name)
    except AttributeError:
        return Unbound
    return _convert(value, name, True)


def names(value):
    """What global_value() of a function, or attribute_value() of another object, may be asked for."""
    if isinstance(value, types.FunctionType):
        return [*_closure(value), *value.__globals__]
    return dir(value)


def describe(value):
    if isinstance(value, types.FunctionType):
        return f"Python function {value.__name__}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, type):
        return f"class {value.__name__}"
    return f"object of type {type(value).__name__}"


# ---- calls

def _takes_semantic(callee):
    if isinstance(callee, type):
        callee = callee.__init__
    code = getattr(callee, "__code__", None)
    return code is not None and "_semantic" in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


def _is_member(callee, args):
    """Whether Python runs it as a member of an object that is there while a kernel is compiled: a plain method
    of an aggregate, or what `with` calls."""
    if isinstance(callee, types.MethodType):
        return callee.__name__ in ("__enter__", "__exit__")
    cls = args[0].object() if args and args[0].kind == "aggregate" else None
    name = getattr(callee, "__name__", "")
    return cls is not None and aggregates.is_aggregate(cls) and getattr(cls, name, None) is callee


def to_python(value, semantic, wraps_constants):
    """A Value for Python code: tensors as tl.tensor, constants as they are or as tl.constexpr."""
    kind = value.kind
    if kind == "tensor":
        return _objects.tensor(value, semantic)
    if kind == "none":
        return None
    if kind in ("bool", "int", "float", "string"):
        return _objects.constexpr(value.python()) if wraps_constants else value.python()
    if kind == "aggregate":
        fields = tuple(to_python(field, semantic, wraps_constants) for field in value.fields())
        cls = value.object()
        if cls is not None and aggregates.is_aggregate(cls):
            return aggregates.instance(cls, [to_python(field, semantic, True) for field in value.fields()])
        return _objects.Tuple(fields) if cls is None else tuple.__new__(cls, fields)
    if kind == "type":
        return _objects.type_of(value)
    if kind == "function":
        fn = value.object()
        return jit_of(fn) if fn is not None and jit_of(fn) is not None else value
    if kind in ("object", "class"):
        return value.object()
    return value


def call(callee, semantic, args, kwargs):
    """Calls Python code that a kernel names; tensors only go to functions that take _semantic and to members
    of aggregates."""
    is_constant = getattr(callee, "__libtile_constexpr__", False)
    takes_semantic = not is_constant and _takes_semantic(callee)
    if takes_semantic or (not is_constant and _is_member(callee, args)) or aggregates.is_aggregate(callee):
        given = [to_python(value, semantic, True) for value in args]
        named = {name: to_python(value, semantic, True) for name, value in kwargs.items()}
        if takes_semantic:
            named.setdefault("_semantic", semantic)
        return _convert(callee(*given, **named), "result", True, semantic)
    if not is_constant and not isinstance(callee, type) and getattr(callee, "__module__", None) not in _CALLABLE_MODULES:
        raise errors.CompilationError(
            f"{describe(callee)} cannot be called in a kernel: make it a jit function, or decorate it "
            "with libtile.constexpr_function")
    for value in [*args, *kwargs.values()]:
        if value.kind == "tensor":
            raise errors.CompilationError(f"{describe(callee)} takes constants, not tensors")
    result = callee(*[to_python(value, semantic, False) for value in args],
                    **{name: to_python(value, semantic, False) for name, value in kwargs.items()})
    return _convert(result, "result", True, semantic)


def print_text(text):
    """What a kernel prints while it is compiled."""
    sys.stdout.write(text)
    sys.stdout.flush()


# ---- arguments of launches

def _has_hash(value):
    try:
        hash(value)
    except TypeError:
        return False
    return True


def constant(value, name, takes_any=False):
    """A key: equal keys are the same constant. Refuses what is no constant; with `takes_any` what has no hash alone."""
    if isinstance(value, tuple):
        return (type(value), *[constant(item, name) for item in value])
    if value is None or isinstance(value, _PLAIN):
        return (type(value), repr(value))
    word = known.name_of(value)
    if word is not None:
        return (known, word)
    is_language = isinstance(value, (_libtile.Jit, _objects.LanguageObject, _objects.LanguageType))
    if (is_language or (takes_any and _has_hash(value))) and not isinstance(value, _objects.tensor):
        return (type(value), value)
    raise TypeError(f"argument '{name}': an object of type {type(value).__name__} is neither an array nor a "
                    "constant")


_DTYPES = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16", "bool": "int1",
           "float8_e5m2": "fp8e5", "float8_e4m3fn": "fp8e4nv", "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16",
           **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}


def dtype_name(value):
    """Our name of a dtype object of libtile, NumPy, ml_dtypes or torch; None for anything else."""
    if isinstance(value, _objects.dtype):
        return value.name
    owner = type(value).__module__.partition(".")[0]
    if owner in ("numpy", "torch") and type(value).__name__.lower().endswith("dtype"):
        return _DTYPES.get(str(value).removeprefix("torch."))
    if isinstance(value, type) and value.__module__ in ("numpy", "ml_dtypes"):
        return _DTYPES.get(value.__name__)
    return None


def device_of(values):
    """-1 or the number of the GPU that the arrays among the values are on."""
    for value in values:
        own = getattr(value, "__libtile_array__", None)
        if own is not None:
            return own[2]
        if getattr(value, "is_cuda", False):
            return value.get_device()
    return -1


def _before_fork():
    _libtile.before_fork()


if hasattr(sys.modules.get("os"), "register_at_fork"):
    sys.modules["os"].register_at_fork(before=_before_fork,
                                       after_in_parent=_libtile.after_fork_in_parent,
                                       after_in_child=_libtile.after_fork_in_child)
# Threads that compile on while the interpreter ends would meet static objects that are gone.
atexit.register(_before_fork)
