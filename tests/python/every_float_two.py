# SPDX-License-Identifier: Apache-2.0
"""Sweeps of functions of two and three floats, for every_float.py: all pairs of some two hundred special numbers, and
random pairs, of any bits and of moderate size. Against fp64 on the device, where the function has that, and NumPy.
"""
import math
from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np
from every_float_one import BLOCK, Finding, distance, errors
from spine import F32, F64, OnDevice, poisoned
from test_libdevice import LONG, MORE, of_three, of_two

import libtile
import libtile.language as tl
from libtile.language.extra import libdevice

I32 = np.int32


# ---- functions

@libtile.jit
def quotient(x, y):
    return x / y


@libtile.jit
def exact_quotient(x, y):
    return tl.fdiv(x, y, ieee_rounding=True)


@libtile.jit
def modulo(x, y):
    return x % y


# -0.0 and 0.0 are equal: which one of them comes out is open.
@libtile.jit
def lesser(x, y):
    return tl.minimum(x, y) + 0.0


@libtile.jit
def greater(x, y):
    return tl.maximum(x, y) + 0.0


@libtile.jit
def lesser_or_nan(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL) + 0.0


@libtile.jit
def greater_or_nan(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL) + 0.0


@libtile.jit
def product_down(x, y):
    return tl.extra.libdevice.double2float_rd(x * y)


@libtile.jit
def product_up(x, y):
    return tl.extra.libdevice.double2float_ru(x * y)


@libtile.jit
def product_cut(x, y):
    return tl.extra.libdevice.double2float_rz(x * y)


@libtile.jit
def quotient_down(x, y):
    return tl.extra.libdevice.double2float_rd(x / y)


@libtile.jit
def quotient_up(x, y):
    return tl.extra.libdevice.double2float_ru(x / y)


@libtile.jit
def quotient_cut(x, y):
    return tl.extra.libdevice.double2float_rz(x / y)


def in_long_double(function):
    return lambda *arrays: function(*(each.astype(LONG) for each in arrays))


def remainder(x, y):
    def one(a, b):
        return math.remainder(a, b) if math.isfinite(a) and b != 0 and not math.isnan(b) else math.nan
    return np.array([one(a, b) for a, b in zip(x.tolist(), y.tolist())]).astype(LONG)


@dataclass
class Function:
    """A function of two or three: itself; it in fp64 (None: not on the device); it in NumPy, of arrays of the type; the
    bounds of errors in fp32 (on a GPU, if that is another) and fp64 (None: there is none). Its int32 arguments are of
    that size."""
    name: str
    call: Callable
    wide: Optional[Callable]
    exact: Optional[Callable]
    bound: float
    wide_bound: Optional[float]
    hardware: Optional[float] = None
    integers: int = 0
    first: bool = False  # of two arguments the first is the integer
    count: int = 2

    def bound_on(self, device):
        return self.bound if device == "cpu" or self.hardware is None else self.hardware


def functions():
    for name in ("pow", "atan2", "hypot", "rhypot", "fdim", "copysign", "fmod"):
        _, exact, bound, wide_bound = MORE[name]
        call = getattr(libdevice, name)
        # Long double has eleven bits more than fp64: where a tie decides, the reference is off by 2^-11.
        yield Function(name, call, call, in_long_double(exact), bound, 0.501 if wide_bound == 0.5 else wide_bound)
    yield Function("fast_powf", libdevice.fast_powf, libdevice.pow, in_long_double(np.power), 0.51, None)
    for name, call, hardware in (("fast_dividef", libdevice.fast_dividef, 2), ("/", quotient, 2), ("div_rn", libdevice.div_rn, 0),
                                 ("fdiv", exact_quotient, 0)):
        # A quotient that is rounded right is NumPy's to the bit.
        yield Function(name, call, None, np.divide, 0, None if name == "fast_dividef" else 0, hardware)
    for name, exact in (("add_rn", np.add), ("sub_rn", np.subtract), ("mul_rn", np.multiply)):
        yield Function(name, getattr(libdevice, name), None, exact, 0, 0)
    for name, wide in (("mul_rd", product_down), ("mul_ru", product_up), ("mul_rz", product_cut), ("div_rd", quotient_down),
                       ("div_ru", quotient_up), ("div_rz", quotient_cut)):
        yield Function(name, getattr(libdevice, name), wide, None, 0, None)
    yield Function("%", modulo, modulo, np.fmod, 0, 0)
    yield Function("remainder", libdevice.remainder, libdevice.remainder, remainder, 0, 0)
    yield Function("nextafter", libdevice.nextafter, None, np.nextafter, 0, 0)
    for name, call, exact in (("minimum", lesser, np.fmin), ("maximum", greater, np.fmax), ("minimum, NaN", lesser_or_nan, np.minimum),
                              ("maximum, NaN", greater_or_nan, np.maximum)):
        yield Function(name, call, call, lambda *arrays, exact=exact: exact(*arrays) + arrays[0].dtype.type(0), 0, 0)
    for name in ("ldexp", "scalbn"):
        call = getattr(libdevice, name)
        yield Function(name, call, call, lambda x, n: np.ldexp(x.astype(LONG), n), 0.5, 0.5, integers=2300)
    yield Function("pow of an integer", libdevice.pow, libdevice.pow, lambda x, n: np.power(x.astype(LONG), n.astype(LONG)), 0.51,
                   1.2, integers=40)
    for name in ("jn", "yn"):
        yield Function(name, getattr(libdevice, name), getattr(libdevice, name), None, 0.51, None, integers=12, first=True)
    yield Function("fma", libdevice.fma, None, in_long_double(lambda a, b, c: a * b + c), 0.5000001, None, count=3)


