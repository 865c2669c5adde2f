# SPDX-License-Identifier: Apache-2.0
"""Sums of dots that a kernel stores as boxes which the machine stores by itself (store_boxes): their code, and numbers against NumPy.

The numbers are small integers, so that products are exact in each type."""
import re

import ml_dtypes
import numpy as np
import pytest
from spine import DEVICES, F16, F32, OnDevice
from test_ptx import PTXAS, assemble

import libtile
import libtile.language as tl

TYPES = {"fp16": F16, "bf16": ml_dtypes.bfloat16, "fp32": F32, "i32": np.int32, "i8": np.int8, "i16": np.int16}


@libtile.jit
def stores(a, b, out, more, M, N, K, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WHICH: tl.constexpr):
    """out = a b by blocks, of M x N elements in rows of `stride`."""
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        deep = start + k
        x = tl.load(a + rows[:, None] * K + deep[None, :], mask=(rows[:, None] < M) & (deep[None, :] < K), other=0.0)
        y = tl.load(b + deep[:, None] * N + cols[None, :], mask=(deep[:, None] < K) & (cols[None, :] < N), other=0.0)
        total = tl.dot(x, y, total)
    to = out + rows[:, None] * stride + cols[None, :]
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    made = total.to(out.dtype.element_ty)
    if WHICH == "turned":
        tl.store(out + cols[None, :] * stride + rows[:, None], made, mask=inside)
    elif WHICH == "both":
        tl.store(to, made, mask=inside)
        tl.store(more + rows[:, None] * N + cols[None, :], total + 1, mask=inside)
    elif WHICH == "maximum":
        tl.store(to, tl.maximum(total, 0.0).to(out.dtype.element_ty), mask=inside)
        tl.store(more + rows, tl.max(total, 1), mask=rows < M)
    elif WHICH == "part":
        tl.store(to, made, mask=inside & (cols[None, :] % 3 != 0))
    elif WHICH == "reads":
        tl.store(to, (tl.load(to, mask=inside, other=0.0) + total).to(out.dtype.element_ty), mask=inside)
    elif WHICH == "twice":
        tl.store(to, made, mask=inside)
        tl.store(to, (total + 1).to(out.dtype.element_ty), mask=inside)
    elif WHICH == "streams":
        tl.store(to, made, mask=inside, cache_modifier=".cs")
    elif WHICH == "branch":
        if M != N:
            tl.store(to, made, mask=inside)
    elif WHICH == "flag":
        tl.store(to, made, mask=inside)
        tl.atomic_add(more, 1.0, sem="release")
    elif WHICH == "below":
        tl.store(to - 16, made, mask=inside & (cols[None, :] >= 16))
    else:
        tl.store(to, made, mask=inside)


