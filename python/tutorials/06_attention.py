# SPDX-License-Identifier: Apache-2.0
"""Lesson 6: attention, forward and backward, without its matrix of scores.

softmax(Q K^T) V has a score for each pair of a query and a key: for 4,096 of them 16 million for each
head, written and read several times by the plain formula. Here a program keeps BLOCK_M queries and
goes over the keys in blocks. It carries the largest score so far, the sum of exponentials relative to
it, and the output so far, and scales both whenever a larger score turns up. So a score lives for one
iteration, in registers.

Backward the scores are computed again, from the logarithm of each row's sum, which is all that is
kept. A program has a block of keys and values and goes over the queries; it owns the gradients of its
keys and values, and adds to those of the queries, where all programs meet, with atomics. New here: a
dot whose result feeds another dot, numbers that a loop rescales, atomics on tiles, a 2-D grid.

    python 06_attention.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def attention(q, k, v, out, lse, n, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              CAUSAL: tl.constexpr, GROUP: tl.constexpr = 1):
    # The heads lie one behind the other: arrays of [heads, n, D]. GROUP heads of queries share one of keys and values.
    head = tl.program_id(1).to(tl.int64) * n
    shared = tl.program_id(1).to(tl.int64) // GROUP * n
    first = tl.program_id(0) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    queries = tl.load(q + (head + rows[:, None]) * D + d[None, :], mask=rows[:, None] < n)
    # Powers of 2 are cheaper than powers of e; log2(e) goes into the scale.
    scale_log2 = scale * 1.4426950408889634
    largest = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    # With a causal mask no query looks at keys behind it.
    end = tl.minimum(first + BLOCK_M, n) if CAUSAL else n
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        is_key = cols[:, None] < n
        keys = tl.load(k + (shared + cols[:, None]) * D + d[None, :], mask=is_key, other=0.0)
        scores = tl.dot(queries, keys.T) * scale_log2
        seen = (cols[None, :] <= rows[:, None]) & (cols[None, :] < n) if CAUSAL else cols[None, :] < n
        scores = tl.where(seen, scores, -float("inf"))
        # A key is seen by each row in the first block, so that the largest score is a number from there on.
        grown = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - grown[:, None])
        shrink = tl.exp2(largest - grown)
        total = total * shrink + tl.sum(p, axis=1)
        values = tl.load(v + (shared + cols[:, None]) * D + d[None, :], mask=is_key, other=0.0)
        acc = tl.dot(p.to(values.dtype), values, acc * shrink[:, None])
        largest = grown
    tl.store(lse + head + rows, largest + tl.log2(total), mask=rows < n)
    result = acc / total[:, None]
    tl.store(out + (head + rows[:, None]) * D + d[None, :], result.to(out.dtype.element_ty), mask=rows[:, None] < n)


@libtile.jit
def row_products(out, dout, delta, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    """delta = the sum of out * dout along each row: what the softmax's own gradient subtracts."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = row[:, None] * D + tl.arange(0, D)[None, :]
    a = tl.load(out + i, mask=row[:, None] < rows, other=0.0).to(tl.float32)
    b = tl.load(dout + i, mask=row[:, None] < rows, other=0.0).to(tl.float32)
    tl.store(delta + row, tl.sum(a * b, axis=1), mask=row < rows)


