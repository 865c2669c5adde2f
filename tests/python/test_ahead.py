# SPDX-License-Identifier: Apache-2.0
"""Loops of dots, whose loads run ahead of them: that what an iteration reads is its own, whatever the loop does beside, against NumPy in
float64. Numbers are small integers, so that every product and sum is exact."""
import importlib
import re

import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
# Trips of a loop: none, one, two, more than there are stages, and a last one that is not whole.
DEPTHS = [0, 7, 16, 32, 80, 93]


def small(rng, *shape):
    return rng.integers(-4, 5, shape).astype(F16)


def launch(kernel, device, arrays, *arguments, **constants):
    """What the kernel leaves in the last array."""
    on = OnDevice(device)
    there = [on(a) for a in arrays]
    kernel[(1,)](*there, *arguments, **constants)
    return on.back(there[-1]).astype(F64)


def of(array):
    return array.astype(F64)


@libtile.jit
def product(a, b, c, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N), tl.arange(0, K)
    at, bt, acc = a + m * depth + k, b + k[:, None] * N + n, tl.zeros((M, N), tl.float32)
    for first in range(0, depth, K):
        acc = tl.dot(tl.load(at, first + k < depth, 0), tl.load(bt, (first + k)[:, None] < depth, 0), acc)
        at += K
        bt += K * N
    tl.store(c + m * N + n, acc)


@everywhere
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("m, n, warps", [(32, 32, 1), (64, 48, 4), (17, 33, 2), (32, 64, 8)])
def test_pointers_that_the_loop_carries(device, m, n, warps, depth):
    rng = np.random.default_rng(depth)
    a, b = small(rng, m, max(depth, 1)), small(rng, max(depth, 1), n)
    got = launch(product, device, [a, b, poisoned((m, n), F32)], depth, M=m, N=n, K=16, num_warps=warps)
    assert np.array_equal(got, of(a) @ of(b) if depth else np.zeros((m, n)))


@libtile.jit
def counting(a, b, c, depth, low, high, N: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr):
    n, k = tl.arange(0, N), tl.arange(0, K)
    at, bt, acc = a + n[:, None] * depth + k, b + k[:, None] * N + n, tl.zeros((N, N), tl.float32)
    for _ in range(low, high, STEP):
        acc = tl.dot(tl.load(at), tl.load(bt), acc)
        at += K
        bt += K * N
    tl.store(c + n[:, None] * N + n, acc)


LEAST, MOST = -2**31, 2**31 - 1


@everywhere
@pytest.mark.parametrize("low, high, step, trips", [
    (MOST - 40, MOST, 32, 2), (MOST - 32, MOST, 32, 1), (LEAST, LEAST + 33, 32, 2), (-20, 20, 32, 2), (LEAST, MOST, 2**30, 4), (LEAST, MOST, MOST, 3),
    (7, 7, 32, 0), (7, -7, 32, 0), (MOST, LEAST, 32, 0)])
def test_numbers_at_the_end_of_their_type(device, low, high, step, trips):
    """Nothing lies behind what the last iteration reads."""
    rng, n, k = np.random.default_rng(trips), 32, 16
    a, b = small(rng, n, max(trips, 1) * k), small(rng, max(trips, 1) * k, n)
    got = launch(counting, device, [a, b, poisoned((n, n), F32)], a.shape[1], low, high, N=n, K=k, STEP=step)
    assert np.array_equal(got, of(a) @ of(b) if trips else np.zeros((n, n)))


