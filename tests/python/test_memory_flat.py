# SPDX-License-Identifier: Apache-2.0
"""What is compiled and dropped leaves no memory behind: ./dev test --sanitize runs these, some minutes each."""
import ctypes
import gc
import os

import numpy as np
import pytest

import libtile
import libtile.language as tl

pytestmark = pytest.mark.sanitize

COUNT = 10_000
WARM = 1_000
# A kernel that is kept holds a page of code at least, so that COUNT of them would be 40 MB.
SLACK = 16 << 20

SCALE = tl.constexpr(0)


@libtile.jit
def write_global(out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.full((BLOCK,), SCALE, tl.int32))


def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(step):
    """Bytes that COUNT steps add, after WARM that fill pools and caches."""
    for i in range(WARM):
        step(i)
    before = resident()
    for i in range(WARM, WARM + COUNT):
        step(i)
    return resident() - before


def test_changed_globals():
    out = np.empty(16, np.int32)

    def step(i):
        global SCALE
        SCALE = tl.constexpr(i)
        write_global[(1,)](out, BLOCK=16)
        assert (out == i).all()

    assert growth(step) < SLACK


def test_short_lived_functions():
    out = np.empty(16, np.int32)

    def step(i):
        @libtile.jit
        def write(out, value, BLOCK: tl.constexpr):
            tl.store(out + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.int32) + value)

        write[(1,)](out, i, BLOCK=16)
        assert (out == i).all()

    assert growth(step) < SLACK
