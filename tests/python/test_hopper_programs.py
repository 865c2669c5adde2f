# SPDX-License-Identifier: Apache-2.0
"""Programs that copies ahead, units that end later and split warps could break, against NumPy; and that ptxas takes their code.

Their numbers are small integers, so that every order of additions gives the same bits."""
import re
import subprocess

import numpy as np
import pytest
from spine import DEVICES, F16, F32, OnDevice, poisoned
from test_ptx import PTXAS

import libtile
import libtile.language as tl


@libtile.jit
def unequal(a, b, c, M, K, L, B: tl.constexpr, OUTER: tl.constexpr, INNER: tl.constexpr):
    """Loops of other depths, one in the other, both copying ahead; each may have no trip."""
    r = tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for m in tl.range(0, M, B, num_stages=OUTER):
        w = tl.load(b + (m + r)[:, None] * B + r[None, :])
        acc = tl.dot(w, w, acc)
        for k in tl.range(0, K, B, num_stages=INNER):
            x = tl.load(a + (m + r)[:, None] * L + (k + r)[None, :], ((m + r)[:, None] < M) & ((k + r)[None, :] < K), other=0.0)
            acc = tl.dot(x, w, acc)
    tl.store(c + r[:, None] * B + r[None, :], acc)


@libtile.jit
def stores_what_is_copied(a, out, c, K, B: tl.constexpr, TRIPS: tl.constexpr):
    """Each outer iteration stores to `out`, which is `a` where the caller says so, what the next one's inner loop loads."""
    r = tl.arange(0, B)
    total = tl.zeros((B, B), dtype=tl.float32)
    for i in range(TRIPS):
        acc = tl.zeros((B, B), dtype=tl.float32)
        for k in range(0, K, B):
            x = tl.load(a + r[:, None] * K + (k + r)[None, :], (r[:, None] < B) & ((k + r)[None, :] < K), other=0.0)
            y = tl.load(a + (k + r)[:, None] + r[None, :] * K, ((k + r)[:, None] < K) & (r[None, :] < B), other=0.0)
            acc = tl.dot(x, y, acc)
        total += acc
        tl.store(out + r[:, None] * K + r[None, :], (acc.to(tl.int32) & 3).to(tl.float16))
    tl.store(c + r[:, None] * B + r[None, :], total)


@libtile.jit
def told(flag, x, out, seen, B: tl.constexpr):
    """Program 0 tells the others, by a number, whether they reduce."""
    r = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(out + r, tl.load(x + r))
        tl.atomic_xchg(flag, 2, sem="release")
    else:
        which = tl.atomic_add(flag, 0, sem="acquire")
        while which == 0:
            which = tl.atomic_add(flag, 0, sem="acquire")
        if which == 2:
            v = tl.load(out + r)
            tl.store(seen + tl.program_id(0), tl.sum(v, 0) + tl.max(v, 0))


@libtile.jit
def first_best(v, i, w, j):
    """Ordered: of equals the left one."""
    left = v >= w
    return tl.where(left, v, w), tl.where(left, i, j)


