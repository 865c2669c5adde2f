# SPDX-License-Identifier: Apache-2.0
"""What a running kernel says: device_print and print, device_assert and assert.

Lines are compared as multisets: what different programs print stands in any order, on a GPU what different
threads print too."""
import collections
import ctypes
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import random_kernels
from spine import DEVICES, OnDevice, fitted, poisoned, random

import libtile
import libtile.language as tl

C = ctypes.CDLL(None)


class Printed:
    """The lines that kernels have printed since the last time; sorted, or in order."""

    def __init__(self, capfd):
        self.capfd = capfd

    def text(self, device):
        if device != "cpu":
            libtile.to_device(np.zeros(1), device).numpy()  # waits
        C.fflush(None)
        return self.capfd.readouterr().out

    def __call__(self, device):
        return collections.Counter(self.text(device).splitlines())


@pytest.fixture
def printed(capfd):
    return Printed(capfd)


def places(shape):
    """(index, its text) of each element."""
    widths = [len(str(extent - 1)) for extent in shape]
    for index in np.ndindex(*shape):
        yield index, ", ".join(f"{i:{width}}" for i, width in zip(index, widths))


def written(value, hex_digits=0):
    """As printf writes an element."""
    if hex_digits:
        return f"0x{int(value):0{hex_digits}x}"
    if isinstance(value, (int, np.integer, np.bool_)):
        return str(int(value))
    value = float(value)
    return "nan" if np.isnan(value) else "%f" % value


def lines_of(values, text, program=(0, 0, 0), **how):
    head = f"pid ({', '.join(map(str, program))})"
    return [f"{head} idx ({place}){text}{written(values[index], **how)}" for index, place in places(values.shape)]


# ---- values

@libtile.jit
def show(x, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, HEX: tl.constexpr):
    i = tl.arange(0, M)[:, None, None] * N * K + tl.arange(0, N)[None, :, None] * K + tl.arange(0, K)[None, None, :]
    tl.device_print("x", tl.load(x + i), hex=HEX)


DTYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32,
          np.float64, ml_dtypes.bfloat16, np.bool_]


@pytest.mark.parametrize("hex_digits", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_dtypes(device, dtype, hex_digits, printed):
    rng = np.random.default_rng(1)
    on = OnDevice(device)
    bits = np.uint8 if dtype is np.bool_ else np.dtype(f"u{np.dtype(dtype).itemsize}")
    x = (rng.integers(0, 2, 33).astype(np.bool_) if dtype is np.bool_ else random(rng, 33, dtype)).reshape(1, 3, 11)
    if np.dtype(dtype).kind in "iu":
        x[0, 0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    elif dtype is not np.bool_:
        x[0, 0, :5] = np.nan, np.inf, -np.inf, -0.0, 6e-8
    show[(1,)](on(x), 1, 3, 11, hex_digits)
    digits = (1 if dtype is np.bool_ else 2 * np.dtype(dtype).itemsize) if hex_digits else 0
    values = x.view(bits) if hex_digits else x
    assert printed(device) == collections.Counter(lines_of(values, " x: ", hex_digits=digits))


@libtile.jit
def show_float8(x, N: tl.constexpr, DTYPE: tl.constexpr, HEX: tl.constexpr):
    tl.device_print("x: ", tl.load(x + tl.arange(0, N)).to(DTYPE, bitcast=True), hex=HEX)


@pytest.mark.parametrize("dtype, numpy", [(tl.float8e5, ml_dtypes.float8_e5m2), (tl.float8e4nv, ml_dtypes.float8_e4m3fn),
                                          (tl.float8e4b8, ml_dtypes.float8_e4m3fnuz)])
@pytest.mark.parametrize("device", DEVICES)
def test_float8(device, dtype, numpy, printed):
    on = OnDevice(device)
    codes = np.arange(256, dtype=np.uint8)
    show_float8[(1,)](on(codes), 256, dtype, False)
    assert printed(device) == collections.Counter(lines_of(codes.view(numpy).astype(np.float32), " x: "))
    show_float8[(1,)](on(codes), 256, dtype, True)
    assert printed(device) == collections.Counter(lines_of(codes, " x: ", hex_digits=2))


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 10), (1, 1, 11), (1, 7, 100), (3, 5, 7), (2, 1, 129), (101, 1, 3)])
@pytest.mark.parametrize("device", DEVICES)
def test_shapes(device, shape, printed):
    x = random(np.random.default_rng(2), shape, np.int32)
    show[(1,)](OnDevice(device)(x), *shape, False)
    assert printed(device) == collections.Counter(lines_of(x, " x: "))


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 2, 1, 3, 2)])
@pytest.mark.parametrize("device", DEVICES)
def test_ranks(device, shape, printed):
    @libtile.jit
    def kernel(x, SIZE: tl.constexpr, SHAPE: tl.constexpr):
        tl.device_print("x", tl.reshape(tl.load(x + tl.arange(0, SIZE)), SHAPE) + 1)

    x = random(np.random.default_rng(3), shape, np.int32)
    kernel[(1,)](OnDevice(device)(x), x.size, shape)
    assert printed(device) == collections.Counter(lines_of(x + 1, " x: "))


