# SPDX-License-Identifier: Apache-2.0
"""`triton.compile`, and compiled kernels with the members that Triton's have."""
import contextlib
import functools
import hashlib
from collections.abc import Mapping

import libtile
from libtile import _libtile
from triton import _driver, _errors

# Triton's stages -> libtile's that stand for about the same; the others keep their names.
_STAGES = {"ttir": "tile", "ttgir": "staged", "llir": "llvm"}
_STAGES_OF_AMD = {**_STAGES, "amdgcn": "asm"}


class Options(dict):
    """Values by name, as items and as attributes."""

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)

    @property
    def __dict__(self):
        return dict(self)

    @property
    def _fields(self):
        return tuple(self)

    def _asdict(self):
        return dict(self)


class Stages(Mapping):
    """A kernel's stages by Triton's names and by libtile's. "source" is the kernel's."""

    def __init__(self, kernel):
        self._kernel, self._stages = kernel, libtile.CompiledKernel.asm.fget(kernel)
        self._names = _STAGES_OF_AMD if kernel.target.startswith("gfx") else _STAGES

    def __getitem__(self, name):
        if name == "source":
            return self._kernel.src.fn.src
        if name == "cubin":
            return _assembled(self["ptx"], self._kernel.target)
        if name == "sass":
            return get_sass(self["cubin"])
        if name == "hsaco" and self._names is _STAGES_OF_AMD:
            return self._kernel._kernel.code()
        return self._stages[self._names.get(name, name) if self._names.get(name) in self._stages else name]

    def __iter__(self):
        yield "source"
        yield from (name for name, ours in self._names.items() if ours in self._stages)
        yield from (name for name in self._stages if name not in self._names.values())
        if "ptx" in self._stages:
            yield "cubin"
        if self._names is _STAGES_OF_AMD:
            yield "hsaco"

    def __len__(self):
        return len(list(iter(self)))


def _tool(variable, name):
    """The path of one of NVIDIA's tools. PTXASError: there is none."""
    import os
    import shutil
    given = os.environ.get(variable)
    found = shutil.which(given or name)
    if found is None:
        raise _errors.PTXASError(f"{variable} is {given!r}, which is no program" if given else
                                 f"there is no {name} on PATH, which comes with CUDA; {variable} names another")
    return found


def _run_tool(command):
    """What it prints. PTXASError: it fails."""
    import subprocess
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise _errors.PTXASError(f"{command[0]} fails: {(result.stderr or result.stdout).strip()}")
    return result.stdout


def _assembled(ptx, target):
    import os
    import tempfile
    tool = _tool("TRITON_PTXAS_PATH", "ptxas")
    with tempfile.TemporaryDirectory() as folder:
        source, made = os.path.join(folder, "kernel.ptx"), os.path.join(folder, "kernel.cubin")
        with open(source, "w", encoding="utf-8") as file:
            file.write(ptx)
        _run_tool([tool, f"-arch={target}", source, "-o", made])
        with open(made, "rb") as file:
            return file.read()


