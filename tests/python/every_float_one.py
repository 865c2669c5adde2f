# SPDX-License-Identifier: Apache-2.0
"""Sweeps of functions of one fp32 over bit patterns, for every_float.py.

A kernel compares a function with itself in fp64, on the device: so 2^32 patterns take seconds on a GPU. Both may have
the same fault, and some functions of fp32 are computed in fp64. So both are compared with NumPy in long double as well,
over a part of the patterns and over the numbers next to multiples of what functions reduce by; where long double has
no such function, test_special_values.py has numbers that were computed to more digits.
"""
from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np
from spine import F32, F64, OnDevice, poisoned
from test_libdevice import EXACT, HARDWARE, LONG, ONE, of_one

import libtile
import libtile.language as tl
from libtile.language.extra import libdevice

BLOCK = 512
EACH = 1 << 20  # patterns that a program takes
PART = 97  # of so many patterns one is compared with long double


@dataclass
class Function:
    """A function of fp32: what it is in fp64, a function of the kernel language; what it is in long double, if NumPy has
    that; the bound of its error in units of the last place (on a GPU, if that is another), and that of the function in fp64
    (None: not looked at)."""
    name: str
    wide: Callable
    exact: Optional[Callable]
    bound: float
    wide_bound: Optional[float] = None
    to: type = F32
    hardware: Optional[float] = None

    def bound_on(self, device):
        return self.bound if device == "cpu" or self.hardware is None else self.hardware


@libtile.jit
def sqrt_down(x):
    return tl.extra.libdevice.double2float_rd(tl.sqrt(x))


@libtile.jit
def sqrt_up(x):
    return tl.extra.libdevice.double2float_ru(tl.sqrt(x))


@libtile.jit
def inverse_down(x):
    return tl.extra.libdevice.double2float_rd(1.0 / x)


@libtile.jit
def inverse_up(x):
    return tl.extra.libdevice.double2float_ru(1.0 / x)


@libtile.jit
def inverse_cut(x):
    return tl.extra.libdevice.double2float_rz(1.0 / x)


@libtile.jit
def between_0_and_1(x):
    return tl.where(x >= 0.0, tl.minimum(x, 1.0), 0.0) + 0.0


def towards(exact, end):
    """`exact` as the fp32 next to it, in the direction of `end`."""
    def rounded(v):
        value = exact(v)
        near = value.astype(F32)
        goal = value.dtype.type(end) * (np.sign(value) if end == 0 else 1)
        beyond = near > value if end < 0 else near < value if end > 0 else np.abs(near) > np.abs(value)
        return np.where(beyond, np.nextafter(near, goal.astype(F32)), near).astype(LONG)
    return rounded


def integer(round, low, high, nan):
    """A rounding to integers of a type: its ends for what is beyond, `nan` for a NaN."""
    return lambda v: np.where(np.isnan(v), LONG(nan), np.clip(round(v), LONG(low), LONG(high)))


def round_away(v):
    whole = np.trunc(v)
    return np.copysign(np.abs(whole) + (np.abs(v - whole) >= 0.5), v)


def exponent(v):
    e = np.where(np.isfinite(v) & (v != 0), np.frexp(v)[1] - 1, -2**31)
    return np.where(np.isinf(v), 2**31 - 1, e).astype(LONG)


def of_elementary_functions():
    for name, (exact, *bounds) in ONE.items():
        yield Function(name, getattr(libdevice, name), exact, *bounds, hardware=HARDWARE.get(name))
    for name, bound in (("sin", 1.6), ("cos", 1.6), ("tan", 4), ("tanh", 2), ("exp", 1.1), ("exp10", 80), ("log", 0.7),
                        ("log2", 0.8), ("log10", 2.5)):
        hardware = bound + HARDWARE["exp2"] if name == "exp10" else HARDWARE.get(name)
        yield Function(f"fast_{name}f", getattr(libdevice, name), ONE[name][0], bound, hardware=hardware)
    for name in ("erf", "erfc", "erfcx", "normcdf", "erfinv", "erfcinv", "normcdfinv", "tgamma", "lgamma", "j0", "j1", "y0",
                 "y1", "cyl_bessel_i0", "cyl_bessel_i1"):
        bound = {"erf": 1.5, "erfinv": 0.65, "erfcinv": 0.65, "normcdfinv": 0.65}.get(name, 0.51)
        yield Function(name, getattr(libdevice, name), None, bound)


