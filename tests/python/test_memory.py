# SPDX-License-Identifier: Apache-2.0
"""What masks keep away from memory: guard pages beside the arrays; and the order of programs."""
import ctypes
import mmap
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import libtile
import libtile.language as tl

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """n elements that end where an inaccessible page begins, or that begin where one ends."""

    def __init__(self, n, dtype, at_end):
        self.bytes = n * np.dtype(dtype).itemsize
        pages = -(-max(self.bytes, 1) // PAGE)
        self.length = (pages + 2) * PAGE
        self.base = libc.mmap(None, self.length, mmap.PROT_READ | mmap.PROT_WRITE,
                              mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        assert self.base not in (None, ctypes.c_void_p(-1).value)
        for page in (0, pages + 1):
            assert libc.mprotect(self.base + page * PAGE, PAGE, 0) == 0
        start = self.base + PAGE + (pages * PAGE - self.bytes if at_end else 0)
        raw = (ctypes.c_uint8 * self.bytes).from_address(start)
        self.array = np.frombuffer(raw, np.uint8).view(dtype)

    def __del__(self):
        libc.munmap(self.base, self.length)


@libtile.jit
def add_one(x, out, n, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) - shift
    mask = (i >= 0) & (i < n)
    tl.store(out + i, tl.load(x + i, mask=mask) + 1, mask=mask)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int8,
                                   np.int16, np.int64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("n", [1, 7, 31, 64, 97])
@pytest.mark.parametrize("block", [16, 96, 1000])
@pytest.mark.parametrize("at_end", [True, False])
def test_masked_off_elements_never_touch_memory(dtype, n, block, at_end):
    x, out = Guarded(n, dtype, at_end), Guarded(n, dtype, at_end)
    x.array[:] = np.arange(n).astype(dtype)
    shift = 0 if at_end else 9
    add_one[(libtile.cdiv(n + shift, block),)](x.array, out.array, n, shift, BLOCK=block)
    np.testing.assert_array_equal(out.array, x.array + np.ones(1, dtype))


@libtile.jit
def read_rows(x, out, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    i = tl.arange(0, BLOCK_M)[:, None]
    j = tl.arange(0, BLOCK_N)[None, :]
    mask = (i < rows) & (j < cols)
    tl.store(out + i * cols + j, tl.load(x + i * cols + j, mask=mask, other=5.0), mask=mask)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("rows, cols", [(1, 1), (3, 17), (5, 33), (8, 16)])
def test_two_dimensional_masks(rows, cols, at_end):
    x, out = Guarded(rows * cols, np.float32, at_end), Guarded(rows * cols, np.float32, at_end)
    x.array[:] = np.arange(rows * cols)
    read_rows[(1,)](x.array, out.array, rows, cols, BLOCK_M=12, BLOCK_N=40)
    np.testing.assert_array_equal(out.array, x.array)


@libtile.jit
def divide(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = i < n
    a = tl.load(x + i, mask=mask, other=0)
    b = tl.load(y + i, mask=mask, other=0)
    tl.store(out + i, a // b, mask=mask)
    tl.store(out + n + i, a % b, mask=mask)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64],
                         ids=lambda dtype: dtype.__name__)
def test_division_never_kills_the_process(dtype):
    info = np.iinfo(dtype)
    x = np.array([7, 7, info.min, info.min, 0, info.max], dtype)
    y = np.array([2, 0, -1 if info.min < 0 else 1, 0, 0, 3], dtype)
    out = np.zeros(2 * x.size, dtype)
    divide[(1,)](x, y, out, x.size, BLOCK=64)
    want_div = [3, 0, info.min, 0, 0, info.max // 3]
    want_rem = [1, 7, 0, info.min, 0, info.max % 3]
    np.testing.assert_array_equal(out, np.array(want_div + want_rem, dtype))


@libtile.jit
def after_the_lower_one(flags, order, counter):
    pid = tl.program_id(0)
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0, sem="acquire") == 0:
            pass
    tl.store(order + pid, tl.atomic_add(counter, 1))
    tl.atomic_xchg(flags + pid, 1, sem="release")


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_kernel_that_spins_on_a_lower_program_finishes(threads):
    before = libtile.num_threads()
    libtile.set_num_threads(threads)
    try:
        n = 200
        flags, order, counter = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(1, np.int32)
        after_the_lower_one[(n,)](flags, order, counter)
        np.testing.assert_array_equal(order, np.arange(n))
    finally:
        libtile.set_num_threads(before)


@libtile.jit
def shifted(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    tl.store(x + i + 1, a, mask=i < n)


@pytest.mark.parametrize("n", [1, 15, 16, 63, 64])
def test_shifted_overlap_within_one_program(n):
    x = np.arange(65, dtype=np.float32)
    want = x.copy()
    want[1:n + 1] = x[:n]
    shifted[(1,)](x, n, BLOCK=64)
    np.testing.assert_array_equal(x, want)


@libtile.jit
def two_outputs(x, first, second, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        a = tl.load(x + i, mask=i < n)
        tl.store(first + i, a * 2, mask=i < n)
        tl.store(second + i, a + 1, mask=i < n)


@pytest.mark.parametrize("shift", [0, 1, 17, -5, 300, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_outputs_of_one_allocation(shift, dtype):
    """Views of one array, which overlap or do not, and an input that is apart: blocks are stored in order."""
    n, block = 5000, 512
    x = np.arange(n).astype(dtype)
    held = np.full(3 * n, -1, dtype)
    want, at = held.copy(), n // 2
    two_outputs[(1,)](x, held[at:at + n], held[at + shift:at + shift + n], n, BLOCK=block)
    for start in range(0, n, block):
        part = x[start:start + block]
        want[at + start:at + start + part.size] = part * 2
        want[at + shift + start:at + shift + start + part.size] = part + 1
    np.testing.assert_array_equal(held, want)


WAITS = """
import sys, threading, time
sys.path.insert(0, {folder!r})
import numpy as np
from waiting_kernel import wait
flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
for _ in range({launches}):
    flag[0] = 0
    thread = threading.Thread(target=lambda: wait[(1,)](flag, out))
    thread.start()
    time.sleep(0.05)
    assert thread.is_alive()
    flag[0] = 7
    thread.join()
    assert out[0] == 7
"""
KERNEL = """
import libtile, libtile.language as tl

@libtile.jit
def wait(flag, out):
    value = tl.load(flag, volatile=True)
    while value == 0:
        value = tl.load(flag, volatile=True)
    tl.store(out, value)
"""


def test_other_python_threads_run_during_a_launch(tmp_path):
    (tmp_path / "waiting_kernel.py").write_text(KERNEL)
    subprocess.run([sys.executable, "-c", WAITS.format(folder=str(tmp_path), launches=3)], check=True,
                   timeout=60)
