# SPDX-License-Identifier: Apache-2.0
"""Dots: batches of matrices along leading axes, in every type and precision, against NumPy in float64."""
import importlib
import re

import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, ROUNDING, OnDevice, poisoned
from spine import matmul  # noqa: F401  it finds the lessons

import libtile
import libtile.language as tl

persistent = importlib.import_module("09_persistent_matmul")
I8, I32 = np.int8, np.int32
SUMS = {I8: I32, F16: F32, BF16: F32, F32: F32, F64: F64}
everywhere = pytest.mark.parametrize("device", DEVICES)
types = pytest.mark.parametrize("dtype", list(SUMS))
# Slices, M, N, K.
SHAPES = [(1, 16, 16, 16), (3, 17, 5, 9), (64, 16, 16, 32), (3, 32, 48, 64), (5, 1, 1, 1), (2, 33, 17, 65),
          (7, 16, 8, 32), (64, 4, 4, 4)]


def small(rng, shape, dtype):
    """Integers whose products and sums every type and unit holds."""
    return rng.integers(-5, 6, shape).astype(dtype)


def exact(a, b):
    return a.astype(F64) @ b.astype(F64)


def launch(kernel, device, arrays, *arguments, **constants):
    on = OnDevice(device)
    there = [on(a) for a in arrays]
    kernel[(1,)](*there, *arguments, **constants)
    return on.back(there[-1])


@libtile.jit
def batch(x, y, z, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TURNED: tl.constexpr,
          PRECISION: tl.constexpr):
    s, m, n, k = tl.arange(0, B)[:, None, None], tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + s * (M * K) + m[None, :, None] * K + k[None, None, :])
    if TURNED:
        b = tl.trans(tl.load(y + s * (N * K) + n[None, :, None] * K + k[None, None, :]), 0, 2, 1)
    else:
        b = tl.load(y + s * (N * K) + k[None, :, None] * N + n[None, None, :])
    at = s * (M * N) + m[None, :, None] * N + n[None, None, :]
    tl.store(out + at, tl.dot(a, b, tl.load(z + at), input_precision=PRECISION))


@everywhere
@types
@pytest.mark.parametrize("slices, m, n, k", SHAPES)
@pytest.mark.parametrize("turned", [False, True])
def test_batches(device, dtype, slices, m, n, k, turned):
    rng = np.random.default_rng(slices * m + k)
    a, b = small(rng, (slices, m, k), dtype), small(rng, (slices, k, n), dtype)
    acc = small(rng, (slices, m, n), SUMS[dtype])
    there = np.ascontiguousarray(b.transpose(0, 2, 1)) if turned else b
    for warps in [1, 4, 8]:
        arrays, constants = [a, there, acc, poisoned(acc.shape, acc.dtype)], {"B": slices, "M": m, "N": n, "K": k}
        if device == "cuda" and slices * k * (m + n) * a.itemsize > 2**17:
            # Operands lie whole in shared memory, which no device has so much of.
            with pytest.raises(libtile.UnsupportedError, match="bytes of shared memory"):
                launch(batch, device, arrays, TURNED=turned, PRECISION=None, num_warps=warps, **constants)
            continue
        got = launch(batch, device, arrays, TURNED=turned, PRECISION=None, num_warps=warps, **constants)
        assert np.array_equal(got, exact(a, b) + acc), warps


@everywhere
@pytest.mark.parametrize("precision, room", [("ieee", 0), ("tf32", 2.0**-10), ("tf32x3", 2.0**-20),
                                             ("bf16x3", 2.0**-14), ("bf16x6", 2.0**-21)])
@pytest.mark.parametrize("slices, m, n, k", [(3, 16, 24, 64), (1, 33, 17, 65), (2, 64, 32, 32)])
def test_precisions_of_fp32(device, precision, room, slices, m, n, k):
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal(s).astype(F32) * 10.0**rng.integers(-6, 7, s) for s in [(slices, m, k), (slices, k, n)])
    a, b = a.astype(F32), b.astype(F32)
    acc = np.zeros((slices, m, n), F32)
    got = launch(batch, device, [a, b, acc, poisoned(acc.shape, F32)], B=slices, M=m, N=n, K=k, TURNED=False,
                 PRECISION=precision)
    scale = np.abs(a.astype(F64)) @ np.abs(b.astype(F64))
    assert np.all(np.abs(got - exact(a, b)) <= (room + 4 * (k + 4) * ROUNDING[F32]) * scale)


