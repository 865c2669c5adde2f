#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_wheel.py FILE.whl: its size, what is in it, that the platform in its name is true, and that it works
alone: in a new virtual environment of the Python that runs this, outside the tree with nothing else in it.

A wheel called manylinux_2_N may need the libraries of PLATFORM alone, and symbols that glibc 2.N, and the
C++ library of the systems with it, have.
"""
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES, MOST_INSTALLED = 30e6, 90e6
WANTED = ["__init__.py", "jit.py", "py.typed", "libtile.so", "language/__init__.py",
          "language/__init__.pyi"]
PLATFORM = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6",
            "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# glibc 2.N and the newest version of the C++ library that all systems with it have: PEP 600's policies.
CXX = {28: 24, 31: 28, 34: 29, 35: 30, 36: 30, 39: 33}
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


def check_platform(wheel, library):
    """Fails if the library needs more than the wheel's name says."""
    tag = re.search(r"-manylinux_2_(\d+)_\w+\.whl$", wheel.name)
    assert tag, f"{wheel.name}: no manylinux tag"
    glibc = int(tag[1])
    foreign = set(needed(library)) - PLATFORM - {"libtile.so"}
    assert not foreign, f"{library.name} needs {foreign}"
    symbols = subprocess.run(["readelf", "-W", "--dyn-syms", library], capture_output=True, text=True, check=True).stdout
    cxx = max(value for key, value in CXX.items() if key <= max(glibc, min(CXX)))
    for symbol, name, version in re.findall(r" UND (\S+)@(GLIBC_2|GLIBCXX_3\.4)\.(\d+)", symbols):
        most = glibc if name == "GLIBC_2" else cxx
        assert int(version) <= most, f"{library.name}: {symbol} needs {name}.{version}; the name says {name}.{most}"


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
        for each in (packages / "libtile").glob("*.so"):
            check_platform(wheel, each)
        print(f"libtile.so needs {', '.join(needed(library))}")
        subprocess.run([sys.executable, ROOT / "tests" / "runtime" / "check_exports.py", library],
                       check=True)
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)
        subprocess.run([Path(folder) / "bin" / "python", "-I", program], cwd=folder, check=True)


if __name__ == "__main__":
    main()
