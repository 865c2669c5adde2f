# SPDX-License-Identifier: Apache-2.0
"""`triton.runtime.jit`: jit functions with the members that Triton's have, and tensors under another type."""
import abc
import functools
import hashlib
import inspect
import re
import sys

import libtile
from libtile import host
from triton import _driver, _errors, knobs  # noqa: F401  (the home of launches, the words of errors)

# A signature's names of types -> those of a pointer's elements or of a scalar.
_DEF = re.compile(r"^def\s+\w+\s*\(", re.MULTILINE)
aggregate = libtile.aggregate


def get_full_name(fn):
    """module.qualname."""
    return f"{fn.__module__}.{fn.__qualname__}"


class KernelInterface(metaclass=abc.ABCMeta):
    """The base of what is launched with `kernel[grid](...)`; libtile's tuned kernels count as such."""

    @classmethod
    def __subclasshook__(cls, other):
        is_one = cls is KernelInterface and all(hasattr(other, name) for name in ("run", "warmup", "__getitem__"))
        return is_one or NotImplemented

    def warmup(self, *args, grid, **kwargs):
        """Compiles for these arguments without launching."""
        return self.run(*map(MockTensor.wrap_dtype, args), grid=grid, warmup=True, **kwargs)

    def run(self, *args, grid, warmup, **kwargs):
        raise NotImplementedError("run() is for the classes that derive from this one")

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


class KernelParam:
    """A parameter of a jit function."""

    def __init__(self, num, param, do_not_specialize, do_not_specialize_on_alignment):
        self.num, self._param = num, param
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment

    @property
    def name(self):
        return self._param.name

    @property
    def annotation(self):
        """As text; "": there is none."""
        given = self._param.annotation
        if given is inspect.Parameter.empty:
            return ""
        return given if isinstance(given, str) else getattr(given, "__name__", None) or str(given)

    @property
    def annotation_type(self):
        """The type of a signature that the annotation names; "": none."""
        text = self.annotation
        return text if re.fullmatch(r"\*?k?(?:[iu](?:1|8|16|32|64)|fp(?:16|32|64)|bf16|fp8\w+)", text) else ""

    @property
    def is_constexpr(self):
        return "constexpr" in self.annotation

    @property
    def is_const(self):
        return "const" in self.annotation and not self.is_constexpr

    @property
    def default(self):
        return self._param.default

    @property
    def has_default(self):
        return self._param.default is not inspect.Parameter.empty


class JITCallable:
    """What jit functions know of their source. Needs `fn` and `_source()`."""
    _patched = None
    _hash = None

    @functools.cached_property
    def signature(self):
        return inspect.signature(self.fn)

    @property
    def src(self):
        """The source from `def` on."""
        return self._source()[0]

    def _source(self):
        text, file, first, *rest = super()._source()
        begin = _DEF.search(text).start()
        return (self._patched or text[begin:], file, first + text.count("\n", 0, begin), *rest)

    def _unsafe_update_src(self, text):
        """Another source under the same name; what was compiled of the first is forgotten."""
        self._patched = text
        self.hash = None
        self._forget()

    @property
    def raw_src(self):
        """The lines of the file, with decorators."""
        return super()._source()[0].splitlines(keepends=True)

    @property
    def starting_line_number(self):
        return super()._source()[2]

    @property
    def file_name(self):
        return self.fn.__code__.co_filename

    @property
    def def_file_line_number(self):
        return self._source()[2]

    @property
    def module(self):
        return self.fn.__module__

    @property
    def __globals__(self):
        return self.fn.__globals__

    @property
    def used_global_vals(self):
        """libtile compiles a kernel anew when a global that it names has changed; nothing is kept here."""
        return {}

    def get_capture_scope(self):
        """The globals and the closure's variables."""
        return {**self.fn.__globals__, **inspect.getclosurevars(self.fn).nonlocals}

    def parse(self):
        """The syntax tree of the source."""
        import ast
        return ast.parse(self.src)

    @property
    def type(self):
        return sys.modules["triton.language"].core.constexpr_type(self)

    @property
    def hash(self):
        return self._hash

    @hash.setter
    def hash(self, value):
        self._hash = value

    @property
    def cache_key(self):
        """Changes with the source, its place, what it calls, and the constants that it names."""
        if self._hash is None:
            self._hash = _digest(self, set())
        return self._hash

    def __hash__(self):
        return object.__hash__(self)


