# SPDX-License-Identifier: Apache-2.0
"""The lessons' kernels for AMD's targets, and both compilers of their code. Neither needs a GPU.

Both sides have the same source, tiles and waves: 256 threads a program. A unit of work is one step of the kernel's loop: a block of
k, of keys or of queries, a row, or (without a loop) the whole program.
"""
import importlib
import inspect
import os
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tutorials"))

THREADS = 256
CDNA = ("gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1100", "gfx1201")
TARGETS = CDNA + RDNA


@dataclass(frozen=True)
class Case:
    name: str
    kernel: object       # libtile's
    types: tuple         # as `warmup` takes them
    constants: dict
    arguments: Callable  # of a number of units: what a program of so much work is given, of a pointer the bytes that lie there
    loads: tuple = ()    # of each of the kernel's loops the bytes that a unit reads; none: a kernel without a loop
    flops: int = 0       # of a unit's matrix instructions


def waves(target):
    return THREADS // (64 if target in CDNA else 32)


def _lesson(name):
    return importlib.import_module(name)


def _rows():
    yield Case("add_f32", _lesson("01_vector_add").add, ("*fp32:16",) * 3 + ("i32:16",), {"BLOCK": 1024},
               lambda units: [4096, 4096, 4096, 1024])
    yield Case("softmax_f32", _lesson("02_fused_softmax").softmax, ("*fp32:16",) * 2 + ("i32:16",) * 4, {"BLOCK": 4096},
               lambda units: [4 * 4096 * units] * 2 + [4096, 4096, units, 4096], (4096 * 4,))
    norm = _lesson("05_layer_norm")
    yield Case("layer_norm_f16", norm.layer_norm, ("*fp16:16",) * 4 + ("*fp32:16",) * 2 + ("i32:16",) * 2 + ("fp32",),
               {"BLOCK": 2048}, lambda units: [4096] * 4 + [4, 4, 2048, 2048, 1e-5])  # a row of one step, for which ours has no loops


def _product(depth, size, with_strides=True):
    def arguments(units):
        k = depth * units
        return [128 * k * size] * 2 + [128 * 128 * 4, 128, 128, k] + ([k, 128, 128] if with_strides else [])
    return arguments


def _products(target):
    eight = {"gfx942": "fp8e4b8", "gfx950": "fp8e4nv", "gfx1201": "fp8e4nv"}.get(target)
    k = 64 if target in CDNA else 32
    tile, extents = {"BLOCK_M": 128, "BLOCK_N": 128}, ("i32:16",) * 3
    for kind, result, depth, size in (("fp16", "fp16", k, 2), ("bf16", "bf16", k, 2), ("i8", "i32", 2 * k, 1)):
        yield Case(f"matmul_{kind}", _lesson("03_matmul").matmul, (f"*{kind}:16",) * 2 + (f"*{result}:16",) + extents + ("i32:16", 1) * 3,
                   tile | {"BLOCK_K": depth, "GROUP_M": 8}, _product(depth, size), (256 * depth * size,), 2 * 128 * 128 * depth)
    if eight:  # not the lesson's: Triton takes no integer for what is read beyond the edge of such an array
        yield Case(f"matmul_{eight}", _lesson("product_kernels").batched, (f"*{eight}:16",) * 2 + ("*fp16:16",) + extents,
                   tile | {"BLOCK_K": 2 * k}, _product(2 * k, 1, False), (256 * 2 * k,), 2 * 128 * 128 * 2 * k)


def _attention(target):
    lesson = _lesson("06_attention")
    for d in (64, 128):
        n = 64 if target in CDNA else 32
        yield Case(f"attention_d{d}", lesson.attention, ("*fp16:16",) * 4 + ("*fp32:16", "i32:16", "fp32"),
                   {"D": d, "BLOCK_M": 128, "BLOCK_N": n, "CAUSAL": False},
                   lambda units, n=n, d=d: [2 * n * units * d] * 4 + [4 * n * units, n * units, 0.125], (4 * n * d,), 4 * 128 * n * d)
    # Where there is no such atomic addition, a loop reads dq.
    yield Case("attention_backward_d64", lesson.attention_backward,
               ("*fp16:16",) * 4 + ("*fp32:16",) * 3 + ("*fp16:16",) * 2 + ("i32:16", "fp32"),
               {"D": 64, "BLOCK_M": 64, "BLOCK_N": 64, "CAUSAL": False},
               lambda units: [128 * 64 * units] * 4 + [256 * units] * 2 + [256 * 64 * units] + [128 * 64 * units] * 2 + [64 * units, 0.125],
               (2 * 64 * 64 * 2 + 64 * 64 * 4,), 10 * 64**3)


def cases(target):
    yield from _rows()
    yield from _products(target)
    yield from _attention(target)


def ours(case, target):
    """libtile's kernel, compiled now: nothing that was compiled before is used."""
    case.kernel.clear()
    return case.kernel.warmup(*case.types, grid=(1,), target=target, num_warps=waves(target), **case.constants)


class Triton:
    """Compiles the lessons' own text by Triton, without its cache."""

    def __init__(self):
        linker = shutil.which(f"ld.lld-{os.environ.get('LIBTILE_LLVM', '')}") or shutil.which("ld.lld")
        self.folder = tempfile.TemporaryDirectory(prefix="triton_cache_")
        os.environ.update({"TRITON_ALWAYS_COMPILE": "1", "TRITON_CACHE_DIR": self.folder.name, "TRITON_DEFAULT_FP_FUSION": "1"})
        if linker:
            os.environ.setdefault("TRITON_HIP_LLD_PATH", linker)
        import triton
        self.version, self.twins = triton.__version__, {}

    def source(self, case):
        """What it is given: the text of the kernel, the types of its arguments, and its constants."""
        from kernels import triton_twin
        from triton.compiler import ASTSource
        if case.kernel not in self.twins:
            self.twins[case.kernel] = triton_twin(case.kernel)
        signature, constants, facts = {}, {}, {}
        for position, (name, parameter) in enumerate(inspect.signature(case.kernel.fn).parameters.items()):
            kind = case.types[position] if position < len(case.types) else case.constants.get(name, parameter.default)
            if position < len(case.types) and isinstance(kind, str):
                signature[name] = kind.split(":")[0]
                if kind.endswith(":16"):
                    facts[(position,)] = [["tt.divisibility", 16]]
            else:
                signature[name], constants[name] = "constexpr", kind
        return ASTSource(self.twins[case.kernel], signature, constants, facts)

    def compile(self, source, target):
        import triton
        from triton.backends.compiler import GPUTarget
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return triton.compile(source, target=GPUTarget("hip", target, THREADS // waves(target)), options={"num_warps": waves(target)})
