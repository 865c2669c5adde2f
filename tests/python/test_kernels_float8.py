# SPDX-License-Identifier: Apache-2.0
"""8-bit floats: every code, rounding at and beside every boundary, and what the language does with them.

Arrays are of bytes, which a kernel takes as the format that it is given; float8.py has the definitions."""
import float8
import ml_dtypes
import numpy as np
import pytest
from float8 import CODES, FORMATS, TYPES, decode, encode, same
from spine import BF16, DEVICES, F16, F32, F64, OnDevice, poisoned

import libtile
import libtile.language as tl

everywhere = pytest.mark.parametrize("device", DEVICES)
formats = pytest.mark.parametrize("name", FORMATS)
floats = pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=lambda dtype: dtype.__name__)
LONG = {F16: tl.float16, BF16: tl.bfloat16, F32: tl.float32, F64: tl.float64}


def launch(kernel, device, arrays, *rest, grid=1, **constants):
    """The last array, as the kernel leaves it."""
    on = OnDevice(device)
    held = [on(array) for array in arrays]
    kernel[(grid,)](*held, *rest, **constants)
    return on.back(held[-1])


# ---- casts

@libtile.jit
def decoded(codes, out, n, F: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(codes.to(tl.pointer_type(F)) + i, i < n)
    tl.store(out + i, x.to(out.dtype.element_ty), i < n)


@libtile.jit
def encoded(x, codes, n, F: tl.constexpr, ROUNDING: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n)
    tl.store(codes.to(tl.pointer_type(F)) + i, a.to(F, fp_downcast_rounding=ROUNDING), i < n)


@libtile.jit
def recoded(x, codes, FROM: tl.constexpr, TO: tl.constexpr):
    i = tl.arange(0, 256)
    a = tl.load(x + i).to(FROM, bitcast=True)
    tl.store(codes + i, a.to(TO).to(tl.uint8, bitcast=True))


@everywhere
@formats
@floats
def test_every_code_is_its_number(device, name, dtype):
    out = poisoned(256, dtype)
    got = launch(decoded, device, [CODES, out], 256, F=TYPES[name], BLOCK=100, grid=3)
    assert same(got, decode(name, CODES).astype(dtype))


@pytest.mark.parametrize("name", [name for name in FORMATS if FORMATS[name][3]])
def test_the_numbers_are_those_of_others(name):
    theirs = getattr(ml_dtypes, FORMATS[name][3])
    assert same(decode(name, CODES), CODES.view(theirs).astype(F64))
    inside = np.linspace(-FORMATS[name][2], FORMATS[name][2], 9999).astype(F32)
    assert np.array_equal(encode(name, inside), inside.astype(theirs).view(np.uint8))


def boundaries(name, dtype):
    """The numbers, the middles between them, what lies beside both, and special ones."""
    table = float8.sizes(name)
    points = np.concatenate([table, (table[1:] + table[:-1]) / 2, [table[-1] * 33 / 32, table[-1] * 2, 1e300, 2e-38, 1e-310]])
    with np.errstate(over="ignore"):
        points = points.astype(dtype)
        beside = [np.nextafter(points, dtype(0)), np.nextafter(points, dtype(np.inf))]
    special = np.array([0, np.inf, np.nan], dtype)
    every = np.concatenate([points, *beside, special])
    return np.concatenate([every, -every])


def without_sign_of_nan(x, codes):
    """A format without NaN keeps a sign that is open."""
    return np.where(np.isnan(np.asarray(x, F64)), codes & 0x7F, codes)


def check_encoded(device, name, x, rounding=None):
    codes = poisoned(x.size + 5, np.uint8)
    got = launch(encoded, device, [x, codes], x.size, F=TYPES[name], ROUNDING=rounding, BLOCK=1000,
                 grid=-(-x.size // 1000))
    want = encode(name, x, rounding or "rtne")
    wrong = np.flatnonzero(without_sign_of_nan(x, got[:x.size] ^ want))
    assert not wrong.size, (f"{x[wrong[0]]!r} is {got[wrong[0]]:#x}, not {want[wrong[0]]:#x}; "
                            f"{wrong.size} are wrong")
    assert (got[x.size:] == 0xA5).all()


@everywhere
@formats
@pytest.mark.parametrize("dtype", [F16, BF16], ids=lambda dtype: dtype.__name__)
def test_every_16_bit_float_is_rounded(device, name, dtype):
    check_encoded(device, name, np.arange(65536, dtype=np.uint16).view(dtype))


@everywhere
@formats
@pytest.mark.parametrize("dtype", [F32, F64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("rounding", [None, "rtne", "rtz"])
def test_wide_floats_are_rounded_once(device, name, dtype, rounding):
    rng = np.random.default_rng(8)
    bits = rng.integers(0, 2**(8 * np.dtype(dtype).itemsize), 3000, dtype=f"u{np.dtype(dtype).itemsize}").view(dtype)
    near = (rng.standard_normal(3000) * 2.0**rng.integers(-22, 18, 3000)).astype(dtype)
    check_encoded(device, name, np.concatenate([boundaries(name, dtype), bits, near]), rounding)


@everywhere
@formats
def test_16_bit_floats_towards_zero(device, name):
    for dtype in (F16, BF16):
        check_encoded(device, name, np.arange(65536, dtype=np.uint16).view(dtype), "rtz")


@everywhere
@formats
def test_formats_among_each_other(device, name):
    for other in FORMATS:
        got = launch(recoded, device, [CODES, poisoned(256, np.uint8)], FROM=TYPES[name], TO=TYPES[other])
        want = CODES if name == other else encode(other, decode(name, CODES))
        assert not without_sign_of_nan(decode(name, CODES), got ^ want).any(), other


@libtile.jit
def towards_zero(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    y = tl.load(x + i, i < n).to(out.dtype.element_ty, fp_downcast_rounding="rtz")
    tl.store(out + i, y, i < n)


@everywhere
@pytest.mark.parametrize("source, to", [(F32, F16), (F32, BF16), (F64, F32), (F64, F16), (F64, BF16)],
                         ids=lambda dtype: dtype.__name__)
def test_other_floats_towards_zero(device, source, to):
    rng = np.random.default_rng(3)
    size = np.dtype(source).itemsize
    x = np.concatenate([rng.integers(0, 2**(8 * size), 500, dtype=f"u{size}").view(source),
                        (rng.standard_normal(400) * 2.0**rng.integers(-30, 18, 400)).astype(source),
                        np.array([0, -0.0, np.inf, -np.inf, np.nan, 65519.99, 65520, -65536, 1e38, 3.4e38, 1e-45], source)])
    got = launch(towards_zero, device, [x, poisoned(x.size, to)], x.size, BLOCK=1001)
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = x.astype(to)
        back = nearest.astype(F64)
        want = np.where(np.abs(back) > np.abs(x.astype(F64)), np.nextafter(nearest, to(0)), nearest).astype(to)
    assert same(got, want)


@libtile.jit
def rounded_by_no_cast(x, out, n, F: tl.constexpr, ROUNDING: tl.constexpr):
    i = tl.arange(0, 64)
    a = tl.load(x + i, i < n)
    a = a.to(x.dtype.element_ty, fp_downcast_rounding=ROUNDING)
    bits = a.to(tl.int32, fp_downcast_rounding=ROUNDING, bitcast=True)
    tl.store(out + i, tl.cast(bits, F, ROUNDING, bitcast=True), i < n)


@everywhere
@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
def test_a_rounding_means_nothing_where_nothing_is_rounded(device, rounding):
    x = np.random.default_rng(4).standard_normal(50).astype(F32)
    x[:4] = np.nan, np.inf, -0.0, 1e-45
    got = launch(rounded_by_no_cast, device, [x, poisoned(50, F32)], 50, F=tl.float32, ROUNDING=rounding)
    np.testing.assert_array_equal(got.view("i4"), x.view("i4"))


# ---- memory

@libtile.jit
def masked_copy(x, out, m, n, F: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    inside = (i < m) & (j < n)
    a = tl.load(x.to(tl.pointer_type(F)) + i * n + j, inside, other=1.5)
    tl.store(out.to(tl.pointer_type(F)) + i * N + j, a, (i < m + 1) & (j < n + 1))


@everywhere
@formats
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (16, 32), (33, 100)])
def test_masked_loads_and_stores(device, name, shape):
    rng = np.random.default_rng(shape)
    m, n = shape[0] - shape[0] // 3, shape[1] - shape[1] // 4
    x = rng.integers(0, 256, m * n, dtype=np.uint8)
    out = poisoned(shape, np.uint8)
    want = out.copy()
    want[:m + 1, :n + 1] = encode(name, 1.5)
    want[:m, :n] = x.reshape(m, n)
    got = launch(masked_copy, device, [x, out], m, n, F=TYPES[name], M=shape[0], N=shape[1])
    assert np.array_equal(got, want)


@libtile.jit
def by_its_own_type(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n)
    tl.static_assert(a.dtype == x.dtype.element_ty)
    tl.store(out + i, a.to(tl.float32) * 2, i < n)


@everywhere
@pytest.mark.parametrize("name", [name for name in FORMATS if FORMATS[name][3]])
def test_arrays_of_ml_dtypes(device, name):
    on, n = OnDevice(device), 77
    x = CODES[:n].view(getattr(ml_dtypes, FORMATS[name][3]))
    out = poisoned(n, x.dtype)
    held = on(out)
    kernel = by_its_own_type[(1,)](on(x), held, n, BLOCK=100)
    assert f"*{TYPES[name].name}" in kernel.signature or f"pointer<{TYPES[name].name}>" in kernel.signature
    got = np.asarray(on.back(held)).view(np.uint8)
    assert np.array_equal(got, encode(name, decode(name, CODES[:n]) * 2))


@libtile.jit
def scalar_argument(out, x: tl.float8e5):
    tl.store(out, x.to(tl.float32))


@everywhere
def test_scalars_and_constants(device):
    for value, want in [(1.1, 1.0), (3, 3.0), (1e9, 57344.0), (-0.3, -0.3125), (float("-inf"), -57344.0)]:
        assert launch(scalar_argument, device, [poisoned(1, F32)], value)[0] == want


@libtile.jit
def filled(out, F: tl.constexpr, VALUE: tl.constexpr):
    i = tl.arange(0, 5)
    tl.store(out + i, tl.full((5,), VALUE, F).to(tl.uint8, bitcast=True))
    tl.store(out + 5 + i, tl.zeros((5,), F).to(tl.uint8, bitcast=True))
    tl.store((out + 10).to(tl.pointer_type(F)), VALUE)


@everywhere
@formats
@pytest.mark.parametrize("value", [1, -2.7, 0.03, 1e6, float("nan"), 0, -0.0])
def test_numbers_become_codes(device, name, value):
    got = launch(filled, device, [poisoned(11, np.uint8)], F=TYPES[name], VALUE=value)
    code = encode(name, float(value))
    assert np.array_equal(got, [code] * 5 + [0] * 5 + [code])


# ---- what is computed with them

@libtile.jit
def operators(x, y, out, n, F: tl.constexpr, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n).to(F, bitcast=True)
    b = tl.load(y + i, i < n).to(F, bitcast=True)
    if OP == "+":
        r = a + b
    elif OP == "-":
        r = a - b
    elif OP == "*":
        r = a * b
    elif OP == "scaled":
        r = a * 0.5 + 1
    elif OP == "/":
        r = a / b
    elif OP == "neg":
        r = -a
    elif OP == "abs":
        r = tl.abs(a)
    elif OP == "min":
        r = tl.minimum(a, b)
    elif OP == "max":
        r = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "where":
        r = tl.where(a < b, a, b)
    elif OP == "where_constant":
        r = tl.where(a >= b, a, -1.0)
    elif OP == "clamp":
        r = tl.clamp(a, -0.5, b)
    elif OP == "fma":
        r = tl.fma(a, b, a)
    elif OP == "exp":
        r = tl.exp(a)
    elif OP == "+fp16":
        r = a + b.to(tl.float16)
    elif OP == "+bf16":
        r = a + b.to(tl.bfloat16)
    elif OP == "+fp32":
        r = a + b.to(tl.float32)
    tl.static_assert(r.dtype == (F if OP[0] not in "/+" or OP == "+" else tl.float16 if OP == "+fp16" else tl.float32))
    if r.dtype == F:
        tl.store(out + i, r.to(tl.uint8, bitcast=True), i < n)
    else:
        tl.store(out + i, (r == (a.to(tl.float32) + b.to(tl.float32)).to(r.dtype)) | (OP == "/"), i < n)


def least(a, b):
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.minimum(a, b)))


def greatest(a, b):
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.maximum(a, b)))


MEANINGS = {
    "+": lambda f, a, b: a + b, "-": lambda f, a, b: a - b, "*": lambda f, a, b: a * b,
    "scaled": lambda f, a, b: f(a * F32(0.5)) + 1,
    "neg": lambda f, a, b: -a, "abs": lambda f, a, b: np.abs(a),
    "min": lambda f, a, b: least(a, b), "max": lambda f, a, b: np.maximum(a, b),
    "where": lambda f, a, b: np.where(a < b, a, b), "where_constant": lambda f, a, b: np.where(a >= b, a, -1),
    "clamp": lambda f, a, b: least(greatest(a, F32(-0.5)), b),
    "fma": lambda f, a, b: (a.astype(F64) * b + a).astype(F32),
}


@everywhere
@formats
@pytest.mark.parametrize("op", MEANINGS)
def test_arithmetic_is_that_of_fp32_and_rounded(device, name, op):
    rng = np.random.default_rng(11)
    x, y = rng.integers(0, 256, (2, 5000), dtype=np.uint8)
    got = launch(operators, device, [x, y, poisoned(5000, np.uint8)], 5000, F=TYPES[name], OP=op, BLOCK=5003)
    a, b = decode(name, x).astype(F32), decode(name, y).astype(F32)
    with np.errstate(all="ignore"):
        result = MEANINGS[op](lambda v: decode(name, encode(name, v)).astype(F32), a, b)
    want = encode(name, result)
    if op.startswith("where"):
        # Nothing is computed: codes are chosen.
        want = np.where(a < b, x, y) if op == "where" else np.where(a >= b, x, encode(name, -1))
    if op == "abs":
        # The code without its sign; a NaN that is the code of -0 stays.
        want = np.where(np.isnan(a) & (name in float8.ONE_ZERO), x, x & 0x7F)
    # Of two zeros either may be the lesser one.
    zeros = op in ("min", "max", "clamp") and (result == 0)
    got, want = np.where(zeros, got & 0x7F, got), np.where(zeros, want & 0x7F, want)
    assert np.array_equal(got, want), [(a[k], b[k], got[k], want[k]) for k in np.flatnonzero(got != want)[:5]]


@everywhere
@formats
@pytest.mark.parametrize("op", ["/", "+fp16", "+bf16", "+fp32", "exp"])
def test_types_where_they_meet_others(device, name, op):
    codes = np.array([0, 1, 9, 40, 60, 0x81, 0xA0], np.uint8)
    got = launch(operators, device, [codes, codes[::-1].copy(), poisoned(7, np.uint8)], 7, F=TYPES[name], OP=op, BLOCK=8)
    if op == "exp":
        want = encode(name, np.exp(decode(name, codes)))
        assert np.abs(got.astype(int) - want).max() <= 1
    else:
        assert (got == 1).all()


@libtile.jit
def reductions(x, out, F: tl.constexpr, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, N)).to(F, bitcast=True)
    tl.static_assert(tl.max(a, 0).dtype == tl.float32)
    tl.static_assert(tl.sum(a, 0).dtype == F)
    tl.store(out + 0, tl.sum(a, 0).to(tl.float32))
    tl.store(out + 1, tl.max(a, 0))
    tl.store(out + 2, tl.min(a, 0))
    tl.store(out + 3, tl.argmax(a, 0))
    tl.store(out + 4, tl.reduce(a, 0, larger).to(tl.float32))


