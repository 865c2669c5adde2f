# SPDX-License-Identifier: Apache-2.0
"""The spine's kernels at their tutorial configuration, assembled by NVIDIA's ptxas: no GPU is needed.

ptxas comes from the package nvidia-cuda-nvcc; it must take the PTX, and must not spill registers. A
target that the LLVM of this build does not have is a clear error."""
import json
import math
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
import test_messages
from spine import add, layer_norm, matmul, softmax

import libtile
import libtile.language as tl


def program(name):
    """Below this Python's packages, or on the PATH."""
    return next((str(path) for path in Path(sysconfig.get_path("purelib")).glob(f"nvidia/**/bin/{name}")), shutil.which(name))


PTXAS, NVDISASM = program("ptxas"), program("nvdisasm")
TARGETS = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120"]
SINCE = {"sm_100": 20, "sm_100a": 20, "sm_120": 20}  # which LLVM has the target, if not all do


@libtile.jit
def functions(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n, other=1.0)
    r = tl.exp(a) + tl.exp2(a)
    r += tl.log(a) + tl.log2(a)
    tl.store(out + i, r * tl.rsqrt(a), i < n)


@libtile.jit
def running_sums(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))


@libtile.jit
def dropout(x, out, seed, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.where(tl.rand(seed, i) > 0.5, tl.load(x + i) * 2, 0.0))


@libtile.jit
def sorted_rows(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.sort(tl.load(x + i)))


@libtile.jit
def batch(x, y, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    s, m, n, k = tl.arange(0, B)[:, None, None], tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + s * (M * K) + m[None, :, None] * K + k[None, None, :])
    b = tl.load(y + s * (K * N) + k[None, :, None] * N + n[None, None, :])
    product = tl.dot(a, b, input_precision=PRECISION)
    tl.store(out + s * (M * N) + m[None, :, None] * N + n[None, None, :], product)


STRIDES = ["i32:16", 1] * 3
BATCH = {"B": 6, "M": 32, "N": 32, "K": 32, "PRECISION": None}
ROWS = {"BLOCK": 4096}
TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8}
KERNELS = {
    "add_f32": (add.add, ["*fp32"] * 3 + ["i32"], {"BLOCK": 1024}),
    "add_odd_tile": (add.add, ["*fp32"] * 3 + ["i32"], {"BLOCK": 1000}),
    "softmax_f32": (softmax.softmax, ["*fp32"] * 2 + ["i32:16"] * 2 + ["i32"] * 2, ROWS),
    "softmax_f16": (softmax.softmax, ["*fp16"] * 2 + ["i32:16"] * 2 + ["i32"] * 2, ROWS),
    "softmax_f16_16384": (softmax.softmax, ["*fp16"] * 2 + ["i32:16"] * 2 + ["i32"] * 2,
                          {"BLOCK": 16384}),
    "layer_norm_f16": (layer_norm.layer_norm, ["*fp16"] * 4 + ["*fp32"] * 2 + ["i32:16"] * 2 + ["fp32"],
                       ROWS),
    "layer_norm_f16_16384": (layer_norm.layer_norm,
                             ["*fp16"] * 4 + ["*fp32"] * 2 + ["i32:16"] * 2 + ["fp32"],
                             {"BLOCK": 16384}),
    "layer_norm_f32": (layer_norm.layer_norm, ["*fp32"] * 6 + ["i32:16"] * 2 + ["fp32"], ROWS),
    "matmul_f16": (matmul.matmul, ["*fp16"] * 3 + ["i32:16"] * 3 + STRIDES, TILE),
    "matmul_bf16": (matmul.matmul, ["*bf16"] * 3 + ["i32:16"] * 3 + STRIDES, TILE),
    "matmul_int8": (matmul.matmul, ["*i8"] * 2 + ["*i32"] + ["i32:16"] * 3 + STRIDES, TILE),
    "matmul_f32": (matmul.matmul, ["*fp32"] * 3 + ["i32:16"] * 3 + STRIDES,
                   {**TILE, "BLOCK_M": 64, "BLOCK_N": 64}),
    "functions_f16": (functions, ["*fp16"] * 2 + ["i32"], {"BLOCK": 1024}),
    "functions_f32": (functions, ["*fp32"] * 2 + ["i32"], {"BLOCK": 4096}),
    "functions_f64": (functions, ["*fp64"] * 2 + ["i32"], {"BLOCK": 4096}),
    "cumsum_f32": (running_sums, ["*fp32:16"] * 2, {"BLOCK": 1024}),
    "cumsum_f16_odd_tile": (running_sums, ["*fp16"] * 2, {"BLOCK": 1000}),
    # Ten rounds of four numbers each for every element of a thread.
    "dropout_f32_32768": (dropout, ["*fp32:16"] * 2 + ["i32"], {"BLOCK": 32768}),
    "sort_f32": (sorted_rows, ["*fp32:16"] * 2, {"BLOCK": 1024}),
    "sort_i64": (sorted_rows, ["*i64:16"] * 2, {"BLOCK": 4096}),
    "batch_f16": (batch, ["*fp16:16"] * 2 + ["*fp32:16"], BATCH),
    "batch_i8": (batch, ["*i8:16"] * 2 + ["*i32:16"], BATCH),
    "batch_f64": (batch, ["*fp64:16"] * 3, {**BATCH, "B": 2}),
    "batch_tf32x3": (batch, ["*fp32:16"] * 3, {**BATCH, "B": 1, "PRECISION": "tf32x3"}),
    "batch_bf16x6": (batch, ["*fp32:16"] * 3, {**BATCH, "B": 1, "PRECISION": "bf16x6"}),
    "batch_odd_tile": (batch, ["*bf16"] * 2 + ["*fp32"], {**BATCH, "B": 3, "M": 17, "K": 48}),
    "matmul_odd_tile": (matmul.matmul, ["*fp16"] * 3 + ["i32"] * 3 + ["i32", 1] * 3,
                        {**TILE, "BLOCK_M": 17, "BLOCK_N": 5, "BLOCK_K": 3}),
}


