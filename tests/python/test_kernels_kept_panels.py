# SPDX-License-Identifier: Apache-2.0
"""Products whose packed columns a CPU's thread keeps from one program to the next (passes/cpu/kept_panels.h): whatever makes
the next program's columns others, in place or in content, they are packed again."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F32, OnDevice, poisoned

import libtile
import libtile.language as tl

TYPES = {np.int8: np.int32, BF16: F32, F32: F32}
SAYS = "kept for the next program"


@pytest.fixture(params=[1, 3])
def threads(request):
    before = libtile.num_threads()
    libtile.set_num_threads(request.param)
    yield request.param
    libtile.set_num_threads(before)


@pytest.fixture
def one_thread():
    before = libtile.num_threads()
    libtile.set_num_threads(1)
    yield
    libtile.set_num_threads(before)


def integers(rng, shape, dtype):
    return rng.integers(-4, 5, shape).astype(dtype)


def check(out, a, b):
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


def keeps(launched):
    return SAYS in launched.asm["plan"] if "plan" in launched.asm else None


@libtile.jit
def product(a, b, out, M, N, K, stride_m, stride_k, stride_n, batch_a, batch_b, ROWS: tl.constexpr, COLS: tl.constexpr,
            STEP: tl.constexpr, ORDER: tl.constexpr, ACC: tl.constexpr):
    if ORDER == "rows first":
        at_m, at_n, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    elif ORDER == "columns first":
        at_m, at_n, batch = tl.program_id(1), tl.program_id(0), tl.program_id(2)
    elif ORDER == "batch first":
        at_m, at_n, batch = tl.program_id(1), tl.program_id(2), tl.program_id(0)
    else:
        across = tl.cdiv(N, COLS)
        number = tl.program_id(0)
        per_group = 2 * across
        first = number // per_group * 2
        high = min(tl.cdiv(M, ROWS) - first, 2)
        at_m, at_n, batch = first + number % per_group % high, number % per_group // high, tl.program_id(2)
    a += batch * batch_a
    b += batch * batch_b
    rows = at_m * ROWS + tl.arange(0, ROWS)
    cols = at_n * COLS + tl.arange(0, COLS)
    acc = tl.zeros((ROWS, COLS), ACC)
    for start in range(0, K, STEP):
        k = start + tl.arange(0, STEP)
        x = tl.load(a + rows[:, None] * stride_m + k[None, :], mask=(rows < M)[:, None] & (k < K)[None, :], other=0)
        y = tl.load(b + k[:, None] * stride_k + cols[None, :] * stride_n, mask=(k < K)[:, None] & (cols < N)[None, :], other=0)
        acc = tl.dot(x, y, acc)
    tl.store(out + batch * M * N + rows[:, None] * N + cols[None, :], acc, mask=(rows < M)[:, None] & (cols < N)[None, :])


def launch(a, b, out, order, rows=32, cols=64, step=64):
    batches, m, k = a.shape
    n = b.shape[2]
    high, wide = -(-m // rows), -(-n // cols)
    grid = {"rows first": (high, wide, batches), "columns first": (wide, high, batches), "batch first": (batches, high, wide),
            "in groups": (high * wide, 1, batches)}[order]
    strides = [stride // b.itemsize for stride in b.strides] if isinstance(b, np.ndarray) else [b.shape[1] * n, n, 1]
    return product[grid](a, b, out, m, n, k, k, strides[1], strides[2], m * k, strides[0], rows, cols, step, order,
                         tl.int32 if a.dtype == np.int8 else tl.float32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", ["rows first", "columns first", "batch first", "in groups"])
@pytest.mark.parametrize("shape", [(128, 128, 256), (101, 130, 77), (33, 65, 1234), (7, 3, 5)])
def test_any_order(device, dtype, order, shape, threads):
    rng = np.random.default_rng(0)
    m, n, k = shape
    a, b = integers(rng, (3, m, k), dtype), integers(rng, (3, k, n), dtype)
    on = OnDevice(device)
    out = on(poisoned((3, m, n), TYPES[dtype]))
    launched = launch(on(a), on(b), out, order)
    check(on.back(out), a, b)
    assert keeps(launched) in (True, None) or device != "cpu"


@pytest.mark.parametrize("dtype", TYPES)
def test_more_chunks_than_are_kept(dtype, threads):
    rng = np.random.default_rng(1)
    a, b = integers(rng, (1, 96, 16400), dtype), integers(rng, (1, 16400, 512), dtype)
    out = poisoned((1, 96, 512), TYPES[dtype])
    launch(a, b, out, "rows first", cols=512)
    check(out, a, b)


@pytest.mark.parametrize("dtype", TYPES)
def test_columns_that_are_turned(dtype, threads):
    rng = np.random.default_rng(2)
    a, b = integers(rng, (2, 70, 200), dtype), integers(rng, (2, 150, 200), dtype)
    out = poisoned((2, 70, 150), TYPES[dtype])
    launch(a, b.transpose(0, 2, 1), out, "rows first")
    check(out, a, b.transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", TYPES)
def test_launches_share_nothing(dtype, threads):
    """The same places with other contents, and as another matrix; another kernel's scratch between."""
    rng = np.random.default_rng(3)
    a, b = integers(rng, (1, 128, 320), dtype), integers(rng, (1, 320, 128), dtype)
    out = poisoned((1, 128, 128), TYPES[dtype])
    for turn in range(6):
        b[...] = integers(rng, b.shape, dtype)
        launch(a, b, out, "rows first", cols=64 if turn % 3 else 128)
        check(out, a, b)
        narrow = b.reshape(1, 640, 64)[:, :320]
        other = poisoned((1, 128, 64), TYPES[dtype])
        launch(a, narrow, other, "rows first")
        check(other, a, narrow)