@everywhere
@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "bf16x3", "bf16x6"])
def test_infinities_and_large_numbers_stay(device, precision):
    """What is split in parts is put together again: no part overflows, and none is NaN beside an infinity."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((1, 16, 32)).astype(F32), np.abs(rng.standard_normal((1, 32, 16)).astype(F32)) + 0.25
    a[0, 0, 3], a[0, 1, 5], a[0, 2, 7] = np.inf, -np.inf, np.nan
    # Rounded up to tf32 the largest number would be infinite.
    a[0, 3], b[0, 9, 4], a[0, 3, 9] = 0, 0.5, 3e38 if precision == "tf32" else np.finfo(F32).max
    a[0, 4], a[0, 4, 8] = 0, np.finfo(F32).tiny
    with np.errstate(invalid="ignore"):
        want = exact(a, b)
    got = launch(batch, device, [a, b, np.zeros((1, 16, 16), F32), poisoned((1, 16, 16), F32)], B=1, M=16, N=16, K=32,
                 TURNED=False, PRECISION=precision)
    for row in (0, 1, 2):
        assert np.array_equal(got[0, row], want[0, row].astype(F32), equal_nan=True)
    assert abs(got[0, 3, 4] / want[0, 3, 4] - 1) < 2.0**-9
    assert np.all(np.isfinite(got[0, 4:]))


@everywhere
@pytest.mark.parametrize("slices, m, n, k", [(3, 16, 16, 16), (2, 5, 9, 7)])
def test_products_of_fp64_keep_their_bits(device, slices, m, n, k):
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((slices, m, k)), rng.standard_normal((slices, k, n))
    acc = rng.standard_normal((slices, m, n))
    got = launch(batch, device, [a, b, acc, poisoned(acc.shape, F64)], B=slices, M=m, N=n, K=k, TURNED=False,
                 PRECISION=None)
    scale = np.abs(a) @ np.abs(b) + np.abs(acc)
    assert np.all(np.abs(got - (a @ b + acc)) <= 2 * (k + 2) * ROUNDING[F64] * scale)


@libtile.jit
def steps(x, y, out, depth, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    s, m, n, k = tl.arange(0, B)[:, None, None], tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((B, M, N), tl.float32) if x.dtype.element_ty.is_floating() else tl.zeros((B, M, N), tl.int32)
    for first in range(0, depth, K):
        inner = first + k
        a = tl.load(x + s * (M * depth) + m[None, :, None] * depth + inner[None, None, :],
                    mask=tl.broadcast_to(inner[None, None, :] < depth, (B, M, K)), other=0)
        b = tl.load(y + s * (N * depth) + inner[None, :, None] * N + n[None, None, :],
                    mask=tl.broadcast_to(inner[None, :, None] < depth, (B, K, N)), other=0)
        acc = tl.dot(a, b, acc)
    tl.store(out + s * (M * N) + m[None, :, None] * N + n[None, None, :], acc)


@everywhere
@pytest.mark.parametrize("dtype", [I8, F16, BF16, F32])
@pytest.mark.parametrize("slices, m, n, k, depth", [(3, 16, 16, 32, 128), (2, 17, 9, 16, 61), (1, 32, 32, 8, 0),
                                                    (16, 16, 32, 16, 100)])
@pytest.mark.parametrize("stages", [1, 3])
def test_batches_in_a_loop(device, dtype, slices, m, n, k, depth, stages):
    rng = np.random.default_rng(depth)
    a, b = small(rng, (slices, m, depth), dtype), small(rng, (slices, depth, n), dtype)
    # An array is not empty, even if nothing of it is read.
    arrays = [a if depth else small(rng, (1,), dtype), b if depth else small(rng, (1,), dtype)]
    got = launch(steps, device, [*arrays, poisoned((slices, m, n), SUMS[dtype])], depth, B=slices, M=m, N=n, K=k,
                 num_stages=stages)
    assert np.array_equal(got, exact(a, b))


@libtile.jit
def heads(q, k, v, out, H: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    h, m, n, d = tl.arange(0, H)[:, None, None], tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    queries = tl.load(q + h * (M * D) + m[None, :, None] * D + d[None, None, :])
    keys = tl.load(k + h * (N * D) + n[None, :, None] * D + d[None, None, :])
    scores = tl.dot(queries, tl.trans(keys))
    scores = scores - tl.max(scores, axis=2, keep_dims=True)
    values = tl.load(v + h * (N * D) + n[None, :, None] * D + d[None, None, :])
    result = tl.dot((tl.maximum(scores, -8.0) + 8).to(values.dtype), values)
    tl.store(out + h * (M * D) + m[None, :, None] * D + d[None, None, :], result)


@everywhere
@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("h, m, n, d", [(4, 16, 16, 16), (3, 32, 24, 48), (8, 64, 32, 16)])
def test_heads_as_a_batch(device, dtype, h, m, n, d):
    rng = np.random.default_rng(h)
    q, k, v = (rng.integers(-2, 3, (h, rows, d)).astype(dtype) for rows in (m, n, n))
    scores = exact(q, k.transpose(0, 2, 1))
    scores = np.maximum(scores - scores.max(2, keepdims=True), -8) + 8
    got = launch(heads, device, [q, k, v, poisoned((h, m, d), F32)], H=h, M=m, N=n, D=d)
    assert np.array_equal(got, exact(scores, v))


@libtile.jit
def fed_back(x, y, out, trips, B: tl.constexpr, M: tl.constexpr, WHICH: tl.constexpr):
    at = tl.arange(0, B)[:, None, None] * (M * M) + tl.arange(0, M)[None, :, None] * M + tl.arange(0, M)[None, None, :]
    acc, other = tl.load(x + at), tl.load(y + at)
    for _ in range(trips):
        if WHICH == "itself":
            acc = tl.dot(acc, other, acc)
        elif WHICH == "other slices":
            acc = tl.dot(tl.flip(acc, 0), other, acc)
        else:
            acc = tl.dot(other, tl.trans(acc) + 1, acc)
    tl.store(out + at, acc)


@everywhere
@pytest.mark.parametrize("which", ["itself", "other slices", "turned"])
@pytest.mark.parametrize("slices, m", [(1, 16), (3, 16), (4, 7)])
def test_the_accumulator_as_an_operand(device, which, slices, m):
    rng = np.random.default_rng(m)
    x, y = (rng.integers(-1, 2, (slices, m, m)).astype(F32) for _ in range(2))
    want = x.astype(F64)
    for _ in range(3):
        if which == "itself":
            want = want @ y + want
        elif which == "other slices":
            want = want[::-1] @ y + want
        else:
            want = y @ (want.transpose(0, 2, 1) + 1) + want
    got = launch(fed_back, device, [x, y, poisoned(x.shape, F32)], 3, B=slices, M=m, WHICH=which)
    assert np.array_equal(got, want)


@libtile.jit
def two_batch_axes(x, y, out, A: tl.constexpr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a = tl.reshape(tl.load(x + tl.arange(0, A * B * M * K)), (A, B, M, K))
    b = tl.reshape(tl.load(y + tl.arange(0, A * B * K * N)), (A, B, K, N))
    tl.store(out + tl.arange(0, A * B * M * N), tl.reshape(tl.dot(a, b), (A * B * M * N,)))


@everywhere
@types
def test_two_batch_axes(device, dtype):
    rng = np.random.default_rng(2)
    for a, b, m, n, k in [(2, 3, 16, 8, 32), (3, 2, 5, 7, 3)]:
        x, y = small(rng, (a, b, m, k), dtype), small(rng, (a, b, k, n), dtype)
        got = launch(two_batch_axes, device, [x, y, poisoned((a, b, m, n), SUMS[dtype])], A=a, B=b, M=m, N=n, K=k)
        assert np.array_equal(got, exact(x, y))


@libtile.jit
def half_sums(x, y, z, out, B: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, B)[:, None, None] * (M * M) + tl.arange(0, M)[None, :, None] * M + tl.arange(0, M)[None, None, :]
    acc = tl.load(z + at)
    for _ in range(3):
        acc = tl.dot(tl.load(x + at), tl.load(y + at), acc, out_dtype=tl.float16)
    tl.store(out + at, acc)


@everywhere
@pytest.mark.parametrize("slices, m", [(1, 16), (3, 32), (2, 9)])
def test_accumulators_of_fp16(device, slices, m):
    """Each dot is rounded once."""
    rng = np.random.default_rng(m)
    x, y, z = (rng.integers(-9, 10, (slices, m, m)).astype(F16) / 8 for _ in range(3))
    want = z
    for _ in range(3):
        want = (exact(x, y) + want).astype(F16)
    got = launch(half_sums, device, [x, y, z, poisoned(z.shape, F16)], B=slices, M=m)
    assert np.array_equal(got, want)


@libtile.jit
def scaled_batch(x, xs, y, ys, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FORMAT: tl.constexpr):
    s, m, n = tl.arange(0, B)[:, None, None], tl.arange(0, M), tl.arange(0, N)
    k, h, g = tl.arange(0, K), tl.arange(0, K // 2), tl.arange(0, K // 32)
    a = tl.load(x + s * (M * K) + m[None, :, None] * K + k[None, None, :])
    b = tl.load(y + s * (N * K // 2) + h[None, :, None] * N + n[None, None, :])
    a_scale = tl.load(xs + s * (M * K // 32) + m[None, :, None] * (K // 32) + g[None, None, :])
    b_scale = tl.load(ys + s * (N * K // 32) + n[None, :, None] * (K // 32) + g[None, None, :])
    tl.store(out + s * (M * N) + m[None, :, None] * N + n[None, None, :],
             tl.dot_scaled(a, a_scale, FORMAT, b, b_scale, "e2m1"))


@everywhere
@pytest.mark.parametrize("format, dtype", [("bf16", BF16), ("fp16", F16)])
@pytest.mark.parametrize("slices, m, n, k", [(3, 16, 8, 64), (2, 5, 3, 32)])
def test_scaled_batches(device, slices, m, n, k, format, dtype):
    rng = np.random.default_rng(n)
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = rng.integers(0, 16, (slices, k, n), dtype=np.uint8)
    a = small(rng, (slices, m, k), dtype)
    xs = rng.integers(124, 131, (slices, m, k // 32), dtype=np.uint8)
    ys = rng.integers(124, 131, (slices, n, k // 32), dtype=np.uint8)
    left = a.astype(F64) * 2.0**(np.repeat(xs, 32, 2) - 127.0)
    right = numbers[codes] * (2.0**(np.repeat(ys, 32, 2) - 127.0)).transpose(0, 2, 1)
    got = launch(scaled_batch, device, [a, xs, codes[:, 0::2] | codes[:, 1::2] << 4, ys, poisoned((slices, m, n), F32)],
                 B=slices, M=m, N=n, K=k, FORMAT=format)
    assert np.array_equal(got, left @ right)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("format", ["bf16", "fp16"])
def test_scaled_dots_are_matrix_instructions(target, format):
    kernel = scaled_batch.warmup("*" + format, "*u8", "*u8", "*u8", "*fp32", B=2, M=32, N=32, K=64, FORMAT=format, target=target)
    assert kernel.fallbacks == []
    assert "f32.bf16.bf16" in kernel.asm["ptx"]


@libtile.jit
def wrong(out, WHAT: tl.constexpr):
    a = tl.zeros((2, 16, 16), tl.float16)
    if WHAT == "slices":
        tl.dot(a, tl.zeros((3, 16, 16), tl.float16))
    elif WHAT == "axes":
        tl.dot(a, tl.zeros((16, 16), tl.float16))
    elif WHAT == "columns":
        tl.dot(a, tl.zeros((2, 8, 16), tl.float16))
    elif WHAT == "accumulator":
        tl.dot(a, a, tl.zeros((1, 16, 16), tl.float32))
    else:
        tl.dot(a.to(tl.float32), a.to(tl.float32), input_precision="fp19")


@pytest.mark.parametrize("what, message", [
    ("slices", "the leading axes differ"), ("axes", "dot takes two matrices, or batches of them"),
    ("columns", "16 columns meet 8 rows"), ("accumulator", r"must be fp32\[2, 16, 16\]"),
    ("precision", "input_precision must be 'ieee', 'tf32', 'tf32x3', 'bf16x3' or 'bf16x6', got 'fp19'")])
def test_what_dots_refuse(what, message):
    with pytest.raises(libtile.CompilationError, match=message) as error:
        wrong[(1,)](np.zeros(1, F32), WHAT=what)
    assert "test_kernels_dots.py" in str(error.value)


@libtile.jit
def by_constant(x, left, right, M: tl.constexpr, K: tl.constexpr, VALUE: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    tile = tl.load(x + m[:, None] * K + k)
    constant = tl.full((K, M), VALUE, tl.float32).to(tile.dtype)
    at = m[:, None] * M + m
    tl.store(left + at, tl.dot(tile, constant))
    tl.store(right + at, tl.dot(tl.trans(constant), tl.trans(tile)))


@everywhere
@types
@pytest.mark.parametrize("value", [-1, 3, -4])
@pytest.mark.parametrize("m, k", [(16, 8), (16, 24), (32, 16), (32, 64), (16, 4)])
def test_constant_operands(device, dtype, value, m, k):
    """An assembler knows their bits, and may turn the sign of one."""
    x = small(np.random.default_rng(5), (m, k), dtype)
    on = OnDevice(device)
    there = [on(x), *(on(np.full((m, m), 99, SUMS[dtype])) for _ in range(2))]
    by_constant[(1,)](*there, M=m, K=k, VALUE=value)
    want = exact(x, np.full((k, m), value))
    np.testing.assert_array_equal(on.back(there[1]).astype(F64), want)
    np.testing.assert_array_equal(on.back(there[2]).astype(F64), want.T)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_dots_of_8_take_instructions_of_16(dtype):
    """ptxas turns the sign of a constant word of m16n8k8 as of one float, not of two."""
    instructions = {}
    for depth in (8, 24):
        made = by_constant.warmup(f"*{dtype}", "*fp32", "*fp32", M=16, K=depth, VALUE=-1, target="sm_90a", grid=(1,))
        assert "m16n8k8" not in made.asm["ptx"]
        instructions[depth] = made.asm["ptx"].count("mma.sync.aligned.m16n8k16")
    assert instructions[8] > 0 and instructions[24] == 2 * instructions[8]


@libtile.jit
def by_a_load_that_is_off(x, out, n, K: tl.constexpr, TURNED: tl.constexpr):
    m, k = tl.arange(0, 16), tl.arange(0, K)
    nothing = (n & 15) >> 4  # as an assembler sees
    if TURNED:
        b = tl.trans(tl.load(x + m[:, None] * K + k, mask=m[:, None] * 0 + k * 0 + nothing > 3, other=-1.0))
    else:
        b = tl.broadcast_to(tl.load(x + k, mask=k * 0 + nothing > 3, other=-1.0)[:, None], (K, 16))
    tl.store(out + m[:, None] * 16 + m, tl.dot(tl.load(x + m[:, None] * K + k), b))


@libtile.jit
def by_assembly(x, out, n, K: tl.constexpr, TURNED: tl.constexpr):
    m, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k)
    p = tl.dot(a, tl.trans(a)).to(tl.float16)
    b = tl.inline_asm_elementwise("mov.b32 $0, 0xbc00bc00;", "=r,r", [p], dtype=tl.float16, is_pure=True, pack=2)
    tl.store(out + m[:, None] * 16 + m, tl.dot(p, tl.trans(b)))


@pytest.mark.parametrize("kernel, arguments", [(by_constant, dict(M=16, VALUE=-1)), (by_constant, dict(M=16, VALUE=3)), (by_assembly, dict(TURNED=True)),
                                               (by_a_load_that_is_off, dict(TURNED=False)), (by_a_load_that_is_off, dict(TURNED=True))])
def test_turing_s_dots_of_8_have_no_word_that_ptxas_knows(kernel, arguments):
    """That GPU has no dots of 16: b's words are hidden, but those that ldmatrix has just read."""
    types = ("*fp16", "*fp32", "*fp32" if kernel is by_constant else "i32")
    for depth in (8, 24):
        ptx = kernel.warmup(*types, K=depth, target="sm_75", grid=(1,), num_warps=1, **arguments).asm["ptx"]
        words = re.findall(r"mma\.sync\.aligned\.m16n8k8\.\S+ \{[^}]*\}, \{[^}]*\}, \{(%r\d+)\}", ptx)
        assert words
        for word in words:
            assert re.search(rf"xor\.b32 {word},|ldmatrix\S+ \{{[^}}]*{word}\b", ptx), word


