# SPDX-License-Identifier: Apache-2.0
"""Parts, joins and permutations of tiles, gather, histogram, functions of the user on single elements."""
import math

import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned, random

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
DTYPES = [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, F16, BF16, F32, F64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, shape).astype(np.bool_) if dtype == np.bool_ else random(rng, shape, dtype)


def same(a, b):
    np.testing.assert_array_equal(np.ascontiguousarray(a).view(np.uint8), np.ascontiguousarray(b).view(np.uint8))


@libtile.jit
def rows(M: tl.constexpr, N: tl.constexpr):
    return tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]


@libtile.jit
def joins(x, y, joined, woven, catted, left, right, M: tl.constexpr, N: tl.constexpr):
    a, b = tl.load(x + rows(M, N)), tl.load(y + rows(M, N))
    both = tl.join(a, b)
    tl.store(joined + rows(M, N)[:, :, None] * 2 + tl.arange(0, 2)[None, None, :], both)
    tl.store(woven + rows(M, 2 * N), tl.interleave(a, b))
    tl.store(catted + rows(2 * M, N), tl.cat(a, b))
    tl.store(catted + 2 * M * N + rows(M, 2 * N), tl.cat(a, b, dim=-1))
    one, two = both.split()
    tl.store(left + rows(M, N), one)
    tl.store(right + rows(M, N), two)


@everywhere
@dtypes
@pytest.mark.parametrize("m, n", [(1, 1), (4, 32), (5, 7), (16, 64), (33, 12)])
@pytest.mark.parametrize("num_warps", [1, 4])
def test_join_split_interleave_cat(device, dtype, m, n, num_warps):
    on = OnDevice(device)
    a, b = numbers((m, n), dtype), numbers((m, n), dtype, 1)
    outs = [on(poisoned(shape, dtype)) for shape in [(m, n, 2), (m, 2 * n), 4 * m * n, (m, n), (m, n)]]
    joins[(1,)](on(a), on(b), *outs, m, n, num_warps=num_warps)
    joined = np.stack([a, b], -1)
    catted = np.concatenate([np.concatenate([a, b]).ravel(), np.concatenate([a, b], 1).ravel()])
    for out, want in zip(outs, [joined, joined.reshape(m, 2 * n), catted, a, b]):
        same(on.back(out), want)


@libtile.jit
def joins_of_scalars(x, out):
    a, b = tl.load(x), tl.load(x + 1)
    tl.store(out + tl.arange(0, 2), tl.join(a, b))
    tl.store(out + 2 + tl.arange(0, 2), tl.interleave(a, b))
    one, two = tl.split(tl.load(x + tl.arange(0, 2)))
    tl.store(out + 4, one)
    tl.store(out + 5, two)
    # A scalar beside a tile, and tiles of two shapes.
    tl.store(out + 6 + tl.arange(0, 6).reshape(3, 2), tl.join(tl.load(x + tl.arange(0, 3)), b))


@everywhere
@dtypes
def test_joins_of_scalars(device, dtype):
    on = OnDevice(device)
    x = numbers(3, dtype, 2)
    out = on(poisoned(12, dtype))
    joins_of_scalars[(1,)](on(x), out)
    a, b = x[:2]
    same(on.back(out), np.array([a, b, a, b, a, b, a, b, b, b, x[2], b], dtype))


@libtile.jit
def flips(x, out, SHAPE: tl.constexpr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE).reshape(SHAPE)
    a = tl.load(x + i)
    tl.store(out + i, tl.flip(a))
    tl.store(out + SIZE + i, a.flip(0))
    tl.store(out + 2 * SIZE + i, tl.flip(tl.flip(a, -1), dim=0) if len(SHAPE) > 1 else tl.flip(tl.flip(a)))


@everywhere
@dtypes
@pytest.mark.parametrize("shape", [(1,), (128,), (77,), (8, 16), (3, 5), (64, 33), (4, 3, 6)], ids=str)
@pytest.mark.parametrize("num_warps", [1, 4])
def test_flip(device, dtype, shape, num_warps):
    on = OnDevice(device)
    x = numbers(shape, dtype)
    out = on(poisoned((3, *shape), dtype))
    flips[(1,)](on(x), out, shape, math.prod(shape), num_warps=num_warps)
    both = np.flip(x, (0, -1)) if len(shape) > 1 else x
    same(on.back(out), np.stack([np.flip(x, -1), np.flip(x, 0), both]))