@libtile.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@everywhere
@formats
@pytest.mark.parametrize("n", [1, 7, 64, 500])
def test_reductions(device, name, n):
    rng = np.random.default_rng(n)
    x = encode(name, rng.integers(-8, 9, n) / 8)
    a = decode(name, x)
    got = launch(reductions, device, [x, poisoned(5, F32)], F=TYPES[name], N=n)
    total = decode(name, encode(name, a.sum()))
    assert np.array_equal(got, np.array([total, a.max(), a.min(), a.argmax(), a.max()], F32))


@libtile.jit
def sorted_and_moved(x, out, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i).to(F, bitcast=True)
    tl.store(out + i, tl.sort(a).to(tl.uint8, bitcast=True))
    tl.store(out + N + i, tl.gather(a, N - 1 - i, 0).to(tl.uint8, bitcast=True))
    tl.store(out + 2 * N + 2 * i[:, None] + tl.arange(0, 2)[None, :], tl.join(a, -a).to(tl.uint8, bitcast=True))


@everywhere
@formats
def test_sorts_and_moves(device, name):
    x = np.random.default_rng(2).permutation(CODES)
    a = decode(name, x)
    got = launch(sorted_and_moved, device, [x, poisoned(1024, np.uint8)], F=TYPES[name], N=256)
    assert np.array_equal(decode(name, got[:256]), np.sort(a), equal_nan=True)
    assert np.array_equal(got[256:512], x[::-1])
    assert np.array_equal(got[512::2], x) and np.array_equal(got[513::2], encode(name, -a))


