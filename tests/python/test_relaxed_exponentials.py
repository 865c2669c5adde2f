# SPDX-License-Identifier: Apache-2.0
"""Exponentials whose results end in 16 bits (passes/gpu/relax_exponentials.h), by bounds that follow from the arithmetic, and
those that stay exact because errors would grow on the way."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, F64, TINY, OnDevice, poisoned, softmax

import libtile
import libtile.language as tl

EXACT, POWER = "0f3BBB989D", "ex2.approx.ftz.f32"  # log2(e) / 252, which only the exact one has, and what both have
UNIT = {F16: 2.0**-10, BF16: 2.0**-7}              # of the last place of 1
INFINITE = {F16: 65520.0, BF16: float.fromhex("0x1.ffp127")}  # from there on: half a unit beyond the largest number
LEAST = {F16: 2.0**-14, BF16: 2.0**-126}           # normal number
LOST = 2.0**-126                                   # below it powers are 0

everywhere = pytest.mark.parametrize("device", DEVICES)
narrow = pytest.mark.parametrize("dtype", [F16, BF16], ids=["fp16", "bf16"])


def relative(x):
    """By how much of itself a power of fp32 may be off: its exponent is rounded, times a rounded factor; 2.5 units."""
    y = np.minimum(np.abs(np.asarray(x, F64)) / np.log(2), 150)
    rounded = 2.0 ** (np.floor(np.log2(np.maximum(y, 2.0**-30))) - 24)
    return np.log(2) * (rounded + y * 2.0**-26) + 2.5 * 2.0**-23


def assert_near(got, want, dtype, error, lost=0.0):
    """Rounded once to the type, beside an error relative to the result and one that is absolute."""
    got, want = np.broadcast_arrays(np.asarray(got, F64), want)
    error, lost = np.broadcast_to(error, want.shape), np.broadcast_to(lost, want.shape)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    beyond = np.abs(want) > INFINITE[dtype] * (1 + error)
    np.testing.assert_array_equal(got[beyond], np.sign(want[beyond]) * np.inf)
    inside = np.abs(want) < INFINITE[dtype] * (1 - error)
    got, want, error, lost = got[inside], want[inside], error[inside], lost[inside]
    unit = 2.0 ** np.floor(np.log2(np.maximum(np.abs(want), LEAST[dtype]))) * UNIT[dtype]
    assert (np.abs(got - want) <= unit / 2 + error * np.abs(want) + lost).all()


@libtile.jit
def functions(x, out, n, BLOCK: tl.constexpr, WHICH: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n, other=0.0).to(tl.float32)
    if WHICH == "exp":
        r = tl.exp(a)
    elif WHICH == "sigmoid":
        r = tl.sigmoid(a)
    elif WHICH == "silu":
        r = a / (1 + tl.exp(-a))
    elif WHICH == "product":
        r = tl.exp(a) * tl.exp(a * 0.5)
    elif WHICH == "square":
        e = tl.exp(a * 0.25)
        r = (e * e) * (e * e)
    else:
        r = tl.exp(a) / tl.exp(a * 0.5)
    tl.store(out + i, r, i < n)


# Of the exact number, and how many exponentials of which part of it are multiplied.
FUNCTIONS = {"exp": (np.exp, [1]), "sigmoid": (lambda v: 1 / (1 + np.exp(-v)), [1]), "silu": (lambda v: v / (1 + np.exp(-v)), [1]),
             "product": (lambda v: np.exp(1.5 * v), [1, 0.5]), "square": (np.exp, [0.25] * 4), "quotient": (lambda v: np.exp(v / 2), [1, 0.5])}


@everywhere
@narrow
@pytest.mark.parametrize("source", [F16, BF16, F32], ids=["of_fp16", "of_bf16", "of_fp32"])
@pytest.mark.parametrize("which", list(FUNCTIONS))
def test_functions_of_every_number_of_16_bits(device, dtype, source, which):
    """Of fp16 and bf16 all, of fp32 as many, beside the ends."""
    if source is F32:
        ends = [np.inf, -np.inf, np.nan, 0, -0.0, 88.72283, 88.72284, -87.336, -87.337, 11.089, 11.090, -17.32, -17.33, 1e-40, 3e38, -3e38]
        x = np.concatenate([ends, np.random.default_rng(1).uniform(-95, 95, 20000)]).astype(F32)
    else:
        x = np.arange(65536, dtype=np.uint16).view(source)
    on = OnDevice(device)
    out = on(poisoned(x.size, dtype))
    functions[(libtile.cdiv(x.size, 1024),)](on(x), out, x.size, BLOCK=1024, WHICH=which)
    exact, parts = FUNCTIONS[which]
    with np.errstate(all="ignore"):
        wide = x.astype(F64)
        want = exact(wide)
        error = sum(relative(wide * part) for part in parts) + 5 * 2.0**-24
    # Where an exponential is infinite or lost a quotient is 0, or nothing.
    used = np.abs(wide) < 87 if which == "quotient" else np.ones(x.size, bool)
    lost = LOST * np.maximum(1, np.abs(np.where(np.isfinite(wide), wide, 0)))
    assert_near(on.back(out)[used], want[used], dtype, error[used], np.minimum(lost, 2.0**-110)[used])


@everywhere
@narrow
@pytest.mark.parametrize("cols", [1, 77, 1024, 12672])
def test_softmax(device, dtype, cols):
    x = (np.random.default_rng(cols).standard_normal((3, cols)) * [[1], [8], [40]]).astype(dtype)
    x[:, ::7] = -np.inf if cols > 1 else x[:, ::7]
    on = OnDevice(device)
    out = on(poisoned(x.shape, dtype))
    softmax.run(on(x), out)
    wide = x.astype(F32)
    wide = (wide - wide.max(1, keepdims=True)).astype(F64)
    power = np.exp(wide)
    # Sums of a thread's elements and of threads round at most 64 times.
    error = 2 * relative(150.0) + 70 * 2.0**-24
    assert_near(on.back(out), power / power.sum(1, keepdims=True), dtype, error, LOST)


@libtile.jit
def weights_by_blocks(x, out, cols, BLOCK: tl.constexpr):
    """A softmax whose sum a loop carries, of an even number of columns: that there is one block is no guard."""
    cols = cols // 2 * 2
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    most, total = -float("inf"), 0.0
    for start in range(0, cols, BLOCK):
        a = tl.load(x + row * cols + start + i, start + i < cols, other=-float("inf"))
        now = tl.maximum(most, tl.max(a, 0))
        total = total * tl.exp(most - now) + tl.sum(tl.exp(a - now), 0)
        most = now
    for start in range(0, cols, BLOCK):
        a = tl.load(x + row * cols + start + i, start + i < cols, other=-float("inf"))
        tl.store(out + row * cols + start + i, tl.exp(a - most) / total, start + i < cols)


@everywhere
@narrow
def test_a_sum_that_a_loop_carries(device, dtype):
    cols = 1000
    x = np.sort(np.random.default_rng(2).uniform(-60, 60, (3, cols)).astype(F32), axis=1)  # each block has the largest so far
    on = OnDevice(device)
    out = on(poisoned(x.shape, dtype))
    weights_by_blocks[(3,)](on(x), out, cols, BLOCK=64)
    power = np.exp((x - x.max(1, keepdims=True)).astype(F64))
    # Of 16 blocks the terms that count are scaled few times: the exact one's 2 units, and differences of fp32 between.
    error = 2 * relative(150.0) + 200 * 2.0**-24
    assert_near(on.back(out), power / power.sum(1, keepdims=True), dtype, error, LOST)


@libtile.jit
def both_widths(x, wide, narrow, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x + i, i < n, other=0.0))
    tl.store(wide + i, e, i < n)
    tl.store(narrow + i, e, i < n)


@everywhere
def test_what_is_stored_in_32_bits_too_stays_exact(device):
    x = np.random.default_rng(3).uniform(-87, 88, 10000).astype(F32)
    on = OnDevice(device)
    wide, narrow = on(poisoned(x.size, F32)), on(poisoned(x.size, F16))
    both_widths[(10,)](on(x), wide, narrow, x.size, BLOCK=1024)
    got, want = on.back(wide), np.exp(x.astype(F64))
    assert (np.abs(got - want) <= 2 * np.spacing(want.astype(F32))).all()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(on.back(narrow), got.astype(F16))


@libtile.jit
def near_nothing(x, out, n, SCALE: tl.constexpr, LOGARITHM: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x + i, i < n, other=0.0)) * SCALE
    tl.store(out + i, tl.log(e) if LOGARITHM else e - 1, i < n)


@everywhere
@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize("middle", [0, 80])
def test_what_cancels_stays_exact(device, logarithm, middle):
    """Near 1 a difference and a logarithm are as far off as what goes in, 7e-6 if it is relaxed: more than these have room for."""
    scale = float(F32(np.exp(-middle)))
    x = (middle + np.random.default_rng(4).uniform(-2e-3, 2e-3, 4000)).astype(F32)
    on = OnDevice(device)
    out = on(poisoned(x.size, F16))
    near_nothing[(4,)](on(x), out, x.size, scale, logarithm, BLOCK=1024)
    e = np.exp(x.astype(F64)) * scale
    # 2 units of the exponential, a product, and a logarithm near 1, or a difference, which is exact.
    assert_near(on.back(out), np.log(e) if logarithm else e - 1, F16, 2.0**-22, 2.6 * 2.0**-23 + (2.0**-21 if logarithm else 0) + TINY[F16])


@libtile.jit
def larger(a, i, b, j):
    return tl.maximum(a, b), tl.where((a > b) | ((a == b) & (i < j)), i, j)


@libtile.jit
def places(x, most, where, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    value, place = tl.reduce((tl.exp(tl.load(x + row * BLOCK + i)), i), 0, larger)
    tl.store(most + row, value * 2.0**-10)
    tl.store(where + row, place)


@everywhere
def test_what_a_reduction_compares_stays_exact(device, rows=100, block=64):
    """Neighbours of fp32 near 15.5, of which powers of rounded exponents would often be equal."""
    rng = np.random.default_rng(5)
    x = np.stack([rng.permutation(block) for _ in range(rows)]) * 2.0**-20 + rng.integers(0, 2**10, (rows, 1)) * 2.0**-11 + 15.25
    x = x.astype(F32)
    on = OnDevice(device)
    most, where = on(poisoned(rows, F16)), on(poisoned(rows, np.int32))
    places[(rows,)](on(x), most, where, BLOCK=block)
    np.testing.assert_array_equal(on.back(where), x.argmax(1))
    assert_near(on.back(most), np.exp(x.max(1).astype(F64)) * 2.0**-10, F16, 2.0**-22)


def code(kernel, *arguments, **options):
    return kernel.warmup(*arguments, grid=(1,), target="sm_90a", **options).asm["ptx"]


def test_instructions():
    for which in FUNCTIONS:
        text = code(functions, "*fp16", "*fp16", "i32", BLOCK=128, WHICH=which)
        assert POWER in text and EXACT not in text, which
        text = code(functions, "*fp16", "*fp32", "i32", BLOCK=128, WHICH=which)
        assert EXACT in text, which
    for logarithm in (False, True):
        assert EXACT in code(near_nothing, "*fp32", "*fp16", "i32", SCALE=1.5, LOGARITHM=logarithm, BLOCK=128)
    shapes = dict(BLOCK=1024)
    assert EXACT not in code(softmax.softmax, "*fp16", "*fp16", "i32", "i32", "i32", "i32", **shapes)
    assert EXACT in code(softmax.softmax, "*fp32", "*fp32", "i32", "i32", "i32", "i32", **shapes)
    # The weights are relaxed, and their sum; the factor of a loop's sum is not, since each iteration multiplies by it.
    assert code(weights_by_blocks, "*fp32", "*bf16", "i32", BLOCK=32, num_warps=1).count(EXACT) == 1
