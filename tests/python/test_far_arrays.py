# SPDX-License-Identifier: Apache-2.0
"""Arrays of more than 2^31 elements: every way to reach their end, and int32 offsets that overflow on the way.

Zeros are memory that the system gives page by page as it is touched, and on the CPU tests touch a few pages of it.
"""
import numpy as np
import pytest
from spine import DEVICES, OnDevice, poisoned

import libtile
import libtile.language as tl

COLUMNS = 1 << 16
ROWS = (1 << 15) + 9
N = ROWS * COLUMNS  # 2^31 and 9 rows
LAST = 1000  # elements that are looked at, at the end

everywhere = pytest.mark.parametrize("device", DEVICES)
_arrays = {}


def far_array(device):
    """int8[N] on the device: the same for all tests, which write its end anew."""
    if device not in _arrays:
        _arrays[device] = OnDevice(device)(np.zeros(N, np.int8))
    return _arrays[device]


@libtile.jit
def move(x, small, first, n, WRITES: tl.constexpr, B: tl.constexpr):
    """x[first + j] and small[j] for j < n."""
    for start in range(0, n, B):
        j = start + tl.arange(0, B)
        if WRITES:
            tl.store(x + (first + j), tl.load(small + j, j < n), j < n)
        else:
            tl.store(small + j, tl.load(x + (first + j), j < n, other=0), j < n)


def write_end(on, x, rng):
    end = rng.integers(-128, 128, LAST).astype(np.int8)
    move[(1,)](x, on(end), N - LAST, LAST, True, 256)
    return end


def read_end(on, x):
    out = on(poisoned(LAST, np.int8))
    move[(1,)](x, out, N - LAST, LAST, False, 256)
    return on.back(out)


def test_the_end_is_where_it_should_be():
    x, on = far_array("cpu"), OnDevice("cpu")
    end = write_end(on, x, np.random.default_rng(1))
    np.testing.assert_array_equal(x[N - LAST:], end)
    np.testing.assert_array_equal(read_end(on, x), end)


@libtile.jit
def by_offsets(x, out, n, B: tl.constexpr):
    at = n - B + tl.arange(0, B)
    tl.store(out + tl.arange(0, B), tl.load(x + at))
    tl.store(x + at, tl.load(x + at) + 1)


