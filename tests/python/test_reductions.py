# SPDX-License-Identifier: Apache-2.0
"""Sums of dots that loops add to arrays, as boxes that the machine adds (reduce_boxes): their code, and numbers against NumPy.

The numbers are small integers, so that every order of additions gives the same bits."""
import importlib
import re

import numpy as np
import pytest
from spine import DEVICES, F16, F32, OnDevice
from spine import matmul  # noqa: F401  it finds the lessons
from test_ptx import PTXAS, assemble

import libtile
import libtile.language as tl

attention = importlib.import_module("06_attention")


@libtile.jit
def adds_products(a, b, out, seen, M, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WHICH: tl.constexpr):
    """out += a b, by blocks of rows; a has M rows for each program of the second axis."""
    n, k = tl.arange(0, BN), tl.arange(0, BK)
    y = tl.load(b + k[:, None] * BN + n[None, :])
    first = tl.program_id(1) * M
    for start in range(0, M, BM):
        rows = start + tl.arange(0, BM)
        inside = rows[:, None] < M
        x = tl.load(a + (first + rows[:, None]) * BK + k[None, :], mask=inside, other=0.0)
        product = tl.dot(x, y)
        to = out + (first + rows[:, None]) * BN + n[None, :]
        if WHICH == "old":
            old = tl.atomic_add(to, product, mask=inside, sem="relaxed")
            tl.store(seen + (first + rows[:, None]) * BN + n[None, :], old, mask=inside)
        elif WHICH == "release":
            tl.atomic_add(to, product, mask=inside, sem="release")
        elif WHICH == "sys":
            tl.atomic_add(to, product, mask=inside, sem="relaxed", scope="sys")
        elif WHICH == "max":
            tl.atomic_max(to, product, mask=inside, sem="relaxed")
        elif WHICH == "branch":
            if start != M:
                tl.atomic_add(to, product, mask=inside, sem="relaxed")
        elif WHICH == "reads":
            tl.atomic_add(to, product + tl.load(to, mask=inside), mask=inside, sem="relaxed")
        elif WHICH == "part":
            tl.atomic_add(to, product, mask=inside & (n[None, :] % 3 != 0), sem="relaxed")
        elif WHICH == "columns":
            tl.atomic_add(to, product, mask=inside & (n[None, :] < M), sem="relaxed")
        else:
            tl.atomic_add(to, product, mask=inside, sem="relaxed")


def compiled(which, target="sm_90a", rows="i32", **options):
    options = {"num_warps": 4, **options}
    return adds_products.warmup(*["*fp16:16"] * 2, *["*fp32:16"] * 2, rows, grid=(1,), target=target, BM=64, BN=64, BK=64, WHICH=which, **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("which", ["", "columns"])
@pytest.mark.parametrize("tile", [(64, 64, 64, 4), (64, 128, 64, 8), (128, 32, 64, 4), (64, 64, 128, 8)])
def test_adds(device, tile, which):
    bm, bn, bk, warps = tile
    rng = np.random.default_rng(1)
    for m in (1, 16, 18, 63, 64, 200, 512):
        a, b = (rng.integers(-4, 5, shape).astype(F16) for shape in ((3 * m, bk), (bk, bn)))
        out = rng.integers(-9, 10, (3 * m, bn)).astype(F32)
        want = out + 2 * (a.astype(F32) @ b.astype(F32))
        if which == "columns":
            want[:, m:] = out[:, m:]
        on = OnDevice(device)
        there = [on(array) for array in (a, b, out, np.zeros(1, F32))]
        for _ in range(2):
            adds_products[(1, 3)](*there, m, BM=bm, BN=bn, BK=bk, WHICH=which, num_warps=warps)
        np.testing.assert_array_equal(on.back(there[2]), want)


def test_the_machine_adds(tmp_path):
    assert PTXAS is not None, "no ptxas: ./dev installs nvidia-cuda-nvcc"
    code = compiled("")
    ptx = code.asm["ptx"]
    assert "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group" in ptx and "red.relaxed" not in ptx
    assert ptx.count("cp.async.bulk.wait_group.read 0") == 2
    assert assemble(ptx, "sm_90a", tmp_path) == 0
    # Between what threads write and the reduction they meet, and between the wait and that.
    loop = re.search(r"\n  %[^\n]* = for .*?\n    yield ", code.asm["staged"], re.S)[0]
    parts = [re.search(text, loop).start() for text in ("store_wait", r"buffer_write %\d+, %\d+\n(?!.*buffer_write)", "store_box")]
    assert parts == sorted(parts) and "barrier\n" in loop[parts[0]:parts[1]] and "barrier\n" in loop[parts[1]:parts[2]]


@pytest.mark.parametrize("which", ["old", "release", "sys", "max", "branch", "reads", "part", "columns"])
def test_what_is_not_proved_stays(which):
    assert "cp.reduce" not in compiled(which).asm["ptx"]


def test_a_row_ends_with_a_unit():
    """The machine adds up to the end of the 16 bytes that a row's bound lies in: the bound has to be a multiple."""
    assert "cp.reduce" in compiled("columns", rows="i32:16").asm["ptx"]


def test_what_the_target_or_an_option_has_not_stays():
    for target, options in (("sm_80", {}), ("sm_90", {}), ("sm_90a", {"copy_boxes": False})):
        ptx = compiled("", target, **options).asm["ptx"]
        assert "cp.reduce" not in ptx and "red.relaxed" in ptx


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("config", [(128, 128, 8), (64, 64, 4)])
def test_attention_backward(config, causal, tmp_path):
    d, block, warps = config
    code = attention.attention_backward.warmup(
        *["*fp16:16"] * 4, *["*fp32:16"] * 3, *["*fp16:16"] * 2, "i32:16", "fp32", grid=(1,), target="sm_90a", D=d, BLOCK_M=64, BLOCK_N=block,
        CAUSAL=causal, num_warps=warps)
    assert list(code.fallbacks) == []
    ptx = code.asm["ptx"]
    assert ptx.count("cp.reduce.async.bulk.tensor.3d") == d // 32 and "red.relaxed" not in ptx
    assert assemble(ptx, "sm_90a", tmp_path) == 0
    # No more than the dots need, behind dS, and one behind what is added; where no producer copies one more frees a slot.
    loop = next(text for text in re.findall(r"\n  %[^\n]* = for .*?\n    yield ", code.asm["staged"], re.S) if "store_box" in text)
    assert loop.count("barrier\n") == (2 if "producer" in code.asm["staged"] else 3)
