# SPDX-License-Identifier: Apache-2.0
"""The functions of liger-kernel through the drop-in: liger_functions.py in an interpreter of its own, since a triton that is
installed may be imported in this one."""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import libtile

CASES = Path(__file__).resolve().with_name("liger_functions.py")


@pytest.mark.skipif(importlib.util.find_spec("liger_kernel") is None, reason="liger-kernel is not installed")
def test_its_functions_and_their_gradients_are_those_of_torch():
    path = os.pathsep.join([str(Path(libtile.__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run([sys.executable, "-m", "libtile.as_triton", str(CASES)], capture_output=True, text=True,
                            env={**os.environ, "PYTHONPATH": path, "TRITON_F32_DEFAULT": "ieee"}, timeout=1200)
    assert result.returncode == 0, result.stderr
    said = result.stdout.splitlines()
    assert len(said) >= 30 and [line for line in said if not line.endswith(" ok")] == []