@libtile.jit
def attention_backward(q, k, v, dout, lse, delta, dq, dk, dv, n, scale, D: tl.constexpr, BLOCK_M: tl.constexpr,
                       BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * n
    first = tl.program_id(0) * BLOCK_N
    cols = first + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    at_keys = (head + cols[:, None]) * D + d[None, :]
    is_key = cols[:, None] < n
    keys = tl.load(k + at_keys, mask=is_key, other=0.0)
    values = tl.load(v + at_keys, mask=is_key, other=0.0)
    dkeys = tl.zeros([BLOCK_N, D], tl.float32)
    dvalues = tl.zeros([BLOCK_N, D], tl.float32)
    # Queries in front of the block see none of its keys.
    begin = first // BLOCK_M * BLOCK_M if CAUSAL else 0
    for start in range(begin, n, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        at_queries = (head + rows[:, None]) * D + d[None, :]
        is_query = rows[:, None] < n
        queries = tl.load(q + at_queries, mask=is_query, other=0.0)
        doutputs = tl.load(dout + at_queries, mask=is_query, other=0.0)
        row_lse = tl.load(lse + head + rows, mask=rows < n, other=0.0)
        row_delta = tl.load(delta + head + rows, mask=rows < n, other=0.0)
        scores = tl.dot(queries, keys.T) * (scale * 1.4426950408889634)
        seen = is_query & (cols[None, :] < n)
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        p = tl.where(seen, tl.exp2(scores - row_lse[:, None]), 0.0)
        dvalues = tl.dot(p.to(doutputs.dtype).T, doutputs, dvalues)
        dp = tl.dot(doutputs, values.T)
        dscores = (p * (dp - row_delta[:, None]) * scale).to(queries.dtype)
        dkeys = tl.dot(dscores.T, queries, dkeys)
        tl.atomic_add(dq + at_queries, tl.dot(dscores, keys), mask=is_query, sem="relaxed")
    tl.store(dk + at_keys, dkeys.to(dk.dtype.element_ty), mask=is_key)
    tl.store(dv + at_keys, dvalues.to(dv.dtype.element_ty), mask=is_key)


def run(q, k, v, out, lse, causal, block_m=64, block_n=64):
    """out = softmax(q k^T / sqrt(D)) v for each of the heads; arrays of [heads, n, D], D a power of two.

    k and v may have fewer heads than q, a divisor of them: each is shared by heads of q that follow one another.
    lse: fp32 [heads, n], the logarithms to base 2 of the sums, for the way back.
    """
    heads, n, d = q.shape
    attention[(libtile.cdiv(n, block_m), heads)](q, k, v, out, lse, n, d**-0.5, D=d, BLOCK_M=block_m,
                                                 BLOCK_N=block_n, CAUSAL=causal, GROUP=heads // k.shape[0])
    return out, lse


def run_backward(q, k, v, out, lse, dout, delta, dq, dk, dv, causal, block_m=64, block_n=64):
    """The gradients of a loss whose gradient by `out` is dout, where each head of q has its own k and v.

    dq: fp32 and zero before the call; delta: as lse.
    """
    heads, n, d = q.shape
    row_products[(libtile.cdiv(heads * n, 64),)](out, dout, delta, heads * n, D=d, BLOCK=64)
    attention_backward[(libtile.cdiv(n, block_n), heads)](q, k, v, dout, lse, delta, dq, dk, dv, n, d**-0.5, D=d,
                                                          BLOCK_M=block_m, BLOCK_N=block_n, CAUSAL=causal)
    return dq, dk, dv


def reference(q, k, v, dout, causal):
    """In float64, with NumPy, by the plain formula: out, dq, dk, dv."""
    q, k, v, dout = (array.astype(np.float64) for array in (q, k, v, dout))
    n, d = q.shape[1:]
    scores = q @ k.swapaxes(1, 2) * d**-0.5
    if causal:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    out = p @ v
    dp = dout @ v.swapaxes(1, 2)
    dscores = p * (dp - (out * dout).sum(axis=2, keepdims=True)) * d**-0.5
    return out, dscores @ k, dscores.swapaxes(1, 2) @ q, p.swapaxes(1, 2) @ dout


def check(device):
    rng = np.random.default_rng(0)
    # fp16 rounds the operands of the dots, P and dS among them, and the results: each by 2^-11.
    for shape, causal, dtype in (((2, 1, 16), False, np.float32), ((3, 200, 32), False, np.float32),
                                 ((2, 333, 64), True, np.float32), ((2, 130, 64), True, np.float16)):
        tolerance = 2e-5 if dtype == np.float32 else 6e-3
        inputs = [rng.standard_normal(shape).astype(dtype) for _ in range(4)]
        wants = reference(*inputs, causal)
        q, k, v, dout = lesson.place(device, *inputs)
        out, lse = lesson.place(device, lesson.unwritten(shape, dtype), lesson.unwritten(shape[:2]))
        run(q, k, v, out, lse, causal)
        outputs = lesson.place(device, lesson.unwritten(shape[:2]), np.zeros(shape, np.float32),
                               *(lesson.unwritten(shape, dtype) for _ in range(2)))
        gradients = run_backward(q, k, v, out, lse, dout, *outputs, causal)
        for name, got, want in zip(("out", "dq", "dk", "dv"), (out, *gradients), wants):
            np.testing.assert_allclose(lesson.host(got), want, rtol=tolerance, atol=tolerance * max(np.abs(want).max(), 1),
                                       err_msg=name)
        print(f"{shape}, {np.dtype(dtype)}{', causal' * causal}, forward and backward: right")
    check_shared_heads(device, rng)


def check_shared_heads(device, rng):
    q, k, v = (rng.standard_normal((heads, 130, 32)).astype(np.float32) for heads in (6, 2, 2))
    out, lse = lesson.place(device, lesson.unwritten(q.shape), lesson.unwritten(q.shape[:2]))
    run(*lesson.place(device, q, k, v), out, lse, causal=True)
    want = reference(q, *(np.repeat(array, 3, axis=0) for array in (k, v)), q, causal=True)[0]
    np.testing.assert_allclose(lesson.host(out), want, rtol=2e-5, atol=2e-5)
    print("6 heads of queries, 2 of keys: right")


def by_numpy(q, k, v):
    scores = q @ k.swapaxes(1, 2) * np.float32(q.shape[2] ** -0.5)
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    return p @ v / p.sum(axis=2, keepdims=True)


def measure(n, provider, device):
    """Forward, D = 64: two products of n x n x D for each head."""
    rng = np.random.default_rng(0)
    shape, dtype = ((4, n, 64), np.float32) if device == "cpu" else ((64, n, 64), np.float16)
    q, k, v = (rng.standard_normal(shape).astype(dtype) for _ in range(3))
    q, k, v, out, lse = lesson.place(device, q, k, v, np.empty_like(q), np.empty(shape[:2], np.float32),
                                     provider=provider)
    blocks = (64, 128) if device == "cpu" else (128, 64)
    calls = {
        "libtile": lambda: run(q, k, v, out, lse, False, *blocks),
        "Triton": lambda: lesson.by_triton(__file__).run(q, k, v, out, lse, False, *blocks),
        "torch": lambda: lesson.torch().nn.functional.scaled_dot_product_attention(q[None], k[None], v[None]),
        "NumPy": lambda: by_numpy(q, k, v),
    }
    return lesson.rate(calls[provider], 4 * shape[0] * n * n * shape[2], device, provider)


if __name__ == "__main__":
    lesson.main(check, measure, "attention", "n", [128, 256, 512, 1024, 1500], "GFLOP/s")
