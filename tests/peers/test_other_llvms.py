# SPDX-License-Identifier: Apache-2.0
"""Libraries with an LLVM of their own in the same process, whatever is imported first: each compiles."""
import itertools
import os
import subprocess
import sys

import pytest

PIECES = {
    "libtile": """
import libtile, libtile.language as tl
spec = importlib.util.spec_from_file_location("kernels", KERNELS)
kernels = importlib.util.module_from_spec(spec); spec.loader.exec_module(kernels)
x = np.arange(1000, dtype=np.float32); out = np.zeros_like(x)
kernels.double[(8,)](x, out, 1000, BLOCK=128)
assert (out == 2 * x).all()
assert "ptx" in kernels.double.warmup("*fp32", "*fp32", "i32", grid=(1,), target="sm_80", BLOCK=128).asm
""",
    "numba": """
import numba
assert numba.njit(lambda a: a * 2)(21) == 42
""",
    "torch": """
import torch
assert float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()) == 64.0**3
""",
    "triton": """
import triton
from triton.backends.compiler import GPUTarget
spec = importlib.util.spec_from_file_location("triton_kernels", TRITON_KERNELS)
triton_kernels = importlib.util.module_from_spec(spec); spec.loader.exec_module(triton_kernels)
source = triton.compiler.ASTSource(triton_kernels.double, {"x": "*fp32", "out": "*fp32", "n": "i32",
                                                           "BLOCK": "constexpr"}, {"BLOCK": 128})
assert ".entry" in triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ptx"]
""",
}
KERNELS = '''
import libtile, libtile.language as tl

@libtile.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
'''


@pytest.mark.parametrize("order", ["-".join(order) for order in itertools.permutations(PIECES)])
def test_one_process(order, tmp_path):
    kernels, triton_kernels = tmp_path / "kernels.py", tmp_path / "triton_kernels.py"
    kernels.write_text(KERNELS)
    triton_kernels.write_text(KERNELS.replace("libtile.language", "triton.language").replace("libtile", "triton"))
    code = ("import importlib.util, numpy as np\n"
            f"KERNELS, TRITON_KERNELS = {str(kernels)!r}, {str(triton_kernels)!r}\n")
    # Once more at the end: what came later has not broken what came first.
    code += "".join(PIECES[name] for name in order.split("-")) + PIECES["libtile"] + PIECES["numba"]
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
                            env={**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")})
    assert result.returncode == 0, result.stderr
