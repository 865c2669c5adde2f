# SPDX-License-Identifier: Apache-2.0
"""tl.extra.libdevice where every bit is defined: integers, conversions and arithmetic in a given direction."""
import math
from fractions import Fraction

import numpy as np
import pytest
from spine import DEVICES, F32, F64
from test_libdevice import apply, numbers

everywhere = pytest.mark.parametrize("device", DEVICES)
floats = pytest.mark.parametrize("dtype", [F32, F64], ids=lambda dtype: dtype.__name__)
directions = pytest.mark.parametrize("direction", ["rn", "rd", "ru", "rz"])


def integers(dtype, rng, n=300):
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.max, 0, 1, info.max // 2, info.min + 1, info.max - 1, 2**24 + 1, 77], dtype)
    drawn = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    return np.concatenate([edges, drawn >> rng.integers(0, info.bits, n).astype(dtype)])


def unsigned(x):
    return [int(v) % 2 ** (8 * x.itemsize) for v in x]


# ---- integers

@everywhere
@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=lambda dtype: dtype.__name__)
def test_bits(device, dtype):
    x = integers(dtype, np.random.default_rng(41))
    width = 8 * x.itemsize
    words = unsigned(x)
    want = {"clz": [width - v.bit_length() for v in words], "popc": [bin(v).count("1") for v in words],
            "ffs": [(v & -v).bit_length() for v in words]}
    for name, counts in want.items():
        np.testing.assert_array_equal(apply(device, name, x, to=np.int32), counts)
    np.testing.assert_array_equal(unsigned(apply(device, "brev", x)), [int(f"{v:0{width}b}"[::-1], 2) for v in words])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(apply(device, "abs", x), np.abs(x))


@everywhere
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64], ids=lambda dtype: dtype.__name__)
def test_integer_pairs(device, dtype):
    rng = np.random.default_rng(42)
    x, y = integers(dtype, rng), rng.permutation(integers(dtype, rng))
    bits = 8 * x.itemsize
    pairs = [(int(a), int(b)) for a, b in zip(x, y)]
    want = {"mulhi": [a * b >> bits for a, b in pairs]}
    if bits == 32:
        want["hadd"] = [a + b >> 1 for a, b in pairs]
        want["rhadd"] = [a + b + 1 >> 1 for a, b in pairs]

        def low24(v):
            return (v & 0xffffff) - (2**24 if dtype is np.int32 and v & 0x800000 else 0)

        want["mul24"] = [low24(a) * low24(b) for a, b in pairs]
    for name, values in want.items():
        np.testing.assert_array_equal(unsigned(apply(device, name, x, y)), [v % 2**bits for v in values])
    if bits == 32:
        z = integers(np.uint32, rng)
        got = unsigned(apply(device, "sad", x, y, z))
        np.testing.assert_array_equal(got, [(abs(a - b) + int(c)) % 2**32 for (a, b), c in zip(pairs, z)])


@everywhere
def test_byte_perm(device):
    rng = np.random.default_rng(43)
    x, y, s = (integers(np.int32, rng) for _ in range(3))
    want = []
    for a, b, selector in zip(unsigned(x), unsigned(y), unsigned(s)):
        both, word = b << 32 | a, 0
        for k in range(4):
            chosen = selector >> 4 * k & 15
            byte = both >> 8 * (chosen & 7) & 255
            word |= (255 * (byte >> 7) if chosen & 8 else byte) << 8 * k
        want.append(word)
    np.testing.assert_array_equal(unsigned(apply(device, "byte_perm", x, y, s)), want)


@everywhere
@pytest.mark.parametrize("name, source, to", [
    ("float_as_int", F32, np.int32), ("float_as_uint", F32, np.int32), ("int_as_float", np.int32, F32),
    ("uint_as_float", np.uint32, F32), ("double_as_longlong", F64, np.int64), ("longlong_as_double", np.int64, F64)])
def test_bits_seen_as_another_type(device, name, source, to):
    rng = np.random.default_rng(44)
    x = numbers(source, rng) if source in (F32, F64) else integers(source, rng)
    got = apply(device, name, x, to=to)
    bits = f"u{x.itemsize}"
    known = ~np.isnan(got) if to in (F32, F64) else slice(None)
    np.testing.assert_array_equal(got.view(bits)[known], x.view(bits)[known])


# ---- conversions

WHOLE = {"rn": np.rint, "rd": np.floor, "ru": np.ceil, "rz": np.trunc}


