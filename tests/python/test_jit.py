# SPDX-License-Identifier: Apache-2.0
"""The jit interface: binding, grids, specialisation, caching, warm-up, compiled kernels."""
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import libtile
import libtile.language as tl


@libtile.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr, OFFSET: tl.constexpr = 0):
    """Multiplies."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor + OFFSET, mask=i < n)


@libtile.jit
def only(x):
    tl.store(x, 1)


def arrays(n=64, dtype=np.float32):
    return np.arange(n, dtype=dtype), np.zeros(n, dtype)


def test_name_and_doc():
    assert scale.__name__ == "scale" and scale.__doc__ == "Multiplies."
    assert "def scale" in scale.src
    assert scale.arg_names == ["x", "out", "n", "factor", "BLOCK", "OFFSET"]


def test_keywords_defaults_and_order():
    x, out = arrays()
    scale[(1,)](factor=2.0, BLOCK=64, n=64, out=out, x=x)
    np.testing.assert_array_equal(out, 2 * x)
    scale[(1,)](x, out, 64, 2.0, 64, OFFSET=3)
    np.testing.assert_array_equal(out, 2 * x + 3)


def test_jit_with_options():
    @libtile.jit(do_not_specialize=["n"])
    def copy(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)

    x, out = arrays()
    kernels = {copy[(1,)](x, out, n, BLOCK=64) for n in (1, 2, 16, 64)}
    assert len(kernels) == 1
    np.testing.assert_array_equal(out, x)


def test_specialisation():
    x, out = arrays()

    def kernel(n, factor=1.5, **options):
        return scale[(1,)](x, out, n, factor, BLOCK=64, **options)

    assert kernel(64) is kernel(32), "both are multiples of 16"
    assert kernel(63) is kernel(62)
    assert kernel(64) is not kernel(63)
    assert kernel(1) is not kernel(63), "1 is a constant"
    assert kernel(2**40 + 1) is not kernel(63), "64 bits"
    assert kernel(63, 2.5) is kernel(63, 7.5)
    assert kernel(63, 2) is not kernel(63, 2.0)
    assert kernel(63, True) is not kernel(63, 2)
    assert scale[(1,)](x[1:], out[1:], 63, 1.5, BLOCK=64) is not kernel(63), "alignment"
    assert "n=1" in kernel(1).signature and "<int64>" in kernel(2**40 + 1).signature


@libtile.jit
def four_constants(x, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    tl.store(x, 1)


def test_signatures_show_constants_as_they_are_written():
    kernel = four_constants.warmup("*fp32:1", "it's", 1.5, (1, "a", None), tl.float32, grid=(1,), target="avx512")
    assert kernel.signature == "x=<pointer<fp32>>, A='it's', B=1.5, C=(1, 'a', None), D=fp32"
    assert four_constants.warmup("*fp32", "", 1, (), tl.int8, grid=(1,)).target, "the device of no array is the CPU"


@pytest.mark.parametrize("grid", [1, (1,), (1, 1), (1, 1, 1), [1], lambda meta: (1,),
                                  lambda meta: libtile.cdiv(meta["n"], meta["BLOCK"])])
def test_grids(grid):
    x, out = arrays()
    scale[grid](x, out, 64, 2.0, BLOCK=64)
    np.testing.assert_array_equal(out, 2 * x)


@libtile.jit
def coordinates(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(out + x + nx * (y + ny * z), x + 100 * y + 10000 * z)


def test_grid_of_three():
    out = np.zeros((4, 3, 5), np.int32)
    coordinates[(5, 3, 4)](out)
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, x + 100 * y + 10000 * z)


def test_empty_grid_runs_nothing():
    x, out = arrays()
    scale[(0,)](x, out, 64, 2.0, BLOCK=64)
    assert (out == 0).all()


@pytest.mark.parametrize("grid", [(-1,), (1, 1, 1, 1), (), (2**31,), (2**22, 2**21, 2**21), ("a",), None])
def test_refused_grids(grid):
    x, out = arrays()
    with pytest.raises((ValueError, TypeError)):
        scale[grid](x, out, 64, 2.0, BLOCK=64)


def test_refused_calls():
    x, out = arrays()
    with pytest.raises(TypeError, match="'factor' is missing"):
        scale[(1,)](x, out, 64, BLOCK=64)
    with pytest.raises(TypeError, match="scale.*no parameter or option 'blok'; did you mean `BLOCK`"):
        scale[(1,)](x, out, 64, 2.0, blok=64)
    with pytest.raises(TypeError, match="several values for parameter 'x'"):
        scale[(1,)](x, out, 64, 2.0, 64, x=x)
    with pytest.raises(TypeError, match=r"only\(\) takes 1 argument, 2 were given"):
        only[(1,)](x, out)
    with pytest.raises(TypeError, match="takes 6 arguments, 7 were given"):
        scale[(1,)](x, out, 64, 2.0, 64, 0, 0)
    with pytest.raises(RuntimeError, match=r"'scale' is called without a grid.*`scale\[grid\]\(...\)`"):
        scale(x, out, 64, 2.0, 64)
    with pytest.raises(OverflowError, match="argument 'n': the integer does not fit in 64 bits"):
        scale[(1,)](x, out, 2**70, 2.0, 64)


@pytest.mark.parametrize("what", [object(), [1.0, 2.0], {}, {1}, 1j])
def test_objects_that_are_no_arguments(what):
    with pytest.raises(TypeError, match=f"'x': an object of type {type(what).__name__} is neither"):
        scale[(1,)](what, np.zeros(4, np.float32), 4, 2.0, BLOCK=4)


def test_calling_the_language_outside_of_a_kernel():
    with pytest.raises(RuntimeError, match="only be called in a kernel"):
        tl.load(1)
    with pytest.raises(libtile.UnsupportedError, match="not there yet"):
        tl.slice_type()


# ---- constants of several kinds

@libtile.jit
def constants(out, KIND: tl.constexpr, VALUE: tl.constexpr):
    if KIND == "tuple":
        tl.store(out, VALUE[0] + VALUE[1])
    elif KIND == "dtype":
        tl.store(out, tl.full((), 3.7, tl.float32).to(VALUE))
    elif KIND == "none":
        tl.store(out, 1 if VALUE is None else 2)
    else:
        tl.store(out, VALUE)


@pytest.mark.parametrize("kind, value, want", [
    ("int", 7, 7), ("int", True, 1), ("int", 2.0, 2), ("tuple", (3, 4), 7), ("dtype", tl.int32, 3),
    ("dtype", tl.float32, 3), ("none", None, 1), ("none", 0, 2), ("int", -(2**31), -(2**31))])
def test_constants(kind, value, want):
    out = np.zeros(1, np.int32)
    constants[(1,)](out, kind, value)
    assert out[0] == want


@pytest.mark.parametrize("kind, value, want", [("int", 7, 7), ("tuple", (3, 4), 7), ("dtype", tl.int32, 3), ("none", None, 1)])
def test_constants_in_constexpr(kind, value, want):
    out = np.zeros(1, np.int32)
    kernel = constants[(1,)](out, tl.constexpr(kind), tl.constexpr(value))
    assert out[0] == want and constants[(1,)](out, kind, value) is kernel


@pytest.mark.parametrize("value", [2, 2.5, 1, True])
def test_numbers_in_constexpr(value):
    """They are constants of the kernel, whichever parameter they are given for."""
    x, out = arrays()
    kernel = scale[(1,)](x, out, 64, tl.constexpr(value), BLOCK=tl.constexpr(64))
    np.testing.assert_array_equal(out, x * np.float32(value))
    assert f"factor={value}," in repr(kernel)
    assert scale[(1,)](x, out, 64, tl.constexpr(value), BLOCK=64) is kernel
    assert scale[(1,)](x, out, 64, tl.constexpr(value + 2), BLOCK=64) is not kernel
    np.testing.assert_array_equal(out, x * np.float32(value + 2))


def test_constants_that_are_equal_in_python_differ():
    out = np.zeros(1, np.int32)
    assert len({constants[(1,)](out, "int", value) for value in (1, 1.0, True)}) == 3
    assert constants[(1,)](out, "tuple", (1, 2)) is not constants[(1,)](out, "tuple", (1.0, 2))


# ---- globals

SCALE = tl.constexpr(3)
plain = 3


@libtile.jit
def helper(x):
    return x * SCALE


@libtile.jit
def with_globals(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, helper(tl.load(x + i)))


@libtile.jit
def with_plain_global(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * plain)


def test_a_changed_global_compiles_anew():
    global SCALE
    x, out = arrays(16)
    first = with_globals[(1,)](x, out, BLOCK=16)
    np.testing.assert_array_equal(out, 3 * x)
    assert with_globals[(1,)](x, out, BLOCK=16) is first
    try:
        SCALE = tl.constexpr(5)
        second = with_globals[(1,)](x, out, BLOCK=16)
        np.testing.assert_array_equal(out, 5 * x)
        assert second is not first
    finally:
        SCALE = tl.constexpr(3)
    with_globals[(1,)](x, out, BLOCK=16)
    np.testing.assert_array_equal(out, 3 * x)


def test_a_plain_global_is_refused():
    x, out = arrays(16)
    with pytest.raises(libtile.CompilationError, match="plain.*tl.constexpr") as caught:
        with_plain_global[(1,)](x, out, BLOCK=16)
    assert caught.value.file == __file__
    assert "tl.load(x + i) * plain" in str(caught.value)


def test_closures():
    def make(factor):
        factor = tl.constexpr(factor)

        @libtile.jit
        def kernel(x, out, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(out + i, tl.load(x + i) * factor)
        return kernel

    x, out = arrays(16)
    for factor in (2, 5):
        make(factor)[(1,)](x, out, BLOCK=16)
        np.testing.assert_array_equal(out, factor * x)


# ---- Python functions that take part in a compilation

def python_scale(x, factor, _semantic=None):
    assert isinstance(x, tl.tensor)
    kept.append(x)
    y = tl.exp2(x, _semantic=_semantic) if factor == "exp2" else x * 2 + 1
    return y, x.shape[0]


kept = []


@libtile.jit
def calls_python(x, out, HOW: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    y, size = python_scale(tl.load(x + i), HOW)
    tl.store(out + i, y + size)


def test_python_functions_with_semantic():
    x, out = arrays(16)
    calls_python[(1,)](x, out, "twice", BLOCK=16)
    np.testing.assert_array_equal(out, 2 * x + 17)
    calls_python[(1,)](x, out, "exp2", BLOCK=16)
    np.testing.assert_array_equal(out, np.exp2(x) + 16)  # exact for integers
    with pytest.raises(RuntimeError, match="after the end"):
        kept[0] + 1


def raises(x, _semantic=None):
    raise KeyError("the cause")


@libtile.jit
def calls_raising(x):
    raises(tl.load(x))


def test_a_python_exception_is_the_cause():
    with pytest.raises(libtile.CompilationError) as caught:
        calls_raising[(1,)](np.zeros(1, np.float32))
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__.__traceback__ is not None
    assert "raises(tl.load(x))" in str(caught.value)


@libtile.constexpr_function
def twice(n):
    return 2 * n


@libtile.jit
def calls_constexpr(out, N: tl.constexpr):
    tl.store(out, twice(N) + libtile.cdiv(7, 2) + libtile.next_power_of_2(N))


def test_constexpr_functions():
    out = np.zeros(1, np.int32)
    calls_constexpr[(1,)](out, 5)
    assert out[0] == 10 + 4 + 8


# ---- warm-up and compiled kernels

@pytest.mark.parametrize("target", ["x86-64-v3", "avx512", "avx512vnni", "avx512bf16", "amx"])
def test_warmup_for_cpus(target):
    kernel = scale.warmup("*fp32", "*fp32", "i32", "fp32", grid=(1,), target=target, BLOCK=1024)
    assert kernel.target == target
    assert list(kernel.asm)[0] == "tile" and "asm" in kernel.asm
    assert "func @scale" in kernel.asm["tile"] and "define" in kernel.asm["llvm"]
    assert ("zmm" in kernel.asm["asm"]) == (target != "x86-64-v3")
    assert kernel.fallbacks == []
    assert kernel.metadata["name"] == "scale"
    with pytest.raises(KeyError, match="stages are"):
        kernel.asm["cubin"]


@pytest.mark.parametrize("target, stages", [("avx512", ["tile", "plan", "nested", "llvm", "asm"]),
                                            ("sm_80", ["tile", "laid-out", "plan", "staged", "llvm", "ptx"])])
def test_stage_texts(target, stages):
    """Each text is of its stage, and a value has one name in all of them."""
    kernel = scale.warmup("*fp32", "*fp32", "i32", "fp32", grid=(1,), target=target, BLOCK=1024)
    assert list(kernel.asm) == stages
    defined = {}
    for stage in stages[:-2]:
        planned = "tile" if target == "avx512" else "laid-out"
        assert f" stage={planned if stage == 'plan' else stage} " in kernel.asm[stage]
        for name, op in re.findall(r"^ *%(\d+) = (\w+)", kernel.asm[stage], re.M):
            assert defined.setdefault(name, op) == op, (stage, name)


def test_passes_can_be_left_out():
    """LIBTILE_DISABLE_PASSES compiles without these passes; an unknown name is an error."""
    program = ("import sys; sys.path.insert(0, 'tests/python'); from test_jit import scale\n"
               "kernel = scale.warmup('*fp32', '*fp32', 'i32', 'fp32', grid=(1,), target='avx512', BLOCK=64)\n"
               "print(len(kernel.guards), kernel.asm['nested'].count('guard'))")

    def run(passes):
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              cwd=Path(__file__).parents[2],
                              env={**os.environ, "LIBTILE_DISABLE_PASSES": passes})

    assert run("").stdout == "1 1\n"
    assert run("simplify:2,request_guards").stdout == "0 0\n"
    assert "takes a function in stage nested" in run("form_nests").stderr
    assert "there is no pass named 'nothing'" in run("nothing").stderr


@pytest.mark.not_interpreted("it is no target to compile for")
def test_warmup_takes_dtypes_and_arrays():
    x, out = arrays()
    options = {"grid": (1,), "target": "avx512", "BLOCK": 64}
    texts = {scale.warmup(*pointers, "i32", "fp32", **options).asm["tile"]
             for pointers in ((tl.float32, tl.float32), (np.float32, np.float32), ("*fp32", "*fp32"),
                              (np.dtype("f4"), np.dtype("f4")))}
    assert len(texts) == 1
    assert scale.warmup(x, out, 64, 1.0, grid=(1,), BLOCK=64).target in libtile.targets()


def test_warmup_refuses():
    with pytest.raises(ValueError, match="there is no target 'pentium'"):
        scale.warmup("*fp32", "*fp32", "i32", "fp32", grid=(1,), target="pentium", BLOCK=64)
    for text in ("*fp32:-16", "*fp32:", "*fp32:0", "*fp32:x", "*fp32:16x", "*fp32:99999999999999999999"):
        with pytest.raises(TypeError, match="'x': '.*' says no multiple"):
            scale.warmup(text, "*fp32", "i32", "fp32", grid=(1,), target="avx512", BLOCK=64)
    with pytest.raises(TypeError, match="no type"):
        scale.warmup("*fp99", "*fp32", "i32", "fp32", grid=(1,), target="avx512", BLOCK=64)


# ---- threads, processes, the import

def test_launches_from_threads():
    x = np.arange(10_000, dtype=np.float32)
    outs = [np.zeros_like(x) for _ in range(8)]

    def work(index):
        for _ in range(20):
            scale[(libtile.cdiv(x.size, 64),)](x, outs[index], x.size, float(index), BLOCK=64)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, out in enumerate(outs):
        np.testing.assert_array_equal(out, x * index)


def test_launches_in_a_forked_child():
    import os
    x, out = arrays(100_000)
    scale[(1000,)](x, out, x.size, 2.0, BLOCK=128)
    child = os.fork()
    if child == 0:
        scale[(1000,)](x, out, x.size, 4.0, BLOCK=128)
        scale[(1000,)](x, out, x.size, 4, BLOCK=100)
        os._exit(0 if (out == 4 * x).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


# The time itself is a row of the benchmarks: modules like these are what it would go to.
def test_import_is_light():
    code = "import sys; before = set(sys.modules); import libtile; print(*set(sys.modules) - before)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    large = {"numpy", "torch", "ctypes", "dataclasses", "enum", "inspect", "json", "pathlib", "re", "subprocess", "typing"}
    assert not large & set(shown.stdout.split()) and "libtile" in shown.stdout.split()


def test_device_arrays_outlive_the_modules(monkeypatch):
    """At the interpreter's end the names of a module are None before the last arrays go."""
    seen = []
    array = libtile.to_device(np.zeros(9), "cpu")
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    for name in ("release", "allocate"):
        monkeypatch.setattr(libtile._libtile, name, None)
    del array
    assert seen == []


