# SPDX-License-Identifier: Apache-2.0
"""The modules of `triton` that are made of others, and where each of their names comes from.

A name is looked up when it is first asked for: importing `triton` imports little, and a name that its source lacks is an
AttributeError in words. What has a file of its own in site/triton (`triton.knobs`, the modules that begin with "_") is not
here; that is where the objects live that libtile itself has no use for.
"""
import sys
from importlib import import_module

from ..language import _objects

_JIT = "triton._jit"
_COMPILER = "triton._compiler"
_DRIVER = "triton._driver"
_ERRORS = "triton._errors"
_CACHE = "triton._cache"

# module -> {source: names}. "name=other": the name stands for the source's `other`; "*": all that it has.
MODULES = {
    "triton": {
        "libtile": "aggregate cdiv Config heuristics must_use_result next_power_of_2 set_allocator",
        _JIT: "JITFunction KernelInterface MockTensor TensorWrapper autotune constexpr_function jit reinterpret",
        _COMPILER: "AsyncCompileMode FutureKernel compile",
        _ERRORS: "CompilationError InterpreterError OutOfResources TritonError",
    },
    "triton.errors": {_ERRORS: "TritonError"},
    "triton.testing": {"libtile.testing": "*"},
    "triton._utils": {_COMPILER: "find_paths_if get_iterable_path", _JIT: "canonicalize_dtype"},

    "triton.language": {"libtile.language": "*"},
    "triton.language.core": {"libtile.language.core": "*", _JIT: "_aggregate=aggregate"},
    "triton.language.math": {"libtile.language.math": "*"},
    "triton.language.standard": {"libtile.language.standard": "*"},
    "triton.language.random": {"libtile.language.random": "*"},
    "triton.language.target_info": {"libtile.language.target_info": "*"},
    "triton.language.extra": {"libtile.language.extra": "*"},
    "triton.language.extra.libdevice": {"libtile.language.extra.libdevice": "*"},
    "triton.language.extra.cuda": {"libtile.language.extra.cuda": "*"},
    "triton.language.extra.cuda.libdevice": {"libtile.language.extra.libdevice": "*"},
    "triton.language.extra.hip": {"libtile.language.extra.hip": "*"},
    "triton.language.extra.hip.libdevice": {"libtile.language.extra.libdevice": "*"},

    "triton.runtime": {
        "libtile.tuning": "Autotuner Config Heuristics heuristics",
        _JIT: "JITFunction KernelInterface MockTensor TensorWrapper autotune reinterpret",
        _DRIVER: "driver",
        _ERRORS: "InterpreterError OutOfResources",
        "triton.runtime.cache": "RedisRemoteCacheBackend RemoteCacheBackend",
    },
    "triton.runtime.jit": {
        _JIT: "BoundConstexprFunction ConstexprFunction JITCallable JITFunction KernelInterface KernelParam MockTensor "
              "TensorWrapper constexpr_function get_full_name jit mangle_type reinterpret",
        "libtile": "must_use_result",
    },
    "triton.runtime.autotuner": {
        "libtile.tuning": "Autotuner Config Heuristics heuristics",
        _JIT: "autotune",
        _ERRORS: "OutOfResources PTXASError",
        _DRIVER: "driver",
    },
    "triton.runtime.driver": {_DRIVER: "driver DriverConfig"},
    "triton.runtime.cache": {_CACHE: "*"},
    "triton.runtime.errors": {_ERRORS: "AutotunerError InterpreterError OutOfResources PTXASError TritonError"},
    "triton.runtime.interpreter": {_JIT: "InterpretedFunction"},
    "triton.runtime._allocation": {"libtile": "set_allocator", _COMPILER: "NullAllocator"},

    "triton.compiler": {
        _COMPILER: "ASTSource CompiledKernel LazyDict compile get_cache_key make_backend max_shared_mem",
        _ERRORS: "CompilationError",
    },
    "triton.compiler.compiler": {
        _COMPILER: "ASTSource CompiledKernel LazyDict compile get_cache_key make_backend max_shared_mem triton_key",
        _DRIVER: "GPUTarget",
    },
    "triton.compiler.errors": {_ERRORS: "CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct"},

    "triton.backends": {_DRIVER: "BaseBackend DriverBase backends Backend"},
    "triton.backends.compiler": {_DRIVER: "BaseBackend GPUTarget"},
    "triton.backends.driver": {_DRIVER: "DriverBase GPUDriver"},

    "triton.tools": {},
    "triton.tools.tensor_descriptor": {"libtile.tools.tensor_descriptor": "TensorDescriptor"},
    "triton.tools.mxfp": {"triton._mxfp": "MXFP4Tensor MXScaleTensor fp8e8m0_to_float32"},
    "triton.tools.ragged_tma": {
        "triton._ragged_tma": "atomic_add_ragged create_ragged_descriptor load_ragged store_ragged to_ragged_indices"},
    "triton.tools.disasm": {_COMPILER: "get_sass"},

    "triton.profiler": {"triton._profiler": "*"},
    "triton.profiler.viewer": {"triton._profiler": "parse print_tree"},
    "triton.experimental": {},

    "triton._C": {},
    "triton._C.libtriton": {},
    "triton._C.libtriton.nvidia": {},
    "triton._C.libtriton.nvidia.cublas": {"triton._cublas": "CublasLt"},
}

