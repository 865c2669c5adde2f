# SPDX-License-Identifier: Apache-2.0
"""Products of operands in either order of memory, whose rows may have to turn on their way to a matrix unit: small integers, whose
sums are exact, of extents and row lengths that divide nothing."""
import ml_dtypes
import numpy as np
import pytest
from spine import DEVICES, F32, F64, OnDevice, poisoned

import libtile
import libtile.language as tl

KINDS = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "fp32": F32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
SUMS = {"i8": (tl.int32, np.int32)}


@libtile.jit
def product(a, b, c, M, N, K, ROW_A, ROW_B, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr, TURN_A: tl.constexpr,
            TURN_B: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), ACC)
    for i in range(0, K, BK):
        at = i + k
        if TURN_A:
            x = tl.load(a + at[:, None] * ROW_A + m[None, :], (at[:, None] < K) & (m[None, :] < M), 0).T
        else:
            x = tl.load(a + m[:, None] * ROW_A + at[None, :], (at[None, :] < K) & (m[:, None] < M), 0)
        if TURN_B:
            y = tl.load(b + n[:, None] * ROW_B + at[None, :], (at[None, :] < K) & (n[:, None] < N), 0).T
        else:
            y = tl.load(b + at[:, None] * ROW_B + n[None, :], (at[:, None] < K) & (n[None, :] < N), 0)
        acc = tl.dot(x, y, acc, input_precision="tf32")
    tl.store(c + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turn_a, turn_b", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("tile, warps", [((64, 64, 64), 4), ((32, 128, 32), 2), ((16, 48, 128), 1)])
@pytest.mark.parametrize("align", [16, 1])
def test_either_order(device, kind, turn_a, turn_b, tile, warps, align):
    rng = np.random.default_rng(23)
    m, n, k = tile[0] - 3, tile[1] - 5, tile[2] + 13
    rows = [-(-extent // align) * align for extent in (m if turn_a else k, k if turn_b else n)]
    a, b = (rng.integers(-4, 5, (count, row)).astype(KINDS[kind]) for count, row in zip((k if turn_a else m, n if turn_b else k), rows, strict=True))
    acc, sums = SUMS.get(kind, (tl.float32, F32))
    on = OnDevice(device)
    there = [on(v) for v in (a, b, poisoned((m, n), sums))]
    product[(1,)](*there, m, n, k, *rows, BM=tile[0], BN=tile[1], BK=tile[2], ACC=acc, TURN_A=turn_a, TURN_B=turn_b, num_warps=warps)
    left, right = a.astype(F64), b.astype(F64)
    want = (left.T if turn_a else left)[:m, :k] @ (right.T if turn_b else right)[:k, :n]
    np.testing.assert_array_equal(on.back(there[2]).astype(F64), want)


# Vectors of 16 bytes whose masks agree, of a product that does nothing else in its loop: what CDNA 4 copies straight to LDS. The last
# iteration has a part of them, and rows and columns beyond the edges are 0.
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["fp16", "bf16", "i8", "e4m3"])
@pytest.mark.parametrize("turn_a, turn_b", [(False, False), (True, False), (True, True), (False, True)])
@pytest.mark.parametrize("tile, warps, stages", [((64, 128, 64), 4, 2), ((32, 64, 64), 1, 2), ((128, 64, 64), 4, 3), ((128, 128, 128), 8, 2)])
@pytest.mark.parametrize("k", [48, 64, 272])
def test_wide_vectors(device, kind, turn_a, turn_b, tile, warps, stages, k):
    rng = np.random.default_rng(29)
    m, n = tile[0] - 16, tile[1] - 32
    a, b = (rng.integers(-4, 5, shape).astype(KINDS[kind]) for shape in ((k, m) if turn_a else (m, k), (n, k) if turn_b else (k, n)))
    acc, sums = SUMS.get(kind, (tl.float32, F32))
    on = OnDevice(device)
    there = [on(v) for v in (a, b, poisoned((m, n), sums))]
    product[(1,)](*there, m, n, k, a.shape[1], b.shape[1], BM=tile[0], BN=tile[1], BK=tile[2], ACC=acc, TURN_A=turn_a, TURN_B=turn_b,
                  num_warps=warps, num_stages=stages)
    left, right = a.astype(F64), b.astype(F64)
    want = (left.T if turn_a else left) @ (right.T if turn_b else right)
    np.testing.assert_array_equal(on.back(there[2]).astype(F64), want)
