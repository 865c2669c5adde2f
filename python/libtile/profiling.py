# SPDX-License-Identifier: Apache-2.0
"""`libtile.profile`: what a launch does, and how near it comes to what the machine can do."""
from __future__ import annotations

import functools

from . import _libtile, errors, hooks, knobs
from .device import DeviceArray, name_of, ordinal, to_device
from .host import device_of
from .jit import CompiledKernel, jit
from .math import cdiv
from .testing import do_bench
from .tools.tensor_descriptor import TensorDescriptor
from . import language as tl

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from typing import Any


class Profile:
    """A launch, measured: what `libtile.profile` returns. `print` shows all of it.

    - `kernel`, `grid`, `programs`: the CompiledKernel, its grid, and how many programs that is.
    - `milliseconds`: of the launch; `program_us`: that through the number of programs, in microseconds.
    - `loaded`, `stored`: bytes of all accesses that are not masked off. `bytes`: what has to come from memory or go there
      at least: of each array what is loaded and what is stored, but neither of them more than the array has
      (one that is passed twice counts as two).
    - `operations`: a dict from types ("f32", "f16", "i8", ..., "tf32") to numbers: one for each element of a floating-point
      operation, masked off or not, two of an fma, two for each product of a dot, and of an exponential and the like what
      it is made of. Integers count in dots alone. `flops`: their sum.
    - `gbps`, `tflops`: `bytes` and `flops` through the time.
    - `roofline`: the Roofline of the machine; `bound`: "memory" or the type whose operations take longest there;
      `fraction`: the time that the roofline allows, through the time that was measured.
    """

    def __init__(self, kernel: CompiledKernel, grid: tuple[int, int, int], milliseconds: float, work: dict[str, Any],
                 roofline: Roofline) -> None:
        self.kernel, self.grid, self.milliseconds, self.roofline = kernel, grid, milliseconds, roofline
        self.programs: int = grid[0] * grid[1] * grid[2]
        self.loaded: int = work["loaded"]
        self.stored: int = work["stored"]
        self.bytes: int = work["bytes"]
        self.operations: dict[str, int] = work["operations"]
        self.flops: int = sum(self.operations.values())
        self.program_us: float = milliseconds * 1e3 / self.programs
        self.gbps: float = self.bytes / milliseconds * 1e-6
        self.tflops: float = self.flops / milliseconds * 1e-9
        times = {"memory": self.bytes / roofline.gbps * 1e-6}
        for name, count in self.operations.items():
            times[name] = count / roofline.tflops(name) * 1e-9
        # Units of different types may work side by side, as memory does.
        self.bound: str = max(times, key=lambda name: times[name])
        self.fraction: float = times[self.bound] / milliseconds

    def __str__(self) -> str:
        rate = ", ".join(f"{self.roofline.tflops(name):.3g} TFLOP/s of {name}" for name in self.operations)
        rows = [("time", f"{_time(self.milliseconds)}, {_time(self.program_us * 1e-3)} for each of {self.programs:,} programs"),
                ("accesses", f"{_size(self.loaded)} loaded, {_size(self.stored)} stored"),
                ("bytes", f"{_size(self.bytes)}, {self.gbps:.3g} GB/s"),
                ("flops", f"{self.flops:,}, {self.tflops:.3g} TFLOP/s" if self.flops else "none"),
                ("roofline", f"{self.roofline.gbps:.3g} GB/s{', ' if rate else ''}{rate}"),
                ("fraction", f"{self.fraction:.0%} of it, bound by {self.bound}")]
        return "\n".join([f"{self.kernel.name} on {self.roofline.device}", *(f"  {name:10}{text}" for name, text in rows)])


