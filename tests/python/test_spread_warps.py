# SPDX-License-Identifier: Apache-2.0
"""More warps than num_warps where the registers of these do not hold a program's tiles: option spread_warps."""
import numpy as np
import pytest
from spine import DEVICES, OnDevice, poisoned

import libtile
import libtile.language as tl


@libtile.jit
def outer(a, b, out, M: tl.constexpr, N: tl.constexpr, ASKS: tl.constexpr = False):
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(4):
        x = tl.load(a + rows[:, None] * 64 + k * 16 + tl.arange(0, 16)[None, :])
        y = tl.load(b + (k * 16 + tl.arange(0, 16))[:, None] * N + cols[None, :])
        acc = tl.dot(x, y, acc)
    acc = acc / (1 + tl.sum(tl.abs(acc), axis=1))[:, None]  # so that all of it is held
    if ASKS:
        acc += tl.extra.cuda.num_warps()
    tl.store(out + rows[:, None] * N + cols[None, :], acc)


def spread(target="sm_90a", m=128, n=256, **options):
    return outer.warmup("*fp16:16", "*fp16:16", "*fp32:16", M=m, N=n, grid=(1,), target=target, **options)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx1100"])
def test_a_program_gets_the_warps_that_hold_its_tiles(target):
    for asked in (1, 2, 4):
        kernel = spread(target, num_warps=asked)
        assert kernel.metadata["num_warps"] == 8
        assert [f"8 warps instead of {asked}, whose registers" in text for text in kernel.fallbacks] == [True]
        assert len(kernel.asm["ptx" if target.startswith("sm") else "asm"]) < 200_000
    for asked in (0, 8, 16):
        kernel = spread(target, num_warps=asked)
        assert kernel.metadata["num_warps"] == (asked or 8) and list(kernel.fallbacks) == []


def test_the_warps_asked_for_are_kept_where_they_are_counted_or_bounded():
    for options in ({"spread_warps": False}, {"maxnreg": 255}, {"launch_cooperative_grid": True}, {"ASKS": True}):
        kernel = spread(num_warps=4, **options)
        assert kernel.metadata["num_warps"] == 4 and not any("warps instead" in text for text in kernel.fallbacks), options
    assert spread(num_warps=4, m=64).metadata["num_warps"] == 4  # they hold it


@libtile.jit
def told(out, num_warps: tl.constexpr, M: tl.constexpr):
    i = tl.arange(0, M)
    row = tl.load(out + i)
    tl.store(out + i, row / tl.sum(row) + num_warps)


def test_a_kernel_that_is_told_its_warps_has_them():
    assert told.warmup("*fp32:16", M=16384, num_warps=1, grid=(1,), target="sm_90a").metadata["num_warps"] == 1


@libtile.jit
def met(x, out, M: tl.constexpr, TEXT: tl.constexpr, PURE: tl.constexpr):
    i = tl.arange(0, M)
    row = tl.load(x + i)
    y = tl.inline_asm_elementwise(TEXT, "=r,r", [row], dtype=tl.int32, is_pure=PURE, pack=1)
    tl.store(out + i, y + row * tl.sum(row))


@pytest.mark.parametrize("text, pure, warps", [("mov.b32 $0, %ntid.x;", True, 4), ("bar.sync 1, 128; mov.b32 $0, $1;", False, 4),
                                               ("shl.b32 $0, $1, 3;", True, 8)])
def test_assembly_that_may_count_threads_has_those_asked_for(text, pure, warps):
    kernel = met.warmup("*i32:16", "*i32:16", M=32768, TEXT=text, PURE=pure, num_warps=4, grid=(1,), target="sm_90a")
    assert kernel.metadata["num_warps"] == warps


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("device", DEVICES)
def test_spread_programs_are_right(device, warps):
    rng, on = np.random.default_rng(warps), OnDevice(device)
    for m, n in ((128, 256), (64, 128), (16, 512)):
        a, b = rng.standard_normal((m, 64)).astype(np.float16), rng.standard_normal((64, n)).astype(np.float16)
        out = on(poisoned((m, n), np.float32))
        outer[(1,)](on(a), on(b), out, M=m, N=n, num_warps=warps)
        a, b = a.astype(np.float64), b.astype(np.float64)
        product, sizes = a @ b, np.abs(a) @ np.abs(b) * 64 * 2.0**-23
        sums = 1 + np.abs(product).sum(axis=1, keepdims=True)
        # Sums of 64 exact products in fp32, each addition rounded to either side; then the sum of a row of n, and a quotient.
        bound = sizes / sums + np.abs(product / sums) * (sizes.sum(axis=1, keepdims=True) / sums + (n + 4) * 2.0**-23)
        assert (np.abs(on.back(out) - product / sums) <= bound).all()
