# SPDX-License-Identifier: Apache-2.0
"""What kernels see of Python: named tuples, objects and modules, and which of them are the language."""
import collections
import enum
import sys
import types
import typing

import numpy as np
import pytest

import libtile
import libtile.language as tl
import libtile.language as anything
import libtile.language.core as core
from libtile.language import arange as indices, load as ld, store
from libtile.language.math import exp2


def compile_(kernel, *args, **kwargs):
    return kernel.warmup(*args, grid=(1,), target="x86-64-v3", **kwargs)


# ---- named tuples

class Point(typing.NamedTuple):
    x: object
    y: object = 7

    LIMIT = 100

    @libtile.jit
    def total(self, factor):
        return (self.x + self.y) * factor


Pair = collections.namedtuple("Pair", "first second")
ORIGIN = Point(tl.constexpr(3), tl.constexpr(4))


@libtile.jit
def swapped(pair):
    return Pair(pair.second, first=pair.first) if False else Pair(second=pair.first, first=pair.second)


@libtile.jit
def with_points(out, n, GIVEN: tl.constexpr):
    p = Point(n)
    q = Point(y=n, x=p.total(2))
    for _ in range(3):
        q = Point(q.y, q.x + 1)
    r = swapped(Pair(q.x, q.y))
    tl.static_assert(isinstance(GIVEN, Point) and not isinstance(r, Point))
    tl.static_assert(GIVEN.LIMIT == 100 and GIVEN == (5, 7) and GIVEN[0] == 5 and len(GIVEN) == 2)
    tl.static_assert(ORIGIN.total(10) == 70)
    tl.store(out, r.first)
    tl.store(out + 1, r.second)
    tl.store(out + 2, GIVEN.total(n))


def test_named_tuples():
    out = np.zeros(3, np.int32)
    with_points[(1,)](out, 10, Point(5))
    x, y = 34, 10
    for _ in range(3):
        x, y = y, x + 1
    assert out.tolist() == [y, x, 120]


@libtile.jit
def which(out, GIVEN: tl.constexpr):
    tl.store(out, 1 if isinstance(GIVEN, Point) else 2)


def test_named_tuples_of_equal_fields_are_other_constants():
    out = np.zeros(1, np.int32)
    got = []
    for given in (Point(1, 2), Pair(1, 2), (1, 2), Point(1, 2)):
        which[(1,)](out, given)
        got.append(int(out[0]))
    assert got == [1, 2, 2, 1]


def seen_by_python(pair, _semantic=None):
    assert type(pair) is Pair and isinstance(pair.first, tl.tensor) and pair.second.value == 3
    return Pair(pair.first + 1, pair.second)


@libtile.jit
def through_python(out, n):
    changed = seen_by_python(Pair(n, 3))
    tl.static_assert(isinstance(changed, Pair))
    tl.store(out, changed.first * changed.second)


def test_named_tuples_pass_through_python():
    out = np.zeros(1, np.int32)
    through_python[(1,)](out, 10)
    assert out[0] == 33


# ---- objects

class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


def helper(x, _semantic=None):
    return x


class Settings:
    """Counts what is read of it."""
    reads = 0
    mode = Mode.EXACT

    @property
    def block(self):
        Settings.reads += 1
        return 16


settings = types.ModuleType("settings")
settings.own = Settings()
settings.BLOCK = 16
settings.helper = helper


@libtile.jit
def identities(out):
    tl.static_assert(settings.own is settings.own and settings.helper is helper)
    tl.static_assert(settings.own.mode is Mode.EXACT and settings.own.mode == Mode.EXACT)
    tl.static_assert(settings.own.mode is not Mode.FAST and settings.own.mode != Mode.FAST)
    tl.static_assert(settings is settings and np is not settings)
    tl.static_assert(Mode is Mode and Point is Point and Point is not Pair)
    tl.store(out, 1)


def test_identity_is_the_objects():
    compile_(identities, "*i32")


@libtile.jit
def unrolled(out):
    for _ in tl.static_range(10000):
        tl.static_assert(settings.BLOCK + settings.own.block >= 32)
    tl.store(out, settings.BLOCK)


def test_an_attribute_is_asked_for_once():
    Settings.reads = 0
    out = np.zeros(1, np.int32)
    unrolled[(1,)](out)
    assert out[0] == 16
    # Making the kernel asks once; whether the answers hold is asked at times too.
    assert Settings.reads <= 3


def test_a_changed_attribute_compiles_anew():
    out = np.zeros(1, np.int32)
    try:
        settings.BLOCK = 17
        unrolled[(1,)](out)
        assert out[0] == 17
    finally:
        settings.BLOCK = 16
settings.helper = helper


@libtile.jit
def optional(out):
    tl.store(out, 5 if hasattr(settings, "extra") else len((1, 2)))


def test_what_was_missing_is_watched():
    out = np.zeros(1, np.int32)
    optional[(1,)](out)
    assert out[0] == 2
    try:
        settings.extra = None
        optional[(1,)](out)
        assert out[0] == 5
        del settings.extra
        globals()["len"] = libtile.constexpr_function(lambda items: 9)
        optional[(1,)](out)
        assert out[0] == 9
    finally:
        globals().pop("len", None)
        vars(settings).pop("extra", None)


left_behind = []


def keep(x, _semantic=None):
    left_behind.append(x)
    return x


@libtile.jit
def keeps(out):
    keep(tl.load(out))


@libtile.jit
def takes_left(out):
    tl.store(out, stale)