def compiled(which="", target="sm_90a", kind="fp16", rows="i32", columns="i32:16", **options):
    options = {"num_warps": 8, "store_boxes": True, **options}
    return stores.warmup(*["*fp16:16"] * 2, f"*{kind}:16", "*fp32:16", rows, columns, "i32:16", columns, grid=(1,), target=target, BM=128,
                         BN=128, BK=64, WHICH=which, **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("which", ["", "turned", "both", "maximum", "below", "twice", "reads"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("tile", [(64, 64, 64, 4), (128, 128, 64, 8), (128, 32, 64, 4)])
def test_stores(device, tile, everywhere, kind, which):
    bm, bn, bk, warps = tile
    rng = np.random.default_rng(1)
    for m, n, k in ((1, 16, 16), (200, 144, 80), (128, 128, 0), (130, 40, 64)):
        a, b = (rng.integers(-1, 2, shape).astype(F16) for shape in ((m, max(k, 1)), (max(k, 1), n)))
        wide = max(m, n) + 16
        wide += -wide % 16
        out = rng.integers(-9, 10, (max(m, n) + 1, wide)).astype(TYPES[kind])
        more = rng.integers(-9, 10, (m, n)).astype(F32)
        want, product = out.copy(), a[:, :k].astype(F32) @ b[:k].astype(F32)
        if which == "turned":
            want[:n, :m] = product.T.astype(TYPES[kind])
        elif which == "below":
            want[:m, :n - 16] = product[:, 16:].astype(TYPES[kind])
        elif which == "reads":
            want[:m, :n] = (product + out[:m, :n].astype(F32)).astype(TYPES[kind])
        else:
            want[:m, :n] = (np.maximum(product, 0) if which == "maximum" else product + (which == "twice")).astype(TYPES[kind])
        on = OnDevice(device)
        there = [on(array) for array in (a, b, out, more)]
        stores[(-(-m // bm), -(-n // bn))](*there, m, n, k, wide, BM=bm, BN=bn, BK=bk, WHICH=which, num_warps=warps, store_boxes=everywhere)
        np.testing.assert_array_equal(on.back(there[2]), want)
        if which == "both":
            np.testing.assert_array_equal(on.back(there[3]), product + 1)
        if which == "maximum" and n <= bn:  # columns behind the last one are 0
            np.testing.assert_array_equal(on.back(there[3]).ravel()[:m], np.pad(product, ((0, 0), (0, bn - n))).max(1))


@pytest.mark.parametrize("kind", TYPES)
def test_the_machine_stores(kind, tmp_path):
    assert PTXAS is not None, "no ptxas: ./dev installs nvidia-cuda-nvcc"
    code = compiled(kind=kind)
    assert list(code.fallbacks) == []
    ptx = code.asm["ptx"]
    row = 128 // np.dtype(TYPES[kind]).itemsize
    assert ptx.count("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group") == 128 // row and "st.global" not in ptx
    assert ptx.count("cp.async.bulk.wait_group.read 0") == 1
    assert assemble(ptx, "sm_90a", tmp_path) == 0
    staged = code.asm["staged"]
    parts = [re.search(text, staged).start() for text in (r"buffer_write %\d+, %\d+\n(?!.*buffer_write)", "store_box", "store_wait")]
    assert parts == sorted(parts) and "barrier\n" in staged[parts[0]:parts[1]]


def test_two_arrays():
    ptx = compiled("both").asm["ptx"]
    assert ptx.count("d.global.shared::cta.tile.bulk_group") == 2 + 4 and "st.global" not in ptx


@pytest.mark.parametrize("which", ["part", "reads", "twice", "streams", "branch", "flag", "turned"])
def test_what_is_not_proved_stays(which):
    ptx = compiled(which).asm["ptx"]
    assert ".global.shared::cta" not in ptx and "st.global" in ptx


@pytest.mark.parametrize("kind", ["fp16", "fp32", "i8"])
def test_who_stores(kind):
    """Threads do where those of a warp make rows among themselves, without a barrier; the machine where they would meet."""
    for which, boxed in (("", False), ("turned", True)):
        ptx = compiled(which, kind=kind, rows="i32:16", store_boxes=False).asm["ptx"]
        assert (".global.shared::cta" in ptx) == boxed and ("st.global" in ptx) != boxed


def test_a_row_ends_with_a_unit():
    """The machine stores up to the end of the 16 bytes that a row's bound lies in: the bound has to be a multiple."""
    assert ".global.shared::cta" in compiled().asm["ptx"] and ".global.shared::cta" not in compiled(columns="i32").asm["ptx"]


def test_what_the_target_or_an_option_has_not_stays():
    for target, options in (("sm_80", {}), ("sm_90", {}), ("sm_90a", {"copy_boxes": False})):
        ptx = compiled(target=target, **options).asm["ptx"]
        assert ".global.shared::cta" not in ptx and "st.global" in ptx


@libtile.jit
def goes_on(a, b, out, more, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TURNED: tl.constexpr, WHAT: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, 4 * BK, BK):
        x = tl.load(a + i[:, None] * 4 * BK + (start + k)[None, :])
        total = tl.dot(x, tl.load(b + (start + k)[:, None] * BN + j[None, :]), total)
    tl.store(out + (j[None, :] * BM + i[:, None] if TURNED else i[:, None] * BN + j[None, :]), total)
    if WHAT == "scan":
        total = tl.cumsum(total, 0)
    elif WHAT == "sort":
        total = tl.sort(total, 1)
    elif WHAT == "flip":
        total = tl.flip(total, 1)
    elif WHAT == "gather":
        total = tl.gather(total, (i[:, None] * 7 + j[None, :]) % BN, 1)
    elif WHAT == "dot":
        total = tl.dot(total.to(tl.float16), (j[:, None] == j[None, :]).to(tl.float16))
    tl.store(more + i[:, None] * BN + j[None, :], total)


@pytest.mark.parametrize("what", ("scan", "sort", "flip", "gather", "dot"))
@pytest.mark.parametrize("tile", ((128, 256, 64, 8), (64, 256, 64, 4)))
def test_what_comes_behind_has_the_box_s_room(tile, what):
    """A box takes no room from what the kernel does next: that waits until it has been read."""
    *tile, warps = tile
    found = []
    for turned in (True, False):
        shapes = dict(zip(("BM", "BN", "BK"), tile), TURNED=turned, WHAT=what, num_warps=warps)
        made = goes_on.warmup("*fp16:16", "*fp16:16", "*fp32:16", "*fp32:16", target="sm_90a", grid=(1,), **shapes)
        found.append((made.asm["staged"].count("store_box"), int(re.search(r"arena=(\d+)", made.asm["staged"])[1])))
    (boxes, with_box), (others, without) = found
    assert boxes == others + 1 and with_box <= without
