# SPDX-License-Identifier: Apache-2.0
"""Control flow, functions and constants of the kernel language in the ways in which users combine them."""
import numpy as np
import pytest
from spine import DEVICES, F16, F32, F64, OnDevice, poisoned, random

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)


# ---- loops over scalars

@libtile.jit
def collatz(x, out, limit):
    pid = tl.program_id(0)
    n = tl.load(x + pid)
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
        if steps == limit:
            steps = -1
            break
    tl.store(out + pid, steps)


def collatz_steps(n, limit):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps == limit:
            return -1
    return steps


@everywhere
@pytest.mark.parametrize("limit", [5, 100000])
def test_while_with_break(device, limit):
    x = np.arange(1, 60, dtype=np.int64)
    on = OnDevice(device)
    out = on(poisoned(x.size, np.int32))
    collatz[(x.size,)](on(x), out, limit)
    np.testing.assert_array_equal(on.back(out), [collatz_steps(int(n), limit) for n in x])


@libtile.jit
def search(x, out, rows, cols, wanted):
    """The first place of a number, row by row; rows that begin with 0 are passed over."""
    for i in range(rows):
        if tl.load(x + i * cols) == 0:
            continue
        for j in range(cols):
            value = tl.load(x + i * cols + j)
            if value < 0:
                break
            if value == wanted:
                tl.store(out, i)
                tl.store(out + 1, j)
                return
        tl.store(out + 2, i)
    tl.store(out, -1)


def search_reference(x, wanted, out):
    for i, row in enumerate(x):
        if row[0] == 0:
            continue
        for j, value in enumerate(row):
            if value < 0:
                break
            if value == wanted:
                out[:2] = i, j
                return
        out[2] = i
    out[0] = -1


@everywhere
@pytest.mark.parametrize("wanted", [1, 3, 7, 99])
def test_return_continue_and_break_in_nested_loops(device, wanted):
    for seed in range(6):
        x = np.random.default_rng(seed).integers(-1, 9, (6, 8)).astype(np.int32)
        want = np.full(3, -5, np.int32)
        on = OnDevice(device)
        out = on(want.copy())
        search[(1,)](on(x), out, 6, 8, wanted)
        search_reference(x, wanted, want)
        np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def left_by_what_it_keeps(x, wanted, rows):
    """Leaves its loops by conditions that they carry and hand on as they got them."""
    here, never, found, other = wanted > 0, wanted < -99, 0, wanted > 5
    k = 0
    while k < rows:
        k += 1
        here = here
        if here:
            return k * 100 + found
        for i in range(rows):
            never, other = never, other
            if never:
                break
            found += tl.load(x + i)
            if other:
                return -1
    return found


@libtile.jit
def keeps(x, out, wanted, rows):
    tl.store(out, left_by_what_it_keeps(x, wanted, rows))
    stop = tl.load(x) > wanted
    n = 0
    for i in range(rows):
        if stop:
            stop = stop
            continue
        n += 1
        stop = stop
        if stop:
            break
    tl.store(out + 1, n)


@everywhere
@pytest.mark.parametrize("wanted", [-100, 0, 4, 7])
def test_loops_left_by_conditions_that_do_not_change(device, wanted):
    on, x = OnDevice(device), np.array([5, 2, 9], np.int32)
    out = on(poisoned(2, np.int32))
    keeps[(1,)](on(x), out, wanted, 3)
    np.testing.assert_array_equal(on.back(out), [100 if wanted > 0 else 0 if wanted < -99 else 48,
                                                 0 if x[0] > wanted else 3])


@libtile.jit
def count_down(out, lo, hi, step):
    count = 0
    total = 0
    for i in range(hi, lo, step):
        total = total * 3 + i
        count += 1
    tl.store(out, count)
    tl.store(out + 1, total)


@everywhere
@pytest.mark.parametrize("lo, hi, step", [(0, 10, -1), (0, 10, -3), (-7, 8, -4), (5, 5, -1), (9, 3, -2),
                                          (7, 0, 3), (-2**31, -2**31 + 5, -2), (2**31 - 1, 2**31 - 6, 2)])
def test_bounds_and_steps_of_any_sign(device, lo, hi, step):
    on = OnDevice(device)
    out = on(poisoned(2, np.int32))
    count_down[(1,)](out, lo, hi, step)
    values = list(range(hi, lo, step))
    total = 0
    for i in values:
        total = total * 3 + i
    assert list(on.back(out)) == [len(values), (total + 2**31) % 2**32 - 2**31]


