# SPDX-License-Identifier: Apache-2.0
"""Lesson 10: a matrix product of 4-bit numbers with a scale for each 32 of them.

Four bits hold a sign and one of 0, 1/2, 1, 3/2, 2, 3, 4 and 6: too few for a whole matrix. But each run
of 32 numbers along K may have a scale of its own, a power of two in a byte, and 4.25 bits a number are
enough for many a network. Two numbers share a byte. `tl.dot_scaled` takes the packed operands and
their scales as they lie in memory. Where the hardware multiplies them itself it may, elsewhere they
become bf16 in registers, which holds each of them exactly; the memory's traffic is that of 4 bits in
any case. 8-bit numbers (e4m3) go the same way, one to a byte. New here: packed formats and scales.

    python 10_block_scaled_matmul.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl

RUN = 32  # numbers that share a scale


@libtile.jit
def scaled_matmul(a, a_scale, b, b_scale, c, M, N, K, FORMAT: tl.constexpr, BLOCK_M: tl.constexpr,
                  BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    PACKED: tl.constexpr = 2 if FORMAT == "e2m1" else 1  # numbers to a byte
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        bytes = k // PACKED + tl.arange(0, BLOCK_K // PACKED)
        runs = k // 32 + tl.arange(0, BLOCK_K // 32)
        is_byte = bytes[None, :] < K // PACKED
        is_run = runs[None, :] < K // 32
        # a is [M, K] and b is [N, K]: both have their runs along a row.
        x = tl.load(a + rows[:, None] * (K // PACKED) + bytes[None, :], mask=(rows[:, None] < M) & is_byte, other=0)
        y = tl.load(b + cols[:, None] * (K // PACKED) + bytes[None, :], mask=(cols[:, None] < N) & is_byte, other=0)
        xs = tl.load(a_scale + rows[:, None] * (K // 32) + runs[None, :], mask=(rows[:, None] < M) & is_run, other=0)
        ys = tl.load(b_scale + cols[:, None] * (K // 32) + runs[None, :], mask=(cols[:, None] < N) & is_run, other=0)
        acc = tl.dot_scaled(x, xs, FORMAT, y.T, ys, FORMAT, acc)
    tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def run(a, a_scale, b, b_scale, c, form, block_m=64, block_n=64, block_k=64, **options):
    """c = a @ b.T. a, b: bytes, [rows, K / 2] ("e2m1") or [rows, K] ("e4m3"); scales: bytes, [rows, K / 32]."""
    (m, n), k = c.shape, a_scale.shape[1] * RUN
    scaled_matmul[(libtile.cdiv(m, block_m), libtile.cdiv(n, block_n))](
        a, a_scale, b, b_scale, c, m, n, k, FORMAT=form, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        **options)
    return c


def numbers_of(form):
    """What the codes without a sign stand for, in rising order."""
    exponents, mantissas, bias = {"e2m1": (4, 2, 1), "e4m3": (16, 8, 7)}[form]
    found = [2.0 ** (max(e, 1) - bias) * ((e > 0) + m / mantissas) for e in range(exponents) for m in range(mantissas)]
    return np.array(found if form == "e2m1" else found[:-1])  # the last code of e4m3 is NaN


def quantize(x, form):
    """(bytes, scales, what they stand for in float64) of a matrix whose columns RUN divides."""
    numbers = numbers_of(form)
    runs = x.astype(np.float64).reshape(x.shape[0], -1, RUN)
    largest = np.abs(runs).max(axis=2)
    # The power of two that brings the largest number of a run to the format's largest power of two.
    exponents = np.floor(np.log2(np.maximum(largest, 2.0**-100))) - np.floor(np.log2(numbers[-1]))
    scaled = runs * 2.0 ** -exponents[:, :, None]
    codes = np.searchsorted((numbers[1:] + numbers[:-1]) / 2, np.abs(scaled))
    values = np.copysign(numbers[codes], scaled) * 2.0 ** exponents[:, :, None]
    sign = {"e2m1": 8, "e4m3": 128}[form]
    codes = (codes | np.signbit(scaled) * sign).astype(np.uint8).reshape(x.shape)
    if form == "e2m1":
        codes = codes[:, 0::2] | codes[:, 1::2] << 4
    return codes, (exponents + 127).astype(np.uint8), values.reshape(x.shape)


def check(device):
    rng = np.random.default_rng(0)
    for form in ("e2m1", "e4m3"):
        for m, n, k in ((1, 3, 32), (100, 37, 320), (130, 200, 512)):
            # Rows of very different sizes: without scales of their own most of them would vanish.
            a, b = (rng.standard_normal((rows, k)) * 10.0 ** rng.integers(-4, 4, (rows, 1)) for rows in (m, n))
            (a, a_scale, a_value), (b, b_scale, b_value) = quantize(a, form), quantize(b, form)
            c = run(*lesson.place(device, a, a_scale, b, b_scale, lesson.unwritten((m, n))), form)
            bound = np.abs(a_value) @ np.abs(b_value).T * k * 2.0**-24
            assert (np.abs(lesson.host(c) - a_value @ b_value.T) <= bound).all()
            print(f"{m} x {n} x {k}, {form}: right")


def measure(size, provider, device):
    """The peers multiply what the numbers stand for, in fp32 (bf16 on a GPU), which takes 7.5 (3.8) times the memory."""
    rng = np.random.default_rng(0)
    (a, a_scale, a_value), (b, b_scale, b_value) = (quantize(rng.standard_normal((size, size)), "e2m1") for _ in "ab")
    c = np.empty((size, size), np.float32)
    packed = lesson.place(device, a, a_scale, b, b_scale, c, provider=provider)
    x, y = lesson.place(device, a_value.astype(np.float32), b_value.T.astype(np.float32), provider=provider)
    if provider == "torch" and device != "cpu":
        x, y = x.bfloat16(), y.bfloat16()
    blocks = (128, 256, 128) if device == "cpu" else (128, 128, 64)
    calls = {
        "libtile": lambda: run(*packed, "e2m1", *blocks, num_warps=8),
        "Triton": lambda: lesson.by_triton(__file__).run(*packed, "e2m1", *blocks, num_warps=8),
        "torch": lambda: x @ y,
        "NumPy": lambda: x @ y,
    }
    return lesson.rate(calls[provider], 2 * size**3, device, provider)


if __name__ == "__main__":
    lesson.main(check, measure, "block-scaled matrix multiplication", "size", [128, 256, 512, 1024], "GFLOP/s")
