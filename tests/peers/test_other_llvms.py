# SPDX-License-Identifier: Apache-2.0
"""Libraries with an LLVM of their own in the same process, whatever is imported first."""
import itertools
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
assert torch.arange(4).sum() == 6
""",
    "triton": """
import triton
import triton._C.libtriton
""",
}
KERNELS = '''
import libtile, libtile.language as tl

@libtile.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
'''


@pytest.mark.parametrize("order", [order for order in itertools.permutations(PIECES)
                                   if order[0] == "libtile" or order[-1] == "libtile"][::2],
                         ids="-".join)
def test_one_process(order, tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    code = f"import importlib.util, numpy as np\nKERNELS = {str(path)!r}\n"
    code += "".join(PIECES[name] for name in order) + PIECES["libtile"] + PIECES["numba"]
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