# ---- tiles that loops and conditions carry

@libtile.jit
def power(x, out, exponent, N: tl.constexpr):
    """The matrix to the power of a number, by squaring."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    base = tl.load(x + i * N + j)
    result = tl.where(i == j, 1, 0).to(tl.float64)
    while exponent > 0:
        if exponent % 2 == 1:
            result = tl.dot(result, base)
        base = tl.dot(base, base)
        exponent = exponent // 2
    tl.store(out + i * N + j, result)


@everywhere
@pytest.mark.parametrize("n", [1, 3, 8, 16])
@pytest.mark.parametrize("exponent", [0, 1, 2, 13])
def test_a_while_loop_that_carries_matrices(device, n, exponent):
    x = np.random.default_rng(n).standard_normal((n, n)) / np.sqrt(n)
    on = OnDevice(device)
    out = on(poisoned((n, n), np.float64))
    power[(1,)](on(x), out, exponent, N=n)
    np.testing.assert_allclose(on.back(out), np.linalg.matrix_power(x, exponent), rtol=1e-11, atol=1e-12)


@libtile.jit
def life(x, out, steps, N: tl.constexpr):
    """Carried 2-D tiles that change places, within nested loops."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    old = tl.load(x + i * N + j)
    older = tl.zeros_like(old)
    for step in range(steps):
        count = tl.zeros_like(old)
        for shift in range(1, 3):
            count += tl.trans(old) * shift
        older, old = old, count - older
        if step % 3 == 2:
            old = tl.where(old > 50, old - 100, old)
        elif step == 4:
            old = -old
    tl.store(out + i * N + j, old)
    tl.store(out + N * N + i * N + j, older)


@everywhere
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
@pytest.mark.parametrize("n", [1, 5, 16])
def test_carried_tiles_that_change_places(device, n, steps):
    x = np.random.default_rng(n).integers(-9, 9, (n, n)).astype(np.int32)
    on = OnDevice(device)
    out = on(poisoned((2, n, n), np.int32))
    life[(1,)](on(x), out, steps, N=n)
    old, older = x, np.zeros_like(x)
    for step in range(steps):
        older, old = old, 3 * old.T - older
        if step % 3 == 2:
            old = np.where(old > 50, old - 100, old)
        elif step == 4:
            old = -old
    np.testing.assert_array_equal(on.back(out), [old, older])


