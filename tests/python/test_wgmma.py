# SPDX-License-Identifier: Apache-2.0
"""Products by wgmma, which reads its operands from shared memory: every layout and tile, against float64; and its code."""
import re
import subprocess

import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned
from test_ptx import PTXAS

import libtile
import libtile.language as tl


@libtile.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    ap = a + m[:, None] * sam + k[None, :] * sak
    bp = b + k[:, None] * sbk + n[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, K, BK):
        x = tl.load(ap, mask=(m[:, None] < M) & (k[None, :] < K - i), other=0.0)
        y = tl.load(bp, mask=(k[:, None] < K - i) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK * sak
        bp += BK * sbk
    tl.store(c + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


# M, N, K of a tile, warps.
TILES = [(64, 64, 16, 4), (64, 96, 32, 4), (128, 128, 64, 4), (128, 256, 64, 8), (256, 64, 128, 8), (192, 64, 48, 4), (64, 128, 64, 8),
         (64, 256, 32, 8)]
SHAPES = [(256, 256, 256), (200, 136, 72), (67, 131, 45), (64, 64, 0)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_products(tile, dtype, turned, device):
    rng = np.random.default_rng(3)
    bm, bn, bk, warps = tile
    for m, n, k in SHAPES:
        a, b = (rng.integers(-5, 6, shape[::-1] if turn else shape).astype(dtype)
                for shape, turn in zip(((m, k), (k, n)), turned))
        x, y = (v.T if turn else v for v, turn in zip((a, b), turned))
        on = OnDevice(device)
        there = [on(v) for v in (a, b, poisoned((m, n), F32))]
        strides = [(1, v.shape[1]) if turn else (v.shape[1], 1) for v, turn in zip((a, b), turned)]
        matmul[(-(-m // bm), -(-n // bn))](*there, m, n, k, *strides[0], *strides[1], BM=bm, BN=bn, BK=bk, num_warps=warps)
        np.testing.assert_array_equal(on.back(there[2]).astype(F64), x.astype(F64) @ y.astype(F64))


def assert_assembles(ptx, folder):
    """Without notes of serialised wgmma, and without spills."""
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    result = subprocess.run([PTXAS, "-arch=sm_90a", "-v", source, "-o", folder / "kernel"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert not re.search(r"C75\d\d", result.stderr), result.stderr
    assert "0 bytes spill stores" in result.stderr


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_code(tile, dtype, turned, tmp_path):
    """Nothing is serialised, nothing spilled, and no other unit has a part."""
    bm, bn, bk, warps = tile
    strides = [(1, "i32:16") if turn else ("i32:16", 1) for turn in turned]
    kernel = matmul.warmup(*[f"*{dtype}:16"] * 2, "*fp32:16", *["i32:16"] * 3, *strides[0], *strides[1], grid=(1,),
                           target="sm_90a", BM=bm, BN=bn, BK=bk, num_warps=warps)
    ptx = kernel.asm["ptx"]
    columns = [int(n) for n in re.findall(rf"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.{dtype.replace('fp', 'f')}", ptx)]
    assert sum(columns) * 64 * 16 * (warps // 4) == bm * bn * bk
    assert "mma.sync" not in ptx and "ldmatrix" not in ptx
    assert_assembles(ptx, tmp_path)


@libtile.jit
def nests(a, b, c, d, flag, seen, N, K, outer, trips, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, KIND: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc, second = tl.zeros((BM, BN), dtype=tl.float32), tl.zeros((BM, BN), dtype=tl.float32)
    total = 0.0
    for _ in range(outer):
        for i in range(trips):
            x = tl.load(a + m[:, None] * K + (i * BK + k)[None, :])
            y = tl.load(b + (i * BK + k)[:, None] * N + n[None, :])
            if KIND == "scaled":
                acc = tl.dot(x, y, -acc)
            else:
                acc = tl.dot(x, y, acc)
            if KIND == "two":
                u = tl.load(a + m[:, None] * K + (i * BK + k)[None, :] + BK)
                v = tl.load(b + (i * BK + k)[:, None] * N + n[None, :] + BN)
                second = tl.dot(u, v, second)
            if KIND == "read":
                if i % 3 == 1:
                    total += tl.sum(acc)
            if KIND == "atomic":
                tl.atomic_add(flag, 1, sem="relaxed")
        if KIND == "outer":
            acc = acc * 0.5
    tl.store(c + m[:, None] * BN + n[None, :], acc)
    tl.store(d + m[:, None] * BN + n[None, :], second)
    tl.store(seen, total)


# Dots that may end one iteration later, of each iteration.
LATER = {"plain": 1, "two": 2, "scaled": 0, "read": 0, "atomic": 1, "outer": 1}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stages", [1, 3, 8])
@pytest.mark.parametrize("kind", LATER)
def test_nests(kind, stages, device):
    """Dots whose result is only handed on end one iteration later; others at once. No trips, one, and many."""
    rng = np.random.default_rng(7)
    for bm, bn, bk, warps in [(64, 64, 32, 4), (128, 64, 64, 8)]:
        for outer, trips in [(0, 2), (1, 0), (1, 1), (1, 2), (2, 3), (3, 7)]:
            a = rng.integers(-2, 3, (bm, max(1, trips) * bk + bk)).astype(F16)
            b = rng.integers(-2, 3, (max(1, trips) * bk, 2 * bn)).astype(F16)
            on = OnDevice(device)
            there = [on(v) for v in (a, b, poisoned((bm, bn), F32), poisoned((bm, bn), F32), np.zeros(1, np.int32), poisoned(1, F32))]
            nests[(1,)](*there, b.shape[1], a.shape[1], outer, trips, BM=bm, BN=bn, BK=bk, KIND=kind, num_warps=warps, num_stages=stages)
            acc, second, total = np.zeros((bm, bn)), np.zeros((bm, bn)), 0.0
            for _ in range(outer):
                for i in range(trips):
                    at, rows = i * bk, b[i * bk:(i + 1) * bk].astype(F64)
                    acc = (-acc if kind == "scaled" else acc) + a[:, at:at + bk].astype(F64) @ rows[:, :bn]
                    second += a[:, at + bk:at + 2 * bk].astype(F64) @ rows[:, bn:] * (kind == "two")
                    total += acc.sum() * (kind == "read" and i % 3 == 1)
                acc = acc * .5 if kind == "outer" else acc
            np.testing.assert_array_equal(on.back(there[2]), acc.astype(F32))
            np.testing.assert_array_equal(on.back(there[3]), second.astype(F32))
            assert on.back(there[4])[0] == outer * trips * (kind == "atomic")
            np.testing.assert_allclose(on.back(there[5])[0], total, rtol=1e-5)


@pytest.mark.parametrize("kind", LATER)
def test_code_of_nests(kind, tmp_path):
    kernel = nests.warmup(*["*fp16:16"] * 2, *["*fp32:16"] * 2, "*i32:16", "*fp32:16", *["i32:16"] * 2, *["i32"] * 2, grid=(1,),
                          target="sm_90a", BM=128, BN=64, BK=64, KIND=kind, num_warps=8, num_stages=6)
    waits = re.findall(r"wgmma\.wait_group\.sync\.aligned (\d)", kernel.asm["ptx"])
    later = LATER[kind]
    assert sorted(waits) == (["0", str(later)] if later else ["0"])
    assert_assembles(kernel.asm["ptx"], tmp_path)
