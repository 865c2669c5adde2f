# SPDX-License-Identifier: Apache-2.0
"""tl.extra.libdevice: functions against long double, integers and bits against Python's, each over its types."""
import math
import re
from pathlib import Path

import numpy as np
import pytest
from float8 import CODES, decode, encode
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned

import libtile
import libtile.language as tl
from libtile.language.extra import libdevice

everywhere = pytest.mark.parametrize("device", DEVICES)
floats = pytest.mark.parametrize("dtype", [F32, F64], ids=lambda dtype: dtype.__name__)
LONG = np.longdouble
PI = LONG("3.14159265358979323846264338327950288")


@libtile.jit
def of_one(x, out, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, FN(tl.load(x + i, i < n, other=1)), i < n)


@libtile.jit
def of_two(x, y, out, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, FN(tl.load(x + i, i < n, other=1), tl.load(y + i, i < n, other=1)), i < n)


@libtile.jit
def of_three(x, y, z, out, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c = tl.load(x + i, i < n, other=1), tl.load(y + i, i < n, other=1), tl.load(z + i, i < n, other=1)
    tl.store(out + i, FN(a, b, c), i < n)


@libtile.jit
def of_four(x, y, z, w, out, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c = tl.load(x + i, i < n, other=1), tl.load(y + i, i < n, other=1), tl.load(z + i, i < n, other=1)
    tl.store(out + i, FN(a, b, c, tl.load(w + i, i < n, other=1)), i < n)


# Numbers below the least normal one are not flushed to 0.
EXACT = {"enable_reflect_ftz": False}


def apply(device, name, *arrays, to=None, block=200):
    """libdevice.name of the arrays, in programs of `block` elements, as an array of type `to`."""
    put = OnDevice(device)
    n = arrays[0].size
    out = put(poisoned(n, to or arrays[0].dtype))
    kernel = (of_one, of_two, of_three, of_four)[len(arrays) - 1]
    kernel[(libtile.cdiv(n, block),)](*map(put, arrays), out, n, FN=getattr(libdevice, name), BLOCK=block, **EXACT)
    return put.back(out)


def numbers(dtype, rng, n=700):
    """Special ones, all magnitudes, and those around 0 and 1 where functions change most."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    special = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -2, 1.5, -1.5, 2.5, np.inf, -np.inf, np.nan, 100, -100, 1e30,
                        -1e-30], dtype)
    tiny = np.array([1, 2, 3, 77], bits).view(dtype)
    most = np.array([np.finfo(dtype).max, -np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
    anything = rng.integers(0, 2**63, n, dtype=np.uint64) * np.uint64(2) + rng.integers(0, 2, n).astype(np.uint64)
    anything = anything.view(dtype)[:n] if dtype is F64 else (anything >> np.uint64(32)).astype(bits).view(dtype)
    near = rng.uniform(-1, 1, n) * 2.0 ** rng.uniform(-30, 1, n)
    parts = [special, tiny, -tiny, most, anything, rng.uniform(-2, 2, n), near, rng.uniform(-100, 100, n),
             rng.uniform(-800, 800, n)]
    with np.errstate(all="ignore"):
        return rng.permutation(np.concatenate([part.astype(dtype) for part in parts]))


def ulps(got, want):
    """Distances from exact results, in units of the last place of the type."""
    dtype = got.dtype.type
    with np.errstate(all="ignore"):
        nearest = want.astype(dtype)
        unit = np.spacing(np.maximum(np.abs(nearest), np.finfo(dtype).tiny)).astype(LONG)
        off = np.abs(got.astype(LONG) - want) / unit
    same = (np.isnan(want) & np.isnan(got)) | ((got == nearest) & (np.isinf(nearest) | (nearest == 0)))
    return np.where(same, 0, np.where(np.isnan(off), np.inf, off))


def check(name, got, want, bound, *arguments):
    off = ulps(got, want)
    worst = int(np.argmax(off))
    shown = ", ".join(str(argument[worst]) for argument in arguments)
    assert off[worst] <= bound, f"{name}({shown}) = {got[worst]}, not {want[worst]}: {float(off[worst]):.3g} ulp"


def exact_sine_of_turns(x, ahead):
    """sin(pi x + ahead pi/2); whole quarters are exact, zeros are those of C's sinpi and cospi."""
    given = x
    r = x - 2 * np.rint(x / 2)
    quarters = np.rint(2 * r)
    r = (r - quarters / 2) * PI
    which = np.where(np.isfinite(quarters), quarters, 0).astype(int) + ahead & 3
    value = np.choose(which, [np.sin(r), np.cos(r), -np.sin(r), -np.cos(r)])
    value = np.where(value == 0, LONG(0) if ahead else np.copysign(LONG(0), given), value)
    return np.where(np.isfinite(x), value, np.nan)


# name: (the function on long double, bounds in ulp for fp32 and fp64)
ONE = {
    "exp": (np.exp, 1.1, 1.1), "exp2": (np.exp2, 1.0, 0.9), "exp10": (lambda v: np.power(LONG(10), v), 0.51, 2.5),
    "expm1": (np.expm1, 0.51, 2.5), "log": (np.log, 0.7, 0.7), "log2": (np.log2, 0.8, 0.8),
    "log10": (np.log10, 0.51, 1), "log1p": (np.log1p, 0.51, 1.6), "sqrt": (np.sqrt, 0.5, 0.5),
    "rsqrt": (lambda v: 1 / np.sqrt(v), 1.5, 1.5), "cbrt": (np.cbrt, 0.51, 0.6),
    "rcbrt": (lambda v: 1 / np.cbrt(v), 0.51, 1.6), "sin": (np.sin, 1.6, 1), "cos": (np.cos, 1.6, 1),
    "tan": (np.tan, 4, 3), "sinpi": (lambda v: exact_sine_of_turns(v, 0), 0.51, 1),
    "cospi": (lambda v: exact_sine_of_turns(v, 1), 0.51, 1), "asin": (np.arcsin, 0.51, 2.5),
    "acos": (np.arccos, 0.51, 2.5), "atan": (np.arctan, 0.51, 1.8), "sinh": (np.sinh, 0.51, 4),
    "cosh": (np.cosh, 0.51, 2), "tanh": (np.tanh, 2, 2.5), "asinh": (np.arcsinh, 0.51, 3),
    "acosh": (np.arccosh, 0.51, 3), "atanh": (np.arctanh, 0.51, 3),
    "ceil": (np.ceil, 0, 0), "floor": (np.floor, 0, 0), "trunc": (np.trunc, 0, 0), "rint": (np.rint, 0, 0),
    "nearbyint": (np.rint, 0, 0), "abs": (np.abs, 0, 0), "rcp_rn": (lambda v: 1 / v, 0.5, 0.5),
    "sqrt_rn": (np.sqrt, 0.5, 0.5),
    "round": (lambda v: np.copysign(np.trunc(np.abs(v)) + (np.abs(v - np.trunc(v)) >= 0.5), v), 0, 0),
    "logb": (lambda v: np.where(np.isfinite(v) & (v != 0), np.frexp(v)[1] - LONG(1), np.log(np.abs(v))), 0, 0),
}
# The hardware's own, which a GPU takes for fp32.
HARDWARE = {"exp": 3, "exp2": 3, "rsqrt": 3, "tanh": 4}


def exact_complement(x):
    """erfc in long double, for x > 0: an integral that the trapezoidal rule has to the last place."""
    x = np.asarray(x, LONG)[:, None]
    s = np.arange(-46 * 16, 5 * 16 + 1).astype(LONG) / 16
    # erfc(x) = 2 / pi integral over t > 0 of exp(-x^2 (1 + t^2)) / (1 + t^2), with t = exp(s): no cancellation.
    weights = np.exp(s) / (1 + np.exp(2 * s)) / 16
    return 2 / PI * (weights * np.exp(-x * x * (1 + np.exp(2 * s)))).sum(1)


@everywhere
@floats
@pytest.mark.parametrize("name", ["erf", "erfc", "erfcx", "normcdf"])
def test_error_functions(device, dtype, name):
    rng = np.random.default_rng(39)
    x = np.concatenate([rng.uniform(-6, 6, 200), rng.uniform(0.3, 26, 200), [0.25, 0.5, 1, -1, 8, 12.5]]).astype(dtype)
    wide = x.astype(LONG)
    inner = -wide / np.sqrt(LONG(2)) if name == "normcdf" else wide
    complement = exact_complement(np.abs(inner))
    complement = np.where(inner < 0, 2 - complement, complement)
    want = {"erf": 1 - complement, "erfc": complement, "erfcx": complement * np.exp(wide**2),
            "normcdf": complement / 2}[name]
    # 1 - erfc says nothing of small results.
    used = np.abs(wide) > 0.3 if name == "erf" else np.abs(inner) > 0.25
    bound = 1.5 if name == "erf" else 6 if dtype is F64 else 0.51
    check(name, apply(device, name, x)[used], want[used], bound, x[used])
    small = (rng.uniform(-1, 1, 200) * 2.0 ** rng.uniform(-60, 0, 200)).astype(dtype)
    exact = np.array([math.erf(float(v)) for v in small]).astype(LONG)
    if name == "erf":
        check(name, apply(device, name, small), exact, 2.5 if dtype is F64 else 1.5, small)
    limits = {"erf": (1, -1), "erfc": (0, 2), "erfcx": (0, np.inf), "normcdf": (1, 0)}[name]
    ends = np.array([np.inf, -np.inf, np.nan], dtype)
    np.testing.assert_array_equal(apply(device, name, ends), np.array([*limits, np.nan], dtype))


@everywhere
@floats
@pytest.mark.parametrize("name", sorted(ONE))
def test_functions_of_one(device, dtype, name):
    exact, *bounds = ONE[name]
    x = numbers(dtype, np.random.default_rng(31))
    got = apply(device, name, x)
    with np.errstate(all="ignore"):
        want = exact(x.astype(LONG))
    bound = bounds[dtype is F64]
    if device != "cpu" and dtype is F32:
        bound = HARDWARE.get(name, bound)
    check(name, got, want, bound, x)
    if name in ("rint", "ceil", "round", "trunc", "floor", "asin", "atan", "sinh", "tanh", "asinh", "expm1", "log1p",
                "cbrt", "sin", "tan", "sqrt", "sinpi"):
        known = ~np.isnan(want)
        zero = known & (want == 0)
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(x[zero]))


def exact_norm(*parts):
    parts = np.abs(np.array(parts))
    return np.where(np.isinf(parts).any(0), np.inf, np.sqrt((parts**2).sum(0)))


MORE = {
    "pow": (2, np.power, 0.51, 1.2), "atan2": (2, np.arctan2, 0.51, 1.8), "hypot": (2, exact_norm, 0.51, 1.5),
    "rhypot": (2, lambda *v: 1 / exact_norm(*v), 0.51, 2.5), "norm3d": (3, exact_norm, 0.51, 1.5),
    "rnorm3d": (3, lambda *v: 1 / exact_norm(*v), 0.51, 2.5), "norm4d": (4, exact_norm, 0.51, 1.5),
    "rnorm4d": (4, lambda *v: 1 / exact_norm(*v), 0.51, 2.5), "fmod": (2, np.fmod, 0, 0),
    "fdim": (2, lambda a, b: np.where(np.isnan(a + b) & (np.isnan(a) | np.isnan(b)), np.nan, np.where(a > b, a - b, 0)),
             0.5, 0.5),
    "copysign": (2, np.copysign, 0, 0), "add_rn": (2, np.add, 0.5, 0.5), "sub_rn": (2, np.subtract, 0.5, 0.5),
    "mul_rn": (2, np.multiply, 0.5, 0.5), "div_rn": (2, np.divide, 0.5, 0.5),
}


@everywhere
@floats
@pytest.mark.parametrize("name", sorted(MORE))
def test_functions_of_more(device, dtype, name):
    count, exact, *bounds = MORE[name]
    rng = np.random.default_rng(32)
    x = [rng.permutation(numbers(dtype, rng)) for _ in range(count)]
    if name == "pow":
        # Exponents that keep results finite, and whole ones.
        x[1] = np.where(rng.random(x[1].size) < 0.6, rng.uniform(-30, 30, x[1].size), x[1]).astype(dtype)
        x[1] = np.where(rng.random(x[1].size) < 0.3, np.rint(x[1]), x[1]).astype(dtype)
    got = apply(device, name, *x)
    with np.errstate(all="ignore"):
        want = exact(*[each.astype(LONG) for each in x])
    # Long double has no more than 11 bits beyond fp64: a tie of the last one may go either way.
    check(name, got, want, bounds[dtype is F64] + (0.01 if dtype is F64 and bounds[1] else 0), *x)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, math.inf, -math.inf, math.nan, 1e300,
           -1e300, 2.0**53, 2.0**53 + 2, -(2.0**53) + 1]


