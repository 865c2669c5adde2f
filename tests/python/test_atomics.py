# SPDX-License-Identifier: Apache-2.0
"""Atomics on tiles and scalars: all element types, masks, what they give, the order of floats, locks."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [F16, BF16, F32, F64]


def types(dtypes):
    return pytest.mark.parametrize("dtype", dtypes, ids=lambda dtype: dtype.__name__)


def bits(x):
    return x.view(f"u{x.itemsize}")


def total_order(x):
    """Integers that grow as the floats do, -NaN first and NaN last; integers themselves."""
    if x.dtype.kind in "iu":
        return x
    signed = x.view(f"i{x.itemsize}")
    return np.where(signed < 0, np.iinfo(signed.dtype).min - signed - 1, signed)


def larger(a, b):
    return np.where(total_order(a) >= total_order(b), a, b)


def smaller(a, b):
    return np.where(total_order(a) <= total_order(b), a, b)


KINDS = {"add": lambda a, b: (a + b).astype(a.dtype), "max": larger, "min": smaller, "and": lambda a, b: a & b,
         "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "xchg": lambda a, b: b}


def some(rng, n, dtype):
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.max, 0, 1], dtype)
        return np.concatenate([edges, rng.integers(info.min, info.max, n, dtype, endpoint=True)])[:n]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1, -1], np.float32).astype(dtype)
    return np.concatenate([rng.choice(special, n // 2), rng.standard_normal(n - n // 2).astype(dtype) * 4])


@libtile.jit
def update(p, value, mask, sem: tl.constexpr, scope: tl.constexpr, KIND: tl.constexpr):
    if KIND == "add":
        return tl.atomic_add(p, value, mask, sem, scope)
    elif KIND == "max":
        return tl.atomic_max(p, value, mask=mask, sem=sem, scope=scope)
    elif KIND == "min":
        return p.atomic_min(value, mask, sem, scope)
    elif KIND == "and":
        return tl.atomic_and(p, value, mask, sem, scope)
    elif KIND == "or":
        return p.atomic_or(value, mask=mask, sem=sem)
    elif KIND == "xor":
        return tl.atomic_xor(p, value, mask, scope=scope)
    else:
        return tl.atomic_xchg(p, value, mask, sem, scope)


@libtile.jit
def each(x, value, mask, old, n, BLOCK: tl.constexpr, KIND: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr,
         WANTED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = tl.load(mask + i, i < n, other=0) != 0
    was = update(x + i, tl.load(value + i, i < n), on, SEM, SCOPE, KIND)
    if WANTED:
        tl.store(old + i, was, i < n)


def expected(kind, x, value, on):
    with np.errstate(all="ignore"):
        return np.where(on, KINDS[kind](x, value), x), np.where(on, x, np.zeros((), x.dtype))


def assert_same(got, want):
    """The same bits; a NaN may be another one."""
    if got.dtype.kind not in "iu":
        nan = np.isnan(want.astype(F64))
        np.testing.assert_array_equal(np.isnan(got.astype(F64)), nan)
        got, want = got[~nan], want[~nan]
    np.testing.assert_array_equal(bits(got), bits(want))


PAIRS = [pytest.param(dtype, kind, id=f"{dtype.__name__}-{kind}") for dtype in INTEGERS + FLOATS for kind in KINDS
         if dtype in INTEGERS or kind not in ("and", "or", "xor")]


@everywhere
@pytest.mark.parametrize("dtype, kind", PAIRS)
def test_every_kind_on_every_type(device, dtype, kind):
    rng = np.random.default_rng(3)
    on = OnDevice(device)
    for n, block, sem, scope, wanted in ((300, 128, None, None, True), (7, 5, "relaxed", "cta", True),
                                         (64, 16, "acquire", "sys", True), (200, 96, "release", "gpu", False),
                                         (1, 1, "acq_rel", None, True), (1000, 1024, "relaxed", "gpu", False)):
        x, value, mask = some(rng, n, dtype), some(rng, n, dtype)[::-1].copy(), rng.integers(0, 3, n).astype(np.int8)
        got, old = on(x.copy()), on(poisoned(n, dtype))
        each[(libtile.cdiv(n, block),)](got, on(value), on(mask), old, n, block, kind, sem, scope, wanted)
        now, was = expected(kind, x, value, mask != 0)
        assert_same(on.back(got), now)
        if wanted:
            assert_same(on.back(old), was)


@libtile.jit
def one(x, value, old, on, KIND: tl.constexpr):
    tl.store(old, update(x, tl.load(value), on != 0, None, None, KIND))


@everywhere
@types(INTEGERS + FLOATS)
@pytest.mark.parametrize("kind", ["add", "max", "min", "xchg"])
def test_scalars(device, dtype, kind):
    rng = np.random.default_rng(4)
    on = OnDevice(device)
    for k in range(6):
        x, value = some(rng, 9, dtype)[k:k + 1], some(rng, 9, dtype)[8 - k:9 - k]
        got, old = on(x.copy()), on(poisoned(1, dtype))
        one[(1,)](got, on(value), old, k % 3, kind)
        now, was = expected(kind, x, value, np.array([k % 3 != 0]))
        assert_same(on.back(got), now)
        assert_same(on.back(old), was)


@libtile.jit
def swap(x, expect, value, mask, old, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.static_assert(MASKED or BLOCK == 1 or BLOCK == 8)
    if MASKED:
        was = tl.atomic_cas(x + i, tl.load(expect + i, i < n), tl.load(value + i, i < n),
                            mask=tl.load(mask + i, i < n, other=0) != 0)
    else:
        was = (x + i).atomic_cas(tl.load(expect + i), tl.load(value + i), sem="relaxed")
    tl.store(old + i, was, i < n)


@everywhere
@types(INTEGERS + FLOATS)
@pytest.mark.parametrize("n, block, masked", [(40, 64, True), (100, 24, True), (16, 8, False), (5, 1, False)])
def test_compare_and_swap(device, dtype, n, block, masked):
    """Bits are compared: 0.0 is not -0.0, and a NaN is itself."""
    rng = np.random.default_rng(5)
    on = OnDevice(device)
    x, value = some(rng, n, dtype), some(rng, n, dtype)
    expect = np.where(rng.random(n) < 0.5, x, some(rng, n, dtype)[::-1])
    mask = rng.integers(0, 2, n).astype(np.int8) if masked else np.ones(n, np.int8)
    got, old = on(x.copy()), on(poisoned(n, dtype))
    swap[(libtile.cdiv(n, block),)](got, on(expect), on(value), on(mask), old, n, block, masked)
    want = np.where((mask != 0) & (bits(x) == bits(expect)), value, x)
    np.testing.assert_array_equal(bits(on.back(got)), bits(want))
    np.testing.assert_array_equal(bits(on.back(old)), np.where(mask != 0, bits(x), 0))


# ---- many programs

@libtile.jit
def gather_all(x, bins, out, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bin = tl.load(bins + i, i < n, other=0)
    update(out + bin, tl.load(x + i, i < n), i < n, "relaxed", None, KIND)


@everywhere
@pytest.mark.parametrize("dtype, kind", [pair for pair in PAIRS if pair.values[1] not in ("and", "or", "xchg")])
def test_many_programs_meet_in_a_few_places(device, dtype, kind):
    """Places of 8 and 16 bits share words."""
    rng = np.random.default_rng(6)
    n, places = 5000, 7
    x, bins = rng.integers(0, 3, n).astype(dtype), rng.integers(0, places, n).astype(np.int32)
    if dtype in (F16, BF16):
        x = (x * (rng.random(n) < 0.02).astype(dtype)).astype(dtype)  # sums that the type holds
    on = OnDevice(device)
    out = on(np.ones(places + 2, dtype))
    gather_all[(libtile.cdiv(n, 96),)](on(x), on(bins), out, n, 96, kind)
    want = np.ones(places + 2, dtype)
    for b in range(places):
        for value in x[bins == b]:
            want[b:b + 1] = expected(kind, want[b:b + 1], np.array([value]), np.array([True]))[0]
    np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def into_a_row(x, out, old, first, n, BLOCK: tl.constexpr, KIND: tl.constexpr, MASKED: tl.constexpr):
    i = tl.arange(0, BLOCK)
    out += first
    row = tl.program_id(0) * BLOCK + i
    if MASKED:
        tl.store(old + row, update(out + i, tl.load(x + row), i < n, None, None, KIND))
    else:
        update(out + i, tl.load(x + row), None, "relaxed", None, KIND)


@everywhere
@pytest.mark.parametrize("dtype, kind", PAIRS)
@pytest.mark.parametrize("first, block, n", [(0, 64, None), (3, 40, None), (16, 36, 33)])
def test_programs_meet_in_a_row(device, dtype, kind, first, block, n):
    """Elements side by side, which a target may update together: neighbours stay, whoever comes between."""
    rng = np.random.default_rng(9)
    programs = 60
    x = rng.integers(0, 2, (programs, block)).astype(dtype)
    out, old = some(rng, first + block + 20, dtype), poisoned(programs * block, dtype)
    out[first:first + block] = 0
    on = OnDevice(device)
    got, was = on(out.copy()), on(old.copy())
    into_a_row[(programs,)](on(x.reshape(-1)), got, was, first, n or block, block, kind, n is not None)
    if kind == "add":
        want = x.sum(0).astype(dtype)
    elif kind == "xchg":
        want = None
    else:
        want = {"max": x.max(0), "or": x.max(0), "min": 0 * x[0], "and": 0 * x[0],
                "xor": np.bitwise_xor.reduce(x, 0) if kind == "xor" else None}[kind]
    now, end = on.back(got), block if n is None else n
    if want is not None:
        np.testing.assert_array_equal(now[first:first + end], want[:end])
    else:
        assert np.isin(now[first:first + end], [0, 1]).all()
    assert_same(np.delete(now, np.s_[first:first + end]), np.delete(out, np.s_[first:first + end]))
    if n is not None and kind == "add":
        # What a program finds is what the others before it added.
        seen = on.back(was).reshape(programs, block).astype(np.int64)
        assert (seen[:, end:] == 0).all()
        for column in range(end):
            found = np.sort(seen[x[:, column] == 1, column])
            np.testing.assert_array_equal(found, np.arange(found.size))


@libtile.jit
def numbered(counter, out, n, BLOCK: tl.constexpr):
    """Each lane of each program gets a number of its own."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = tl.atomic_add(counter + tl.zeros((BLOCK,), tl.int32), 1, i < n)
    again = tl.sum(mine, 0)
    tl.store(out + mine, mine * 2, i < n)
    tl.atomic_add(counter + 1, again)


