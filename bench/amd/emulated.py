# SPDX-License-Identifier: Apache-2.0
"""What LDS does in a unit of work, counted by the tests' emulator (tests/amd): cycles, and how many of them are for bank conflicts.

One workgroup of a code object runs with a few units of work and with some more; the difference is theirs. The emulator is a HIP library
that writes its counts to the error output, so that a process of its own runs it: this file, with the launches as JSON on its input.
"""
import base64
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / "build" / "tests" / "amd" / "libamdhip64_emulated.so"
UNITS = (4, 8)
COUNTS = re.compile(r"LDS takes (\d+) cycles, (\d+) of them for bank conflicts")
KINDS = {"i32": ctypes.c_int32, "fp32": ctypes.c_float}


def library():
    return os.environ.get("LIBTILE_HIP", str(LIBRARY))


def code_object(assembly, target):
    """The assembly as what a driver loads."""
    version = os.environ.get("LIBTILE_LLVM", "")
    suffix = f"-{version}" if version else ""
    with tempfile.TemporaryDirectory() as folder:
        source, middle, made = (Path(folder) / name for name in ("kernel.s", "kernel.o", "kernel.hsaco"))
        source.write_text(assembly)
        subprocess.run([f"llvm-mc{suffix}", "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-filetype=obj", source, "-o", middle],
                       check=True, capture_output=True)
        subprocess.run([f"ld.lld{suffix}", "-shared", middle, "-o", made], check=True, capture_output=True)
        return made.read_bytes()


def lds_of_unit(image, name, case, target, threads, shared_bytes):
    """{"cycles": ..., "conflicts": ...} of a workgroup's unit of work, or {"refused": why}: the emulator does not know each instruction
    that Triton writes. None where it is not there, or counts nothing."""
    kinds = [kind.split(":")[0] for kind in case.types if isinstance(kind, str)]
    launches = [list(zip(kinds, case.arguments(units))) for units in (UNITS if case.loads else UNITS[:1])]
    request = {"library": library(), "image": base64.b64encode(image).decode(), "name": name, "threads": threads, "launches": launches,
               "shared": shared_bytes}
    if not Path(request["library"]).exists():
        return None
    done = subprocess.run([sys.executable, __file__], input=json.dumps(request), capture_output=True, text=True,
                          env={**os.environ, "LIBTILE_EMULATED_GPU": target, "LIBTILE_EMULATED_COUNTS": "1"})
    if done.returncode != 0:
        return {"refused": done.stderr.strip().splitlines()[-1][-300:]}
    found = [tuple(map(int, pair)) for pair in COUNTS.findall(done.stderr)]
    if len(found) != len(launches):
        return None
    few, many = ((0, 0), *found)[-2:]
    units = UNITS[1] - UNITS[0] if case.loads else 1
    return {name: round((b - a) / units, 1) for name, a, b in zip(("cycles", "conflicts"), few, many)}


def _checked(hip, result):
    if result != 0:
        raise SystemExit(hip.hipGetErrorString(result).decode())


def _launch(hip, function, request, arguments):
    values = []
    for kind, value in arguments:
        if kind.startswith("*"):
            memory = ctypes.c_void_p()
            _checked(hip, hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(value)))
            ctypes.memset(memory, 0, value)
            values.append(memory)
        else:
            values.append(KINDS[kind](value))
    values += [ctypes.c_void_p()] * 4  # of Triton's own memory, which these kernels have none of
    places = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
    _checked(hip, hip.hipModuleLaunchKernel(function, 1, 1, 1, request["threads"], 1, 1, request["shared"], None, places, None))


def main():
    request = json.load(sys.stdin)
    hip, module, function = ctypes.CDLL(request["library"]), ctypes.c_void_p(), ctypes.c_void_p()
    hip.hipGetErrorString.restype = ctypes.c_char_p
    _checked(hip, hip.hipModuleLoadData(ctypes.byref(module), base64.b64decode(request["image"])))
    _checked(hip, hip.hipModuleGetFunction(ctypes.byref(function), module, request["name"].encode()))
    for arguments in request["launches"]:
        _launch(hip, function, request, arguments)


if __name__ == "__main__":
    main()
