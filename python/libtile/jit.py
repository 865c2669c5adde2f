# SPDX-License-Identifier: Apache-2.0
"""`libtile.jit`, jit functions and compiled kernels.

A jit function's source is read when it is first used and compiled in libtile.so; Python is asked only
for what the source names from outside (host.py). The launch itself is in the extension module.
"""
import weakref
from collections.abc import Mapping

from . import _libtile, errors, hooks, host

# Python function -> the lines of its file when it was decorated: the file may be edited before the first use.
_lines = weakref.WeakKeyDictionary()


class Stages(Mapping):
    """The stages of a compiled kernel as text, made when they are asked for."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._names = kernel.stages()

    def __getitem__(self, name):
        if name not in self._names:
            raise KeyError(f"{name}: the stages are {', '.join(self._names)}")
        return self._kernel.text(name)

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    def __repr__(self):
        return f"<stages {', '.join(self._names)}>"


class CompiledKernel:
    """A kernel compiled for one signature and target: what a launch and `warmup` return."""

    def __init__(self, kernel, function=None):
        self._kernel = kernel

    @property
    def asm(self):
        """Every stage as text by name, in order: "tile", then "plan" and "nested" (CPU) or "laid-out", "plan"
        and "staged" (GPU), then "llvm", then "ptx" (NVIDIA) or "asm" (CPU, AMD). A text is made when it is asked for;
        docs/ir.md tells how to read the first ones."""
        return Stages(self._kernel)

    @property
    def name(self):
        """The function's name."""
        return self._kernel.facts()["name"]

    @property
    def target(self):
        """The target that it is compiled for, one of `libtile.targets()`."""
        return self._kernel.facts()["target"]

    @property
    def signature(self):
        """What the kernel is specialised on, as text: types, what they are multiples of, constants."""
        return self._kernel.facts()["signature"]

    @property
    def fallbacks(self):
        """Slower ways that the compiler had to take, in words: a dot without matrix instructions, a loop
        that is not pipelined. Empty is best."""
        return self._kernel.fallbacks()

    @property
    def guards(self):
        """What the launcher checks of the arguments before it runs the fastest of its variants, such as
        "x and out do not overlap". The other is compiled when a launch first fails a check."""
        return self._kernel.guards()

    @property
    def metadata(self):
        """What the compiler chose and what the code needs, by name: num_warps, num_stages, threads of a
        program, shared_bytes, scratch_bytes, name, target, signature, symbol, compile_ms, cache (what the cache on
        disk did: "off", "hit", "stored", or "not stored: " and why), and what the device's driver says of the code."""
        return self._kernel.facts()

    @property
    def compile_ms(self):
        """Milliseconds from the syntax tree to machine code, the driver's assembler not included."""
        return self._kernel.facts()["compile_ms"]

    def __repr__(self):
        return f"<kernel {self.name}({self.signature}) for {self.target}>"


class JITFunction(_libtile.Jit):
    """A function in the kernel language: launched with `function[grid](...)`, or called by kernels.

    `function[grid](*args, **kwargs)` launches it: arguments in order or by name, defaults as in Python, and
    options such as num_warps (docs/options.md). It returns the CompiledKernel. What is wrong with an
    argument is a TypeError or a ValueError (an OverflowError: an integer of more than 64 bits), with the kernel a CompilationError. A launch with `check=True`
    may end with an OutOfBoundsError, one with `debug=True` with a KernelAssertionError.
    """

    _kernel_class = CompiledKernel

    def __init__(self, fn, do_not_specialize=None, do_not_specialize_on_alignment=None, launch_metadata=None,
                 check=None, debug=None, default_dot_input_precision=None, portable=None):
        super().__init__(fn, check, debug, default_dot_input_precision, portable)
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        self.do_not_specialize = do_not_specialize or ()
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment or ()
        self.launch_metadata = launch_metadata
        host.remember(fn, self)
        _lines[fn] = _file_lines(_unwrapped(fn))

    def __copy__(self):
        """Itself, as Python's functions are."""
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        """By name, as functions; what no name leads to, without its Python function: its source and
        parameters can still be asked for."""
        if self.fn is not None and _named(self.__module__, self.__qualname__) is self:
            return self.__qualname__
        state = {name: value for name, value in self.__dict__.items() if name != "__wrapped__"}
        if self.fn is not None:
            try:
                state["_restored"] = self._source(), self._params()
            except errors.Error:
                pass
        return _restore, (type(self), state)

    def _pickled(self):
        """(_source(), _params()) of an object without a function."""
        if "_restored" not in self.__dict__:
            raise RuntimeError("the jit object has no function, and its source could not be read when it was pickled")
        return self.__dict__["_restored"]

    def _source(self):
        if self.fn is None:
            return self._pickled()[0]
        try:
            lines, first = _own_lines(self.fn)
        except (OSError, TypeError) as error:
            raise errors.CompilationError(
                f"the source of '{self.__name__}' cannot be read: a jit function must be defined in a "
                "file") from error
        text = "".join(lines)
        if lines[0][0] in " \t":
            import textwrap
            text = textwrap.dedent(text)
        return (text, _unwrapped(self.fn).__code__.co_filename, first, self.fn.__name__,
                self._names(self.do_not_specialize), self._names(self.do_not_specialize_on_alignment))

    def _names(self, given):
        """Parameters may be named by position too."""
        code = self.fn.__code__
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        return tuple(names[each] if isinstance(each, int) else each for each in given)

    @property
    def src(self):
        """The source text that is compiled."""
        return self._source()[0]

    @property
    def arg_names(self):
        """The parameters' names, in order."""
        return _parameters(self.fn.__code__) if self.fn is not None else [name for name, _, _ in self._pickled()[1]]

    def run(self, *args, grid, warmup=False, **kwargs):
        """`function[grid](*args, **kwargs)`; with warmup `function.warmup(*args, grid=grid, **kwargs)`."""
        return self.warmup(*args, grid=grid, **kwargs) if warmup else self[grid](*args, **kwargs)

    def warmup(self, *args, grid=None, target=None, **kwargs):
        """Compiles without launching; returns the CompiledKernel.

        `target`: "sm_90a", "avx512bf16", ... (`libtile.targets()`); no such device needs to be present.
        None: the device of the arrays given. An argument may be an array, a number, a dtype (an array
        of it), or a type as text: "*fp32", "i32", "*fp16:16" (a multiple of 16 bytes), "i32:16".
        A number stands for itself, as in a launch: 1 compiles for the constant 1 (of a stride: what lies
        side by side), 64 for a multiple of 16. A tuple holds any of these.
        Pointers are taken to be multiples of 16 bytes unless the text says otherwise. `grid` changes
        nothing.
        """
        names = self.arg_names
        constexpr = {name for name, is_constexpr, _ in self._params() if is_constexpr}
        args = [value if i < len(names) and names[i] in constexpr else _as_type(value)
                for i, value in enumerate(args)]
        kwargs = {name: _as_type(value) if name in names and name not in constexpr else value
                  for name, value in kwargs.items()}
        if target is None:
            target = _libtile.target(host.device_of(_flat([*args, *kwargs.values()])))
        return self._warmup(target, *args, **kwargs)

    def __repr__(self):
        return f"<jit function {self.__module__}.{self.__qualname__}>"


