# SPDX-License-Identifier: Apache-2.0
"""Lesson 8: many matrix products of different sizes in one launch.

The experts of a mixture model get as many rows each as tokens chose them: a group of products, most
of them too small to fill a device. One launch does them all. Which matrices there are stands in
memory: arrays of addresses and of sizes, which the kernel reads. A fixed number of programs goes over
the tiles of all products as if they were one long list; a program that is done with a tile takes the
one that is as many places further as there are programs. New here: pointers loaded from memory, what
has to be promised about them, sizes that differ from tile to tile, a grid that does not depend on the
problem.

    python 08_grouped_gemm.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def grouped_matmul(a_addresses, b_addresses, c_addresses, sizes, groups, DTYPE: tl.constexpr, ALIGNED: tl.constexpr,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    tile = tl.program_id(0)
    before = 0  # tiles of the groups before this one
    for group in range(groups):
        M = tl.load(sizes + 3 * group)
        N = tl.load(sizes + 3 * group + 1)
        K = tl.load(sizes + 3 * group + 2)
        # An address is an integer until it is told what lies there.
        a = tl.load(a_addresses + group).to(tl.pointer_type(DTYPE))
        b = tl.load(b_addresses + group).to(tl.pointer_type(DTYPE))
        c = tl.load(c_addresses + group).to(tl.pointer_type(DTYPE))
        if ALIGNED:
            # Which of its arguments 16 divides, a launch finds out by itself. Of what the kernel loads nobody knows, so
            # it is promised here: without that a row could begin anywhere, and would be read element by element.
            N = tl.multiple_of(N, 16)
            K = tl.multiple_of(K, 16)
            a, b, c = tl.multiple_of(a, 16), tl.multiple_of(b, 16), tl.multiple_of(c, 16)
        tiles_n = tl.cdiv(N, BLOCK_N)
        tiles = tl.cdiv(M, BLOCK_M) * tiles_n
        while tile < before + tiles:
            rows = (tile - before) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            cols = (tile - before) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for start in range(0, K, BLOCK_K):
                ks = start + tl.arange(0, BLOCK_K)
                x = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
                y = tl.load(b + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
                acc = tl.dot(x, y, acc)
            tl.store(c + rows[:, None] * N + cols[None, :], acc.to(DTYPE), mask=(rows[:, None] < M) & (cols[None, :] < N))
            tile += tl.num_programs(0)
        before += tiles


def addresses(arrays):
    """Of arrays of any kind, as int64."""
    return np.array([array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr() for array in arrays],
                    np.int64)


class Group:
    """The products c[i] = a[i] @ b[i], and what the kernel reads of them. It keeps the arrays alive."""

    def __init__(self, device, a, b, c, provider="libtile"):
        sizes = np.array([(x.shape[0], y.shape[1], x.shape[1]) for x, y in zip(a, b)], np.int32)
        places = [addresses(arrays) for arrays in (a, b, c)]
        self.is_aligned = all((numbers % 16 == 0).all() for numbers in (*places, sizes[:, 1:]))
        self.size = len(sizes)
        self.arguments = lesson.place(device, *places, sizes, provider=provider)
        self.arrays = a, b, c


def run(group, dtype, programs, block_m=64, block_n=64, block_k=32, **options):
    """All products of the group; dtype is that of a, b and c."""
    grouped_matmul[(programs,)](*group.arguments, group.size, DTYPE=dtype, ALIGNED=group.is_aligned, BLOCK_M=block_m,
                                BLOCK_N=block_n, BLOCK_K=block_k, **options)


def check(device):
    rng = np.random.default_rng(0)
    odd = [(1, 1, 1), (100, 37, 250), (64, 128, 32), (3, 200, 65), (130, 70, 90)]
    even = [(1, 16, 16), (100, 48, 256), (64, 128, 32)]
    for shapes, dtype, name in ((odd, np.float32, tl.float32), (odd, np.float16, tl.float16), (even, np.float32, tl.float32)):
        hosts = [[rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n))] for m, n, k in shapes]
        a, b = ([lesson.place(device, pair[i]) for pair in hosts] for i in range(2))
        c = [lesson.place(device, lesson.unwritten((m, n), dtype)) for m, n, _ in shapes]
        run(Group(device, a, b, c), name, programs=7)
        for (x, y), got in zip(hosts, c):
            x, y = x.astype(np.float64), y.astype(np.float64)
            # Sums of K terms in fp32, and one rounding to what is stored.
            bound = np.abs(x) @ np.abs(y) * x.shape[1] * 2.0**-24 + np.abs(x @ y) * np.finfo(dtype).eps
            assert (np.abs(lesson.host(got).astype(np.float64) - x @ y) <= bound).all()
        print(f"{len(shapes)} products, {np.dtype(dtype)}: right")


def measure(groups, provider, device):
    """Products of 32 to 512 rows with matrices of 512 x 512."""
    rng = np.random.default_rng(0)
    dtype, name = (np.float32, "float32") if device == "cpu" else (np.float16, "float16")
    rows = rng.integers(32, 513, groups)
    a = [lesson.place(device, rng.standard_normal((m, 512)).astype(dtype), provider=provider) for m in rows]
    b = [lesson.place(device, rng.standard_normal((512, 512)).astype(dtype), provider=provider) for _ in rows]
    c = [lesson.place(device, np.empty((m, 512), dtype), provider=provider) for m in rows]
    programs = 64 if device == "cpu" else 264
    blocks = (128, 256, 64) if device == "cpu" else (128, 128, 64)
    group = Group(device, a, b, c, provider)
    calls = {
        "libtile": lambda: run(group, getattr(tl, name), programs, *blocks, num_warps=8),
        "Triton": lambda: by_triton(group, name, programs, *blocks),
        "torch": lambda: [x @ y for x, y in zip(a, b)],
        "NumPy": lambda: [x @ y for x, y in zip(a, b)],
    }
    return lesson.rate(calls[provider], 2 * int(rows.sum()) * 512 * 512, device, provider)


def by_triton(group, name, programs, *blocks):
    theirs = lesson.by_triton(__file__)
    theirs.run(group, getattr(theirs.tl, name), programs, *blocks, num_warps=8)


if __name__ == "__main__":
    lesson.main(check, measure, "grouped matrix products", "groups", [1, 2, 4, 8], "GFLOP/s")