@libtile.jit
def show_several(x, n, f, N: tl.constexpr):
    i = tl.arange(0, N)
    print("here")
    print("", tl.load(x + i), n, f, 7, True, 0.5)
    tl.device_print("n is: ", n)
    print("pointer", x)


@pytest.mark.parametrize("device", DEVICES)
def test_several_operands_and_scalars(device, printed):
    x = np.array([3, -1, 2**31 - 1], np.int32)
    on_device = OnDevice(device)(x)
    show_several[(1,)](on_device, 2**40, -2.5, 3)
    address = on_device.__array_interface__["data"][0] if device == "cpu" else on_device.data_ptr()
    assert printed(device) == collections.Counter([
        "pid (0, 0, 0) here",
        *[f"pid (0, 0, 0) idx ({i}): (operand 0) {value}" for i, value in enumerate(x)],
        f"pid (0, 0, 0) idx (): (operand 1) {2**40}", "pid (0, 0, 0) idx (): (operand 2) -2.500000",
        "pid (0, 0, 0) idx (): (operand 3) 7", "pid (0, 0, 0) idx (): (operand 4) 1",
        "pid (0, 0, 0) idx (): (operand 5) 0.500000", f"pid (0, 0, 0) idx () n is: {2**40}",
        f"pid (0, 0, 0) idx () pointer: 0x{address:016x}"])


@libtile.jit
def show_pointers(x, N: tl.constexpr):
    tl.device_print("at", x + tl.arange(0, N) * 3)


@pytest.mark.parametrize("device", DEVICES)
def test_tiles_of_pointers(device, printed):
    x = OnDevice(device)(np.zeros(64, np.int16))
    show_pointers[(1,)](x, 13)
    begin = x.__array_interface__["data"][0] if device == "cpu" else x.data_ptr()
    assert printed(device) == collections.Counter(
        f"pid (0, 0, 0) idx ({i:2}) at: 0x{begin + 6 * i:016x}" for i in range(13))


@pytest.mark.parametrize("prefix, text", [("x", " x: "), ("x:", " x: "), ("x ", " x: "), ("x: ", " x: "), (" x", " x: "),
                                          ("x =", " x =: "), ("", ": "), ("100% of %d %s", " 100% of %d %s: "),
                                          ("'\"\\", " '\"\\: ")])
@pytest.mark.parametrize("device", DEVICES)
def test_prefixes(device, prefix, text, printed):
    @libtile.jit
    def kernel(x, PREFIX: tl.constexpr):
        tl.device_print(PREFIX, tl.program_id(0))
        tl.device_print(PREFIX)

    kernel[(1,)](OnDevice(device)(np.zeros(1)), prefix)
    alone = " " + prefix if prefix and not prefix.startswith(" ") else prefix
    assert printed(device) == collections.Counter([f"pid (0, 0, 0) idx (){text}0", f"pid (0, 0, 0){alone}"])


# ---- programs and control flow

@libtile.jit
def grids(array):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if (x + y + z) % 2 == 0:
        tl.device_print("sum", x + 10 * y + 100 * z + tl.arange(0, 2))


@pytest.mark.parametrize("device", DEVICES)
def test_grids(device, printed):
    grids[(3, 2, 2)](OnDevice(device)(np.zeros(1)))
    want = [f"pid ({x}, {y}, {z}) idx ({i}) sum: {x + 10 * y + 100 * z + i}" for x, y, z in np.ndindex(3, 2, 2)
            if (x + y + z) % 2 == 0 for i in range(2)]
    assert printed(device) == collections.Counter(want)


@libtile.jit
def twice(x):
    tl.device_print("in twice", x)
    return x * 2


