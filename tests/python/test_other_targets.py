# SPDX-License-Identifier: Apache-2.0
"""The kernels' tests once more, compiled for each instruction set below this machine's own."""
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from spine import DEVICES

import libtile
import libtile.language as tl

HERE = Path(__file__).parent
X86 = ["x86-64-v3", "avx512", "avx512vnni", "avx512bf16", "amx"]


@libtile.jit
def copy(x, out):
    tl.store(out, tl.load(x))


def run_with(variables, *command):
    # The same libtile from another folder: the path may be relative.
    paths = [str(Path(libtile.__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run([sys.executable, *command], env=environment, cwd=HERE, capture_output=True, text=True)


def run(target, *command):
    return run_with({"LIBTILE_CPU_TARGET": target, "CUDA_VISIBLE_DEVICES": ""}, *command)


def own_target():
    return copy.warmup("*fp32", "*fp32", grid=(1,), target="cpu").target


@functools.cache
def refusal():
    return run("pentium", "-c", PRINTS_TARGET).stderr


def runs_here(target):
    """All up to the largest instruction set, which need not be the fastest; tiles only where they are permitted."""
    largest = re.search(r"this machine runs (\S+)", refusal())[1]
    permitted = target != "amx" or "does not permit" not in refusal()
    return largest in X86 and X86.index(target) <= X86.index(largest) and permitted


@pytest.mark.not_interpreted("it runs no machine code")
@pytest.mark.slow
@pytest.mark.parametrize("target", [target for target in X86 if target != own_target()])
def test_kernels_on_lesser_machines(target):
    files = [path.name for pattern in ("test_spine_*.py", "test_kernels_*.py") for path in HERE.glob(pattern)]
    tests = run(target, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *sorted(files))
    if runs_here(target):
        assert tests.returncode == 0 and " passed" in tests.stdout, tests.stdout[-4000:] + tests.stderr[-2000:]
    else:
        assert tests.returncode != 0 and "LIBTILE_CPU_TARGET" in tests.stdout + tests.stderr


PRINTS_TARGET = """
import numpy as np, test_other_targets as t
kernel = t.copy[(1,)](np.ones(1, np.float32), np.zeros(1, np.float32))
print(kernel.target)
"""


@pytest.mark.not_interpreted("it runs no machine code")
@pytest.mark.parametrize("target", X86)
def test_the_environment_names_the_target(target):
    shown = run(target, "-c", PRINTS_TARGET)
    if runs_here(target):
        assert shown.stdout.split()[0] == target, shown.stderr
    else:
        assert f"LIBTILE_CPU_TARGET is '{target}'; this machine runs" in shown.stderr


@pytest.mark.parametrize("target", ["pentium", "sm_90a", "aarch64" if own_target() in X86 else "avx512"])
def test_refused_targets(target):
    shown = run(target, "-c", PRINTS_TARGET)
    assert shown.returncode == 1
    assert f"UnsupportedError: LIBTILE_CPU_TARGET is '{target}'; this machine runs" in shown.stderr


PRINTS_GPU_TARGET = """
import numpy as np, test_other_targets as t
x = t.libtile.to_device(np.ones(1, np.float32), "cuda")
kernel = t.copy[(1,)](x, x)
print(kernel.target)
"""


@pytest.mark.skipif("cuda" not in DEVICES, reason="no NVIDIA GPU")
@pytest.mark.parametrize("target, runs", [("sm_75", True), ("sm_70", False), ("sm_999", False), ("avx512", False)])
def test_an_older_target_of_a_cuda_device(target, runs):
    """PTX for an older target runs on newer devices."""
    shown = run_with({"LIBTILE_CUDA_TARGET": target}, "-c", PRINTS_GPU_TARGET)
    if runs:
        assert shown.stdout.split() == [target], shown.stderr
    else:
        assert shown.returncode == 1 and f"LIBTILE_CUDA_TARGET is '{target}'; the GPU is an sm_" in shown.stderr
