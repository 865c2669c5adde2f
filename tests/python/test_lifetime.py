# SPDX-License-Identifier: Apache-2.0
"""What is let go: kernels whose globals changed, jit functions that nobody has any more, constants."""
import gc
import types
import weakref
from pathlib import Path

import numpy as np
import pytest

import libtile
import libtile.language as tl
from libtile import _libtile

SCALE = tl.constexpr(0)


@libtile.jit
def scaled(x, out):
    i = tl.arange(0, 16)
    tl.store(out + i, tl.load(x + i) * SCALE)


@libtile.jit
def applied(x, out, FUNCTION: tl.constexpr):
    tl.store(out, FUNCTION(tl.load(x)))


def resident():
    """Bytes that the process has in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
    return 0


def growth(step, before, after):
    """Bytes by which memory grows over `after` steps, once it has had `before` of them."""
    for i in range(before):
        step(i)
    gc.collect()
    start = resident()
    for i in range(before, before + after):
        step(i)
    gc.collect()
    return resident() - start


def change_global(i):
    global SCALE
    x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    SCALE = tl.constexpr(i)
    scaled[(1,)](x, out)
    assert out[0] == i


def make_short_lived(i):
    @libtile.jit
    def short(x, out):
        tl.store(out, tl.load(x) + i_constant)

    i_constant = tl.constexpr(i)
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    short[(1,)](x, out)
    assert out[0] == 1 + i
    return short


def pass_short_lived(i):
    @libtile.jit
    def helper(value):
        return value + i_constant

    i_constant = tl.constexpr(i)
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    applied[(1,)](x, out, helper)
    assert out[0] == 1 + i


def test_changed_globals_retire_kernels():
    kernels = []
    x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    global SCALE
    for i in range(20):
        SCALE = tl.constexpr(i % 2 + 100 * i)
        kernels.append(weakref.ref(scaled[(1,)](x, out)))
        assert out[0] == i % 2 + 100 * i
    gc.collect()
    assert sum(kernel() is not None for kernel in kernels) <= 3
    assert _libtile.num_retired() <= 2


def test_a_global_that_changes_back():
    x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    global SCALE
    for value in (7, 8, 7, 8, 7):
        SCALE = tl.constexpr(value)
        scaled[(1,)](x, out)
        assert out[0] == value


def test_a_jit_function_goes_with_its_last_name():
    short = make_short_lived(3)
    reference, function = weakref.ref(short), weakref.ref(short.fn)
    del short
    gc.collect()
    assert reference() is None and function() is None


def test_a_module_and_its_kernels_are_a_cycle_that_ends(tmp_path):
    path = tmp_path / "made.py"
    path.write_text("import libtile\nimport libtile.language as tl\n"
                    "@libtile.jit\ndef helper(x):\n    return x * FACTOR\n"
                    "FACTOR = tl.constexpr(3)\n"
                    "@libtile.jit\ndef kernel(x, out, n=5):\n    tl.store(out, helper(tl.load(x)) + n)\n")
    module = types.ModuleType("made")
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    module.kernel[(1,)](x, out)
    assert out[0] == 8
    references = [weakref.ref(each) for each in (module, module.kernel, module.helper, module.kernel.fn)]
    del module
    gc.collect()
    assert [reference() for reference in references] == [None] * 4


def test_a_function_made_while_a_kernel_is_compiled():
    @libtile.constexpr_function
    def make(n):
        @libtile.jit
        def made(x):
            return x + bonus * n_constant

        n_constant = tl.constexpr(n)
        return made

    @libtile.jit
    def kernel(x, out):
        f: tl.constexpr = make(3)
        gathered = f(tl.load(x))
        tl.store(out, gathered)

    bonus = tl.constexpr(10)
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    for _ in range(3):
        gc.collect()
        kernel[(1,)](x, out)
        assert out[0] == 31


def test_clear_during_use():
    x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    for _ in range(5):
        kernel = scaled[(1,)](x, out)
        scaled.clear()
        assert "tile" in kernel.asm and scaled[(1,)](x, out) is not kernel


@pytest.mark.slow
@pytest.mark.parametrize("step", [change_global, make_short_lived, pass_short_lived])
def test_memory_is_flat(step):
    # What is kept reaches its bound within 1100 steps; a kernel that stayed would hold a page of code at least.
    assert growth(step, 1500, 1500) < 4 << 20