@libtile.jit
def flows(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.int32)
    for k in range(n):
        value = tl.load(x + k * N + i)
        total += value
        if k % 2 == 1:
            tl.device_print("total", total)
        k_in_while = k
        while k_in_while > 1:
            print("while", k_in_while)
            k_in_while -= 1
    tl.store(out + i, twice(twice(total)))
    tl.device_print("out", tl.load(out + i))


@pytest.mark.parametrize("device", DEVICES)
def test_control_flow(device, printed):
    on = OnDevice(device)
    x = np.random.default_rng(4).integers(-9, 9, (5, 6), dtype=np.int32)
    out = on(poisoned(6, np.int32))
    flows[(1,)](on(x), out, 5, 6)
    sums = np.cumsum(x, 0, dtype=np.int32)
    want = [*lines_of(sums[1], " total: "), *lines_of(sums[3], " total: "), *lines_of(sums[4], " in twice: "),
            *lines_of(sums[4] * 2, " in twice: "), *lines_of(sums[4] * 4, " out: "),
            *[f"pid (0, 0, 0) idx () while: {j}" for k in range(5) for j in range(k, 1, -1)]]
    assert on.back(out).tolist() == (sums[4] * 4).tolist()
    assert printed(device) == collections.Counter(want)


def test_order_in_a_program(printed):
    """On a CPU the lines of a program come in its order, those of a call in the order of the elements."""
    x = np.arange(30, dtype=np.int32).reshape(5, 6)
    out = poisoned(6, np.int32)
    flows[(1,)](x, out, 5, 6)
    sums = np.cumsum(x, 0, dtype=np.int32)
    assert printed.text("cpu").splitlines() == [
        *lines_of(sums[1], " total: "), "pid (0, 0, 0) idx () while: 2", *lines_of(sums[3], " total: "),
        "pid (0, 0, 0) idx () while: 3", "pid (0, 0, 0) idx () while: 2", "pid (0, 0, 0) idx () while: 4",
        "pid (0, 0, 0) idx () while: 3", "pid (0, 0, 0) idx () while: 2", *lines_of(sums[4], " in twice: "),
        *lines_of(sums[4] * 2, " in twice: "), *lines_of(sums[4] * 4, " out: ")]


@libtile.jit
def accesses_around(x, N: tl.constexpr):
    i = tl.arange(0, N)
    before = tl.load(x + i)
    tl.device_print("before", before)
    old = tl.atomic_add(x + i, 5)
    tl.device_print("old", old)
    tl.store(x + i, tl.load(x + i) * 2)
    tl.device_print("after", tl.load(x + i))
    tl.device_print("before again", before)


@pytest.mark.parametrize("device", DEVICES)
def test_accesses_around(device, printed):
    on = OnDevice(device)
    x = random(np.random.default_rng(5), 37, np.int32) // 4
    accesses_around[(1,)](on(x.copy()), 37)
    after = (x + 5) * 2
    assert printed(device) == collections.Counter(
        [*lines_of(x, " before: "), *lines_of(x, " old: "), *lines_of(after, " after: "), *lines_of(x, " before again: ")])


@libtile.jit
def dots(a, b, out, K: tl.constexpr):
    i = tl.arange(0, 16)
    acc = tl.zeros((16, 16), tl.float32)
    for k in range(0, K, 16):
        left = tl.load(a + i[:, None] * K + k + i[None, :])
        right = tl.load(b + (k + i)[:, None] * 16 + i[None, :])
        acc = tl.dot(left, right, acc)
        tl.device_print("acc", acc)
        tl.device_print("left", left)
    tl.store(out + i[:, None] * 16 + i[None, :], acc)


@pytest.mark.parametrize("device", DEVICES)
def test_dots(device, printed):
    """Tiles of every layout that a dot has; and the loop keeps its prints though it is chunked and pipelined."""
    on = OnDevice(device)
    rng = np.random.default_rng(6)
    a, b = rng.integers(-4, 5, (16, 48)).astype(np.float16), rng.integers(-4, 5, (48, 16)).astype(np.float16)
    out = on(poisoned((16, 16), np.float32))
    dots[(1,)](on(a), on(b), out, 48)
    want, acc = [], np.zeros((16, 16), np.float32)
    for k in range(0, 48, 16):
        acc = acc + a[:, k:k + 16].astype(np.float32) @ b[k:k + 16].astype(np.float32)
        want += lines_of(acc, " acc: ") + lines_of(a[:, k:k + 16], " left: ")
    assert printed(device) == collections.Counter(want)
    np.testing.assert_array_equal(on.back(out), acc)


