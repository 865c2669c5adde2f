# SPDX-License-Identifier: Apache-2.0
"""Lesson 9: a matrix product by descriptors and by programs that stay.

A descriptor says once what an array is: where it begins, its shape, its strides, and the shape of the
blocks that are taken from it. Then a block is named by its offsets alone. What lies outside reads as
0 and is not written, so there are no masks; and since the kernel says "this block" instead of
thousands of addresses, a GPU's copy engine may fetch it as a whole.

The grid has as many programs as the device runs at one time, and each makes tile after tile. There is
one start and one end instead of hundreds, and the loads of the next tile can begin while the last one
is being stored. New here: descriptors made by the host, a persistent grid, hints of loops.

    python 09_persistent_matmul.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl
from libtile.tools.tensor_descriptor import TensorDescriptor


@libtile.jit
def tile_place(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of a tile, in groups of GROUP_M rows of tiles: lesson 3 says why."""
    in_group = GROUP_M * tiles_n
    first = tile // in_group * GROUP_M
    rows = tl.minimum(tiles_m - first, GROUP_M)
    return first + tile % in_group % rows, tile % in_group // rows


@libtile.jit
def persistent_matmul(a, b, c, M, N, K, GROUP_M: tl.constexpr):
    # Descriptors of [M, K], [K, N] and [M, N]; the blocks' shapes are constants that they bring along.
    BLOCK_M: tl.constexpr = a.block_shape[0]
    BLOCK_K: tl.constexpr = a.block_shape[1]
    BLOCK_N: tl.constexpr = b.block_shape[1]
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    # flatten: the two loops may be run as one, so that no copy has to wait for the end of a tile.
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        m, n = tile_place(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a.load([m * BLOCK_M, k]), b.load([k, n * BLOCK_N]), acc)
        c.store([m * BLOCK_M, n * BLOCK_N], acc.to(c.dtype))


def run(a, b, c, programs, block_m=128, block_n=256, block_k=64, **options):
    """c = a @ b for row-major 2-D arrays whose rows begin at multiples of 16 bytes, as copy engines want it."""
    (m, k), n = a.shape, b.shape[1]
    blocks = (a, block_m, block_k), (b, block_k, block_n), (c, block_m, block_n)
    descriptors = (TensorDescriptor.from_tensor(array, [rows, columns]) for array, rows, columns in blocks)
    tiles = libtile.cdiv(m, block_m) * libtile.cdiv(n, block_n)
    persistent_matmul[(min(programs, tiles),)](*descriptors, m, n, k, GROUP_M=8, **options)
    return c


def check(device):
    rng = np.random.default_rng(0)
    for m, n, k, dtype in ((1, 4, 4, np.float32), (101, 36, 252, np.float32), (300, 520, 72, np.float16)):
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        # Sums are in fp32, whatever the operands are; the result is rounded once where it is fp16.
        for out, rounding in ((np.float32, 0), (dtype, 2.0**-11 if dtype == np.float16 else 0)):
            got = run(*lesson.place(device, a, b, lesson.unwritten((m, n), out)), programs=5, block_m=64, block_n=32,
                      block_k=32)
            want = a.astype(np.float64) @ b.astype(np.float64)
            bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) * k * 2.0**-24
            assert (np.abs(lesson.host(got) - want) <= bound + rounding * np.abs(want)).all()
        print(f"{m} x {n} x {k}, {np.dtype(dtype)}: right")


def measure(size, provider, device):
    rng = np.random.default_rng(0)
    dtype = np.float32 if device == "cpu" else np.float16
    a, b = rng.standard_normal((2, size, size)).astype(dtype)
    a, b, c = lesson.place(device, a, b, np.empty_like(a), provider=provider)
    # A GPU of this generation has at most so many multiprocessors that programs can stay on.
    programs = libtile.num_threads() if device == "cpu" else 132
    options = {} if device == "cpu" else {"num_warps": 8, "num_stages": 3}
    calls = {
        "libtile": lambda: run(a, b, c, programs, **options),
        "Triton": lambda: lesson.by_triton(__file__).run(a, b, c, programs, **options),
        "torch": lambda: a @ b,
        "NumPy": lambda: a @ b,
    }
    return lesson.rate(calls[provider], 2 * size**3, device, provider)


if __name__ == "__main__":
    lesson.main(check, measure, "persistent matrix multiplication", "size", [128, 256, 512, 768, 1024], "GFLOP/s")