@everywhere
@pytest.mark.parametrize("name, python", [("pow", np.float_power), ("atan2", np.arctan2), ("hypot", np.hypot)])
def test_special_pairs(device, name, python):
    x, y = (np.array(part) for part in zip(*[(a, b) for a in SPECIAL for b in SPECIAL]))
    with np.errstate(all="ignore"):
        want = python(x, y)
    got = apply(device, name, x, y)
    np.testing.assert_allclose(got, want, rtol=1e-15)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@everywhere
@floats
def test_power_of_an_integer(device, dtype):
    rng = np.random.default_rng(33)
    x = rng.uniform(-3, 3, 900).astype(dtype)
    n = rng.integers(-20, 21, 900, dtype=np.int32)
    n[:4], x[:4] = [0, -2**31, 2**31 - 1, 3], [np.nan, 1, -1, -0.0]
    with np.errstate(all="ignore"):
        want = np.power(x.astype(LONG), n.astype(LONG))
    check("pow", apply(device, "pow", x, n), want, 0.51 if dtype is F32 else 1.2, x, n)


@everywhere
@floats
def test_remainder(device, dtype):
    rng = np.random.default_rng(34)
    x, y = numbers(dtype, rng), rng.permutation(numbers(dtype, rng))
    k = x.size // 3
    with np.errstate(all="ignore"):
        x[:k] = (y[:k].astype(F64) * (rng.integers(-9, 9, k) / 2)).astype(dtype)
    got = apply(device, "remainder", x, y)

    def exact(a, b):
        return math.remainder(a, b) if math.isfinite(a) and b != 0 and not math.isnan(b) else math.nan

    want = np.array([exact(float(a), float(b)) for a, b in zip(x, y)])
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@everywhere
@floats
def test_neighbours(device, dtype):
    rng = np.random.default_rng(35)
    x, y = numbers(dtype, rng), rng.permutation(numbers(dtype, rng))
    y[:50] = x[:50]
    want = np.nextafter(x, y)
    got = apply(device, "nextafter", x, y)
    bits = f"u{got.itemsize}"
    known = ~np.isnan(want)
    np.testing.assert_array_equal(got[known].view(bits), want[known].view(bits))
    assert np.isnan(got[~known]).all()