@libtile.jit
def carried(a, b, out, K: tl.constexpr, DOTS: tl.constexpr):
    i = tl.arange(0, 8)
    acc, last = tl.zeros((8, 8), tl.float32), tl.zeros((8, 8), tl.float32)
    for k in range(K):
        left = tl.load(a + k * 64 + i[:, None] * 8 + i[None, :])
        right = tl.load(b + k * 64 + i[:, None] * 8 + i[None, :])
        new = tl.dot(left, right, acc) if DOTS else acc + left * right
        tl.device_print("old", acc)
        tl.device_print("last", last)
        last, acc = acc, new
        tl.device_print("new", acc)
    tl.store(out + i[:, None] * 8 + i[None, :], acc + last)


@pytest.mark.parametrize("dots", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_what_loops_carry(device, dots, printed):
    """The old tile is still there when the new one is made."""
    on = OnDevice(device)
    a, b = np.random.default_rng(8).integers(-4, 5, (2, 3, 8, 8)).astype(np.float32)
    out = on(poisoned((8, 8), np.float32))
    carried[(1,)](on(a), on(b), out, 3, dots)
    want, acc, last = [], np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)
    for k in range(3):
        new = acc + (a[k] @ b[k] if dots else a[k] * b[k])
        want += lines_of(acc, " old: ") + lines_of(last, " last: ") + lines_of(new, " new: ")
        last, acc = acc, new
    assert printed(device) == collections.Counter(want)
    np.testing.assert_array_equal(on.back(out), acc + last)


