# SPDX-License-Identifier: Apache-2.0
"""`triton._C.libtriton.nvidia.cublas`: the products that programs measure their kernels beside, through torch."""
import torch


class CublasLt:
    """Products of a matrix and a transposed one; the workspace is torch's own."""

    def __init__(self, workspace=None):
        self.workspace = workspace

    def matmul(self, A, B, C):
        """C[M, N] = A[M, K] @ B[N, K].T. 8-bit floats are summed in fp32 and rounded once."""
        self.gemm(A, B, C, C, 1.0, 0.0)

    def gemm(self, A, B, C, D, alpha, beta):
        """D[M, N] = alpha * A[M, K] @ B[N, K].T + beta * C[M, N]."""
        if A.element_size() == 1:
            A, B = A.float(), B.float()
        if A.dtype == D.dtype and alpha == 1 and beta == 0:
            torch.matmul(A, B.T, out=D)
        else:
            product = alpha * torch.matmul(A, B.T)
            D.copy_(product + beta * C.to(product.dtype) if beta else product)

    def block_scaled_matmul_mxfp8(self, *args):
        raise NotImplementedError("libtile has no block-scaled product of cuBLAS")

    block_scaled_matmul_nvfp4 = block_scaled_matmul_mxfp8