def test_num_threads():
    before = libtile.num_threads()
    try:
        x, out = arrays(100_000)
        for threads in (1, 3, 2):
            libtile.set_num_threads(threads)
            assert libtile.num_threads() == threads
            out[:] = 0
            scale[(1000,)](x, out, x.size, 2.0, BLOCK=128)
            np.testing.assert_array_equal(out, 2 * x)
    finally:
        libtile.set_num_threads(before)


async def asynchronous(x):
    pass


async def generating(x):
    yield x


@pytest.mark.parametrize("fn, text", [
    (lambda x: None, "not a lambda"), (asynchronous, "not one that `async def` makes"),
    (generating, "not one that `async def` makes"), (len, "not an object of type"),
    (5, "not an object of type 'int'")])
def test_what_is_no_kernel(fn, text):
    for decorate in (libtile.jit, libtile.jit(check=True)):
        with pytest.raises(TypeError, match=text):
            decorate(fn)
    with pytest.raises(TypeError, match=text if callable(fn) and fn is not len else "function or None"):
        scale.fn = fn


@pytest.mark.parametrize("check", ["yes", 2, [], np.zeros(3)])
def test_flags_of_the_decorator(check):
    with pytest.raises(TypeError, match=r"jit\(\): 'check' is .*; it takes 0 or 1"):
        libtile.jit(check=check)(only.fn)


