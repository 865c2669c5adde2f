# SPDX-License-Identifier: Apache-2.0
"""Products whose operands are copied ahead as boxes of arrays (option copy_boxes: TMA), against float64; and their code."""
import re
import subprocess

import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned
from test_ptx import PTXAS, assemble

import libtile
import libtile.language as tl


@libtile.jit
def by_pointers(a, b, c, M, N, K, sam, sak, sbk, sbn, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                ACC: tl.constexpr = tl.float32):
    """A product for each batch, along the third axis of the grid."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    batch = tl.program_id(2)
    ap = a + batch * sa + m[:, None] * sam + k[None, :] * sak
    bp = b + batch * sb + k[:, None] * sbk + n[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=ACC)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=(m[:, None] < M) & (k[None, :] < K - i * BK), other=0.0)
        y = tl.load(bp, mask=(k[:, None] < K - i * BK) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK * sak
        bp += BK * sbk
    tl.store(c + batch * sc + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@libtile.jit
def by_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """b is NxK."""
    ad = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    bd = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([m, k]), bd.load([n, k]).T, acc)
    rows, cols = m + tl.arange(0, BM), n + tl.arange(0, BN)
    tl.store(c + rows[:, None] * N + cols[None, :], acc, (rows[:, None] < M) & (cols[None, :] < N))


@libtile.jit
def twice(a, c, M, K, sam, BM: tl.constexpr, BK: tl.constexpr):
    """Sums of a's products with itself, over tiles of rows; the inner loop's copies come again and again."""
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for row in range(0, M, BM):
        m = row + tl.arange(0, BM)
        for i in range(0, K, BK):
            x = tl.load(a + m[:, None] * sam + (i + k)[None, :], (m[:, None] < M) & ((i + k)[None, :] < K), other=0.0)
            y = tl.load(a + m[None, :] * sam + (i + k)[:, None], (m[None, :] < M) & ((i + k)[:, None] < K), other=0.0)
            acc = tl.dot(x, y, acc)
        acc = acc * 0.5
    r = tl.arange(0, BM)
    tl.store(c + r[:, None] * BM + r[None, :], acc)


# M, N, K of a tile, warps: by units that read shared memory by themselves, and by others.
TILES = [(64, 64, 16, 4), (128, 128, 64, 4), (128, 256, 64, 8), (192, 64, 48, 4), (64, 96, 128, 4), (32, 32, 32, 4), (16, 64, 64, 2)]
# The last ones are not boxes: a row starts at no multiple of 16 bytes; there is no row.
SHAPES = [(256, 256, 256), (200, 144, 96), (67, 131, 80), (1, 16, 16), (64, 64, 48), (67, 131, 45), (64, 64, 0)]


def array(rng, *shape, dtype, turned=False, pad=0):
    """Small integers, in memory of which each row is `pad` longer; turned: columns lie side by side."""
    stored = rng.integers(-5, 6, (*shape[:-2], shape[-1], shape[-2] + pad) if turned else (*shape[:-1], shape[-1] + pad)).astype(dtype)
    seen = stored.swapaxes(-1, -2) if turned else stored
    return stored, seen[..., :shape[-2], :shape[-1]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", TILES)
def test_products(tile, turned, device):
    rng = np.random.default_rng(5)
    bm, bn, bk, warps = tile
    for (m, n, k), dtype in zip(SHAPES, 4 * (F16, BF16)):
        a, x = array(rng, 3, m, k, dtype=dtype, turned=turned[0], pad=16)
        b, y = array(rng, 3, k, n, dtype=dtype, turned=turned[1], pad=16)
        on = OnDevice(device)
        there = [on(v) for v in (a, b, poisoned((3, m, n), F32))]
        strides = [(1, v.shape[2]) if turn else (v.shape[2], 1) for v, turn in zip((a, b), turned)]
        by_pointers[(-(-m // bm), -(-n // bn), 3)](
            *there, m, n, k, *strides[0], *strides[1], a[0].size, b[0].size, m * n, BM=bm, BN=bn, BK=bk, num_warps=warps,
            narrow_boxes=True)
        np.testing.assert_array_equal(on.back(there[2]).astype(F64), x.astype(F64) @ y.astype(F64), f"{m} {n} {k}")


# Extents that the warps' fragments reach past.
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", [(48, 24, 48, 4), (24, 48, 24, 8), (40, 24, 16, 4), (16, 8, 48, 4)])
def test_products_of_fp64(tile, turned, device):
    rng = np.random.default_rng(7)
    bm, bn, bk, warps = tile
    for m, n, k in ((96, 48, 240), (67, 45, 96)):
        a, x = array(rng, m, k, dtype=F64, turned=turned[0], pad=16)
        b, y = array(rng, k, n, dtype=F64, turned=turned[1], pad=16)
        on = OnDevice(device)
        there = [on(v) for v in (a, b, poisoned((m, n), F64))]
        strides = [(1, v.shape[1]) if turn else (v.shape[1], 1) for v, turn in zip((a, b), turned)]
        by_pointers[(-(-m // bm), -(-n // bn), 1)](
            *there, m, n, k, *strides[0], *strides[1], 0, 0, 0, BM=bm, BN=bn, BK=bk, ACC=tl.float64, num_warps=warps, num_stages=3,
            narrow_boxes=True)
        np.testing.assert_array_equal(on.back(there[2]), x @ y, f"{m} {n} {k}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("stages", [2, 3, 5])
def test_descriptors(tile, stages, device):
    rng = np.random.default_rng(6)
    bm, bn, bk, warps = tile
    for m, n, k in SHAPES[:-1]:
        a, b = (rng.integers(-5, 6, shape).astype(F16) for shape in ((m, k), (n, k)))
        if k % 8:
            continue  # no descriptor has such rows
        on = OnDevice(device)
        there = [on(v) for v in (a, b, poisoned((m, n), F32))]
        by_descriptors[(-(-m // bm), -(-n // bn))](*there, m, n, k, BM=bm, BN=bn, BK=bk, num_warps=warps, narrow_boxes=True,
                                                    num_stages=stages)
        np.testing.assert_array_equal(on.back(there[2]).astype(F64), a.astype(F64) @ b.astype(F64).T, f"{m} {n} {k}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F16, F32])
def test_loops_in_loops(dtype, device):
    rng = np.random.default_rng(7)
    for m, k in ((256, 256), (100, 80), (64, 16)):
        a = rng.integers(-3, 4, (m, k)).astype(dtype)
        on = OnDevice(device)
        there = [on(a), on(poisoned((64, 64), F32))]
        twice[(1,)](*there, m, k, k, BM=64, BK=32, num_warps=4)
        expected = np.zeros((64, 64))
        for row in range(0, m, 64):
            part = np.zeros((64, k))
            part[:min(64, m - row)] = a[row:row + 64]
            expected = (expected + part @ part.T) * 0.5
        np.testing.assert_array_equal(on.back(there[1]).astype(F64), expected)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", TILES)
def test_code(tile, turned, tmp_path):
    """All copies are boxes, one barrier an iteration, and the assembler takes the code."""
    bm, bn, bk, warps = tile
    target = "sm_90" if bk == 48 else "sm_90a"
    strides = [(1, "i32:16") if turn else ("i32:16", 1) for turn in turned]
    kernel = by_pointers.warmup(*["*fp16:16"] * 2, "*fp32:16", *["i32:16"] * 3, *strides[0], *strides[1], *["i32:16"] * 3,
                                grid=(1,), target=target, BM=bm, BN=bn, BK=bk, num_warps=warps, narrow_boxes=True)
    ptx = kernel.asm["ptx"]
    assert "cp.async.bulk.tensor.3d.shared::cluster.global" in ptx and "cp.async.cg" not in ptx and "cp.async.ca" not in ptx
    assert len(re.findall(r"\.param \.align 64 \.b8 \w+\[128\]", ptx)) == 2
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    result = subprocess.run([PTXAS, f"-arch={target}", "-v", source, "-o", tmp_path / "kernel"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in result.stderr
    staged = kernel.asm["staged"]
    loop = staged[staged.index(" = for "):staged.index("arrivals_end")]
    assert loop.count("barrier\n") == 1 and loop.count("copy_box") == 2 and loop.count("arrivals_wait") == 1


def test_short_rows_are_copied_by_threads_unless_boxes_are_asked_for():
    for bk, options, boxed in ((32, {}, False), (32, {"narrow_boxes": True}, True), (32, {"narrow_boxes": True, "copy_boxes": False}, False),
                               (64, {}, True)):
        kernel = by_descriptors.warmup(*["*fp16:16"] * 2, "*fp32:16", *["i32:16"] * 3, grid=(1,), target="sm_90a", BM=64, BN=64,
                                       BK=bk, num_warps=4, **options)
        assert ("cp.async.bulk.tensor" in kernel.asm["ptx"]) == boxed and ("cp.async.cg" in kernel.asm["ptx"]) != boxed
        assert list(kernel.fallbacks) == []


def test_boxes_are_the_standard():
    kernel = by_descriptors.warmup(*["*fp16:16"] * 2, "*fp32:16", *["i32:16"] * 3, grid=(1,), target="sm_90a", BM=128, BN=128,
                                   BK=64, copy_boxes=False)
    assert "tensor" not in kernel.asm["ptx"]
    kernel = by_descriptors.warmup(*["*fp16:16"] * 2, "*fp32:16", *["i32:16"] * 3, grid=(1,), target="sm_90a", BM=128, BN=128,
                                   BK=64)
    assert "cp.async.bulk.tensor.2d" in kernel.asm["ptx"]
    assert "K > 0" in kernel.guards


@libtile.jit
def by_rows(a, b, scale, shift, out, N, K, sb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """out = the sum over blocks of columns of (a b) * scale + shift, which have a number for each column; b is NxK."""
    m, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BK)
    x = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    batch = tl.program_id(1)
    for first in range(0, N, BN):
        n = first + tl.arange(0, BN)
        y = tl.load(b + batch * sb + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
        factor = tl.load(scale + batch * N + n, mask=n < N, other=0.0)
        addend = tl.load(shift + batch * N + n, mask=n < N, other=0.0)
        acc += tl.dot(x, y.T) * factor[None, :] + addend[None, :]
    columns = tl.arange(0, BN)
    tl.store(out + (batch * tl.num_programs(0) * BM + m[:, None]) * BN + columns[None, :], acc)


# Rows, columns, and the depth of a tile, warps; columns of an array.
ROWS = [(64, 64, 64, 4), (128, 64, 64, 8), (128, 128, 32, 8), (64, 16, 64, 4), (128, 32, 128, 8)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tile", ROWS)
@pytest.mark.parametrize("n", [256, 200, 36, 7, 0])
def test_rows(n, tile, device):
    rng = np.random.default_rng(8)
    bm, bn, bk, warps = tile
    m, k, batches = 2 * bm, bk, 3
    a, b = (rng.integers(-5, 6, shape).astype(F16) for shape in ((m, k), (batches, max(n, 1), k)))
    scale, shift = (rng.integers(-3, 4, (batches, max(n, 1))).astype(F32) for _ in range(2))
    on = OnDevice(device)
    there = [on(v) for v in (a, b, scale, shift, poisoned((batches, m, bn), F32))]
    by_rows[(2, batches)](*there, n, k, b[0].size, BM=bm, BN=bn, BK=bk, num_warps=warps, narrow_boxes=True)
    want = np.zeros((batches, m, bn))
    for first in range(0, n, bn):
        part = slice(first, min(first + bn, n))
        product = a.astype(F64) @ b[:, part].astype(F64).swapaxes(1, 2)
        want[:, :, :part.stop - first] += product * scale[:, None, part] + shift[:, None, part]
    np.testing.assert_array_equal(on.back(there[4]).astype(F64), want)


# Rows of few bytes: a slot of 128 holds them.
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, F16, F32, np.int32])
@pytest.mark.parametrize("bn", [32, 64, 128])
def test_narrow_rows(bn, dtype, device):
    rng = np.random.default_rng(9)
    m, n, k = 128, 256, 64
    a, b = (rng.integers(-5, 6, shape).astype(F16) for shape in ((m, k), (1, n, k)))
    scale, shift = (rng.integers(-3, 4, (1, n)).astype(dtype) for _ in range(2))
    on = OnDevice(device)
    there = [on(v) for v in (a, b, scale, shift, poisoned((1, m, bn), F32))]
    by_rows[(1, 1)](*there, n, k, b[0].size, BM=m, BN=bn, BK=k, num_warps=8, num_stages=3)
    products = a.astype(F64) @ b[0].astype(F64).T * scale.astype(F64) + shift.astype(F64)
    np.testing.assert_array_equal(on.back(there[4])[0].astype(F64), products.reshape(m, -1, bn).sum(1))


@pytest.mark.parametrize("tile", ROWS)
def test_rows_are_boxes(tile, tmp_path):
    """The columns' numbers come with the tile, and are read where they are computed with; no thread writes them to others.
    Those that one exchange between lanes brings there are loaded as before."""
    bm, bn, bk, warps = tile
    compiled = by_rows.warmup(*["*fp16:16"] * 2, *["*fp32:16"] * 3, *["i32:16"] * 3, BM=bm, BN=bn, BK=bk, grid=(1,),
                              target="sm_90a", num_warps=warps)
    loop = re.search(r"\n  %[^\n]* = for .*?\n    yield ", compiled.asm["staged"], re.S)[0]
    reads = [found.start() for found in re.finditer(rf"buffer_read %\d+ : tile<{bn}xf32", loop)]
    assert len(reads) == (2 if bn > 32 else 0) and "buffer_write" not in loop
    assert all(read > loop.index(" dot ") for read in reads)
    ptx = compiled.asm["ptx"]
    # b has a batch beside its two axes, the rows one axis less.
    assert ("cp.async.bulk.tensor.2d" in ptx) == bool(reads) and "cp.async.bulk.tensor.3d" in ptx
    assert assemble(ptx, "sm_90a", tmp_path) == 0


@libtile.jit
def by_far_rows(a, b, rows, out, N, far: tl.constexpr, BN: tl.constexpr):
    """A product, and to each block of columns the numbers that lie `far` times the block's first column further on."""
    m, d, j = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, BN)
    acc = tl.zeros((64, 64), dtype=tl.float32)
    for first in range(0, N, BN):
        k = first + j
        x = tl.load(a + m[:, None] * N + k[None, :], mask=k[None, :] < N, other=0.0)
        y = tl.load(b + k[:, None] * 64 + d[None, :], mask=k[:, None] < N, other=0.0)
        at = first.to(tl.int64) * far + j
        row = tl.load(rows + at, mask=(at >= 0) & (at < N), other=0.0)
        acc += tl.dot(x, y) + row[None, :]
    tl.store(out + m[:, None] * 64 + d[None, :], acc)


# Coordinates that have no number in 32 bits, either way, are outside of the array as others are.
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("far", [1, 0, 1 << 25, 1 << 32, -1, -(1 << 25), -(1 << 32), (1 << 26) + 1])
@pytest.mark.parametrize("warps", [4, 8])
def test_far_rows(far, warps, device):
    rng = np.random.default_rng(10)
    n, bn = 256, 64
    a, b = (rng.integers(-5, 6, shape).astype(F16) for shape in ((64, n), (n, 64)))
    rows = rng.integers(-3, 4, n).astype(F32)
    on = OnDevice(device)
    there = [on(v) for v in (a, b, rows, poisoned((64, 64), F32))]
    by_far_rows[(1,)](*there, n, far=far, BN=bn, num_warps=warps)
    want = a.astype(F64) @ b.astype(F64)
    for first in range(0, n, bn):
        at = first * far + np.arange(bn)
        inside = (at >= 0) & (at < n)
        want += np.where(inside, rows[np.where(inside, at, 0)], 0)
    np.testing.assert_array_equal(on.back(there[3]).astype(F64), want)