def _parameters(code):
    """The names of a function's parameters, in the order of its source."""
    has_rest = 4  # inspect.CO_VARARGS
    count, last = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[last:last + 1] if code.co_flags & has_rest else ()
    return [*code.co_varnames[:count], *rest, *code.co_varnames[count:last]]


def _file_lines(fn):
    import linecache
    file = fn.__code__.co_filename
    linecache.checkcache(file)
    return linecache.getlines(file, fn.__globals__)


def _own_lines(fn):
    """The function's lines, and the number of the first, as of its decoration."""
    own = _unwrapped(fn)
    lines, first = _lines.get(fn, ()), own.__code__.co_firstlineno
    if first > len(lines):
        import inspect
        return inspect.getsourcelines(own)
    return block(lines[first - 1:]), first


def block(lines):
    """The lines of the function that begins with the first: what inspect.getblock gives, which takes longer."""
    return lines[:_libtile.count_block_lines("".join(lines))]


def _unwrapped(fn):
    """The function whose source counts: that which functools.wraps has named."""
    own, hops = fn, 0
    while hops < 100 and hasattr(own, "__wrapped__"):  # a circle has no end
        own, hops = own.__wrapped__, hops + 1
    return own if hasattr(own, "__code__") else fn


def _named(module, qualname):
    """What a module's name leads to; None: nothing."""
    import sys
    found = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _restore(cls, state):
    function = cls.__new__(cls)
    function.__dict__.update(state)
    return function


def _flat(values):
    for value in values:
        if isinstance(value, tuple):
            yield from _flat(value)
        else:
            yield value


def _as_type(value):
    """dtypes as the text of a pointer type, in tuples too; other values stay."""
    if isinstance(value, tuple):
        items = map(_as_type, value)
        return type(value)._make(items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, str):
        return value + ":16" if value.startswith("*") and ":" not in value else value
    name = host.dtype_name(value)
    return f"*{name}:16" if name is not None else value


def jit(fn=None, *, do_not_specialize=None, do_not_specialize_on_alignment=None, noinline=None,
        debug=None, repr=None, version=None, launch_metadata=None, check=None):
    """Makes a function a kernel or a function for kernels. Used as @jit or @jit(options).

    do_not_specialize: parameters (names or positions) whose integers give no compile-time facts: not
    that they are 1, not that 16 divides them. do_not_specialize_on_alignment: likewise for 16 alone.
    launch_metadata: what launch hooks are told beside the rest (hooks.LaunchInfo.get). check, debug: the
    options of these names (docs/options.md) for all launches that do not say otherwise. The other options are
    Triton's; they are accepted and change nothing.
    """
    if fn is None:
        return lambda function: jit(function, do_not_specialize=do_not_specialize,
                                    do_not_specialize_on_alignment=do_not_specialize_on_alignment,
                                    launch_metadata=launch_metadata, check=check, debug=debug)
    if isinstance(fn, JITFunction):
        return fn
    return JITFunction(fn, do_not_specialize, do_not_specialize_on_alignment, launch_metadata, check, debug)


def constexpr_function(fn):
    """A Python function that kernels may call on constants, while they are compiled."""
    fn.__libtile_constexpr__ = True
    return fn


def must_use_result(what, s=True):
    """Decorates a function whose call may not stand alone in a kernel: its result is the point. With a text,
    `@must_use_result("why")`, the error says it too."""
    if isinstance(what, str):
        return lambda function: must_use_result(function, what)
    what._must_use_result = s
    if isinstance(what, JITFunction):
        what.fn._must_use_result = s
    return what


_libtile.install(make_error=errors.make, compile_info=hooks.CompileInfo, global_value=host.global_value,
                 default_value=host.default_value, attribute_value=host.attribute_value,
                 names=host.names, call=host.call, describe=host.describe, print=host.print_text, unbound=host.Unbound, constant=host.constant,
                 convert=host.convert, launch_info=hooks.LaunchInfo)