@everywhere
@pytest.mark.parametrize("depth", [8, 16, 24])
@pytest.mark.parametrize("turned", [False, True])
def test_an_operand_that_only_an_assembler_knows(device, depth, turned):
    x = small(np.random.default_rng(6), (16, depth), F16)
    on = OnDevice(device)
    out = on(np.full((16, 16), 99, F32))
    by_a_load_that_is_off[(1,)](on(x), out, 7, K=depth, TURNED=turned, num_warps=1)
    np.testing.assert_array_equal(on.back(out).astype(F64), exact(x, np.full((depth, 16), -1)))


@libtile.jit
def large(x, y, out, rows, cols, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ACC: tl.constexpr, TURNED: tl.constexpr):
    m, k = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, K)
    for first in range(tl.program_id(1) * N, cols, 1 << 20 if M == N else N):  # or a program for all columns
        n = first + tl.arange(0, N)
        sums = tl.zeros((M, N), ACC)
        for i in range(0, depth, K):
            a = tl.load(x + m[:, None] * depth + (i + k)[None, :], (m < rows)[:, None] & (i + k < depth)[None, :], 0)
            b = tl.load(y + (i + k)[:, None] * cols + n[None, :], (i + k < depth)[:, None] & (n < cols)[None, :], 0)
            sums = tl.dot(a, b, sums, out_dtype=ACC)
        inside = (m < rows)[:, None] & (n < cols)[None, :]
        if TURNED:
            tl.store(out + n[None, :] * rows + m[:, None], sums, inside)
        else:
            tl.store(out + m[:, None] * cols + n[None, :], sums, inside)


