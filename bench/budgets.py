# SPDX-License-Identifier: Apache-2.0
"""Rows of what surrounds kernels: launch, compile and tuning times, import, sizes, build time.

`rows(device)` yields (name, function); the function returns {"ours_s": ...} or {"bytes": ...}.
Compile times are whole compiles, source to loaded code, of kernels that nothing has compiled before:
each round drops the caches of the kernel first.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import compile_kernels
import kernels
import measure
import overlap_kernels
import row_kernels
import tuning_rows

ROOT = Path(__file__).resolve().parent.parent

# What each compile row warms up: kernel, argument types, constants. The types are those that a launch with
# ordinary arrays has: pointers from an allocator, extents that 16 divides. FLOAT is fp16 on a GPU, else fp32.
TILE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}
SOFTMAX = ["*fp32:16"] * 2 + ["i32:16"] * 4
ATTENTION = ["*FLOAT:16"] * 4 + ["*fp32:16", "i32:16", "fp32"]
HEADS = {"D": 128, "BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8}
COMPILES = {
    "add": (kernels.add.add, ["*fp32:16"] * 3 + ["i32:16"], {"BLOCK": 1024}),
    "softmax": (kernels.softmax.softmax, SOFTMAX, {"BLOCK": 1024}),
    "softmax_65536": (kernels.softmax.softmax, SOFTMAX, {"BLOCK": 65536}),
    "matmul": (kernels.matmul.matmul, ["*FLOAT:16"] * 3 + ["i32:16"] * 3 + ["i32:16", 1] * 3, TILE),
    "attention": (kernels.attention_kernels.attention.attention, ATTENTION, {**HEADS, "CAUSAL": False}),
    "attention_causal": (kernels.attention_kernels.attention.attention, ATTENTION, {**HEADS, "CAUSAL": True}),
    "sort_1024": (row_kernels.sort, ["*fp32:16"] * 2, {"BLOCK": 1024}),
    # Nothing known of pointers and strides: no wide access is possible.
    "matmul_unaligned": (kernels.matmul.matmul, ["*FLOAT"] * 3 + ["i32"] * 3 + ["i32", 1] * 3, TILE),
}
LONG, LONGEST = 2000, 10000  # statements


def _types(what, device):
    name = "fp16" if device == "cuda" else "fp32"
    return [each.replace("FLOAT", name) if isinstance(each, str) else each for each in COMPILES[what][1]]


def _launch(device):
    import torch
    x, y, out = (torch.zeros(16, device=device) for _ in range(3))
    kernel = kernels.add.add

    def once():
        return kernel[(1,)](x, y, out, 16, BLOCK=16)
    compiled = once()

    def settle():
        if device == "cuda":
            torch.cuda.synchronize()
    row = {"ours_s": measure.alone(once, 500, before=settle)}
    return row if device == "cpu" else {**row, **_beyond_the_driver(row["ours_s"], compiled.asm["ptx"])}


def _beyond_the_driver(seconds, ptx):
    """Beside a launch the driver's own call, in a process without Python, and the microseconds between them."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        name, parameters = re.search(r"\.entry (\w+)\((.*?)\)", ptx, re.DOTALL).groups()
        threads = re.search(r"\.(?:max|req)ntid (\d+)", ptx).group(1)
        out = subprocess.run([os.environ["LIBTILE_BARE_LAUNCH"], file.name, name, threads, str(parameters.count(".param"))],
                             capture_output=True, text=True, check=True)
    bare = float(out.stdout)
    return {"bare_s": bare, "extra_us": round((seconds - bare) * 1e6, 3)}


