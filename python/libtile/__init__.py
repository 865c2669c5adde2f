# SPDX-License-Identifier: Apache-2.0
"""libtile: tile kernels in the language of Triton, compiled for CPUs and GPUs.

    @libtile.jit
    def add(x, y, out, n, BLOCK: tl.constexpr): ...

    add[(libtile.cdiv(n, 1024),)](a, b, o, n, BLOCK=1024)

NumPy, torch and DLPack are not imported here: their arrays are recognised when they come.
"""
from __future__ import annotations

from . import _libtile
from .errors import CompilationError, DeviceError, Error, InternalError, UnsupportedError
from .jit import CompiledKernel, JITFunction, constexpr_function, jit
from .device import DeviceArray, available_devices, num_threads, set_num_threads, to_device
from .math import cdiv, next_power_of_2
from . import language

__version__: str = _libtile.version

__all__ = [
    "CompilationError", "CompiledKernel", "DeviceArray", "DeviceError", "Error", "InternalError",
    "JITFunction", "UnsupportedError", "available_devices", "cdiv", "constexpr_function", "jit",
    "language", "next_power_of_2", "num_threads", "set_num_threads", "targets", "to_device",
]


def targets() -> list[str]:
    """The names that `kernel.warmup(..., target=)` takes."""
    return _libtile.targets().split(",")


def __getattr__(name: str):
    if name == "testing":
        import importlib
        return importlib.import_module(".testing", __name__)
    raise AttributeError(f"module 'libtile' has no attribute '{name}'")
