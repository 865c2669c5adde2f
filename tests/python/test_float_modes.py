# SPDX-License-Identifier: Apache-2.0
"""However the launching thread computes with floats: what is read, folded, given and run is as it always is."""
import platform
import subprocess
import sys

SCRIPT = """
import ctypes, signal, sys
import numpy as np
import libtile, libtile.language as tl

@libtile.jit
def numbers(x, out, tiny, THIRD: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, v / 3.0)
    tl.store(out + BLOCK + i, v * 0.3 + THIRD / 3.0 + 7.3 % 0.1)
    tl.store(out + 2 * BLOCK + i, (v.to(tl.float32) * tiny).to(tl.float64))
    tl.store(out + 3 * BLOCK + i, tl.full((BLOCK,), 0.3, tl.float64) + 1.7976931348623159e308 * 0.1)

libm = ctypes.CDLL("libm.so.6")
x, out = np.arange(1.0, 65.0), np.zeros(256)
tiny = np.float32(2.0 ** -140)
if sys.argv[1] == "traps":
    assert libm.feenableexcept(0x1D) != -1
elif sys.argv[1] != "0":
    assert libm.fesetround(int(sys.argv[1], 0)) == 0
numbers[(1,)](x, out, tiny, 2.0, BLOCK=64)
libm.fesetround(0)
libm.fedisableexcept(0x3D)
print(out.tobytes().hex())
"""

# glibc's numbers of rounding down, up and towards zero.
DIRECTIONS = {"x86_64": ["0x400", "0x800", "0xC00"], "aarch64": ["0x800000", "0x400000", "0xC00000"]}


def numbers(tmp_path, mode):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, path, mode], capture_output=True, text=True)
    assert done.returncode == 0, (mode, done.returncode, done.stderr)
    return done.stdout


def test_no_mode_reaches_a_kernel(tmp_path):
    usual = numbers(tmp_path, "0")
    for mode in DIRECTIONS[platform.machine()] + ["traps"]:
        assert numbers(tmp_path, mode) == usual, mode