@everywhere
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [40, 128, 150])
def test_keys_ahead_of_values(device, n, causal):
    """So many columns leave AMD's threads registers for the next keys, and not for the next values."""
    rng, depth = np.random.default_rng(n), 128
    q, k, v = (rng.standard_normal((1, n, depth)).astype(F16) for _ in range(3))
    scores = of(q[0]) @ of(k[0]).T / np.sqrt(depth) + np.where(np.tri(n) if causal else True, 0, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    on = OnDevice(device)
    out, lse = on(poisoned((1, n, depth), F16)), on(poisoned((1, n), F32))
    importlib.import_module("06_attention").run(on(q), on(k), on(v), out, lse, causal, block_m=128)
    np.testing.assert_allclose(on.back(out)[0], weights / weights.sum(1, keepdims=True) @ of(v[0]), rtol=0, atol=4e-3)


@libtile.jit
def nested(a, b, c, blocks, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for block in range(blocks):
        acc = tl.zeros((M, N), tl.float32)
        for first in range(0, depth * (block % 3), K):
            inner = first + k
            x = tl.load(a + block * M * K + m * K + k)
            y = tl.load(b + inner[:, None] * N + n, inner[:, None] < depth * (block % 3), 0)
            acc = tl.dot(x, y, acc)
        left = tl.load(a + block * M * K + m * K + k)
        total = tl.dot(left, tl.load(b + (block * K + k[:, None]) * N + n), total + acc)
    tl.store(c + m * N + n, total)


@everywhere
@pytest.mark.parametrize("blocks, depth", [(0, 16), (1, 16), (5, 16), (4, 13), (4, 0)])
def test_a_loop_in_a_loop(device, blocks, depth):
    rng, m, n, k = np.random.default_rng(blocks), 32, 32, 16
    a, b = small(rng, max(blocks, 1), m, k), small(rng, 8 * k, n)
    want = np.zeros((m, n))
    for block in range(blocks):
        whole, end = of(b), depth * (block % 3)
        for first in range(0, end, k):
            rows = np.where(np.arange(first, first + k)[:, None] < end, whole[first:first + k], 0)
            want += of(a[block]) @ rows
        want += of(a[block]) @ whole[block * k:(block + 1) * k]
    got = launch(nested, device, [a, b, poisoned((m, n), F32)], blocks, depth, M=m, N=n, K=k)
    assert np.array_equal(got, want)


@libtile.jit
def chained(a, b, count, N: tl.constexpr, AHEAD: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)
    for step in range(count):
        x = tl.load(a + step * N * N + i * N + j)
        y = tl.dot(x, tl.load(b + i * N + j)).to(tl.float16)
        tl.store(a + (step + AHEAD) * N * N + i * N + j, y)


@everywhere
@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_what_the_loop_stores_it_loads_later(device, count, ahead):
    rng, n = np.random.default_rng(count), 32
    a = np.zeros((count + ahead + 1, n, n), F16)
    a[:ahead] = small(rng, ahead, n, n)
    b = np.roll(np.eye(n), 1, 0).astype(F16)
    want = of(a)
    for step in range(count):
        want[step + ahead] = want[step] @ of(b)
    on = OnDevice(device)
    there = [on(a), on(b)]
    chained[(1,)](*there, count, N=n, AHEAD=ahead, num_warps=4)
    assert np.array_equal(of(on.back(there[0])), want)


@libtile.jit
def branching(a, b, o, sums, count, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)
    acc = tl.zeros((N, N), tl.float32)
    for step in range(count):
        x, y = tl.load(a + step * N * N + i * N + j), tl.load(b + step * N * N + i * N + j)
        product = tl.dot(x, y)
        if step % 3 != 1:
            acc += tl.dot(product.to(tl.float16), x)
            tl.store(sums + step * N + tl.arange(0, N), tl.sum(product, 1))
        else:
            acc -= product
    tl.store(o + i * N + j, acc)


@everywhere
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_a_branch_in_the_loop(device, count, warps):
    rng, n = np.random.default_rng(count), 32
    a, b = (rng.integers(-1, 2, (max(count, 1), n, n)).astype(F16) for _ in range(2))
    sums, want = np.zeros((max(count, 1), n), F32), np.zeros((n, n))
    for step in range(count):
        made = of(a[step]) @ of(b[step])
        want += made @ of(a[step]) if step % 3 != 1 else -made
        sums[step] = made.sum(1) if step % 3 != 1 else 0
    on = OnDevice(device)
    there = [on(each) for each in (a, b, poisoned((n, n), F32), np.zeros_like(sums))]
    branching[(1,)](*there, count, N=n, num_warps=warps)
    assert np.array_equal(on.back(there[2]), want)
    assert np.array_equal(on.back(there[3]), sums)


@libtile.jit
def twice(a, b, c, rows, M: tl.constexpr, N: tl.constexpr, UNSIGNED: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    gram, acc = tl.zeros((N, N), tl.float32), tl.zeros((M, N), tl.float32)
    for first in range(0, rows, M):
        at = (first + m)[:, None] * N + n
        x = tl.load(a + at, (first + m)[:, None] < rows, 0)
        gram = tl.dot(x.T, x, gram)
    for first in range(0, tl.cast(rows, tl.uint32) if UNSIGNED else rows, N):
        inner = first + n
        acc = tl.dot(tl.load(b + m[:, None] * rows + inner, inner < rows, 0), tl.load(a + inner[:, None] * N + n, inner[:, None] < rows, 0), acc)
    acc = tl.dot(acc.to(tl.float16), tl.minimum(gram, 8.0).to(tl.float16))
    tl.store(c + m[:, None] * N + n, acc)


@everywhere
@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("rows", [1, 32, 64, 75])
def test_a_slot_that_two_operands_are_read_of(device, rows, unsigned):
    rng, m, n = np.random.default_rng(rows), 32, 16
    a, b = (rng.integers(-1, 2, shape).astype(F16) for shape in ((rows, n), (m, rows)))
    got = launch(twice, device, [a, b, poisoned((m, n), F32)], rows, M=m, N=n, UNSIGNED=unsigned)
    assert np.array_equal(got, of(b) @ of(a) @ np.minimum(of(a).T @ of(a), 8))


@libtile.jit
def strided(a, b, c, a_row, b_row, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TURNED: tl.constexpr, ACC: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), ACC)
    for first in range(0, depth, K):
        inner = first + k
        x = tl.load(a + m * a_row + inner, inner < depth, 0)
        if TURNED:
            y = tl.load(b + n[:, None] * b_row + inner, inner < depth, 0).T
        else:
            y = tl.load(b + inner[:, None] * b_row + n, inner[:, None] < depth, 0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m * N + n, acc)


# Rows that start at odd addresses are no one's to copy: registers hold them for an iteration.
@everywhere
@pytest.mark.parametrize("dtype", [F16, BF16, np.int8, F32], ids=["f16", "bf16", "i8", "f32"])
@pytest.mark.parametrize("odd", ["a", "b", "ab"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("depth", [0, 32, 64, 150])
def test_rows_at_odd_addresses(device, dtype, odd, turned, depth):
    rng, m, n, k = np.random.default_rng(depth), 64, 64, 32
    acc, out = (tl.int32, np.int32) if dtype is np.int8 else (tl.float32, F32)
    wide = max(depth, 1) + -max(depth, 1) % 16
    a_row = wide + (odd != "b")
    b_row = (wide if turned else n) + (odd != "a")
    a = rng.integers(-4, 5, (m, a_row)).astype(dtype)
    b = rng.integers(-4, 5, (n, b_row) if turned else (max(depth, 1), b_row)).astype(dtype)
    got = launch(strided, device, [a, b, poisoned((m, n), out)], a_row, b_row, depth, M=m, N=n, K=k, TURNED=turned, ACC=acc)
    right = of(b)[:, :depth].T if turned else of(b)[:depth, :n]
    assert np.array_equal(got, of(a)[:, :depth] @ right)


@pytest.mark.parametrize("target, dots", [("sm_80", "mma.sync"), ("sm_90a", "wgmma.mma_async")])
def test_one_barrier_tells_of_what_went_by_registers(target, dots):
    types = ["*fp16:16", "*fp16:16", "*fp32:16", "i32", "i32", "i32"]
    compiled = strided.warmup(*types, M=64, N=64, K=32, TURNED=False, ACC=tl.float32, num_warps=4, grid=(1,), target=target)
    assert compiled.fallbacks == []
    staged = compiled.asm["staged"].splitlines()
    first = next(i for i, line in enumerate(staged) if "= for " in line)
    loop = staged[first:next(i for i in range(first, len(staged)) if staged[i].startswith("  }"))]
    assert sum(line.strip() == "barrier" for line in loop) == 1
    order = [next(i for i, line in enumerate(loop) if what in line) for what in (" load ", " = dot ", "buffer_write")]
    assert order == sorted(order) and dots in compiled.asm["ptx"]


@libtile.jit
def two_loops(a, b, d, e, c, depth, rows, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.program_id(0) * M + tl.arange(0, M)[:, None], tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for first in range(0, depth, K):
        inner = first + k
        acc = tl.dot(tl.load(a + m * 256 + inner, (m < rows) & (inner < depth), 0), tl.load(b + inner[:, None] * N + n, inner[:, None] < depth, 0), acc)
    for first in range(0, depth, K):
        inner = first + k
        acc = tl.dot(tl.load(d + m * 257 + inner, (m < rows) & (inner < depth), 0), tl.load(e + inner[:, None] * (N + 1) + n, inner[:, None] < depth, 0), acc)
    tl.store(c + m * N + n, acc, m < rows)


def test_a_team_has_registers_for_what_another_loop_loads_ahead():
    m, n, k, threads = 128, 64, 64, 256
    compiled = two_loops.warmup(*["*fp16:16"] * 4, "*fp32:16", "i32", "i32", M=m, N=n, K=k, num_warps=8, share_blocks=True, grid=(64,), target="sm_90a")
    staged = compiled.asm["staged"]
    assert sum("= load" in line and "tile<" in line for line in staged.splitlines()) == 4, "two in front of the loop, two in it"
    team = re.search(r"producer {count=4, registers=\[24, (\d+)\]}", staged)
    assert team is None or int(team[1]) >= (m * n + m * k + n * k) // threads + 60