@pytest.mark.parametrize("grid, error", [
    (1.0, TypeError), ((1.0,), TypeError), ((1, "2"), TypeError), (None, TypeError), ("1", TypeError),
    ((), ValueError), ((1, 1, 1, 1), ValueError), (2**80, ValueError), ((1, -2**80), ValueError),
    (lambda meta: 1.5, TypeError), (lambda meta: (meta["n"] / 64,), TypeError)])
def test_grids_that_are_none(grid, error):
    x, out = arrays()
    with pytest.raises(error, match=r"scale\(\): the grid is .*; it is 1 to 3 integers in 0 .. 2147483647, or a "
                                    "function that makes them of the arguments"):
        scale[grid](x, out, 64, 2.0, BLOCK=64)


def test_grids_of_numpy_numbers():
    x, out = arrays(640)
    for grid in (np.int64(10), (np.uint8(10),), np.array([10]), lambda meta: np.int32(10)):
        out[:] = 0
        scale[grid](x, out, 640, 2.0, BLOCK=64)
        np.testing.assert_array_equal(out, 2 * x)


def test_modes_of_do_bench():
    with pytest.raises(ValueError, match="return_mode is 'foo'; it is one of mean, median, min, max, all"):
        libtile.testing.do_bench(lambda: pytest.fail("called"), return_mode="foo", device="cpu")
    for mode in ("mean", "median", "min", "max"):
        assert libtile.testing.do_bench(lambda: None, 0, 0, return_mode=mode, device="cpu", clear_cache=False) >= 0
    times = libtile.testing.do_bench(lambda: None, 0, 0, return_mode="all", device="cpu", clear_cache=False)
    assert len(times) >= 3 and times == sorted(times)


