# SPDX-License-Identifier: Apache-2.0
"""The checked mode of the CPU: what is out of an array's bounds is an error, and what is not is none."""
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import random_kernels
from test_memory import Guarded

import libtile
import libtile.language as tl

KINDS = []


def kind(*shape, dtypes=(np.float32, np.float16, np.float64, np.int8)):
    """A kernel that reaches for x[at] .. x[at + the product of shape - 1], each of them once or more."""
    def add(function):
        kernel = libtile.jit(function)
        KINDS.extend(pytest.param(kernel, shape, dtype, id=f"{function.__name__}-{dtype.__name__}")
                     for dtype in dtypes)
        return kernel
    return add


# ---- kinds of accesses: the one that is checked has `x + at` on its line
@kind(100)
def load(x, o, at, M: tl.constexpr):
    tl.store(o + tl.arange(0, M), tl.load(x + at + tl.arange(0, M)))


@kind(37)
def load_masked(x, o, at, M: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(o + i, tl.load(x + at + i, mask=i < M, other=1), mask=i < M)


@kind(1000)
def load_within_limits(x, o, at, M: tl.constexpr):
    i, n = tl.arange(0, 2048), tl.program_id(0) + M
    tl.store(o + i, tl.load(x + at + i, mask=i < n), mask=i < n)


@kind(13, 40)
def load_rows(x, o, at, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + i, tl.load(x + at + i))


@kind(13, 40)
def load_columns(x, o, at, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, M)[None, :]
    tl.store(o + i * M + j, tl.load(x + at + j * N + i))


@kind(50)
def load_backwards(x, o, at, M: tl.constexpr):
    tl.store(o + tl.arange(0, M), tl.load(x + at + (M - 1) - tl.arange(0, M)))


@kind(100)
def load_wrapped(x, o, at, M: tl.constexpr):
    i = tl.arange(0, 256)
    tl.store(o + i, tl.load(x + at + (i + tl.program_id(0)) % (tl.num_programs(0) * M)))


@kind(6, 7, 8)
def load_blocks(x, o, at, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None, None], tl.arange(0, N)[None, :, None], tl.arange(0, K)[None, None, :]
    tl.store(o + k * M * N + m * N + n, tl.load(x + at + m * N * K + n * K + k))


@kind(50)
def gather(x, o, at, M: tl.constexpr):
    i = tl.arange(0, M)
    tl.store(o + i, i.to(o.dtype.element_ty))
    tl.store(o + M + i, tl.load(x + at + tl.load(o + i).to(tl.int32)))


@kind(30)
def gather_masked(x, o, at, M: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(o + i, tl.load(x + at + i * 3 % 64, mask=i * 3 % 64 < M, other=3))


@kind(1)
def load_scalar(x, o, at, M: tl.constexpr):
    tl.store(o, tl.load(x + at))


@kind(1)
def load_scalar_masked(x, o, at, M: tl.constexpr):
    tl.store(o, tl.load(x + at, mask=tl.program_id(0) < M, other=5))


@kind(1)
def load_one_for_all(x, o, at, M: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(o + i, tl.load(x + at + i * 0, mask=i < 60))


@kind(9)
def load_in_a_loop(x, o, at, M: tl.constexpr):
    s = tl.load(o)
    for k in range(M):
        s += tl.load(x + at + k)
    tl.store(o, s)


@kind(9)
def load_in_a_while(x, o, at, M: tl.constexpr):
    s, k = tl.load(o), 0
    while k < M:
        s += tl.load(x + at + k)
        k += 1
    tl.store(o, s)


@kind(7, 70)
def load_in_a_sunk_loop(x, o, at, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    s = tl.load(o + i)
    for k in range(M):
        s += tl.load(x + at + k * N + i)
    tl.store(o + i, s)


@kind(7, 70)
def load_by_a_carried_pointer(x, o, at, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    s, p = tl.load(o + i), x + at + i
    for k in range(M):
        s += tl.load(p)  # x + at
        p += N
    tl.store(o + i, s)


@kind(300)
def reduce(x, o, at, M: tl.constexpr):
    tl.store(o, tl.max(tl.load(x + at + tl.arange(0, M)), 0))


@kind(12, 45)
def reduce_rows(x, o, at, M: tl.constexpr, N: tl.constexpr):
    a = tl.load(x + at + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(o + tl.arange(0, M), tl.max(a, 1))


@kind(24, 33, dtypes=(np.float32, np.float16))
def first_operand(x, o, at, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)
    a = tl.load(x + at + m * N + n[None, :])
    b = tl.load(o + n[:, None] * M + tl.arange(0, M)[None, :])
    tl.store(o + m * M + tl.arange(0, M)[None, :], tl.dot(a, b).to(o.dtype.element_ty))


@kind(33, 24, dtypes=(np.float32, np.float16))
def second_operand(x, o, at, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)[None, :]
    a = tl.load(o + tl.arange(0, 16)[:, None] * M + m[None, :])
    b = tl.load(x + at + m[:, None] * N + n)
    tl.store(o + tl.arange(0, 16)[:, None] * N + n, tl.dot(a, b).to(o.dtype.element_ty))


@kind(96, 24, dtypes=(np.float32, np.float16))
def operand_in_a_loop(x, o, at, M: tl.constexpr, N: tl.constexpr):
    k, n = tl.arange(0, 16), tl.arange(0, N)[None, :]
    s = tl.zeros((16, N), tl.float32)
    for first in range(0, M, 16):
        a = tl.load(o + tl.arange(0, 16)[:, None] * M + first + k[None, :])
        s = tl.dot(a, tl.load(x + at + (first + k[:, None]) * N + n), s)
    tl.store(o + tl.arange(0, 16)[:, None] * N + n, s.to(o.dtype.element_ty))


@kind(90, 24, dtypes=(np.float32, np.float16))
def masked_operand_in_a_loop(x, o, at, M: tl.constexpr, N: tl.constexpr):
    k, n = tl.arange(0, 16), tl.arange(0, N)[None, :]
    s = tl.zeros((16, N), tl.float32)
    for first in range(0, M, 16):
        rows = first + k
        a = tl.load(o + tl.arange(0, 16)[:, None] * M + rows[None, :])
        s = tl.dot(a, tl.load(x + at + rows[:, None] * N + n, mask=rows[:, None] < M, other=0), s)
    tl.store(o + tl.arange(0, 16)[:, None] * N + n, s.to(o.dtype.element_ty))


@kind(100)
def store(x, o, at, M: tl.constexpr):
    tl.store(x + at + tl.arange(0, M), tl.load(o + tl.arange(0, M)))


@kind(37)
def store_masked(x, o, at, M: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(x + at + i, tl.load(o + i), mask=i < M)


@kind(13, 40)
def store_columns(x, o, at, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, M)[None, :]
    tl.store(x + at + j * N + i, tl.load(o + i * M + j))


@kind(50)
def scatter(x, o, at, M: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(x + at + i * 5 % 64, tl.load(o + i), mask=i * 5 % 64 < M)


@kind(1)
def store_scalar(x, o, at, M: tl.constexpr):
    if tl.program_id(0) < M:
        tl.store(x + at, tl.load(o))


@kind(20)
def store_volatile(x, o, at, M: tl.constexpr):
    a = tl.load(o + tl.arange(0, M), volatile=True)
    tl.store(x + at + tl.arange(0, M), a + tl.load(o + tl.arange(0, M), volatile=True))


@kind(1, dtypes=(np.int32,))
def atomic(x, o, at, M: tl.constexpr):
    tl.store(o, tl.atomic_add(x + at, tl.load(o)))


@kind(9, dtypes=(np.int32,))
def atomic_in_a_loop(x, o, at, M: tl.constexpr):
    for k in range(M):
        tl.atomic_add(x + at + k, tl.load(o + k))


# ---- each of them
def arrays(dtype, count, at_end):
    x, o = Guarded(count, dtype, at_end), np.arange(4096) % 5
    x.array[:] = np.arange(count) % 7
    return x, o.astype(dtype)


def constants(shape):
    return dict(zip("MNK", shape))


def said(error):
    """The message of checked code; the interpreter knows the element of the tile too."""
    without = re.sub(r", element \([\d, ]+\)$", "", error.message)
    return without if libtile.knobs.interpreter.enabled else error.message


def line_of(error):
    return open(error.file).read().split("\n")[error.line - 1]


@pytest.mark.parametrize("kernel, shape, dtype", KINDS)
def test_one_element_too_far(kernel, shape, dtype):
    count = int(np.prod(shape))
    for at, index in [(1, count), (-1, -1)]:
        x, o = arrays(dtype, count, at > 0)
        with pytest.raises(libtile.OutOfBoundsError) as caught:
            kernel[(1,)](x.array, o, at, **constants(shape), check=True)
        error = caught.value
        assert error.message.startswith(f"x[{index}] is out of bounds: x holds 0 .. {count - 1}; "), error
        assert said(error).endswith(" by program (0, 0, 0)")
        assert error.file == __file__ and "x + at" in line_of(error)
        assert error.message in str(error) and "^" in str(error)


@pytest.mark.parametrize("kernel, shape, dtype", KINDS)
def test_what_is_right_is_as_without(kernel, shape, dtype):
    results = []
    for check in (False, True):
        x, o = arrays(dtype, int(np.prod(shape)), True)
        compiled = kernel[(1,)](x.array, o, 0, **constants(shape), check=check)
        assert compiled.fallbacks == []
        if not libtile.knobs.interpreter.enabled:
            assert ("within=[0]" in compiled.asm["nested"]) == check
        results.append((x.array.copy(), o))
    for without, checked in zip(*results):
        np.testing.assert_array_equal(without, checked)


# ---- what is said, and when
@libtile.jit
def shifted(x, out, shifts, BLOCK: tl.constexpr):
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i + tl.load(shifts + tl.program_id(1))))


@pytest.mark.parametrize("threads", [1, 4])
def test_one_program_of_many(threads):
    before = libtile.num_threads()
    libtile.set_num_threads(threads)
    try:
        n, block = 64, 1000
        x, shifts = np.arange(n * block, dtype=np.float32), np.zeros(n, np.int32)
        for wrong in (0, 17, 63):
            out = np.zeros_like(x)
            shifts[:] = 0
            shifted[(1, n)](x, out, shifts, BLOCK=block, check=True)
            np.testing.assert_array_equal(out, x)
            shifts[wrong] = x.size + 5
            for _ in range(3):
                with pytest.raises(libtile.OutOfBoundsError) as caught:
                    shifted[(1, n)](x, out, shifts, BLOCK=block, check=True)
                index = wrong * block + x.size + 5
                assert said(caught.value) == (f"x[{index}] is out of bounds: x holds 0 .. {x.size - 1}; "
                                              f"read by program (0, {wrong}, 0)")
    finally:
        libtile.set_num_threads(before)


@libtile.jit
def both(pair, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(pair[0] + i) + tl.load(pair[1] + i, mask=i < n))


def test_items_of_tuples_have_names():
    x, y, out = np.ones(40, np.float32), np.ones(30, np.float32), np.zeros(40, np.float32)
    both[(1,)]((x, y), out, 30, BLOCK=40, check=True)
    with pytest.raises(libtile.OutOfBoundsError, match=r"pair\[1\]\[30\] is out of bounds: pair\[1\] holds 0 .. 29"):
        both[(1,)]((x, y), out, 31, BLOCK=40, check=True)
    with pytest.raises(libtile.OutOfBoundsError, match=r"out\[39\] is .* written by program"):
        both[(1,)]((x, x), out[:39].copy(), 40, BLOCK=40, check=True)


@libtile.jit
def either(x, y, out, which, at, BLOCK: tl.constexpr):
    p = x if which > 0 else y
    tl.store(out + tl.arange(0, BLOCK), tl.load(p + at + tl.arange(0, BLOCK)))


@pytest.mark.not_interpreted("it knows which of two arrays a pointer was made from")
def test_an_address_of_one_of_two_arrays():
    x, y, out = np.zeros(100, np.int32), np.ones(200, np.int32), np.zeros(50, np.int32)
    for which in (0, 1):
        either[(1,)](x, y, out, which, 50, BLOCK=50, check=True)
        assert (out == 1 - which).all()
    either[(1,)](x, y, out, 0, 150, BLOCK=50, check=True)
    with pytest.raises(libtile.OutOfBoundsError) as caught:
        either[(1,)](x, y, out, 0, 10**6, BLOCK=50, check=True)
    assert " = y[1000000] is out of bounds: x holds 0 .. 99, y holds 0 .. 199; read" in caught.value.message


@libtile.jit
def copy_at(x, out, at, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + at + i, mask=i < n), mask=i < n)


def failure(*arguments, **options):
    try:
        copy_at[(1,)](*arguments, **{"BLOCK": 64, "check": True, **options})
    except libtile.OutOfBoundsError as error:
        return error.message.split(";")[0]
    return None


def test_no_element_and_one():
    out = np.zeros(64, np.float32)
    assert failure(np.zeros(0, np.float32), out, 0, 0) is None
    assert failure(np.zeros(0, np.float32), out, 0, 1) == "x[0] is out of bounds: x holds nothing"
    assert failure(np.zeros(1, np.float32), out, 0, 1) is None
    assert failure(np.zeros(1, np.float32), out, 0, 2) == "x[1] is out of bounds: x holds 0 .. 0"
    assert failure(np.zeros(1, np.float32), out, 2**60, 1) is not None
    assert failure(libtile.to_device(np.zeros(3, np.float32), "cpu"), out, 0, 4) == (
        "x[3] is out of bounds: x holds 0 .. 2")


def test_a_view_reaches_all_of_its_memory():
    base, out = np.arange(100, dtype=np.float32), np.zeros(64, np.float32)
    view = base[40:50]
    assert failure(view, out, -40, 64) is None and out[0] == 0
    assert failure(view, out, 60, 1) == "x[60] is out of bounds: x holds -40 .. 59"
    assert failure(view, out, -41, 1) == "x[-41] is out of bounds: x holds -40 .. 59"
    assert failure(base[::-1], out, -99, 64) is None
    assert failure(base[::-1], out, 0, 2) == "x[1] is out of bounds: x holds -99 .. 0"
    data = np.frombuffer(bytearray(400), np.float32, 20, offset=40)
    assert failure(data, out, -10, 1) is None and failure(data, out, 89, 1) is None
    assert failure(data, out, 90, 1) == "x[90] is out of bounds: x holds -10 .. 89"
    assert failure(data.view(np.int16), out.view(np.int16), 180, 1) is not None


def test_memory_of_unknown_size_is_not_checked():
    class Opaque:
        """Owns memory that it does not tell of."""
        def __init__(self, array):
            self.array = array
            self.__array_interface__ = array.__array_interface__

    base, out = np.arange(100, dtype=np.float32), np.zeros(64, np.float32)
    assert failure(np.asarray(Opaque(base[40:50])), out, 10, 50) is None and out[0] == 50


@libtile.jit
def as_words(x, out, at):
    p = (x + at).to(tl.pointer_type(tl.int64), bitcast=True)
    tl.store(out, tl.load(p))


def test_other_types_than_the_array_has():
    x, out = np.zeros(16, np.int8), np.zeros(1, np.int64)
    as_words[(1,)](x, out, 8, check=True)
    with pytest.raises(libtile.OutOfBoundsError, match=r"8 bytes from x\[9\] is out of bounds: x holds 0 .. 15; read"):
        as_words[(1,)](x, out, 9, check=True)


@libtile.jit
def far(x, out, at):
    tl.store(out, tl.load(x + at))


def test_beyond_32_bits():
    n = (1 << 32) + 1000
    x, out = np.zeros(n, np.int8), np.zeros(1, np.int8)
    for at in (0, (1 << 32) + 5, n - 1):
        x[at] = 7
        far[(1,)](x, out, at, check=True)
        assert out[0] == 7
    for at in (n, -1, n + (1 << 32), -(1 << 32)):
        with pytest.raises(libtile.OutOfBoundsError, match=rf"x\[{at}\] is out of bounds: x holds 0 .. {n - 1};"):
            far[(1,)](x, out, at, check=True)


@libtile.jit
def helper(x, i):
    return tl.load(x + i)


@libtile.jit
def calls_helper(x, out, n, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), helper(x, tl.arange(0, BLOCK)))


def test_a_place_in_a_function_names_the_call():
    with pytest.raises(libtile.OutOfBoundsError) as caught:
        calls_helper[(1,)](np.zeros(20, np.float32), np.zeros(32, np.float32), 32, BLOCK=32, check=True)
    assert "return tl.load(x + i)" in line_of(caught.value)
    assert "called from" in str(caught.value) and "helper(x, tl.arange(0, BLOCK))" in str(caught.value)


# ---- where it is turned on
@libtile.jit(check=True)
def always(x, out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)))


@pytest.mark.not_interpreted("it looks at every access, asked or not")
def test_a_function_asks_for_it():
    x, out = np.zeros(20, np.float32), np.zeros(32, np.float32)
    with pytest.raises(libtile.OutOfBoundsError):
        always[(1,)](x, out, BLOCK=32)
    assert "within" in always.warmup(tl.float32, tl.float32, BLOCK=32).asm["nested"]
    always[(1,)](np.zeros(32, np.float32)[:20], out, BLOCK=32, check=False)
    assert always[(1,)](out, out, BLOCK=32) is always[(1,)](out, out, BLOCK=32, check=True)
    assert always[(1,)](out, out, BLOCK=32) is not always[(1,)](out, out, BLOCK=32, check=False)
    with pytest.raises(IndexError):
        always[(1,)](x, out, BLOCK=32)


def test_gpus_say_that_they_do_not():
    kernel = copy_at.warmup("*fp32", "*fp32", "i32", "i32", BLOCK=64, check=True, target="sm_80")
    assert kernel.fallbacks == ["option check changes nothing on sm_80 yet"]
    assert "within" not in kernel.asm["staged"]


ENVIRONMENT = """
import numpy as np, test_kernels_checked as t
x, out = np.zeros(10, np.float32), np.zeros(64, np.float32)
def kernel(**options):
    return t.copy_at[(1,)](x, out, 0, 10, BLOCK=64, **options)
for check in (None, True, False):
    print(check, kernel(check=check) is kernel(), "within" in kernel(check=check).asm["nested"])
"""
# Of each value of `check`: whether it is the standard one, whether code checks.
CHECKED = ["None True True", "True True True", "False False False"]
UNCHECKED = ["None True False", "True False True", "False True False"]


@pytest.mark.not_interpreted("it looks at every access, asked or not")
@pytest.mark.parametrize("value, said", [("1", CHECKED), ("0", UNCHECKED), ("", UNCHECKED)])
def test_the_environment_asks_for_it(value, said):
    paths = os.pathsep.join([str(Path(libtile.__file__).resolve().parents[1]), str(Path(__file__).parent)])
    shown = subprocess.run([sys.executable, "-c", ENVIRONMENT], capture_output=True, text=True,
                           env={**os.environ, "LIBTILE_CHECK": value, "PYTHONPATH": paths})
    assert shown.stdout.splitlines() == said, shown.stderr


def test_the_next_launch_is_as_ever():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for _ in range(20):
        assert failure(x, out, 1, 64) == "x[64] is out of bounds: x holds 0 .. 63"
        assert failure(x, out, 0, 64) is None
        np.testing.assert_array_equal(out, x)


# ---- no false alarms
@pytest.mark.parametrize("first", range(1000, 1060, 10))
def test_random_kernels_are_right(first, tmp_path):
    for seed in range(first, first + 10):
        wrong, _ = random_kernels.check(seed, ["cpu"], tmp_path, check=True)
        assert wrong is None, f"seed {seed}: {wrong}"