def get_sass(cubin_asm, fun=None):
    """The assembly text of a cubin, from cuobjdump."""
    import tempfile
    tool = _tool("TRITON_CUOBJDUMP_PATH", "cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin_asm)
        file.flush()
        only = ["-fun", fun] if fun else []
        return _run_tool([tool, "-sass", *only, file.name])


class LazyDict:
    """What a launch's hooks are told, made when it is asked for."""

    def __init__(self, data):
        self.data, self.extras = data, []

    def get(self):
        for func, args in self.extras:
            self.data = {**self.data, **func(*args)}
        self.extras.clear()
        return self.data

    def add(self, func, args):
        self.extras.append((func, args))


class CompiledKernel(libtile.CompiledKernel):
    """libtile's compiled kernel with the members that Triton's has."""

    def __init__(self, kernel, function):
        super().__init__(kernel, function)
        self._launched, self._options = function, {}

    def __getitem__(self, grid):
        """A launch with all arguments, constants too."""
        return self.src.fn[grid]

    @functools.cached_property
    def src(self):
        """What it was compiled from: an ASTSource, or what a launch needed."""
        return _Source(self._launched, self._kernel.facts()["signature"])

    @property
    def asm(self):
        return Stages(self)

    @functools.cached_property
    def _facts(self):
        facts = self._kernel.facts()
        return Options({**facts, "name": self.name, "hash": self.hash, "target": _driver.target_of(facts["target"]),
                        "num_ctas": 1, "shared": self._held(facts, "shared_bytes")})

    def _held(self, facts, name):
        """What a program occupies of the device. On a CPU a program has a core to itself: 1 of the registers and bytes that the
        driver's properties count, since programs divide by these to see how many fit."""
        return facts.get(name) if self._is_for_gpu else 1

    @property
    def _is_for_gpu(self):
        return self.target.startswith(("sm_", "gfx"))

    def _loaded(self):
        """The facts, with those that the driver of a GPU finds out in loading the code; without, where none loads it."""
        with contextlib.suppress(libtile.errors.DeviceError):
            self._init_handles()
        return self._kernel.facts()

    def _spills(self):
        if not self._is_for_gpu:
            return 0
        held = self._loaded().get("local_bytes")
        return held if held is None else held // 4

    @property
    def metadata(self):
        """What the compiler chose and what the code needs, by name, as items and as attributes."""
        return self._facts

    @property
    def name(self):
        return self.src.fn.repr(self.src)

    @functools.cached_property
    def hash(self):
        facts = self._kernel.facts()
        text = "\0".join([libtile.__version__, facts["target"], facts["signature"], self._kernel.text("tile")])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def kernel(self):
        """The code: of a kernel for NVIDIA's GPUs the assembler's output. PTXASError: there is no assembler."""
        return self.asm[next((name for name in self.asm if name in ("cubin", "hsaco")), "asm")]

    n_regs = property(lambda self: self._held(self._loaded(), "registers"))
    n_spills = property(_spills)
    n_max_threads = property(lambda self: self._loaded().get("max_threads", 1024))
    packed_metadata = property(lambda self: (self.metadata.num_warps, self.metadata.num_ctas, self.metadata.shared))
    module = property(lambda self: self._kernel)
    function = property(lambda self: self._kernel)
    metadata_group = property(lambda self: {})

    def _init_handles(self):
        """Loads a GPU's code on the current one, unless it is loaded. DeviceError: there is none that runs it. What is for
        a CPU is loaded by its launch."""
        if self._is_for_gpu:
            self._kernel.load(_driver.driver.active.get_current_device())

    @property
    def run(self):
        """The launcher: run(x, y, z, stream, function, packed metadata, launch metadata, enter hook, exit hook, *all
        arguments, constants too)."""
        def launch(x, y, z, stream, function, packed, metadata, enter, exit, *args):
            return self.src.fn[(x, y, z)](*args, **self._options)
        return launch

    def launch_metadata(self, grid, stream, *args):
        return LazyDict({"name": self.name, "function": self.function, "stream": stream})


class _Source:
    """The source of a kernel that a launch compiled."""
    ext = "ttir"

    def __init__(self, fn, text):
        self.fn, self.name = fn, fn.__name__
        # "x=<pointer<fp32>:16>, n=<int32>, BLOCK=64": the specialisation as libtile writes it
        self.signature, self.constants = {}, {}
        for item in _split(text):
            name, _, value = item.partition("=")
            if value.startswith("<"):
                self.signature[name] = _signature_type(value[1:-1])
            else:
                self.signature[name] = "constexpr"
                self.constants[name] = _constant(value)


def _split(text):
    """What stands between commas that no bracket or quote encloses."""
    depth, quote, item = 0, "", ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char in "<([{") - (char in ">)]}")
        if char == "," and depth == 0 and not quote:
            yield item.strip()
            item = ""
        else:
            item += char
    if item.strip():
        yield item.strip()


def _signature_type(text):
    """"pointer<fp32>:16" as "*fp32"."""
    if text.startswith("pointer<"):
        return "*" + _signature_type(text[len("pointer<"):text.index(">")])
    text = text.partition(":")[0]
    return "u1" if text == "int1" else text.replace("uint", "u").replace("int", "i")


def _constant(text):
    """A constant as libtile writes it; what is no literal stays a text."""
    import ast
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


