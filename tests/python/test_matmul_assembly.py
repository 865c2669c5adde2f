# SPDX-License-Identifier: Apache-2.0
"""The inner loop of the lesson's matmul, in the assembly of whole compiles: no spills, sums in registers."""
import re

import pytest

from spine import matmul

MULTIPLY = re.compile(r"\b(vfmadd\w+|vdpbf16ps|vpdpwssd|vpdpbusd|vpmaddwd)\b")


def inner_loops(assembly):
    """Blocks that jump back to their own label and multiply."""
    loops = []
    label, lines = None, []
    for line in assembly.splitlines():
        if re.match(r"^\.LBB\w+:", line):
            label, lines = line.split(":")[0], []
            continue
        lines.append(line)
        if label and re.match(rf"\s+j\w+\s+{re.escape(label)}\b", line):
            if any(MULTIPLY.search(each) for each in lines):
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
    assert loops
    for loop in loops:
        text = "\n".join(loop)
        assert "(%rsp" not in text, text
        of_bias = "vpdpbusd" in text and "broadcast" not in text  # one row, with a constant for a
        assert len(MULTIPLY.findall(text)) >= (1 if of_bias else 8), text
    if dtype == "i8" and target == "avx512bf16":
        assert "vpdpbusd" in kernel.asm["asm"] and "vpdpwssd" not in kernel.asm["asm"]
