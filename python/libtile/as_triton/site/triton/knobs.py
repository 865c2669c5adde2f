# SPDX-License-Identifier: Apache-2.0
"""Triton's settings: groups of values that environment variables give. A variable counts whenever it is asked for; a value
that is assigned goes before it, and into the environment, which child processes inherit.

libtile heeds those that mean something to it: `runtime` (hooks, debug), `language.fp32_default`, `compilation.listener`,
`nvidia.ptxas`. The others are kept for the programs that read and write them.
"""
import contextlib
import os
import pathlib
from dataclasses import dataclass
from typing import Any

import libtile
from libtile import hooks

propagate_env: bool = True
HookChain = hooks.HookChain
_YES = ("1", "true", "on", "y", "yes")
_UNSET = object()


class env_base:
    """A value that the variable `key` gives; `default` where it is not set."""

    def __init__(self, key, default=None):
        self.key, self._default = key, default

    def __set_name__(self, owner, name):
        self.name = name

    def default(self, group):
        return self._default(group) if callable(self._default) else self._default

    def read(self, text):
        return text

    def write(self, value):
        return str(value)

    def __get__(self, group, owner=None):
        if group is None:
            return self
        value = group.__dict__.get(self.name, _UNSET)
        if value is not _UNSET:
            return value
        text = os.environ.get(self.key, "")
        return self.read(text.strip()) if text != "" else self.default(group)

    def __set__(self, group, value):
        group.__dict__[self.name] = value
        if propagate_env:
            if value is None:
                os.environ.pop(self.key, None)
            else:
                os.environ[self.key] = self.write(value)

    def __delete__(self, group):
        group.__dict__.pop(self.name, None)


class env_str(env_base):
    """Text."""


class env_opt_str(env_str):
    """Text, or None."""


class env_int(env_base):
    """An integer. ValueError: the variable holds none."""

    def __init__(self, key, default=0):
        super().__init__(key, default)

    def read(self, text):
        try:
            return int(text)
        except ValueError as error:
            raise RuntimeError(f"Unable to use {self.key}={text}: expected int") from error


class env_bool(env_base):
    """Yes or no."""

    def __init__(self, key, default=False):
        super().__init__(key, default)

    def read(self, text):
        return text.lower() in _YES

    def write(self, value):
        return "1" if value else "0"


class env_opt_bool(env_bool):
    """Yes, no, or None."""

    def __init__(self, key, default=None):
        super().__init__(key, default)


class env_class(env_base):
    """A class that the variable names: "module:class"."""

    def read(self, text):
        import importlib
        module, _, name = text.partition(":")
        return getattr(importlib.import_module(module), name)

    def write(self, value):
        return f"{value.__module__}:{value.__qualname__}"


@dataclass
class NvidiaTool:
    """A program of the toolkit."""
    path: str
    version: Any = None


class env_nvidia_tool(env_base):
    """A program of CUDA's toolkit; libtile brings none, so the one on PATH."""

    def __init__(self, key, binary):
        super().__init__(key, NvidiaTool(binary))

    def read(self, text):
        return NvidiaTool(text)

    def write(self, value):
        return value if isinstance(value, str) else value.path


class launch_hooks:
    """Hooks around launches: a HookChain, which all kernels call. What is assigned in its place is called alone; None: nothing is."""

    def __init__(self, chain):
        self.chain = chain

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, group, owner=None):
        return self if group is None else group.__dict__.get(self.name, self.chain)

    def __set__(self, group, value):
        if value is self.chain:
            group.__dict__.pop(self.name, None)
            return
        group.__dict__[self.name] = value
        self.chain.replace([] if value is None else [value])


