# SPDX-License-Identifier: Apache-2.0
"""Products by wgmma, which reads its operands from shared memory: every layout and tile, against float64; and its code."""
import re
import subprocess

import ml_dtypes
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned
from test_ptx import PTXAS

import libtile
import libtile.language as tl


@libtile.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           ACC: tl.constexpr = tl.float32, PRECISION: tl.constexpr = None, IMPRECISE: tl.constexpr = None):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    ap = a + m[:, None] * sam + k[None, :] * sak
    bp = b + k[:, None] * sbk + n[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=ACC)
    for i in range(0, K, BK):
        x = tl.load(ap, mask=(m[:, None] < M) & (k[None, :] < K - i), other=0)
        y = tl.load(bp, mask=(k[:, None] < K - i) & (n[None, :] < N), other=0)
        acc = tl.dot(x, y, acc, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
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


# Of bytes: neighbours along k side by side in both operands, or other units. Some with fewer columns than instructions of many take.
BYTE_TILES = [(64, 64, 32, 4), (64, 96, 64, 4), (128, 72, 32, 4), (128, 128, 128, 4), (128, 256, 128, 8), (256, 64, 256, 8), (64, 128, 64, 8),
              (256, 72, 160, 16)]


def byte_product(on, tile, turned, m, n, k):
    """Of random bytes: what is there, and what should be."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-128, 128, shape[::-1] if turn else shape).astype(np.int8)
            for shape, turn in zip(((m, k), (k, n)), turned))
    x, y = (v.T if turn else v for v, turn in zip((a, b), turned))
    there = [on(v) for v in (a, b, np.full((m, n), 77, np.int32))]
    strides = [(1, v.shape[1]) if turn else (v.shape[1], 1) for v, turn in zip((a, b), turned)]
    bm, bn, bk, warps = tile
    matmul[(-(-m // bm), -(-n // bn))](*there, m, n, k, *strides[0], *strides[1], BM=bm, BN=bn, BK=bk, ACC=tl.int32, num_warps=warps)
    return on.back(there[2]), x.astype(np.int32) @ y.astype(np.int32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", BYTE_TILES)
def test_products_of_bytes(tile, turned, device):
    for m, n, k in [*SHAPES, (256, 272, 384)]:
        np.testing.assert_array_equal(*byte_product(OnDevice(device), tile, turned, m, n, k))


@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_bytes_wrap(device):
    on, k = OnDevice(device), 1 << 18
    a, b = (np.full(shape, -128, np.int8) for shape in ((64, k), (64, k)))
    there = [on(v) for v in (a, b, np.zeros((64, 64), np.int32))]
    matmul[(1, 1)](*there, 64, 64, k, k, 1, 1, k, BM=64, BN=64, BK=128, ACC=tl.int32)
    assert (on.back(there[2]) == np.int64(k << 14).astype(np.int32)).all()


# 8-bit floats lie as bytes do, of one format or two.
FLOAT8 = [("e4m3fn", "e4m3fn"), ("e5m2", "e5m2"), ("e4m3fn", "e5m2"), ("e5m2", "e4m3fn")]


def float8_product(device, tile, turned, a, b, imprecise):
    bm, bn, bk, warps = tile
    (m, k), n = a.shape, b.shape[1]
    on = OnDevice(device)
    there = [on(np.ascontiguousarray(v.T) if turn else v) for v, turn in zip((a, b), turned)] + [on(poisoned((m, n), F32))]
    strides = [(1, rows) if turn else (columns, 1) for turn, (rows, columns) in zip(turned, (a.shape, b.shape))]
    matmul[(-(-m // bm), -(-n // bn))](*there, m, n, k, *strides[0], *strides[1], BM=bm, BN=bn, BK=bk, IMPRECISE=imprecise, num_warps=warps)
    return on.back(there[2]).astype(F64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", BYTE_TILES)
@pytest.mark.parametrize("formats", FLOAT8)
def test_products_of_8_bit_floats(formats, tile, turned, device):
    """Integers below 2^13 are exact, whatever the sums are. Others have each instruction's 33 addends cut off 13 bits below the
    largest; where no product may be summed so, or fewer than a tile has, sums are those of fp32."""
    rng = np.random.default_rng(11)
    first, second = (np.dtype(getattr(ml_dtypes, "float8_" + name)) for name in formats)
    for m, n, k in [(67, 131, 45), (64, 64, 0), (256, 272, 384)]:
        a, b = rng.integers(-4, 5, (m, k)).astype(first), rng.integers(-4, 5, (k, n)).astype(second)
        for imprecise in (None, tile[2], 0):
            got = float8_product(device, tile, turned, a, b, imprecise)
            np.testing.assert_array_equal(got, a.astype(F64) @ b.astype(F64))
        a, b = (rng.standard_normal(v.shape).astype(F32) * 2.0**rng.integers(-8, 5, v.shape) for v in (a, b))
        a, b = a.astype(first), b.astype(second)
        magnitudes = np.abs(a.astype(F64)) @ np.abs(b.astype(F64))
        for imprecise, bits in ((None, 13), (tile[2], 13), (tile[2] - 1, 23), (0, 23)):
            wrong = np.abs(float8_product(device, tile, turned, a, b, imprecise) - a.astype(F64) @ b.astype(F64))
            terms = 33 * (k / 32 + 1) if bits == 13 else 4 * (k + 4)
            assert np.all(wrong <= terms * 2.0**-bits * magnitudes), imprecise


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name, code, value", [("e4m3fn", 0x7F, np.nan), ("e5m2", 0x7C, np.inf), ("e5m2", 0xFC, -np.inf), ("e5m2", 0x7E, np.nan),
                                               ("e4m3fn", 0x01, 2.0**-9), ("e5m2", 0x81, -(2.0**-16))])
def test_ends_of_8_bit_floats(name, code, value, device):
    dtype = np.dtype(getattr(ml_dtypes, "float8_" + name))
    a, b = np.zeros((64, 64), dtype), np.ones((64, 64), dtype)
    a[3, 5] = np.uint8(code).view(dtype)
    got = float8_product(device, (64, 64, 32, 4), (False, True), a, b, None)
    np.testing.assert_array_equal(got[3], np.full(64, value))
    np.testing.assert_array_equal(np.delete(got, 3, 0), 0)


@pytest.mark.parametrize("imprecise, option, unit", [
    (None, {}, "wgmma"), (64, {}, "wgmma"), (63, {}, "mma.sync"), (0, {}, "mma.sync"),
    (None, {"max_num_imprecise_acc_default": 0}, "mma.sync"), (None, {"max_num_imprecise_acc_default": 63}, "mma.sync"),
    (None, {"max_num_imprecise_acc_default": 64}, "wgmma"), (64, {"max_num_imprecise_acc_default": 0}, "wgmma")])
@pytest.mark.parametrize("formats", [("fp8e4nv", "fp8e4nv"), ("fp8e5", "fp8e4nv"), ("fp8e4b15", "fp8e4b15")])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_units_of_8_bit_floats(target, formats, imprecise, option, unit, tmp_path):
    strides = ["i32:16", 1, 1, "i32:16"]
    kernel = matmul.warmup(*(f"*{name}:16" for name in formats), "*fp32:16", "i32:16", "i32:16", "i32:16", *strides, BM=64, BN=128, BK=64,
                           IMPRECISE=imprecise, num_warps=4, target=target, **option)
    asm, names = kernel.asm["ptx"], {"fp8e4nv": "e4m3", "fp8e5": "e5m2"}
    if target == "sm_80" or formats[0] not in names:
        unit = "mma.sync"
    assert ("mma.sync" in asm, "wgmma.mma_async" in asm) == (unit == "mma.sync", unit == "wgmma") and kernel.fallbacks == []
    if unit == "wgmma":
        assert f"m64n128k32.f32.{names[formats[0]]}.{names[formats[1]]}" in asm
        # Sums of one dot are added by threads.
        alone = imprecise == 64 or option.get("max_num_imprecise_acc_default") == 64
        assert len(re.findall(r"add(?:\.rn)?\.f32", asm)) == (64 if alone else 0)
        if target == "sm_90a":
            assert_assembles(asm, tmp_path)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", [(128, 128, 64, 4), (128, 256, 128, 8), (64, 64, 32, 4)])
@pytest.mark.parametrize("imprecise", [None, 0])
def test_code_of_8_bit_floats(tile, turned, imprecise, tmp_path):
    bm, bn, bk, warps = tile
    strides = [(1, "i32:16") if turn else ("i32:16", 1) for turn in turned]
    kernel = matmul.warmup("*fp8e4nv:16", "*fp8e5:16", "*fp32:16", *["i32:16"] * 3, *strides[0], *strides[1], grid=(1,), target="sm_90a",
                           BM=bm, BN=bn, BK=bk, IMPRECISE=imprecise, num_warps=warps)
    ptx, held = kernel.asm["ptx"], is_held(turned, bn)
    formats = "e5m2.e4m3" if turned == (False, False) else "e4m3.e5m2"
    columns = [int(n) for n in re.findall(rf"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k32\.f32\.{formats} ", ptx)]
    if (turned == (False, True) or held) and imprecise is None:
        assert sum(columns) * 64 * 32 * (warps // 4) == bm * bn * bk
        assert ("_regs" in kernel.asm["staged"]) == held and "mma.sync" not in ptx
        assert_assembles(ptx, tmp_path)
    else:
        assert not columns and "mma.sync" in ptx


TF32_TILES = [(64, 64, 8, 4), (64, 96, 32, 4), (128, 72, 16, 4), (128, 256, 32, 8), (256, 64, 64, 8), (64, 128, 32, 8)]


def tf32_product(device, tile, a, b, turned=(False, True)):
    bm, bn, bk, warps = tile
    (m, k), n = a.shape, b.shape[1]
    on = OnDevice(device)
    there = [on(np.ascontiguousarray(v.T) if turn else v) for v, turn in zip((a, b), turned)] + [on(poisoned((m, n), F32))]
    strides = [(1, rows) if turn else (columns, 1) for turn, (rows, columns) in zip(turned, (a.shape, b.shape))]
    matmul[(-(-m // bm), -(-n // bn))](*there, m, n, k, *strides[0], *strides[1], BM=bm, BN=bn, BK=bk, PRECISION="tf32", num_warps=warps)
    return on.back(there[2]).astype(F64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", TF32_TILES)
def test_products_of_tf32(tile, turned, device):
    """Numbers of few bits: exact. Others: ten bits of them are kept, of numbers below the least normal one fewer."""
    rng = np.random.default_rng(9)
    for m, n, k in [*SHAPES, (256, 256, 256)]:
        a, b = rng.integers(-5, 6, (m, k)).astype(F32), rng.integers(-5, 6, (k, n)).astype(F32)
        np.testing.assert_array_equal(tf32_product(device, tile, a, b, turned), a.astype(F64) @ b.astype(F64))
        a, b = (rng.standard_normal(v.shape).astype(F32) * F32(10)**rng.integers(-6, 7, v.shape).astype(F32) for v in (a, b))
        scale = np.abs(a.astype(F64)) @ np.abs(b.astype(F64))
        wrong = np.abs(tf32_product(device, tile, a, b, turned) - a.astype(F64) @ b.astype(F64))
        assert np.all(wrong <= (2.0**-9 + 4 * (k + 4) * 2.0**-24) * scale)
        tiny = (a * F32(2.0**-133)).astype(F32)
        b = np.copysign(F32(2.0**40), b).astype(F32)
        scale = np.abs(tiny.astype(F64)) @ np.abs(b.astype(F64))
        wrong = np.abs(tf32_product(device, tile, tiny, b, turned) - tiny.astype(F64) @ b.astype(F64))
        assert np.all(wrong <= (2.0**-9 + 4 * (k + 4) * 2.0**-24) * scale + k * 2.0**(40 - 136))


@pytest.mark.parametrize("device", DEVICES)
def test_infinities_and_nan_of_tf32(device):
    a, b = np.ones((64, 64), F32), np.ones((64, 64), F32)
    a[0, 3], a[1, 5], a[2, 7], a[3, 9] = np.inf, -np.inf, np.nan, np.finfo(F32).max
    b[9] = .5
    got = tf32_product(device, (64, 64, 32, 4), a, b)
    want = a.astype(F64) @ b.astype(F64)
    np.testing.assert_array_equal(got[:3], want[:3])
    np.testing.assert_allclose(got[3:], want[3:], rtol=2.0**-9)


def assert_assembles(ptx, folder, spills=False):
    """Without notes of serialised wgmma, and without spills, unless these may be."""
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    result = subprocess.run([PTXAS, "-arch=sm_90a", "-v", source, "-o", folder / "kernel"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert not re.search(r"C75\d\d", result.stderr), result.stderr
    assert spills or "0 bytes spill stores" in result.stderr


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


def is_held(turned, columns):
    """Of operands that have no 16 bits the unit takes one whose rows lie across k from registers: a, or b as the left operand of
    the product transposed, if its columns are a multiple of 64."""
    return turned == (True, True) or (turned == (False, False) and columns % 64 == 0)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", BYTE_TILES)
def test_code_of_bytes(tile, turned, tmp_path):
    """By wgmma where memory has neighbours along k side by side in one operand; else by mma.sync."""
    bm, bn, bk, warps = tile
    strides = [(1, "i32:16") if turn else ("i32:16", 1) for turn in turned]
    kernel = matmul.warmup(*["*i8:16"] * 2, "*i32:16", *["i32:16"] * 3, *strides[0], *strides[1], grid=(1,), target="sm_90a",
                           BM=bm, BN=bn, BK=bk, ACC=tl.int32, num_warps=warps, narrow_boxes=True)
    ptx = kernel.asm["ptx"]
    columns = [int(n) for n in re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k32\.s32\.s8\.s8", ptx)]
    held = is_held(turned, bn)
    if turned == (False, True) or held:
        assert sum(columns) * 64 * 32 * (warps // 4) == bm * bn * bk
        assert ("_regs" in kernel.asm["staged"]) == held
        assert "mma.sync" not in ptx and "ldmatrix" not in ptx and "cp.async.bulk.tensor" in ptx
    else:
        assert not columns and "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" in ptx
    assert_assembles(ptx, tmp_path)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("dtype", ["i8", "fp16", "fp32"])
def test_code_of_columns_in_blocks(dtype, stages, tmp_path):
    """Columns of b lie in blocks of 32, and k is longer than a row of the buffer: an instruction has columns of one block."""
    bk, sums = {"i8": (160, "i32"), "fp16": (80, "fp32"), "fp32": (40, "fp32")}[dtype]
    kernel = matmul.warmup(*[f"*{dtype}:16"] * 2, f"*{sums}:16", *["i32:16"] * 4, 1, 1, "i32:16", grid=(1,), target="sm_90a", BM=256, BN=72,
                           BK=bk, ACC=tl.int32 if dtype == "i8" else tl.float32, PRECISION="tf32", num_warps=16, num_stages=stages)
    assert "wgmma.mma_async" in kernel.asm["ptx"] and "mma.sync" not in kernel.asm["ptx"]
    assert_assembles(kernel.asm["ptx"], tmp_path)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tile", TF32_TILES)
@pytest.mark.parametrize("precision", ["tf32", None])
def test_code_of_tf32(tile, turned, precision, tmp_path):
    bm, bn, bk, warps = tile
    strides = [(1, "i32:16") if turn else ("i32:16", 1) for turn in turned]
    kernel = matmul.warmup(*["*fp32:16"] * 3, *["i32:16"] * 3, *strides[0], *strides[1], grid=(1,), target="sm_90a",
                           BM=bm, BN=bn, BK=bk, PRECISION=precision, num_warps=warps, narrow_boxes=True)
    ptx = kernel.asm["ptx"]
    columns = [int(n) for n in re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k8\.f32\.tf32\.tf32", ptx)]
    held = is_held(turned, bn)
    if (turned == (False, True) or held) and precision:
        assert sum(columns) * 64 * 8 * (warps // 4) == bm * bn * bk
        assert ("_regs" in kernel.asm["staged"]) == held
        assert "mma.sync" not in ptx and "cvt.rna.tf32" not in ptx and "cp.async.bulk.tensor" in ptx
        assert_assembles(ptx, tmp_path)
    else:
        assert "wgmma" not in ptx and ("mma.sync.aligned.m16n8k8.row.col.f32.tf32" in ptx) == bool(precision)


@libtile.jit
def wrapping(a, b, c, M, N, K, S: tl.constexpr):
    """Rows and columns past the edge are read again from the start: no affine addresses."""
    m, n, k = tl.program_id(0) * S + tl.arange(0, S), tl.program_id(1) * S + tl.arange(0, S), tl.arange(0, S)
    acc = tl.zeros((S, S), dtype=tl.int32)
    for i in range(0, K, S):
        x = tl.load(a + (m % M)[:, None] * K + (i + k)[None, :], mask=(i + k)[None, :] < K, other=0)
        y = tl.load(b + (n % N)[None, :] * K + (i + k)[:, None], mask=(i + k)[:, None] < K, other=0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("device", DEVICES)
def test_wrapping_rows_of_bytes(device):
    rng = np.random.default_rng(13)
    for m, n, k in [(200, 136, 80), (67, 131, 45), (128, 64, 128)]:
        on = OnDevice(device)
        a, b = rng.integers(-128, 128, (m, k)).astype(np.int8), rng.integers(-128, 128, (n, k)).astype(np.int8)
        there = [on(a), on(b), on(np.zeros((m, n), np.int32))]
        wrapping[(-(-m // 64), -(-n // 64))](*there, m, n, k, S=64, num_warps=4)
        np.testing.assert_array_equal(on.back(there[2]), a.astype(np.int32) @ b.astype(np.int32).T)


@pytest.mark.parametrize("size", ["i32:16", "i32"])
def test_code_of_wrapping_rows(size, tmp_path):
    kernel = wrapping.warmup(*["*i8:16"] * 2, "*i32:16", size, size, "i32:16", grid=(1,), target="sm_90a", S=64, num_warps=4)
    assert "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8" in kernel.asm["ptx"] and "mma.sync" not in kernel.asm["ptx"]
    assert_assembles(kernel.asm["ptx"], tmp_path)


@libtile.jit
def both_sides(a, b, c, d, K, S: tl.constexpr, OUTSIDE: tl.constexpr, NEGATED: tl.constexpr = False):
    """One tile is the left operand of a dot and the right one of another: neighbours along k are its rows and its columns."""
    m, n = tl.arange(0, S), tl.arange(0, S)
    first, second = tl.zeros((S, S), dtype=tl.int32), tl.zeros((S, S), dtype=tl.int32)
    x = tl.load(a + m[:, None] * K + n[None, :])
    for i in range(0, K, S):
        y = tl.load(b + n[None, :] * K + (i + m)[:, None])
        z = tl.load(b + m[:, None] * K + (i + n)[None, :])
        if not OUTSIDE:
            x = tl.load(a + m[:, None] * K + (i + n)[None, :])
        first = tl.dot(x, y, first)
        if NEGATED:
            second = -tl.dot(z, x, -second)
        else:
            second = tl.dot(z, x, second)
    tl.store(c + m[:, None] * S + n[None, :], first)
    tl.store(d + m[:, None] * S + n[None, :], second)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_both_sides(outside, negated, device):
    rng = np.random.default_rng(11)
    k, on = 320, OnDevice(device)
    a, b = (rng.integers(-128, 128, (64, k)).astype(np.int8) for _ in range(2))
    there = [on(v) for v in (a, b, np.zeros((64, 64), np.int32), np.zeros((64, 64), np.int32))]
    both_sides[(1,)](*there, k, S=64, OUTSIDE=outside, NEGATED=negated, num_warps=4)
    parts = [(a[:, 0 if outside else i:][:, :64].astype(np.int32), b[:, i:i + 64].astype(np.int32)) for i in range(0, k, 64)]
    np.testing.assert_array_equal(on.back(there[2]), sum(x @ y.T for x, y in parts))
    np.testing.assert_array_equal(on.back(there[3]), sum(y @ x for x, y in parts) * (-1 if negated else 1))


def test_code_of_both_sides(tmp_path):
    """Before the loop threads write the tile twice; copied ahead it lies in one order, and threads bring it to a unit that takes
    it from registers. Where the loop looks at the sum, which is not turned then, other units multiply across it."""
    for outside, negated, expected in [(True, False, {"wgmma"}), (False, False, {"wgmma"}), (False, True, {"wgmma", "mma"})]:
        kernel = both_sides.warmup(*["*i8:16"] * 2, *["*i32:16"] * 2, "i32:16", grid=(1,), target="sm_90a", S=64,
                                   OUTSIDE=outside, NEGATED=negated, num_warps=4)
        ptx = kernel.asm["ptx"]
        assert set(re.findall(r"\b(wgmma|mma)\.(?:mma_async|sync)", ptx)) == expected
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


@libtile.jit
def two_sums(a, b, c, d, e, f, K, S):
    """What the first loop sums is there while the second one runs, whose elements do not lie beside each other in the first."""
    m, n, k = tl.arange(0, 256), tl.arange(0, 128), tl.arange(0, 64)
    left = tl.zeros((256, 128), tl.float32)
    for i in range(0, K, 64):
        x = tl.load(a + m[:, None] * S + i + k, i + k[None, :] < K, 0)
        left = tl.dot(x, tl.load(b + (i + k)[:, None] + n * S, i + k[:, None] < K, 0), left)
    right = tl.zeros((128, 64), tl.float32)
    for i in range(0, K, 64):
        x = tl.load(c + n[:, None] * K + i + k, i + k[None, :] < K, 0)
        right = right * 0.5 + tl.dot(x, tl.load(d + (i + k)[:, None] * 64 + k, i + k[:, None] < K, 0))
    tl.store(e + m[:, None] * 128 + n, left)
    tl.store(f + n[:, None] * 64 + k, right)


def test_registers_of_sums(tmp_path):
    """Those that live beside a loop with a producer count; and those of one instruction leave room for others."""
    kernel = two_sums.warmup(*["*fp16:16"] * 4, *["*fp32:16"] * 2, "i32:16", "i32", target="sm_90a", num_warps=8)
    assert "setmaxnreg" in kernel.asm["ptx"]
    assert_assembles(kernel.asm["ptx"], tmp_path)
    wide = matmul.warmup(*["*fp16:16"] * 3, *["i32:16"] * 4, 1, "i32:16", 1, BM=256, BN=256, BK=32, target="sm_90a", num_warps=16)
    assert "wgmma" not in wide.asm["ptx"] and not wide.fallbacks
    assert_assembles(wide.asm["ptx"], tmp_path, spills=True)