FUNCTIONS = {each.name: each for each in functions()}


# ---- against fp64 on the device

@libtile.jit
def of_moderate_size(bits):
    """The float, of a size from 2^-8 to 2^8."""
    return (bits & 0x807FFFFF) | (((bits >> 23) & 15) + 119 << 23)


@libtile.jit
def arguments_at(i, seed, INTEGERS: tl.constexpr):
    """The i-th random pair: half of its floats are of any bits. The second may be an integer of some size."""
    a, b, which, _ = tl.randint4x(seed, i)
    a, b, which = a.to(tl.uint32), b.to(tl.uint32), which.to(tl.uint32)
    x = tl.where((which & 1) != 0, a, of_moderate_size(a)).to(tl.float32, bitcast=True)
    if INTEGERS > 0:
        y = (b % (2 * INTEGERS + 1)).to(tl.int32) - INTEGERS
    else:
        y = tl.where((which & 2) != 0, b, of_moderate_size(b)).to(tl.float32, bitcast=True)
    return x, y


@libtile.jit
def farthest_pair(most, where, seed, count, FN: tl.constexpr, WIDE: tl.constexpr, INTEGERS: tl.constexpr, FIRST: tl.constexpr,
                  BLOCK: tl.constexpr):
    """The largest distance of FN from WIDE over a program's pairs, and the number of the pair that has it."""
    lanes = tl.arange(0, BLOCK)
    worst, there = tl.full((BLOCK,), -1.0, tl.float64), tl.full((BLOCK,), 0, tl.int32)
    begin = tl.program_id(0) * count
    for k in range(0, count, BLOCK):
        i = begin + k + lanes
        x, y = arguments_at(i, seed, INTEGERS)
        if FIRST:
            got, want = FN(y, x), WIDE(y, x.to(tl.float64))
        elif INTEGERS > 0:
            got, want = FN(x, y), WIDE(x.to(tl.float64), y)
        else:
            got, want = FN(x, y), WIDE(x.to(tl.float64), y.to(tl.float64))
        off = distance(got, want.to(tl.float64))
        there = tl.where(off > worst, i, there)
        worst = tl.maximum(off, worst)
    value, lane = tl.max(worst, 0, return_indices=True)
    tl.store(most + tl.program_id(0), value)
    tl.store(where + tl.program_id(0), tl.sum(tl.where(lanes == lane, there, 0), 0))


@libtile.jit
def pair_at(x, y, i, seed, INTEGERS: tl.constexpr):
    a, b = arguments_at(i + tl.arange(0, 1), seed, INTEGERS)
    tl.store(x + tl.arange(0, 1), a)
    tl.store(y + tl.arange(0, 1), b)