@libtile.jit
def reduced(x, N: tl.constexpr, M: tl.constexpr):
    rows = tl.load(x + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    sums = tl.sum(rows, 1)
    tl.device_print("sums", sums)
    tl.device_print("all", tl.sum(sums, 0))
    tl.device_print("sorted", tl.sort(sums))
    tl.device_print("turned", tl.trans(rows))


@pytest.mark.parametrize("device", DEVICES)
def test_across_elements(device, printed):
    """Replicas of an element print it once."""
    x = np.random.default_rng(7).integers(-99, 99, (8, 20), dtype=np.int32)
    reduced[(1,)](OnDevice(device)(x), 8, 20)
    sums = x.sum(1, dtype=np.int32)
    assert printed(device) == collections.Counter(
        [*lines_of(sums, " sums: "), f"pid (0, 0, 0) idx () all: {sums.sum()}", *lines_of(np.sort(sums), " sorted: "),
         *lines_of(x.T, " turned: ")])


def test_lines_of_threads_do_not_mix(printed):
    def launch():
        for _ in range(5):
            grids[(7, 5, 3)](np.zeros(1))

    threads = [threading.Thread(target=launch) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    want = collections.Counter({f"pid ({x}, {y}, {z}) idx ({i}) sum: {x + 10 * y + 100 * z + i}": 80
                                for x, y, z in np.ndindex(7, 5, 3) if (x + y + z) % 2 == 0 for i in range(2)})
    assert printed("cpu") == want


class Printing(random_kernels.Kernel):
    """A random kernel that prints what it stores."""

    def store(self, value):
        if value.array.size <= 500 and self.indent == 1:
            self.line(f"tl.device_print('{value.name}', {value.name})")
            # A zero has the sign that the order of a sum gives it.
            self.printed = getattr(self, "printed", []) + lines_of(value.array + 0 if value.dtype != bool else value.array,
                                                                   f" {value.name}: ")
        super().store(value)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("device", DEVICES)
def test_random_kernels(device, seed, tmp_path, printed):
    with np.errstate(all="ignore"):
        made = Printing(seed)
    on = OnDevice(device)
    arguments = [on(np.copy(a)) if isinstance(a, np.ndarray) else a for a in made.arguments.values()]
    random_kernels.kernel_of(made.text, tmp_path, seed)[(1,)](*arguments, **fitted(made.options, device))
    got = printed.text(device).replace(": -0.000000", ": 0.000000").splitlines()
    assert collections.Counter(got) == collections.Counter(getattr(made, "printed", [])), made.text
    held = dict(zip(made.arguments, arguments))
    for name, want in made.outputs.items():
        np.testing.assert_array_equal(on.back(held[name]), want, err_msg=made.text)


# ---- mistakes: more of them in test_mistakes.py

@libtile.jit
def adds(a, b):
    tl.device_print("a", a)
    return a + b


@libtile.jit
def checks(a, b):
    tl.device_assert(a > b)
    return a + b


@libtile.jit
def reduces(x, FN: tl.constexpr):
    tl.store(x, tl.reduce(tl.arange(0, 8), 0, FN))


@libtile.jit
def scans(x, FN: tl.constexpr):
    tl.store(x + tl.arange(0, 8), tl.associative_scan(tl.arange(0, 8), 0, FN))


@libtile.jit
def maps(x, FN: tl.constexpr):
    tl.store(x + tl.arange(0, 8), tl.map_elementwise(FN, tl.arange(0, 8), tl.arange(0, 8)))


@pytest.mark.parametrize("target", ["avx512", "sm_80"])
@pytest.mark.parametrize("function, name", [(adds, "print"), (checks, "assert")])
@pytest.mark.parametrize("kernel", [reduces, scans, maps])
def test_functions_of_elements(kernel, function, name, target):
    """How often such a function runs, and where, is open."""
    with pytest.raises(libtile.CompilationError, match=f"but it has an? {name}") as caught:
        kernel.warmup("*i32", function, target=target, debug=True)
    assert caught.value.line is not None and "^" in str(caught.value)


# ---- assertions

@libtile.jit
def asserts(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.device_assert(value >= 0, "negative: \"100%\" — Größe", mask=i < n)  # here
    tl.store(out + tl.program_id(0) * N + i, value)


def here(marker):
    lines = Path(__file__).read_text().splitlines()
    return next(i + 1 for i, line in enumerate(lines) if line.endswith(marker))


@pytest.mark.not_interpreted("it checks what asserts, asked or not")
@pytest.mark.parametrize("shape", [1, 4, 100, 1000])
def test_assertions(shape):
    x, out = np.zeros(shape, np.int32), poisoned((3, shape), np.int32)
    asserts[(3,)](x, out, shape, shape, debug=True)
    assert out.tolist() == [[0] * shape] * 3
    x[-1] = -1
    asserts[(3,)](x, out, shape - 1, shape, debug=True)
    asserts[(3,)](x, out, shape, shape)
    for _ in range(3):
        out = poisoned((3, shape), np.int32)
        before = out.copy()
        with pytest.raises(libtile.KernelAssertionError) as caught:
            asserts[(3,)](x, out, shape, shape, debug=True)
        error = caught.value
        assert isinstance(error, AssertionError) and isinstance(error, RuntimeError) and isinstance(error, libtile.Error)
        assert error.message.startswith("assertion failed: negative: \"100%\" — Größe; in asserts, program (")
        assert (error.file, error.line) == (__file__, here("# here"))
        assert f"{__file__}:{error.line}:" in str(error) and "^~~" in str(error)
        np.testing.assert_array_equal(out, before)


@libtile.jit
def programs_assert(out, bad):
    p = tl.program_id(0) + 4 * tl.program_id(1) + 12 * tl.program_id(2)
    assert p != bad, "the bad one"
    tl.store(out + p, p)


@pytest.mark.parametrize("bad", [0, 7, 35])
def test_the_program_that_asserts(bad):
    out = np.full(36, -1, np.int32)
    with pytest.raises(libtile.KernelAssertionError) as caught:
        programs_assert[(4, 3, 3)](out, bad, debug=True)
    x, y, z = bad % 4, bad // 4 % 3, bad // 12
    assert caught.value.message == f"assertion failed: the bad one; in programs_assert, program ({x}, {y}, {z})"
    assert out[bad] == -1 and all(value in (-1, i) for i, value in enumerate(out))
    programs_assert[(4, 3, 3)](out, 36, debug=True)
    assert out.tolist() == list(range(36))


@libtile.jit(debug=True)
def positive(n):
    assert n > 0
    return n


@libtile.jit(debug=True)
def asserts_inside(out, n):
    for k in range(3):
        if k == 1:
            tl.store(out + k, positive(n - k))  # call


@pytest.mark.not_interpreted("it checks what asserts, asked or not")
def test_assertions_in_functions():
    out = np.zeros(3, np.int32)
    asserts_inside[(1,)](out, 5)
    assert out.tolist() == [0, 4, 0]
    asserts_inside[(1,)](out, 1, debug=False)
    assert out.tolist() == [0, 0, 0]
    with pytest.raises(libtile.KernelAssertionError, match="assertion failed; in asserts_inside, program") as caught:
        asserts_inside[(1,)](out, 1)
    assert f":{here('# call')}:" in str(caught.value) and "assert n > 0" in str(caught.value)


@libtile.jit
def arithmetic(x, y, out, OP: tl.constexpr, SANITIZES: tl.constexpr, SHAPE: tl.constexpr):
    i = tl.arange(0, SHAPE)
    a, b = tl.load(x + i), tl.load(y + i)
    if SANITIZES is None:
        r = a + b if OP == "+" else a - b if OP == "-" else a * b
    elif OP == "+":
        r = tl.add(a, b, sanitize_overflow=SANITIZES)
    elif OP == "-":
        r = tl.sub(a, b, SANITIZES)
    else:
        r = tl.mul(a, b, SANITIZES)
    tl.store(out + i, r)


OPERATORS = {"+": np.add, "-": np.subtract, "*": np.multiply}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("op", "+-*")
def test_overflow(op, dtype):
    info, width = np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    some = [int(v) for v in (info.min, info.min + 1, info.max, info.max // 2, info.max - 1, 0, 1, 2, 3, 11)]
    some += [-1, -2, info.min // 2] if info.min < 0 else []
    x, y = (np.array(v, dtype) for v in zip(*[(a, b) for a in some for b in some]))
    with np.errstate(all="ignore"):
        wrapped = OPERATORS[op](x, y)
    exact = OPERATORS[op](x.astype(object), y.astype(object))
    fits = np.array([int(a) == int(b) for a, b in zip(wrapped, exact)])
    assert fits.any() and not fits.all()

    def run(x, y, sanitizes=None, **options):
        out = poisoned(x.size, dtype)
        arithmetic[(1,)](x, y, out, op, sanitizes, x.size, **options)
        np.testing.assert_array_equal(out, OPERATORS[op](x, y))

    run(x[fits], y[fits], debug=True)
    with np.errstate(all="ignore"):
        run(x, y)
        run(x, y, False, debug=True)
        run(x, y, debug=True, sanitize_overflow=False)
        if width == 64:
            return run(x, y, debug=True)
    name = np.dtype(dtype).name
    for at in np.flatnonzero(~fits):
        with pytest.raises(libtile.KernelAssertionError, match=f"the result of \\{op} does not fit {name}") as caught:
            run(x[at:at + 1], y[at:at + 1], debug=True)
    assert caught.value.line == here("a * b")
    with pytest.raises(libtile.KernelAssertionError):
        run(x, y, True, debug=True)


@libtile.jit
def wraps(a, b):
    return a * 65536 + b * 65536


@libtile.jit
def library_and_functions(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.rand(7, i) + tl.cdiv(tl.load(x + i), 2**20))
    tl.store(out, tl.reduce(tl.load(x + i), 0, wraps).to(tl.float32))


def test_where_integers_may_wrap():
    """In the library, and in functions of which nobody knows how often they run."""
    x, out, want = np.full(64, 2**30, np.int32), *poisoned((2, 64), np.float32)
    library_and_functions[(1,)](x, out, 64, debug=True)
    library_and_functions[(1,)](x, want, 64)
    np.testing.assert_array_equal(out, want)


@libtile.jit(debug=True)
def expects_zero(x, N: tl.constexpr):
    i = tl.arange(0, 64)
    tl.expect_zero(tl.load(x + i), i < N)  # expected


def test_assertions_within_the_library():
    """The place is that of the call."""
    x = np.arange(64, dtype=np.int32) // 50
    expects_zero[(1,)](x, 50)
    with pytest.raises(libtile.KernelAssertionError, match="expect_zero: x is not 0 where mask is true") as caught:
        expects_zero[(1,)](x, 51)
    line = here("# expected")
    assert (caught.value.file, caught.value.line) == (__file__, line) and "within the library" in str(caught.value)
    ptx = expects_zero.warmup("*i32", 51, target="sm_80").asm["ptx"]
    # The third argument of the driver's function.
    assert re.search(rf"mov\.b32 (%r\d+), {line};[^}}]*st\.param\.b32 \[argument\d+_2\], \1;[^}}]*call\.uni __assertfail", ptx)


@libtile.jit
def plain(x, out, n):
    tl.store(out, tl.load(x) + n)


@libtile.jit
def with_assertions(x, out, n):
    assert n > 0, "n"
    tl.device_assert(tl.arange(0, 64) < n)
    tl.store(out, tl.load(x) + n)


@pytest.mark.parametrize("target", ["avx512", "x86-64-v3", "sm_80"])
def test_assertions_cost_nothing_without_debug(target):
    text = lambda kernel, **options: kernel.warmup("*i32", "*i32", "i32", target=target, **options).asm[
        "ptx" if target == "sm_80" else "asm"].replace("with_assertions", "plain")
    assert text(plain) == text(with_assertions) == text(plain, debug=True, sanitize_overflow=False)
    assert text(plain) != text(with_assertions, debug=True)


def test_threads_go_on_after_assertions():
    def launch(bad):
        out = np.full(36, -1, np.int32)
        for _ in range(20):
            with pytest.raises(libtile.KernelAssertionError):
                programs_assert[(4, 3, 3)](out, bad, debug=True)
            programs_assert[(4, 3, 3)](out, 36, debug=True)
        done.append(out.tolist() == list(range(36)))

    done = []
    threads = [threading.Thread(target=launch, args=(bad,)) for bad in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 16


PROGRAM = """
import numpy as np, test_messages as t
t.asserts[(1,)](np.full(4, -1, np.int32), np.zeros(4, np.int32), 4, 4)
"""


@pytest.mark.not_interpreted("it checks what asserts, asked or not")
@pytest.mark.parametrize("variable, value, is_on", [("LIBTILE_DEBUG", "1", True), ("LIBTILE_DEBUG", "0", False),
                                                    ("TRITON_DEBUG", "1", True), ("TRITON_DEBUG", "True", True),
                                                    ("TRITON_DEBUG", "0", False), ("TRITON_DEBUG", "", False)])
def test_the_environment(variable, value, is_on):
    paths = [str(Path(libtile.__file__).resolve().parents[1]), str(Path(__file__).parent)]
    shown = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), variable: value})
    assert ("libtile.errors.KernelAssertionError" in shown.stderr) == is_on and (shown.returncode != 0) == is_on


@pytest.mark.not_interpreted("it checks what asserts, asked or not")
@pytest.mark.parametrize("variable, is_on", [("LIBTILE_DEBUG", False), ("TRITON_DEBUG", True)])
def test_the_environment_and_a_launch_that_says_no(variable, is_on):
    paths = [str(Path(libtile.__file__).resolve().parents[1]), str(Path(__file__).parent)]
    shown = subprocess.run([sys.executable, "-c", PROGRAM.replace("4, 4)", "4, 4, debug=False)")],
                           capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), variable: "1"})
    assert ("libtile.errors.KernelAssertionError" in shown.stderr) == is_on and (shown.returncode != 0) == is_on


FAILS = """
import sys
import numpy as np, test_messages as t
on, errors = t.OnDevice(sys.argv[1]), []
x, out = on(np.full(4, -1, np.int32)), on(np.zeros(4, np.int32))
for debug in (True, False):
    try:
        t.asserts[(1,)](x, out, 4, 4, debug=debug)
        on.back(out)
    except t.libtile.Error as error:
        print(type(error).__name__, error)
print("alive")
"""


@pytest.mark.not_interpreted("it checks what asserts, asked or not")
@pytest.mark.parametrize("device", DEVICES)
def test_a_process_outlives_assertions(device):
    """On a GPU one fails where the launch is waited for; NVIDIA's then serves the process no more."""
    paths = [str(Path(libtile.__file__).resolve().parents[1]), str(Path(__file__).parent)]
    shown = subprocess.run([sys.executable, "-c", FAILS, device], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    assert shown.returncode == 0 and shown.stdout.splitlines()[-1] == "alive"
    if device == "cpu":
        assert shown.stdout.count("KernelAssertionError") == shown.stdout.count("Error") == 1
    elif device == "hip":
        assert shown.stdout.count("DeviceError") == shown.stdout.count("Error") == 1
        assert f"test_messages.py:{here('# here')}: asserts: assertion failed: negative: \"100%\" — Größe" in shown.stdout
    else:
        assert shown.stdout.count("DeviceError") == shown.stdout.count("what asserts asserts did not hold") == 2
        assert "test_messages.py" in shown.stderr and f":{here('# here')}:" in shown.stderr
        assert "negative: \"100%\" — Größe" in shown.stderr