@everywhere
@directions
@pytest.mark.parametrize("target", ["int", "uint", "ll", "ull"])
@floats
def test_floats_to_integers(device, dtype, target, direction):
    rng = np.random.default_rng(45)
    x = np.concatenate([numbers(dtype, rng, 300), (rng.integers(-9, 9, 200) / 2).astype(dtype),
                        (rng.uniform(-1, 1, 300) * 2.0 ** rng.uniform(20, 66, 300)).astype(dtype)])
    bits = 64 if "ll" in target else 32
    least, most = (0, 2**bits - 1) if target.startswith("u") else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
    of_nan = 2 ** (bits - 1) if bits == 64 or dtype is F64 else 0
    want = []
    for v in WHOLE[direction](x):
        clamped = of_nan if np.isnan(v) else most if v >= most else least if v <= least else int(v)
        want.append(clamped % 2**bits)
    got = apply(device, f"{'double' if dtype is F64 else 'float'}2{target}_{direction}", x, to=np.dtype(f"i{bits // 8}"))
    np.testing.assert_array_equal(unsigned(got), want)


@everywhere
@floats
def test_to_the_nearest_long(device, dtype):
    rng = np.random.default_rng(46)
    x = np.concatenate([(rng.integers(-99, 99, 300) / 4).astype(dtype), rng.uniform(-1e6, 1e6, 300).astype(dtype)])
    np.testing.assert_array_equal(apply(device, "llrint", x, to=np.int64), np.rint(x).astype(np.int64))
    away = [math.floor(abs(float(v)) + 0.5) * (1 if v >= 0 else -1) for v in x]
    np.testing.assert_array_equal(apply(device, "llround", x, to=np.int64), away)


def rounded(exact, dtype, direction, zero=0.0):
    """A Fraction as the float in that direction; `zero` if it is 0."""
    if exact == 0:
        return dtype(zero)
    try:
        near = dtype(float(exact)) if dtype is F64 else nearest_single(exact)
    except OverflowError:
        near = dtype(math.inf if exact > 0 else -math.inf)
    if direction == "rn":
        return near
    held = Fraction(float(near)) if np.isfinite(near) else near
    up = held > exact if np.isfinite(near) else near > 0
    down = held < exact if np.isfinite(near) else near < 0
    if up and (direction == "rd" or (direction == "rz" and exact > 0)):
        return np.nextafter(near, dtype(-math.inf))
    if down and (direction == "ru" or (direction == "rz" and exact < 0)):
        return np.nextafter(near, dtype(math.inf))
    # What vanishes has the sign of the exact result.
    return dtype(math.copysign(near, 1 if exact > 0 else -1))


def nearest_single(exact):
    """float() rounds a Fraction once, which fp64 to fp32 would do again: the neighbours decide."""
    with np.errstate(over="ignore"):
        near = F32(float(exact))
    candidates = [c for c in (np.nextafter(near, F32(-math.inf)), near, np.nextafter(near, F32(math.inf)))]
    finite = [c for c in candidates if np.isfinite(c)]
    limit = Fraction(2) ** 128 - Fraction(2) ** 103
    if abs(exact) >= limit:
        return F32(math.inf if exact > 0 else -math.inf)
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.uint32)) & 1))


def same_bits(got, want):
    bits = f"u{got.itemsize}"
    wrong = np.flatnonzero(got.view(bits) != np.array(want, got.dtype).view(bits))
    assert wrong.size == 0, f"{wrong.size} differ, the first at {wrong[0]}: {got[wrong[0]]!r}, not {want[wrong[0]]!r}"


@everywhere
@directions
@pytest.mark.parametrize("name, source, to", [
    ("int2float", np.int32, F32), ("uint2float", np.uint32, F32), ("ll2float", np.int64, F32),
    ("ull2float", np.uint64, F32), ("ll2double", np.int64, F64), ("ull2double", np.uint64, F64)])
def test_integers_to_floats(device, name, source, to, direction):
    x = integers(source, np.random.default_rng(47))
    same_bits(apply(device, f"{name}_{direction}", x, to=to), [rounded(Fraction(int(v)), to, direction) for v in x])


@everywhere
def test_integers_that_fit(device):
    for name, dtype in (("int2double_rn", np.int32), ("uint2double_rn", np.uint32)):
        x = integers(dtype, np.random.default_rng(48))
        np.testing.assert_array_equal(apply(device, name, x, to=F64), x.astype(F64))


@everywhere
@directions
def test_doubles_to_singles(device, direction):
    rng = np.random.default_rng(49)
    x = np.concatenate([numbers(F64, rng, 150), numbers(F32, rng, 150).astype(F64), rng.uniform(-1, 1, 400) * 2.0**-140])
    x = x[~np.isnan(x)]
    got = apply(device, f"double2float_{direction}", x, to=F32)
    same_bits(got, [F32(v) if np.isinf(v) else rounded(Fraction(float(v)), F32, direction, v) for v in x])


# ---- arithmetic

