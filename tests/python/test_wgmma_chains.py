# SPDX-License-Identifier: Apache-2.0
"""Dots of dots by wgmma: what sums give from registers, tiles read transposed where they lie; attention among them."""
import importlib
import re

import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned
from spine import matmul as _lessons  # noqa: F401  it finds the lessons
from test_ptx import assemble

import libtile
import libtile.language as tl

lesson = importlib.import_module("06_attention")
attention, attention_backward = lesson.attention, lesson.attention_backward


@libtile.jit
def chain(q, k, v, out, n, group, D: tl.constexpr, E: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
          TURNED: tl.constexpr):
    # out = (q k^T) v, head by head; k is [D, n] where TURNED, and `group` heads of q share one of k and v.
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    shared = head // group * n
    d, e = tl.arange(0, D), tl.arange(0, E)
    x = tl.load(q + (head * n + rows[:, None]) * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    acc = tl.zeros([BM, E], tl.float32)
    for start in range(0, n, BN):
        cols = start + tl.arange(0, BN)
        if TURNED:
            y = tl.load(k + shared * D + d[:, None] * n + cols[None, :], mask=cols[None, :] < n, other=0.0)
        else:
            y = tl.load(k + (shared + cols[:, None]) * D + d[None, :], mask=cols[:, None] < n, other=0.0).T
        z = tl.load(v + (shared + cols[:, None]) * E + e[None, :], mask=cols[:, None] < n, other=0.0)
        acc = tl.dot(tl.dot(x, y).to(x.dtype), z, acc * 1.0)
    tl.store(out + (head * n + rows[:, None]) * E + e[None, :], acc, mask=rows[:, None] < n)


# D, E, rows and columns of a block, warps.
CHAINS = [(16, 64, 64, 64, 4), (64, 64, 128, 64, 4), (128, 256, 128, 16, 8), (256, 128, 64, 128, 4), (32, 128, 128, 128, 8),
          (64, 32, 128, 64, 4), (128, 128, 64, 64, 8)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("tile", CHAINS)
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_chains(tile, dtype, turned, device):
    rng = np.random.default_rng(5)
    d, e, bm, bn, warps = tile
    for heads, group, n in ((1, 1, 256), (4, 2, 200), (2, 1, 67)):
        # So small that the sums of the first dot are exact in the narrow type.
        q = rng.integers(-1, 2, (heads, n, d)).astype(dtype)
        k = (rng.integers(-1, 2, (heads // group, n, d)) * (rng.random((1, 1, d)) < 0.5)).astype(dtype)
        v = rng.integers(-4, 5, (heads // group, n, e)).astype(dtype)
        keys = np.ascontiguousarray(k.swapaxes(1, 2)) if turned else k
        on = OnDevice(device)
        there = [on(array) for array in (q, keys, v, poisoned((heads, n, e), F32))]
        chain[(-(-n // bm), heads)](*there, n, group, D=d, E=e, BM=bm, BN=bn, TURNED=turned, num_warps=warps)
        k, v = (np.repeat(array.astype(F64), group, axis=0) for array in (k, v))
        np.testing.assert_array_equal(on.back(there[3]).astype(F64), q.astype(F64) @ k.swapaxes(1, 2) @ v)


# D, rows and columns of a block, warps.
TILES = [(16, 64, 64, 4), (64, 128, 64, 4), (64, 128, 128, 4), (64, 64, 128, 4), (128, 128, 64, 8), (128, 128, 128, 8),
         (128, 64, 64, 4), (256, 128, 64, 8)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_attention(tile, dtype, causal, device):
    rng = np.random.default_rng(6)
    d, bm, bn, warps = tile
    for n in (256, 333, 1):
        q, k, v = (rng.standard_normal((2, n, d)).astype(dtype) for _ in range(3))
        on = OnDevice(device)
        there = [on(array) for array in (q, k, v, poisoned((2, n, d), dtype), poisoned((2, n), F32))]
        attention[(-(-n // bm), 2)](*there, n, d**-0.5, D=d, BLOCK_M=bm, BLOCK_N=bn, CAUSAL=causal, num_warps=warps)
        scores = q.astype(F64) @ k.astype(F64).swapaxes(1, 2) * d**-0.5
        scores = np.where(np.tri(n, dtype=bool) | (not causal), scores, -np.inf)
        p = np.exp(scores - scores.max(axis=2, keepdims=True))
        total = p.sum(axis=2, keepdims=True)
        want, size = p / total @ v.astype(F64), p / total @ np.abs(v.astype(F64))
        got = on.back(there[3]).astype(F64)
        # The exponentials are rounded once, and the result.
        step = 2.0**-11 if dtype == F16 else 2.0**-8
        assert np.all(np.abs(got - want) <= step * (1.5 * size + np.abs(want)) + 1e-6)
        np.testing.assert_allclose(on.back(there[4]), (np.log2(total) + scores.max(axis=2, keepdims=True) / np.log(2))[..., 0],
                                   rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tile", [tile for tile in TILES if tile[0] >= 64])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_code(tile, dtype, causal, tmp_path):
    """All by wgmma, queries written once, no operand in registers that is not made there; nothing spilled."""
    d, bm, bn, warps = tile
    compiled = attention.warmup(*[f"*{dtype}:16"] * 4, "*fp32:16", "i32:16", "fp32", grid=(1,), target="sm_90a", D=d,
                                BLOCK_M=bm, BLOCK_N=bn, CAUSAL=causal, num_warps=warps, num_stages=2)
    ptx = compiled.asm["ptx"]
    columns = [int(n) for n in re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16", ptx)]
    # A dot that runs one iteration late stands behind the loop as well, and the first iteration's before it.
    times = 2 if "dot_wait {count=1}" in compiled.asm["staged"] else 1
    assert times == (2 if warps == 8 else 1)
    assert sum(columns) * 64 * 16 * (warps // 4) == 2 * bm * bn * d * times
    assert "mma.sync" not in ptx and "ldmatrix" not in ptx
    assert assemble(ptx, "sm_90a", tmp_path) == 0


# D, rows and columns of a block, warps: one group of warps, two along the rows, two along the columns of some dots.
BACKWARD = [(64, 64, 64, 4), (64, 128, 64, 4), (64, 128, 128, 8), (128, 64, 128, 8), (128, 128, 64, 8), (64, 64, 128, 8)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tile", BACKWARD)
def test_backward(tile, causal, device):
    rng = np.random.default_rng(7)
    d, bm, bn, warps = tile
    for n in (128, 201):
        inputs = [rng.standard_normal((2, n, d)).astype(F16) for _ in range(4)]
        out, *wants = lesson.reference(*inputs, causal)
        q, k, v, dout = (array.astype(F64) for array in inputs)
        scores = np.where(np.tri(n, dtype=bool) | (not causal), q @ k.swapaxes(1, 2) * d**-0.5, -np.inf)
        lse = np.log2(np.exp(scores).sum(axis=2)).astype(F32)
        delta = (out * dout).sum(axis=2).astype(F32)
        on = OnDevice(device)
        there = [on(a) for a in (*inputs, lse, delta, np.zeros((2, n, d), F32), *(poisoned((2, n, d), F16) for _ in "kv"))]
        attention_backward[(-(-n // bn), 2)](*there, n, d**-0.5, D=d, BLOCK_M=bm, BLOCK_N=bn, CAUSAL=causal, num_warps=warps)
        for got, want in zip(there[6:], wants):
            # P and dS are rounded to fp16, and the result.
            np.testing.assert_allclose(on.back(got).astype(F64), want, rtol=6e-3, atol=6e-3 * max(np.abs(want).max(), 1))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tile", BACKWARD[:5])
def test_code_backward(tile, causal, tmp_path):
    """Five dots by wgmma. Scores and dP are computed transposed where all warps stand along their rows then, so that P and dS
    come to dV and dK from registers, and dS is written, to be read transposed for dQ. Else P and dS are written, to be read
    transposed for dV and dK, and dS comes to dQ from registers."""
    d, bm, bn, warps = tile
    compiled = attention_backward.warmup(*["*fp16:16"] * 4, *["*fp32:16"] * 3, *["*fp16:16"] * 2, "i32:16", "fp32", grid=(1,),
                                         target="sm_90a", D=d, BLOCK_M=bm, BLOCK_N=bn, CAUSAL=causal, num_warps=warps,
                                         num_stages=2)
    ptx = compiled.asm["ptx"]
    columns = [int(n) for n in re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16", ptx)]
    assert sum(columns) * 64 * 16 * (warps // 4) == 5 * bm * bn * d
    assert "mma.sync" not in ptx and "ldmatrix" not in ptx
    assert assemble(ptx, "sm_90a", tmp_path) == 0
    is_turned = bn >= 16 * warps
    loop = re.search(r"\n  %[^\n]* = for .*?\n    yield ", compiled.asm["staged"], re.S)[0]  # not a producer's
    dots = re.findall(r'dot .*unit="wgmma_m64k16_f16(_regs)?".* : (?:tile|place)<(\d+)x(\d+)xf32', loop)
    # Which of them start early is another matter (overlap_dots).
    scores, sums, queries = (bn, bm) if is_turned else (bm, bn), (bn, d), (bm, d)
    wanted = [("", scores)] * 2 + [("_regs" if is_turned else "", sums)] * 2 + [("" if is_turned else "_regs", queries)]
    assert sorted((regs, (int(m), int(n))) for regs, m, n in dots) == sorted(wanted)
    written = [re.search(f"{name} = .*tile<(.*?),", loop)[1] for name in re.findall(r"buffer_write %\d+, (%\d+)", loop)]
    assert [type_ for type_ in written if "f16" in type_] == [f"{scores[0]}x{scores[1]}xf16"] * (1 if is_turned else 2)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("tile", [(64, 128, 128, 8), (64, 64, 256, 8), (128, 64, 128, 8)])
def test_backward_has_room(tile, stages):
    """Whatever overlaps, it takes no more shared memory than there is: stages give way, or nothing overlaps."""
    d, bm, bn, warps = tile
    compiled = attention_backward.warmup(*["*fp16:16"] * 4, *["*fp32:16"] * 3, *["*fp16:16"] * 2, "i32:16", "fp32", grid=(1,),
                                         target="sm_90a", D=d, BLOCK_M=bm, BLOCK_N=bn, CAUSAL=False, num_warps=warps,
                                         num_stages=stages)
    assert int(re.search(r" arena=(\d+)", compiled.asm["staged"])[1]) <= 227 * 1024
