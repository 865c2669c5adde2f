# SPDX-License-Identifier: Apache-2.0
"""Arithmetic at its edges, element by element: integers, casts, NaN and infinities, masked lanes."""
import math
import re

import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, ROUNDING, OnDevice, poisoned, random

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
integers = pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.__name__)
TYPES = {F16: tl.float16, BF16: tl.bfloat16, F32: tl.float32, F64: tl.float64, bool: tl.int1,
         **{dtype: getattr(tl, dtype.__name__) for dtype in INTEGERS}}


def edges(dtype, rng, n=150):
    """Random numbers of all magnitudes, and the ends of the type."""
    info = np.iinfo(dtype)
    special = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, info.max // 2], dtype)
    drawn = random(rng, n - special.size, dtype) >> rng.integers(0, info.bits, n - special.size).astype(dtype)
    return rng.permutation(np.concatenate([special, drawn]))


# ---- integers

@libtile.jit
def integer_operators(x, y, out, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, i < n, other=0), tl.load(y + i, i < n, other=0)
    if OP == "+":
        r = a + b
    elif OP == "-":
        r = a - b
    elif OP == "*":
        r = a * b
    elif OP == "//":
        r = a // b
    elif OP == "%":
        r = a % b
    elif OP == "&":
        r = a & b
    elif OP == "|":
        r = a | b
    elif OP == "^":
        r = a ^ ~b
    elif OP == "<<":
        r = a << b
    elif OP == ">>":
        r = a >> b
    elif OP == "min":
        r = tl.minimum(a, b)
    elif OP == "max":
        r = tl.maximum(a, b)
    elif OP == "<":
        r = tl.where(a < b, a - b, b)
    elif OP == "neg":
        r = -a
    elif OP == "abs -":
        r = tl.abs(-a)
    else:
        r = tl.abs(a)
    tl.store(out + i, r, i < n)


def integer_reference(op, a, b):
    """In Python's integers, wrapped."""
    info = np.iinfo(a.dtype)

    def one(x, y):
        x, y = int(x), int(y)
        count = y % (1 << info.bits)
        if op == "//":
            return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        if op == "%":
            return x if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)
        if op == "<<":
            return 0 if count >= info.bits else x << count
        if op == ">>":
            return x >> min(count, info.bits)
        return {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "&": lambda: x & y,
                "|": lambda: x | y, "^": lambda: x ^ ~y,
                "min": lambda: min(x, y), "max": lambda: max(x, y), "<": lambda: x - y if x < y else y,
                "neg": lambda: -x, "abs": lambda: abs(x), "abs -": lambda: -x if info.min == 0 else abs(x)}[op]()

    mask = (1 << info.bits) - 1
    bits = np.array([one(x, y) & mask for x, y in zip(a, b)], f"u{a.itemsize}")
    return bits.view(a.dtype)


OPERATORS = [*"+ - * // % & | ^ << >> min max < neg abs".split(), "abs -"]


def check_integers(device, dtype, op, to):
    rng = np.random.default_rng(1)
    a, b = edges(dtype, rng), edges(dtype, rng)
    if op in ("<<", ">>"):
        b = np.where(rng.random(b.size) < 0.7, b % np.array(80 if b.itemsize > 1 else 20, dtype), b)
    on = OnDevice(device)
    out = on(poisoned(a.size, to))
    integer_operators[(3,)](on(a), on(b), out, a.size, OP=op, BLOCK=64)
    np.testing.assert_array_equal(on.back(out), integer_reference(op, a, b).astype(to))


@everywhere
@integers
@pytest.mark.parametrize("op", OPERATORS)
def test_integers(device, dtype, op):
    check_integers(device, dtype, op, dtype)


@everywhere
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("to", [np.int64, F32], ids=lambda dtype: dtype.__name__)
def test_narrow_integers_wrap_before_they_become_wide(device, dtype, op, to):
    check_integers(device, dtype, op, to)


@pytest.mark.parametrize("op", ["-", "neg", "abs", "abs -"])
def test_numbers_of_16_bits_are_negated_in_32(op):
    """ptxas takes the result of neg.s16 and abs.s16 for a number of 16 bits, which 32768 is not."""
    compiled = integer_operators.warmup("*i16", "*i16", "*i64", "i32", grid=(1,), target="sm_90a", OP=op, BLOCK=64)
    ptx = compiled.asm["ptx"]
    assert re.search(r"(sub|neg|abs)\.s32 a, a", ptx)
    assert not re.search(r"(sub|neg|abs)\.s16", ptx)