@libtile.jit
def chosen(x, out, n, mode, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tile = tl.load(x + i, i < n, other=0.0)
    if mode == 0:
        tile = tile * 2
        extra = tl.sum(tile)
    elif mode == 1:
        tile = tl.where(tile > 0, tile, 0.0)
        extra = tl.max(tile)
    elif mode == 2:
        tl.store(out + i, -tile, i < n)
        return
    else:
        extra = 1.0
    picked = tile + extra if mode < 3 else tile - extra
    tl.store(out + i, picked, i < n)


@everywhere
@pytest.mark.parametrize("mode", range(4))
def test_conditions_that_give_tiles(device, mode):
    x = random(np.random.default_rng(1), 50, F32)
    on = OnDevice(device)
    out = on(poisoned(50, F32))
    chosen[(1,)](on(x), out, 50, mode, BLOCK=64)
    wide = x.astype(np.float64)
    relu = np.maximum(wide, 0)
    want = [2 * wide + 2 * wide.sum(), relu + relu.max(), -wide, wide - 1][mode]
    np.testing.assert_allclose(on.back(out), want, rtol=1e-5, atol=1e-5)


@libtile.jit
def prefix_of_blocks(x, out, n, BLOCK: tl.constexpr):
    """A scalar and two tiles are carried; one iteration of three is left early."""
    i = tl.arange(0, BLOCK)
    seen = tl.zeros((BLOCK,), tl.int32)
    best = tl.full((BLOCK,), -1, tl.int32)
    total = 0
    for block in range(tl.cdiv(n, BLOCK)):
        tile = tl.load(x + block * BLOCK + i, block * BLOCK + i < n, other=0)
        total += tl.sum(tile, axis=0)
        if block % 3 == 1:
            continue
        seen += tile
        best = tl.maximum(best, tile)
        if total > 400:
            best += 1000
            break
    tl.store(out + i, seen)
    tl.store(out + BLOCK + i, best)
    tl.store(out + 2 * BLOCK, total)


@everywhere
@pytest.mark.parametrize("n", [1, 40, 100, 400])
def test_loops_that_are_left_while_they_carry_tiles(device, n):
    x = np.random.default_rng(n).integers(0, 9, n).astype(np.int32)
    block = 16
    on = OnDevice(device)
    out = on(poisoned(2 * block + 1, np.int32))
    prefix_of_blocks[(1,)](on(x), out, n, BLOCK=block)
    seen, best, total = np.zeros(block, np.int32), np.full(block, -1, np.int32), 0
    for number, tile in enumerate(np.pad(x, (0, -n % block)).reshape(-1, block)):
        total += tile.sum()
        if number % 3 == 1:
            continue
        seen, best = seen + tile, np.maximum(best, tile)
        if total > 400:
            best += 1000
            break
    np.testing.assert_array_equal(on.back(out), np.concatenate([seen, best, [total]]))


# ---- functions

@libtile.jit
def arg_best(value, index, other_value, other_index):
    take = (other_value > value) | ((other_value == value) & (other_index < index))
    return tl.where(take, other_value, value), tl.where(take, other_index, index)


@libtile.jit
def welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    delta = mean_b - mean_a
    ratio = tl.where(count == 0.0, 0.0, count_b / count)
    return mean_a + delta * ratio, m2_a + m2_b + delta * delta * count_a * ratio, count


@libtile.jit
def moments(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tile = tl.load(x + i, i < n, other=0.0)
    ones = tl.where(i < n, 1.0, 0.0)
    return tl.reduce((tile, tl.zeros_like(tile), ones), 0, welford)


@libtile.jit
def statistics(x, out, index, n, BLOCK: tl.constexpr):
    mean, m2, count = moments(x, n, BLOCK)
    tl.store(out, mean)
    tl.store(out + 1, m2 / count)
    i = tl.arange(0, BLOCK)
    tile = tl.load(x + i, i < n, other=-float("inf"))
    best, place = tl.reduce((tile, i), axis=0, combine_fn=arg_best)
    tl.store(out + 2, best)
    tl.store(index, place)


@everywhere
@pytest.mark.parametrize("n", [1, 2, 63, 100, 1000])
def test_reductions_of_tuples_with_functions_of_the_user(device, n):
    x = (random(np.random.default_rng(n), n, F32) * 4).round() / 4
    on = OnDevice(device)
    out, index = on(poisoned(3, F32)), on(poisoned(1, np.int32))
    statistics[(1,)](on(x), out, index, n, BLOCK=libtile.next_power_of_2(n))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(on.back(out), [wide.mean(), wide.var(), wide.max()], rtol=1e-5, atol=1e-6)
    assert on.back(index)[0] == x.argmax()


@libtile.jit
def chunked_sum(x, start, SIZE: tl.constexpr):
    """Divides and adds: recursion on a constant."""
    if SIZE <= 4:
        total = 0
        for i in tl.static_range(SIZE):
            total += tl.load(x + start + i)
        return total
    return chunked_sum(x, start, SIZE // 2) + chunked_sum(x, start + SIZE // 2, SIZE - SIZE // 2)


@libtile.jit
def swap(pair):
    return pair[1], pair[0]


@libtile.jit
def early(x, y):
    if x > y:
        return x, 1
    return y, 2


@libtile.jit
def composed(x, out, a, b, SIZE: tl.constexpr, OFFSETS: tl.constexpr = (1, 20), scale: tl.constexpr = 3):
    tl.store(out, chunked_sum(x, 0, SIZE))
    first, (second, third) = swap((a, (b, a + b)))[1], swap((a, (b, a + b)))[0]
    tl.store(out + 1, first * 10000 + second * 100 + third)
    larger, which = early(a, b)
    tl.store(out + 2, larger * 10 + which)
    total = 0
    for k in tl.static_range(len(OFFSETS)):
        total += OFFSETS[k] * scale
    tl.store(out + 3, total)
    unrolled = ()
    for k in tl.static_range(3):
        unrolled = unrolled + (a * k,)
    tl.store(out + 4, unrolled[0] + unrolled[1] * 10 + unrolled[2] * 100)


@everywhere
@pytest.mark.parametrize("size", [1, 4, 13])
def test_functions_tuples_recursion_and_defaults(device, size):
    x = np.arange(1, 20, dtype=np.int32) ** 2
    on = OnDevice(device)
    out = on(poisoned(5, np.int32))
    for a, b in ((3, 5), (6, 5)):
        composed[(1,)](on(x), out, a, b, SIZE=size)
        larger = 10 * max(a, b) + (1 if a > b else 2)
        want = [x[:size].sum(), a * 10000 + b * 100 + a + b, larger, 63, a * 10 + 2 * a * 100]
        np.testing.assert_array_equal(on.back(out), want)


SLOPE = tl.constexpr(0.25)
TABLE = tl.constexpr((1, 4, 9))


def activated(function, bias):
    """A kernel made for a function and a number of the place where it is made."""
    bias = tl.constexpr(bias)

    @libtile.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, function(tl.load(x + i, i < n)) + bias + TABLE[2], i < n)

    return kernel


@libtile.jit
def leaky(x):
    return tl.where(x > 0, x, x * SLOPE)


@libtile.jit
def square(x):
    return x * x


@everywhere
def test_kernels_closed_over_functions(device):
    x = random(np.random.default_rng(2), 30, F32)
    on = OnDevice(device)
    for function, reference in ((leaky, lambda v: np.where(v > 0, v, v * 0.25)), (square, lambda v: v * v)):
        out = on(poisoned(30, F32))
        activated(function, 2.5)[(1,)](on(x), out, 30, BLOCK=32)
        np.testing.assert_allclose(on.back(out), reference(x.astype(np.float64)) + 11.5, rtol=1e-6)


@libtile.jit
def apply(x, out, n, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tile = tl.load(x + i, i < n)
    if ACTIVATION is not None:
        tile = ACTIVATION(tile)
    tl.store(out + i, tile, i < n)


@everywhere
@pytest.mark.parametrize("function", [None, leaky, square])
def test_a_function_as_a_constant(device, function):
    x = random(np.random.default_rng(3), 30, F32)
    on = OnDevice(device)
    out = on(poisoned(30, F32))
    apply[(1,)](on(x), out, 30, ACTIVATION=function, BLOCK=32)
    wide = x.astype(np.float64)
    want = {None: wide, leaky: np.where(x > 0, wide, wide * 0.25), square: wide * wide}[function]
    np.testing.assert_allclose(on.back(out), want, rtol=1e-6)


# ---- shapes

@libtile.jit
def axes_of_three(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    tile = tl.load(x + a[:, None, None] * B * C + b[None, :, None] * C + c[None, None, :])
    total = tl.sum(tile, axis=AXIS)
    place = tl.argmin(tile, axis=AXIS)
    largest = tl.max(tile, axis=AXIS, keep_dims=True)
    centred = tl.sum(tile - largest, axis=AXIS)
    REST: tl.constexpr = A * B * C // tile.shape[AXIS]
    i = tl.arange(0, REST)
    tl.store(out + i, tl.reshape(total, (REST,)))
    tl.store(out + REST + i, tl.reshape(place, (REST,)))
    tl.store(out + 2 * REST + i, tl.ravel(centred))


@everywhere
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (4, 8, 16), (16, 1, 9), (3, 20, 2)])
def test_reductions_along_each_axis_of_three(device, axis, shape):
    x = np.random.default_rng(4).integers(-20, 20, shape).astype(np.int32)
    on = OnDevice(device)
    rest = x.size // shape[axis]
    out = on(poisoned(3 * rest, np.int32))
    axes_of_three[(1,)](on(x), out, *shape, AXIS=axis)
    want = [x.sum(axis), x.argmin(axis), (x - x.max(axis, keepdims=True)).sum(axis)]
    np.testing.assert_array_equal(on.back(out).reshape(3, rest), [w.ravel() for w in want])


@libtile.jit
def shuffled(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    """Splits, permutes and joins axes: out is x with its two outer axes exchanged, then the pairs of rows."""
    tile = tl.load(x + tl.arange(0, A * B * C)).reshape(A, B, C)
    turned = tl.permute(tile, (1, 2, 0))
    wide = tl.reshape(turned, (B, C * A)) + tl.arange(0, B)[:, None] * 1000
    back = tl.trans(wide.reshape(B, C, A), 2, 0, 1)
    tl.store(out + tl.arange(0, A * B * C), tl.ravel(back))
    tl.store(out + A * B * C + tl.arange(0, A * B * C), tl.ravel(turned))


@everywhere
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (4, 8, 16), (7, 1, 9)])
def test_reshapes_and_permutations(device, shape):
    x = np.random.default_rng(5).integers(0, 999, shape).astype(np.int32)
    on = OnDevice(device)
    out = on(poisoned(2 * x.size, np.int32))
    turned = x.transpose(1, 2, 0)
    back = (turned + 1000 * np.arange(shape[1])[:, None, None]).transpose(2, 0, 1)
    shuffled[(1,)](on(x), out, *shape)
    np.testing.assert_array_equal(on.back(out), np.concatenate([back.ravel(), turned.ravel()]))


@libtile.jit
def turned_over(x, out, A: tl.constexpr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """Rows and columns exchanged, then other rows: A x B, B x A, M x N."""
    tile = tl.load(x + tl.arange(0, A)[:, None] * B + tl.arange(0, B))
    place = tl.arange(0, M)[:, None] * N + tl.arange(0, N)
    tl.store(out + place, tl.trans(tile).reshape(M, N))
    # Where an element goes, computed under one shape and used under the other.
    pointers = tl.reshape(out + A * B + tl.arange(0, M * N), (A, B))
    tl.store(pointers, tile, tl.reshape(place % 7 != 3, (A, B)))


@everywhere
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, F16, F32, F64])
@pytest.mark.parametrize("a, b, m, n", [(5, 6, 15, 2), (17, 48, 48, 17), (48, 64, 16, 192), (3, 31, 1, 93)])
def test_reshapes_of_every_width(device, a, b, m, n, dtype, num_warps):
    x = np.random.default_rng(a).integers(0, 2 if dtype is np.bool_ else 100, (a, b)).astype(dtype)
    on = OnDevice(device)
    out = on(np.zeros(2 * x.size, dtype))
    turned_over[(1,)](on(x), out, a, b, m, n, num_warps=num_warps)
    kept = np.where(np.arange(x.size) % 7 != 3, x.ravel(), np.zeros(1, dtype))
    np.testing.assert_array_equal(on.back(out), np.concatenate([x.T.ravel(), kept]))


