# SPDX-License-Identifier: Apache-2.0
"""What kernels name from outside, and what changes of it between launches or while a kernel is compiled."""
import gc
import importlib
import os
import sys
import types
import weakref

import numpy as np
import pytest

import libtile
import libtile.language as tl


class Base:
    factor = 3


class Settings(Base):
    offset = tl.constexpr(1)
    shape = [2, [5, 6]]


class Callable:
    def __init__(self):
        self.step = 4

    def __call__(self):
        return 0


own = Callable()
settings = types.ModuleType("settings")
settings.inner = Settings
settings.rows = [10, 20]


@libtile.jit
def named(out):
    tl.store(out, Settings.factor)
    tl.store(out + 1, Settings.offset)
    tl.store(out + 2, own.step)
    tl.store(out + 3, settings.rows[1])
    tl.store(out + 4, settings.inner.shape[1][0])
    tl.store(out + 5, len(settings.rows))


WANT = [3, 1, 4, 20, 5, 2]


def launched():
    out = np.full(6, -1, np.int32)
    kernel = named[(1,)](out)
    return kernel, out.tolist()


@pytest.mark.parametrize("owner, name, value, at", [
    (Base, "factor", 7, 0), (Settings, "factor", 8, 0), (Settings, "offset", tl.constexpr(9), 1),
    (own, "step", 6, 2), (Callable, "step", 5, None), (settings, "rows", [1, 2], 3),
    (Settings, "shape", [0, [7]], 4)])
def test_a_changed_attribute_compiles_anew(owner, name, value, at):
    kernel, numbers = launched()
    assert numbers == WANT and launched()[0] is kernel
    before = vars(owner).get(name)
    try:
        setattr(owner, name, value)
        numbers = launched()[1]
        want = {"rows": 2, "shape": 7}.get(name, getattr(value, "value", value))
        assert numbers == [want if i == at else number for i, number in enumerate(WANT)]
    finally:
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
    assert launched()[1] == WANT


@pytest.mark.parametrize("items, change, at, want", [
    (settings.rows, lambda: settings.rows.__setitem__(1, 30), 3, 30),
    (settings.rows, lambda: settings.rows.append(30), 5, 3),
    (Settings.shape[1], lambda: Settings.shape[1].__setitem__(0, 9), 4, 9)])
def test_a_changed_list_compiles_anew(items, change, at, want):
    assert launched()[1] == WANT
    before = list(items)
    try:
        change()
        assert launched()[1] == [want if i == at else number for i, number in enumerate(WANT)]
    finally:
        items[:] = before
    assert launched()[1] == WANT


# ---- while a kernel is compiled

LEVEL = tl.constexpr(0)
during = None  # what is called while `changing` is compiled


@libtile.constexpr_function
def call_during():
    during()
    return 1


@libtile.jit
def changing(out):
    level: tl.constexpr = LEVEL
    one: tl.constexpr = call_during()
    tl.store(out, level * one)


@pytest.fixture
def level():
    yield
    globals().update(LEVEL=tl.constexpr(0), during=None)
    changing.clear()


@pytest.mark.parametrize("changes", [1, 2, 100])
def test_a_global_that_changes_while_it_is_compiled(level, changes):
    global during
    made = []

    def change():
        global LEVEL
        if len(made) < changes:
            made.append(tl.constexpr(len(made) + 1))
            LEVEL = made[-1]

    during = change
    out = np.full(1, -1, np.int32)
    changing[(1,)](out)
    if changes < 100:  # a kernel that never compiles to what is there is run as it is
        assert out[0] == LEVEL.value == changes


def make(number):
    @libtile.jit
    def made(out):
        one: tl.constexpr = call_during()
        tl.store(out, one * constant)

    constant = tl.constexpr(number)
    return made


def test_a_function_that_is_replaced_while_it_is_compiled(level):
    global during
    jit, other = make(5), make(6)

    def replace():
        jit.fn = other.fn

    during = replace
    out = np.full(1, -1, np.int32)
    with pytest.raises(libtile.CompilationError, match="is being launched or compiled"):
        jit[(1,)](out)
    during = lambda: None
    replace()
    jit[(1,)](out)
    assert out[0] == 6


def test_a_function_that_is_replaced_by_the_grid(level):
    global during
    jit, other = make(5), make(6)
    during = lambda: None

    def grid(arguments):
        jit.fn = other.fn
        return (1,)

    with pytest.raises(RuntimeError, match="is being launched or compiled"):
        jit[grid](np.zeros(1, np.int32))


def test_ctrl_c_of_a_host_function_goes_through(level):
    global during

    def interrupt():
        raise KeyboardInterrupt

    during = interrupt
    with pytest.raises(KeyboardInterrupt):
        changing[(1,)](np.zeros(1, np.int32))


def test_watched_objects_end_with_the_function():
    class Local:
        factor = 2

    @libtile.jit
    def kernel(out):
        tl.store(out, Local.factor)

    out = np.zeros(1, np.int32)
    kernel[(1,)](out)
    assert out[0] == 2
    gone = weakref.ref(Local)
    del kernel, Local
    gc.collect()
    assert gone() is None


# ---- the text

TEXT = """import libtile
import libtile.language as tl


@libtile.jit
def first(out):
    tl.store(out, 1)


@libtile.jit
def second(out):
    tl.store(out, 2)
"""


@pytest.mark.parametrize("edited", [TEXT.replace("out, 2", "out, 3"), TEXT.replace("import libtile\n", "\n" * 5),
                                    TEXT.split("@libtile.jit")[0], "", None])
def test_the_text_is_that_of_the_decoration(tmp_path, monkeypatch, edited):
    path = tmp_path / "edited_kernels.py"
    path.write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("edited_kernels")
    try:
        if edited is None:
            path.unlink()
        else:
            path.write_text(edited)
            os.utime(path, (2e9, 2e9))
        out = np.zeros(1, np.int32)
        module.second[(1,)](out)
        assert out[0] == 2
        if edited is not None and "3" in edited:
            importlib.reload(module).second[(1,)](out)
            assert out[0] == 3
    finally:
        sys.modules.pop("edited_kernels", None)