@libtile.jit
def clamp(x, ends, out, LOW: tl.constexpr, HIGH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    low, high = tl.load(ends), tl.load(ends + 1)
    m = tl.minimum(v, LOW)
    c = tl.minimum(tl.maximum(v, LOW), HIGH)
    relu = tl.maximum(c, 0)
    where = tl.where(v < low, low, tl.where(v > high, high, v))
    tl.store(out + i, tl.where(m == LOW, relu.to(tl.int32) * 1000, 0) + c)
    tl.store(out + BLOCK + i, tl.where(m == v, where.to(tl.int32), -7) + (relu == c).to(tl.int32) * 300)
    if tl.minimum(low, HIGH) == LOW:
        tl.store(out + 2 * BLOCK + i, tl.sort(v))


@everywhere
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16, np.int32], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("low, high", [(0, 100), (3, 3), (0, 0), (1, 127)])
def test_minima_beside_comparisons(device, dtype, low, high):
    """An assembler may make one instruction of both."""
    info, on, rng = np.iinfo(dtype), OnDevice(device), np.random.default_rng(low + high)
    v = rng.integers(info.min, info.max, 512, dtype=dtype, endpoint=True)
    v[:200] = rng.integers(0, 8, 200)
    v[200:206] = [info.min, info.max, low, high, max(low - 1, info.min), high + 1 if high < info.max else high]
    ends, out = on(np.array([low, high], dtype)), on(poisoned(3 * v.size, np.int32))
    clamp[(1,)](on(v), ends, out, low, high, v.size)
    clamped, wide = np.clip(v, low, high).astype(np.int32), v.astype(np.int32)
    want = [np.where(wide >= low, np.maximum(clamped, 0) * 1000, 0) + clamped,
            np.where(wide <= low, clamped, -7) + (np.maximum(clamped, 0) == clamped) * 300, np.sort(wide)]
    np.testing.assert_array_equal(on.back(out).reshape(3, -1), want)
    # ptxas gets such pairs of 16 bits wrong.
    ptx = clamp.warmup(*[f"*{'u' if info.min == 0 else 'i'}{info.bits}"] * 2, "*i32", low, high, v.size, target="sm_90a", grid=(1,)).asm["ptx"]
    assert not re.search(r"\b(min|max)\.[su]16", ptx)


@libtile.jit
def extremes_of_negations(x, out, n, FACTOR: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    rows = tl.load(x + tl.arange(0, ROWS)[:, None] * BLOCK + i)
    a, b, c = tl.load(x + i), tl.load(x + BLOCK + i), tl.load(x + 2 * BLOCK + i)
    low, high, debt = c, c, tl.zeros([BLOCK], a.dtype)
    for k in range(-1, n):
        debt -= tl.load(x + (k + 1) * BLOCK + i)
        low = tl.minimum(tl.minimum(low, (k * a).to(a.dtype)), debt)
        high = tl.maximum(tl.maximum(high, (k * a).to(a.dtype)), debt)
    tl.store(out + i, tl.max(-rows, axis=0))
    tl.store(out + BLOCK + i, tl.min(rows * FACTOR, axis=0))
    tl.store(out + 2 * BLOCK + i, tl.maximum(tl.maximum(a, -b), c))
    tl.store(out + 3 * BLOCK + i, tl.minimum(c, tl.minimum(-a, -b)))
    tl.store(out + 4 * BLOCK + i, tl.where(tl.where(a < -b, a, -b) < c, tl.where(a < -b, a, -b), c))
    tl.store(out + 5 * BLOCK + i, tl.maximum(tl.maximum(-a, 7), -b))
    tl.store(out + 6 * BLOCK + i, low)
    tl.store(out + 7 * BLOCK + i, high)


@everywhere
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64], ids=lambda dtype: dtype.__name__)
def test_extremes_of_negations(device, dtype):
    """An assembler may make one instruction of a minimum of minima and of a negation among their numbers."""
    info, on, rng = np.iinfo(dtype), OnDevice(device), np.random.default_rng(7)
    x = rng.integers(info.min, info.max, (9, 128), dtype=dtype, endpoint=True)
    x[:, :4] = np.array([info.min, info.max, 0, 1], dtype)
    out = on(poisoned((8, 128), dtype))
    extremes_of_negations[(1,)](on(x.ravel()), out, 3, FACTOR=-1, ROWS=9, BLOCK=128)
    a, b, c = x[:3]
    debts, multiples = -np.cumsum(x[:4], axis=0, dtype=dtype), a * np.arange(-1, 3).astype(dtype)[:, None]
    want = [(-x).max(0), (-x).min(0), np.maximum(np.maximum(a, -b), c), np.minimum(c, np.minimum(-a, -b)),
            np.minimum(np.minimum(a, -b), c), np.maximum(np.maximum(-a, dtype(7)), -b),
            np.vstack([debts, multiples, c]).min(0), np.vstack([debts, multiples, c]).max(0)]
    np.testing.assert_array_equal(on.back(out), want)


