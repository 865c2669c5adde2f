# SPDX-License-Identifier: Apache-2.0
"""The kernels of the later lessons as a GPU would run them, assembled by NVIDIA's ptxas: no spills, and nothing that
their configuration does not need is done in a slower way."""
import importlib
import re

import numpy as np
import pytest
from spine import matmul  # noqa: F401  it finds the lessons
from test_ptx import PTXAS, assemble, compiled_for, opcodes

import libtile
import libtile.language as tl
from libtile.tools.tensor_descriptor import TensorDescriptor

layer_norm, attention, libdevice, grouped, persistent, scaled, scans, search = (importlib.import_module(name) for name in (
    "05_layer_norm", "06_attention", "07_libdevice", "08_grouped_gemm", "09_persistent_matmul", "10_block_scaled_matmul",
    "11_scan_and_sort", "13_semantic_search"))


def descriptor(*block):
    return TensorDescriptor.from_tensor(np.zeros((512, 512), np.float16), list(block))


ROOM = "2 stages instead of 3: no room in shared memory"
HEADS = {"D": 64, "BLOCK_M": 64, "BLOCK_N": 64}
TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8}
KERNELS = {
    "activation": (matmul.matmul, ["*fp16:16"] * 3 + ["i32:16"] * 3 + ["i32:16", 1] * 3,
                   {**TILE, "BLOCK_N": 256, "num_stages": 3, "GROUP_M": 8, "ACTIVATION": matmul.leaky_relu}),
    "layer_norm_backward": (layer_norm.layer_norm_backward, ["*fp32:16"] * 8 + ["i32", "i32:16"],
                            {"BLOCK": 4096, "num_warps": 16}),
    "add_parts": (layer_norm.add_parts, ["*fp32:16"] * 4 + ["i32", "i32:16"], {"BLOCK": 128}),
    "attention": (attention.attention, ["*fp16:16"] * 4 + ["*fp32:16", "i32:16", "fp32"],
                  {**HEADS, "BLOCK_M": 128, "CAUSAL": False}),
    "attention_causal": (attention.attention, ["*fp16:16"] * 4 + ["*fp32:16", "i32", "fp32"], {**HEADS, "CAUSAL": True}),
    "attention_backward": (attention.attention_backward,
                           ["*fp16:16"] * 4 + ["*fp32:16"] * 3 + ["*fp16:16"] * 2 + ["i32:16", "fp32"],
                           {**HEADS, "CAUSAL": True}),
    "row_products": (attention.row_products, ["*fp16:16"] * 2 + ["*fp32:16", "i32"], {"D": 64, "BLOCK": 64}),
    "distance": (libdevice.distance, ["*fp32:16"] * 5 + ["i32:16"], {"BLOCK": 1024, "num_warps": 4}),
    "interval_products": (libdevice.interval_products, ["*fp32:16"] * 6 + ["i32:16"], {"BLOCK": 1024}),
    "grouped": (grouped.grouped_matmul, ["*i64:16"] * 3 + ["*i32:16", "i32"],
                {**TILE, "DTYPE": tl.float16, "ALIGNED": True}),
    "persistent": (persistent.persistent_matmul,
                   [descriptor(128, 64), descriptor(64, 256), descriptor(128, 256)] + ["i32:16"] * 3,
                   {"GROUP_M": 8, "num_warps": 8, "num_stages": 3}),
    "scaled_e2m1": (scaled.scaled_matmul, ["*u8:16"] * 4 + ["*fp32:16"] + ["i32:16"] * 3, {**TILE, "FORMAT": "e2m1"}),
    "recurrence": (scans.recurrence, ["*fp32:16"] * 3 + ["i32", "i32"], {"ROWS": 4, "BLOCK": 128}),
    "nucleus": (scans.nucleus, ["*fp32:16"] * 2 + ["i32:16", "fp32"], {"BLOCK": 4096, "num_warps": 16}),
    "model_embed": (search.embed, ["*i32:16"] * 2 + ["*fp16:16"] * 5 + ["i32", "fp32"], {"WIDTH": 384, "ROWS": 4}),
    "model_norm": (search.layer_norm, ["*fp16:16"] * 4 + ["i32", "fp32"], {"WIDTH": 384, "ROWS": 4}),
    "model_linear": (search.linear, ["*fp16:16"] * 5 + ["i32", "i32:16", "i32:16"],
                     {"ACTIVATION": search.gelu, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}),
    "model_attention": (search.attention, ["*fp16:16", "*i32:16", "*fp16:16", "fp32"],
                        {"WIDTH": 384, "HEAD": 32, "BLOCK": 16}),
    "model_pool": (search.pool, ["*fp16:16", "*i32:16", "*fp32:16"], {"WIDTH": 384, "BLOCK": 16}),
    "model_similarity": (search.similarity, ["*fp32:16"] * 3 + ["i32"], {"WIDTH": 384, "BLOCK": 16}),
}