def _dropin_launch(device):
    """Beside the seconds of a launch: microseconds that it costs beyond libtile's own, autotuned and not."""
    out = subprocess.run([sys.executable, "-m", "libtile.as_triton", str(ROOT / "bench" / "dropin_launch.py"), device],
                         capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(out.stdout.strip().splitlines()[-1])


def _compile_seconds(device, kernel, types, constants, rounds):
    target = "cpu" if device == "cpu" else "sm_90a"

    def once():
        kernel.clear()
        kernel.warmup(*types, grid=(1,), target=target, **constants)
    once()
    return measure.alone(once, 1, rounds=rounds)


def _compile(device, what):
    kernel, _, constants = COMPILES[what]
    return {"ours_s": _compile_seconds(device, kernel, _types(what, device), constants, 9)}


def _compile_long(device, kernel, length=LONG, rounds=3):
    """Beside the seconds: how many times those of a quarter of the length they are; linear is 4."""
    short, long = (_compile_seconds(device, kernel, ["*fp32:16", "*fp32:16", "i32"], {"N": statements}, rounds)
                   for statements in (length // 4, length))
    return {"ours_s": long, "growth": long / short}


def _in_new_process(*arguments, **environment):
    """Seconds that Python, called with these arguments, says itself on its last line; best of five processes."""
    seconds = []
    for _ in range(5):
        out = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True,
                             cwd=ROOT, env={**os.environ, **environment})
        seconds.append(float(out.stdout.strip().splitlines()[-1]))
    return {"ours_s": min(seconds)}


def _first_compile(device):
    target = "cpu" if device == "cpu" else "sm_90a"
    return _in_new_process("-c", f"""
import sys, time
sys.path.insert(0, {str(ROOT / "python" / "tutorials")!r})
import importlib, libtile
kernel = importlib.import_module("01_vector_add").add
start = time.perf_counter()
kernel.warmup("*fp32", "*fp32", "*fp32", "i32", grid=(1,), target={target!r}, BLOCK=1024)
print(time.perf_counter() - start)
""")


def _import():
    return _in_new_process("-c", "import time; start = time.perf_counter(); import libtile; "
                           "print(time.perf_counter() - start)")


def _cached_start(device):
    """The first launches of ten kernels whose code is on disk, beyond the import."""
    with tempfile.TemporaryDirectory() as folder:
        return _in_new_process(str(ROOT / "bench" / "start_kernels.py"), device, LIBTILE_CACHE="1",
                               LIBTILE_CACHE_DIR=folder)


def _wheel(installed):
    if not list((ROOT / "dist").glob("libtile-*.whl")):
        subprocess.run([ROOT / "dev", "wheel", "--pythons", "python3"], check=True, capture_output=True)
    wheel = next((ROOT / "dist").glob("libtile-*.whl"))
    if not installed:
        return {"bytes": wheel.stat().st_size}
    with zipfile.ZipFile(wheel) as archive:
        return {"bytes": sum(entry.file_size for entry in archive.infolist())}


def _build():
    """A build of everything from nothing, tests included, without a compiler cache."""
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        def quietly(*command):
            subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True)
        start = time.perf_counter()
        quietly("meson", "setup", folder, f"-Dllvm={os.environ['LIBTILE_LLVM']}")
        quietly("ninja", "-C", folder)
        return {"ours_s": time.perf_counter() - start}


def rows(device):
    yield f"{device}/launch", lambda: _launch(device)
    yield f"{device}/launch/dropin", lambda: _dropin_launch(device)
    for shape in overlap_kernels.SHAPES if device == "cuda" else ():
        yield (f"cuda/launch_pdl/f16/{shape[0]}x{shape[1]}",
               lambda shape=shape: overlap_kernels.row(*shape, kernels.triton_twin))
    for what in COMPILES:
        yield f"{device}/compile/{what}", lambda what=what: _compile(device, what)
    for kernel in compile_kernels.LONG:
        yield f"{device}/compile/long_{kernel.fn.__name__}", lambda kernel=kernel: _compile_long(device, kernel)
    for kernel in compile_kernels.LONGEST:
        yield (f"{device}/compile/longest_{kernel.fn.__name__}",
               lambda kernel=kernel: _compile_long(device, kernel, LONGEST, 1))
    yield f"{device}/compile/first", lambda: _first_compile(device)
    yield f"{device}/start/cached_ten", lambda: _cached_start(device)
    if device == "cuda":
        yield f"cuda/tune/f16/{len(tuning_rows.CONFIGS)}", tuning_rows.row
    if device == "cpu":
        yield "time/import", _import
        yield "time/build", _build
        yield "size/wheel", lambda: _wheel(False)
        yield "size/installed", lambda: _wheel(True)
