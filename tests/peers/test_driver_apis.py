# SPDX-License-Identifier: Apache-2.0
"""What libtile declares by itself of CUDA's launches and of HIP, beside NVIDIA's and AMD's headers, which Triton's package has."""
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("backend, header, source, flags", [("nvidia", "cuda.h", "cuda_api.cpp", []),
                                                            ("amd", "hip", "hip_api.cpp", ["-D__HIP_PLATFORM_AMD__"])])
def test_declarations(backend, header, source, flags):
    triton = pytest.importorskip("triton")
    headers = Path(triton.__file__).parent / "backends" / backend / "include"
    if not (headers / header).exists():
        pytest.skip(f"this package of Triton has no headers of {backend}")
    subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-Wno-enum-compare", *flags, f"-I{ROOT}", "-isystem", headers,
                    Path(__file__).with_name(source)], check=True)