class base_knobs:
    """A group of knobs, and of values that no variable gives."""

    @property
    def knob_descriptors(self):
        """The knobs that variables give, by name."""
        return {name: knob for name, knob in vars(type(self)).items() if isinstance(knob, env_base)}

    @property
    def knobs(self):
        """The values of these, by name."""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def copy(self):
        made = type(self)()
        made.__dict__.update(self.__dict__)
        return made

    def reset(self):
        """What was assigned to knobs counts no more; gives the group itself."""
        for name in self.knob_descriptors:
            delattr(self, name)
        return self

    @contextlib.contextmanager
    def scope(self):
        """Values and variables are afterwards as they were."""
        held = dict(self.__dict__)
        hooked = [(knob, list(knob.chain.calls)) for knob in vars(type(self)).values() if isinstance(knob, launch_hooks)]
        variables = {knob.key: os.environ.get(knob.key) for knob in self.knob_descriptors.values()}
        try:
            yield
        finally:
            for knob, calls in hooked:
                if self.__dict__.get(knob.name, knob) is not held.get(knob.name, knob):
                    knob.chain.replace(calls)
            self.__dict__.clear()
            self.__dict__.update(held)
            for key, value in variables.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value


def _folder(name):
    return lambda group: os.path.join(group.home_dir, ".triton", name)


