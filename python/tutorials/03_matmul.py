# SPDX-License-Identifier: Apache-2.0
"""Lesson 3: matrix multiplication, with an activation fused into it.

Each program makes one tile of C and goes along K in steps of BLOCK_K. Programs are numbered in
groups of GROUP_M rows of tiles, so that programs that run at one time share rows of A and columns
of B in the cache. New here: 2-D tiles of pointers made by broadcasting, `tl.dot`, pointers that a
loop advances, a kernel that is given a function, and tuning. The compiler does the rest: registers,
vector width, packing for the CPU's caches, shared memory, copies in flight and tensor cores on a GPU.

    python 03_matmul.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def matmul(a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
           GROUP_M: tl.constexpr, ACTIVATION: tl.constexpr = None):
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

    # The tile is still in registers: here a function of each element costs no way through memory.
    if ACTIVATION is not None:
        acc = ACTIVATION(acc)
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


@libtile.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


# Which blocks are best depends on the device and on the sizes. A list of them is tried at the first launch with
# sizes that are new, and the best is kept (docs/tuning.md).
CONFIGS = [libtile.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}, num_warps=warps, num_stages=stages)
           for m, n, k in ((128, 256, 64), (192, 256, 64), (128, 128, 64), (128, 128, 32), (128, 64, 32), (64, 128, 32),
                           (64, 64, 64), (64, 32, 32))
           for warps, stages in ((8, 3), (8, 4), (4, 3), (4, 5))]


def one_of_each_block(configs, arguments, **others):
    """Warps and stages mean nothing to a CPU: it tries the blocks alone."""
    if not isinstance(arguments["a"], np.ndarray):
        return configs
    return list({tuple(config.kwargs.values()): config for config in configs}.values())


tuned = libtile.autotune(CONFIGS, key=["M", "N", "K"], prune_configs_by={"early_config_prune": one_of_each_block},
                         warmup=2, rep=10)(matmul)


def run_tuned(a, b, c, activation=None):
    """c = activation(a @ b), by the best of CONFIGS."""
    (m, k), n = a.shape, b.shape[1]
    tuned[lambda args: (libtile.cdiv(m, args["BLOCK_M"]) * libtile.cdiv(n, args["BLOCK_N"]),)](
        a, b, c, m, n, k, k, 1, n, 1, n, 1, ACTIVATION=activation)
    return c


def check(device):
    rng = np.random.default_rng(0)
    for m, n, k, dtype in ((64, 64, 64, np.float32), (100, 37, 250, np.float32), (300, 190, 77, np.float16)):
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        c = lesson.unwritten((m, n))
        plain, fused = (run(*lesson.place(device, a, b, c.copy()), ACTIVATION=f) for f in (None, leaky_relu))
        want = a.astype(np.float64) @ b.astype(np.float64)
        # A sum of k rounded products is off by at most about k roundings of its absolute sum.
        bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) * k * 2.0**-24
        assert (np.abs(lesson.host(plain) - want) <= bound).all()
        assert (np.abs(lesson.host(fused) - np.where(want >= 0, want, 0.01 * want)) <= bound).all()
        print(f"{m} x {n} x {k}, {np.dtype(dtype)}: right")


def measure(size, provider, device):
    rng = np.random.default_rng(0)
    dtype = np.float32 if device == "cpu" else np.float16
    a, b = rng.standard_normal((2, size, size)).astype(dtype)
    a, b, c = lesson.place(device, a, b, np.empty_like(a), provider=provider)
    calls = {
        "libtile": lambda: run_tuned(a, b, c, leaky_relu),
        "Triton": lambda: triton_form(a, b, c),
        "torch": lambda: lesson.torch().nn.functional.leaky_relu(a @ b),
        "NumPy": lambda: leaky_relu_by_numpy(a @ b),
    }
    return lesson.rate(calls[provider], 2 * size**3, device, provider)


def triton_form(a, b, c):
    theirs = lesson.by_triton(__file__)
    # It takes powers of two alone.
    theirs.tuned.configs = [config for config in theirs.tuned.configs if config.kwargs["BLOCK_M"] != 192]
    return theirs.run_tuned(a, b, c, theirs.leaky_relu)


def leaky_relu_by_numpy(x):
    return np.where(x >= 0, x, np.float32(0.01) * x)


if __name__ == "__main__":
    lesson.main(check, measure, "matrix multiplication and activation", "size", [128, 256, 512, 768, 1024], "GFLOP/s")