@libtile.jit
def product(x, y, out, A: tl.constexpr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :]).to(A, bitcast=True)
    b = tl.load(y + k[:, None] * N + n[None, :]).to(B, bitcast=True)
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(a, b))


@everywhere
@formats
@pytest.mark.parametrize("other", FORMATS)
@pytest.mark.parametrize("m, n, k", [(16, 16, 32), (5, 9, 17), (32, 40, 64), (16, 33, 128)])
def test_dot_of_any_two_formats(device, name, other, m, n, k):
    rng = np.random.default_rng(m)
    x = encode(name, rng.integers(-3, 4, (m, k)) / 4)
    y = encode(other, rng.integers(-3, 4, (k, n)) / 4)
    got = launch(product, device, [x, y, poisoned((m, n), F32)], A=TYPES[name], B=TYPES[other], M=m, N=n, K=k)
    assert np.array_equal(got, (decode(name, x) @ decode(other, y)).astype(F32))


@libtile.jit
def carried(x, out, trips, F: tl.constexpr):
    i = tl.arange(0, 16)
    a = tl.load(x.to(tl.pointer_type(F)) + i)
    for k in range(trips):
        a = tl.where(i == k, a + a, a)
    if trips > 3:
        a = -a
    tl.store(out.to(tl.pointer_type(F)) + i, a)