# Modules that raise an ImportError, and why; what is below them and in no row of MODULES does too.
REFUSED = {
    "triton.experimental.gluon": "Gluon is a language of its own, with layouts that the program spells out; libtile has "
                                 "Triton's alone",
    "triton.experimental.gsan": "LIBTILE_CHECK=1 finds accesses out of an array's bounds",
    "triton._C": "libtile has no MLIR, and its compiler is not reached through Triton's bindings",
}


_FILES = ("triton.knobs", "triton._internal_testing")


def refusal(module):
    """Why the module is not there; None of one that is, or that Triton has not either."""
    if module in MODULES:
        return None
    return next((why for each, why in REFUSED.items() if f"{module}.".startswith(each + ".")), None)


def is_package(module):
    return any(each.startswith(module + ".") for each in (*MODULES, *REFUSED))


def _sources(module):
    """(name, source, its name there) of each name that is spelled out."""
    for source, names in MODULES[module].items():
        for name in names.split():
            name, _, other = name.partition("=")
            yield name, source, other or name


def names_of(module):
    """The names that the module is to answer, submodules apart."""
    found = []
    for name, source, _ in _sources(module):
        found += vars(import_module(source)).get("__all__", ()) if name == "*" else [name]
    return found


def find(module, wanted):
    """The object of a module's name. AttributeError: there is none."""
    whole = []
    for name, source, other in _sources(module):
        if name == wanted:
            return getattr(import_module(source), other)
        if name == "*":
            whole.append(import_module(source))
    below = f"{module}.{wanted}"
    if below in MODULES or below in _FILES:
        return import_module(below)
    for source in whole:
        if wanted in vars(source) or source is whole[-1]:
            return getattr(source, wanted)  # or its own word on why it is not there
    raise AttributeError(f"module '{module}' has no attribute '{wanted}'", name=wanted)


def fill(module):
    """Gives a module of the table its names: those of the language at once, since kernels are told them by the modules'
    dictionaries, the others when they are asked for."""
    name, held = module.__name__, vars(module)

    def ask(wanted):
        found = find(name, wanted)
        held[wanted] = found
        return found

    held["__getattr__"] = ask
    held["__dir__"] = lambda: sorted({*held, *names_of(name)})
    if name.startswith("triton.language"):
        source = import_module(next(iter(MODULES[name])))
        held["__all__"] = list(vars(source).get("__all__", ()))
        for each in held["__all__"]:
            below = f"{name}.{each}"
            held[each] = import_module(below) if below in MODULES else getattr(source, each)
            if isinstance(held[each], _objects.Operation):
                held[each].__module__ = name  # who writes a kernel's source anew imports its names from there
    # A name that a submodule has as well stands for the object: the submodule must have been imported before.
    for each, _, _ in list(_sources(name)):
        if f"{name}.{each}" in MODULES:
            import_module(f"{name}.{each}")
            sys.modules[name].__dict__[each] = find(name, each)
