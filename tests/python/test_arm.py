# SPDX-License-Identifier: Apache-2.0
"""AArch64: the lessons' kernels, compiled for each of its targets, run under qemu-user against NumPy in float64; and
their assembly."""
import importlib
import re

import numpy as np
import pytest
import spine
from on_arm import TARGETS, launch
from spine import BF16, F16, F32, F64, ROUNDING, TINY, poisoned, random

attention = importlib.import_module("06_attention")
every_target = pytest.mark.parametrize("target", TARGETS)
FLOATS = [F32, F16, BF16]
named = dict(ids=lambda value: np.dtype(value).name)
DTYPES = {F32: "fp32", F16: "fp16", BF16: "bf16", np.int8: "i8"}


@every_target
@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.int64], **named)
def test_vector_add(target, dtype):
    rng = np.random.default_rng(1)
    for n in (5, 31, 997):
        x, y, out = random(rng, n, dtype), random(rng, n, dtype), poisoned(n, dtype)
        launch(spine.add.add, target, [-(-n // 100)], x, y, out, n, BLOCK=100)
        np.testing.assert_array_equal(out, (x.astype(F32) + y.astype(F32)).astype(dtype) if dtype in FLOATS else x + y)


@every_target
@pytest.mark.parametrize("dtype", FLOATS, **named)
def test_softmax(target, dtype):
    rng = np.random.default_rng(2)
    for rows, cols, programs in ((1, 3, 1), (3, 2, 3), (7, 31, 2), (4, 781, 4)):
        x, out = random(rng, (rows, cols), dtype), poisoned((rows, cols), dtype)
        block = 1 << (cols - 1).bit_length()
        launch(spine.softmax.softmax, target, [programs], out, x, cols, cols, rows, cols, BLOCK=block)
        want = spine.softmax.reference(x)
        # As in test_spine_softmax.
        assert (np.abs(out.astype(F64) - want) <= want * (40 * ROUNDING[F32] + 1.01 * ROUNDING[dtype]) + TINY[dtype]).all()


def product(target, a, b, out, tile):
    (m, k), n, (block_m, block_n, block_k) = a.shape, b.shape[1], tile
    return launch(spine.matmul.matmul, target, [-(-m // block_m) * -(-n // block_n)], a, b, out, m, n, k, k, 1, n, 1, n, 1,
                  BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8)


MATMULS = [((5, 3, 7), (16, 16, 16)), ((33, 65, 17), (17, 5, 3)), ((67, 130, 77), (64, 64, 32)), ((100, 100, 131), (96, 80, 48))]


@every_target
@pytest.mark.parametrize("dtype", FLOATS, **named)
def test_matmul(target, dtype):
    rng = np.random.default_rng(3)
    for (m, n, k), tile in MATMULS:
        a, b, out = random(rng, (m, k), dtype), random(rng, (k, n), dtype), poisoned((m, n), dtype)
        product(target, a, b, out, tile)
        wide_a, wide_b = a.astype(F64), b.astype(F64)
        want, sizes = wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b)
        # A sum of k exact products in f32, in any order, each addition rounded to either side, then one rounding to the
        # result's type.
        assert (np.abs(out.astype(F64) - want) <= 1.001 * (sizes * (k + 1) * 2 * ROUNDING[F32] + np.abs(want) * ROUNDING[dtype])
                + TINY[dtype]).all()


@every_target
def test_matmul_of_int8_is_exact(target):
    rng = np.random.default_rng(4)
    for (m, n, k), tile in MATMULS:
        a, b, out = random(rng, (m, k), np.int8), random(rng, (k, n), np.int8), poisoned((m, n), np.int32)
        a.flat[:3], b.flat[:3] = -128, -128
        product(target, a, b, out, tile)
        np.testing.assert_array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


@every_target
def test_matmul_of_subnormal_numbers(target):
    """Products and sums below the least normal number count like others, also where instructions flush them."""
    rng = np.random.default_rng(5)
    a, b = (np.ldexp(random(rng, shape, F32), exponent).astype(BF16) for shape, exponent in (((20, 24), -128), ((24, 20), 3)))
    out = poisoned((20, 20), F32)
    product(target, a, b, out, (32, 32, 16))
    want, sizes = a.astype(F64) @ b.astype(F64), np.abs(a.astype(F64)) @ np.abs(b.astype(F64))
    assert np.abs(want).max() > 0
    assert (np.abs(out - want) <= 25 * (sizes * ROUNDING[F32] + TINY[F32])).all()


@every_target
@pytest.mark.parametrize("dtype", FLOATS, **named)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(target, dtype, causal):
    rng = np.random.default_rng(6)
    heads, n, d, block_m, block_n = 2, 45, 32, 32, 16
    q, k, v, weights = (random(rng, (heads, n, d), dtype) for _ in range(4))
    out, lse = poisoned(q.shape, dtype), poisoned((heads, n), F32)
    launch(attention.attention, target, [-(-n // block_m), heads], q, k, v, out, lse, n, d**-0.5,
           D=d, BLOCK_M=block_m, BLOCK_N=block_n, CAUSAL=causal)
    want = attention.reference(q, k, v, weights, causal)[0]
    # Scores are off by d roundings of their products' sizes, probabilities are rounded to the type, and so is the
    # result: each counts once for every value that is averaged.
    scores = np.abs(q.astype(F64)) @ np.abs(k.astype(F64)).swapaxes(1, 2) * d**-0.5
    room = 4 * (d + 4) * ROUNDING[F32] * (1 + scores.max()) + 2 * ROUNDING[dtype] + 4 * n * ROUNDING[F32]
    assert (np.abs(out.astype(F64) - want) <= room * np.abs(v.astype(F64)).max() + ROUNDING[dtype] * np.abs(want)).all()


def inner_loops(assembly, instruction):
    """Blocks that jump back to their own label, with the instruction in them."""
    blocks = re.split(r"^(\.LBB\w+):", assembly, flags=re.M)
    loops = [text[:jump.end()] for label, text in zip(blocks[1::2], blocks[2::2])
             if (jump := re.search(rf"^\s+(b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\w+,)\s+{re.escape(label)}$", text, re.M))]
    return [loop for loop in loops if re.search(rf"^\s+{instruction}\b", loop, re.M)]


INSTRUCTIONS = [("aarch64", F32, "fmla"), ("aarch64", F16, "fmla"), ("aarch64", BF16, "fmla"), ("aarch64", np.int8, "mla"),
                ("aarch64-dotprod", np.int8, "sdot"), ("aarch64-dotprod", BF16, "fmla"), ("aarch64-bf16", np.int8, "sdot"),
                ("aarch64-bf16", BF16, "bfdot"), ("aarch64-bf16", F32, "fmla")]


@pytest.mark.parametrize("target, dtype, instruction", INSTRUCTIONS)
@pytest.mark.parametrize("tile", [(192, 256, 64), (64, 64, 32)], ids=str)
def test_no_spill_in_the_inner_loop(target, dtype, instruction, tile):
    name = DTYPES[dtype]
    block_m, block_n, block_k = tile
    kernel = spine.matmul.matmul.warmup(
        f"*{name}", f"*{name}", "*i32" if name == "i8" else f"*{name}", *["i32"] * 3, *["i32", 1] * 3, grid=(1,),
        target=target, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8)
    loops = inner_loops(kernel.asm["asm"], instruction)
    rows, columns = (int(re.search(rf"\b{name}=(\d+)", kernel.asm["nested"])[1]) for name in ("block_m", "block_n"))
    counts = [len(re.findall(rf"^\s+{instruction}\s+v\d+\.4s", loop, re.M)) for loop in loops]
    assert max(counts, default=0) == rows * columns // 4 >= 16, counts
    for loop, count in zip(loops, counts):
        assert "[sp" not in loop, loop
        assert count >= 16 or count == spine.fewest_rows(kernel), loop  # a vector of the last columns meets all rows