@everywhere
@formats
@pytest.mark.parametrize("trips", [0, 3, 9])
def test_loops_and_conditions_carry_them(device, name, trips):
    x = encode(name, np.arange(16) / 16)
    got = launch(carried, device, [x, poisoned(16, np.uint8)], trips, F=TYPES[name])
    a = decode(name, x)
    a = decode(name, encode(name, np.where(np.arange(16) < trips, a + a, a)))
    assert np.array_equal(decode(name, got), -a if trips > 3 else a)


# ---- four bits in a byte

@libtile.jit
def nibbles(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    packed = tl.load(x + i, i < n, other=0)
    low, high = (packed << 4) >> 4, packed >> 4
    tl.store(out + 2 * i, low.to(tl.float16), i < n)
    tl.store(out + 2 * i + 1, high.to(tl.float16), i < n)


@everywhere
@pytest.mark.parametrize("n", [1, 13, 64])
def test_signed_nibbles(device, n):
    four = np.random.default_rng(4).integers(-8, 8, 2 * n)
    packed = ((four[0::2] & 15) | (four[1::2] << 4)).astype(np.int8)
    got = launch(nibbles, device, [packed, poisoned(2 * n, F16)], n, BLOCK=64)
    assert np.array_equal(got, four.astype(F16))


# ---- products with scales

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
KINDS = {"e2m1": None, "e4m3": "float8e4nv", "e5m2": "float8e5", "bf16": BF16, "fp16": F16}


@libtile.jit
def scaled_product(x, xs, y, ys, out, XF: tl.constexpr, YF: tl.constexpr, XS: tl.constexpr, YS: tl.constexpr,
                   XP: tl.constexpr, YP: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                   XM: tl.constexpr, XK: tl.constexpr, YK: tl.constexpr, YN: tl.constexpr):
    a = tl.load(x + tl.arange(0, XM)[:, None] * XK + tl.arange(0, XK)[None, :])
    b = tl.load(y + tl.arange(0, YK)[:, None] * YN + tl.arange(0, YN)[None, :])
    g = tl.arange(0, K // 32)[None, :]
    s = tl.load(xs + tl.arange(0, M)[:, None] * (K // 32) + g) if XS else None
    t = tl.load(ys + tl.arange(0, N)[:, None] * (K // 32) + g) if YS else None
    where = out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(where, tl.dot_scaled(a, s, XF, b, t, YF, tl.full((M, N), 0.5, tl.float32), lhs_k_pack=XP, rhs_k_pack=YP))


def operand_of(rng, kind, shape, packed_axis):
    """What lies in memory, and the numbers."""
    if kind == "e2m1":
        codes = rng.integers(0, 16, shape, dtype=np.uint8)
        even, odd = (np.take(codes, range(first, shape[packed_axis], 2), packed_axis) for first in (0, 1))
        return even | odd << 4, E2M1[codes]
    numbers = rng.integers(-6, 7, shape) / 4
    if isinstance(KINDS[kind], str):
        codes = encode(KINDS[kind], numbers)
        return codes, decode(KINDS[kind], codes)
    return numbers.astype(KINDS[kind]), numbers


@everywhere
@pytest.mark.parametrize("left, right", [(a, b) for a in KINDS for b in KINDS if a[0] == "e" or b[0] == "e" or a == b])
@pytest.mark.parametrize("scales", [(True, True), (False, True), (True, False)])
def test_dot_scaled(device, left, right, scales):
    rng = np.random.default_rng(len(left) + len(right))
    for m, n, k, packs in [(16, 32, 64, (True, True)), (6, 10, 32, (False, False)), (2, 8, 96, (True, False))]:
        x, a = operand_of(rng, left, (m, k), 1 if packs[0] else 0)
        y, b = operand_of(rng, right, (k, n), 0 if packs[1] else 1)
        xs, ys = rng.integers(124, 131, (m, k // 32), dtype=np.uint8), rng.integers(124, 131, (n, k // 32), dtype=np.uint8)
        a = a * (2.0**(np.repeat(xs, 32, 1) - 127.0) if scales[0] else 1)
        b = b * (2.0**(np.repeat(ys, 32, 1) - 127.0).T if scales[1] else 1)
        got = launch(scaled_product, device, [x, xs, y, ys, poisoned((m, n), F32)], XF=left, YF=right, XS=scales[0],
                     YS=scales[1], XP=packs[0], YP=packs[1], M=m, N=n, K=k, XM=x.shape[0], XK=x.shape[1],
                     YK=y.shape[0], YN=y.shape[1])
        assert np.array_equal(got, (a @ b + 0.5).astype(F32)), (m, n, k)


@everywhere
@pytest.mark.parametrize("left, right", [("e4m3", "e2m1"), ("e2m1", "e2m1"), ("e5m2", "bf16"), ("fp16", "e4m3")])
def test_scales_that_are_floats(device, left, right):
    """One for each 32 elements along K; of all sizes, so that a product rounded to fewer bits would be another number."""
    rng = np.random.default_rng(len(left) * 5 + len(right))
    m, n, k, scale = 8, 16, 64, "float8e4nv"
    x, a = operand_of(rng, left, (m, k), 1)
    y, b = operand_of(rng, right, (k, n), 0)
    xs, ys = (encode(scale, rng.integers(1, 16, (rows, k // 32)) / 8) for rows in (m, n))
    a, b = a * np.repeat(decode(scale, xs), 32, 1), b * np.repeat(decode(scale, ys), 32, 1).T
    typed = [each.view(ml_dtypes.float8_e4m3fn) for each in (xs, ys)]
    got = launch(scaled_product, device, [x, typed[0], y, typed[1], poisoned((m, n), F32)], XF=left, YF=right, XS=True,
                 YS=True, XP=True, YP=True, M=m, N=n, K=k, XM=x.shape[0], XK=x.shape[1], YK=y.shape[0], YN=y.shape[1])
    assert np.array_equal(got, (a @ b + 0.5).astype(F32))


@everywhere
def test_scales_at_their_ends(device):
    """2^-127 is no normal number, and 0xff is none."""
    x, y = np.full((1, 32), 1, F32).astype(BF16), np.full((32, 1), 1, F32).astype(BF16)
    for code, want in [(0, 32 * 2.0**-127), (1, 32 * 2.0**-126), (254, np.inf), (255, np.nan)]:
        xs = np.array([[code]], np.uint8)
        got = launch(scaled_product, device, [x, xs, y, xs, poisoned((1, 1), F32)], XF="bf16", YF="bf16", XS=True,
                     YS=False, XP=True, YP=True, M=1, N=1, K=32, XM=1, XK=32, YK=32, YN=1)
        assert np.array_equal(got, np.full((1, 1), want + 0.5, F32), equal_nan=True)


@libtile.jit
def wrong_format(x, out, FORMAT: tl.constexpr, OUT: tl.constexpr):
    a = tl.load(x + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])
    tl.dot_scaled(a, None, FORMAT, a, None, FORMAT, out_dtype=OUT)


@pytest.mark.parametrize("form, out, message", [
    ("e3m2", tl.float32, "a format of dot_scaled is"), ("fp16", tl.float32, "is of its format's type"),
    ("e4m3", tl.float16, "out_dtype of dot_scaled must be fp32")])
def test_dot_scaled_says_what_it_takes(form, out, message):
    with pytest.raises(libtile.CompilationError, match=message) as error:
        wrong_format[(1,)](np.zeros((16, 16), np.uint8), np.zeros(1), FORMAT=form, OUT=out)
    assert "test_kernels_float8.py" in str(error.value)


# ---- what is refused

@libtile.jit
def refused(x, out, WHAT: tl.constexpr):
    a = tl.load(x.to(tl.pointer_type(tl.float8e4nv)) + tl.arange(0, 16))
    if WHAT == "to integer":
        a.to(tl.int32)
    elif WHAT == "from integer":
        tl.arange(0, 16).to(tl.float8e5)
    elif WHAT == "to bool":
        a.to(tl.int1)
    elif WHAT == "condition":
        tl.where(a, 1, 2)
    elif WHAT == "with integer":
        a + tl.arange(0, 16)
    elif WHAT == "bits":
        a & a
    elif WHAT == "bitcast":
        a.to(tl.float16, bitcast=True)
    elif WHAT == "one operand":
        tl.dot(tl.zeros((16, 16), tl.float8e5), tl.zeros((16, 16), tl.float16))
    elif WHAT == "atomic":
        tl.atomic_add(x.to(tl.pointer_type(tl.float8e5)), 1.0)
    elif WHAT == "not narrower":
        a.to(tl.float16, fp_downcast_rounding="rtz")


@pytest.mark.parametrize("what, message", [
    ("to integer", "cannot cast fp8e4nv to int32; cast to fp32 first"),
    ("from integer", "cannot cast int32 to fp8e5; cast to fp32 first"),
    ("to bool", "cannot cast fp8e4nv to int1; cast to fp32 first"),
    ("condition", "cannot cast fp8e4nv to int1; cast to fp32 first"),
    ("with integer", "operands of type fp8e4nv and int32 have no common type"),
    ("bits", r"operator & does not take tensor of fp8e4nv\[16\]"),
    ("bitcast", "cannot bitcast fp8e4nv to fp16: their widths differ"),
    ("one operand", "the operands of dot must have one type, got fp8e5 and fp16"),
    ("atomic", "atomic_add takes pointers to integers of 8 to 64 bits or floats of 16 to 64, got"),
    ("not narrower", "fp_downcast_rounding takes a cast to a narrower float"),
])
def test_what_triton_refuses_is_an_error_in_its_place(what, message):
    with pytest.raises(libtile.CompilationError, match=message) as error:
        refused[(1,)](np.zeros(16, np.uint8), np.zeros(16, np.uint8), WHAT=what)
    assert "test_kernels_float8.py" in str(error.value) and "^" in str(error.value)


# ---- types as objects

@libtile.jit
def attributes(out, F: tl.constexpr, BITS: tl.constexpr, BIAS: tl.constexpr):
    tl.static_assert(F.is_fp8() and F.is_floating() and not F.is_standard_floating() and not F.is_int())
    tl.static_assert(F.primitive_bitwidth == 8 and F.itemsize == 1)
    tl.static_assert(F.fp_mantissa_width == BITS and F.exponent_bias == BIAS)
    tl.static_assert(F.is_fp8e5() == (F == tl.float8e5) and F.is_fp8e4nv() == (F == tl.float8e4nv))
    tl.static_assert(F != tl.int8 and F != tl.uint8 and not tl.int8.is_fp8() and not tl.float16.is_fp8())
    tl.store(out, 1)


@formats
def test_types(name):
    bits, bias, _, _ = FORMATS[name]
    out = np.zeros(1, np.int32)
    attributes[(1,)](out, F=TYPES[name], BITS=bits, BIAS=bias)
    assert out[0] == 1
    dtype = TYPES[name]
    assert dtype.name == "fp8" + name.removeprefix("float8") and dtype.primitive_bitwidth == 8
    assert dtype.is_fp8() and dtype.is_floating() and not dtype.is_standard_floating()
