# SPDX-License-Identifier: Apache-2.0
"""The greatest and the least of rows, which pass over NaN: rows that begin or end with NaN, have nothing else, or nothing
greater than minus infinity."""
import re

import numpy as np
import pytest
from ml_dtypes import bfloat16
from spine import DEVICES, OnDevice

import libtile
import libtile.language as tl

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": bfloat16}


@libtile.jit
def extremes(x, high, low, scaled, n, rows: tl.constexpr, N: tl.constexpr, OTHER: tl.constexpr):
    at, c = tl.program_id(0) * rows + tl.arange(0, rows), tl.arange(0, N)
    values = tl.load(x + at[:, None] * n + c[None, :], mask=c[None, :] < n, other=OTHER)
    tl.store(high + at, tl.max(values, axis=1))
    tl.store(low + at, tl.min(values, axis=1))
    tl.store(scaled + at, tl.max(values.to(tl.float32) * 2.0 - 1.0, axis=1))


def rows_of(rng, n, dtype):
    """Of each kind a row."""
    plain = rng.standard_normal(n)
    kinds = [plain, np.full(n, np.nan), np.full(n, -np.inf), np.full(n, np.inf), np.where(np.arange(n) == n - 1, 1.5, np.nan),
             np.where(np.arange(n) == 0, -2.5, np.nan), np.where(np.arange(n) == 0, np.nan, plain),
             np.where(rng.random(n) < 0.9, np.nan, -np.inf), np.where(rng.random(n) < 0.5, np.nan, plain),
             np.where(rng.random(n) < 0.5, -np.inf, np.nan), np.where(rng.random(n) < 0.5, np.inf, np.nan), -np.abs(plain) * 1e-3,
             np.zeros(n), np.where(rng.random(n) < 0.97, -np.inf, plain), np.where(rng.random(n) < 0.97, np.inf, plain), plain * 1e4]
    return np.array(kinds).astype(dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("other", [-float("inf"), float("inf"), float("nan"), 0.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(dtype, other, device):
    rng = np.random.default_rng(11)
    for n, extent in ((1, 1), (3, 4), (8, 8), (31, 32), (64, 64), (65, 256), (200, 256), (781, 1024), (1024, 1024)):
        x = rows_of(rng, n, DTYPES[dtype])
        count = len(x)
        on = OnDevice(device)
        there = [on(v) for v in (x, *(np.full(count, 77, DTYPES[dtype]) for _ in range(2)), np.full(count, 77, np.float32))]
        extremes[(count // 4,)](*there, n, rows=4, N=extent, OTHER=other)
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, extent - n)), constant_values=other)
        for got, want in zip(there[1:], (np.fmax.reduce(padded, 1), np.fmin.reduce(padded, 1),
                                         np.fmax.reduce((padded.astype(np.float32) * np.float32(2) - np.float32(1)).astype(np.float64), 1))):
            np.testing.assert_array_equal(on.back(got).astype(np.float64), want, err_msg=f"{n} of {extent}")


@libtile.jit
def flipped(x, out, most, turns, ROWS: tl.constexpr, N: tl.constexpr):
    """What is folded is written to where it comes from."""
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    values = tl.load(x + at)
    greatest = tl.full([ROWS], -5.0, tl.float32)
    for _ in range(turns):
        values = -values
        greatest = tl.maximum(tl.max(values, axis=1), greatest * 0.5)
    tl.store(out + at, values)
    tl.store(most + tl.arange(0, ROWS), greatest)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_rows_in_place(turns, device):
    x = rows_of(np.random.default_rng(5), 64, np.float32)
    on = OnDevice(device)
    there = [on(x), on(np.full_like(x, 77)), on(np.full(len(x), 77, np.float32))]
    flipped[(1,)](*there, turns, ROWS=16, N=64)
    values, greatest = x.copy(), np.full(len(x), -5, np.float32)
    for _ in range(turns):
        values = -values
        greatest = np.fmax(np.fmax.reduce(values, 1), greatest * np.float32(0.5))
    np.testing.assert_array_equal(on.back(there[1]), values)
    np.testing.assert_array_equal(on.back(there[2]), greatest)


@pytest.mark.parametrize("target", ["x86-64-v3", "avx512bf16"])
@pytest.mark.parametrize("kind", ["fp32", "fp64"])
def test_one_instruction_for_each_vector(kind, target):
    assembly = extremes.warmup(f"*{kind}:16", f"*{kind}:16", f"*{kind}:16", "*fp32:16", "i32", rows=4, N=1024, OTHER=0.0, grid=(1,),
                               target=target).asm["asm"]
    loops = [body for label, body in re.findall(r"\n(\.L\w+):\n((?:(?!\n\.L\w+:).)*?\n\tj\w+\t\1\n)", assembly, re.S)]
    short = [body for body in loops if re.search(r"v(?:max|min)p[sd]", body) and "unord" not in body]
    assert len(short) >= 2, "loops over rows that compare each vector for NaN"