# group -> knobs.
_GROUPS = {
    "build": {
        "cc": env_opt_str("CC"),
        "cudacrt_path": env_opt_str("TRITON_CUDACRT_PATH"),
        "cudart_path": env_opt_str("TRITON_CUDART_PATH"),
        "impl": None,
    },
    "redis": {
        "key_format": env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}"),
        "host": env_str("TRITON_REDIS_HOST", "localhost"),
        "port": env_int("TRITON_REDIS_PORT", 6379),
    },
    "cache": {
        "home_dir": env_str("TRITON_HOME", str(pathlib.Path.home())),
        "dump_dir": env_str("TRITON_DUMP_DIR", _folder("dump")),
        "override_dir": env_str("TRITON_OVERRIDE_DIR", _folder("override")),
        "dir": env_str("TRITON_CACHE_DIR", _folder("cache")),
        "manager_class": env_class("TRITON_CACHE_MANAGER"),
        "remote_manager_class": env_class("TRITON_REMOTE_CACHE_BACKEND"),
    },
    "compilation": {
        "override": env_bool("TRITON_KERNEL_OVERRIDE"),
        "dump_ir": env_bool("TRITON_KERNEL_DUMP"),
        "dump_ir_extract_di_local_variables": env_bool("LLVM_EXTRACT_DI_LOCAL_VARIABLES"),
        "store_binary_only": env_bool("TRITON_STORE_BINARY_ONLY"),
        "always_compile": env_bool("TRITON_ALWAYS_COMPILE"),
        "use_ir_loc": env_opt_str("USE_IR_LOC"),
        "enable_asan": env_bool("TRITON_ENABLE_ASAN"),
        "disable_line_info": env_bool("TRITON_DISABLE_LINE_INFO"),
        "front_end_debugging": env_bool("TRITON_FRONT_END_DEBUGGING"),
        "allow_non_constexpr_globals": env_bool("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"),
        "fpsan_homomorphic_casts": env_bool("TRITON_FPSAN_HOMOMORPHIC_CASTS"),
        "instrumentation_mode": os.environ.get("TRITON_INSTRUMENTATION_MODE", ""),
        "listener": None,
    },
    "autotuning": {
        "cache": env_bool("TRITON_CACHE_AUTOTUNING"),
        "print": env_bool("TRITON_PRINT_AUTOTUNING"),
        "listener": None,
    },
    "runtime": {
        "interpret": env_bool("TRITON_INTERPRET"),
        "debug": os.environ.get("TRITON_DEBUG", "").lower() in _YES,
        "override_arch": env_opt_str("TRITON_OVERRIDE_ARCH"),
        "launch_enter_hook": launch_hooks(hooks.launch_enter),
        "launch_exit_hook": launch_hooks(hooks.launch_exit),
        "kernel_load_start_hook": HookChain(),
        "kernel_load_end_hook": HookChain(reverse=True),
        "kernel_unload_hook": HookChain(reverse=True),
        "jit_cache_hook": None,
        "jit_post_compile_hook": None,
        "add_stages_inspection_hook": None,
    },
    "language": {
        "fp32_default": env_opt_str("TRITON_F32_DEFAULT"),
        "default_fp_fusion": env_bool("TRITON_DEFAULT_FP_FUSION", True),
        "force_disable_fp_fusion": env_bool("TRITON_FORCE_DISABLE_FP_FUSION"),
    },
    "nvidia": {
        "cuobjdump": env_nvidia_tool("TRITON_CUOBJDUMP_PATH", "cuobjdump"),
        "nvdisasm": env_nvidia_tool("TRITON_NVDISASM_PATH", "nvdisasm"),
        "ptxas": env_nvidia_tool("TRITON_PTXAS_PATH", "ptxas"),
        "ptxas_blackwell": env_nvidia_tool("TRITON_PTXAS_BLACKWELL_PATH", "ptxas"),
        "ptxas_options": env_opt_str("PTXAS_OPTIONS"),
        "dump_nvptx": env_bool("NVPTX_ENABLE_DUMP"),
        "disable_ptxas_opt": env_bool("DISABLE_PTXAS_OPT"),
        "dump_ptxas_log": env_bool("TRITON_DUMP_PTXAS_LOG"),
        "mock_ptx_version": env_opt_str("TRITON_MOCK_PTX_VERSION"),
        "libdevice_path": env_opt_str("TRITON_LIBDEVICE_PATH"),
        "libcuda_path": env_opt_str("TRITON_LIBCUDA_PATH"),
    },
    "amd": {
        "use_buffer_ops": env_bool("AMDGCN_USE_BUFFER_OPS", True),
        "use_buffer_atomics": env_bool("AMDGCN_USE_BUFFER_ATOMICS", True),
        "buffer_ops_analyze_small_tensor_range": env_bool("AMDGCN_ANALYZE_SMALL_TENSOR_RANGE"),
        "codegen_path": env_opt_str("TRITON_AMD_CODEGEN_PATH"),
        "dump_amdgcn": env_bool("AMDGCN_ENABLE_DUMP"),
        "dump_mir": env_opt_str("TRITON_DUMP_MIR"),
        "swap_mir": env_opt_str("TRITON_SWAP_MIR"),
        "swap_mir_enable_misched": env_bool("TRITON_SWAP_MIR_ENABLE_MISCHED"),
        "libhip_path": env_opt_str("TRITON_LIBHIP_PATH"),
        "use_async_copy": env_opt_bool("TRITON_HIP_USE_ASYNC_COPY"),
        "use_block_pingpong": env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG"),
        "use_in_thread_transpose": env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE"),
        "use_coexec_scheduler": env_opt_bool("TRITON_HIP_USE_COEXEC_SCHEDULER"),
        "use_expert_scheduling": env_opt_bool("TRITON_HIP_USE_EXPERT_SCHEDULING"),
        "scalarize_packed_fops": env_bool("AMDGCN_SCALARIZE_PACKED_FOPS"),
    },
    "proton": {
        "disable": env_bool("TRITON_PROTON_DISABLE"),
        "cupti_lib_dir": env_str("TRITON_CUPTI_LIB_PATH", ""),
        "cupti_lib_blackwell_dir": env_str("TRITON_CUPTI_LIB_BLACKWELL_PATH", ""),
        "hsa_runtime_library": env_opt_str("TRITON_HSA_RUNTIME_LIBRARY"),
        "hsa_runtime_path": env_opt_str("TRITON_HSA_RUNTIME_PATH"),
        "rocprofiler_sdk_include_path": env_opt_str("TRITON_ROCPROFILER_SDK_INCLUDE_PATH"),
        "rocprofiler_sdk_lib_path": env_opt_str("TRITON_ROCPROFILER_SDK_LIB_PATH"),
        "rocprofiler_sdk_library": env_opt_str("TRITON_ROCPROFILER_SDK_LIBRARY"),
        "roctracer_lib_path": env_opt_str("TRITON_ROCTRACER_LIB_PATH"),
        "roctracer_library": env_opt_str("TRITON_ROCTRACER_LIBRARY"),
        "roctx_lib_path": env_opt_str("TRITON_ROCTX_LIB_PATH"),
        "roctx_library": env_str("TRITON_ROCTX_LIBRARY", "libroctx64.so"),
        "enable_nvtx": env_bool("TRITON_ENABLE_NVTX", True),
        "enable_hw_trace": env_bool("TRITON_ENABLE_HW_TRACE"),
        "profile_buffer_size": env_int("TRITON_PROFILE_BUFFER_SIZE", 64 << 20),
        "profile_metric_buffer_size": env_int("TRITON_PROFILE_METRIC_BUFFER_SIZE", 64 << 20),
    },
}


