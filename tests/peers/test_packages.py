# SPDX-License-Identifier: Apache-2.0
"""Functions of published packages through the drop-in, each package in an interpreter of its own, since a triton that is
installed may be imported in this one."""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import libtile

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("package, cases, least", [
    ("liger_kernel", "liger_functions.py", 37), ("fla", "fla_functions.py", 14), ("attorch", "attorch_functions.py", 40),
    ("mamba_ssm", "mamba_functions.py", 12)])
def test_its_functions_and_their_gradients_are_those_of_torch(package, cases, least):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    path = os.pathsep.join([str(Path(libtile.__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run([sys.executable, "-m", "libtile.as_triton", str(HERE / cases), "--jobs", str(min(8, os.cpu_count() or 1))],
                            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path, "TRITON_F32_DEFAULT": "ieee"}, timeout=1200)
    assert result.returncode == 0, result.stderr
    said = result.stdout.splitlines()
    assert len(said) >= least and [line for line in said if not line.endswith(" ok")] == []