@libtile.jit
def parts(x, out, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr, B: tl.constexpr, S: tl.constexpr,
          ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    a = tl.load(x + rows(M, N))
    tl.store(out + rows(ROWS, N), a[A:B:S])
    tl.store(out + ROWS * N + rows(M, COLUMNS), a[:, A:B:S])
    tl.store(out + ROWS * N + M * COLUMNS + rows(ROWS, COLUMNS), a[A:B:S, A:B:S])


@everywhere
@dtypes
@pytest.mark.parametrize("m, n", [(16, 32), (7, 13), (64, 64), (33, 48)])
@pytest.mark.parametrize("part", [slice(0, 4), slice(4, 8), slice(1, None, 2), slice(None, -3), slice(-2, None),
                                  slice(None, None, -1), slice(5, 1, -2), slice(3, 4), slice(2, 100, 100)], ids=str)
def test_static_slices(device, dtype, m, n, part):
    on = OnDevice(device)
    x = numbers((m, n), dtype)
    wants = [x[part], x[:, part], x[part, part]]
    out = on(poisoned(sum(want.size for want in wants), dtype))
    parts[(1,)](on(x), out, m, n, part.start, part.stop, part.step, len(range(m)[part]), len(range(n)[part]))
    same(on.back(out), np.concatenate([want.ravel() for want in wants]))


@libtile.jit
def elements(x, out, M: tl.constexpr, N: tl.constexpr):
    a = tl.load(x + rows(M, N))
    tl.store(out, a[0, 0])
    tl.store(out + 1, a[-1, N - 1])
    tl.store(out + 2 + tl.arange(0, N), a[2])
    tl.store(out + 2 + N + tl.arange(0, M), a[:, -2])
    tl.store(out + 2 + N + M + tl.arange(0, M - 1)[:, None], a[1:, 3, None])
    # Halves by slices, and a tree of them down to a scalar.
    total = tl.load(x + tl.arange(0, 8))
    total = total[:4] + total[4:]
    total = total[:2] + total[2:]
    tl.store(out + 1 + N + 2 * M, total[0] + total[1])


@everywhere
@pytest.mark.parametrize("dtype", [np.int32, F64], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("m, n", [(3, 4), (16, 32), (9, 70)])
def test_elements_of_tiles(device, dtype, m, n):
    on = OnDevice(device)
    x = np.random.default_rng(3).integers(-99, 99, (m, n)).astype(dtype)
    out = on(poisoned(2 + n + 2 * m, dtype))
    elements[(1,)](on(x), out, m, n)
    want = np.concatenate([[x[0, 0], x[-1, -1]], x[2], x[:, -2], x[1:, 3], [x.ravel()[:8].sum()]])
    same(on.back(out), want.astype(dtype))


@libtile.jit
def carried_parts(x, out, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    for k in range(steps):
        a = tl.cat(a[N // 2:], a[:N // 2] + k)
        a = tl.gather(a, (i * 3 + k) % N, 0) - tl.flip(a)
    tl.store(out + i, a)


@everywhere
@pytest.mark.parametrize("n", [4, 64, 96, 1024])
@pytest.mark.parametrize("num_warps", [1, 4])
def test_parts_carried_by_a_loop(device, n, num_warps):
    on = OnDevice(device)
    i = np.arange(n)
    for steps in (0, 1, 5):
        x = np.random.default_rng(n).integers(-9, 9, n).astype(np.int32)
        out = on(poisoned(n, np.int32))
        carried_parts[(1,)](on(x), out, steps, n, num_warps=num_warps)
        for k in range(steps):
            x = np.concatenate([x[n // 2:], x[:n // 2] + np.int32(k)])
            x = x[(i * 3 + k) % n] - x[::-1]
        same(on.back(out), x)


@libtile.jit
def gathers(x, index, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, AXIS: tl.constexpr,
            WORK: tl.constexpr):
    src = tl.load(x + rows(M, N))
    if WORK:
        src = tl.exp2(src) + tl.log2(src * src + 1)
    if AXIS == 0:
        place = rows(K, N)
    else:
        place = rows(M, K)
    tl.store(out + place, tl.gather(src, tl.load(index + place), AXIS))


@everywhere
@dtypes
@pytest.mark.parametrize("m, n, k", [(1, 1, 3), (4, 16, 16), (5, 7, 13), (32, 64, 8), (8, 33, 200)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("num_warps", [1, 4])
def test_gather(device, dtype, m, n, k, axis, num_warps):
    on = OnDevice(device)
    x, extent = numbers((m, n), dtype), (m, n)[axis]
    index = np.random.default_rng(k).integers(0, extent, (k, n) if axis == 0 else (m, k)).astype(np.int32)
    out = on(poisoned(index.shape, dtype))
    gathers[(1,)](on(x), on(index), out, m, n, k, axis, False, num_warps=num_warps)
    same(on.back(out), np.take_along_axis(x, index.astype(np.int64), axis))


@everywhere
@pytest.mark.parametrize("axis", [0, 1])
def test_gather_of_what_costs(device, axis):
    on = OnDevice(device)
    x = np.random.default_rng(0).standard_normal((16, 24)).astype(F32)
    index = np.random.default_rng(1).integers(0, 16, (100, 24) if axis == 0 else (16, 100)).astype(np.int32)
    out = on(poisoned(index.shape, F32))
    gathers[(1,)](on(x), on(index), out, 16, 24, 100, axis, True)
    want = np.exp2(x.astype(F64)) + np.log2(x.astype(F64)**2 + 1)
    np.testing.assert_allclose(on.back(out), np.take_along_axis(want, index.astype(np.int64), axis), rtol=1e-5)


@libtile.jit
def gathers_along(x, index, out, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, K)
    tl.store(out + i, tl.load(x + tl.arange(0, N)).gather(tl.load(index + i), axis=0))


@everywhere
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64],
                         ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("n", [1, 64, 100, 1000])
def test_indices_past_the_axis_take_the_last_element(device, kind, n):
    on = OnDevice(device)
    x = np.arange(n, dtype=np.int32) + 7
    info = np.iinfo(kind)
    index = np.array([0, n - 1, n, -1, -n, info.min, info.max, n // 2] + list(range(24)))
    index = np.clip(index, info.min, info.max).astype(kind)
    out = on(poisoned(index.size, np.int32))
    gathers_along[(1,)](on(x), on(index), out, n, index.size)
    inside = (index >= 0) & (index.astype(np.float64) < n)
    same(on.back(out), np.where(inside, x[np.where(inside, index, 0).astype(np.int64)], x[-1]))


@libtile.jit
def histograms(x, keep, out, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    a, mask = tl.load(x + i), tl.load(keep + i) != 0
    tl.store(out + tl.arange(0, BINS), a.histogram(BINS))
    tl.store(out + BINS + tl.arange(0, BINS), tl.histogram(a, BINS, mask=mask))
    # The result is a tile as any other.
    tl.store(out + 2 * BINS + tl.arange(0, BINS), tl.histogram(a, BINS) * 2 - tl.histogram(a, BINS, mask=~mask))


@everywhere
@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64],
                         ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("n, bins", [(1, 1), (64, 2), (1000, 16), (2048, 100), (33, 300), (4096, 1024)])
@pytest.mark.parametrize("num_warps", [1, 4])
def test_histogram(device, kind, n, bins, num_warps):
    on = OnDevice(device)
    rng = np.random.default_rng(n)
    x = rng.integers(-3, bins + 3, n).astype(kind)
    if n > 40 and kind not in (np.bool_, np.int8, np.uint8):
        x[:4] = [np.iinfo(kind).min, np.iinfo(kind).max, bins, bins - 1]
    keep = rng.integers(0, 2, n).astype(np.int8)
    out = on(poisoned((3, bins), np.int32))
    histograms[(1,)](on(x), on(keep), out, n, bins, num_warps=num_warps)
    wide = x.astype(object)
    def count(of):
        return np.bincount([int(v) for v in of if 0 <= v < bins], minlength=bins).astype(np.int32)
    all_of, kept = count(wide), count(wide[keep != 0])
    same(on.back(out), np.stack([all_of, kept, all_of * 2 - count(wide[keep == 0])]))


@libtile.jit
def steps_to_one(n, most):
    count = 0
    while (n != 1) & (count < most):
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    return count


@libtile.jit
def quotient_and_rest(a, b):
    q = a // b
    return q, a - q * b


@libtile.jit
def both_orders(a0, a1, b0, b1):
    return a0 - b0, a1 - b1, tl.maximum(a0, b0), tl.maximum(a1, b1)


@libtile.jit
def maps(x, y, out, SIZE: tl.constexpr, SHAPE: tl.constexpr):
    i = tl.arange(0, SIZE).reshape(SHAPE)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.map_elementwise(steps_to_one, a, 1000))
    q, r = tl.map_elementwise(quotient_and_rest, a, b)
    tl.store(out + SIZE + i, q)
    tl.store(out + 2 * SIZE + i, r)
    d, m = tl.map_elementwise(both_orders, a, b, pack=2)
    tl.store(out + 3 * SIZE + i, d)
    tl.store(out + 4 * SIZE + i, m)
    one = tl.map_elementwise(steps_to_one, tl.load(x), 1000)
    tl.store(out + 5 * SIZE, one)


@everywhere
@pytest.mark.parametrize("shape", [(1,), (64,), (7, 9), (16, 32), (1000,)], ids=str)
@pytest.mark.parametrize("num_warps", [1, 4])
def test_map_elementwise(device, shape, num_warps):
    on = OnDevice(device)
    rng, size = np.random.default_rng(1), math.prod(shape)
    a, b = (rng.integers(1, 10000, shape).astype(np.int32) for _ in range(2))
    out = on(poisoned(5 * size + 1, np.int32))
    maps[(1,)](on(a), on(b), out, size, shape, num_warps=num_warps)
    def steps(n):
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count
    counts = np.array([steps(int(n)) for n in a.ravel()])
    wants = [counts, a // b, a % b, a - b, np.maximum(a, b)]
    same(on.back(out), np.concatenate([w.ravel() for w in wants] + [counts[:1]]).astype(np.int32))


@libtile.jit
def selu(x, alpha):
    if x > 0:
        return x
    else:
        return alpha * (tl.exp(x) - 1)


@libtile.jit
def maps_floats(x, out, alpha, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(selu, tl.load(x + i), alpha))


@everywhere
@pytest.mark.parametrize("n", [32, 257])
def test_map_elementwise_on_floats(device, n):
    on = OnDevice(device)
    x = np.random.default_rng(2).standard_normal(n).astype(F32)
    out = on(poisoned(n, F32))
    maps_floats[(1,)](on(x), out, 1.5, n)
    want = np.where(x > 0, x, 1.5 * np.expm1(x.astype(F64)))
    np.testing.assert_allclose(on.back(out), want, rtol=1e-5, atol=1e-6)


@libtile.jit
def long_straight(a, b):
    for k in tl.static_range(50):
        a = (a * 3 + (b ^ k)) & 0xffff
    return a, a > b, a - b


@libtile.jit
def long_parting(a, b):
    first, big, least = long_straight(a, b)
    while first > b:
        first //= 2
    return first, big, least


@libtile.jit
def long_maps(x, y, out, SIZE: tl.constexpr, SHAPE: tl.constexpr, function: tl.constexpr):
    i = tl.arange(0, SIZE).reshape(SHAPE)
    first, big, least = tl.map_elementwise(function, tl.load(x + i), tl.load(y + i))
    tl.store(out + i, first)
    tl.store(out + SIZE + i, big.to(tl.int32))
    tl.store(out + 2 * SIZE + i, least)


@everywhere
@pytest.mark.parametrize("shape", [(1,), (32,), (7, 9), (16, 32), (1000,)], ids=str)
@pytest.mark.parametrize("function", [long_straight, long_parting], ids=lambda function: function.fn.__name__)
@pytest.mark.parametrize("num_warps", [1, 4])
def test_map_elementwise_of_long_bodies(device, shape, function, num_warps):
    on = OnDevice(device)
    rng, size = np.random.default_rng(3), math.prod(shape)
    a, b = (rng.integers(1, 50000, size).astype(np.int32) for _ in range(2))
    out = on(poisoned(3 * size, np.int32))
    long_maps[(1,)](on(a), on(b), out, size, shape, function, num_warps=num_warps)
    first = a.astype(np.int64)
    for k in range(50):
        first = (first * 3 + (b ^ k)) & 0xffff
    big, least = first > b, first - b
    while function is long_parting and (first > b).any():
        first = np.where(first > b, first // 2, first)
    same(on.back(out), np.concatenate([first, big, least]).astype(np.int32))


@pytest.mark.parametrize("function", [long_straight, long_parting], ids=lambda function: function.fn.__name__)
def test_long_bodies_are_not_repeated(function):
    few, many = (long_maps.warmup("*i32", "*i32", "*i32", SIZE=size, SHAPE=(size,), function=function, num_warps=1,
                                  target="sm_90a", grid=(1,)).asm["ptx"].count("xor.b32") for size in (32, 512))
    assert 40 < many < 2 * few


@libtile.jit
def assembly_words(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    r = tl.inline_asm_elementwise("shf.l.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r", [a, b, i], dtype=tl.int32,
                                  is_pure=True, pack=1)
    tl.store(out + i, r)
    less, more = tl.inline_asm_elementwise("""
        sub.u32 $0, $2, $3;   // both orders
        sub.u32 $1, $3, $2;
    """, "=&r,=r,r,r", [a, b], dtype=(tl.int32, tl.int32), is_pure=True, pack=1)
    tl.store(out + N + i, less)
    tl.store(out + 2 * N + i, more)
    odd = tl.inline_asm_elementwise("""{
        .reg .pred p;
        .reg .b32 t<2>;
        and.b32 t0, $1, 1;
        setp.eq.s32 p, t0, 1;
        mad.lo.s32 $0, $1, 3, 1;
        @!p shr.s32 $0, $1, 1;
    }""", "=&r,r", [a], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + 3 * N + i, odd)
    tl.store(out + 4 * N + i, tl.inline_asm_elementwise("lop3.b32 $0, $1, $2, $3, 0xE8;", "=r,r,r,r", [a, b, i],
                                                        dtype=tl.int32, is_pure=True, pack=1))
    tl.store(out + 5 * N + i, tl.inline_asm_elementwise("prmt.b32 $0, $1, $2, 0x6420;", "=r,r,r", [a, b],
                                                        dtype=tl.int32, is_pure=True, pack=1))
    one = tl.inline_asm_elementwise("mul.hi.u32 $0, $1, $2;", "=r,r,r", [tl.load(x), tl.load(y)], tl.int32, True, 1)
    tl.store(out + 6 * N + i, one)


@everywhere
@pytest.mark.parametrize("n", [1, 64, 100, 1024])
def test_inline_assembly_on_words(device, n):
    on = OnDevice(device)
    a, b = numbers(n, np.int32), numbers(n, np.int32, 1)
    out = on(poisoned((7, n), np.int32))
    assembly_words[(1,)](on(a), on(b), out, n)
    i, u, v = np.arange(n, dtype=np.uint64), a.view(np.uint32).astype(np.uint64), b.view(np.uint32).astype(np.uint64)
    shifted = ((v << 32 | u) << (i & 31)) >> 32
    bits = (u & v) | (u & i) | (v & i)
    picked = (u & 255) | (u >> 8 & 0xFF00) | (v & 255) << 16 | (v >> 16 & 255) << 24
    wants = [shifted, u - v, v - u, np.where(a & 1, 3 * a.astype(np.int64) + 1, a >> 1).astype(np.uint64), bits, picked,
             np.full(n, u[0] * v[0] >> 32)]
    same(on.back(out), np.stack([(want & 0xFFFFFFFF).astype(np.uint32).view(np.int32) for want in wants]))


@libtile.jit
def assembly_packed(x, y, out, wide, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    # Four bytes to a register.
    tl.store(out + i, tl.inline_asm_elementwise("and.b32 $0, $1, 0x1F1F1F1F; shl.b32 $0, $0, 3;", "=r,r", [a],
                                                dtype=tl.int8, is_pure=True, pack=4))
    # Bytes and halves: two registers of halves for one of bytes.
    b = tl.load(y + i)
    h, g = tl.inline_asm_elementwise("""{
        .reg .b8 b<4>;
        .reg .b16 h<4>;
        .reg .b16 k<4>;
        mov.b32 {b0, b1, b2, b3}, $4;
        mov.b32 {k0, k1}, $5;
        mov.b32 {k2, k3}, $6;
        cvt.s16.s8 h0, b0;
        cvt.s16.s8 h1, b1;
        cvt.s16.s8 h2, b2;
        cvt.s16.s8 h3, b3;
        add.s16 h0, h0, k0;
        add.s16 h1, h1, k1;
        add.s16 h2, h2, k2;
        add.s16 h3, h3, k3;
        mov.b32 $0, {h0, h1};
        mov.b32 $1, {h2, h3};
        mov.b32 $2, $5;
        mov.b32 $3, $6;
    }""", "=&r,=&r,=&r,=&r,r,r,r", [a, b], dtype=(tl.int16, tl.int16), is_pure=True, pack=4)
    tl.store(wide + i, h)
    tl.store(wide + N + i, g)


@everywhere
@pytest.mark.parametrize("n", [4, 6, 64, 100, 1024])
def test_inline_assembly_on_packed_elements(device, n):
    on = OnDevice(device)
    a, b = numbers(n, np.int8), numbers(n, np.int16, 1)
    out, wide = on(poisoned(n, np.int8)), on(poisoned((2, n), np.int16))
    assembly_packed[(1,)](on(a), on(b), out, wide, n)
    same(on.back(out), ((a.view(np.uint8) & 31) << 3).view(np.int8))
    same(on.back(wide), np.stack([a.astype(np.int16) + b, b]))


@libtile.jit
def assembly_floats(x, y, out, narrow, back, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.inline_asm_elementwise("fma.rn.f32 $0, $1, $2, $1;", "=f,f,f", [a, b], tl.float32, True, 1))
    tl.store(out + N + i, tl.inline_asm_elementwise("max.f32 $0, $1, $2;", "=f,f,f", [a, 0.5], tl.float32, True, 1))
    tl.store(narrow + i, tl.inline_asm_elementwise("cvt.rn.f16.f32 $0, $1;", "=h,f", [a], tl.float16, True, 1))
    tl.store(back + i, tl.inline_asm_elementwise("cvt.rzi.s32.f32 $0, $1;", "=r,f", [a * 100], tl.int32, True, 1))


@everywhere
@pytest.mark.parametrize("n", [33, 256])
def test_inline_assembly_on_floats(device, n):
    on = OnDevice(device)
    a, b = numbers(n, F32), numbers(n, F32, 1)
    out, narrow, back = on(poisoned((2, n), F32)), on(poisoned(n, F16)), on(poisoned(n, np.int32))
    assembly_floats[(1,)](on(a), on(b), out, narrow, back, n)
    fused = (a.astype(F64) * b + a).astype(F32)
    np.testing.assert_allclose(on.back(out)[0], fused, rtol=1e-7)
    same(on.back(out)[1], np.maximum(a, F32(0.5)))
    same(on.back(narrow), a.astype(F16))
    same(on.back(back), (a * F32(100)).astype(np.int32))


@libtile.jit
def assembly_unknown(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    r = tl.inline_asm_elementwise("popc.b32 $0, $1;", "=r,r", [tl.load(x + i)], tl.int32, True, 1)  # here
    tl.store(out + i, r)


def test_an_instruction_that_the_cpu_does_not_know():
    with pytest.raises(libtile.UnsupportedError, match="inline assembly on a CPU: `popc.b32 .0, .1` is an instruction") as caught:
        assembly_unknown[(1,)](np.zeros(8, np.int32), np.zeros(8, np.int32), 8)
    assert "# here" in str(caught.value)
    assert "popc.b32" in assembly_unknown.warmup("*i32", "*i32", N=64, grid=(1,), target="sm_80").asm["ptx"]