def of_exact_functions():
    sqrt, inverse = ONE["sqrt"][0], ONE["rcp_rn"][0]
    yield Function("rsqrt_rn", libdevice.rsqrt, ONE["rsqrt"][0], 0.5000001)
    for name, wide, exact, end in (("sqrt_rd", sqrt_down, sqrt, -np.inf), ("sqrt_ru", sqrt_up, sqrt, np.inf),
                                   ("sqrt_rz", sqrt_down, sqrt, 0), ("rcp_rd", inverse_down, inverse, -np.inf),
                                   ("rcp_ru", inverse_up, inverse, np.inf), ("rcp_rz", inverse_cut, inverse, 0)):
        yield Function(name, wide, towards(exact, end), 0)
    yield Function("saturatef", between_0_and_1, lambda v: np.where(v > 0, np.minimum(v, 1), LONG(0)), 0)


def of_integers():
    ends = {"int": (-2**31, 2**31 - 1, 0, np.int32), "uint": (0, 2**32 - 1, 0, np.uint32),
            "ll": (-2**63, 2**63 - 1, -2**63, np.int64), "ull": (0, 2**64 - 1, 2**63, np.uint64)}
    rounds = {"rd": np.floor, "ru": np.ceil, "rz": np.trunc, "rn": np.rint}
    for short, (*fit, to) in ends.items():
        for end, round in rounds.items():
            yield Function(f"float2{short}_{end}", getattr(libdevice, f"double2{short}_{end}"), integer(round, *fit), 0, to=to)
    for name, round in (("llrint", np.rint), ("llround", round_away)):
        yield Function(name, getattr(libdevice, name), integer(round, *ends["ll"][:3]), 0, to=np.int64)
    yield Function("ilogb", libdevice.ilogb, exponent, 0, to=np.int32)
    for name, wide, exact in (("signbit", "signbit", np.signbit), ("isinf", "isinf", np.isinf), ("isnan", "isnan", np.isnan),
                              ("finitef", "isfinited", np.isfinite)):
        yield Function(name, getattr(libdevice, wide), exact, 0, to=np.int32)


FUNCTIONS = {each.name: each for each in (*of_elementary_functions(), *of_exact_functions(), *of_integers())}


@libtile.jit
def distance(got, want):
    """Of fp32 from fp64, in units of the last place of fp32; infinite where one is no number, or another zero."""
    nearest = want.to(tl.float32)
    bits = nearest.to(tl.int32, bitcast=True)
    power = tl.maximum(bits & 0x7F800000, 0x00800000).to(tl.float32, bitcast=True)  # of two, not above it
    off = tl.abs(got.to(tl.float64) - want) / power.to(tl.float64) * 8388608.0
    off = tl.where((got == 0.0) & ((got.to(tl.int32, bitcast=True) ^ bits) < 0), float("inf"), off)
    off = tl.where(tl.abs(nearest) == float("inf"), tl.where(got == nearest, 0.0, float("inf")), off)
    off = tl.where(want != want, tl.where(got != got, 0.0, float("inf")), off)
    return tl.where(off == off, off, float("inf"))


