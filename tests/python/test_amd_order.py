# SPDX-License-Identifier: Apache-2.0
"""The order in which AMD's waves issue what a loop of dots consists of, read from its assembly: where priority is raised, and what stands
between matrix instructions."""
import importlib
import re

import pytest
import spine  # noqa: F401, which finds the lessons
from test_amd import WAVES, known
from test_ptx import llvm_of_the_build

pytestmark = pytest.mark.not_interpreted("it compiles for GPUs")
MATRIX = r"v_(?:mfma|wmma)_"


def compiled(kernel, name):
    """Lesson 3's product or lesson 6's attention in tiles that the target has room for, by 256 threads."""
    step, waves = (64, 4) if WAVES[known(name)] == 64 else (32, 8)
    if kernel == "product":
        made = importlib.import_module("03_matmul").matmul.warmup(
            *["*fp16:16"] * 3, *["i32:16"] * 3, *["i32:16", 1] * 3, BLOCK_M=128, BLOCK_N=128, BLOCK_K=step, GROUP_M=8, target=name, grid=(1,),
            num_warps=waves)
    else:
        made = importlib.import_module("06_attention").attention.warmup(
            *["*fp16:16"] * 4, "*fp32:16", "i32:16", "fp32", D=64, BLOCK_M=128, BLOCK_N=step, CAUSAL=False, target=name, grid=(1,),
            num_warps=waves)
    return made.asm["asm"]


def instructions(text):
    return re.findall(r"^\t([a-z]\w+)[ \t]*([^;\n]*)", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("kernel, dots", [("product", 1), ("attention", 2)])
def test_matrix_instructions_go_first(kernel, dots, name):
    """From the first to the last of a dot's: beside them other waves of the SIMD compute and load."""
    raised, groups = False, []
    for mnemonic, operands in instructions(compiled(kernel, name)):
        if mnemonic == "s_setprio":
            raised = not raised
            assert operands.strip() == str(int(raised))
            groups += [[]] * raised
        elif raised:
            assert not re.match("s_c?branch", mnemonic), "what comes behind would be raised, too"
            groups[-1] += [] if mnemonic.startswith("s_") else [mnemonic]
        else:
            assert not re.match(MATRIX, mnemonic)
    assert not raised and len(groups) == dots
    assert all(re.match(MATRIX, end) for group in groups for end in (group[0], group[-1]))
    if (llvm_of_the_build() or 22) >= 22:  # the order is LLVM's: 19 reads attention's keys in front of them all
        assert all(any(mnemonic.startswith("ds_") for mnemonic in group) for group in groups), "reads or writes of LDS stand between them"


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize("kernel", ["product", "attention"])
def test_no_wave_goes_first_where_matrices_take_the_valu(kernel, name):
    text = compiled(kernel, name)
    assert re.search(MATRIX, text) and "s_setprio" not in text


@pytest.mark.parametrize("name", [name for name in WAVES if name != "gfx950"])
def test_loads_of_one_mask_share_a_branch(name):
    """Those of a product's two operands, each in front of the loop and in it. CDNA 4 copies them to LDS."""
    masked = [part for part in re.split(r"s_cbranch_execz|\n\.L", compiled("product", name)) if "\tglobal_load_" in part]
    assert [part.count("\tglobal_load_") for part in masked] == [4 if WAVES[name] == 64 else 2] * 4


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_keys_are_read_between_matrix_instructions(name):
    """Waves of RDNA wait for a part of what they read, and multiply it."""
    text = compiled("attention", name)
    dots = text[re.search(MATRIX, text).start():]
    dots = dots[:[match.start() for match in re.finditer(MATRIX, dots)][-1]]
    left = [int(each or hexadecimal, 0) for each, hexadecimal in re.findall(r"s_waitcnt lgkmcnt\((\d+)\)|s_wait_dscnt (0x\w+)", dots)]
    assert sum(count > 0 for count in left) >= 4