@libtile.jit
def by_rows(x, out, n, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) + (n // 65536 - 1)
    at = x + row * 65536 + 65536 - B
    tl.store(out + tl.arange(0, B), tl.load(at + tl.arange(0, B)))
    tl.store(at + tl.arange(0, B), tl.load(at + tl.arange(0, B)) + 1)


@libtile.jit
def by_a_mask(x, out, n, B: tl.constexpr):
    at = n - B + tl.arange(0, 2 * B)
    value = tl.load(x + at, at < n, other=0)
    tl.store(out + tl.arange(0, 2 * B), value, at < n)
    tl.store(x + at, value + 1, at < n)


@libtile.jit
def by_an_advancing_pointer(x, out, n, B: tl.constexpr):
    p = x + (n - (n // 65536) * 65536) - B
    for _ in range(n // 65536):
        p += 65536
    tl.store(out + tl.arange(0, B), tl.load(p + tl.arange(0, B)))
    tl.store(p + tl.arange(0, B), tl.load(p + tl.arange(0, B)) + 1)


@libtile.jit
def by_a_far_loop(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for start in range(n - (1 << 31) - B, n, 1 << 31):
        value = tl.load(x + start + i)
        tl.store(out + i, value)
        if start > (1 << 30):
            tl.store(x + start + i, value + 1)


@libtile.jit
def by_a_block(x, out, n, B: tl.constexpr):
    block = tl.make_block_ptr(x, (n,), (1,), (n - B - 8,), (B,), (0,))
    block = block.advance((8,))
    value = tl.load(block, boundary_check=(0,))
    tl.store(out + tl.arange(0, B), value)
    tl.store(block, value + 1, boundary_check=(0,))


@libtile.jit
def by_a_block_of_rows(x, out, n, B: tl.constexpr):
    block = tl.make_block_ptr(x, (n // 65536, 65536), (65536, 1), ((n // 65536 - 2).to(tl.int32), 65536 - B),
                              (2, 2 * B), (1, 0))
    value = tl.load(block, boundary_check=(0, 1))
    kept = tl.arange(0, 2)[:, None] == 1
    tl.store(out + tl.arange(0, 2)[:, None] * 0 + tl.arange(0, 2 * B)[None, :], value,
             kept & (tl.arange(0, 2 * B)[None, :] < B))
    tl.store(block, value + kept.to(tl.int8), boundary_check=(0, 1))


@libtile.jit
def by_a_descriptor(x, out, n, B: tl.constexpr):
    rows = tl.make_tensor_descriptor(x, [(n // 65536).to(tl.int32), 65536], [65536, 1], [1, B])
    at = (n // 65536 - 1).to(tl.int32)
    value = rows.load([at, 65536 - B])
    tl.store(out + tl.arange(0, B)[None, :], value)
    rows.store([at, 65536 - B], value + 1)


@libtile.jit
def by_atomics(x, out, n, B: tl.constexpr):
    at = n - B + tl.arange(0, B)
    tl.store(out + tl.arange(0, B), tl.atomic_add(x + at, 1))


@libtile.jit
def by_an_atomic_of_each(x, out, n, B: tl.constexpr):
    for j in range(n - B, n):
        tl.store(out + (j - (n - B)), tl.atomic_xchg(x + j, tl.load(x + j) + 1))


WAYS = [by_offsets, by_rows, by_a_mask, by_an_advancing_pointer, by_a_far_loop, by_a_block, by_a_block_of_rows,
        by_a_descriptor, by_atomics, by_an_atomic_of_each]


@everywhere
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.src.split("(")[0].split()[-1])
@pytest.mark.parametrize("block", [64, 37])
def test_the_end_is_reached(device, way, block):
    x, on = far_array(device), OnDevice(device)
    end = write_end(on, x, np.random.default_rng(block))
    out = on(poisoned(2 * block, np.int8))
    way[(1,)](x, out, N, block)
    np.testing.assert_array_equal(on.back(out)[:block], end[-block:])
    changed = np.concatenate([end[:-block], end[-block:] + np.int8(1)])
    np.testing.assert_array_equal(read_end(on, x), changed)


@libtile.jit
def by_a_stride(x, out, stride, rows, B: tl.constexpr):
    """Column 0 of the rows whose number is rows - B and above: the stride is the caller's."""
    row = rows - B + tl.arange(0, B)
    tl.store(out + tl.arange(0, B), tl.load(x + row.to(tl.int64) * stride))


@everywhere
@pytest.mark.parametrize("stride", [3, 48, COLUMNS, (1 << 31) + 5])
def test_strided_views(device, stride):
    x, on = far_array(device), OnDevice(device)
    end = write_end(on, x, np.random.default_rng(3))
    rows = (N - 1) // stride + 1
    block = min(5, rows)
    out = on(poisoned(block, np.int8))
    by_a_stride[(1,)](x, out, stride, rows, block)
    places = (rows - block + np.arange(block)) * stride - (N - LAST)
    inside = places >= 0
    np.testing.assert_array_equal(on.back(out)[inside], end[places[inside]])


@libtile.jit
def wrapping(x, out, row, B: tl.constexpr):
    """The offset is an int32, and so is its product with the number of columns."""
    at = row * 65536 + tl.arange(0, B)
    tl.store(out + tl.arange(0, B), tl.load(x + at))


@pytest.mark.not_interpreted("it names the offset that overflows as a fault of its own")
def test_an_offset_that_overflows_is_found():
    x, out = far_array("cpu"), poisoned(16, np.int8)
    wrapping[(1,)](x, out, (1 << 15) - 1, 16, check=True)
    with pytest.raises(libtile.OutOfBoundsError, match="x") as caught:
        wrapping[(1,)](x, out, 1 << 15, 16, check=True)
    assert "tl.load(x + at)" in str(caught.value)


@libtile.jit
def past_the_end(x, n, B: tl.constexpr):
    tl.store(x + (n - B + 1) + tl.arange(0, B), 1)


def test_one_element_past_the_end_is_found():
    with pytest.raises(libtile.OutOfBoundsError, match="x"):
        past_the_end[(1,)](far_array("cpu"), N, 16, check=True)
    past_the_end[(1,)](far_array("cpu"), N - 1, 16, check=True)
