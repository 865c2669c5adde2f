# SPDX-License-Identifier: Apache-2.0
"""Products of operands whose rows lie side by side, of types that Hopper's unit reads along k alone: what is made of the sums that
are computed transposed, and of those that are not. Against float64."""
import ml_dtypes
import numpy as np
import pytest
from spine import DEVICES, F32, F64, OnDevice, poisoned
from test_wgmma import assert_assembles

import libtile
import libtile.language as tl

KINDS = ["plain", "bias", "starts", "rows", "two", "outer", "looked", "scaled", "transposed"]
TURNED = [kind for kind in KINDS if kind not in ("looked", "scaled")]


@libtile.jit
def product(a, b, bias, c, top, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, KIND: tl.constexpr, ACC: tl.constexpr):
    rows, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BK)
    for j in range(tl.program_id(1), tl.cdiv(N, BN), 1 if KIND == "outer" else 1 << 20):
        cols = j * BN + tl.arange(0, BN)
        adds = tl.load(bias + cols, mask=cols < N, other=0)
        acc = tl.zeros((BM, BN), dtype=ACC)
        if KIND == "starts":
            acc += adds[None, :]
        for i in range(0, K, BK):
            x = tl.load(a + rows[:, None] * K + (i + k)[None, :], mask=(rows[:, None] < M) & ((i + k)[None, :] < K), other=0)
            y = tl.load(b + (i + k)[:, None] * N + cols[None, :], mask=((i + k)[:, None] < K) & (cols[None, :] < N), other=0)
            if KIND == "scaled":
                acc = -acc
            acc = tl.dot(x, y, acc, input_precision="tf32")
            if KIND == "two":
                acc = tl.dot(x, y, acc, input_precision="tf32")
            if KIND == "looked":
                if i == BK:
                    tl.store(top + rows, tl.max(acc, axis=1), mask=rows < M)
        if KIND == "bias":
            acc = tl.maximum(acc + adds[None, :], 0) + rows[:, None].to(ACC)
        if KIND == "rows":
            tl.store(top + rows, tl.max(acc, axis=1), mask=rows < M)
        if KIND == "transposed":
            tl.store(c + cols[:, None] * M + rows[None, :], acc.T, (rows[None, :] < M) & (cols[:, None] < N))
        else:
            tl.store(c + rows[:, None] * N + cols[None, :], acc, (rows[:, None] < M) & (cols[None, :] < N))


def expected(kind, a, b, bias, bk, bn):
    """c, and the rows' largest numbers where the kernel stores these."""
    part = a @ b
    rows = np.arange(len(a))[:, None]
    if kind == "scaled":
        part = sum((-1.0)**(len(range(i, a.shape[1], bk)) - 1) * (a[:, i:i + bk] @ b[i:i + bk]) for i in range(0, a.shape[1], bk))
    c = {"bias": lambda: np.maximum(part + bias, 0) + rows, "starts": lambda: part + bias, "two": lambda: 2 * part}.get(kind, lambda: part)()
    seen = a[:, :2 * bk] @ b[:2 * bk] if kind == "looked" else part
    # Columns of the tile past the edge are 0.
    top = np.pad(seen, ((0, 0), (0, -b.shape[1] % bn))).max(axis=1) if kind in ("looked", "rows") else None
    return c.T if kind == "transposed" else c, top


DTYPES = {"tf32": F32, "int8": np.int8, "e4m3": np.dtype(ml_dtypes.float8_e4m3fn)}
# M, N, K of a tile, warps.
TILES = [(64, 64, 32, 4), (128, 128, 32, 8), (128, 256, 64, 8), (256, 64, 64, 8), (64, 128, 128, 4)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype, tile, kind, device):
    """Small integers: all sums are exact."""
    rng = np.random.default_rng(17)
    bm, bn, bk, warps = tile
    is_int = dtype == "int8"
    for m, n, k in [(256, 256, 256), (208, 144, 160), (67, 131, 45)]:
        if kind in ("rows", "looked"):
            n = min(n, bn)  # one program has whole rows
        a, b = (rng.integers(-4, 5, shape).astype(DTYPES[dtype]) for shape in ((m, k), (k, n)))
        sums = np.int32 if is_int else F32
        bias = rng.integers(-9, 10, n).astype(sums)
        on = OnDevice(device)
        out = np.full((n, m) if kind == "transposed" else (m, n), 77, sums)
        there = [on(v) for v in (a, b, bias, out, np.full(m, 77, sums))]
        grid = (-(-m // bm), 1 if kind == "outer" else -(-n // bn))
        for stages in (1, 3) if m == 256 else (3,):
            product[grid](*there, m, n, k, BM=bm, BN=bn, BK=bk, KIND=kind, ACC=tl.int32 if is_int else tl.float32, num_warps=warps,
                          num_stages=stages)
            want, top = expected(kind, a.astype(F64), b.astype(F64), bias.astype(F64), bk, bn)
            np.testing.assert_array_equal(on.back(there[3]).astype(F64), want)
            if top is not None and k > bk:
                np.testing.assert_array_equal(on.back(there[4]).astype(F64), top)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tile", TILES)
def test_random_numbers(tile, device):
    """Of tf32 ten bits of each operand count."""
    rng = np.random.default_rng(19)
    bm, bn, bk, warps = tile
    for m, n, k in [(256, 512, 512), (100, 200, 300)]:
        a, b = rng.standard_normal((m, k)).astype(F32), rng.standard_normal((k, n)).astype(F32)
        on = OnDevice(device)
        there = [on(v) for v in (a, b, np.zeros(n, F32), poisoned((m, n), F32), np.zeros(m, F32))]
        product[(-(-m // bm), -(-n // bn))](*there, m, n, k, BM=bm, BN=bn, BK=bk, KIND="plain", ACC=tl.float32, num_warps=warps)
        scale = np.abs(a.astype(F64)) @ np.abs(b.astype(F64))
        wrong = np.abs(on.back(there[3]).astype(F64) - a.astype(F64) @ b.astype(F64))
        assert np.all(wrong <= (2.0**-9 + 4 * (k + 4) * 2.0**-24) * scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["fp32", "i8", "fp8e4nv"])
def test_code(dtype, kind, tmp_path):
    """Sums that a loop only adds to are turned; others are multiplied by units that take any order."""
    sums = "i32" if dtype == "i8" else "fp32"
    kernel = product.warmup(*[f"*{dtype}:16"] * 2, *[f"*{sums}:16"] * 3, *["i32:16"] * 3, grid=(1,), target="sm_90a", BM=128, BN=128, BK=64,
                            KIND=kind, ACC=tl.int32 if dtype == "i8" else tl.float32, num_warps=8)
    assert ("_regs" in kernel.asm["staged"], "mma.sync" in kernel.asm["ptx"]) == (kind in TURNED, kind not in TURNED)
    if kind in TURNED:
        assert_assembles(kernel.asm["ptx"], tmp_path)