def _fp_fusion_enabled(self, requested=None):
    """Whether products and sums may be fused: as asked for, else the default; never if that is forbidden."""
    wanted = self.default_fp_fusion if requested is None else requested
    return bool(wanted) and not self.force_disable_fp_fusion


_GROUPS["language"]["fp_fusion_enabled"] = _fp_fusion_enabled

for _group, _knobs in _GROUPS.items():
    _class = type(f"{_group}_knobs", (base_knobs,), {**_knobs, "__module__": __name__})
    globals().update({_class.__name__: _class, _group: _class()})


def refresh_knobs():
    """Reads TRITON_DEBUG and TRITON_INSTRUMENTATION_MODE again."""
    runtime.debug = os.environ.get("TRITON_DEBUG", "").lower() in _YES  # noqa: F821
    compilation.instrumentation_mode = os.environ.get("TRITON_INSTRUMENTATION_MODE", "")  # noqa: F821


@dataclass(frozen=True)
class CompileTimes:
    """What a compilation took, in microseconds."""
    ir_initialization: int
    lowering_stages: list
    store_results: int

    @property
    def total_lowering(self):
        return sum(stage[1] for stage in self.lowering_stages)

    @property
    def total(self):
        return self.ir_initialization + self.total_lowering + self.store_results


# ---- what libtile's hooks tell

@dataclass
class JitFunctionInfo:
    module: str
    name: str
    jit_function: Any


def _told(info):
    """What jit_cache_hook and jit_post_compile_hook are told."""
    from triton._jit import mangle_type
    function, options = info.function, info.options
    constexprs = {param.name for param in function.params if param.is_constexpr}
    signature = {name: "constexpr" if name in constexprs else mangle_type(value) for name, value in info.arguments.items()}
    constants = {name: value for name, value in info.arguments.items() if name in constexprs}
    described = f"{function.__name__}[{', '.join(f'{name}={value}' for name, value in options.items())}]" \
                f"({', '.join(map(str, signature.values()))})"
    compiled = {"key": described, "signature": signature, "device": 0, "constants": constants,
                "num_warps": options.get("num_warps", 4), "num_ctas": options.get("num_ctas", 1),
                "num_stages": options.get("num_stages", 3), "enable_fp_fusion": bool(options.get("enable_fp_fusion", 1)),
                "launch_cooperative_grid": bool(options.get("launch_cooperative_grid", 0)), "extern_libs": None,
                "configs": [{}], "specialization_data": None, "is_warmup": info.target is not None}
    return {"key": described, "repr": described,
            "fn": JitFunctionInfo(function.__module__, function.__name__, function), "compile": compiled,
            "is_manual_warmup": info.target is not None, "already_compiled": False}


def _before_compilation(info):
    hook = runtime.jit_cache_hook  # noqa: F821
    return hook(**_told(info)) if hook is not None and hasattr(info.function, "params") else None


def _after_compilation(info):
    if not hasattr(info.function, "params"):  # not one of Triton's
        return
    kernel, run = info.kernel, runtime  # noqa: F821
    for chain in (run.kernel_load_start_hook, run.kernel_load_end_hook):
        if chain:
            chain(kernel.module, kernel.function, kernel.name, kernel.metadata_group, kernel.hash)
    if compilation.listener is not None:  # noqa: F821
        times = CompileTimes(0, [("libtile", int(kernel.compile_ms * 1e3))], 0)
        compilation.listener(src=kernel.src, metadata=kernel.metadata, metadata_group=kernel.metadata_group,  # noqa: F821
                             times=times, cache_hit=kernel._kernel.facts()["cache"] == "hit")
    if run.jit_post_compile_hook is not None:
        run.jit_post_compile_hook(**_told(info))


def _after_tuning(**said):
    if autotuning.listener is not None:  # noqa: F821
        autotuning.listener(**said)  # noqa: F821


libtile.knobs.autotuning.listener = _after_tuning
hooks.compile_enter.add(_before_compilation)
hooks.compile_exit.add(_after_compilation)