@everywhere
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [I8, F16])
@pytest.mark.parametrize("m, n, warps", [(256, 256, 8), (256, 128, 8), (64, 256, 4)])
def test_large_sums(device, m, n, warps, dtype, turned):
    """Of 256, 128 and 64 KiB: more than some GPUs have room for between the threads that multiply and those that store."""
    rng = np.random.default_rng(m)
    rows, cols, depth = m - 5, n + 3, 70
    a, b = small(rng, (rows, depth), dtype), small(rng, (depth, cols), dtype)
    out = poisoned((cols, rows) if turned else (rows, cols), SUMS[dtype])
    on = OnDevice(device)
    there = on(out)
    large[(1, 2 if m == n else 1)](on(a), on(b), there, rows, cols, depth, M=m, N=n, K=32, ACC=tl.int32 if dtype == I8 else tl.float32,
                                   TURNED=turned, num_warps=warps)
    assert np.array_equal(on.back(there).T if turned else on.back(there), exact(a, b))


@libtile.jit
def by_blocks(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each program the blocks of every other one, with a mask along each axis."""
    across = tl.cdiv(N, BN)
    for block in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        rows, cols = block // across * BM + tl.arange(0, BM)[:, None], block % across * BN + tl.arange(0, BN)[None, :]
        sums = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            x = tl.load(a + rows.to(tl.int64) * K + k[None, :], (rows < M) & (k[None, :] < K), 0.0)
            y = tl.load(b + k[:, None].to(tl.int64) * N + cols, (k[:, None] < K) & (cols < N), 0.0)
            sums = tl.dot(x, y, sums, input_precision="ieee")
        tl.store(out + rows.to(tl.int64) * N + cols, sums, (rows < M) & (cols < N))


@everywhere
@pytest.mark.parametrize("m, n, k", [(64, 40, 100), (101, 36, 252)])
@pytest.mark.parametrize("warps", [1, 4])
def test_masks_of_many_rows(device, m, n, k, warps):
    """More masks of lanes than a GPU has scalar registers for: what it keeps elsewhere is as it was."""
    rng = np.random.default_rng(m)
    a, b, out = small(rng, (m, k), F32), small(rng, (k, n), F32), poisoned((m, n), F32)
    on = OnDevice(device)
    there = on(out)
    by_blocks[(2,)](on(a), on(b), there, m, n, k, BM=64, BN=32, BK=32, num_warps=warps)
    assert np.array_equal(on.back(there), exact(a, b))
    there = on(out)
    persistent.run(on(a), on(b), there, 2, block_m=64, block_n=32, block_k=32, num_warps=warps)
    assert np.array_equal(on.back(there), exact(a, b))