def zero_of(parts, direction):
    """The sign of an exact sum that is 0, of parts (signs of zeros or numbers that cancel)."""
    if all(sign == parts[0] for sign in parts):
        return parts[0] * 0.0
    return -0.0 if direction == "rd" else 0.0


def exact_result(name, v, direction):
    """(Fraction, sign of a 0), or None where an operand is no number or the result is not finite."""
    if not all(math.isfinite(part) for part in v):
        return None
    f = [Fraction(part) for part in v]
    sign = [math.copysign(1, part) for part in v]
    if name == "add":
        return f[0] + f[1], zero_of(sign, direction)
    if name == "sub":
        return f[0] - f[1], zero_of([sign[0], -sign[1]], direction)
    if name == "mul":
        return f[0] * f[1], sign[0] * sign[1] * 0.0
    if name == "fma":
        return f[0] * f[1] + f[2], zero_of([sign[0] * sign[1], sign[2]], direction)
    if f[-1] == 0:
        return None
    return (f[0] / f[1], sign[0] * sign[1] * 0.0) if name == "div" else (1 / f[0], 0.0)


def operands(name, dtype, rng):
    """All magnitudes; and results that cancel, vanish, overflow, or lie close to a float."""
    count = {"fma": 3, "rcp": 1}.get(name, 2)
    x = [rng.permutation(numbers(dtype, rng, 80)) for _ in range(count)]
    n = x[0].size
    k = n // 4
    if count > 1:
        with np.errstate(all="ignore"):
            x[1][:k] = (x[0][:k] * 2.0 ** rng.integers(-60, 3, k)).astype(dtype) * rng.choice([-1, 1], k).astype(dtype)
            if name == "fma":
                product = (x[0] * x[1]).astype(dtype)
                x[2][:k] = -product[:k]
                x[2][k:2 * k] = (product[k:2 * k] * 2.0 ** rng.integers(-120, 120, k)).astype(dtype)
            least = np.finfo(dtype).tiny
            x[0][2 * k:3 * k] = (rng.uniform(0.1, 4, k) * least).astype(dtype)
            x[1][2 * k:3 * k] = rng.uniform(-2, 2, k).astype(dtype)
    return x


@everywhere
@directions
@floats
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "fma", "rcp"])
def test_directed_arithmetic(device, dtype, name, direction):
    x = operands(name, dtype, np.random.default_rng(50))
    got = apply(device, f"{name}_{direction}", *x)
    exact = [exact_result(name, [float(part) for part in v], direction) for v in zip(*x)]
    known = np.array([e is not None for e in exact])
    assert known.sum() > x[0].size // 2
    same_bits(got[known], [rounded(e[0], dtype, direction, e[1]) for e in exact if e is not None])
    # The others are infinite or no numbers, as without a direction.
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rcp": lambda v: 1 / v,
                "fma": lambda a, b, c: a * b + c}[name]
    others = [each[~known].astype(np.longdouble) for each in x]
    with np.errstate(all="ignore"):
        want = function(*others)
    finite = np.isfinite(want) & (want != 0)
    assert not (finite & (name != "fma")).any()
    np.testing.assert_array_equal(got[~known][~finite], want[~finite])


@everywhere
@directions
@floats
def test_directed_roots(device, dtype, direction):
    x = np.abs(numbers(dtype, np.random.default_rng(51), 100))
    x = x[~np.isnan(x)]
    got = apply(device, f"sqrt_{direction}", x)
    assert got[np.isinf(x)].max() == np.inf
    x, got = x[np.isfinite(x)], got[np.isfinite(x)]
    for v, root in zip(x, got):
        square = Fraction(float(v))
        below, above = (Fraction(float(np.nextafter(root, dtype(to)))) for to in (-math.inf, math.inf))
        r = Fraction(float(root))
        if direction in ("rd", "rz"):
            assert r * r <= square < above * above, v
        elif direction == "ru":
            assert r * r >= square and (r == 0 or below * below < square), v
        else:
            assert ((r + above) / 2) ** 2 >= square and (r == 0 or ((r + below) / 2) ** 2 <= square), v
    assert np.isnan(apply(device, f"sqrt_{direction}", np.array([-1.0], dtype))[0])


@everywhere
def test_root_and_reciprocal_rounded_once(device):
    x = np.random.default_rng(52).integers(1, 0x7f800000, 500, dtype=np.uint32).view(F32)
    got = apply(device, "rsqrt_rn", x)
    for v, root in zip(x, got):
        exact = 1 / Fraction(float(v))
        below, above = (Fraction(float(np.nextafter(root, F32(to)))) for to in (-math.inf, math.inf))
        r = Fraction(float(root))
        assert ((r + below) / 2) ** 2 <= exact <= ((r + above) / 2) ** 2
