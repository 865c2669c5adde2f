# SPDX-License-Identifier: Apache-2.0
"""libtile: tile kernels in the language of Triton, compiled for CPUs and GPUs.

A kernel is a function in the kernel language. A launch runs it once for each point of a grid:

```python
import numpy as np
import libtile
import libtile.language as tl

@libtile.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)

x, y = np.random.rand(10_000), np.random.rand(10_000)
out = np.empty_like(x)
kernel = add[(libtile.cdiv(x.size, 1024),)](x, y, out, x.size, BLOCK=1024)
assert (out == x + y).all()
print(kernel.signature)
```

**The grid** is 1 to 3 integers, or a function that makes them of the arguments by name: `add[lambda args:
(libtile.cdiv(args["n"], args["BLOCK"]),)]`. A kernel is compiled when a launch first needs it, for the types of the
arguments, for which integers and addresses are multiples of 16, for an integer that is 1, and for the values of
`tl.constexpr` parameters; None, text and dtypes are constants too, and for a `tl.constexpr` parameter so is any object
with a hash, whose attributes the kernel may name. An int is the first of int32, int64 and uint64 that holds it, a float is fp32, a bool int1; a parameter that is annotated with a type has that type, and one
that is annotated with a pointer's ("*fp32") takes no other arrays.

**Tuples** are arguments as well: each element is passed as if it stood alone, arrays, numbers, constants and tuples. A
named tuple's elements have their names in the kernel too, and `*args` of a kernel is a tuple of the arguments that are left:

```python
import typing
import numpy as np
import libtile
import libtile.language as tl

class Matrix(typing.NamedTuple):
    data: object
    stride: int

@libtile.jit
def add_rows(out, columns, *rows, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for r in tl.static_range(len(rows)):
        matrix, row = rows[r]
        total += tl.load(matrix.data + row * matrix.stride + i, mask=i < columns)
    tl.store(out + i, total, mask=i < columns)

a = np.random.rand(4, 100).astype("f4")
m, out = Matrix(a, a.strides[0] // a.itemsize), np.empty(100, "f4")
add_rows[(1,)](out, 100, (m, 0), (m, 3), BLOCK=128)
assert (out == a[0] + a[3]).all()
```

**Descriptors** of arrays (`libtile.tools.tensor_descriptor.TensorDescriptor`) are arguments as well: an array with its
shape, its strides and the shape of the blocks that a kernel reads and writes.

**What a kernel names from outside** is read while it is compiled: its text as it was when the function was decorated, and
globals, closure variables and attributes as they are at the launch. If one of them is another object at a later launch, or
a list among them has changed, the kernel is compiled anew. Not noticed is what is made at each access (properties, slots),
and what Python functions look at that a kernel calls on constants.

**Arrays** are NumPy's, torch's, those of any library with DLPack, `__cuda_array_interface__` or the buffer protocol, and
`libtile.DeviceArray`. The device of the arrays decides where the kernel runs, and all arrays of a launch lie on one.
On the CPU a launch returns when it is done. On a GPU it returns at once: with torch's arrays it goes to torch's current
stream, otherwise to the device's default stream. Byte-swapped arrays and arrays of objects are refused, and read-only
ones that the kernel stores to.

**Strides.** A kernel gets the address of an array's first element and nothing else: no shape, no strides. It computes the
addresses of the others itself, so pass what it needs, in elements (`x.strides[0] // x.itemsize` of NumPy, `x.stride(0)`
of torch). Then a view, a transposed array or every second row is as good as a whole array, nothing is copied, and a
stride of 1, or one that 16 divides, makes code of its own with wide accesses.

**Threads.** Launches and compilations may come from any thread. A CPU launch shares its programs among
`libtile.num_threads()` threads, the caller's among them; the environment variable `LIBTILE_NUM_THREADS` sets their
number, too; `torch.set_num_threads` and `OMP_NUM_THREADS` do not. Torch's operators run on threads of their own, which
keep the cores for some milliseconds; launches of the main thread run on those (OpenMP's), as many as they are, while that
takes less time, if nobody asked for another number than `torch.get_num_threads()`. `LIBTILE_OPENMP=0` leaves that out, `=1`
takes them without comparing; neither does in a parallel region, in a process that has forked, or where torch has one
thread. Launches of other threads run on libtile's own, which are slower between operators of torch.

**Floats** count as their type says: kernels round to nearest and keep tiny numbers, whatever the thread that launches
them does (`torch.set_flush_denormal`).

**Environment.** `LIBTILE_CPU_TARGET` names a lesser instruction set than the machine has, `LIBTILE_DISABLE_PASSES`
passes to leave out. `LIBTILE_CHECK=1` makes accesses out of an array's bounds errors, and `LIBTILE_DEBUG=1` assertions
of kernels that do not hold (docs/debugging.md); `LIBTILE_LINE_INFO=1` has GPU code name the kernel's lines, for
profilers. Each is read once, when it is first needed; an empty one is none. A variable that says what it cannot mean is an
error of each launch and call that needs it.

**Hooks.** Callables in `libtile.hooks.launch_enter` and `launch_exit` are called around each launch, for profilers and
tracers.

**Pickling.** A jit function at the top of a module is pickled by its name, as Python's functions are; another one without
its Python function, so that `src` and `arg_names` can be asked for and a launch is refused. A `CompiledKernel` is pickled
as its IR: another process with the same version of libtile makes `asm` and `metadata` of it, without the source.

NumPy, torch and DLPack are not imported by libtile: their arrays are recognised when they come.
"""
from __future__ import annotations

from . import _libtile, errors
from .aggregates import aggregate
from .errors import (CompilationError, DeviceError, Error, InternalError, KernelAssertionError, KernelFaultError,
                     OutOfBoundsError, OutOfResources, UnsupportedError)
from .jit import CompiledKernel, JITFunction, constexpr_function, jit, must_use_result
from .device import DeviceArray, available_devices, num_threads, set_allocator, set_num_threads, to_device
from .math import cdiv, next_power_of_2
from . import hooks, language

__version__: str = _libtile.version

__all__ = [
    "CompilationError", "CompiledKernel", "DeviceArray", "DeviceError", "Error", "InternalError",
    "JITFunction", "KernelAssertionError", "KernelFaultError", "OutOfBoundsError", "OutOfResources", "UnsupportedError", "aggregate", "available_devices", "cdiv", "constexpr_function", "hooks", "jit",
    "language", "must_use_result", "next_power_of_2", "num_threads", "set_allocator", "set_num_threads", "targets", "to_device",
]


_LATER = ("AsyncCompileMode", "FutureKernel", "KernelInterface", "MockTensor",
          "TensorWrapper", "backends", "compile", "compiler", "reinterpret", "runtime")


def targets() -> list[str]:
    """The names that `kernel.warmup(..., target=)` takes: "avx512", "sm_90a", ... No device needs to be there."""
    return _libtile.targets()


# Imported when they are first asked for.
_TUNING = ("Autotuner", "Config", "Heuristics", "autotune", "heuristics")
_PROFILING = ("Profile", "Roofline", "profile", "roofline")


def __getattr__(name: str):
    import importlib
    if name in ("knobs", "testing", "tools", "tuning"):
        return importlib.import_module("." + name, __name__)
    if name in _TUNING:
        return getattr(importlib.import_module(".tuning", __name__), name)
    if name in _PROFILING:
        return getattr(importlib.import_module(".profiling", __name__), name)
    raise errors.missing("libtile", name, _LATER)
