# SPDX-License-Identifier: Apache-2.0
"""What libtile declares by itself of CUDA's launches, beside NVIDIA's header, which Triton's package has."""
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_declarations():
    triton = pytest.importorskip("triton")
    headers = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    if not (headers / "cuda.h").is_file():
        pytest.skip("this package of Triton has no CUDA headers")
    subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-Wno-enum-compare", f"-I{ROOT}", "-isystem", headers,
                    Path(__file__).with_name("cuda_api.cpp")], check=True)