def test_minima_of_negations_are_those_of_unsigned_numbers():
    """On sm_90 ptxas makes one instruction of two signed ones, which does not negate what it should."""
    ptx = extremes_of_negations.warmup("*i32", "*i32", "i32", grid=(1,), target="sm_90a", FACTOR=-1, ROWS=9, BLOCK=128).asm["ptx"]
    negations = re.findall(r"\bsub\.s32\s+(%r\d+), 0, ", ptx)
    assert len(negations) > 9 and re.search(r"\bmax\.u32 a, a, b;", ptx)
    for numbers in re.findall(r"\b(?:min|max)\.s32\s+%r\d+, ((?:%r\d+), (?:%r\d+));", ptx):
        assert not set(numbers.split(", ")) & set(negations)
    plain = clamp.warmup("*i32", "*i32", "*i32", 0, 100, 512, target="sm_90a", grid=(1,)).asm["ptx"]
    assert "min.s32" in plain and "80000000" not in plain


@libtile.jit
def converted(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


@pytest.mark.parametrize("source", ["u64", "i64", "fp64"])
@pytest.mark.parametrize("result", ["fp16", "bf16", "fp32", "i8", "u16", "i32", "fp64", "i64"])
def test_conversions_from_64_bits_are_under_a_predicate(source, result):
    """Short of registers ptxas repeats others, from registers that hold other numbers by then."""
    ptx = converted.warmup(f"*{source}", f"*{result}", grid=(1,), target="sm_90a", BLOCK=64).asm["ptx"]
    assert not re.search(r"^\s*cvt\S*\.(f16|bf16|f32|.16|.32|.8)\.f64|^\s*cvt\S*\.(f16|bf16|f32)\.[us]64", ptx, re.MULTILINE)
    if "64" not in result and (source == "fp64" or "f" in result):
        assert re.search(r"setp\.ne\.b64 p, (%\w+), 0; mov\.b(16|32) (%\w+), 0; @p cvt\S+ \3, \1;", ptx)


@libtile.jit
def divided_by_constants(x, out, n, BLOCK: tl.constexpr, D: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n)
    tl.store(out + i, a // D, i < n)
    tl.store(out + n + i, a % D, i < n)
    tl.store(out + 2 * n + i, (a * D) // D, i < n)


@everywhere
@integers
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 16, 64, 100, -1, -2, -8, -10])
def test_division_by_constants(device, dtype, divisor):
    if np.iinfo(dtype).min == 0:
        divisor = abs(divisor)
    a = edges(dtype, np.random.default_rng(2))
    on = OnDevice(device)
    out = on(poisoned(3 * a.size, dtype))
    divided_by_constants[(1,)](on(a), out, a.size, BLOCK=256, D=divisor)
    d = np.full_like(a, divisor)
    with np.errstate(over="ignore"):
        product = a * d
    want = [integer_reference("//", a, d), integer_reference("%", a, d), integer_reference("//", product, d)]
    np.testing.assert_array_equal(on.back(out), np.concatenate(want))


@libtile.jit
def lanes(x, out, n, BLOCK: tl.constexpr):
    """Masked lanes divide by what they hold, by 0 and the least number by -1 too."""
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n)
    b = tl.where(i < n, a, 0)
    quotient = tl.where(i < n, (i + 1) * 1000 // b, -1)
    rest = tl.where(i < n, -2147483648 // (b - b - 1), 0)
    tl.store(out + i, quotient + rest % (b - b))


@everywhere
def test_division_by_zero_in_masked_lanes(device):
    a = np.arange(1, 20, dtype=np.int32)
    on = OnDevice(device)
    out = on(poisoned(64, np.int32))
    lanes[(1,)](on(a), out, a.size, BLOCK=64)
    want = np.full(64, -1, np.int64)
    want[:19] = np.arange(1, 20) * 1000 // a - 2**31
    np.testing.assert_array_equal(on.back(out), want.astype(np.int32))


@libtile.jit
def integer_reductions(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n, other=0)
    tl.store(out, tl.sum(a, axis=0).to(tl.int64))
    tl.store(out + 1, tl.xor_sum(a, axis=0).to(tl.int64))
    tl.store(out + 2, tl.max(a, axis=0).to(tl.int64))
    tl.store(out + 3, tl.min(a, axis=0).to(tl.int64))
    tl.store(out + 4, tl.argmax(a, axis=0))
    tl.store(out + 5, tl.argmin(a, axis=0))
    tl.store(out + 6, tl.sum((a > 3).to(tl.int32), axis=0))
    tl.store(out + 7, tl.reduce_or(a, axis=0).to(tl.int64))


@everywhere
@integers
def test_integer_reductions(device, dtype):
    a = edges(dtype, np.random.default_rng(3), 100)
    on = OnDevice(device)
    out = on(poisoned(8, np.int64))
    integer_reductions[(1,)](on(a), out, a.size, BLOCK=100)
    bits = max(32, np.iinfo(dtype).bits)
    total = sum(map(int, a)) & ((1 << bits) - 1)
    if (np.iinfo(dtype).min < 0 and total >> (bits - 1)) or total >> 63:
        total -= 1 << bits
    want = [total, np.bitwise_xor.reduce(a), a.max(), a.min(), a.argmax(), a.argmin(), (a > 3).sum(),
            np.bitwise_or.reduce(a)]
    np.testing.assert_array_equal(on.back(out), [np.array(w).astype(np.int64) for w in want])


# ---- casts

@libtile.jit
def convert(x, out, n, BLOCK: tl.constexpr, TO: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n).to(TO), i < n)


def saturated(x, dtype):
    info = np.iinfo(dtype)

    def one(v):
        v = float(v)
        return 0 if v != v else info.max if v >= info.max else info.min if v <= info.min else int(v)

    return np.array([one(v) for v in x], dtype)


@everywhere
@integers
@pytest.mark.parametrize("source", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
def test_floats_become_integers_by_saturation(device, dtype, source):
    rng = np.random.default_rng(4)
    special = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, np.nan, np.inf, -np.inf, 127.9, 128, -129, 255.5, 256, 32768,
               -32769, 65504, 2.0**31, -2.0**31, 2.0**32, 2.0**63, -2.0**63, 2.0**64, 1e30, -1e30]
    drawn = rng.standard_normal(100) * 2.0 ** rng.integers(-2, 66, 100)
    with np.errstate(over="ignore"):
        x = np.concatenate([special, drawn]).astype(source)
    on = OnDevice(device)
    out = on(poisoned(x.size, dtype))
    convert[(1,)](on(x), out, x.size, BLOCK=128, TO=TYPES[dtype])
    np.testing.assert_array_equal(on.back(out), saturated(x, dtype))


@everywhere
@integers
@pytest.mark.parametrize("to", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
def test_integers_become_the_nearest_float(device, dtype, to):
    x = edges(dtype, np.random.default_rng(5))
    on = OnDevice(device)
    out = on(poisoned(x.size, to))
    convert[(1,)](on(x), out, x.size, BLOCK=256, TO=TYPES[to])
    np.testing.assert_array_equal(on.back(out).astype(F64), [nearest(int(v), to) for v in x])


def nearest(value, dtype):
    """The nearest float of the type, ties to even, by integers: NumPy rounds some of these twice."""
    digits = {F16: 11, BF16: 8, F32: 24, F64: 53}[dtype]
    size = abs(value)
    shift = max(0, size.bit_length() - digits)
    kept, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << shift >> 1
    if shift and (rest > half or (rest == half and kept & 1)):
        kept += 1
    size = kept << shift
    limit = {F16: 65504.0}.get(dtype, np.inf)
    return float(np.sign(value)) * (np.inf if size > limit else size)


@everywhere
@integers
@pytest.mark.parametrize("to", INTEGERS + [bool], ids=lambda dtype: dtype.__name__)
def test_integers_become_integers_by_their_low_bits(device, dtype, to):
    x = edges(dtype, np.random.default_rng(6))
    on = OnDevice(device)
    out = on(poisoned(x.size, to))
    convert[(1,)](on(x), out, x.size, BLOCK=256, TO=TYPES[to])
    np.testing.assert_array_equal(on.back(out), x.astype(to))


@everywhere
@pytest.mark.parametrize("source", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("to", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
def test_floats_become_floats(device, source, to):
    rng = np.random.default_rng(7)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 65504, 65519, 65520, 3.4e38, 6e-8, 3e-8, 1e-40, 1e-45]
    drawn = rng.standard_normal(100) * 2.0 ** rng.integers(-30, 30, 100)
    with np.errstate(over="ignore", under="ignore"):
        x = np.concatenate([special, drawn]).astype(source)
        want = x.astype(F32).astype(to) if {source, to} == {F16, BF16} else x.astype(to)
    on = OnDevice(device)
    out = on(poisoned(x.size, to))
    convert[(1,)](on(x), out, x.size, BLOCK=128, TO=TYPES[to])
    got = on.back(out)
    if (source, to) == (F64, BF16):
        # ml_dtypes rounds twice here; one rounding is off by at most half a unit.
        finite = np.isfinite(want.astype(F64))
        assert (np.abs(got[finite].astype(F64) - x[finite]) <= np.abs(x[finite]) * 2.0**-8 + 2.0**-134).all()
        got, want = got[~finite], want[~finite]
    np.testing.assert_array_equal(got.astype(F64), want.astype(F64))
    np.testing.assert_array_equal(np.signbit(got.astype(F64)), np.signbit(want.astype(F64)))


@libtile.jit
def exponent(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    bits = tl.load(x + i, i < n).to(tl.uint32, bitcast=True)
    tl.store(out + i, ((bits >> 23) & 0xFF).to(tl.int32) - 127, i < n)
    halved = (bits - (1 << 23)).to(tl.float32, bitcast=True)
    tl.store(x + i, halved, i < n)


@everywhere
def test_the_bits_of_floats(device):
    x = (random(np.random.default_rng(8), 50, F32) * 1000).astype(F32)
    on = OnDevice(device)
    given, out = on(x.copy()), on(poisoned(50, np.int32))
    exponent[(1,)](given, out, 50, BLOCK=64)
    np.testing.assert_array_equal(on.back(out), np.frexp(x)[1] - 1)
    np.testing.assert_array_equal(on.back(given), x / 2)


# ---- NaN and infinities

VALUES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 65504.0, -2.5]


@libtile.jit
def compare(x, y, out, bits, n, BLOCK: tl.constexpr, PROPAGATE: tl.constexpr):
    NAN: tl.constexpr = tl.PropagateNan.ALL if PROPAGATE else tl.PropagateNan.NONE
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i, i < n), tl.load(y + i, i < n)
    tl.store(out + i, tl.minimum(a, b, propagate_nan=NAN), i < n)
    tl.store(out + n + i, tl.maximum(a, b, propagate_nan=NAN), i < n)
    tl.store(out + 2 * n + i, tl.clamp(a, -2.0, b, propagate_nan=NAN), i < n)
    code = (a < b).to(tl.int32) + 2 * (a <= b).to(tl.int32) + 4 * (a == b).to(tl.int32)
    code += 8 * (a != b).to(tl.int32) + 16 * (a > b).to(tl.int32) + 32 * (a >= b).to(tl.int32)
    tl.store(bits + i, code + 64 * (not (a < b)).to(tl.int32), i < n)


@everywhere
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("propagate", [False, True])
def test_comparisons_minimum_and_maximum_of_special_values(device, dtype, propagate):
    a, b = (v.ravel().astype(dtype) for v in np.meshgrid(VALUES, VALUES))
    n = a.size
    on = OnDevice(device)
    out, bits = on(poisoned(3 * n, dtype)), on(poisoned(n, np.int32))
    compare[(1,)](on(a), on(b), out, bits, n, BLOCK=128, PROPAGATE=propagate)
    a, b = a.astype(F64), b.astype(F64)
    smaller, larger = (np.fmin, np.fmax) if not propagate else (np.minimum, np.maximum)
    want = [smaller(a, b), larger(a, b), smaller(larger(a, -2.0), b)]
    np.testing.assert_array_equal(on.back(out).astype(F64), np.concatenate(want))
    code = (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a > b) + 32 * (a >= b)
    code += 64 * ~(a < b)
    np.testing.assert_array_equal(on.back(bits), code)


@libtile.jit
def float_reductions(x, out, index, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n, other=float("nan"))
    tl.store(out, tl.max(a, axis=0))
    tl.store(out + 1, tl.min(a, axis=0))
    tl.store(index, tl.argmax(tl.load(x + i, i < n, other=-float("inf")), axis=0))
    tl.store(index + 1, tl.argmin(tl.load(x + i, i < n, other=float("inf")), axis=0))


@everywhere
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("n", [1, 40, 64])
def test_reductions_pass_over_nan_and_take_the_first_of_equals(device, dtype, n):
    x = np.random.default_rng(9).integers(-4, 5, n).astype(dtype)
    on = OnDevice(device)
    out, index = on(poisoned(2, F32 if x.itemsize < 4 else dtype)), on(poisoned(2, np.int32))
    float_reductions[(1,)](on(x), out, index, n, BLOCK=64)
    np.testing.assert_array_equal(on.back(out).astype(F64), [x.max().astype(F64), x.min().astype(F64)])
    np.testing.assert_array_equal(on.back(index), [x.argmax(), x.argmin()])


@libtile.jit
def functions(x, out, n, BLOCK: tl.constexpr, WHICH: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n, other=-1.0)
    if WHICH == "exp":
        r = tl.exp(a)
    elif WHICH == "exp2":
        r = tl.exp2(a)
    elif WHICH == "log":
        r = tl.log(a)
    elif WHICH == "log2":
        r = tl.log2(a)
    elif WHICH == "sqrt":
        r = tl.sqrt(a)
    elif WHICH == "rsqrt":
        r = tl.rsqrt(a)
    elif WHICH == "sin":
        r = tl.sin(a)
    elif WHICH == "cos":
        r = a.cos()
    elif WHICH == "erf":
        r = tl.math.erf(a)
    elif WHICH == "floor":
        r = tl.floor(a)
    elif WHICH == "ceil":
        r = a.ceil()
    elif WHICH == "sigmoid":
        r = tl.sigmoid(a)
    else:
        r = 1.0 / a
    tl.store(out + i, r, i < n)


# Units in the last place by which fp32 may be off on the CPU (frontend/prelude/; sqrt and / are correctly
# rounded). Of sigmoid: exp, a sum and a quotient.
ULPS = {"exp": 1.1, "exp2": 0.9, "log": 0.7, "log2": 0.8, "sqrt": 0.5, "rsqrt": 1.5, "inverse": 0.5, "sin": 1.5,
        "cos": 1.5, "erf": 1.5, "floor": 0, "ceil": 0, "sigmoid": 3}


@everywhere
@pytest.mark.parametrize("dtype", [F16, F32], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("which", sorted(ULPS))
def test_functions_are_the_same_in_all_lanes(device, which, dtype):
    """In one lane, in few and in many."""
    rng = np.random.default_rng(11)
    v = np.concatenate([[0.0, -0.0, np.inf, -np.inf, np.nan, 4.0, -4.0, 1e-7, 0.24], rng.standard_normal(503)]).astype(dtype)
    on, made = OnDevice(device), []
    for block in (1, 2, 4, 8, 16, 32, 128, 512):
        out = on(poisoned(v.shape, dtype))
        functions[(v.size // block,)](on(v), out, v.size, BLOCK=block, WHICH=which)
        made.append(on.back(out))
    for other in made[1:]:
        np.testing.assert_array_equal(other, made[0])
        np.testing.assert_array_equal(np.signbit(other)[~np.isnan(v)], np.signbit(made[0])[~np.isnan(v)])


@pytest.mark.not_interpreted("it has no code")
def test_erf_takes_its_coefficients_from_registers():
    made = functions.warmup("*fp32", "*fp32", "i32", BLOCK=16, WHICH="erf", grid=(1,), target="avx512").asm["asm"]
    assert made.count("vpermps") == 7 * made.count("vminps") > 0


def exact_function(which):
    """In np.longdouble, whose sine takes any angle."""
    return {"rsqrt": lambda v: 1 / np.sqrt(v), "inverse": lambda v: 1 / v, "erf": np.vectorize(math.erf),
            "sigmoid": lambda v: 1 / (1 + np.exp(-v))}.get(which) or getattr(np, which)


@everywhere
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("which", sorted(ULPS))
def test_functions_over_the_whole_range(device, dtype, which):
    rng = np.random.default_rng(10)
    special = [0.0, -0.0, 1.0, 2.0, 4.0, np.inf, -np.inf, np.nan, -1.0, 88.7, 88.8, -87.3, -103.9, -104.1,
               127.9, 128.0, -126.5, -149.0, -150.1, 709.7, 709.8, -745.1, -745.2, 1e-40, 3e38, 1e-7]
    with np.errstate(all="ignore"):
        x = np.concatenate([special, rng.standard_normal(200), rng.uniform(-100, 100, 200),
                            2.0 ** rng.uniform(-126, 127, 200)]).astype(dtype)
        wide = x.astype(F64)
        want = exact_function(which)(wide.astype(np.longdouble)).astype(F64)
    on = OnDevice(device)
    out = on(poisoned(x.size, dtype))
    functions[(libtile.cdiv(x.size, 96),)](on(x), out, x.size, BLOCK=96, WHICH=which)
    got = on.back(out).astype(F64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    largest = {F16: 65504.0, BF16: 3.39e38, F32: 3.4028235e38, F64: np.inf}[dtype]
    least = {F16: 2.0**-14, BF16: 2.0**-126, F32: 2.0**-126, F64: 2.0**-1022}[dtype]
    room = 6 if dtype in (F32, F64) else 1.05
    used = np.isfinite(want) & (np.abs(want) < largest) & (np.abs(wide) >= least)
    off = np.abs(got[used] - want[used])
    # Log near 1 is bounded absolutely: a target may give it up to 2^-22.
    near_one = 2.0**-21 if which in ("log", "log2") and dtype is F32 else 0
    assert (off <= room * ROUNDING[dtype] * np.abs(want[used]) + 2 * least + near_one).all()
    if device == "cpu" and dtype is F32:
        # Where exp(-x) overflows sigmoid is 0.
        lost = 2.0**-126 if which == "sigmoid" else 0
        assert (off <= ULPS[which] * np.spacing(np.abs(want[used]).astype(F32)).astype(F64) + lost).all()
    over = np.abs(want) > 2 * largest
    np.testing.assert_array_equal(got[over], np.sign(want[over]) * np.inf)


@libtile.jit
def softmaxes(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, IEEE: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.softmax(tl.load(x + i), AXIS, ieee_rounding=IEEE))


@everywhere
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_softmax(device, dtype, axis):
    x = (np.random.default_rng(12).standard_normal((13, 27)) * 4).astype(dtype)
    put = OnDevice(device)
    out = put(poisoned(x.size, dtype))
    softmaxes[(1,)](put(x), out, M=13, N=27, AXIS=axis, IEEE=axis == 1)
    wide = x.astype(F64)
    power = np.exp(wide - wide.max(axis or 0, keepdims=True))
    want = power / power.sum(axis or 0, keepdims=True)
    # x - max is rounded, in fp32 or fp64, before it becomes a power.
    room = 8 * ROUNDING[dtype] + np.ptp(wide) * ROUNDING[F64 if dtype is F64 else F32]
    np.testing.assert_allclose(put.back(out).astype(F64).reshape(x.shape), want, rtol=room, atol=2.0**-24 if dtype is F16 else 0)


@libtile.jit
def high_products(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r = tl.umulhi(tl.load(x + i, i < n, other=0), tl.load(y + i, i < n, other=0))
    tl.store(out + i, r, i < n)


@everywhere
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64], ids=lambda dtype: dtype.__name__)
def test_high_products(device, dtype):
    rng = np.random.default_rng(13)
    x, y = edges(dtype, rng), edges(dtype, rng)
    put = OnDevice(device)
    out = put(poisoned(x.size, dtype))
    high_products[(libtile.cdiv(x.size, 96),)](put(x), put(y), out, x.size, BLOCK=96)
    bits = 8 * np.dtype(dtype).itemsize
    want = [(int(a) % 2**bits) * (int(b) % 2**bits) >> bits for a, b in zip(x, y)]
    np.testing.assert_array_equal(put.back(out).astype(np.dtype(f"u{bits // 8}")), np.array(want, f"u{bits // 8}"))


# ---- division

@libtile.jit
def quotients(x, y, out, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, i < n, other=0.0), tl.load(y + i, i < n, other=1.0)
    if HOW == "div_rn":
        r = tl.div_rn(a, b)
    elif HOW == "ieee":
        r = tl.fdiv(a, b, ieee_rounding=True)
    else:
        r = a / b
    tl.store(out + i, r, i < n)


@everywhere
@pytest.mark.parametrize("how", ["div_rn", "ieee", "/"])
def test_quotients(device, how):
    rng = np.random.default_rng(11)
    n = 40_000
    # All magnitudes: subnormal operands and quotients, overflow, halfway cases by chance.
    x, y = (rng.integers(0, 2**32, n, dtype=np.uint32).view(F32) for _ in range(2))
    x[:500], y[250:750] = 0, 0
    put = OnDevice(device)
    out = put(poisoned(n, F32))
    quotients[(libtile.cdiv(n, 1000),)](put(x), put(y), out, n, HOW=how, BLOCK=1000)
    with np.errstate(all="ignore"):
        want = x / y
        exact = x.astype(F64) / y.astype(F64)
    got = put.back(out)
    if how != "/" or device == "cpu":
        np.testing.assert_array_equal(got, want)
        return
    # 2 ulp, where div.full promises them: the divisor in [2^-126, 2^126], the quotient normal.
    size = np.abs(y)
    ok = np.isfinite(x) & (size >= 2.0**-126) & (size <= 2.0**126) & (np.abs(want) >= 2.0**-126) & \
        np.isfinite(want)
    assert ok.sum() > n / 3
    assert (np.abs(got[ok] - exact[ok]) <= 2 * 2.0**-23 * np.abs(exact[ok])).all()


@everywhere
def test_quotients_of_fp64(device):
    """To the nearest number, also next to powers of two, whose reciprocals are next to half way between two numbers."""
    rng = np.random.default_rng(12)
    n = 30_000
    x, y = (np.ldexp(1 + rng.random(n), rng.integers(-1000, 1000, n)) for _ in range(2))
    few, scales = np.arange(n) % 8 * 2.0**-52, np.ldexp(1.0, rng.integers(-400, 400, n))
    x[:20_000], y[10_000:] = (scales * (1 + few))[:20_000], (scales[::-1] * (2 - 2.0**-52 * (1 + np.arange(n) // 8 % 16)))[10_000:]
    put = OnDevice(device)
    out = put(poisoned(n, F64))
    quotients[(n // 1000,)](put(x), put(y), out, n, HOW="/", BLOCK=1000)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(put.back(out), x / y)


@pytest.mark.parametrize("how", ["div_rn", "ieee", "/"])
def test_rounded_division_is_its_own_instruction(how):
    compiled = quotients.warmup("*fp32", "*fp32", "*fp32", "i32", grid=(1,), target="sm_80", HOW=how, BLOCK=128)
    assert ("div.rn.f32" in compiled.asm["ptx"]) == (how != "/")


@libtile.jit
def remainders(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n, other=0.0) % tl.load(y + i, i < n, other=1.0), i < n)


def remainder_operands(dtype, rng, n):
    """Of all magnitudes, far apart and close, multiples and their neighbours, and the special numbers."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    x, y = (rng.integers(0, 2**(8 * bits.itemsize), n, dtype=np.uint64).astype(bits).view(dtype) for _ in range(2))
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.1, 0.3, 10.0, 1e4, np.inf, -np.inf, np.nan, 3.0, -7.5], dtype)
    special = np.concatenate([special, np.array([1, 2, 3], bits).view(dtype)])  # subnormal
    k = special.size**2
    x[:k], y[:k] = np.repeat(special, special.size), np.tile(special, special.size)
    near = slice(k, n // 2)  # quotients of a few bits to all bits
    with np.errstate(all="ignore"):
        x[near] = y[near] * np.exp2(rng.integers(-2, 30, n // 2 - k)).astype(dtype) * dtype(1.5)
        x[near] = (x[near].view(bits) + rng.integers(0, 3, n // 2 - k).astype(bits) - bits.type(1)).view(dtype)
    return x, y


@everywhere
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
def test_remainders_are_exact(device, dtype):
    n = 20_000
    x, y = remainder_operands(dtype, np.random.default_rng(17), n)
    to = F64 if dtype is F64 else F32
    put = OnDevice(device)
    out = put(poisoned(n, to))
    remainders[(libtile.cdiv(n, 1000),)](put(x), put(y), out, n, BLOCK=1000)
    with np.errstate(all="ignore"):
        want = np.fmod(x.astype(to), y.astype(to))
    got = put.back(out)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


@libtile.jit
def sums_everywhere(x, y, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    place = tl.arange(0, M)[:, None] * N + tl.arange(0, N)
    total = tl.sum(tl.load(x + place) * tl.load(y + place), axis=AXIS, keep_dims=True)
    tl.store(out + place, tl.broadcast_to(total, (M, N)))


@everywhere
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("m, n", [(8, 32), (3, 17), (32, 8), (16, 256)])
def test_a_sum_of_products_is_one_number(device, m, n, axis, num_warps):
    """Whoever holds a copy of it: else a condition on it would part the threads of a program."""
    rng = np.random.default_rng(m)
    x, y = random(rng, (m, n), F32), random(rng, (m, n), F32)
    on = OnDevice(device)
    out = on(poisoned((m, n), F32))
    sums_everywhere[(1,)](on(x), on(y), out, m, n, AXIS=axis, num_warps=num_warps)
    got = on.back(out)
    first = got[:1] if axis == 0 else got[:, :1]
    np.testing.assert_array_equal(got, np.broadcast_to(first, (m, n)))
    products = x.astype(F64) * y.astype(F64)
    bound = np.abs(products).sum(axis, keepdims=True) * x.shape[axis] * ROUNDING[F32]
    assert (np.abs(first - products.sum(axis, keepdims=True)) <= bound).all()
