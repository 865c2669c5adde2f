# SPDX-License-Identifier: Apache-2.0
"""What `import triton` answers with torch's help."""
import subprocess
import sys

PRODUCTS = """
import torch
from triton._C.libtriton import nvidia
a, b, c = torch.randn(5, 7), torch.randn(3, 7), torch.randn(5, 3)
blas, d = nvidia.cublas.CublasLt(torch.empty(16)), torch.full((5, 3), float("nan"))
blas.matmul(a, b, d)
torch.testing.assert_close(d, a @ b.T)
blas.gemm(a, b, c, d, 2.0, -0.5)
torch.testing.assert_close(d, 2 * (a @ b.T) - c / 2)
a, b, d = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), torch.empty(5, 3, dtype=torch.float16)
blas.matmul(a, b, d)
torch.testing.assert_close(d, (a.double() @ b.double().T).half())
print("right")
"""


def test_products_to_measure_beside_are_those_of_torch():
    result = subprocess.run([sys.executable, "-m", "libtile.as_triton", "-c", PRODUCTS], capture_output=True, text=True, timeout=300)
    assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr
