# SPDX-License-Identifier: Apache-2.0
"""The interpreter: kernels mean there what they mean on the CPU, and each kind of fault that it looks for is found, with
its array, index, program, element and line."""
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import random_kernels

import libtile
import libtile.language as tl

I32, F32 = np.int32, np.float32


@pytest.fixture(autouse=True)
def portable():
    """What only libtile defines is a fault, whatever the rest of the suite is run with."""
    yield from looking_for_it(True)


@pytest.fixture
def defined():
    """It is no fault."""
    yield from looking_for_it(False)


def looking_for_it(wanted):
    before = libtile.knobs.interpreter.portable
    libtile.knobs.interpreter.portable = wanted
    yield
    libtile.knobs.interpreter.portable = before


def fault(kernel, *args, grid=(1,), error=libtile.KernelFaultError, **options):
    """The message of what a launch in the interpreter ends with, and the line of the kernel that it points at."""
    with pytest.raises(error) as caught:
        kernel[grid](*args, device="interpreter", **options)
    lines = str(caught.value).splitlines()
    assert re.fullmatch(r" *\| +\^~*", lines[2]), lines
    assert caught.value.file == __file__ and f"{caught.value.file}:{caught.value.line}:" in lines[0]
    return caught.value.message, lines[1].split("|", 1)[1].strip()


def place(kernel, text):
    """"file:line:column" of what the kernel says there."""
    lines, first = kernel.src.splitlines(), kernel.__wrapped__.__code__.co_firstlineno
    row = next(i for i, line in enumerate(lines) if text in line)
    return f"{__file__}:{first + row}:{lines[row].index(text) + 1}"


# ---- results
@libtile.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    tl.store(out + i, a + tl.load(y + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float16, np.float32, np.float64])
def test_a_vector_sum(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-60, 60, 1000).astype(dtype) for _ in range(2))
    out = np.full(1000, 99, dtype)
    kernel = add[(8,)](x, y, out, 1000, BLOCK=128, device="interpreter")
    assert kernel.target == "interpreter" and list(kernel.asm) == ["tile"]
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels_agree_with_numpy(seed, defined, tmp_path):
    wrong, _ = random_kernels.check(7000 + seed, ["interpreter"], tmp_path)
    assert wrong is None


@libtile.jit
def functions(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, tl.exp(a) + tl.sin(a) * tl.sqrt(tl.abs(a)) + tl.erf(a))


def test_functions_are_bit_for_bit_those_of_the_cpu():
    x = np.random.default_rng(1).standard_normal(4096).astype(F32)
    here, there = np.empty_like(x), np.empty_like(x)
    functions[(1,)](x, here, N=4096, device="interpreter")
    functions[(1,)](x, there, N=4096, device="cpu" if not libtile.knobs.interpreter.enabled else None)
    np.testing.assert_array_equal(here.view(I32), there.view(I32))


def test_the_environment_turns_it_on(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import numpy as np
import libtile
import libtile.language as tl
@libtile.jit
def kernel(x):
    tl.store(x + 3, 1)
print(libtile.knobs.interpreter.enabled, kernel[(1,)](np.zeros(4, 'i4')).target)
libtile.knobs.interpreter.enabled = False
print(kernel[(1,)](np.zeros(4, 'i4')).target in libtile.targets())
""")
    for variable in ("LIBTILE_INTERPRET", "TRITON_INTERPRET"):
        env = {k: v for k, v in os.environ.items() if not k.endswith("_INTERPRET")}
        done = subprocess.run([sys.executable, program], env={**env, variable: "1"}, capture_output=True, text=True)
        assert done.stdout.split() == ["True", "interpreter", "True"], done.stderr


def test_what_device_says():
    x = np.zeros(1000, F32)
    with pytest.raises(ValueError, match="'device' is 'gpu'; it takes 'interpreter', or the device of the arrays"):
        add[(1,)](x, x, x, 1000, BLOCK=8, device="gpu")
    with pytest.raises(ValueError, match="'device' is 'cuda', and the arrays are elsewhere"):
        add[(1,)](x, x, x, 1000, BLOCK=8, device="cuda")
    add[(1,)](x, x, x, 1000, BLOCK=8, device="cpu")
    add[(1,)](x, x, x, 1000, BLOCK=8, device=None)


# ---- bounds
def test_out_of_bounds():
    x, y, out = (np.zeros(n, F32) for n in (1000, 1100, 1100))
    message, line = fault(add, x, y, out, 1100, grid=(9,), BLOCK=128, error=libtile.OutOfBoundsError)
    assert message == "x[1000] is out of bounds: x holds 0 .. 999; read by program (7, 0, 0), element (104)"
    assert line == "a = tl.load(x + i, mask=i < n)"


@libtile.jit
def from_one_to_another(x, distance):
    tl.store(x + distance, 1.0)


def test_an_address_that_leaves_its_array_is_found_in_another():
    both = bytearray(800)
    x = np.frombuffer(both, F32)[:100].copy()
    store = np.zeros(300, F32)
    message, _ = fault(from_one_to_another, x, (store.ctypes.data - x.ctypes.data) // 4, error=libtile.OutOfBoundsError)
    assert re.fullmatch(r"x\[-?\d+\] is out of bounds: x holds 0 \.\. 99; written by program \(0, 0, 0\)", message)
    assert not store.any()


@libtile.jit
def unaligned(x, out):
    p = (x + 1).to(tl.pointer_type(tl.int32))
    tl.store(out, tl.load(p))


def test_misaligned():
    message, line = fault(unaligned, np.zeros(64, np.int8), np.zeros(1, I32))
    assert message == "4 bytes from x[1] is misaligned: its address is no multiple of 4; read by program (0, 0, 0)"
    assert line == "tl.store(out, tl.load(p))"


# ---- offsets
@libtile.jit
def far_rows(out, stride):
    i = tl.arange(0, 4) + 65536
    tl.store(out + i[:, None] * stride + tl.arange(0, 2)[None, :], 1)


def test_an_offset_that_overflows():
    message, line = fault(far_rows, np.zeros(4, I32), 65536)
    cause = place(far_rows, "i[:, None] * stride")
    assert message == (f"out[0] is wrong: an int32 of its offset overflows at {cause}; written by program (0, 0, 0), "
                       "element (0, 0)")
    assert line.startswith("tl.store(out + i")


@libtile.jit
def hashed(out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + ((i * 1103515245 + 12345) >> 16 & (N - 1)), 1)


def test_a_hash_may_overflow():
    out = np.zeros(64, I32)
    hashed[(1,)](out, N=64, device="interpreter")
    want = np.zeros(64, I32)
    want[(np.arange(64, dtype=I32) * I32(1103515245) + I32(12345)) >> 16 & 63] = 1
    np.testing.assert_array_equal(out, want)


# ---- what only libtile defines
@libtile.jit
def divide(out, n):
    i = tl.arange(0, 4)
    tl.store(out + i, 7 // (i - n))


@libtile.jit
def shift(out, n):
    i = tl.arange(0, 4)
    tl.store(out + i, 7 << (i + n))


@libtile.jit
def unmasked_sum(x, out, n):
    i = tl.arange(0, 4)
    tl.store(out, tl.sum(tl.load(x + i, mask=i < n)))


def test_a_division_by_zero():
    message, line = fault(divide, np.zeros(4, I32), 2)
    assert message == (f"a store writes what is undefined, an integer divided by zero, at {place(divide, '7 // (i - n)')}; "
                       "program (0, 0, 0), element (2)")
    assert line == "tl.store(out + i, 7 // (i - n))"
    divide[(1,)](np.zeros(4, I32), 5, device="interpreter")


def test_a_shift_that_is_too_far():
    message, _ = fault(shift, np.zeros(4, I32), 29)
    assert message == ("a store writes what is undefined, a shift by as many bits as the integer has, or more, at "
                       f"{place(shift, '7 << (i + n)')}; program (0, 0, 0), element (3)")


def test_masked_off_without_other():
    message, _ = fault(unmasked_sum, np.ones(4, I32), np.zeros(1, I32), 2)
    assert message == ("a store writes what is undefined, an element that a mask switches off in a load without `other`, at "
                       f"{place(unmasked_sum, 'tl.load')}; program (0, 0, 0)")


def test_what_is_undefined_and_does_not_matter():
    @libtile.jit
    def kernel(x, out, n):
        i = tl.arange(0, 4)
        a = tl.load(x + i, mask=i < n)
        b = tl.where(i < n, a // a, 5)
        tl.store(out + i, b)
        tl.store(out + i, a, mask=i < n)
        tl.store(out + 4 + i, (a > 3) & (i < n))

    x, out = np.ones(4, I32), np.zeros(8, I32)
    kernel[(1,)](x, out, 2, device="interpreter")
    assert out.tolist() == [1, 1, 5, 5, 0, 0, 0, 0]


def test_without_portability_it_is_what_libtile_says(defined):
    out = np.zeros(4, I32)
    divide[(1,)](out, 2, device="interpreter")
    assert out.tolist() == [-3, -7, 0, 7]


def test_memory_that_nobody_wrote():
    x = libtile.DeviceArray((8,), np.dtype(I32), "interpreter")
    out = np.zeros(1, I32)
    message, line = fault(unmasked_sum, x, out, 4)
    assert message == "x[0] is not initialised: nothing was written there; read by program (0, 0, 0), element (0)"
    assert line == "tl.store(out, tl.sum(tl.load(x + i, mask=i < n)))"
    divide[(1,)](x, 5, device="interpreter")
    unmasked_sum[(1,)](x, out, 4, device="interpreter")
    assert out[0] == -1 - 1 - 2 - 3
    unmasked_sum[(1,)](libtile.to_device(np.ones(4, I32), "interpreter"), out, 4)
    assert out[0] == 4


# ---- order
@libtile.jit
def shared_place(out):
    tl.store(out + tl.program_id(0) // 2, tl.program_id(0))


@libtile.jit
def neighbours(x):
    p = tl.program_id(1)
    tl.store(x + p, tl.load(x + p + 1))


def test_two_programs_store_to_one_place():
    message, line = fault(shared_place, np.zeros(4, I32), grid=(4,))
    where = place(shared_place, "tl.store")
    assert message == (f"out[0] is written by program (1, 0, 0), and written by program (0, 0, 0) at {where}: nothing says "
                       "which comes first")
    assert line.startswith("tl.store(out")


def test_a_program_stores_to_what_another_reads():
    message, _ = fault(neighbours, np.zeros(8, I32), grid=(1, 4))
    assert message == (f"x[1] is written by program (0, 1, 0), and read by program (0, 0, 0) at {place(neighbours, 'tl.load')}: "
                       "nothing says which comes first")


@libtile.jit
def last_sums(x, parts, counter, out, SEM: tl.constexpr):
    """Each program leaves its part; the one that comes last adds them."""
    p, n = tl.program_id(0), tl.num_programs(0)
    tl.store(parts + p, tl.load(x + p))
    if tl.atomic_add(counter, 1, sem=SEM) == n - 1:
        i = tl.arange(0, 4)
        tl.store(out, tl.sum(tl.load(parts + i)))


def test_atomics_put_programs_in_order():
    x, parts, out = np.arange(4, dtype=F32), np.zeros(4, F32), np.zeros(1, F32)
    last_sums[(4,)](x, parts, np.zeros(1, I32), out, SEM="acq_rel", device="interpreter")
    assert out[0] == 6
    message, line = fault(last_sums, x, parts, np.zeros(1, I32), out, grid=(4,), SEM="relaxed")
    assert message.startswith("parts[0] is read by program (3, 0, 0), element (0), and written by program (0, 0, 0) at ")
    assert line == "tl.store(out, tl.sum(tl.load(parts + i)))"


def test_atomics_among_themselves_do_not_race():
    @libtile.jit
    def count(out, sem: tl.constexpr):
        tl.atomic_add(out + tl.arange(0, 8) // 2, 1, sem=sem)

    for sem in ("relaxed", "acq_rel"):
        out = np.zeros(4, I32)
        count[(5,)](out, sem, device="interpreter")
        assert out.tolist() == [10] * 4


@libtile.jit
def folded(out, same):
    i = tl.arange(0, 8)
    tl.store(out + i // 4, tl.where(same > 0, i // 4, i))


def test_one_store_writes_a_place_twice():
    message, line = fault(folded, np.zeros(4, I32), 0)
    assert message == ("out[0] is written by elements (0) and (1) of one store, which differ: nothing says which comes first; "
                       "program (0, 0, 0)")
    assert line.startswith("tl.store(out + i // 4")
    folded[(1,)](np.zeros(4, I32), 2, device="interpreter")


# ---- what the kernel says itself
@libtile.jit
def promises(out, n):
    tl.assume(n > 4)
    tl.device_assert(n != 7, "not seven")
    tl.store(out, tl.multiple_of(n, 16))


def test_assertions_and_promises():
    message, line = fault(promises, np.zeros(1, I32), 7, error=libtile.KernelAssertionError)
    assert message == "assertion failed: not seven; in promises, program (0, 0, 0)"
    assert line == 'tl.device_assert(n != 7, "not seven")'
    message, line = fault(promises, np.zeros(1, I32), 3)
    assert message == "what the kernel assumes is false; program (0, 0, 0)" and line == "tl.assume(n > 4)"
    message, line = fault(promises, np.zeros(1, I32), 24)
    assert message == "24 is no multiple of 16, as the kernel promises; program (0, 0, 0)"
    promises[(1,)](np.zeros(1, I32), 32, device="interpreter")


def test_an_endless_loop_can_be_interrupted(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import signal
import numpy as np
import libtile
import libtile.language as tl
@libtile.jit
def forever(x):
    while tl.load(x, volatile=True) == 0:
        pass
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.alarm(1)
forever[(1,)](np.zeros(1, "i4"), device="interpreter")
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr
