# SPDX-License-Identifier: Apache-2.0
"""Additions of integers to places that all programs share, which a CPU's threads sum up for themselves: the same numbers
as one after the other gives, nothing beside them touched, and not where the kernel could tell."""
import numpy as np
import processes
import pytest
from spine import DEVICES, OnDevice, random

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
WIDE = [np.int32, np.uint32, np.int64, np.uint64]


def types(dtypes):
    return pytest.mark.parametrize("dtype", dtypes, ids=lambda dtype: dtype.__name__)


def assert_deferred(kernel, device, wanted=True):
    if device == "cpu" and not libtile.knobs.interpreter.enabled:
        assert ("call_sums" in kernel.asm["nested"]) == wanted


@libtile.jit
def columns(x, out, rows, n, FIRST: tl.constexpr, BLOCK: tl.constexpr, SEM: tl.constexpr):
    i = tl.arange(FIRST, FIRST + BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        if row % 3 != 1:
            tl.atomic_add(out + i, tl.load(x + row * n + i - FIRST, i < FIRST + n, other=7), i < FIRST + n, SEM)


@everywhere
@types(WIDE)
@pytest.mark.parametrize("rows, n, first, block", [(1, 64, 0, 64), (200, 33, 5, 64), (77, 512, 64, 512), (1000, 5, 3, 8), (9, 2000, 100, 2048),
                                                   (11, 1, 0, 1), (11, 2, 1, 2), (11, 3, 2, 3), (20, 5, 0, 5), (20, 7, 7, 7)])
@pytest.mark.parametrize("programs", [1, 7, 500])
@pytest.mark.parametrize("sem", ["relaxed", None])
def test_columns(device, dtype, rows, n, first, block, programs, sem):
    """Sums that wrap around; what is masked off lies behind the array's end, or is somebody else's."""
    rng, on = np.random.default_rng(rows), OnDevice(device)
    x, before = random(rng, (rows, n), dtype), random(rng, first + n + 17, dtype)
    out = on(before.copy())
    kernel = columns[(programs,)](on(x), out, rows, n, first, block, sem)
    assert_deferred(kernel, device, sem == "relaxed")
    want = before.copy()
    want[first:first + n] += x[np.arange(rows) % 3 != 1].sum(0, dtype=dtype)
    np.testing.assert_array_equal(on.back(out), want)


@libtile.jit
def two_arrays(x, y, a, b, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * BLOCK + i
    v, w = tl.load(x + row), tl.load(y + row)
    tl.atomic_add(a + i, v, sem="relaxed")
    tl.atomic_add(b + i, w, i % 2 == 0, sem="relaxed", scope="cta")
    tl.atomic_add(a + i, v + 1, i < n, sem="relaxed")


@everywhere
@pytest.mark.parametrize("programs, n, block", [(1, 3, 4), (300, 10, 16), (65, 1000, 1024)])
def test_two_arrays_and_one_twice(device, programs, n, block):
    rng, on = np.random.default_rng(n), OnDevice(device)
    x, y = random(rng, (programs, block), np.int32), random(rng, (programs, block), np.int64)
    a, b = on(np.zeros(block, np.int32)), on(np.ones(block, np.int64))
    assert_deferred(two_arrays[(programs,)](on(x), on(y), a, b, n, block), device)
    even, below = np.arange(block) % 2 == 0, np.arange(block) < n
    np.testing.assert_array_equal(on.back(a), x.sum(0, dtype=np.int32) + below * (x + np.int32(1)).sum(0, dtype=np.int32))
    np.testing.assert_array_equal(on.back(b), 1 + even * y.sum(0))


@libtile.jit
def counted(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.arange(0, BINS), tl.histogram(tl.load(x + i, i < n), BINS, i < n))


@everywhere
@pytest.mark.parametrize("n, block, bins", [(5000, 256, 64), (100_001, 1024, 256), (7, 16, 8)])
def test_histograms(device, n, block, bins):
    rng, on = np.random.default_rng(n), OnDevice(device)
    x, out = rng.integers(0, bins, n).astype(np.int32), on(np.zeros(bins, np.int32))
    for launches in (1, 2):  # nothing is left over of the first
        assert_deferred(counted[(libtile.cdiv(n, block),)](on(x), out, n, block, bins), device)
        np.testing.assert_array_equal(on.back(out), launches * np.bincount(x, minlength=bins))


# ---- where the kernel could tell

@libtile.jit
def read_again(out, other, seen, turns, BLOCK: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for turn in range(turns):
        if HOW == "old":
            old = tl.atomic_add(out + i, 1)
        else:
            tl.atomic_add(out + i, 1)
        if HOW == "same":
            old = tl.load(out + i) - 1
        elif HOW == "other":
            old = tl.load(other + i) - 1
        elif HOW == "exchanged":
            old = tl.atomic_xchg(other + i, 100 * turn) - 1
        tl.store(seen + turn * BLOCK + i, old)


@everywhere
@pytest.mark.parametrize("how", ["old", "same", "other", "exchanged"])
@pytest.mark.parametrize("is_same", [True, False])
def test_one_program_sees_what_it_adds(device, how, is_same):
    block, turns, on = 64, 5, OnDevice(device)
    out, seen = on(np.zeros(block, np.int32)), on(np.full((turns, block), -7, np.int32))
    other = out if is_same else on(np.full(block, 50, np.int32))
    read_again[(1,)](out, other, seen, turns, block, how)
    number = np.arange(turns)
    if how in ("old", "same"):
        want = number
    elif how == "other":
        want = number if is_same else np.full(turns, 49)
    else:
        want = 100 * (number - 1) if is_same else np.where(number == 0, 49, 100 * (number - 1) - 1)
        want[0] = 0 if is_same else 49
    np.testing.assert_array_equal(on.back(seen), np.repeat(want[:, None], block, 1))
    if not (how == "exchanged" and is_same):
        np.testing.assert_array_equal(on.back(out), np.full(block, turns))


@libtile.jit
def into_its_numbers(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for row in range(n):
        tl.atomic_add(out + i, tl.load(x + row * BLOCK + i))


@pytest.mark.parametrize("row", [0, 1, 3])
def test_the_array_is_one_of_the_rows(row):
    """A guard says at the launch that the arrays are apart; these are not."""
    block, rows, rng = 32, 4, np.random.default_rng(row)
    x = random(rng, (rows, block), np.int32)
    want, ours = x.copy(), x.copy()
    for each in range(rows):
        want[row] += want[each]
    into_its_numbers[(1,)](ours, ours[row], rows, block)
    np.testing.assert_array_equal(ours, want)


@libtile.jit
def by_words(a, b, turns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for _ in range(turns):
        tl.atomic_add(a + i, 1, sem="relaxed")
        tl.atomic_add(b + i, 1, sem="relaxed")


@pytest.mark.parametrize("low", [0xFFFFFFF8, 0xFFFFFFF9, 0xFFFFFFFE])
def test_a_carry_goes_into_the_next_word(low):
    ours = np.full(64, low, np.uint32)
    ours[1::2] = 5
    want = ours.copy()
    for _ in range(5):
        want[:32] += np.uint32(1)
        want.view(np.uint64)[:] += np.uint64(1)
    by_words[(1,)](ours.view(np.int32), ours.view(np.int64), 5, 32)
    np.testing.assert_array_equal(ours, want)


STOPPED = """
import signal
import numpy as np
import libtile, libtile.language as tl

@libtile.jit
def endless(out, turns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for _ in range(turns):
        tl.atomic_add(out + i, 1, sem="relaxed")

signal.signal(signal.SIGINT, signal.default_int_handler)
out = np.zeros(1000, np.int32)
assert "call_sums" in endless[(1,)](out, 3, 1000).asm["nested"] and (out == 3).all()
print("ready", flush=True)
try:
    endless[(1000,)](out, 2_000_000_000, 1000)
    raise SystemExit("it was not stopped")
except KeyboardInterrupt:
    assert out[0] > 3 and (out == out[0]).all(), out
"""


@pytest.mark.not_interpreted("it has no calls of compiled code")
def test_what_was_added_in_front_of_an_interrupt_is_there(tmp_path):
    process = processes.start(tmp_path / "stopped.py", STOPPED)
    processes.interrupt(process, after=0.3)
    processes.finish(process)
