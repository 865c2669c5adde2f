# SPDX-License-Identifier: Apache-2.0
"""The inner loop of the lesson's matmul, in the assembly of whole compiles: no spills, sums in registers."""
import re

import pytest

from spine import fewest_rows, matmul

MULTIPLY = re.compile(r"\b(vfmadd\w+|vdpbf16ps|vpdpwssd|vpdpbusd|vpmaddwd)\b")


def inner_loops(assembly, multiply=MULTIPLY):
    """Blocks that jump back to their own label and multiply."""
    loops = []
    label, lines = None, []
    for line in assembly.splitlines():
        if re.match(r"^\.LBB\w+:", line):
            label, lines = line.split(":")[0], []
            continue
        lines.append(line)
        if label and re.match(rf"\s+j\w+\s+{re.escape(label)}\b", line):
            if any(multiply.search(each) for each in lines):
                loops.append(lines)
            label, lines = None, []
    return loops


@pytest.mark.parametrize("tiles", [(192, 256, 64), (128, 256, 64), (128, 128, 32), (64, 64, 32)])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16", "i8"])
@pytest.mark.parametrize("target", ["avx512bf16", "x86-64-v3"])
def test_no_spill_in_the_inner_loop(target, dtype, tiles):
    block_m, block_n, block_k = tiles
    out = "i32" if dtype == "i8" else dtype
    kernel = matmul.matmul.warmup(
        f"*{dtype}", f"*{dtype}", f"*{out}", *["i32"] * 3, *["i32", 1] * 3, grid=(1,), target=target,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8)
    loops = inner_loops(kernel.asm["asm"])
    rows, columns = (int(re.search(rf"\b{name}=(\d+)", kernel.asm["nested"])[1]) for name in ("block_m", "block_n"))
    counts = [len(MULTIPLY.findall("\n".join(loop))) for loop in loops]
    lanes = 16 if target == "avx512bf16" else 8
    assert max(counts) == rows * columns // lanes >= 8, counts
    for loop in loops:
        text = "\n".join(loop)
        assert "(%rsp" not in text, text
        of_bias = "vpdpbusd" in text and "broadcast" not in text  # one row, with a constant for a
        many = len(MULTIPLY.findall(text))
        assert many >= (1 if of_bias else 8) or many == fewest_rows(kernel), text  # a vector of the last columns meets all rows
    if dtype == "i8" and target == "avx512bf16":
        assert "vpdpbusd" in kernel.asm["asm"] and "vpdpwssd" not in kernel.asm["asm"]


@pytest.mark.parametrize("dtype, instruction", [("bf16", "tdpbf16ps"), ("i8", "tdpbssd")])
def test_tiles_of_amx(dtype, instruction):
    """Two tiles of each operand for four multiply-adds, and nothing else in memory."""
    out = "i32" if dtype == "i8" else "fp32"
    kernel = matmul.matmul.warmup(
        f"*{dtype}", f"*{dtype}", f"*{out}", *["i32"] * 3, *["i32", 1] * 3, grid=(1,), target="amx",
        BLOCK_M=192, BLOCK_N=256, BLOCK_K=64, GROUP_M=8)
    assembly = kernel.asm["asm"]
    loops = inner_loops(assembly, re.compile(rf"\b{instruction}\b"))
    assert len(loops) == 1
    text = "\n".join(loops[0])
    assert text.count(instruction) == 4 and text.count("tileloadd") == 4, text
    assert not [line for line in loops[0] if "(" in line and "lea" not in line and "tileloadd" not in line], text
    assert "ldtilecfg" in assembly and "tilerelease" in assembly
    assert "vpdpbusd" not in assembly and "vdpbf16ps" not in assembly
