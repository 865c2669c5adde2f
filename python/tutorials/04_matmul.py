# SPDX-License-Identifier: Apache-2.0
"""Lesson 4: matrix multiplication.

Each program makes one tile of C and goes along K in steps of BLOCK_K. Programs are numbered in
groups of GROUP_M rows of tiles, so that programs that run at one time share rows of A and columns
of B in the cache. New here: 2-D tiles of pointers made by broadcasting, `tl.dot`, and pointers that
a loop advances. The compiler does the rest: registers, vector width, packing for the CPU's caches,
shared memory, copies in flight and tensor cores on a GPU.

    python 04_matmul.py
"""
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def matmul(a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
           GROUP_M: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = (pid // in_group) * GROUP_M
    group_m = min(tiles_m - first_m, GROUP_M)
    pid_m = first_m + (pid % in_group) % group_m
    pid_n = (pid % in_group) // group_m

    # Rows and columns past the edge wrap around: they are read, and never stored.
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc_dtype: tl.constexpr = tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=acc_dtype)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0)
        y = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0)
        acc = tl.dot(x, y, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(c.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))


def run(a, b, c, block_m=128, block_n=128, block_k=32, group_m=8, **options):
    """c = a @ b for row-major 2-D arrays."""
    (m, k), n = a.shape, b.shape[1]
    grid = (libtile.cdiv(m, block_m) * libtile.cdiv(n, block_n),)
    matmul[grid](a, b, c, m, n, k, k, 1, n, 1, n, 1, BLOCK_M=block_m, BLOCK_N=block_n,
                 BLOCK_K=block_k, GROUP_M=group_m, **options)
    return c


def main():
    rng = np.random.default_rng(0)
    for m, n, k in ((64, 64, 64), (100, 37, 250), (512, 512, 512)):
        a = rng.standard_normal((m, k), dtype=np.float32)
        b = rng.standard_normal((k, n), dtype=np.float32)
        c = run(a, b, np.empty((m, n), np.float32))
        want = a.astype(np.float64) @ b.astype(np.float64)
        # A sum of k rounded products is off by at most about k roundings of its absolute sum.
        bound = np.abs(a).astype(np.float64) @ np.abs(b) * k * 2.0**-24
        assert (np.abs(c - want) <= bound).all()
        print(f"{m} x {n} x {k}: right")


if __name__ == "__main__":
    main()