def worst_of_fp64(function, device, pairs, seed=11):
    put = OnDevice(device)
    each = min(1 << 16, -(-pairs // 8 // BLOCK) * BLOCK)
    programs = -(-pairs // each)
    most, where = put(poisoned(programs, F64)), put(poisoned(programs, I32))
    farthest_pair[(programs,)](most, where, seed, each, FN=function.call, WIDE=function.wide, INTEGERS=function.integers,
                               FIRST=function.first, BLOCK=BLOCK)
    most, where = put.back(most), put.back(where)
    at = int(np.argmax(most))
    x, y = put(np.zeros(1, F32)), put(np.zeros(1, I32 if function.integers else F32))
    pair_at[(1,)](x, y, int(where[at]), seed, INTEGERS=function.integers)
    return float(most[at]), (put.back(x)[0], put.back(y)[0])


# ---- against NumPy

def special_numbers(dtype):
    """Some two hundred, both signs: zeros, the least and largest of each kind, powers of two, halves, integers up to where
    they end, infinities, NaNs."""
    info = np.finfo(dtype)
    one = np.arange(1, 13) / 2
    wide = info.nmant
    powers = 2.0 ** np.concatenate([np.arange(-6, 7), [-wide, -wide - 1, wide, wide + 1, 31, -31, info.maxexp - 1, info.minexp,
                                                       info.maxexp // 2, info.minexp // 2]])
    whole = np.array([7, 9, 10, 15, 17, 31, 33, 100, 255, 257, 1000, 2.0**wide - 1, 2.0**(wide + 1) - 1, 2.0**(wide + 1),
                      2.0**(wide + 1) + 2, 2.0**31 - 1, 2.0**32])
    other = np.array([0, 1e-30, 1e-7, 0.1, 1 / 3, 0.7, 0.999, 1.001, math.pi, math.e, 4 / 3, 88.7, 709.7, 1e30, np.inf])
    numbers = np.concatenate([one, powers, whole, other]).astype(dtype)
    ends = np.array([info.max, info.tiny, info.smallest_subnormal, info.smallest_subnormal * dtype(3)], dtype)
    close = np.array([1, 2, info.tiny, info.max], dtype)
    numbers = np.concatenate([numbers, ends, np.nextafter(close, dtype(0)), np.nextafter(close[:3], dtype(np.inf))])
    return np.unique(np.concatenate([numbers, -numbers]).view(f"u{numbers.itemsize}")).view(dtype)


def with_nan(numbers):
    return np.concatenate([numbers, np.array([np.nan, -np.nan], numbers.dtype)])


def special_arguments(function, dtype):
    numbers = with_nan(special_numbers(dtype))
    if function.count == 3:
        numbers = numbers[::5]
    if function.integers:
        n = np.unique(np.array([0, 1, 2, 3, 4, 5, 31, 126, 127, 128, 149, 150, 1022, 1023, 1024, 1074, 1075, 2**31 - 1]))
        return [each.ravel() for each in np.meshgrid(numbers, np.concatenate([n, -n, [-2**31]]).astype(I32))]
    return [each.ravel() for each in np.meshgrid(*[numbers] * function.count)]


def random_arguments(function, dtype, count, seed=5):
    """Floats of any bits, and of moderate size; both alike, and close to each other, too."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")

    def some():
        any_bits = rng.integers(0, 2**(8 * bits.itemsize), count, dtype=bits).view(dtype)
        usual = (rng.choice([-1, 1], count) * rng.uniform(1, 2, count) * 2.0 ** rng.integers(-8, 8, count)).astype(dtype)
        return np.where(rng.random(count) < 0.4, any_bits, usual)

    x = [some() for _ in range(function.count)]
    with np.errstate(all="ignore"):
        near = (x[0].astype(LONG) * rng.integers(-9, 10, count) / 2).astype(dtype)
    x[1] = np.where(rng.random(count) < 0.1, near, x[1])
    if function.integers:
        x[1] = rng.integers(-function.integers, function.integers + 1, count, dtype=I32)
    return x


def results(device, function, arrays, dtype):
    put = OnDevice(device)
    n = arrays[0].size
    out = put(poisoned(n, dtype))
    kernel = of_two if len(arrays) == 2 else of_three
    kernel[(libtile.cdiv(n, 4096),)](*map(put, arrays), out, n, FN=function.call, BLOCK=4096)
    return put.back(out)


def worst_of_numpy(function, device, dtype, count):
    most, where = -1.0, None
    for arrays in (special_arguments(function, dtype), random_arguments(function, dtype, count)):
        with np.errstate(all="ignore"):
            want = np.asarray(function.exact(*arrays)).astype(LONG)
            off = errors(results(device, function, arrays, dtype), want)
        at = int(np.argmax(off))
        if off[at] > most:
            most, where = float(off[at]), tuple(array[at] for array in arrays)
    return most, where


def sweep(name, device, pairs=10**8, beside_numpy=10**6):
    """`pairs` of fp32 beside fp64, special ones and `beside_numpy` random ones beside NumPy: the findings, by type."""
    function = FUNCTIONS[name]
    found = []
    if function.wide is not None:
        found.append(worst_of_fp64(function, device, pairs))
    if function.exact is not None:
        found.append(worst_of_numpy(function, device, F32, beside_numpy))
    findings = {"fp32": Finding(*max(found, key=lambda each: each[0]), function.bound_on(device))}
    if function.exact is not None and function.wide_bound is not None:
        findings["fp64"] = Finding(*worst_of_numpy(function, device, F64, beside_numpy), function.wide_bound)
    return findings