@everywhere
@floats
@pytest.mark.parametrize("name", ["ldexp", "scalbn"])
def test_scales(device, dtype, name):
    rng = np.random.default_rng(36)
    x = numbers(dtype, rng)
    n = rng.integers(-2200, 2200, x.size, dtype=np.int32) // rng.choice([1, 8, 100], x.size).astype(np.int32)
    n[:3] = [-2**31, 2**31 - 1, 0]
    with np.errstate(all="ignore"):
        want = np.ldexp(x, n)
    got = apply(device, name, x, n)
    np.testing.assert_array_equal(got, want)


@everywhere
@floats
def test_classes(device, dtype):
    x = numbers(dtype, np.random.default_rng(37))
    finite = "isfinited" if dtype is F64 else "finitef"
    for name, want in ((finite, np.isfinite(x)), ("isinf", np.isinf(x)), ("isnan", np.isnan(x))):
        np.testing.assert_array_equal(apply(device, name, x, to=np.bool_), want)
    np.testing.assert_array_equal(apply(device, "signbit", x, to=np.int32) != 0, np.signbit(x))
    with np.errstate(all="ignore"):
        exponents = np.where(np.isinf(x), 2**31 - 1, np.frexp(x)[1] - 1)
    exponents = np.where((x == 0) | np.isnan(x), -2**31, exponents)
    np.testing.assert_array_equal(apply(device, "ilogb", x, to=np.int32), exponents)
    if dtype is F32:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(apply(device, "saturatef", x), np.where(x > 0, np.minimum(x, 1), 0))
    else:
        bits = x.view(np.uint64)
        np.testing.assert_array_equal(apply(device, "double2hiint", x, to=np.uint32), bits >> np.uint64(32))
        np.testing.assert_array_equal(apply(device, "double2loint", x, to=np.uint32), bits & np.uint64(2**32 - 1))
        halves = bits.view(np.int32).reshape(-1, 2)
        joined = apply(device, "hiloint2double", halves[:, 1].copy(), halves[:, 0].copy(), to=F64)
        np.testing.assert_array_equal(joined.view(np.uint64), bits)
        got = apply(device, "rcp64h", x)
        assert not (got.view(np.uint64) & np.uint64(2**32 - 1))[~np.isnan(got)].any()


