# SPDX-License-Identifier: Apache-2.0
"""Lesson 12: looking inside the compiler.

A compiled kernel tells what was done with it: its text at each stage, what it takes for granted, and
what is slow and why. `kernel.asm` has the stages, from the tile program to the machine's instructions; `guards` are what the fast variant takes for granted, and the
launcher checks; `fallbacks` are what had to be done in a slower way, with the line that causes it and
the reason. `warmup` compiles for any target: what a GPU would run can be read without one.

The script walks through all of that with kernels of two and ten lines, and asserts what it says. The
plot shows how long compiling takes: milliseconds, from source to machine code, as tiles grow.

    python 12_inside_the_compiler.py --plot plots
"""
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import lesson
import numpy as np

import libtile
import libtile.knobs
import libtile.language as tl


@libtile.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@libtile.jit
def product(a, b, c, K, SIZE: tl.constexpr, PRECISION: tl.constexpr, NONCE: tl.constexpr = 0):
    i = tl.arange(0, SIZE)
    acc = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for k in range(0, K, 32):
        ks = k + tl.arange(0, 32)
        x = tl.load(a + i[:, None] * K + ks[None, :])
        y = tl.load(b + ks[:, None] * SIZE + i[None, :])
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
    tl.store(c + i[:, None] * SIZE + i[None, :], acc)


def title(text):
    print(f"\n---- {text}")


def show_stages():
    title("the stages: the tile program becomes loops over vectors on a CPU, and registers of threads on a GPU")
    # ":16" says that 16 divides the addresses, and n. A launch finds that out by itself. Without it the last program's
    # mask could end between any two elements, and a GPU would read them one by one.
    signature = "*fp32:16", "*fp32:16", "i32:16"
    for target in ("avx512", "sm_90a"):
        kernel = double.warmup(*signature, target=target, BLOCK=1024)
        for stage in kernel.asm:
            print(f"{target:8} {stage:12} {kernel.asm[stage].count(chr(10)):5} lines")
    print(double.warmup(*signature, target="avx512", BLOCK=1024).asm["tile"])
    assembly = double.warmup(*signature, target="avx512", BLOCK=1024).asm["asm"]
    ptx = double.warmup(*signature, target="sm_90a", BLOCK=1024).asm["ptx"]
    assert re.search(r"\bv(add|mul)ps\b.*%zmm", assembly), "sixteen floats at once"
    assert "ld.global.v4" in ptx, "four floats at once for each thread"
    print("an instruction of the CPU:", re.search(r"\bv(?:add|mul)ps\b.*%zmm\S*", assembly)[0])
    print("one of the GPU:           ", re.search(r"ld\.global\.\S*v4.*;", ptx)[0])
    print("stages: right")


def show_guards(device):
    title("guards: what the fast variant takes for granted")
    x = np.arange(1000, dtype=np.float32)
    want = 2 * x
    on_device, out = lesson.place(device, x, lesson.unwritten(1000))
    kernel = double[(4,)](on_device, out, 1000, BLOCK=256)
    print(kernel.guards)
    np.testing.assert_array_equal(lesson.host(out), want)
    # Where the arrays are one, the launcher sees it and runs the general variant: right, and slower.
    double[(4,)](on_device, on_device, 1000, BLOCK=256)
    np.testing.assert_array_equal(lesson.host(on_device), want)
    assert any("overlap" in guard for guard in kernel.guards)
    print("guards: right")


def show_fallbacks():
    title("fallbacks: why something is slow")
    signature = "*fp32:16", "*fp32:16", "*fp32:16", "i32:16"
    exact, rounded = (product.warmup(*signature, target="sm_90a", SIZE=64, PRECISION=precision)
                      for precision in ("ieee", "tf32"))
    print("fp32 as it is:   ", *exact.fallbacks, sep="\n  ")
    print("fp32 as tf32:    ", *rounded.fallbacks, sep="\n  ")
    # The matrix units of a GPU round fp32 operands; a kernel has to allow that.
    assert any("tf32" in reason for reason in exact.fallbacks) and "mma" not in exact.asm["ptx"]
    assert not any("multiply-adds" in reason for reason in rounded.fallbacks) and "mma" in rounded.asm["ptx"]
    print({name: rounded.metadata[name] for name in sorted(rounded.metadata)})
    print("fallbacks: right")


def show_passes():
    title("passes: tile-opt is the compiler by hand, and prints what each pass changes")
    folder = Path(libtile.__file__).resolve().parents[2]
    tool = os.environ.get("LIBTILE_TILE_OPT") or shutil.which("tile-opt", path=folder / "runtime" / "tools")
    if tool is None:
        print("there is no tile-opt here (a build in a clone has it, in build/runtime/tools); LIBTILE_TILE_OPT names one")
        return
    kernel = double.warmup("*fp32:16", "*fp32:16", "i32", target="avx512", BLOCK=1024)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "double.tile").write_text(kernel.asm["tile"])
        command = [tool, f"{folder}/double.tile", "--target", "avx512", "--print-changed=diff", "--emit", "none"]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    changes = result.stdout + result.stderr
    print("\n".join(changes.splitlines()[:30]), f"... and {changes.count(chr(10)) - 30} lines more", sep="\n")
    assert "form_nests" in changes, "the pass that makes loops of tile operations"
    print("passes: right")


def check(device):
    show_stages()
    show_guards(device)
    show_fallbacks()
    show_passes()


new = itertools.count(1)  # of a constant that no kernel has had: nothing is in a cache


def measure(size, provider, device):
    """Milliseconds to compile a matrix product of size x size, the best of five."""
    target, element = {"libtile, for AVX-512": ("avx512", "fp32"), "libtile, to PTX": ("sm_90a", "fp16")}[provider]
    # Or a second run of this script would compile nothing.
    libtile.knobs.cache.enabled = False
    times = []
    for _ in range(5):
        start = time.perf_counter()
        product.warmup(*[f"*{element}:16"] * 2, "*fp32:16", "i32:16", target=target, SIZE=size, PRECISION="ieee",
                       NONCE=next(new))
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


if __name__ == "__main__":
    lesson.main(check, measure, "compiling a matrix product", "size", [16, 32, 64, 96, 128], "ms",
                lines=["libtile, for AVX-512", "libtile, to PTX"])