class ASTSource:
    """A jit function for one specialisation: the types of its parameters by name ("*fp32", "i32", "constexpr"), the constants
    by name or path, and by path what numbers and addresses are multiples of: {(0,): [["tt.divisibility", 16]]}."""
    ext = "ttir"

    def __init__(self, fn, signature, constexprs=None, attrs=None):
        self.fn, self.name = fn, fn.__name__
        self.signature = {name: signature[name] for name in fn.arg_names if name in signature}
        if len(self.signature) < len(signature):
            unknown = ", ".join(str(name) for name in signature if name not in self.signature)
            raise ValueError(f"{self.name} has no parameter {unknown}")
        names = {name: (i,) for i, name in enumerate(fn.arg_names)}
        self.constants = {names.get(key, key): value for key, value in (constexprs or {}).items()}
        self.attrs = attrs or {}

    def hash(self):
        parts = [self.fn.cache_key, str(self.attrs), *map(str, self.signature.items()), *map(str, self.constants.items())]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def parse_options(self):
        return {}

    def make_ir(self, *args):
        raise libtile.UnsupportedError("libtile has no MLIR; asm['tile'] of a compiled kernel is its own form")

    def arguments(self):
        """As warmup() takes them: types as text, and constants."""
        return {name: self._argument(ty, (i,)) for i, (name, ty) in
                enumerate((name, self.signature.get(name, "constexpr")) for name in self.fn.arg_names)
                if ty != "constexpr" or path_has((i,), self.constants)}

    def _argument(self, ty, path):
        if isinstance(ty, (tuple, list)):
            items = [self._argument(each, (*path, i)) for i, each in enumerate(ty)]
            return type(ty)(*items) if hasattr(ty, "_fields") else tuple(items)
        if path in self.constants or ty == "constexpr":
            value = self.constants.get(path)
            return value.value if isinstance(value, libtile.language.constexpr) else value
        multiples = [number for what, number in self.attrs.get(path, ()) if what == "tt.divisibility"]
        return f"{ty}:{multiples[0]}" if multiples else ty + ":1" * ty.startswith("*")


def path_has(path, paths):
    """Whether a path, or one that begins with it, is among them."""
    return any(each[:len(path)] == path for each in paths)


def find_paths_if(iterable, pred):
    """The paths to what fits in nested sequences."""
    found = []

    def visit(value, path):
        if isinstance(value, (list, tuple)):
            for i, each in enumerate(value):
                visit(each, (*path, i))
        elif pred(path, value):
            found.append(path)
    visit(iterable, ())
    return found


def get_iterable_path(iterable, path):
    """What a path leads to."""
    return functools.reduce(lambda value, i: value[i], path, iterable)


def make_backend(target):
    return _driver.BaseBackend(target)


def max_shared_mem(device):
    """Bytes of shared memory that a program may have."""
    return _driver.driver.active.utils.get_device_properties(device)["max_shared_mem"]


def triton_key():
    """Changes whenever the compiler does."""
    import os
    facts = os.stat(_libtile.__file__)
    return f"libtile-{libtile.__version__}-{facts.st_size}-{facts.st_mtime_ns}"


def get_cache_key(src, backend, backend_options, env_vars):
    return "-".join([triton_key(), src.hash(), backend.hash(), str(sorted(dict(backend_options).items())),
                     str(sorted(env_vars.items()))])


_KNOWN_OPTIONS = frozenset(name for name, *_ in _libtile.options())


def compile(src, target=None, options=None, _env_vars=None):
    """Compiles an ASTSource for a GPUTarget, or that of the active driver; nothing is launched."""
    if not isinstance(src, ASTSource):
        raise libtile.UnsupportedError("triton.compile takes an ASTSource: libtile reads none of Triton's IR")
    target = _driver.driver.active.get_current_target() if target is None else target
    options = options if isinstance(options, dict) else vars(options or object)
    known = {name: value for name, value in options.items() if name in _KNOWN_OPTIONS}
    kernel = libtile.JITFunction.warmup(src.fn, target=_driver.name_of(target), **src.arguments(), **known)
    kernel.src, kernel._options = src, known
    return kernel


class NullAllocator:
    """No allocator is set. libtile asks none for memory."""

    def __call__(self, size, alignment, stream):
        raise RuntimeError("a kernel asks for memory of the host, and triton.set_allocator() was not called")


class FutureKernel:
    """A kernel that another thread compiles; what is asked of it waits for it."""

    def __init__(self, finalize_compile, cleanup_compile, future):
        self._finalize, self._cleanup, self._future = finalize_compile, cleanup_compile, future

    def result(self, ignore_errors=False):
        try:
            kernel = self._future.result()
        except Exception:
            self._cleanup()
            if ignore_errors:
                return None
            raise
        self._finalize(kernel)
        return kernel

    def __getattr__(self, name):
        return getattr(self.result(), name)


class AsyncCompileMode:
    """While it is active, Triton compiles in other threads. libtile compiles in the thread that launches, so a kernel is always
    there: the mode changes nothing."""

    def __init__(self, executor, *, ignore_errors=False):
        self.executor, self.ignore_errors = executor, ignore_errors

    def submit(self, key, compile_fn, finalize_fn, cleanup_fn):
        return FutureKernel(finalize_fn, cleanup_fn, self.executor.submit(compile_fn))

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        return None