# ---- functions that long double lacks here

def integral(f, n=4000):
    """The mean of a periodic function over [0, pi], which the midpoint rule has to all places."""
    t = (np.arange(n).astype(LONG) + LONG("0.5")) * PI / n
    return f(t[None, :]).mean(1)


def exact_bessel_j(n, x):
    wide = x.astype(LONG)[:, None]
    return integral(lambda t: np.cos(n * t - wide * np.sin(t)))


def exact_bessel_i(n, x):
    wide = x.astype(LONG)[:, None]
    return integral(lambda t: np.exp(wide * np.cos(t)) * np.cos(n * t))


@everywhere
@floats
@pytest.mark.parametrize("name", ["j0", "j1"])
def test_bessel_functions(device, dtype, name):
    rng = np.random.default_rng(61)
    x = np.concatenate([rng.uniform(-30, 30, 300), [0, -0.0, 8, -8, 7.99, 8.01, 1e-9]]).astype(dtype)
    got = apply(device, name, x)
    off = np.abs(got.astype(LONG) - exact_bessel_j(int(name[1]), x))
    assert off.max() < (2.0**-49 if dtype is F64 else 2.0**-25)
    np.testing.assert_array_equal(apply(device, name, np.array([np.inf, np.nan], dtype)), [0, np.nan])


