# SPDX-License-Identifier: Apache-2.0
"""The texts of our writer of PTX (codegen/nvidia/ptx/) assemble without spills and feed the units."""
import re

import pytest
import test_lessons_ptx
import test_ptx

import libtile
import libtile.language as tl

LISTS = {"spine": test_ptx, "lessons": test_lessons_ptx}
CASES = [(which, name) for which, module in LISTS.items() for name in module.KERNELS]


def text(which, name, target):
    kernel, types, constants = LISTS[which].KERNELS[name]
    kernel.clear()
    compiled = kernel.warmup(*types, grid=(1,), target=target, **constants)
    kernel.clear()
    return compiled.asm["ptx"]


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("which, name", CASES)
def test_assembles_without_spills(which, name, target, tmp_path):
    ptx = text(which, name, target)
    assert test_lessons_ptx.assemble(ptx, target, tmp_path) <= (128 if target == "sm_75" else 0)  # as in test_lessons_ptx.py


@pytest.mark.parametrize("name", ["matmul_f16", "matmul_int8"])
def test_sums_of_matrices_keep_their_registers(name):
    """What wgmma adds to goes round the loop without copies between its registers."""
    ptx = text("spine", name, "sm_90a")
    loop = ptx[ptx.index("wgmma.mma_async"):]
    assert len(re.findall(r"mov\.b32 %r\d+, %r\d+;", loop[:loop.index("bra ")])) < 32


@libtile.jit
def single_bits(x, y, out):
    i = tl.arange(0, 32)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.minimum(a, b))
    tl.store(out + 32 + i, tl.maximum(a, b))
    tl.store(out + 64 + i, a << b)


def test_single_bits(tmp_path):
    """Minima of bools are logic, and what is shifted by False stays."""
    ptx = single_bits.warmup("*i1", "*i1", "*i1", grid=(1,), target="sm_90a").asm["ptx"]
    assert test_lessons_ptx.assemble(ptx, "sm_90a", tmp_path) == 0
    assert len(re.findall(r"and\.pred", ptx)) >= 2


@libtile.jit
def high_products(x, out, NUMBER: tl.constexpr):
    i = tl.arange(0, 32)
    number = tl.full((32,), NUMBER, x.dtype.element_ty)
    tl.store(out + i, tl.umulhi(number, tl.load(x + i)))


@pytest.mark.parametrize("bits", [32, 64])
def test_high_products_of_numbers(bits):
    ptx = high_products.warmup(f"*u{bits}", f"*u{bits}", NUMBER=0x9E3779B9, grid=(1,), target="sm_90a").asm["ptx"]
    assert f"mul.hi.u{bits}" in ptx


@libtile.jit
def libtile_fmod_f32(x, y, out):
    i = tl.arange(0, 32)
    tl.store(out + i, tl.load(x + i) % tl.load(y + i))


def test_a_kernel_named_like_a_function_that_it_calls(tmp_path):
    ptx = libtile_fmod_f32.warmup("*fp32", "*fp32", "*fp32", grid=(1,), target="sm_90a").asm["ptx"]
    assert test_lessons_ptx.assemble(ptx, "sm_90a", tmp_path) == 0