@libtile.jit
def outer_sums(x, y, out, M: tl.constexpr, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, M))
    b = tl.load(y + tl.arange(0, N))
    table = tl.broadcast_to(a[:, None], (M, N)) * b + tl.expand_dims(b, 0)
    softened = table / (1 + tl.sum(tl.abs(table), axis=1)[:, None])
    weights = softened / tl.max(tl.abs(softened), axis=0, keep_dims=True)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N), weights)
    tl.store(out + M * N, tl.sum(tl.sum(weights, 1), 0))


@everywhere
@pytest.mark.parametrize("m, n", [(1, 1), (3, 7), (16, 64), (65, 33)])
def test_reductions_that_feed_each_other(device, m, n):
    rng = np.random.default_rng(m)
    x, y = random(rng, m, F32), random(rng, n, F32)
    on = OnDevice(device)
    out = on(poisoned(m * n + 1, F32))
    outer_sums[(1,)](on(x), on(y), out, m, n)
    x, y = x.astype(np.float64), y.astype(np.float64)
    table = x[:, None] * y + y
    soft = table / (1 + np.abs(table).sum(1, keepdims=True))
    weights = soft / np.abs(soft).max(0, keepdims=True)
    np.testing.assert_allclose(on.back(out)[:-1].reshape(m, n), weights, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(on.back(out)[-1], weights.sum(), rtol=1e-4, atol=1e-4 * m)


@libtile.jit
def whole(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tile = tl.load(x + i)
    centred = tile - tl.sum(tile) / BLOCK
    tl.store(out + i, centred * tl.rsqrt(tl.sum(centred * centred) / BLOCK + 1.0))


# A tile lives in a GPU's registers, and in memory on a CPU.
LARGEST = {"cpu": 1 << 20, "cuda": 1 << 14, "hip": 1 << 13}


@everywhere
@pytest.mark.parametrize("block", [1, 3, "largest", "largest - 3"])
def test_tiles_from_one_element_to_the_largest(device, block):
    if isinstance(block, str):
        block = LARGEST[device] - (3 if block.endswith("3") else 0)
    x = random(np.random.default_rng(6), block, np.float64)
    on = OnDevice(device)
    out = on(poisoned(block, np.float64))
    whole[(1,)](on(x), out, BLOCK=block)
    centred = x - x.mean()
    np.testing.assert_allclose(on.back(out), centred / np.sqrt((centred**2).mean() + 1), rtol=1e-9, atol=1e-9)