def _digest(function, seen):
    """Of a jit function and of what its code names, each once."""
    seen.add(id(function))
    text, _, line, *_ = function._source()
    parts = [libtile.__version__, text, str(line)]
    scope = function.get_capture_scope()
    for name in sorted(set(re.findall(r"\b[A-Za-z_]\w*\b", text))):
        value = scope.get(name)
        if isinstance(value, JITCallable) and value.fn is not function.fn:
            parts.append(name if id(value) in seen else _digest(value, seen))
        elif isinstance(value, (ConstexprFunction, libtile.language.constexpr)):
            parts.append(f"{name}={value.src if isinstance(value, ConstexprFunction) else value!r}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class JITFunction(JITCallable, libtile.JITFunction, KernelInterface):
    """libtile's jit function with the members that Triton's has."""

    @staticmethod
    def _kernel_class(kernel, function):
        from triton._compiler import CompiledKernel
        return CompiledKernel(kernel, function)

    def __init__(self, fn, version=None, do_not_specialize=None, do_not_specialize_on_alignment=None, debug=None,
                 noinline=None, repr=None, launch_metadata=None):
        super().__init__(fn, do_not_specialize, do_not_specialize_on_alignment, launch_metadata, None, debug,
                         knobs.language.fp32_default or "tf32", True)
        self.version, self.debug, self.noinline = version, debug, noinline
        self._repr = repr
        self.pre_run_hooks = []

    @functools.cached_property
    def params(self):
        def named(given, at, name):
            return at in given or name in given
        return [KernelParam(i, param, named(self.do_not_specialize, i, name),
                            named(self.do_not_specialize_on_alignment, i, name))
                for i, (name, param) in enumerate(self.signature.parameters.items())]

    @property
    def constexprs(self):
        return [each.num for each in self.params if each.is_constexpr]

    def repr(self, specialisation):
        """The kernel's name for profilers."""
        return self._repr(specialisation) if self._repr is not None else self.__name__

    def is_gluon(self):
        return False

    def warmup(self, *args, grid=None, **kwargs):
        from triton._driver import driver, name_of
        kwargs.setdefault("target", None if any(map(_is_array, args)) else name_of(driver.active.get_current_target()))
        return libtile.JITFunction.warmup(self, *map(_as_type, args), grid=grid,
                                          **{name: _as_type(value) for name, value in kwargs.items()})

    def run(self, *args, grid, warmup=False, **kwargs):
        """A launch, or a compilation, in direct form."""
        return self.warmup(*args, grid=grid, **kwargs) if warmup else self[grid](*args, **kwargs)

    def add_pre_run_hook(self, hook):
        """hook(*args, **kwargs) is called before every launch."""
        self.pre_run_hooks.append(hook)
        if type(self) is JITFunction:
            self.__class__ = _HookedFunction

    def __repr__(self):
        return f"JITFunction({self.module}:{self.__qualname__})"


class _HookedFunction(JITFunction):
    """One with hooks: a class of its own, so that the launches of the others do not look for them."""

    def __getitem__(self, grid):
        def launch(*args, **kwargs):
            for hook in self.pre_run_hooks:
                hook(*args, **kwargs)
            return libtile.JITFunction.__getitem__(self, grid)(*args, **kwargs)
        return launch


def jit(fn=None, *, version=None, repr=None, launch_metadata=None, do_not_specialize=None,
        do_not_specialize_on_alignment=None, debug=None, noinline=None):
    """Makes a function a kernel, or a function for kernels."""
    def decorate(function):
        if isinstance(function, libtile.JITFunction):
            return function
        return JITFunction(function, version, do_not_specialize, do_not_specialize_on_alignment, debug, noinline, repr,
                           launch_metadata)
    return decorate if fn is None else decorate(fn)


@functools.wraps(libtile.autotune)
def autotune(configs, key, *args, **kwargs):
    """libtile.autotune. Names in `key` that are no parameters count for nothing, as they do in Triton."""
    def decorate(fn):
        known = getattr(fn, "arg_names", key)
        return libtile.autotune(configs, [name for name in key if name in known], *args, **kwargs)(fn)
    return decorate


class ConstexprFunction:
    """A Python function that kernels may call on constants; on the host it just runs."""
    __libtile_constexpr__ = True

    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self.fn = fn

    @property
    def src(self):
        import textwrap
        return textwrap.dedent(inspect.getsource(self.fn))

    def __get__(self, instance, owner=None):
        return self if instance is None else BoundConstexprFunction(instance, self.fn)

    def __call__(self, *args, _semantic=None, **kwargs):
        return self.fn(*args, **kwargs)


class BoundConstexprFunction(ConstexprFunction):
    """One of an aggregate's instance."""

    def __init__(self, instance, fn):
        super().__init__(fn)
        self.instance = instance

    def __call__(self, *args, _semantic=None, **kwargs):
        return self.fn(self.instance, *args, **kwargs)


constexpr_function = libtile.constexpr_function


class InterpretedFunction(KernelInterface):
    """A kernel that an interpreter runs; libtile has a device for that."""


# ---- arrays

def _is_array(value):
    return hasattr(value, "data_ptr") and not isinstance(value, MockTensor) or hasattr(value, "__array_interface__")


def _as_type(value):
    """Of a MockTensor the text of its type; other values stay."""
    return f"*{host.dtype_name(value.dtype)}:16" if isinstance(value, MockTensor) else value


def canonicalize_dtype(dtype):
    """The name of an element type in signatures."""
    name = host.dtype_name(dtype) or str(dtype)
    return re.sub(r"^(u?)int(\d+)$", lambda m: f"{m[1] or 'i'}{m[2]}", name)


def mangle_type(arg, specialize=False):
    """The type of a host's argument as in a signature."""
    if arg is None or isinstance(arg, (str, libtile.JITFunction)):
        return "constexpr"
    if isinstance(arg, bool):
        return "u1"
    if isinstance(arg, int):
        if arg == 1 and specialize:
            return "constexpr"
        return "i32" if -2**31 <= arg < 2**31 else "i64" if arg < 2**63 else "u64"
    if isinstance(arg, float):
        return "fp32"
    return "*" + canonicalize_dtype(arg.dtype)


class MockTensor:
    """Stands for an array of a type in warmup(): its address is a multiple of 16."""

    def __init__(self, dtype, shape=None):
        self.dtype, self.shape = dtype, shape if shape is not None else [1]

    @staticmethod
    def wrap_dtype(arg):
        """A dtype of torch as a MockTensor of it; other values stay."""
        is_dtype = type(arg).__name__ == "dtype" and type(arg).__module__ == "torch"
        return MockTensor(arg) if is_dtype else arg

    def stride(self):
        strides = [1]
        for extent in self.shape[:0:-1]:
            strides.insert(0, strides[0] * extent)
        return tuple(strides)

    @staticmethod
    def data_ptr():
        return 0

    @staticmethod
    def ptr_range():
        return 0


class TensorWrapper:
    """A tensor of torch whose elements kernels see as another type."""

    def __init__(self, base, dtype):
        self.base, self.dtype = base, dtype
        self.data, self.device, self.shape = base.data, base.device, base.shape

    @property
    def __libtile_array__(self):
        """(address, type, device, bytes up to the storage's end), as the launcher reads it."""
        base = self.base
        storage = base.untyped_storage()
        return (base.data_ptr(), host.dtype_name(self.dtype), base.get_device() if base.is_cuda else -1,
                storage.data_ptr() + storage.nbytes() - base.data_ptr())

    @property
    def is_cuda(self):
        return self.base.is_cuda

    def get_device(self):
        return self.base.get_device()

    def data_ptr(self):
        return self.base.data_ptr()

    def stride(self, *args):
        return self.base.stride(*args)

    def element_size(self):
        return self.base.element_size()

    def cpu(self):
        return TensorWrapper(self.base.cpu(), self.dtype)

    def copy_(self, other):
        self.base.copy_(other.base)

    def clone(self):
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device):
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes):
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self):
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor, dtype):
    """The tensor under another type, without a copy; under its own type it is itself again."""
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if not hasattr(base, "data_ptr"):
        raise TypeError(f"Cannot reinterpret a {type(tensor)}.")
    return base if dtype == base.dtype else TensorWrapper(base, dtype)
