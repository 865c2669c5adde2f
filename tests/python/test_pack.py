# SPDX-License-Identifier: Apache-2.0
"""python/pack.py refuses a build that lacks parts of the package."""
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import libtile

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(libtile.__file__).parent


def pack(build, out):
    return subprocess.run([sys.executable, ROOT / "python" / "pack.py", "--build", build, "--out", out],
                          capture_output=True, text=True)


@pytest.mark.parametrize("spoil, why", [
    ("jit.py", "jit.py is missing"), ("language/__init__.py", "__init__.py is missing"),
    ("py.typed", "py.typed is missing"), (None, "no extension module")])
def test_missing_files_are_named(tmp_path, spoil, why):
    package = tmp_path / "build" / "python" / "libtile"
    shutil.copytree(ROOT / "python" / "libtile", package, ignore=shutil.ignore_patterns("meson.build", "__pycache__"))
    if spoil is not None:
        (package / "_libtile.cpython-311-x86_64-linux-gnu.so").touch()
        (package / spoil).unlink()
    kept = tmp_path / "out" / "python"
    kept.mkdir(parents=True)
    result = pack(tmp_path / "build", tmp_path / "out")
    assert result.returncode == 1 and why in result.stderr and "'package'" in result.stderr
    assert kept.exists(), "the last pack stays"


def test_files_that_are_not_as_their_source_are_named(tmp_path):
    package = tmp_path / "build" / "python" / "libtile"
    shutil.copytree(PACKAGE, package, ignore=lambda _, names: [n for n in names if n.endswith(".p")])
    with open(package / "errors.py", "a") as file:
        file.write("# another line")
    result = pack(tmp_path / "build", tmp_path / "out")
    assert result.returncode == 1 and "errors.py is not as its source" in result.stderr
