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
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    result = subprocess.run([PTXAS, "-arch=sm_90a", "-v", source, "-o", tmp_path / "kernel"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert not re.search(r"C75\d\d", result.stderr), result.stderr
    assert "0 bytes spill stores" in result.stderr