@libtile.jit
def onto(a, b, out, K, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr):
    """The product's rows, as what b is of."""
    pid = tl.program_id(0)
    rows, cols = pid * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, K, STEP):
        k = start + tl.arange(0, STEP)
        x = tl.load(a + rows[:, None] * K + k[None, :], mask=(k < K)[None, :], other=0)
        y = tl.load(b + k[:, None] * COLS + cols[None, :], mask=(k < K)[:, None], other=0)
        acc = tl.dot(x, y, acc)
    tl.store(out + rows[:, None] * COLS + cols[None, :], acc.to(out.dtype.element_ty))


@pytest.mark.parametrize("place", ["apart", "the same", "a view of it", "half of it"])
def test_what_earlier_programs_store(place, one_thread):
    """One thread runs programs in order, and each reads what those before it have stored."""
    rng = np.random.default_rng(4)
    k, cols, rows = 256, 64, 16
    memory = np.zeros((k + 64, cols), F32)
    memory[:k] = integers(rng, (k, cols), F32)
    a = (rng.integers(0, 40, (k, k)) == 0).astype(F32) * integers(rng, (k, k), F32)
    a[:, :rows] *= rng.integers(0, 8, (k, rows)) == 0
    b = memory[:k]
    out = {"apart": poisoned((k, cols), F32), "the same": b, "a view of it": memory[:k].view(), "half of it": memory[32:k + 32]}[place]
    want, at = memory.copy(), {"the same": 0, "a view of it": 0, "half of it": 32}.get(place)
    expected = np.zeros((k, cols), F32)
    for first in range(0, k, rows):
        expected[first:first + rows] = a[first:first + rows] @ want[:k]
        if at is not None:
            want[at + first:at + first + rows] = expected[first:first + rows]
    onto[(k // rows,)](a, b, out, k, rows, cols, 64)
    np.testing.assert_array_equal(out, expected if at is None else want[at:at + k])


@libtile.jit
def ragged(a, b, out, depths, ends, firsts, lengths, factors, N, K, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr,
           WHAT: tl.constexpr):
    """Each program has a depth, an end of columns, a first row of b, a length of a's steps or a factor of its own."""
    pid = tl.program_id(0)
    rows, cols = pid * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    depth = tl.load(depths + pid) if WHAT == "depth" else K
    end = tl.load(ends + pid) if WHAT == "end" else N
    first = tl.load(firsts + pid) if WHAT == "first" else 0
    of_a = tl.load(lengths + pid) if WHAT == "length" else STEP
    of_b = K - 664 if WHAT == "length" else STEP  # 40
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, depth, STEP):
        step = tl.arange(0, STEP)
        k = start + step
        in_a, in_b = (step < of_a, step < of_b) if WHAT == "length" else (k < depth, k < depth)
        x = tl.load(a + rows[:, None] * K + k[None, :], mask=in_a[None, :], other=0)
        y = tl.load(b + (first + k)[:, None] * N + cols[None, :], mask=in_b[:, None] & (cols < N)[None, :], other=0)
        if WHAT == "factor":
            y = y * tl.load(factors + pid)
        acc = tl.dot(x, y, acc)
    tl.store(out + rows[:, None] * N + cols[None, :], acc, mask=(cols < end)[None, :])


@pytest.mark.parametrize("what", ["depth", "end", "first", "length", "factor"])
def test_each_program_has_its_own(what, threads):
    rng = np.random.default_rng(5)
    programs, rows, n, k = 24, 16, 112, 704
    a, b = integers(rng, (programs * rows, k), F32), integers(rng, (2 * k, n), F32)
    depths, ends, firsts, lengths = (rng.choice(values, programs).astype(np.int32)
                                     for values in ((0, 1, 64, 65, 650, k), (1, 16, 17, 100, n), (0, 1, 64, k), (20, 60)))
    ends.sort()
    factors = rng.choice([1, 2, -3], programs).astype(F32)
    out = poisoned((programs * rows, n), F32)
    want = out.copy()
    for matrix in (b + 1, b):  # what is not packed is not there by chance
        np.copyto(out, want)
        ragged[(programs,)](a, matrix, out, depths, ends, firsts, lengths, factors, n, k, rows, 128, 64, what)
    for at in range(programs):
        depth, end = depths[at] if what == "depth" else k, ends[at] if what == "end" else n
        first, factor = firsts[at] if what == "first" else 0, factors[at] if what == "factor" else 1
        mine = slice(at * rows, at * rows + rows)
        used = np.arange(depth) % 64 < (min(40, lengths[at]) if what == "length" else 64)
        want[mine, :end] = (a[mine, :depth][:, used] @ (factor * b[first:first + depth][used]))[:, :end]
    np.testing.assert_array_equal(out, want)


@libtile.jit
def persistent(a, b, out, chosen, tiles, N, K, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = tile * ROWS + tl.arange(0, ROWS)
        cols = tl.load(chosen + tile) * COLS + tl.arange(0, COLS)
        acc = tl.zeros((ROWS, COLS), tl.float32)
        for start in range(0, K, STEP):
            k = start + tl.arange(0, STEP)
            x = tl.load(a + rows[:, None] * K + k[None, :], mask=(k < K)[None, :], other=0)
            y = tl.load(b + k[:, None] * N + cols[None, :], mask=(k < K)[:, None], other=0)
            acc = tl.dot(x, y, acc)
        tl.store(out + rows[:, None] * COLS + tl.arange(0, COLS)[None, :], acc)


@pytest.mark.parametrize("programs", [1, 2, 5])
def test_loops_over_tiles(programs, threads):
    rng = np.random.default_rng(6)
    tiles, rows, cols, n, k = 20, 16, 64, 192, 530
    a, b = integers(rng, (tiles * rows, k), F32), integers(rng, (k, n), F32)
    chosen = np.sort(rng.integers(0, 3, tiles)).astype(np.int32)
    rng.shuffle(chosen[10:])
    out = poisoned((tiles * rows, cols), F32)
    persistent[(programs,)](a, b, out, chosen, tiles, n, k, rows, cols, 64)
    for tile in range(tiles):
        mine = slice(tile * rows, tile * rows + rows)
        check(out[mine], a[mine], b[:, chosen[tile] * cols:chosen[tile] * cols + cols])


@libtile.jit
def told(a, b, out, flag, K, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr, HOW: tl.constexpr):
    pid = tl.program_id(0)
    rows, cols = pid * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    if HOW == "atomic":
        tl.atomic_add(flag, 1)
    if HOW == "volatile":
        tl.load(flag, volatile=True)
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, K, STEP):
        k = start + tl.arange(0, STEP)
        acc = tl.dot(tl.load(a + rows[:, None] * K + k[None, :]), tl.load(b + k[:, None] * COLS + cols[None, :]), acc)
    tl.store(out + rows[:, None] * COLS + cols[None, :], acc)


@pytest.mark.parametrize("how", ["plain", "atomic", "volatile"])
def test_who_talks_to_others_keeps_nothing(how):
    rng = np.random.default_rng(7)
    a, b, flag = integers(rng, (64, 256), F32), integers(rng, (256, 64), F32), np.zeros(1, np.int32)
    out = poisoned((64, 64), F32)
    launched = told[(4,)](a, b, out, flag, 256, 16, 64, 64, how)
    check(out, a, b)
    assert keeps(launched) in (None, how == "plain")


@libtile.jit
def two_products(a, b, c, d, out, K, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr, ACC: tl.constexpr):
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    x = tl.zeros((ROWS, COLS), ACC)
    for start in range(0, K, STEP):
        k = start + tl.arange(0, STEP)
        left = tl.load(a + rows * K + k[None, :], mask=k[None, :] < K, other=0)
        x = tl.dot(left, tl.load(b + k[:, None] * COLS + cols, mask=k[:, None] < K, other=0), x)
    y = tl.zeros((ROWS, COLS), ACC)
    for start in range(0, K, STEP):
        k = start + tl.arange(0, STEP)
        left = tl.load(c + rows * K + k[None, :], mask=k[None, :] < K, other=0)
        y = tl.dot(left, tl.load(d + k[:, None] * COLS + cols, mask=k[:, None] < K, other=0), y)
    tl.store(out + rows * COLS + cols, x - y)


# The first loop's contract reads the rows of a where they lie, and the second one keeps its panels beside that.
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, cols, k", [(1, 64, 70), (16, 32, 512), (64, 64, 100), (32, 128, 257)])
def test_two_loops(device, dtype, rows, cols, k, threads):
    rng = np.random.default_rng(3)
    a, c = (integers(rng, (3 * rows, k), dtype) for _ in range(2))
    b, d = (integers(rng, (k, cols), dtype) for _ in range(2))
    on = OnDevice(device)
    out = on(poisoned((3 * rows, cols), TYPES[dtype]))
    two_products[(3,)](on(a), on(b), on(c), on(d), out, k, rows, cols, 32, tl.int32 if dtype == np.int8 else tl.float32)
    wide = [array.astype(np.float64) for array in (a, b, c, d)]
    np.testing.assert_array_equal(on.back(out), wide[0] @ wide[1] - wide[2] @ wide[3])
