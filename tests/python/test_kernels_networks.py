# SPDX-License-Identifier: Apache-2.0
"""Kernels as neural networks use them, written as users write them, against NumPy in float64."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, ROUNDING, TINY, OnDevice, poisoned, random

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
floats = pytest.mark.parametrize("dtype", [F32, F16, BF16])


def close(got, want, dtype, factor, scale=None):
    """|got - want| is at most factor f32 roundings of the scale, and one rounding to dtype."""
    got, want = got.astype(np.float64), np.asarray(want, np.float64)
    scale = np.abs(want) if scale is None else scale
    room = scale * factor * ROUNDING[F32] + 1.01 * ROUNDING[dtype] * np.abs(want) + TINY[dtype]
    worst = np.max(np.abs(got - want) - room)
    assert worst <= 0, f"off by {worst} more than {room.max()}"


# ---- attention: a loop over blocks of keys, two dots, and a softmax that is corrected as it goes

@libtile.jit
def attention(q, k, v, out, scale, seq_q, seq_k, stride_h, HEAD: tl.constexpr, BLOCK_Q: tl.constexpr,
              BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr):
    start = tl.program_id(0) * BLOCK_Q
    head = tl.program_id(1)
    rows = start + tl.arange(0, BLOCK_Q)
    dims = tl.arange(0, HEAD)
    q_ptrs = q + head * stride_h + rows[:, None] * HEAD + dims[None, :]
    queries = tl.load(q_ptrs, mask=rows[:, None] < seq_q, other=0.0)
    largest = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD), tl.float32)
    end = min(seq_k, start + BLOCK_Q) if CAUSAL else seq_k
    for first in range(0, end, BLOCK_K):
        cols = first + tl.arange(0, BLOCK_K)
        inside = cols < seq_k
        k_ptrs = k + head * stride_h + cols[None, :] * HEAD + dims[:, None]
        keys = tl.load(k_ptrs, mask=inside[None, :], other=0.0)
        scores = tl.dot(queries, keys, input_precision="ieee") * (scale * 1.4426950408889634)
        visible = inside[None, :]
        if CAUSAL:
            visible = visible & (rows[:, None] >= cols[None, :])
        scores = tl.where(visible, scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_largest[:, None])
        correction = tl.exp2(largest - new_largest)
        total = total * correction + tl.sum(weights, axis=1)
        values = tl.load(v + head * stride_h + cols[:, None] * HEAD + dims[None, :],
                         mask=inside[:, None], other=0.0)
        acc = tl.dot(weights.to(values.dtype), values, acc * correction[:, None], input_precision="ieee")
        largest = new_largest
    acc = acc / total[:, None]
    out_ptrs = out + head * stride_h + rows[:, None] * HEAD + dims[None, :]
    tl.store(out_ptrs, acc.to(out.dtype.element_ty), mask=rows[:, None] < seq_q)


def attention_reference(q, k, v, scale, causal):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights @ v, weights @ np.abs(v)


@everywhere
@floats
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seq, head, block_q, block_k", [(1, 16, 16, 16), (65, 32, 32, 16),
                                                         (100, 64, 64, 32), (77, 24, 20, 12)])
def test_attention(device, dtype, causal, seq, head, block_q, block_k):
    rng = np.random.default_rng(seq + head)
    heads = 2
    q, k, v = (random(rng, (heads, seq, head), dtype) for _ in range(3))
    on = OnDevice(device)
    out = on(poisoned(q.shape, dtype))
    attention[(libtile.cdiv(seq, block_q), heads)](
        on(q), on(k), on(v), out, head**-0.5, seq, seq, seq * head, HEAD=head, BLOCK_Q=block_q,
        BLOCK_K=block_k, CAUSAL=causal)
    want, scale = attention_reference(q, k, v, head**-0.5, causal)
    # The weights are rounded to the type of the values before the second dot.
    close(on.back(out), want, dtype, 100 + seq + 3 * ROUNDING[dtype] / ROUNDING[F32], scale)


# ---- RMS norm of the input plus a residual, which is updated in place

@libtile.jit
def rms_norm(x, residual, weight, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * cols
    residual += row * cols
    i = tl.arange(0, BLOCK)
    mask = i < cols
    total = tl.load(x + i, mask).to(tl.float32) + tl.load(residual + i, mask).to(tl.float32)
    tl.store(residual + i, total, mask)
    rounded = total.to(residual.dtype.element_ty).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(rounded * rounded) / cols + eps)
    tl.store(out + row * cols + i, rounded * rstd * tl.load(weight + i, mask), mask)


@everywhere
@floats
@pytest.mark.parametrize("rows, cols, block", [(1, 1, 1), (3, 100, 128), (5, 999, 1000), (2, 4096, 4096)])
def test_rms_norm_with_a_residual_in_place(device, dtype, rows, cols, block):
    rng = np.random.default_rng(cols)
    x, residual = (random(rng, (rows, cols), dtype) for _ in range(2))
    weight = random(rng, (cols,), dtype)
    on = OnDevice(device)
    kept, out = on(residual.copy()), on(poisoned(x.shape, dtype))
    rms_norm[(rows,)](on(x), kept, on(weight), out, cols, 1e-5, BLOCK=block)
    total = (x.astype(F32) + residual.astype(F32)).astype(dtype)
    np.testing.assert_array_equal(on.back(kept), total)
    wide = total.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * weight.astype(np.float64)
    close(on.back(out), want, dtype, 20 + np.log2(cols))


# ---- cross entropy with a log-sum-exp that goes along the row in blocks

@libtile.jit
def cross_entropy(logits, labels, loss, grad, cols, IGNORE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels + row)
    logits += row * cols
    grad += row * cols
    offs = tl.arange(0, BLOCK)
    if label == IGNORE:
        tl.store(loss + row, 0.0)
        for start in range(0, cols, BLOCK):
            tl.store(grad + start + offs, tl.zeros((BLOCK,), tl.float32), mask=start + offs < cols)
        return
    largest = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        x = tl.load(logits + start + offs, mask=start + offs < cols, other=-float("inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(x))
        total = total * tl.exp(largest - new_largest) + tl.sum(tl.exp(x - new_largest))
        largest = new_largest
    lse = largest + tl.log(total)
    tl.store(loss + row, lse - tl.load(logits + label).to(tl.float32))
    for start in range(0, cols, BLOCK):
        i = start + offs
        x = tl.load(logits + i, mask=i < cols, other=-float("inf")).to(tl.float32)
        tl.store(grad + i, tl.exp(x - lse) - tl.where(i == label, 1.0, 0.0), mask=i < cols)


@everywhere
@floats
@pytest.mark.parametrize("cols, block", [(1, 16), (50, 64), (1000, 128), (130, 32)])
def test_cross_entropy(device, dtype, cols, block):
    rng = np.random.default_rng(cols)
    rows = 6
    x = random(rng, (rows, cols), dtype)
    labels = rng.integers(0, cols, rows)
    labels[2] = -100
    on = OnDevice(device)
    loss, grad = on(poisoned(rows, F32)), on(poisoned(x.shape, F32))
    cross_entropy[(rows,)](on(x), on(labels), loss, grad, cols, IGNORE=-100, BLOCK=block)
    wide = x.astype(np.float64)
    lse = np.log(np.exp(wide).sum(1))
    used = labels >= 0
    want = np.where(used, lse - wide[np.arange(rows), np.maximum(labels, 0)], 0)
    soft = np.exp(wide - lse[:, None]) - (np.arange(cols) == labels[:, None])
    close(on.back(loss), want, F32, 40, scale=np.abs(want) + np.abs(lse) + np.abs(wide).max())
    close(on.back(grad), soft * used[:, None], F32, 60, scale=np.float64(8))


# ---- GEMV, batched products, products of dequantised weights

@libtile.jit
def gemv(a, x, y, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, cols, BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        mask = (i[:, None] < rows) & (j[None, :] < cols)
        acc += tl.load(a + i[:, None] * cols + j, mask).to(tl.float32) * tl.load(x + j, j < cols)
    tl.store(y + i, tl.sum(acc, axis=1), i < rows)


@everywhere
@floats
@pytest.mark.parametrize("rows, cols, blocks", [(1, 1, (4, 8)), (33, 100, (8, 32)), (64, 257, (13, 24))])
def test_gemv(device, dtype, rows, cols, blocks):
    rng = np.random.default_rng(rows)
    a, x = random(rng, (rows, cols), dtype), random(rng, (cols,), dtype)
    on = OnDevice(device)
    y = on(poisoned(rows, dtype))
    gemv[(libtile.cdiv(rows, blocks[0]),)](on(a), on(x), y, rows, cols, *blocks)
    wide_a, wide_x = a.astype(np.float64), x.astype(np.float64)
    close(on.back(y), wide_a @ wide_x, dtype, cols + 2, np.abs(wide_a) @ np.abs(wide_x))


@libtile.jit
def batched(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.program_id(0)
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + batch * M * K + m[:, None] * K + k[None, :])
    y = tl.load(b + batch * K * N + k[:, None] * N + n[None, :])
    tl.store(c + batch * M * N + m[:, None] * N + n[None, :], tl.dot(x, y, input_precision="ieee"))


@everywhere
@floats
@pytest.mark.parametrize("m, n, k", [(7, 13, 5), (1, 16, 1), (16, 16, 16), (33, 17, 65), (3, 100, 2)])
def test_batched_products_of_whole_tiles(device, dtype, m, n, k):
    rng = np.random.default_rng(m * n)
    a, b = random(rng, (5, m, k), dtype), random(rng, (5, k, n), dtype)
    on = OnDevice(device)
    c = on(poisoned((5, m, n), F32))
    batched[(5,)](on(a), on(b), c, m, n, k)
    a, b = a.astype(np.float64), b.astype(np.float64)
    close(on.back(c), a @ b, F32, k + 1, np.abs(a) @ np.abs(b))


@libtile.jit
def dequantised(x, q, scales, zeros, out, M, N, K, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
                BLOCK_N: tl.constexpr):
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, GROUP)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for group in range(K // GROUP):
        k = group * GROUP + rk
        a = tl.load(x + rm[:, None] * K + k[None, :], mask=rm[:, None] < M, other=0.0)
        w = tl.load(q + k[:, None] * N + rn[None, :], mask=rn[None, :] < N, other=0)
        scale = tl.load(scales + group * N + rn, mask=rn < N, other=0.0)
        zero = tl.load(zeros + group * N + rn, mask=rn < N, other=0)
        b = (w.to(tl.float32) - zero[None, :].to(tl.float32)) * scale[None, :]
        acc += tl.dot(a, b.to(a.dtype), input_precision="ieee")
    tl.store(out + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@everywhere
@floats
def test_a_product_with_weights_of_8_bits_and_scales(device, dtype):
    rng = np.random.default_rng(8)
    m, n, k, group = 37, 50, 96, 32
    x = random(rng, (m, k), dtype)
    q, zeros = random(rng, (k, n), np.int8), random(rng, (k // group, n), np.int8)
    scales = rng.uniform(0.001, 0.01, (k // group, n)).astype(F32)
    on = OnDevice(device)
    out = on(poisoned((m, n), F32))
    dequantised[(3, 4)](on(x), on(q), on(scales), on(zeros), out, m, n, k, GROUP=group, BLOCK_M=16,
                        BLOCK_N=16)
    wide = np.repeat(zeros, group, 0).astype(F32), np.repeat(scales, group, 0)
    b = ((q.astype(F32) - wide[0]) * wide[1]).astype(dtype).astype(np.float64)
    a = x.astype(np.float64)
    close(on.back(out), a @ b, F32, k + 4, np.abs(a) @ np.abs(b))


# ---- a convolution whose inputs are gathered by computed indices (im2col)

@libtile.jit
def convolution(x, w, y, C: tl.constexpr, H, W, OC, KH: tl.constexpr, KW: tl.constexpr, pad,
                BLOCK_P: tl.constexpr, BLOCK_OC: tl.constexpr, BLOCK_R: tl.constexpr):
    out_w = W + 2 * pad - KW + 1
    out_h = H + 2 * pad - KH + 1
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    channel = tl.program_id(1) * BLOCK_OC + tl.arange(0, BLOCK_OC)
    oy, ox = pixel // out_w, pixel % out_w
    R: tl.constexpr = C * KH * KW
    acc = tl.zeros((BLOCK_P, BLOCK_OC), tl.float32)
    for first in tl.static_range(0, R, BLOCK_R):
        r = first + tl.arange(0, BLOCK_R)
        c, ky, kx = r // (KH * KW), r // KW % KH, r % KW
        iy = oy[:, None] + ky[None, :] - pad
        ix = ox[:, None] + kx[None, :] - pad
        inside = (iy >= 0) & (iy < H) & (ix >= 0) & (ix < W) & (r[None, :] < R)
        patch = tl.load(x + c[None, :] * H * W + iy * W + ix, mask=inside, other=0.0)
        weights = tl.load(w + channel[None, :] * R + r[:, None],
                          mask=(channel[None, :] < OC) & (r[:, None] < R), other=0.0)
        acc = tl.dot(patch, weights, acc, input_precision="ieee")
    mask = (pixel[:, None] < out_h * out_w) & (channel[None, :] < OC)
    tl.store(y + channel[None, :] * out_h * out_w + pixel[:, None], acc, mask=mask)


@everywhere
@floats
@pytest.mark.parametrize("pad", [0, 1])
def test_convolution(device, dtype, pad):
    rng = np.random.default_rng(pad)
    c, h, w, oc, kh, kw = 3, 9, 11, 10, 3, 2
    x, weights = random(rng, (c, h, w), dtype), random(rng, (oc, c, kh, kw), dtype)
    oh, ow = h + 2 * pad - kh + 1, w + 2 * pad - kw + 1
    on = OnDevice(device)
    y = on(poisoned((oc, oh, ow), F32))
    convolution[(libtile.cdiv(oh * ow, 32), 1)](on(x), on(weights), y, c, h, w, oc, kh, kw, pad,
                                                BLOCK_P=32, BLOCK_OC=16, BLOCK_R=16)
    padded = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), axis=(1, 2))
    want = np.einsum("cyxij,ocij->oyx", windows, weights.astype(np.float64))
    scale = np.einsum("cyxij,ocij->oyx", np.abs(windows), np.abs(weights.astype(np.float64)))
    close(on.back(y), want, F32, c * kh * kw + 2, scale)


# ---- dropout by a hash of the position

@libtile.jit
def hashed(x):
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@libtile.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = hashed(i.to(tl.uint32) + seed.to(tl.uint32) * 0x9E3779B9)
    keep = (bits >> 8).to(tl.float32) * (1.0 / 16777216.0) >= p
    tl.store(out + i, tl.where(keep, tl.load(x + i, i < n) / (1 - p), 0.0), i < n)


@everywhere
@pytest.mark.parametrize("n, block", [(1000, 256), (777, 100)])
def test_dropout_by_a_hash(device, n, block):
    rng = np.random.default_rng(n)
    x = random(rng, n, F32)
    on = OnDevice(device)
    out = on(poisoned(n, F32))
    dropout[(libtile.cdiv(n, block),)](on(x), out, n, 0.25, 12345, BLOCK=block)
    with np.errstate(over="ignore"):
        h = np.arange(n, dtype=np.uint32) + np.uint32(12345) * np.uint32(0x9E3779B9)
        h = (h ^ (h >> 16)) * np.uint32(0x7FEB352D)
        h = (h ^ (h >> 15)) * np.uint32(0x846CA68B)
        h = h ^ (h >> 16)
    keep = (h >> 8) / 2.0**24 >= 0.25
    close(on.back(out), np.where(keep, x.astype(np.float64) / 0.75, 0), F32, 3)
    assert 0.6 < keep.mean() < 0.9


# ---- everything in bf16: rotary embedding and a gated activation

@libtile.jit
def rotate_and_gate(x, cos, sin, gate, out, HALF: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, HALF)
    first = tl.load(x + row * 2 * HALF + i)
    second = tl.load(x + row * 2 * HALF + HALF + i)
    c, s = tl.load(cos + row * HALF + i), tl.load(sin + row * HALF + i)
    g = tl.load(gate + row * HALF + i)
    silu = g / (1 + tl.exp(-g))
    tl.store(out + row * 2 * HALF + i, (first * c - second * s) * silu)
    tl.store(out + row * 2 * HALF + HALF + i, (second * c + first * s) * silu)


@everywhere
@pytest.mark.parametrize("half", [1, 24, 64])
def test_arithmetic_in_bf16_rounds_each_operation(device, half):
    rng = np.random.default_rng(half)
    rows = 7
    x = random(rng, (rows, 2 * half), BF16)
    cos, sin, gate = (random(rng, (rows, half), BF16) for _ in range(3))
    on = OnDevice(device)
    out = on(poisoned(x.shape, BF16))
    rotate_and_gate[(rows,)](on(x), on(cos), on(sin), on(gate), out, HALF=half)
    wide = [a.astype(np.float64) for a in (x[:, :half], x[:, half:], cos, sin, gate)]
    first, second, c, s, g = wide
    silu = g / (1 + np.exp(-g))
    want = np.concatenate([(first * c - second * s) * silu, (second * c + first * s) * silu], axis=1)
    scale = np.concatenate([(np.abs(first * c) + np.abs(second * s)) * np.abs(silu),
                            (np.abs(second * c) + np.abs(first * s)) * np.abs(silu)], axis=1)
    assert (np.abs(on.back(out).astype(np.float64) - want) <= 8 * ROUNDING[BF16] * scale + 1e-30).all()
