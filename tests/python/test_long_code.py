# SPDX-License-Identifier: Apache-2.0
"""Kernels of thousands of statements: the CPU's code is several functions then, between which values, and the ways
out of a program, must find their way."""
import numpy as np
import pytest
from spine import DEVICES, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)


@libtile.jit
def mixture(x, out, counts, n, N: tl.constexpr):
    """Statements of many kinds; each needs what others left, near and far."""
    pid = tl.program_id(0)
    i = tl.arange(0, 24)
    x += pid * N * 24
    out += pid * N * 24
    first = tl.load(x)
    early = tl.load(x + i) * 3
    total = first
    for k in tl.static_range(N):
        row = tl.load(x + k * 24 + i, mask=i < n, other=k)
        if total % 2 == 0:
            total += tl.sum(row, 0)
        else:
            total = total // 2 - k
        for j in range(n % 3):
            total ^= j + first
        if k % 50 == 7:
            early += row
        tl.store(out + k * 24 + i, row + total)
        tl.atomic_add(counts + k, total % 7)
    tl.store(out + i, early + total)


def mixture_reference(x, n, N):
    grid = x.shape[0]
    out, counts = np.empty_like(x), np.zeros(N, np.int64)
    for pid in range(grid):
        first = int(x[pid, 0, 0])
        early = x[pid, 0] * 3
        total = first
        for k in range(N):
            row = np.where(np.arange(24) < n, x[pid, k], k)
            if total % 2 == 0:
                total += int(row.sum())
            else:
                total = int(total / 2) - k  # rounds toward zero
            for j in range(n % 3):
                total ^= j + first
            if k % 50 == 7:
                early = early + row
            out[pid, k] = row + total
            counts[k] += int(np.fmod(total, 7))
        out[pid, 0] = early + total
    return out, counts


@everywhere
@pytest.mark.parametrize("n", [0, 17, 25])
def test_values_between_statements_far_apart(device, n):
    N, grid = 150, 3
    x = np.random.default_rng(n).integers(-1000, 1000, (grid, N, 24)).astype(np.int64)
    on = OnDevice(device)
    out, counts = on(poisoned(x.shape, np.int64)), on(np.zeros(N, np.int64))
    mixture[(grid,)](on(x), out, counts, n, N=N)
    expected, expected_counts = mixture_reference(x, n, N)
    np.testing.assert_array_equal(on.back(out), expected)
    np.testing.assert_array_equal(on.back(counts), expected_counts)


@libtile.jit
def nested(x, out, rounds, N: tl.constexpr):
    """Long bodies of a loop, of a branch in it, and of a loop in that."""
    i = tl.arange(0, 40)
    a = tl.load(x)
    tile = tl.load(x + i)
    for r in range(rounds):
        for k in tl.static_range(N):
            a = (a ^ k) * 5 + r
            tl.store(out + k * 40 + i, tile + a)
        if r % 2 == 1:
            for k in tl.static_range(N):
                a -= tl.load(out + k * 40 + r)
            c = 0
            while c < 2:
                for k in tl.static_range(N):
                    a = (a + c) ^ (k * 3)
                c += 1
            tile += a
        for k in tl.static_range(N):
            a += tl.max(tile, 0) & k
    tl.store(out + i, tile ^ a)


def nested_reference(x, rounds, N):
    with np.errstate(over="ignore"):
        a, tile = x[0], x[:40].copy()
        out = np.empty((N, 40), np.int64)
        for r in range(rounds):
            for k in range(N):
                a = (a ^ np.int64(k)) * np.int64(5) + np.int64(r)
                out[k] = tile + a
            if r % 2 == 1:
                for k in range(N):
                    a = a - out[k, r]
                for c in range(2):
                    for k in range(N):
                        a = (a + np.int64(c)) ^ np.int64(k * 3)
                tile = tile + a
            for k in range(N):
                a = a + (tile.max() & np.int64(k))
        out[0] = tile ^ a
        return out


@everywhere
@pytest.mark.parametrize("rounds", [1, 4])
def test_long_bodies_inside_of_each_other(device, rounds):
    N = 400
    x = np.random.default_rng(rounds).integers(-1 << 60, 1 << 60, 40)
    on = OnDevice(device)
    out = on(poisoned((N, 40), np.int64))
    nested[(1,)](on(x), out, rounds, N=N)
    np.testing.assert_array_equal(on.back(out), nested_reference(x, rounds, N))


@libtile.jit
def asserts(x, out, N: tl.constexpr):
    pid = tl.program_id(0)
    for k in tl.static_range(N):
        tl.store(out + pid * N + k, k)
        tl.device_assert(tl.load(x + pid) != k, "met")