@everywhere
@floats
def test_bessel_functions_of_the_second_kind(device, dtype):
    x = np.concatenate([np.linspace(0.05, 40, 400), [7.9999, 8.0001]]).astype(dtype)
    j, y = ([apply(device, f"{kind}{n}", x).astype(F64) for n in (0, 1)] for kind in "jy")
    # J1 Y0 - J0 Y1 = 2 / (pi x); and Y0' = -Y1.
    want = 2 / (np.pi * x.astype(F64))
    room = 2.0**-46 if dtype is F64 else 2.0**-20
    np.testing.assert_allclose(j[1] * y[0] - j[0] * y[1], want, rtol=room * 40, atol=room)
    ends = np.array([0, -1, np.inf, np.nan], dtype)
    for name in ("y0", "y1"):
        np.testing.assert_array_equal(apply(device, name, ends), [-np.inf, np.nan, 0, np.nan])
    known = {0.5: (-0.44451873350670656, -1.4714723926702430), 2.0: (0.51037567264974512, -0.10703243154093755),
             10.0: (0.055671167283599395, 0.24901542420695388), 25.0: (-0.12724943226800614, -0.098829964783237413)}
    points = np.array(list(known), dtype)
    for n, name in enumerate(("y0", "y1")):
        np.testing.assert_allclose(apply(device, name, points), [row[n] for row in known.values()],
                                   rtol=4e-7 if dtype is F32 else 2e-14)


@everywhere
@floats
@pytest.mark.parametrize("order", [0, 1])
def test_modified_bessel_functions(device, dtype, order):
    x = np.concatenate([np.linspace(-60, 60, 300), [8, 8.01, 7.99, 1e-5, 80]]).astype(dtype)
    got = apply(device, f"cyl_bessel_i{order}", x)
    want = exact_bessel_i(order, x)
    used = np.abs(x) > (0 if order == 0 else 1)
    check(f"i{order}", got[used], want[used], 8 if dtype is F64 else 0.6, x[used])
    small = np.array([1e-20, -1e-20, -0.0], dtype)
    np.testing.assert_array_equal(apply(device, f"cyl_bessel_i{order}", small), np.ones(3) if order == 0 else small / 2)


@everywhere
@floats
def test_bessel_functions_of_any_order(device, dtype):
    rng = np.random.default_rng(62)
    n = rng.integers(0, 25, 300, dtype=np.int32)
    x = rng.uniform(-30, 30, 300).astype(dtype)
    want = np.array([exact_bessel_j(int(a), x[i:i + 1])[0] for i, a in enumerate(n)])
    off = np.abs(apply(device, "jn", n, x, to=dtype).astype(LONG) - want)
    assert off.max() < (1e-13 if dtype is F64 else 1e-7)
    x = np.abs(x) + dtype(0.5)
    y = [apply(device, "yn", np.full(x.size, order, np.int32), x, to=dtype).astype(F64) for order in range(4)]
    np.testing.assert_array_equal(y[0], apply(device, "y0", x))
    np.testing.assert_allclose(y[3], 4 / x.astype(F64) * y[2] - y[1], rtol=1e-5 if dtype is F32 else 1e-12, atol=1e-6)
    bad = apply(device, "jn", np.array([-1, 2], np.int32), np.array([1, np.nan], dtype), to=dtype)
    assert np.isnan(bad).all()