def llvm_of_the_build():
    """Major version, from the build folder around the package; None for an installed one."""
    build = Path(libtile.__file__).resolve().parents[2]
    options = build / "meson-info" / "intro-buildoptions.json"
    if not options.exists():
        return None
    return next(int(each["value"]) for each in json.loads(options.read_text()) if each["name"] == "llvm")


def compiled_for(target, kernel, types, constants):
    """None: the LLVM of this build does not have the target, and says so."""
    have, needed = llvm_of_the_build(), SINCE.get(target, 19)
    if have is not None and have < needed:
        with pytest.raises(libtile.UnsupportedError, match=f"{target} needs LLVM {needed}"):
            kernel.warmup(*types, grid=(1,), target=target, **constants)
        return None
    return kernel.warmup(*types, grid=(1,), target=target, **constants)


def assemble(ptx, target, folder):
    """Bytes of spills that ptxas reports."""
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    result = subprocess.run([PTXAS, f"-arch={target}", "-v", str(source), "-o", str(folder / "kernel")],
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert not re.search(r"C75\d\d", result.stderr), f"wgmma is serialised: {result.stderr}"
    assert "will be ignored" not in result.stderr, result.stderr
    spills = [int(word.split()[0]) for line in result.stderr.splitlines() if "spill" in line
              for word in line.split(",") if "spill" in word]
    assert spills, f"ptxas said nothing of spills: {result.stderr}"
    return sum(spills)


def opcodes(ptx, target, folder):
    """Of the machine code, without modifiers."""
    assemble(ptx, target, folder)
    assert NVDISASM is not None, "no nvdisasm: ./dev installs nvidia-cuda-nvdisasm"
    text = subprocess.run([NVDISASM, "-c", str(folder / "kernel")], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z0-9]+)", text, re.M))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_assembles_without_spills(name, target, tmp_path):
    assert PTXAS is not None, "no ptxas: ./dev installs nvidia-cuda-nvcc"
    compiled = compiled_for(target, *KERNELS[name])
    if compiled is None:
        return
    assert assemble(compiled.asm["ptx"], target, tmp_path) == 0


@pytest.mark.parametrize("name, products", [("batch_f16", 1), ("batch_i8", 1), ("batch_f64", 1), ("batch_tf32x3", 3),
                                            ("batch_bf16x6", 6), ("batch_odd_tile", 1)])