@pytest.mark.parametrize("fails_at", [0, 700, 1499])
def test_a_program_ends_where_its_assert_fails(fails_at):
    N = 1500
    x = np.array([fails_at, -1], np.int32)
    out = np.full((2, N), -7, np.int32)
    with pytest.raises(libtile.KernelAssertionError, match="met"):
        asserts[(1,)](x, out, N=N, debug=True)
    np.testing.assert_array_equal(out[0], np.where(np.arange(N) <= fails_at, np.arange(N), -7))
    asserts[(1,)](x[1:], out[1:], N=N, debug=True)
    np.testing.assert_array_equal(out[1], np.arange(N))


@libtile.jit
def reach(x, out, at, N: tl.constexpr):
    i = tl.arange(0, 16)
    for k in tl.static_range(N):
        tl.store(out + k * 16 + i, tl.load(x + at + k * 16 + i))


@pytest.mark.parametrize("at", [0, 1, -1, 16 * 300])
def test_a_program_ends_where_it_is_out_of_bounds(at):
    N = 600
    x = np.random.default_rng(1).standard_normal(N * 16, np.float32)
    out = np.full(N * 16, np.nan, np.float32)
    if at == 0:
        reach[(1,)](x, out, at, N=N, check=True)
        np.testing.assert_array_equal(out, x)
        return
    with pytest.raises(libtile.OutOfBoundsError, match=r"tl.load\(x \+ at"):
        reach[(1,)](x, out, at, N=N, check=True)
    whole = 0 if at < 0 else (x.size - at) // 16 * 16
    np.testing.assert_array_equal(out[:whole], x[at:at + whole] if at > 0 else [])
    assert np.isnan(out[whole + 16:]).all()


@libtile.jit
def stores_in_branches(x, out, n, N: tl.constexpr):
    i = tl.arange(0, 64)
    for k in tl.static_range(N):
        if n > k:
            tl.store(out + k * 64 + i, tl.load(x + k * 64 + i) + k)


@libtile.jit
def halvings(x, out, N: tl.constexpr):
    a = tl.load(x)
    for k in tl.static_range(N):
        while a > k:
            a = a // 2
    tl.store(out, a)


def test_thousands_of_loops_are_compiled():
    ptx = halvings.warmup("*i32", "*i32", target="sm_90a", N=3000).asm["ptx"]
    assert ptx.count("bra") >= 3000


def test_accesses_in_branches_wait_for_few_barriers():
    ptx = stores_in_branches.warmup("*fp32:16", "*fp32:16", "i32", target="sm_90a", N=300).asm["ptx"]
    assert ptx.count("st.global") >= 300
    assert ptx.count("bar.sync") + ptx.count("barrier.sync") <= 10


@libtile.jit
def prints(n, N: tl.constexpr):
    for k in tl.static_range(N):
        tl.device_print("n", n + k)
        tl.device_print("two", n, n * 1.5)


def test_messages_take_one_memory():
    few, many = (prints.warmup("i32", target="cpu", N=N).asm["llvm"].count("alloca") for N in (2, 200))
    assert 0 < few == many


@everywhere
@pytest.mark.parametrize("n", [0, 123, 300])
def test_accesses_in_branches(device, n):
    x = np.random.default_rng(n).standard_normal((300, 64), np.float32)
    on = OnDevice(device)
    out = on(poisoned(x.shape, np.float32))
    stores_in_branches[(1,)](on(x), out, n, N=300)
    result, untouched = on.back(out), poisoned(x.shape, np.float32)
    np.testing.assert_array_equal(result[:n], x[:n] + np.arange(n, dtype=np.float32)[:, None])
    np.testing.assert_array_equal(result[n:], untouched[n:])


@libtile.jit
def blend(x, out, N: tl.constexpr):
    """Each number is made of the two before it: as many ways lead to the first ones as Fibonacci's numbers say."""
    i = tl.arange(0, 1024)
    a, b = i * 0.5, i + 0.25
    for _ in tl.static_range(N):
        a, b = b, a * 0.5 + b * 0.5
    row = tl.load(x + i)
    tl.store(out + i, row - tl.sum(row, 0) * b)


@everywhere
def test_numbers_are_looked_at_once(device, n=60):
    on = OnDevice(device)
    x, out = np.ones(1024, np.float32), poisoned(1024, np.float32)
    a, b = np.arange(1024) * 0.5, np.arange(1024) + 0.25
    for _ in range(n):
        a, b = b, a * 0.5 + b * 0.5
    there = on(out)
    blend[(1,)](on(x), there, n)
    np.testing.assert_allclose(on.back(there), 1 - 1024 * b, rtol=(3 * n + 3) * 2.0**-24)


@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "gfx1100"])
def test_numbers_are_looked_at_once_for_gpus(target):
    assert blend.warmup("*fp32", "*fp32", 60, grid=(1,), target=target).target == target