def passes_left(x, _semantic=None):
    return tl.exp2(stale, _semantic=_semantic)


@libtile.jit
def calls_with_left(out):
    tl.store(out, passes_left(tl.load(out)))


def test_tensors_of_another_compilation_are_refused():
    global stale
    compile_(keeps, "*fp32")
    stale = left_behind[0]
    with pytest.raises(libtile.CompilationError, match="`stale` is a tensor that another compilation"):
        compile_(takes_left, "*fp32")
    with pytest.raises(libtile.CompilationError, match="after the end of its specialisation"):
        compile_(calls_with_left, "*fp32")


# ---- which objects are the language

@libtile.jit
def under_other_names(x, out, N: anything.constexpr):
    i = indices(0, N)
    anything.static_assert(core.load is ld and anything.load is tl.load and core is not tl)
    anything.static_assert(isinstance(N, core.constexpr) and isinstance(i, tl.tensor))
    store(out + i, exp2(ld(x + i)).to(core.float32) + libtile.language.cdiv(7, 2) - libtile.cdiv(7, 2))


def test_the_language_under_other_names():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    under_other_names[(1,)](x, out, 8)
    np.testing.assert_array_equal(out, np.exp2(x))  # exact for integers


def package(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    return module


def kernel_with(source, **names):
    """A jit function made of this file's function, with other globals."""
    return libtile.jit(types.FunctionType(source.__code__, {**globals(), **names}, source.__name__))


def uses_tl(out):
    tl.store(out, tl.answer(5))


def test_a_package_called_tl_is_the_users():
    user = package("tl", answer=libtile.constexpr_function(lambda n: n + 1))
    with pytest.raises(libtile.CompilationError, match="module tl has no attribute `store`"):
        compile_(kernel_with(uses_tl, tl=user), "*i32")
    user.store = store
    out = np.zeros(1, np.int32)
    kernel_with(uses_tl, tl=user)[(1,)](out)
    assert out[0] == 6


def uses_triton(out, N: tl.constexpr):
    i = c.arange(0, N)
    triton.language.store(out + i, load(out + i).to(f32) + THREE + triton.cdiv(9, N))


@pytest.fixture
def fake_triton(monkeypatch):
    """A package of Triton's shape: its names are other objects than ours."""
    made = {name: types.SimpleNamespace(name=name) for name in ("arange", "store", "load", "slice_type", "float32")}

    class constexpr:
        def __init__(self, value):
            self.value = value

    language = package("triton.language", constexpr=constexpr, **made)
    language.core = package("triton.language.core", **made)
    triton = package("triton", language=language, cdiv=lambda x, y: -(-x // y))
    for module in (triton, language, language.core):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return triton


def test_tritons_objects_are_the_language(fake_triton):
    language = fake_triton.language
    names = {"triton": fake_triton, "c": language.core, "load": language.load, "f32": language.float32,
             "THREE": language.constexpr(3)}
    out = np.zeros(4, np.float32)
    kernel_with(uses_triton, **names)[(1,)](out, 4)
    assert out.tolist() == [6] * 4
    with pytest.raises(libtile.UnsupportedError, match="tl.slice_type is not there yet"):
        compile_(kernel_with(uses_triton, **{**names, "load": language.slice_type}), "*fp32", N=4)
    fake = types.SimpleNamespace(name="load")
    with pytest.raises(libtile.CompilationError, match="`load` is a global of type 'SimpleNamespace'"):
        compile_(kernel_with(uses_triton, **{**names, "load": fake}), "*fp32", N=4)


# ---- hasattr

@libtile.jit
def asks(out):
    tl.static_assert(hasattr(tl, "load") and not hasattr(tl, "slice_type") and not hasattr(tl, "lod"))
    tl.static_assert(not hasattr(tl.load(out), "slice_type") and hasattr(out, "dtype"))
    tl.static_assert(getattr(tl, "slice_type", None) is None)


def test_hasattr_in_kernels():
    compile_(asks, "*fp32")


def test_hasattr_is_true_of_what_works():
    from libtile.language import _objects
    # Methods of descriptors bear the names of functions; names with a dot are those of modules in the language.
    rows = [row for row in _objects.ROWS if row[2] != "DescriptorMember" and "." not in row[1]]
    for module in (tl, tl.math, tl.core, tl.standard):
        for sort, name, kind, *_ in rows:
            inside = sort in ("module", "namespace") and module is not tl
            want = sort != "later" and kind not in ("MemberOnly", "TypeMember") and not inside
            assert hasattr(module, name) == want, (module, name)
        known = {row[1] for row in rows} | (set(_objects.CORE) if module is tl.core else set())
        assert [name for name in dir(module) if not name.startswith("_") and name not in known] == []
    assert set(tl.__all__) <= set(dir(tl))


def test_names_that_are_not_there_yet():
    with pytest.raises(libtile.UnsupportedError, match="tl.slice_type is not there yet"):
        tl.slice_type
    with pytest.raises(AttributeError, match="tl has no attribute 'lod'"):
        tl.lod
    with pytest.raises(ImportError):
        from libtile.language import slice_type  # noqa: F401
    with pytest.raises(libtile.UnsupportedError, match="^libtile.testing.do_bench_proton is not there yet"):
        libtile.testing.do_bench_proton
    with pytest.raises(AttributeError, match="libtile has no attribute 'jti'"):
        libtile.jti
    assert not hasattr(libtile.testing, "do_bench_proton")
