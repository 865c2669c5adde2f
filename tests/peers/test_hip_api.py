# SPDX-License-Identifier: Apache-2.0
"""The HIP functions that libtile declares by itself, beside AMD's header, which Triton's package has."""
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_declarations():
    triton = pytest.importorskip("triton")
    headers = Path(triton.__file__).parent / "backends" / "amd" / "include"
    if not (headers / "hip").is_dir():
        pytest.skip("this package of Triton has no HIP headers")
    subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-Wno-enum-compare", "-D__HIP_PLATFORM_AMD__", f"-I{ROOT}", "-isystem", headers,
                    Path(__file__).with_name("hip_api.cpp")], check=True)
