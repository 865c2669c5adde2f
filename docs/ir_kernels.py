# SPDX-License-Identifier: Apache-2.0
"""The kernels whose texts docs/ir.md shows."""
import libtile
import libtile.language as tl


@libtile.jit
def shift(x, out, n, BLOCK: tl.constexpr):
    """Subtracts from each row of an array its largest element; a program takes one row."""
    cols = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    a = tl.load(x + row + cols, mask=cols < n, other=-float("inf"))
    tl.store(out + row + cols, a - tl.max(a), mask=cols < n)


@libtile.jit
def product(a, b, out, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """One tile of a matrix product, in steps of K."""
    rows, cols, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + rows[:, None] * k + start + ks[None, :])
        right = tl.load(b + (start + ks)[:, None] * N + cols[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(out + rows[:, None] * N + cols[None, :], acc)