@everywhere
@pytest.mark.parametrize("n, block", [(100, 8), (1000, 33), (5, 1), (4096, 256)])
def test_old_values_are_each_seen_once(device, n, block):
    """Also of tiles with fewer elements than the program has threads."""
    on = OnDevice(device)
    counter, out = on(np.zeros(2, np.int32)), on(poisoned(n, np.int32))
    numbered[(libtile.cdiv(n, block),)](counter, out, n, block)
    np.testing.assert_array_equal(on.back(out), 2 * np.arange(n))
    assert on.back(counter).tolist() == [n, n * (n - 1) // 2]


@libtile.jit
def under_lock(lock, sums, x, n, BLOCK: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if HOW == "cas":
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
    else:
        while tl.atomic_xchg(lock, 1, sem="acquire") == 1:
            while tl.atomic_load(lock, sem="relaxed") == 1:
                pass
    tl.store(sums + i, tl.load(sums + i) + tl.load(x + tl.program_id(0) * BLOCK + i))
    tl.debug_barrier()
    if HOW == "cas":
        tl.atomic_xchg(lock, 0)
    else:
        tl.atomic_store(lock, 0)


@everywhere
@pytest.mark.parametrize("how", ["cas", "load and store"])
@pytest.mark.parametrize("programs, block", [(1, 4), (64, 100), (200, 7)])
def test_a_lock_protects_a_row(device, how, programs, block):
    rng = np.random.default_rng(7)
    x = rng.integers(-9, 9, (programs, block)).astype(np.int32)
    on = OnDevice(device)
    sums = on(np.zeros(block, np.int32))
    under_lock[(programs,)](on(np.zeros(1, np.int32)), sums, on(x), x.size, block, how)
    np.testing.assert_array_equal(on.back(sums), x.sum(0))


@libtile.jit
def handed_on(flags, data, out, BLOCK: tl.constexpr):
    """Each program waits for the one before it, and reads what that has written."""
    pid, i = tl.program_id(0), tl.arange(0, BLOCK)
    if pid > 0:
        while tl.atomic_load(flags + pid - 1) != 1:
            pass
        before = tl.load(data + (pid - 1) * BLOCK + i)
    else:
        before = tl.zeros((BLOCK,), tl.int32)
    tl.store(data + pid * BLOCK + i, before + i + 1)
    (flags + pid).atomic_store(1, sem="release")
    tl.store(out + pid, tl.sum(before, 0))


@everywhere
@pytest.mark.parametrize("programs, block", [(40, 5), (64, 128)])
def test_a_release_hands_a_row_on(device, programs, block):
    on = OnDevice(device)
    out = on(poisoned(programs, np.int32))
    handed_on[(programs,)](on(np.zeros(programs, np.int32)), on(poisoned((programs, block), np.int32)), out, block)
    np.testing.assert_array_equal(on.back(out), np.arange(programs) * (block * (block + 1) // 2))


@libtile.jit
def read_and_write(x, out, mask, n, BLOCK: tl.constexpr, SEM: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = tl.load(mask + i, i < n, other=0) != 0
    value = tl.atomic_load(x + i, on, sem="relaxed" if SEM == "relaxed" else "acquire", scope="sys")
    tl.atomic_store(out + i, value, on, SEM)
    first = (x).atomic_load()
    tl.atomic_store(out + n, first, sem=SEM)


@everywhere
@types(INTEGERS + FLOATS)
@pytest.mark.parametrize("n, block", [(50, 64), (4, 4), (300, 100)])
def test_atomic_loads_and_stores(device, dtype, n, block):
    rng = np.random.default_rng(8)
    on = OnDevice(device)
    x, mask = some(rng, n, dtype), rng.integers(0, 2, n).astype(np.int8)
    for sem in (None, "relaxed", "release"):
        out = on(np.ones(n + 1, dtype))
        read_and_write[(libtile.cdiv(n, block),)](on(x), out, on(mask), n, block, sem)
        want = np.concatenate([np.where(mask != 0, x, np.ones((), dtype)), x[:1]])
        np.testing.assert_array_equal(bits(on.back(out)), bits(want))


@libtile.jit
def polled(flags, seen, BLOCK: tl.constexpr, TILE: tl.constexpr):
    """Program 1 waits for what program 0 writes."""
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.atomic_store(flags + i, i + 1)
    elif TILE:
        tl.store(seen + i, tl.atomic_poll(flags + i, i + 1).to(tl.int32))
    else:
        tl.store(seen + i, (flags + BLOCK - 1).atomic_poll(BLOCK, "relaxed", scope="sys").to(tl.int32))


@everywhere
@pytest.mark.parametrize("tile", [True, False])
@pytest.mark.parametrize("block", [1, 40, 256])
def test_poll(device, tile, block):
    on = OnDevice(device)
    seen = on(np.full(block, 5, np.int32))
    polled[(2,)](on(np.zeros(block, np.int32)), seen, block, tile)
    np.testing.assert_array_equal(on.back(seen), np.ones(block))


@libtile.jit
def polled_in_time(flags, seen, limit, time, N: tl.constexpr, LIMIT: tl.constexpr):
    i = tl.arange(0, N)
    start = tl.extra.cuda.globaltimer()
    if LIMIT is None:
        found = tl.atomic_poll(flags + i, 7, timeout_ns=limit)
        last = (flags + N - 1).atomic_poll(7, "relaxed", timeout_ns=limit)
    else:
        found = tl.atomic_poll(flags + i, 7, timeout_ns=LIMIT)
        last = (flags + N - 1).atomic_poll(7, "relaxed", timeout_ns=LIMIT)
    tl.store(time, tl.extra.cuda.globaltimer() - start)
    tl.store(seen + i, found.to(tl.int32))
    tl.store(seen + N, last.to(tl.int32))


@everywhere
@types([np.int8, np.int16, np.int32, np.uint32, np.int64])
@pytest.mark.parametrize("limit", [0, 1, 3_000_000, np.uint64(2_000_000)])
@pytest.mark.parametrize("constant", [True, False])
def test_poll_with_a_time_limit(device, dtype, limit, constant):
    on, n = OnDevice(device), 40
    flags = np.full(n, 7, dtype)
    flags[[5, 11, n - 1]] = 6
    seen, time = on(np.full(n + 1, 5, np.int32)), on(np.zeros(1, np.int64))
    polled_in_time[(1,)](on(flags), seen, limit, time, n, int(limit) if constant else None)
    np.testing.assert_array_equal(on.back(seen), np.append(flags == 7, False))
    assert 2 * int(limit) <= on.back(time)[0] < 2 * int(limit) + 1e9
    polled_in_time[(1,)](on(np.full(n, 7, dtype)), seen, 2**40, time, n, 2**40 if constant else None)
    assert on.back(seen).tolist() == [1] * (n + 1) and on.back(time)[0] < 1e9


@libtile.jit
def polled_for(flags, limit):
    tl.atomic_store(flags + 1, tl.atomic_poll(flags, 1, timeout_ns=limit).to(tl.int32))


@pytest.mark.parametrize("limit, message", [(-1, "must not be negative"), (1.5, "must be a scalar integer")])
def test_what_is_no_time(limit, message):
    @libtile.jit
    def wrong(flags, LIMIT: tl.constexpr):
        tl.atomic_poll(flags, 1, timeout_ns=LIMIT)

    with pytest.raises(libtile.CompilationError, match=message):
        wrong[(1,)](np.zeros(2, np.int32), limit)
    if limit != -1:
        with pytest.raises(libtile.CompilationError, match=message):
            polled_for[(1,)](np.zeros(2, np.int32), limit)


@everywhere
@pytest.mark.parametrize("limit", [-1, -5, -2**40])
def test_a_time_that_is_over(device, limit):
    on = OnDevice(device)
    flags = on(np.array([0, 9], np.int32))
    polled_for[(1,)](flags, limit)
    assert on.back(flags).tolist() == [0, 0]


def test_integers_never_hold_a_fraction():
    @libtile.jit
    def wrong(flags):
        flags.atomic_poll(0.5)

    with pytest.raises(libtile.CompilationError, match="expected value of atomic_poll on integers must be an integer"):
        wrong[(1,)](np.zeros(2, np.int32))