@libtile.jit
def best_of_products(a, b, value, place, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, AXIS: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    product = tl.dot(tl.load(a + m[:, None] * BK + k[None, :]), tl.load(b + k[:, None] * BN + n[None, :]))
    if AXIS == 1:
        index = tl.broadcast_to(n[None, :], (BM, BN))
    else:
        index = tl.broadcast_to(m[:, None], (BM, BN))
    v, i = tl.reduce((product, index), AXIS, first_best)
    if AXIS == 1:
        tl.store(value + m, v)
        tl.store(place + m, i)
    else:
        tl.store(value + n, v)
        tl.store(place + n, i)


@libtile.jit
def dequantised(a, q, scale, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FOUR: tl.constexpr):
    """b is int8, or int4 with rows 2k and 2k + 1 in the low and the high half of a byte."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    s = tl.load(scale + n)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (at + k)[None, :])
        if FOUR:
            packed = tl.load(q + ((at + k) // 2)[:, None] * BN + n[None, :]).to(tl.int32)
            y = ((packed >> ((k % 2) * 4)[:, None]) & 15) - 8
        else:
            y = tl.load(q + (at + k)[:, None] * BN + n[None, :])
        acc = tl.dot(x, y.to(tl.float16) * s[None, :], acc)
    tl.store(c + m[:, None] * BN + n[None, :], acc)


@libtile.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (at + k)[None, :], (m[:, None] < M) & ((at + k)[None, :] < K), other=0.0)
        y = tl.load(b + (at + k)[:, None] * N + n[None, :], ((at + k)[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@libtile.jit
def in_place(p, n, BLOCK: tl.constexpr):
    at = p + tl.arange(0, BLOCK)
    for i in range(0, n, BLOCK):
        tl.store(at, tl.load(at) * 2.0 + 1.0)
        at += BLOCK


def small(rng, *shape, dtype=F16, least=-2, most=3):
    return rng.integers(least, most, shape).astype(dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stages", [(1, 1), (1, 4), (2, 5), (4, 2), (3, 3)])
@pytest.mark.parametrize("boxes", [False, True])
def test_unequal_depths(stages, boxes, device):
    rng, on = np.random.default_rng(1), OnDevice(device)
    a, b = small(rng, 192, 192), small(rng, 192, 64)
    for m, k in ((0, 192), (0, 0), (64, 0), (192, 0), (64, 64), (192, 64), (128, 192), (192, 192)):
        there = [on(a), on(b), on(poisoned((64, 64), F32))]
        unequal[(1,)](*there, m, k, 192, B=64, OUTER=stages[0], INNER=stages[1], copy_boxes=boxes)
        expected = np.zeros((64, 64), F32)
        for row in range(0, m, 64):
            w = b[row:row + 64].astype(F32)
            expected += w @ w
            for at in range(0, k, 64):
                expected += a[row:row + 64, at:at + 64].astype(F32) @ w
        np.testing.assert_array_equal(on.back(there[2]), expected, f"{m} {k}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize("stages", [2, 4])
def test_an_outer_loop_stores_what_the_inner_one_copies(stages, boxes, same, device):
    rng, on = np.random.default_rng(2), OnDevice(device)
    for k in (64, 256):
        a = small(rng, 64, k, least=0)
        x, total = a.astype(F32), np.zeros((64, 64), F32)
        here, c = on(a), on(poisoned((64, 64), F32))
        other = here if same else on(a.copy())
        stores_what_is_copied[(1,)](here, other, c, k, B=64, TRIPS=4, num_stages=stages, copy_boxes=boxes)
        for _ in range(4):
            acc = x @ x.T
            total += acc
            if same:
                x = x.copy()
                x[:, :64] = acc.astype(np.int32) & 3
        np.testing.assert_array_equal(on.back(c), total)


@pytest.mark.parametrize("device", DEVICES)
def test_a_flag_decides_on_a_reduction(device):
    rng, on = np.random.default_rng(3), OnDevice(device)
    x = small(rng, 512, dtype=F32)
    there = [on(np.zeros(1, np.int32)), on(x), on(poisoned(512, F32)), on(np.zeros(8, F32))]
    told[(8,)](*there, B=512)
    np.testing.assert_array_equal(on.back(there[3])[1:], np.full(7, x.sum() + x.max()))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("extents", [(32, 96), (64, 96), (16, 192), (64, 192), (96, 64), (192, 64)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_ordered_reductions_of_products(extents, axis, warps, device):
    rng, on = np.random.default_rng(4), OnDevice(device)
    bm, bn = extents
    a, b = small(rng, bm, 32, least=-1, most=2), small(rng, 32, bn, least=-1, most=2)
    left = bm if axis == 1 else bn
    there = [on(a), on(b), on(poisoned(left, F32)), on(poisoned(left, np.int32))]
    best_of_products[(1,)](*there, BM=bm, BN=bn, BK=32, AXIS=axis, num_warps=warps)
    full = a.astype(F32) @ b.astype(F32)
    np.testing.assert_array_equal(on.back(there[2]), full.max(axis))
    np.testing.assert_array_equal(on.back(there[3]), full.argmax(axis))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("four", [False, True])
@pytest.mark.parametrize("stages", [1, 3])
def test_dequantised(four, stages, device):
    rng, on = np.random.default_rng(5), OnDevice(device)
    for k in (32, 64, 256):
        a, scale = small(rng, 64, k), (2.0 ** rng.integers(-1, 2, 64)).astype(F16)
        y = rng.integers(-8, 8, (k, 64)).astype(np.int8)
        q = ((y[::2] + 8) | (y[1::2] + 8) << 4).astype(np.uint8) if four else y
        there = [on(v) for v in (a, q, scale, poisoned((64, 64), F32))]
        dequantised[(1,)](*there, k, BM=64, BN=64, BK=32, FOUR=four, num_stages=stages)
        np.testing.assert_array_equal(on.back(there[3]), a.astype(F32) @ (y.astype(F32) * scale.astype(F32)))


# Tiles whose K is no power of two, and fewer rows than the warps' units have.
ODD = [(64, 64, 24, 4), (32, 32, 20, 4), (128, 64, 24, 8), (32, 64, 32, 8), (32, 128, 64, 8), (32, 32, 24, 8)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tile", ODD)
@pytest.mark.parametrize("boxes", [False, True])
def test_odd_tiles(tile, boxes, device):
    rng, on = np.random.default_rng(6), OnDevice(device)
    bm, bn, bk, warps = tile
    for m, n, k in ((128, 128, 96), (100, 72, 24), (33, 40, 8), (16, 16, 100)):
        a, b = small(rng, m, k), small(rng, k, n)
        there = [on(a), on(b), on(poisoned((m, n), F32))]
        product[(-(-m // bm), -(-n // bn))](*there, m, n, k, BM=bm, BN=bn, BK=bk, num_warps=warps, copy_boxes=boxes,
                                              narrow_boxes=True)
        np.testing.assert_array_equal(on.back(there[2]), a.astype(F32) @ b.astype(F32), f"{m} {n} {k}")


@pytest.mark.parametrize("device", DEVICES)
def test_in_place(device):
    on, x = OnDevice(device), np.arange(4096, dtype=F32)
    there = on(x.copy())
    in_place[(1,)](there, 4096, BLOCK=512)
    np.testing.assert_array_equal(on.back(there), x * 2 + 1)


H, S, I = "*fp16:16", "*fp32:16", "i32:16"
CODE = {
    "unequal": (unequal, [H, H, S, I, I, I], {"B": 64, "OUTER": 2, "INNER": 4}),
    "stores_what_is_copied": (stores_what_is_copied, [H, H, S, I], {"B": 64, "TRIPS": 4}),
    "told": (told, ["*i32:16", S, S, S], {"B": 512}),
    "best_96": (best_of_products, [H, H, S, "*i32:16"], {"BM": 64, "BN": 96, "BK": 32, "AXIS": 1, "num_warps": 8}),
    "best_192": (best_of_products, [H, H, S, "*i32:16"], {"BM": 64, "BN": 192, "BK": 32, "AXIS": 1, "num_warps": 8}),
    "int8": (dequantised, [H, "*i8:16", H, S, I], {"BM": 64, "BN": 64, "BK": 32, "FOUR": False}),
    "int4": (dequantised, [H, "*u8:16", H, S, I], {"BM": 64, "BN": 64, "BK": 32, "FOUR": True}),
    "in_place": (in_place, [S, I], {"BLOCK": 512}),
    **{"tile_" + "_".join(map(str, tile)): (product, [H, H, S, I, I, I], dict(zip(("BM", "BN", "BK", "num_warps"), tile)))
       for tile in ODD},
}

@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CODE)
def test_code(name, target, boxes, tmp_path):
    kernel, types, constants = CODE[name]
    compiled = kernel.warmup(*types, grid=(1,), target=target, copy_boxes=boxes, narrow_boxes=True, **constants)
    ptx = compiled.asm["ptx"]
    if not boxes or target == "sm_80":
        assert "cp.async.bulk.tensor" not in ptx
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    result = subprocess.run([PTXAS, f"-arch={target}", "-v", source, "-o", tmp_path / "kernel"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    spilled = sum(int(count) for count in re.findall(r"(\d+) bytes spill", result.stderr))
    assert spilled == 0
    if name.startswith("tile_") and target == "sm_90a":
        assert ("cp.async.bulk.tensor" in ptx) == boxes
    if name == "stores_what_is_copied" and target == "sm_90a" and boxes:
        assert "cp.async.bulk.tensor" in ptx and "a and out do not overlap" in compiled.guards


@libtile.jit
def doubles_as_it_goes(p, start, trips, B: tl.constexpr, STEP: tl.constexpr):
    """In place, by a pointer that moves on: where STEP is below B, each iteration finds what the one before has written."""
    p += start
    for i in range(trips):
        p += STEP
        tl.store(p + tl.arange(0, B), tl.flip(tl.load(p + tl.arange(0, B))) * 2)


@libtile.jit
def adds_as_it_goes(p, start, trips, B: tl.constexpr, STEP: tl.constexpr):
    q = p + start + tl.arange(0, B)
    for i in range(trips):
        tl.store(q, tl.load(q) + 1)
        q += STEP


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("step", [256, 300, 128, 1, -256, -100])
def test_pointers_that_move_on(step, device):
    rng = np.random.default_rng(9)
    block, trips = 256, 7
    for kernel in (doubles_as_it_goes, adds_as_it_goes):
        x = rng.integers(-9, 10, 8192).astype(F32)
        want, at = x.copy(), 4096
        for _ in range(trips):
            at += step if kernel is doubles_as_it_goes else 0
            part = want[at:at + block]
            want[at:at + block] = part[::-1] * 2 if kernel is doubles_as_it_goes else part + 1
            at += 0 if kernel is doubles_as_it_goes else step
        on = OnDevice(device)
        there = on(x)
        kernel[(1,)](there, 4096, trips, B=block, STEP=step, num_warps=4)
        np.testing.assert_array_equal(on.back(there), want)


@pytest.mark.parametrize("step, barriers", [(256, 0), (300, 0), (-256, 0), (255, 1), (1, 1), (-100, 1)])
def test_no_barrier_where_a_pointer_moves_on(step, barriers):
    kernel = adds_as_it_goes.warmup("*fp32:16", "i32", "i32", B=256, STEP=step, num_warps=4, grid=(1,), target="sm_90a")
    assert kernel.asm["staged"].count("barrier\n") == barriers
