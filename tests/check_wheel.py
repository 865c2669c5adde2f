#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_wheel.py FILE.whl: its size, what is in it, and that it works alone: in a new virtual environment
outside the tree with nothing else in it."""
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES, MOST_INSTALLED = 30e6, 90e6
WANTED = ["__init__.py", "jit.py", "py.typed", "libtile.so", "language/__init__.py",
          "language/__init__.pyi"]
PROGRAM = '''
import sys, time
start = time.perf_counter()
import libtile
seconds = time.perf_counter() - start
import libtile.language as tl
assert not {"numpy", "torch", "triton"} & set(sys.modules), "an import too many"
assert libtile.__file__.startswith(sys.prefix), libtile.__file__

@libtile.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

import array
x = array.array("f", range(100))
double[(1,)](x, 100, BLOCK=128)
assert list(x) == [2.0 * i for i in range(100)]
assert ".entry" in double.warmup("*fp32", "i32", grid=(1,), target="sm_80", BLOCK=128).asm["ptx"]
print(f"imported in {seconds * 1e3:.0f} ms; runs")
'''


def needed(library):
    lines = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    return sorted(line.split("[")[1].split("]")[0] for line in lines.splitlines() if "(NEEDED)" in line)


def main():
    wheel = Path(sys.argv[1]).resolve()
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        installed = sum(entry.file_size for entry in archive.infolist())
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, installed {installed / 1e6:.1f} MB")
        missing = [name for name in WANTED if f"libtile/{name}" not in archive.namelist()]
        assert not missing, f"not in the wheel: {missing}"
        assert wheel.stat().st_size <= MOST_BYTES and installed <= MOST_INSTALLED, "too large"

        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        packages = next(Path(folder).glob("lib/python3*/site-packages"))
        archive.extractall(packages)
        library = packages / "libtile" / "libtile.so"
        print(f"libtile.so needs {', '.join(needed(library))}")
        subprocess.run([sys.executable, ROOT / "tests" / "runtime" / "check_exports.py", library],
                       check=True)
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)
        subprocess.run([Path(folder) / "bin" / "python", "-I", program], cwd=folder, check=True)


if __name__ == "__main__":
    main()