TARGETS = [name for name in libtile.targets() if name.startswith("sm_")]
# Matrix units, copies ahead by tensor maps or by threads, reads of matrices, as the disassembler calls them.
OPCODES = {"HMMA", "HGMMA", "UTMALDG", "LDGSTS", "LDSM"}
EXPECTED = {"sm_75": {"HMMA", "LDSM"}, **dict.fromkeys(("sm_80", "sm_86", "sm_89"), {"HMMA", "LDGSTS", "LDSM"}), "sm_90a": {"HGMMA", "UTMALDG"}}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["activation", "attention"])
def test_machine_code_has_what_the_architecture_has(name, target, tmp_path):
    compiled = compiled_for(target, *KERNELS[name])
    if compiled is None:
        return
    assert opcodes(compiled.asm["ptx"], target, tmp_path) & OPCODES == EXPECTED.get(target, {"HMMA", "UTMALDG", "LDSM"})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_assembles_without_spills(name, target, tmp_path):
    assert PTXAS is not None, "no ptxas: ./dev installs nvidia-cuda-nvcc"
    compiled = compiled_for(target, *KERNELS[name])
    if compiled is None:
        return
    # Tiles meant for others: a thread of Turing's holds a turn's loads beside its sums, and has no unit for bf16; 99 KiB hold
    # two stages of the largest.
    is_turing = target == "sm_75"
    assert assemble(compiled.asm["ptx"], target, tmp_path) <= (128 if is_turing else 0)
    expected = {"sm_75": "no matrix instruction multiplies bf16", "sm_86": ROOM, "sm_89": ROOM, "sm_120": ROOM}
    assert all(target in expected and expected[target] in each for each in compiled.fallbacks), compiled.fallbacks
    is_dot = name in ("activation", "grouped", "persistent", "model_linear", "model_attention") or name.startswith(("attention", "scaled"))
    is_dot = is_dot and not (is_turing and compiled.fallbacks)
    assert bool(re.search(r"mma\.sync|wgmma\.mma_async", compiled.asm["ptx"])) == is_dot


@pytest.mark.parametrize("target", ("sm_80", "sm_86", "sm_89"))
@pytest.mark.parametrize("which", ("attention", "product"))
def test_tiles_that_need_more_than_all_registers_get_all_of_them(which, target, tmp_path):
    """ptxas gives up where it is not told how many programs a multiprocessor holds: 32 registers, and 8,000 to 24,000 bytes of spills."""
    if which == "attention":
        kernel, types, options = attention.attention, ["*fp16:16"] * 4 + ["*fp32:16", "i32", "fp32"], {
            "D": 128, "BLOCK_M": 128, "BLOCK_N": 64, "CAUSAL": True, "num_warps": 4, "num_stages": 2}
    else:
        kernel, types, options = matmul.matmul, ["*fp16:16"] * 3 + ["i32"] * 3 + ["i32:16", 1] * 3, {
            "BLOCK_M": 192, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}
    ptx = kernel.warmup(*types, grid=(1,), target=target, **options).asm["ptx"]
    assert ".minnctapersm" in ptx and assemble(ptx, target, tmp_path) < 4000
