# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled for AArch64 and run under an emulator: the object is linked to tests/arm/launch_kernel.c, and qemu-user
runs that."""
import functools
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
TARGETS = ["aarch64", "aarch64-dotprod", "aarch64-bf16"]
# CPUs that have what the target asks for, and little more.
MACHINES = {"aarch64": "cortex-a57", "aarch64-dotprod": "neoverse-n1", "aarch64-bf16": "max"}


def tool(name):
    path = shutil.which(name)
    assert path, f"{name} is missing: ./dev test installs it on Debian (qemu-user-static, gcc-aarch64-linux-gnu)"
    return path


def checked(command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, **options)
    assert result.returncode == 0, f"{command}: {result.returncode}\n{result.stderr.decode(errors='replace')}"
    return result.stdout


@functools.cache
def folder():
    return tempfile.TemporaryDirectory(prefix="libtile-arm-")


@functools.cache
def launcher():
    path = Path(folder().name, "launch_kernel.o")
    checked([tool(COMPILER), "-O1", "-Wall", "-Werror", "-I", ROOT, "-c", ROOT / "tests" / "arm" / "launch_kernel.c", "-o", path])
    return path


@functools.cache
def program(code, symbol):
    """An executable that runs the kernel. It calls nothing but C's library."""
    compiled, path = (Path(folder().name, f"{program.cache_info().misses}{suffix}") for suffix in (".o", ""))
    compiled.write_bytes(code)
    checked([tool(COMPILER), "-static", f"-Wl,--defsym=libtile_kernel={symbol}", launcher(), compiled, "-lm", "-o", path])
    return path


def slot(value):
    if isinstance(value, np.ndarray):
        return struct.pack("<Q", value.nbytes) + value.tobytes()
    return struct.pack("<Q", 2**64 - 1) + struct.pack("<f4x" if isinstance(value, float) else "<q", value)


def launch(kernel, target, grid, *arguments, **constants):
    """`kernel[grid](*arguments, **constants)` on an emulated machine of the target. The arrays are written to; those that
    the kernel only reads are as they were. Returns the compiled kernel."""
    compiled = kernel.warmup(*arguments, grid=grid, target=target, **constants)
    assert all("overlap" in guard for guard in compiled.guards), compiled.guards
    slots = [value for value in arguments if isinstance(value, np.ndarray) or value != 1 or isinstance(value, float)]
    words = [*grid, *[1] * (3 - len(grid)), compiled.metadata["scratch_bytes"], len(slots)]
    given = struct.pack(f"<{len(words)}Q", *words) + b"".join(map(slot, slots))
    got = checked([tool(EMULATOR), "-cpu", MACHINES[target], program(compiled._kernel.code(), compiled.metadata["symbol"])], input=given)
    for array in (value for value in arguments if isinstance(value, np.ndarray)):
        array.view(np.uint8).reshape(-1)[:] = np.frombuffer(got[:array.nbytes], np.uint8)
        got = got[array.nbytes:]
    assert not got
    return compiled