def test_batches_go_to_matrix_instructions(name, products):
    """Each warp has slices of its own; instructions of one shape, products times as many as one dot has."""
    kernel, types, constants = KERNELS[name]
    compiled = kernel.warmup(*types, grid=(1,), target="sm_80", num_warps=1, **constants)
    m, n, k = (int(x) for x in re.search(r"mma\.sync\.aligned\.m(\d+)n(\d+)k(\d+)", compiled.asm["ptx"]).groups())
    tiles = math.prod(-(-constants[axis] // unit) for axis, unit in zip("BMNK", (1, m, n, k)))
    assert compiled.asm["ptx"].count("mma.sync") == tiles * products
    assert compiled.fallbacks == []


@pytest.mark.parametrize("name", ["softmax_f16", "matmul_f16", "matmul_int8"])
def test_no_fallback_is_taken(name):
    kernel, types, constants = KERNELS[name]
    assert kernel.warmup(*types, grid=(1,), target="sm_90a", **constants).fallbacks == []


@pytest.mark.parametrize("name, resident", [("softmax_f16_16384", 3), ("layer_norm_f16_16384", 2), ("layer_norm_f16", 6),
                                            ("softmax_f16", 7), ("matmul_f16", None)])
def test_rows_are_in_flight_together(name, resident):
    """A multiprocessor holds several programs, each with the registers that it needs."""
    kernel, types, constants = KERNELS[name]
    ptx = kernel.warmup(*types, grid=(1,), target="sm_90a", **constants).asm["ptx"]
    found = re.search(r"\.minnctapersm (\d+)", ptx)
    assert (int(found.group(1)) if found else None) == resident


def test_a_row_is_multiplied_by_one_reciprocal():
    """x / s takes one product an element where the divisor is far from 0 and infinity: the rest is branched over."""
    kernel, types, constants = KERNELS["softmax_f32"]
    ptx = kernel.warmup(*types, grid=(1,), target="sm_90a", **constants).asm["ptx"]
    assert "div.full" not in ptx
    # The blocks of the function; 32 elements to a thread.
    products = [len(re.findall(r"\bmul(?:\.rn)?\.f32", block)) for block in re.split(r"\$L_\w+:", ptx)]
    assert products.count(32) >= 2, products


@pytest.mark.parametrize("boxes, copy", [(False, "cp.async.cg.shared.global"), (True, "cp.async.bulk.tensor.2d")])
@pytest.mark.parametrize("target, instructions", [("sm_90", ["ldmatrix", "mma.sync.aligned.m16n8k16"]),
                                                  ("sm_90a", ["fence.proxy.async", "wgmma.mma_async"])])
def test_tensor_cores_are_fed_by_copies_ahead(target, instructions, boxes, copy):
    kernel, types, constants = KERNELS["matmul_f16"]
    ptx = kernel.warmup(*types, grid=(1,), target=target, copy_boxes=boxes, **constants).asm["ptx"]
    for instruction in (copy, *instructions):
        assert instruction in ptx


@pytest.mark.parametrize("target, by_matrices", [("sm_89", False), ("sm_90", True)])
def test_what_matrix_units_made_goes_to_shared_memory_by_matrices(target, by_matrices, tmp_path):
    kernel, types, constants = KERNELS["matmul_f16"]
    ptx = kernel.warmup(*(["*fp16:16"] * 3 + types[3:]), grid=(1,), target=target, **constants).asm["ptx"]
    assemble(ptx, target, tmp_path)
    assert ("stmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx) == by_matrices
    assert by_matrices != bool(re.search(r"st\.shared\.b32", ptx))


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("kernel, types, constants", [
    (test_messages.show, ["*i8"], {"M": 3, "N": 5, "K": 7, "HEX": True}),
    (test_messages.show, ["*bf16"], {"M": 1, "N": 2, "K": 129, "HEX": False}),
    (test_messages.show_several, ["*i32", "i64", "fp64"], {"N": 3}),
    (test_messages.flows, ["*i32", "*i32", "i32"], {"N": 100}),
    (test_messages.dots, ["*fp16", "*fp16", "*fp32"], {"K": 48}),
    (test_messages.reduced, ["*i32"], {"N": 8, "M": 20}),
    (test_messages.asserts, ["*i32", "*i32", "i32"], {"N": 1000, "debug": True}),
], ids=["bytes", "bf16", "several", "flows", "dots", "reduced", "asserts"])
def test_messages_go_to_the_driver(kernel, types, constants, target, tmp_path):
    ptx = kernel.warmup(*types, target=target, **constants).asm["ptx"]
    assemble(ptx, target, tmp_path)
    assert ptx.count(".extern .func") == 1
    assert ("__assertfail" if "debug" in constants else "vprintf") in ptx


@libtile.jit(debug=True)
def vprintf(x):
    print("x", tl.load(x))


@libtile.jit(debug=True)
def __assertfail(x):
    assert tl.load(x) > 0


@pytest.mark.parametrize("kernel", [vprintf, __assertfail])
def test_kernels_named_like_functions_of_the_driver(kernel, tmp_path):
    compiled = kernel.warmup("*i32", target="sm_80")
    assert compiled.metadata["symbol"] == "_" + kernel.__name__
    assemble(compiled.asm["ptx"], "sm_80", tmp_path)


@libtile.jit
def libtile_shared(x, out):
    i = tl.arange(0, 256)
    a = tl.load(x + i)
    tl.store(out + i, tl.sort(a) - tl.sum(a, 0))


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_a_kernel_named_like_shared_memory(target):
    """Of which there is one."""
    compiled = libtile_shared.warmup("*i32", "*i32", target=target, num_warps=4)
    assert compiled.metadata["symbol"] == "_libtile_shared"
    assert len(re.findall(r"^@.* addrspace\(3\) global", compiled.asm["llvm"], re.MULTILINE)) == 1


@libtile.jit
def float8_casts(x, out, F: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i).to(F, bitcast=True).to(tl.float32)
    tl.store(out + i, (a * 3).to(F).to(tl.uint8, bitcast=True))


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("name", ["float8e5", "float8e4nv", "float8e4b15", "float8e4b8", "float8e5b16"])
def test_casts_of_8_bit_floats(name, target, tmp_path):
    """One instruction for two elements, where there is one."""
    types = ["*i8:16", "*i8:16"]
    compiled = float8_casts.warmup(*types, grid=(1,), target=target, F=getattr(tl, name), BLOCK=2048, num_warps=4)
    ptx = compiled.asm["ptx"]
    assert assemble(ptx, target, tmp_path) == 0
    native = target != "sm_80"
    assert ptx.count("cvt.rn.f16x2.e4m3x2") == (8 if native and name == "float8e4nv" else 0)
    assert ptx.count("cvt.rn.satfinite.e4m3x2.f32") == (8 if native and name == "float8e4nv" else 0)
    assert ptx.count("cvt.rn.satfinite.e5m2x2.f32") == (8 if native and name == "float8e5" else 0)
    assert ptx.count("ld.global.v4.b32") == ptx.count("st.global.v4.b32") == 1


@libtile.jit
def sums_of_products(x, y, z, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, a * b + c)
    tl.store(out + BLOCK + i, c - a * b)


@pytest.mark.parametrize("name, suffix", [("fp32", "f32"), ("fp64", "f64")])
def test_products_go_into_their_sums(name, suffix):
    """Two sums of a product for each element of a thread, and nothing else that rounds."""
    types = ["*" + name + ":16"] * 4
    ptx = sums_of_products.warmup(*types, grid=(1,), target="sm_90a", BLOCK=128, num_warps=1).asm["ptx"]
    assert ptx.count(f"fma.rn.{suffix}") == 8
    assert not re.search(rf"(mul|add|sub)(\.rn)?\.{suffix}", ptx)


@libtile.jit
def inner_product(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i) * tl.load(y + i), axis=0))


def test_lanes_agree_on_a_sum_of_products():
    """A lane that fused its own product with another's rounded one would get other bits than that lane."""
    types = ["*fp32:16"] * 2 + ["*fp32"]
    one = inner_product.warmup(*types, grid=(1,), target="sm_90a", BLOCK=32, num_warps=1).asm["ptx"]
    assert "fma.rn" not in one and one.count("add.rn.f32") == 5
    four = inner_product.warmup(*types, grid=(1,), target="sm_90a", BLOCK=128, num_warps=1).asm["ptx"]
    # Within a thread products go into sums; what comes from another lane is added as it is.
    assert four.count("fma.rn.f32") == 2
    sums = [re.search(r"(add|fma)[.a-z0-9]*", after)[0] for after in four.split("shfl.sync")[1:]]
    assert sums == ["add.rn.f32"] * 5


@libtile.jit
def copy_rows(x, out, rows, cols, stride, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    mask = (r < rows) & (c < cols)
    tl.store(out + r * stride + c, tl.load(x + r * stride + c, mask), mask)


@pytest.mark.parametrize("m, n, padding", [(4, 128, 0), (3, 120, 1)])
def test_a_mask_is_computed_once_for_equal_elements(m, n, padding):
    """A multiple of 16 columns: the four elements of an access share a compare. Any number: each its own."""
    def counts(cols):
        types = ["*fp32:16", "*fp32:16", "i32", cols, "i32:16"]
        ptx = copy_rows.warmup(*types, grid=(1,), target="sm_90a", M=m, N=n, num_warps=1).asm["ptx"]
        return len(re.findall(r"setp\.[a-z]+\.s32", ptx)), ptx.count("ld.global")

    compares, loads = counts("i32:16")
    assert (compares, loads) == (m + 1 + padding, m)
    compares, loads = counts("i32")
    assert compares >= m + 4 and loads == 4 * m


@libtile.jit
def add_rows(x, y, out, stride, M: tl.constexpr, N: tl.constexpr):
    offsets = tl.arange(0, M)[:, None] * stride + tl.program_id(0) * N + tl.arange(0, N)[None, :]
    tl.store(out + offsets, tl.load(x + offsets) + tl.load(y + offsets))


@pytest.mark.parametrize("stride", ["i32:16", 1])
def test_addresses_are_bases_and_immediates(stride):
    """The arithmetic of addresses does not grow with the tile: one product at most for an access, in
    its own text, and none where the stride is known."""
    def texts(columns):
        types = ["*fp32:16"] * 3 + [stride]
        ptx = add_rows.warmup(*types, grid=(1,), target="sm_90a", M=8, N=columns, num_warps=1).asm["ptx"]
        body = ptx[ptx.index("ld.param"):]
        wide = re.findall(r"\n\t(?:add|mul|shl|cvt|mad)\.[a-z.]*[su]?64", body)
        return len(wide), body.count("mad.wide.s32 a"), len(re.findall(r"(?:ld|st)\.global", body))

    (few, products, accesses), (more, more_products, more_accesses) = texts(128), texts(512)
    assert more_accesses == 4 * accesses
    assert more == few
    assert products == (0 if stride == 1 else accesses * 7 // 8)
    assert more_products == 4 * products


@libtile.jit
def all_types(flag, small, short, number, long, half, single, double, pointer, SHIFT: tl.constexpr):
    total = small + short + number + long + flag.to(tl.int32)
    tl.store(pointer, total.to(tl.float64) + half + single + double + SHIFT)


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_the_entry_has_bare_arguments(warps):
    """Others launch it too (docs/abi.md): a parameter for each argument that is no constant, nothing else."""
    types = ["i1", "i8", "i16", "i32", "i64", "fp16", "fp32", "fp64", "*fp64"]
    ptx = all_types.warmup(*types, grid=(1,), target="sm_90a", SHIFT=3, num_warps=warps).asm["ptx"]
    entry = re.search(r"\.entry\s+[\w.$]+\(([^)]*)\)", ptx)[1]
    params = [re.sub(r"\s+", " ", each).strip().split(" ") for each in entry.split(",")]
    bits = [int(re.search(r"\d+", each[1])[0]) for each in params]
    assert [each[0] for each in params] == [".param"] * len(types)
    assert bits == [8, 8, 16, 32, 64, 16, 32, 64, 64]
    assert re.search(rf"\.(?:req|max)ntid {32 * warps}\b", ptx)
    assert ".extern .func" not in ptx


@libtile.jit
def products_added(x, out, stride, N: tl.constexpr):
    i = tl.arange(0, 32)[:, None] * stride + tl.arange(0, N)[None, :]
    a = tl.load(x + i)
    tl.atomic_add(out + i, tl.dot(a, a.T).to(out.dtype.element_ty), sem="relaxed")


@pytest.mark.parametrize("target, kind, stride, instruction", [
    ("sm_90a", "fp32", "i32:16", ".add.v2.f32"), ("sm_90", "fp32", "i32:16", ".add.v2.f32"), ("sm_90a", "fp32", "i32", ".add.f32"),
    ("sm_80", "fp32", "i32:16", ".add.f32"), ("sm_90a", "fp64", "i32:16", ".add.f64")])
def test_neighbours_are_added_by_one_instruction(target, kind, stride, instruction, tmp_path):
    kernel = products_added.warmup("*fp16:16", f"*{kind}:16", stride, N=32, grid=(1,), target=target)
    ptx = kernel.asm["ptx"]
    assemble(ptx, target, tmp_path)
    reductions = re.findall(r"red\.relaxed\.gpu\.global(\S+)", ptx)
    assert reductions and set(reductions) == {instruction}, reductions