class Roofline:
    """What libtile's kernels reach on a device, measured when it is first asked for and kept by the process.

    `device`: its name.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._rates: dict[str, float] = {}

    @functools.cached_property
    def gbps(self) -> float:
        """GB/s of arrays that no cache holds: copied (read and written), or read alone, whichever is more."""
        n = max(4 * _libtile.cache_bytes(ordinal(self.device)), 1 << 26) // 4
        block = 65536 if self.device == "cpu" else 4096
        blocks = cdiv(n, block)
        x, out, sums = _zeros(n, "f4", self.device), _zeros(n, "f4", self.device), _zeros(blocks, "f4", self.device)
        copied = 8 * n / _least(lambda: _copy[(blocks,)](x, out, n, BLOCK=block), self.device)
        read = 4 * n / _least(lambda: _sums[(blocks,)](x, sums, n, BLOCK=block), self.device)
        return max(copied, read) * 1e-6

    def tflops(self, type: str) -> float:
        """TFLOP/s of dots of a type of `Profile.operations`, whose operands come from no memory."""
        if type not in self._rates:
            dtype, precision = _DOTS.get(type, _DOTS["f32"])
            self._rates[type] = max(self._of_dots(dtype, precision, size) for size in (64, 128))
        return self._rates[type]

    def _of_dots(self, dtype, precision, size):
        programs, turns = (8 * _libtile.num_threads() if self.device == "cpu" else 2112), 64
        out = _zeros(programs * size, "f8", self.device)
        time = _least(lambda: _dots[(programs,)](out, turns, DTYPE=dtype, PRECISION=precision, SIZE=size), self.device)
        return 2 * size**3 * turns * programs / time * 1e-9


# The operands' type and the precision of a dot, by the type in Profile.operations.
_DOTS = {"f32": (tl.float32, "ieee"), "tf32": (tl.float32, "tf32"), "f16": (tl.float16, None), "bf16": (tl.bfloat16, None),
         "f64": (tl.float64, "ieee"), "i8": (tl.int8, None)}


@jit
def _copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@jit
def _sums(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0)))


@jit
def _dots(out, turns, DTYPE: tl.constexpr, PRECISION: tl.constexpr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    a = ((i[:, None] * 7 + i[None, :] * 3) % 5 - 2).to(DTYPE)
    sums: tl.constexpr = tl.int32 if DTYPE == tl.int8 else tl.float64 if DTYPE == tl.float64 else tl.float32
    acc = tl.zeros((SIZE, SIZE), sums)
    for _ in range(turns):
        acc = tl.dot(a, a, acc, input_precision=PRECISION, out_dtype=sums)
    tl.store(out + tl.program_id(0) * SIZE + i, tl.sum(acc, axis=1).to(tl.float64))


def _zeros(n, dtype, device):
    import numpy as np
    return to_device(np.zeros(n, dtype), device)


def _least(call, device):
    return do_bench(call, warmup=10, rep=30, return_mode="min", device=device, clear_cache=False)


@functools.cache
def roofline(device: str) -> Roofline:
    """The Roofline of a device, "cpu" or "cuda:0", say: one object a device."""
    return Roofline(device)


def profile(kernel: Any, *args: Any, grid: Any, warmup: float = 25, rep: float = 100, clear_cache: bool = True,
            most_programs: int = 256, **kwargs: Any) -> Profile:
    """Measures the launch `kernel[grid](*args, **kwargs)`, counts what it does, and compares both with the machine.

        print(libtile.profile(add, x, y, out, n, grid=(libtile.cdiv(n, 1024),), BLOCK=1024))

    The launch is repeated, so that its arrays are written many times, as by `testing.do_bench`, which has `warmup`, `rep`
    and `clear_cache` from here; the time is the median. Then the interpreter (docs/debugging.md) runs it once
    more and counts its accesses and operations: all of them if the grid has no more programs than `most_programs`, or if
    the kernel has atomics; else those of so many programs evenly spread over the grid, times the rest. Arrays of a
    GPU are copied for this; there they are torch's or libtile's own. Other threads launch nothing meanwhile.

    `kernel`: a jit function, or what `autotune` or `heuristics` makes of one. UnsupportedError for a kernel that the
    interpreter does not run; what it finds wrong with a launch is an error, too.
    """
    launch = _launched(lambda: kernel[grid](*args, **kwargs))
    number = device_of(_arrays(launch.arguments.values()))
    device = name_of(number) if number >= 0 else "cpu"
    options = {name: launch.kernel.metadata[name] for name in ("num_warps", "num_stages")} if number >= 0 else {}
    options |= {name: kwargs[name] for name in kwargs if name not in launch.arguments}
    positional, named = _arguments(launch)
    time = do_bench(lambda: launch.function[launch.grid](*positional, **named, **options), warmup, rep, return_mode="median",
                    device=device, clear_cache=clear_cache)
    return Profile(launch.kernel, launch.grid, time, _work(launch, most_programs), roofline(device))


def _launched(call):
    """The LaunchInfo of the last launch of a call: of an autotuned kernel that with the best configuration."""
    seen = []
    hooks.launch_enter.add(seen.append)
    try:
        call()
    finally:
        hooks.launch_enter.remove(seen.append)
    if not seen:
        raise ValueError("the grid is empty: there is no launch to profile")
    return seen[-1]


def _arguments(launch, convert=lambda value: value):
    """The arguments in order, and those that have to be named."""
    code = launch.function.fn.__code__
    values = {name: convert(value) for name, value in launch.arguments.items()}
    positional = [values.pop(name) for name in code.co_varnames[:code.co_argcount]]
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount:][:1] if code.co_flags & 4 else ()  # inspect.CO_VARARGS
    for name in rest:
        positional += values.pop(name)
    return positional, values


def _arrays(values):
    for value in values:
        if isinstance(value, tuple):
            yield from _arrays(value)
        else:
            yield value.base if isinstance(value, TensorDescriptor) else value


def _on_host(value):
    """The argument with its arrays in the host's memory, laid out as they are."""
    if isinstance(value, tuple):
        items = map(_on_host, value)
        return type(value)._make(items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, TensorDescriptor):
        return TensorDescriptor(_on_host(value.base), value.shape, value.strides, value.block_shape, value.padding,
                                value.round_f32_to_tf32)
    if isinstance(value, DeviceArray):
        return value.numpy()
    if getattr(value, "is_cuda", False):
        return value.new_empty(0, device="cpu").set_(value.untyped_storage().cpu(), value.storage_offset(), value.shape, value.stride())
    if hasattr(value, "__cuda_array_interface__"):
        raise errors.UnsupportedError(f"profile copies a GPU's arrays of torch and libtile, not a {type(value).__name__}")
    return value


def _work(launch, most_programs):
    """What the interpreter counts, of the whole grid."""
    positional, named = _arguments(launch, _on_host)
    before = knobs.interpreter.enabled
    _libtile.begin_counting(most_programs)
    try:
        knobs.interpreter.enabled = True
        launch.function[launch.grid](*positional, **named)
    finally:
        knobs.interpreter.enabled = before
        text = _libtile.end_counting()
    counted = [line.split() for line in text.splitlines()]
    ran = next(int(words[1]) for words in counted if words[0] == "programs")
    share = launch.grid[0] * launch.grid[1] * launch.grid[2] / ran
    work = {"loaded": 0, "stored": 0, "bytes": 0, "operations": {}}
    for kind, *words in counted:
        if kind == "array":
            loaded, stored, extent = int(words[0]) * share, int(words[1]) * share, int(words[2])
            work["loaded"] += round(loaded)
            work["stored"] += round(stored)
            work["bytes"] += round(min(loaded, extent or loaded) + min(stored, extent or stored))
        elif kind == "operations":
            work["operations"][words[0]] = round(int(words[1]) * share)
    return work


def _scaled(value, units):
    """A number with the largest unit that leaves it at least 1."""
    for scale, unit in units[:-1]:
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    scale, unit = units[-1]
    return f"{value / scale:.3g} {unit}"


def _time(milliseconds):
    return _scaled(milliseconds, ((1, "ms"), (1e-3, "us"), (1e-6, "ns")))


def _size(count):
    return _scaled(count, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes")))