@pytest.mark.parametrize("threads", [-1, -2**63, -2**80, 1025, 2**31, 2**80])
def test_numbers_of_threads_that_there_are_not(threads):
    before = libtile.num_threads()
    with pytest.raises(ValueError, match=r"is no number of threads: give 0, for all cores, to 1024"):
        libtile.set_num_threads(threads)
    with pytest.raises(TypeError):
        libtile.set_num_threads(2.0)
    assert libtile.num_threads() == before


def test_devices():
    assert libtile.available_devices()[0] == "cpu"
    assert {"sm_80", "sm_90a", "avx512bf16", "x86-64-v3"} <= set(libtile.targets())
    with pytest.raises(libtile.DeviceError):
        libtile.to_device(np.zeros(1), "cuda:63")
    with pytest.raises(libtile.DeviceError):
        libtile.to_device(np.zeros(1), "tpu")


def test_do_bench():
    from libtile.testing import do_bench
    x, out = arrays()
    run = lambda: scale[(1,)](x, out, 64, 2.0, BLOCK=64)  # noqa: E731
    assert 0 < do_bench(run, warmup=1, rep=5, device="cpu") < 1000
    low, high = do_bench(run, warmup=1, rep=5, quantiles=[0.2, 0.8], device="cpu")
    assert 0 < low <= high
