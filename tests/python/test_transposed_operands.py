# SPDX-License-Identifier: Apache-2.0
"""Right operands whose rows lie along k in memory: packed along them, and transposed in registers on CPUs."""
import re

import numpy as np
import pytest
from ml_dtypes import bfloat16
from spine import DEVICES, OnDevice

import libtile
import libtile.language as tl

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": bfloat16, "int8": np.int8}
CODES = {"f32": "fp32", "f64": "fp64", "f16": "fp16", "bf16": "bf16", "int8": "i8"}


@libtile.jit
def product(a, b, out, m, n, k, row_of_b, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, KIND: tl.constexpr, ACC: tl.constexpr):
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], ACC)
    greatest = tl.full([BM], -1000, ACC)
    for start in range(0, k, BK):
        depth = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0)
        if KIND == "around":
            y = tl.load(b + (cols % n)[None, :] * row_of_b + depth[:, None], mask=depth[:, None] < k, other=0)
        elif KIND == "rows around":
            y = tl.load(b + (cols % n)[None, :] + depth[:, None] * row_of_b, mask=depth[:, None] < k, other=0)
        elif KIND == "pointers":
            y = tl.load(b + cols[None, :] * row_of_b + depth[:, None], mask=(cols[None, :] < n) & (depth[:, None] < k), other=0)
        else:
            y = tl.load(b + cols[:, None] * row_of_b + depth[None, :], mask=(cols[:, None] < n) & (depth[None, :] < k), other=0).T
        if KIND == "computed":
            y = (y * 2 + 1).to(b.dtype.element_ty)
        if KIND == "both":
            acc = tl.dot(x, y, acc) + tl.sum(y.to(ACC), axis=0)[None, :]
        elif KIND == "alone":
            part = tl.dot(x, y)
            greatest = tl.maximum(greatest, tl.max(part, axis=1))
            acc += part
        else:
            acc = tl.dot(x, y, acc)
    if KIND == "alone":
        acc += greatest[:, None]
    tl.store(out + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


def expected(a, b, kind, block, columns):
    """The columns of a program are looked at together, and zeros behind the last one."""
    if kind == "computed":  # zeros behind the ends, too, but those of a take them off
        b = b * 2 + 1
    result = a @ b.T
    if kind == "both":
        result = result + b.sum(axis=1)[None, :]
    if kind == "alone":
        for first in range(0, b.shape[0], columns):
            part = slice(first, first + columns)
            greatest = np.full(a.shape[0], -1000.0)
            for start in range(0, a.shape[1], block):
                one = a[:, start:start + block] @ b[part, start:start + block].T
                one = np.pad(one, ((0, 0), (0, columns - one.shape[1])))
                greatest = np.maximum(greatest, one.max(axis=1))
            result[:, part] += greatest[:, None]
    return result


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["loaded", "pointers", "around", "computed", "both", "alone"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype, kind, device):
    """Small integers: all sums are exact. Rows of b are longer than they need be, and what lies between is poison."""
    rng = np.random.default_rng(7)
    acc = {"int8": np.int32, "f64": np.float64}.get(dtype, np.float32)
    for (m, n, k), (bm, bn, bk) in (((64, 64, 64), (32, 32, 32)), ((70, 45, 37), (32, 64, 16)), ((33, 129, 130), (16, 32, 64)),
                                    ((20, 100, 128), (64, 128, 128)), ((5, 17, 8), (16, 16, 8)), ((40, 30, 20), (16, 8, 16)),
                                    ((16, 4, 64), (16, 4, 32))):
        gap = 5
        a = rng.integers(-4, 5, (m, k)).astype(DTYPES[dtype])
        stored = np.full((n, k + gap), 99, DTYPES[dtype])
        stored[:, :k] = b = rng.integers(-4, 5, (n, k)).astype(DTYPES[dtype])
        out = np.full((m, n), 77, acc)
        on = OnDevice(device)
        there = [on(x) for x in (a, stored, out)]
        product[(-(-m // bm), -(-n // bn))](*there, m, n, k, k + gap, BM=bm, BN=bn, BK=bk, KIND=kind,
                                           ACC={np.int32: tl.int32, np.float64: tl.float64}.get(acc, tl.float32))
        want = expected(a.astype(np.float64), b.astype(np.float64), kind, bk, bn)
        np.testing.assert_array_equal(on.back(there[2]).astype(np.float64), want, err_msg=f"{m}x{n}x{k} by {bm}x{bn}x{bk}")


@libtile.jit
def batch(a, b, out, S: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    s, m, n, k = tl.arange(0, S)[:, None, None], tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + s * (M * K) + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + s * (N * K) + n[None, None, :] * K + k[None, :, None])
    tl.store(out + s * (M * N) + m[None, :, None] * N + n[None, None, :], tl.dot(x, y))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_batches(dtype, device):
    rng = np.random.default_rng(8)
    for s, m, n, k in ((4, 16, 32, 16), (2, 32, 16, 64)):
        a, b = (rng.integers(-4, 5, shape).astype(DTYPES[dtype]) for shape in ((s, m, k), (s, n, k)))
        on = OnDevice(device)
        there = [on(x) for x in (a, b, np.full((s, m, n), 77, np.float32))]
        batch[(1,)](*there, S=s, M=m, N=n, K=k)
        want = a.astype(np.float64) @ b.astype(np.float64).swapaxes(1, 2)
        np.testing.assert_array_equal(on.back(there[2]).astype(np.float64), want)


def code(target, dtype, block=(64, 64, 64), kind="loaded"):
    acc = "i32" if dtype == "int8" else "fp64" if dtype == "f64" else "fp32"
    bm, bn, bk = block
    return product.warmup(f"*{CODES[dtype]}:16", f"*{CODES[dtype]}:16", f"*{acc}:16", "i32", "i32", "i32", "i32", BM=bm, BN=bn, BK=bk,
                          KIND=kind, ACC={"i32": tl.int32, "fp64": tl.float64, "fp32": tl.float32}[acc], grid=(1,), target=target)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "int8"])
@pytest.mark.parametrize("target", ["x86-64-v3", "avx512bf16", "amx"])
@pytest.mark.parametrize("kind", ["loaded", "pointers", "around", "alone"])
def test_no_lane_is_taken_from_a_place_of_its_own(kind, target, dtype):
    kernel = code(target, dtype, kind=kind)
    assert kernel.asm["nested"].count("transpose_words") == 1 and "b transposed in registers" in kernel.asm["plan"]
    assert "gather" not in kernel.asm["asm"]
    shuffles = re.findall(r"v(?:p?unpck|shufp|permt2|perm2[fi]128)", kernel.asm["asm"])
    assert len(shuffles) >= 8, "words of a chunk change their places with those of others"


@pytest.mark.parametrize("block", [(16, 16, 4), (16, 2, 64)])
def test_less_than_a_chunk_is_packed_as_ever(block):
    assert "transpose_words" not in code("amx", "bf16", block).asm["nested"]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "int8"])
@pytest.mark.parametrize("target", ["x86-64-v3", "avx512bf16", "amx"])
def test_rows_that_may_end_anywhere_are_not_transposed(target, dtype):
    """Neither rows nor columns are known to lie one by one: nothing is won by copying along columns."""
    kernel = code(target, dtype, kind="rows around")
    assert "transpose_words" not in kernel.asm["nested"] and "transposed" not in kernel.asm["plan"]