def exact_high_orders(n, x):
    """J by J. C. Miller's recurrence from far above."""
    x, above, here = x.astype(LONG), np.zeros(x.size, LONG), np.full(x.size, 1e-300, LONG)
    wanted, total = np.zeros(x.size, LONG), np.zeros(x.size, LONG)
    for k in range(int(max(n.max(), x.max() + 40 * x.max()**(1 / 3)) + 60) // 2 * 2, 0, -1):
        above, here = here, 2 * k / x * here - above
        wanted = np.where(k - 1 == n, here, wanted)
        total += 2 * here if k % 2 == 1 else 0
        scale = np.where(np.abs(here) > 1e300, LONG(1e-300), LONG(1))
        above, here, wanted, total = above * scale, here * scale, wanted * scale, total * scale
    return wanted / (total - here)


def bessel(device, kind, n, x):
    return apply(device, f"{kind}n", np.array(n, np.int32), np.array(x), to=x.dtype).astype(F64)


@everywhere
@floats
def test_bessel_functions_of_high_orders(device, dtype):
    rng = np.random.default_rng(65)
    n = rng.integers(200, 3000, 200)
    x = np.abs(np.concatenate([rng.uniform(0.1, 4000, 100), n[100:] + rng.uniform(-60, 60, 100)])).astype(dtype)
    off = np.abs(bessel(device, "j", n, x).astype(LONG) - exact_high_orders(n, x))
    assert off.max() < (2e-13 if dtype is F64 else 4e-9)
    # J(n + 1) Y(n) - J(n) Y(n + 1) = 2 / (pi x), where Y is no infinity.
    near = x > 0.97 * n
    assert near.sum() > 100
    j, y = ([bessel(device, kind, n[near] + more, x[near]) for more in (0, 1)] for kind in "jy")
    want = 2 / (np.pi * x[near].astype(F64))
    np.testing.assert_allclose(j[1] * y[0] - j[0] * y[1], want, rtol=1e-10 if dtype is F64 else 1e-4)


@everywhere
@floats
@pytest.mark.parametrize("n", [256, 257, 70_000, 2**24 - 1, 2**31 - 2])
def test_neighbouring_orders_fit(device, dtype, n):
    """Orders to 256 and those above are computed in two ways, and the largest take no longer than others."""
    x = np.concatenate([n * np.array([0.9, 0.999, 1, 1.0001, 1.5, 3, 1e3]), n + 16 * n**(1 / 3) * np.array(
        [-1.2, -1, -0.5, 0.5, 0.99, 1.01, 1.2])]).astype(dtype)
    room = n * 2.0**-50 + 2.0**-46 if dtype is F64 else 2.0**-21
    for kind in "jy":
        three = np.array([bessel(device, kind, np.full(x.size, order), x) for order in (n - 1, n, n + 1)])
        usual = np.isfinite(three).all(0) & (np.abs(three).max(0) < 1e30)
        before, here, after = three[:, usual]
        off = np.abs(before + after - 2 * n / x.astype(F64)[usual] * here) / np.maximum(np.abs(three).max(0)[usual], 1e-30)
        assert off.max() < room, (kind, off.max(), room)
    if n > 300:
        # Abramowitz and Stegun, 9.3.31 and 9.3.32.
        there = np.full(3, n).astype(dtype)
        want = math.gamma(1 / 3) / (2**(2 / 3) * 3**(1 / 6) * math.pi) / n**(1 / 3)
        if int(there[0]) == n:
            for kind, factor in (("j", 1), ("y", -math.sqrt(3))):
                np.testing.assert_allclose(bessel(device, kind, np.full(3, n), there), want * factor,
                                           rtol=1e-6 if dtype is F32 else 1e-8)


@everywhere
@floats
def test_bessel_functions_of_any_order_end(device, dtype):
    least = np.finfo(dtype).tiny
    n = np.array([2**31 - 1, 2**31 - 1, 1000, 1000, 5, 1, 300, 300, 300, -300, 300, 2])
    x = np.array([1, least, 1e-20, 0, least, least, np.inf, np.nan, -np.inf, 5, -1, 1e-12], dtype)
    with np.errstate(invalid="ignore"):
        want = np.array([0, 0, 0, 0, 0, least / 2, 0, np.nan, 0, np.nan, 0, 1.25e-25], dtype)
    np.testing.assert_allclose(bessel(device, "j", n, x), want.astype(F64), rtol=1e-6, atol=0)
    want = np.array([-np.inf] * 5 + [-2 / np.pi / least] + [0, np.nan, np.nan, np.nan, np.nan, -np.inf])
    got = bessel(device, "y", n, x)
    np.testing.assert_array_equal(got[[0, 1, 2, 3, 6, 7, 8, 9, 10]], want[[0, 1, 2, 3, 6, 7, 8, 9, 10]])


@everywhere
@floats
def test_gamma(device, dtype):
    rng = np.random.default_rng(63)
    x = np.concatenate([rng.uniform(-20, 30, 400), [1, 2, 0.5, 3, 4, 5, 10, 170 if dtype is F64 else 34]]).astype(dtype)
    exact = np.array([math.gamma(float(v)) for v in x])
    got = apply(device, "tgamma", x).astype(F64)
    np.testing.assert_allclose(got, exact, rtol=20 * 2.0**-53 if dtype is F64 else 2.0**-23.9, atol=2.0**-149)
    want = np.array([math.lgamma(float(v)) for v in x])
    got = apply(device, "lgamma", x).astype(F64)
    # Below 1/2 it is a difference, of which the parts are rounded; below 8 one of numbers around 10.
    parts = np.maximum(np.abs(want), [abs(math.lgamma(1 - float(v))) if v < 0.5 else 0 for v in x])
    assert (np.abs(got - want) <= 2.0**-47 + 2.0**-49 * parts + (0 if dtype is F64 else 2.0**-23.9 * np.abs(want))).all()
    ends = np.array([0, -0.0, -1, -2, np.inf, -np.inf, np.nan, 1000], dtype)
    np.testing.assert_array_equal(apply(device, "tgamma", ends), [np.inf, -np.inf, np.nan, np.nan, np.inf, np.nan, np.nan, np.inf])
    np.testing.assert_array_equal(apply(device, "lgamma", ends)[:-1], [np.inf] * 6 + [np.nan])


@everywhere
@floats
def test_the_zeros_of_log_gamma(device, dtype):
    rng = np.random.default_rng(66)
    t = rng.choice([-1, 1], 500) * 2.0 ** rng.uniform(-50 if dtype is F64 else -22, -6, 500)
    # By powers of t; of t^k it is zeta(k) / k, which is more than 16 digits at last.
    zetas = ("0.57721566490153286060651", "1.64493406684822643647241", "1.20205690315959428539974", "1.08232323371113819151600",
             "1.03692775514336992633137", "1.01734306198444913971452", "1.00834927738192282683980", "1.00407735619794433937869",
             "1.00200839282608221441785", "1.00099457512781808533715", "1.00049418860411946455870")
    for zero in (1, 2):
        x = (zero + t).astype(dtype)
        x = x[x != zero]
        s = x.astype(LONG) - zero
        want = sum((-s) ** k * LONG(zeta) / k for k, zeta in enumerate(zetas, 1)) + (np.log1p(s) if zero == 2 else 0)
        check("lgamma", apply(device, "lgamma", x), want, 4 if dtype is F64 else 0.51, x)


@everywhere
@floats
def test_inverse_error_functions(device, dtype):
    rng = np.random.default_rng(64)
    y = np.concatenate([rng.uniform(-3.8, 3.8, 300), rng.uniform(-1, 1, 100) * 2.0 ** rng.uniform(-60, 0, 100)])
    x = np.array([math.erf(v) for v in y]).astype(dtype)
    x = x[np.abs(x) < 1]
    got = apply(device, "erfinv", x).astype(F64)
    back = np.array([math.erf(v) for v in got])
    # What one unit of y is worth in x, and one of x itself.
    slope = 2 / math.sqrt(math.pi) * np.exp(-got**2)
    eps = 2.0**-52 if dtype is F64 else 2.0**-23
    assert (np.abs(back - x) <= 4 * eps * slope * np.abs(got) + 2.0**-52 * np.abs(x)).all()
    q = np.concatenate([10.0 ** -rng.uniform(0.1, 300 if dtype is F64 else 37, 300), rng.uniform(0.01, 1.99, 100)]).astype(dtype)
    got = apply(device, "erfcinv", q).astype(F64)
    back = np.array([math.erfc(v) for v in got])
    slope = 2 / math.sqrt(math.pi) * np.exp(-got**2)
    assert (np.abs(back - q) <= 6 * eps * slope * np.abs(got) + 40 * 2.0**-52 * q).all()
    p = q / 2
    np.testing.assert_allclose(apply(device, "normcdfinv", p.astype(dtype)).astype(F64), -math.sqrt(2) * got,
                               rtol=4 * eps, atol=1e-15)
    np.testing.assert_array_equal(apply(device, "erfinv", np.array([1, -1, 0, -0.0, 2, np.nan], dtype)),
                                  [np.inf, -np.inf, 0, 0, np.nan, np.nan])
    np.testing.assert_array_equal(apply(device, "erfcinv", np.array([0, 2, 1, -1, 3, np.nan], dtype)),
                                  [np.inf, -np.inf, 0, np.nan, np.nan, np.nan])


# ---- overloads

@everywhere
@pytest.mark.parametrize("dtype", [F16, BF16], ids=lambda dtype: dtype.__name__)
def test_narrow_floats_are_rounded_once(device, dtype):
    x = np.random.default_rng(38).uniform(-3, 3, 700).astype(dtype)
    got = apply(device, "tanh", x)
    np.testing.assert_allclose(got.astype(F64), np.tanh(x.astype(F64)), rtol=2.0**-8 if dtype is BF16 else 2.0**-10.9)
    got = apply(device, "pow", np.abs(x), x)
    np.testing.assert_allclose(got.astype(F64), np.abs(x.astype(F64)) ** x.astype(F64), rtol=2.0**-7.9)


@libtile.jit
def mixed(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n, other=1.0)
    tl.store(out + i, tl.extra.libdevice.pow(a, 2.5) + libdevice.atan2(1, a) + tl.extra.cuda.libdevice.hypot(a, a), i < n)


@everywhere
def test_constants_and_mixed_types_meet(device):
    put = OnDevice(device)
    for dtype in (F32, F64):
        x = np.linspace(0.1, 4, 37).astype(dtype)
        out = put(poisoned(37, dtype))
        mixed[(1,)](put(x), out, 37, BLOCK=64)
        wide = x.astype(F64)
        want = wide**2.5 + np.arctan2(1, wide) + np.hypot(wide, wide)
        np.testing.assert_allclose(put.back(out), want, rtol=1e-6 if dtype is F32 else 1e-14)


def test_wrong_types_are_refused():
    with pytest.raises(libtile.CompilationError, match=r"extra.libdevice.sqrt takes \(fp32\) or \(fp64\), got \(int32\)"):
        of_one.warmup("*i32", "*fp32", "i32", grid=(1,), FN=libdevice.sqrt, BLOCK=16)
    with pytest.raises(libtile.CompilationError, match=r"finitef takes \(fp32\), got \(fp64\)"):
        of_one.warmup("*fp64", "*i1", "i32", grid=(1,), FN=libdevice.finitef, BLOCK=16)
    with pytest.raises(AttributeError, match="tl.extra.libdevice has no attribute 'sqr'"):
        libdevice.sqr  # noqa: B018


@libtile.jit
def mistaken(x):
    tl.store(x, tl.extra.libdevice.tanhh(tl.load(x)))


def test_mistyped_names_are_told():
    with pytest.raises(libtile.CompilationError, match="tanhh.*did you mean `tanh`"):
        mistaken.warmup("*fp32", grid=(1,))


@libtile.jit
def on_gpus_alone(out, NAME: tl.constexpr):
    tl.extra.cuda.gdc_wait()
    tl.store(out, getattr(tl.extra.cuda, NAME)())
    tl.extra.cuda.gdc_launch_dependents()


@pytest.mark.parametrize("name, register", [("globaltimer", "%globaltimer"), ("smid", "%smid")])
def test_what_gpus_have(name, register):
    compiled = on_gpus_alone.warmup("*i64", name, grid=(1,), target="sm_90a")
    assert register in compiled.asm["ptx"]


@pytest.mark.parametrize("module", ["cuda", "hip"])
@pytest.mark.parametrize("name", ["smid", "num_warps", "num_threads", "memrealtime"])
def test_what_other_targets_do_not_have(module, name):
    @libtile.jit
    def elsewhere(out, MODULE: tl.constexpr, NAME: tl.constexpr):
        tl.store(out, getattr(getattr(tl.extra, MODULE), NAME)())

    if name != "memrealtime" or module == "hip":
        targets = ["cpu"] if module == "cuda" else ["cpu", "sm_90a"]
        for target in targets:
            with pytest.raises(libtile.UnsupportedError,
                               match=rf"tl.extra.{module}.{name} is there for .*GPUs alone") as caught:
                elsewhere.warmup("*i64", module, name, grid=(1,), target=target)
            assert caught.value.file == __file__


@libtile.jit
def of_the_threads(out):
    i = tl.arange(0, tl.extra.cuda.num_threads())
    tl.store(out + i, i + tl.extra.cuda.num_warps())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("given", [None, 1, 8])
def test_the_number_of_warps(device, given):
    compiled = of_the_threads.warmup("*i32", grid=(1,), target="sm_80", num_warps=given)
    assert compiled.metadata["num_warps"] == (given or 4) and "tile<" in compiled.asm["tile"]
    assert f"{32 * (given or 4)}" in compiled.asm["tile"]
    if device == "cuda":
        on, n = OnDevice(device), 32 * (given or 4)
        out = on(np.zeros(n, np.int32))
        of_the_threads[(1,)](out, num_warps=given)
        np.testing.assert_array_equal(on.back(out), np.arange(n) + (given or 4))


@libtile.jit
def custom_float8(codes, wide, x, out, N: tl.constexpr, TYPE: tl.constexpr):
    i = tl.arange(0, N)
    code = tl.load(codes + i).to(tl.float8e4b15, bitcast=True)
    tl.store(wide + i, tl.extra.cuda.convert_custom_float8_sm80(code, TYPE))
    narrow = tl.extra.cuda.convert_custom_float8_sm70(tl.load(x + i), tl.float8e4b15)
    tl.store(out + i, narrow.to(tl.uint8, bitcast=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_custom_float8(device, dtype):
    on, rng = OnDevice(device), np.random.default_rng(3)
    x = np.concatenate([(rng.standard_normal(250) / 2).astype(dtype),
                        np.array([0.0, -0.0, 1.75, 3.0, -np.inf, 2.0**-12], dtype)])
    wide, out = on(np.zeros(256, dtype)), on(np.zeros(256, np.uint8))
    custom_float8[(1,)](on(CODES), wide, on(x), out, 256, tl.float16 if dtype == np.float16 else tl.float32)
    np.testing.assert_array_equal(on.back(wide), decode("float8e4b15", CODES).astype(dtype))
    cut = x.astype(np.float16)
    beyond = np.abs(cut.astype(np.float64)) > np.abs(x)
    cut = np.where(beyond, np.nextafter(cut, np.float16(0)), cut)
    np.testing.assert_array_equal(on.back(out), encode("float8e4b15", cut))


def test_every_name_is_there():
    assert len(libdevice.__all__) == 198


def overloads():
    """name -> the types of operands and result of each overload, from the page of the language."""
    page = Path(__file__).resolve().parents[2] / "docs" / "language.md"
    rows = re.findall(r"^\| `(\w+)\([\w, ]*\)` \| ([^|]*->[^|]*) \|", page.read_text(), re.M)
    return {name: [each.replace("->", "").split() for each in text.split(";")] for name, text in rows}


OVERLOADS = overloads()


@pytest.mark.parametrize("name", sorted(libdevice.__all__))
def test_ptx(name):
    """Every function of every overload compiles for NVIDIA."""
    kernels = (of_one, of_two, of_three, of_four)
    made = 0
    for types in OVERLOADS[name]:
        *operands, result = types
        compiled = kernels[len(operands) - 1].warmup(*[f"*{each}" for each in operands], f"*{result}", "i32", grid=(1,),
                                                     target="sm_80", FN=getattr(libdevice, name), BLOCK=128)
        made += "st.global" in compiled.asm["ptx"]
    assert made == len(OVERLOADS[name])
