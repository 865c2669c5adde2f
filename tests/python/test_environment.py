# SPDX-License-Identifier: Apache-2.0
"""The variables of the environment that hold numbers: what they take, and where another text is told."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import libtile
import libtile.language as tl

LAUNCHES = """
import numpy as np, test_environment as t
t.launch()
print(t.libtile.num_threads())
"""
ASKS = "import libtile; print(libtile.num_threads())"
COMPILES = "import test_environment as t; t.copy.warmup('*fp32', '*fp32', target='avx512')"


@libtile.jit
def copy(x, out):
    i = tl.program_id(0)
    tl.store(out + i, tl.load(x + i))


def launch():
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    copy[(100,)](x, out)
    np.testing.assert_array_equal(out, x)


def run(program, **variables):
    paths = [str(Path(libtile.__file__).resolve().parents[1]), str(Path(__file__).parent)]
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables})


def last_line(shown):
    assert shown.returncode == 1, shown.stdout
    return shown.stderr.splitlines()[-1]


@pytest.mark.parametrize("text", ["false", "off", "maybe", "2", "-1", "1x", "x1", " 1", "1 ", "+1", "0x1", "9" * 30])
def test_flags(text):
    for program in (LAUNCHES, COMPILES):
        assert last_line(run(program, LIBTILE_CHECK=text)) == \
            f"ValueError: LIBTILE_CHECK is '{text}'; it takes 0 or 1"


@pytest.mark.parametrize("text", ["2", "yes", "-1"])
def test_whether_openmp_is_used(text):
    for program in (LAUNCHES, ASKS):
        assert last_line(run(program, LIBTILE_OPENMP=text)) == f"ValueError: LIBTILE_OPENMP is '{text}'; it takes 0 or 1"


@pytest.mark.parametrize("text", ["abc", "3x", "-1", "1025", "2.0", "9" * 30])
def test_numbers_of_threads(text):
    for program in (LAUNCHES, ASKS):
        assert last_line(run(program, LIBTILE_NUM_THREADS=text)) == \
            f"ValueError: LIBTILE_NUM_THREADS is '{text}'; it takes 0 to 1024"


@pytest.mark.parametrize("text, threads", [("", None), ("0", None), ("1", 1), ("3", 3), ("007", 7)])
def test_taken_numbers_of_threads(text, threads):
    shown = run(LAUNCHES, LIBTILE_NUM_THREADS=text, LIBTILE_CHECK="")
    assert shown.stdout == f"{threads if threads is not None else os.cpu_count()}\n", shown.stderr


def test_an_import_reads_nothing():
    shown = run("import libtile; print('imported')", LIBTILE_CHECK="no", LIBTILE_NUM_THREADS="no")
    assert shown.stdout == "imported\n", shown.stderr