@libtile.jit
def farthest(most, where, first, every, count, FN: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """The largest distance of FN from WIDE over a program's patterns, and the pattern that has it."""
    lanes = tl.arange(0, BLOCK)
    worst, there = tl.full((BLOCK,), -1.0, tl.float64), tl.full((BLOCK,), 0, tl.uint32)
    begin = tl.program_id(0).to(tl.int64) * count
    for i in range(0, count, BLOCK):
        bits = (first + (begin + i + lanes) * every).to(tl.uint32)
        x = bits.to(tl.float32, bitcast=True)
        got, want = FN(x), WIDE(x.to(tl.float64))
        if got.dtype == tl.float32:
            off = distance(got, want.to(tl.float64))
        else:
            # What a NaN becomes depends on the type that it comes from.
            off = tl.where(x == x, tl.abs(got.to(tl.float64) - want.to(tl.float64)), 0.0)
        there = tl.where(off > worst, bits, there)
        worst = tl.maximum(off, worst)
    value, lane = tl.max(worst, 0, return_indices=True)
    tl.store(most + tl.program_id(0), value)
    tl.store(where + tl.program_id(0), tl.sum(tl.where(lanes == lane, there, 0), 0))


def worst_of_fp64(function, device, every=1):
    """The largest distance from the function in fp64 over each `every`-th bit pattern (and some more, to a whole number of
    programs), and its argument."""
    put = OnDevice(device)
    patterns = -(-2**32 // every)
    each = min(EACH, -(-patterns // 8 // BLOCK) * BLOCK)
    programs = -(-patterns // each)
    most, where = put(poisoned(programs, F64)), put(poisoned(programs, np.uint32))
    farthest[(programs,)](most, where, 0, every, each, FN=getattr(libdevice, function.name),
                          WIDE=function.wide, BLOCK=BLOCK, **EXACT)
    most, where = put.back(most), put.back(where)
    at = int(np.argmax(most))
    return float(most[at]), (where[at:at + 1].view(F32)[0],)


def errors(got, want):
    """Distances from want, long double, in units of the last place of got's type; infinite as in distance(), but an
    infinity instead of a finite number counts as the first number that the type does not hold."""
    dtype = got.dtype.type
    if issubclass(dtype, np.integer):
        return np.abs(got.astype(LONG) - want).astype(F64)
    with np.errstate(all="ignore"):
        nearest = want.astype(dtype)
        unit = np.spacing(np.maximum(np.abs(nearest), np.finfo(dtype).tiny)).astype(LONG)
        off = (np.abs(got.astype(LONG) - want) / unit).astype(F64)
    odd = np.flatnonzero(~np.isfinite(off) | (got == 0))
    same = (np.isnan(want[odd]) & np.isnan(got[odd])) | (got[odd] == nearest[odd])
    same &= np.isnan(want[odd]) | (np.signbit(got[odd]) == np.signbit(want[odd]))
    alike = np.signbit(got[odd]) == np.signbit(want[odd])
    near = (got[odd] == 0) & (want[odd] != 0) & alike
    off[odd] = np.where(near, off[odd], np.where(same, 0, np.inf))
    beyond = odd[np.isinf(got[odd]) & np.isfinite(nearest[odd]) & alike]
    off[beyond] = ((LONG(2) ** np.finfo(dtype).maxexp - np.abs(want[beyond])) / unit[beyond]).astype(F64)
    return off


def near_multiples():
    """fp32 numbers next to multiples of what functions reduce by, and to where they take other ways."""
    rng = np.random.default_rng(7)
    k = np.concatenate([np.arange(1, 500), rng.integers(500, 2**23, 1500), 2.0 ** rng.uniform(23, 126, 1000)])
    steps = [np.pi / 2, np.log(2), np.log10(2), 0.5, 1 / 64]
    x = np.concatenate([k * step for step in steps] + [np.sqrt(0.5) * 2.0 ** np.arange(-149, 128), 1 + 2.0 ** -k[:60]])
    x = x[x < np.finfo(F32).max].astype(F32)
    x = np.concatenate([x, np.nextafter(x, F32(0)), np.nextafter(x, F32(np.inf))])
    return np.concatenate([x, -x])


def sample(every):
    """Each `every`-th bit pattern, and the numbers of near_multiples()."""
    count = 1 << 17
    for first in range(0, 1 << 32, count * every):
        yield np.arange(first, min(first + count * every, 1 << 32), every, dtype=np.uint64).astype(np.uint32).view(F32)
    yield near_multiples()


def results(device, function, x, to):
    put = OnDevice(device)
    out = put(poisoned(x.size, to))
    of_one[(libtile.cdiv(x.size, 4096),)](put(x), out, x.size, FN=function, BLOCK=4096, **EXACT)
    return put.back(out)


def worst_of_long_double(function, device, every):
    """The largest errors, with their arguments, over each `every`-th bit pattern: of the function in fp32, and of the one in
    fp64 at these numbers."""
    worst = {F32: (-1.0, None), F64: (-1.0, None)}

    def see(dtype, off, x):
        at = int(np.argmax(off))
        if off[at] > worst[dtype][0]:
            worst[dtype] = float(off[at]), (x[at],)

    for x in sample(every):
        with np.errstate(all="ignore"):
            want, wide = function.exact(x.astype(LONG)), x.astype(F64)
        see(F32, errors(results(device, getattr(libdevice, function.name), x, function.to), want), x)
        if function.wide_bound is not None:
            see(F64, errors(results(device, function.wide, wide, F64), want), x)
    return worst[F32], worst[F64]


@dataclass
class Finding:
    """The largest error that a sweep met, the arguments that have it, and what it may be."""
    most: float
    where: tuple
    bound: float

    @property
    def good(self):
        return self.most <= self.bound

    def __str__(self):
        at = ", ".join(f"{value!r} ({int(value.view(f'u{value.itemsize}')):#x})" for value in self.where)
        return f"{self.most:.4f} ulp at {at}, at most {self.bound}{'' if self.good else ': WRONG'}"


def sweep(name, device, every=1, part=PART):
    """Over each `every`-th bit pattern against fp64, and each `every * part`-th against long double: the finding, by type."""
    function = FUNCTIONS[name]
    found = [worst_of_fp64(function, device, every)]
    wide = None
    if function.exact:
        exact, wide = worst_of_long_double(function, device, every * part)
        found.append(exact)
    findings = {"fp32": Finding(*max(found, key=lambda each: each[0]), function.bound_on(device))}
    if function.wide_bound is not None:
        findings["fp64"] = Finding(*wide, function.wide_bound)
    return findings
