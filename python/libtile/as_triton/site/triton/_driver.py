# SPDX-License-Identifier: Apache-2.0
"""`triton.runtime.driver` and `triton.backends`: the devices of this machine as Triton's programs ask for them.

Where a kernel runs is told by its arrays; one that has none runs on the current device of the active driver, which is that of
the GPUs where there is one.
"""
import os
import sys
from collections import namedtuple

import libtile
from libtile import _libtile


class GPUTarget(namedtuple("GPUTarget", ["backend", "arch", "warp_size"])):
    """A target as ("cuda", 90, 32), ("hip", "gfx942", 64), ("hip", "gfx1100", 32) or ("cpu", "", 1)."""
    __slots__ = ()


def name_of(target):
    """libtile's name of a target, one of libtile.targets() or "cpu". UnsupportedError: it has none."""
    backend, arch = target.backend, str(target.arch)
    if backend == "cpu":
        return arch if arch in libtile.targets() else "cpu"
    wanted = f"sm_{arch}" if backend == "cuda" else arch
    for name in (wanted + "a", wanted):  # with what that one architecture has, if there is such a target
        if name in libtile.targets():
            return name
    raise libtile.UnsupportedError(f"libtile has no target {tuple(target)}; there are {', '.join(libtile.targets())}")


def target_of(name):
    """The GPUTarget of libtile's name."""
    if name.startswith("sm_"):
        return GPUTarget("cuda", int("".join(filter(str.isdigit, name))), 32)
    if name.startswith("gfx"):
        return GPUTarget("hip", name, 64 if name.startswith("gfx9") else 32)
    return GPUTarget("cpu", name, 1)


class BaseBackend:
    """What compiles for a target. libtile's own compiler does; the object answers questions."""

    def __init__(self, target):
        self.target = target

    @staticmethod
    def supports_target(target):
        return target.backend in ("cuda", "cpu")

    def hash(self):
        return f"libtile-{libtile.__version__}-{name_of(self.target)}"

    def parse_options(self, options):
        """An object with the options as attributes."""
        from triton._compiler import Options
        return Options({"backend_name": self.target.backend, "arch": self.target.arch,
                        "warp_size": self.target.warp_size, **options})


class DriverBase:
    """A kind of device: `index` is -1 for the CPU, else that of the current GPU."""
    backend, kind = "", ""

    @classmethod
    def is_active(cls):
        return any(name.startswith(cls.kind) for name in libtile.available_devices())

    def get_current_target(self):
        return target_of(_libtile.target(self.get_current_device() if self.kind == "cuda" else -1))

    def get_current_device(self):
        return 0

    def set_current_device(self, index):
        """The arrays of a launch tell its device."""

    def get_current_stream(self, index=None):
        return 0

    def get_active_torch_device(self):
        import torch
        return torch.device(self.kind)

    def get_device_interface(self):
        import torch
        return getattr(torch, self.kind)

    def get_benchmarker(self):
        from libtile.testing import do_bench
        return do_bench

    def map_python_to_cpp_type(self, ty):
        """The C type of a type in a signature."""
        if ty.startswith("*"):
            return "void*"
        return {"i1": "int8_t", "u1": "uint8_t", "fp16": "double", "bf16": "double", "fp32": "double", "f32": "double",
                "fp64": "double"}.get(ty) or f"{'u' if ty.startswith('u') else ''}int{ty.lstrip('iu')}_t"

    def get_empty_cache_for_benchmark(self):
        """A buffer larger than the last-level cache, for clear_cache."""
        import torch
        return torch.empty(256 << 20, dtype=torch.int8, device=self.kind)

    def clear_cache(self, cache):
        cache.zero_()

    @property
    def utils(self):
        return _Utils(self)


class _Utils:
    def __init__(self, driver):
        self._driver = driver

    def get_device_properties(self, index=0):
        """Facts of a device by name. The shared memory of a CPU is as much as one wants."""
        if self._driver.kind == "cpu":
            return {"max_shared_mem": 1 << 30, "multiprocessor_count": libtile.num_threads(), "warpSize": 1,
                    "max_num_regs": 1 << 16, "sm_clock_rate": 0, "mem_clock_rate": 0, "mem_bus_width": 0}
        return _libtile.device_properties(index)


class CpuDriver(DriverBase):
    kind = backend = "cpu"

    def get_active_torch_device(self):
        """torch.device("cpu"). Programs that ask for it set its stream, which torch has for other devices alone: a CPU has one
        stream, so that torch.cpu.set_stream does nothing."""
        import torch
        if not hasattr(torch.cpu, "set_stream"):
            torch.cpu.set_stream = lambda stream: None
        return torch.device("cpu")

    def get_current_target(self):
        """LIBTILE_TRITON_TARGET, as "cuda:80", for programs that do nothing on what they do not know."""
        said = os.environ.get("LIBTILE_TRITON_TARGET")
        if not said:
            return super().get_current_target()
        backend, _, arch = said.partition(":")
        if backend != "cuda" or not arch.isdecimal():
            raise ValueError(f"LIBTILE_TRITON_TARGET is {said!r}; it takes cuda:ARCH, as cuda:80")
        return GPUTarget(backend, int(arch), 32)


class GPUDriver(DriverBase):
    kind = backend = "cuda"

    def get_active_torch_device(self):
        """With its number, as tensors have it."""
        import torch
        return torch.device("cuda", torch.cuda.current_device())

    def get_current_device(self):
        import torch
        return torch.cuda.current_device()

    def set_current_device(self, index):
        import torch
        torch.cuda.set_device(index)

    def get_current_stream(self, index=None):
        import torch
        return torch.cuda.current_stream(index).cuda_stream


# What there is for a kind of device: the class of its compiler and that of its driver.
Backend = namedtuple("Backend", ["compiler", "driver"])
backends = {"nvidia": Backend(BaseBackend, GPUDriver), "cpu": Backend(BaseBackend, CpuDriver)}


class DriverConfig:
    """`default` is the driver of the first GPU, or of the CPU where there is none; `active` that or the one that was set."""

    def __init__(self):
        self._default = self._active = None

    @property
    def default(self):
        if self._default is None:
            self._default = GPUDriver() if GPUDriver.is_active() else CpuDriver()
        return self._default

    @property
    def active(self):
        if self._active is None:
            self._active = self.default
        return self._active

    def set_active(self, chosen):
        self._active = chosen

    def reset_active(self):
        self._active = self.default

    def set_active_to_cpu(self):
        self._active = CpuDriver()


driver = DriverConfig()


def home():
    """The device and the stream of a launch without arrays."""
    active = driver.active
    if getattr(active, "kind", "") != "cuda":
        return -1, 0
    if "torch" not in sys.modules:
        return 0, 0
    device = active.get_current_device()
    return device, active.get_current_stream(device)


_libtile.set_home(home)
