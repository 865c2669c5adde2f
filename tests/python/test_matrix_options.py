# SPDX-License-Identifier: Apache-2.0
"""The options matrix_instr_nonkdim and kpack, of AMD's GPUs: the numbers (of other devices, too, which drop them), the instructions, and
what is said where there is no such instruction."""
import re

import float8
import numpy as np
import pytest
from test_amd import known
from spine import BF16, DEVICES, F16, F64, OnDevice, poisoned

import libtile
import libtile.language as tl

ROWS = (16, 32)
I8 = np.int8
types = pytest.mark.parametrize("kind", ["fp16", "bf16", "i8", "float8e4b8", "float8e5b16", "float8e4nv", "float8e5"])


@libtile.jit
def product(x, y, out, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    sums = tl.zeros((M, N), ACC)
    for i in range(0, depth, K):
        a = tl.load(x + m[:, None] * depth + (i + k)[None, :], (i + k < depth)[None, :], 0)
        b = tl.load(y + (i + k)[:, None] * N + n[None, :], (i + k < depth)[:, None], 0)
        if F is not None:
            a, b = a.to(F, bitcast=True), b.to(F, bitcast=True)
        sums = tl.dot(a, b, sums, out_dtype=ACC)
    tl.store(out + m[:, None] * N + n[None, :], sums)


@libtile.jit
def chained(x, y, out, count, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """As attention: the sums of a dot are the left operand of the next."""
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    a = tl.load(x + m[:, None] * D + d)
    sums = tl.zeros((M, D), tl.float32)
    for i in range(0, count, N):
        b = tl.load(y + (i + n)[:, None] * D + d)
        sums = tl.dot(tl.maximum(tl.dot(a, tl.trans(b)), 0).to(b.dtype), b, sums)
    tl.store(out + m[:, None] * D + d, sums)


def constants(kind, **tile):
    return {"F": float8.TYPES.get(kind), "ACC": tl.int32 if kind == "i8" else tl.float32, **tile}


def compiled(target, kind, **options):
    pointer = f"*{'u8' if kind in float8.TYPES else kind}:16"
    return product.warmup(pointer, pointer, "*i32:16" if kind == "i8" else "*fp32:16", "i32:16", **constants(kind, M=64, N=64, K=64), target=target,
                          grid=(1,), num_warps=4, **options)


def numbers(kind, shape, rng):
    """What a kernel is given, and what that is."""
    small = rng.integers(-3, 4, shape)
    if kind in float8.TYPES:
        return float8.encode(kind, small), small.astype(F64)
    dtype = {"fp16": F16, "bf16": BF16, "i8": I8}[kind]
    return small.astype(dtype), small.astype(F64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kpack", [0, 1, 2])
@pytest.mark.parametrize("rows", ROWS)
@types
def test_numbers(device, kind, rows, kpack):
    rng = np.random.default_rng(rows)
    for m, n, k, depth in ((64, 128, 64, 150), (16, 16, 32, 64), (8, 64, 16, 16)):
        (x, left), (y, right) = numbers(kind, (m, depth), rng), numbers(kind, (depth, n), rng)
        on = OnDevice(device)
        out = on(poisoned((m, n), np.int32 if kind == "i8" else np.float32))
        product[(1,)](on(x), on(y), out, depth, **constants(kind, M=m, N=n, K=k), matrix_instr_nonkdim=rows, kpack=kpack)
        np.testing.assert_array_equal(on.back(out).astype(F64), left @ right)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kpack", [0, 1, 2])
@pytest.mark.parametrize("rows", ROWS)
def test_numbers_of_chains(device, rows, kpack):
    rng = np.random.default_rng(rows)
    x, y = rng.integers(-2, 3, (64, 32)), rng.integers(-2, 3, (128, 32))
    on = OnDevice(device)
    out = on(poisoned((64, 32), np.float32))
    chained[(1,)](on(x.astype(F16)), on(y.astype(F16)), out, 128, M=64, N=64, D=32, matrix_instr_nonkdim=rows, kpack=kpack)
    np.testing.assert_array_equal(on.back(out), np.maximum(x @ y.T, 0) @ y)


def products(made):
    """Its matrix instructions, of each what its name says of its shape and types."""
    return set(re.findall(r"v_mfma_(\S+)", made.asm["asm"]))


def wide_reads(made):
    """Of LDS, 16 bytes a lane."""
    return made.asm["asm"].count("ds_read_b128")


# Of 16 and of 32 rows. Formats that a target has no instruction for are multiplied as fp16.
CODE = {
    ("gfx90a", "fp16"): ("f32_16x16x16f16", "f32_32x32x8f16"), ("gfx90a", "bf16"): ("f32_16x16x16bf16_1k", "f32_32x32x8bf16_1k"),
    ("gfx90a", "i8"): ("i32_16x16x16i8", "i32_32x32x8i8"), ("gfx90a", "float8e4nv"): ("f32_16x16x16f16", "f32_32x32x8f16"),
    ("gfx942", "fp16"): ("f32_16x16x16_f16", "f32_32x32x8_f16"), ("gfx942", "bf16"): ("f32_16x16x16_bf16", "f32_32x32x8_bf16"),
    ("gfx942", "i8"): ("i32_16x16x32_i8", "i32_32x32x16_i8"), ("gfx942", "float8e5b16"): ("f32_16x16x32_bf8_bf8", "f32_32x32x16_bf8_bf8"),
    ("gfx942", "float8e5"): ("f32_16x16x16_f16", "f32_32x32x8_f16"),
    ("gfx950", "fp16"): ("f32_16x16x32_f16", "f32_32x32x16_f16"), ("gfx950", "bf16"): ("f32_16x16x32_bf16", "f32_32x32x16_bf16"),
    ("gfx950", "i8"): ("i32_16x16x64_i8", "i32_32x32x32_i8"), ("gfx950", "float8e4nv"): ("f32_16x16x32_fp8_fp8", "f32_32x32x64_f8f6f4"),
}


@pytest.mark.not_interpreted("it compiles for GPUs")
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("target, kind", CODE)
def test_instructions(target, kind, rows):
    made = compiled(known(target), kind, matrix_instr_nonkdim=rows)
    assert made.fallbacks == []
    assert products(made) == {CODE[target, kind][ROWS.index(rows)]}


@pytest.mark.not_interpreted("it compiles for GPUs")
@pytest.mark.parametrize("kind", ["fp16", "i8", "float8e4b8"])
def test_operands_of_two_instructions_are_read_at_once(kind):
    one, two, ours = (compiled("gfx942", kind, kpack=kpack) for kpack in (1, 2, 0))
    assert one.fallbacks == two.fallbacks == []
    assert ours.asm["asm"] == two.asm["asm"]
    assert products(one) == products(two)
    assert one.asm["asm"].count("v_mfma") == two.asm["asm"].count("v_mfma")
    assert wide_reads(two) > wide_reads(one)


NO_ROWS = r": dot by \w+: for this dot {} has no unit of matrix_instr_nonkdim={}$"
NO_GROUPS = r": dot by \w+: kpack=2 changes nothing, since {}"


@pytest.mark.not_interpreted("it compiles for GPUs")
@pytest.mark.parametrize("target, options, said", [
    ("gfx1100", {"matrix_instr_nonkdim": 16}, None), ("gfx1201", {"matrix_instr_nonkdim": 32}, NO_ROWS.format("gfx1201", 32)),
    ("gfx942", {"matrix_instr_nonkdim": 4}, NO_ROWS.format("gfx942", 4)), ("gfx942", {"matrix_instr_nonkdim": 64, "kpack": 2}, NO_ROWS.format("gfx942", 64)),
    ("gfx950", {"kpack": 2}, NO_GROUPS.format("for this dot gfx950 has no unit of as many instructions$")),
    ("gfx1100", {"kpack": 2}, NO_GROUPS.format("for this dot gfx1100 has no unit of as many instructions$")), ("sm_90a", {"matrix_instr_nonkdim": 16, "kpack": 2}, None)])
def test_what_no_unit_does_is_said(target, options, said):
    made, plain = compiled(known(target), "fp16", **options), compiled(target, "fp16")
    assert [bool(re.search(said, line)) for line in made.fallbacks] == [True] if said else made.fallbacks == []
    if target.startswith("gfx") and "kpack" not in options and said:
        assert made.asm["asm"] == plain.asm["asm"]


@pytest.mark.not_interpreted("it compiles for GPUs")
def test_sums_are_taken_as_they_lie():
    one, two = (chained.warmup("*fp16:16", "*fp16:16", "*fp32:16", "i32:16", M=64, N=64, D=32, target="gfx942", grid=(1,), kpack=kpack)
                for kpack in (0, 2))
    assert one.asm["asm"] == two.asm["asm"] and one.fallbacks == [] and len(two.fallbacks) == 1
    assert re.search(NO_GROUPS.format("its left operand is sums of another dot, as these lie$"), two.fallbacks[0])
