# SPDX-License-Identifier: Apache-2.0
"""Code for AMD's GPUs, which nothing runs here: that there is code for each target, what it asks of the machine, and what is refused."""
import importlib
import re

import pytest
import spine  # noqa: F401, which finds the lessons
from random_kernels import Kernel, kernel_of

import libtile
import libtile.language as tl

WAVES = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1101": 32, "gfx1102": 32, "gfx1150": 32, "gfx1151": 32,
         "gfx1200": 32, "gfx1201": 32}
pytestmark = pytest.mark.not_interpreted("it compiles for GPUs")


def known(name):
    """The target's name; skips the test where the build's LLVM does not know it."""
    if name == "gfx950":
        try:
            add.warmup("*fp32", "*fp32", "*fp32", "i32", B=64, target="gfx950", grid=(1,))
        except libtile.UnsupportedError as error:
            assert "needs LLVM 20" in str(error)
            pytest.skip("this build's LLVM does not know it")
    return name


@pytest.fixture(params=WAVES)
def target(request):
    return known(request.param)


@libtile.jit
def add(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(z + i, tl.load(x + i, m) + tl.load(y + i, m), m)


@libtile.jit
def softmax(x, z, n, s, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * s + i, i < n, -float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(z + tl.program_id(0) * s + i, e / tl.sum(e, 0), i < n)


@libtile.jit
def matmul(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(tl.load(a + m[:, None] * K + i + k), tl.load(b + (i + k)[:, None] * N + n), acc)
    tl.store(c + m[:, None] * N + n, acc)


@libtile.jit
def whole(a, b, c, M: tl.constexpr):
    i = tl.arange(0, M)
    x, y = tl.load(a + i[:, None] * M + i), tl.load(b + i[:, None] * (M + 16) + i)
    tl.store(c + i[:, None] * M + i, tl.dot(x, y, out_dtype=c.dtype.element_ty))


@pytest.mark.parametrize("kind, reads", [("fp16", "b16"), ("bf16", "b16"), ("i8", "b8"), ("fp8e4nv", "b8")])
def test_rows_turn_where_lanes_read_them(kind, reads):
    """B has its rows along n: threads write vectors of them as they are. On CDNA 3 its rows turn in registers."""
    def text(name):
        sums = "i32" if kind == "i8" else "fp32"
        return whole.warmup(f"*{kind}", f"*{kind}", f"*{sums}", M=128, target=name, grid=(1,), num_warps=4).asm["asm"]
    made, other = text(known("gfx950")), text("gfx942")
    assert f"ds_read_b64_tr_{reads}" in made and "ds_read_b128" in made and "v_perm_b32" not in made and "ds_write_b128" in made
    assert "_tr_" not in other


@pytest.mark.parametrize("kind, stages, copies", [("fp16", None, 16), ("bf16", 3, 16), ("i8", 2, 8), ("fp16", 1, 0)])
def test_products_copy_straight_to_lds(kind, stages, copies):
    """In front of the loop and in it. What is masked off is written as zeros, under a branch."""
    lesson = importlib.import_module("03_matmul").matmul
    types = [f"*{kind}:16"] * 2 + ["*i32:16" if kind == "i8" else "*fp16:16"] + ["i32:16"] * 3 + ["i32:16", 1] * 3
    tiles = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8} | ({"num_stages": stages} if stages else {})
    made = {name: lesson.warmup(*types, **tiles, target=name, grid=(1,), num_warps=4) for name in (known("gfx950"), "gfx942")}
    text = made["gfx950"].asm["asm"]
    assert text.count("global_load_lds_dwordx4") == copies and "_lds_" not in made["gfx942"].asm["asm"]
    # No read waits for what is under way.
    loop = max(re.split(r"\n(?=\.LBB)", text), key=lambda block: block.count("v_mfma"))
    assert "ds_read" in loop and (copies == 0 or "ds_write" not in loop) and not made["gfx950"].fallbacks


@libtile.jit
def many(x, o, count, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.cumsum(v, 0))
    tl.store(o + B + i, tl.sort(v))
    tl.store(o + 2 * B + i, tl.gather(v, (i * 7) % B, 0))
    tl.atomic_add(count + i % 3, i)
    tl.atomic_cas(count + 3, 0, tl.program_id(1) + tl.num_programs(2))


@libtile.jit
def running_sum(x, o, B: tl.constexpr, R: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.cumsum(tl.load(x + i), 0, reverse=R))


def number(text, name):
    return int(re.search(rf"\.{name}:?\s+(\d+)", text)[1])


def test_code_of_each_target(target):
    pairs = [(add, ["*fp32"] * 3 + ["i32"], {"B": 512}), (softmax, ["*fp16", "*bf16", "i32", "i32"], {"B": 2048}),
             (matmul, ["*fp16", "*fp16", "*fp32", "i32", "i32"], {"BM": 32, "BN": 32, "BK": 32}),
             (many, ["*i32", "*i32", "*i32"], {"B": 128})]
    for kernel, types, constants in pairs:
        made = kernel.warmup(*types, **constants, target=target, grid=(1,), num_warps=4)
        text = made.asm["asm"]
        assert f'.amdgcn_target "amdgcn-amd-amdhsa--{target}"' in text and "s_endpgm" in text
        assert number(text, "wavefront_size") == WAVES[target]
        assert number(text, "max_flat_workgroup_size") == made.metadata["threads"] == 4 * WAVES[target]
        assert number(text, "group_segment_fixed_size") == made.metadata["shared_bytes"]
        assert number(text, "private_segment_fixed_size") == 0, "registers are spilled"
        assert number(text, "kernarg_segment_size") >= 8 * 2


@pytest.mark.parametrize("name, moves", [
    ("gfx942", ["v_max_f32_dpp.* quad_perm:", "v_add_f32_dpp.* row_half_mirror", "v_add_f32_dpp.* row_mirror", "v_add_f32_dpp.* row_bcast:15",
                "v_max_f32_dpp.* row_bcast:31", "v_readlane_b32"]),
    ("gfx950", ["row_half_mirror", "row_mirror", "v_add_f32_dpp.* row_bcast:31", "v_readlane_b32"]),
    ("gfx1100", ["v_max_f32_dpp.* quad_perm:", "row_half_mirror", "v_add_f32_dpp.* row_mirror", "v_permlanex16_b32"]),
    ("gfx1201", ["row_half_mirror", "row_mirror", "v_permlanex16_b32"])])
def test_reductions_exchange_in_registers(name, moves):
    try:
        text = softmax.warmup("*fp32", "*fp32", "i32", "i32", B=WAVES[name], target=name, grid=(1,), num_warps=1).asm["asm"]
    except libtile.UnsupportedError as error:
        assert name == "gfx950" and "needs LLVM 20" in str(error)
        return
    assert "ds_bpermute" not in text and all(re.search(move, text) for move in moves)


@libtile.jit
def powers(x, z, B: tl.constexpr, OF_TWO: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(z + i, tl.exp2(a) if OF_TWO else tl.exp(a))


@pytest.mark.parametrize("of_two, flushes, most", [(True, True, 1), (True, False, 6), (False, True, 8)])
def test_powers_are_the_hardwares(target, of_two, flushes, most):
    """With what results below the least normal number take, which v_exp_f32 gives as 0."""
    text = powers.warmup("*fp32", "*fp32", B=WAVES[target], OF_TWO=of_two, target=target, grid=(1,), num_warps=1,
                         enable_reflect_ftz=flushes).asm["asm"]
    taken = re.findall(r"\bv_(?:\w+_f32|cvt_\w+|cndmask_b32)", text)
    assert sum("v_exp_f32" in each for each in taken) == 1 and len(taken) <= most, taken


def test_softmax_takes_the_hardwares_powers(target):
    text = softmax.warmup("*fp32", "*fp32", "i32", "i32", B=4 * WAVES[target], target=target, grid=(1,), num_warps=1).asm["asm"]
    assert len(re.findall(r"\bv_exp_f32", text)) == 4


@libtile.jit
def compose(a, b, c, d):
    return a * c, b * c + d


@libtile.jit
def compositions(a, b, o, B: tl.constexpr):
    i = tl.arange(0, B)
    first, second = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, compose)
    tl.store(o + i, first + second)


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_no_long_product_moves_lanes(name):
    """There is no such instruction."""
    text = compositions.warmup("*u32", "*u32", "*u32", B=32, target=name, grid=(1,), num_warps=1).asm["asm"]
    assert re.search(r"v_mad\w*_u64_u32", text) and "_dpp" in text and not re.search(r"v_mad\w*_u64_u32\w*_dpp", text)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_scans_shift_in_registers(name, reverse):
    text = running_sum.warmup("*fp32", "*fp32", B=WAVES[name], R=reverse, target=name, grid=(1,), num_warps=1).asm["asm"]
    assert not re.search(r"\bds_", text) and all(f"{'row_shl' if reverse else 'row_shr'}:{n}" in text for n in (1, 2, 4, 8))
    if not reverse and WAVES[name] == 64:
        assert "row_bcast:15" in text and "row_bcast:31" in text


@libtile.jit
def scaled(x, o, n, s, KIND: tl.constexpr, S: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B * S + tl.arange(0, B) * S
    m = i < n
    if KIND == "volatile":
        v = tl.load(x + i, m, 1, volatile=True)
    elif KIND == "first":
        v = tl.load(x + i, m, 1, eviction_policy="evict_first")
    elif KIND == "stride":
        v = tl.load(x + i * s, m, 1)
    else:
        v = tl.load(x + i, m, 1)
    tl.store(o + tl.arange(0, B), v)


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_masked_accesses_take_no_branch(name):
    """Bounds are the hardware's, where offsets surely fit 31 bits: of strides that are known, and below 2 GiB."""
    text = add.warmup("*fp32:16", "*fp32:16", "*fp32:16", "i32:16", B=1024, target=name, grid=(1,)).asm["asm"]
    assert not re.search("s_cbranch|\\bglobal_(load|store)", text)
    assert re.search(r"buffer_load_(dwordx4|b128)", text) and re.search(r"buffer_store_(dwordx4|b128)", text)
    for kind, stride, dtype, hasBounds in [("", 1, "i8", True), ("", 1, "fp64", True), ("", 2**22, "fp32", True), ("", 2**23, "fp32", False),
                                           ("stride", 1, "fp32", False), ("volatile", 1, "fp32", False), ("first", 1, "fp32", False)]:
        text = scaled.warmup(f"*{dtype}", f"*{dtype}", "i32", "i32", KIND=kind, S=stride, B=128, target=name, grid=(1,)).asm["asm"]
        assert ("buffer_load" in text) == hasBounds and ("s_cbranch" in text) != hasBounds, (kind, stride, dtype)


def test_waves_bound_registers():
    made = [softmax.warmup("*fp32", "*fp32", "i32", "i32", B=4096, target="gfx942", grid=(1,), num_warps=1, waves_per_eu=waves)
            for waves in (0, 8)]
    registers = [number(each.asm["asm"], "vgpr_count") for each in made]
    assert registers[0] > 64 >= registers[1] and not made[1].fallbacks


@libtile.jit
def product(a, b, c, N: tl.constexpr, PRECISION: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)
    tl.store(c + i * N + j, tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j), input_precision=PRECISION))


@pytest.mark.parametrize("dtype, sums", [("fp16", "fp32"), ("bf16", "fp32"), ("i8", "i32"), ("fp32", "fp32"), ("fp64", "fp64"),
                                         ("fp8e4nv", "fp32"), ("fp8e5", "fp32"), ("fp8e4b8", "fp32"), ("fp8e5b16", "fp32")])
def test_dots_take_matrix_instructions(target, dtype, sums):
    made = product.warmup(f"*{dtype}", f"*{dtype}", f"*{sums}", N=32, PRECISION="ieee", target=target, grid=(1,))
    if WAVES[target] == 32 and dtype in ("fp32", "fp64"):
        assert any("dot by fused multiply-adds" in fallback for fallback in made.fallbacks)
    else:
        assert not made.fallbacks and re.search("v_mfma_" if WAVES[target] == 64 else "v_wmma_", made.asm["asm"])


@libtile.jit
def attends(q, k, v, o, count, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)
    queries, most, acc = tl.load(q + i * N + j), tl.full([M], -float("inf"), tl.float32), tl.zeros([M, N], tl.float32)
    for first in range(0, count, N):
        at = (first + j)[:, None] * N + j
        scores = tl.dot(queries, tl.load(k + at).T)
        now = tl.maximum(most, tl.max(scores, 1))
        acc = tl.dot(tl.exp2(scores - now[:, None]).to(tl.float16), tl.load(v + at), acc * tl.exp2(most - now)[:, None])
        most = now
    tl.store(o + i * N + j, acc)


def test_waves_take_no_accumulation_registers():
    """Of half of a SIMD's registers all are common ones: sums are not copied."""
    made = attends.warmup("*fp16:16", "*fp16:16", "*fp16:16", "*fp32:16", "i32:16", M=128, N=64, target="gfx942", grid=(1,), num_warps=4,
                          waves_per_eu=2)
    assert number(made.asm["asm"], "vgpr_count") <= 256
    if "nocreateundeforpoison" in made.asm["llvm"]:  # LLVM 22 knows the attribute
        assert not number(made.asm["asm"], "agpr_count") and "v_accvgpr" not in made.asm["asm"]


@pytest.mark.parametrize("name", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("depth, rows, waves", [(128, 64, 2), (128, 128, 1), (64, 64, 2)])
def test_tiles_that_leave_room_for_a_second_wave(name, depth, rows, waves):
    """Its registers are named ones then, and what LLVM spills for it is used outside of the loop."""
    made = importlib.import_module("06_attention").attention.warmup(*["*fp16:16"] * 4, "*fp32:16", "i32:16", "fp32", D=depth, BLOCK_M=128,
                                                                    BLOCK_N=rows, CAUSAL=False, target=name, grid=(1,), num_warps=4)
    text = made.asm["asm"]
    assert (number(text, "vgpr_count") <= 256) == (waves == 2)
    loop = text[text.index("v_mfma_"):text.rindex("v_mfma_")]
    if "nocreateundeforpoison" in made.asm["llvm"]:  # LLVM 22 keeps sums where they are
        assert "scratch_" not in loop and "buffer_store" not in loop


@pytest.mark.parametrize("causal", [False, True])
def test_spilled_registers_lie_in_the_frame(causal):
    """LLVM writes the rest of registers whose slot has offset 4096 within to offset -4096, which is another thread's."""
    lesson = importlib.import_module("06_attention").attention_backward
    types = ["*fp16:16"] * 4 + ["*fp32:16"] * 3 + ["*fp16:16"] * 2 + ["i32", "fp32"]
    made = lesson.warmup(*types, target="gfx1100", grid=(1,), num_warps=8, D=64, BLOCK_M=128, BLOCK_N=128, CAUSAL=causal)
    offsets = [int(each) for each in re.findall(r"scratch_\w+ .*offset:(-?\d+)", made.asm["asm"])]
    assert number(made.asm["asm"], "private_segment_fixed_size") > 4096 > max(offsets) and min(offsets) >= 0


@pytest.mark.parametrize("name, least", [("gfx90a", 32768), ("gfx942", 32768), ("gfx1100", 16384), ("gfx1201", 16384)])
def test_stores_keep_no_program_out(name, least):
    """Sums of 64 KiB are stored as they are held; the loop's operands decide how many programs a compute unit has room for."""
    made = matmul.warmup("*fp16:16", "*fp16:16", "*fp32:16", "i32:16", "i32:16", BM=128, BN=128, BK=least // 512, target=name, grid=(1,),
                         num_warps=256 // WAVES[name])
    assert number(made.asm["asm"], "group_segment_fixed_size") == least


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_scores_are_the_next_left_operand(name):
    """Two lanes have the scores of a row, and each of them what it multiplies next, but for RDNA 3, where either has all."""
    made = attends.warmup("*fp16:16", "*fp16:16", "*fp16:16", "*fp32:16", "i32:16", M=128, N=64, target=name, grid=(1,),
                          num_warps=256 // WAVES[name])
    loop = made.asm["staged"].split(" = for ")[1].split("yield %")[:-1]
    assert len(re.findall(r'= dot .*_turned"', "".join(loop))) == 2
    assert len(re.findall("buffer_write", "".join(loop))) == 2, "others than k and v go through LDS"
    assert len(re.findall("ds_bpermute", made.asm["asm"])) <= (34 if name == "gfx1100" else 4)
    if "nocreateundeforpoison" in made.asm["llvm"]:  # LLVM 22 has an option for it
        assert "v_accvgpr" not in made.asm["asm"]


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("stages", [1, 2])
def test_loads_go_on_behind_the_dots(name, stages):
    """What the next iteration multiplies is loaded in front of the matrix instructions and waited for behind them."""
    made = matmul.warmup("*fp16:16", "*fp16:16", "*fp32:16", "i32:16", "i32:16", BM=64, BN=64, BK=32, target=name, grid=(1,), num_warps=4,
                         num_stages=stages)
    assert not made.fallbacks
    loop = made.asm["staged"].split(" = for ")[1].split("yield %")[0]
    ops = re.findall(r"\b(barrier|buffer_read|load|dot|buffer_write)\b", loop)
    ahead = ["barrier", "buffer_read", "load", "load", "buffer_read", "dot", "barrier", "buffer_write", "buffer_write"]
    assert ops == ahead if stages > 1 else ops.index("buffer_write") < ops.index("dot")
    # LLVM forgets what is under way from the end of a loop in its first block.
    last = re.split("br i1 .*label %for", made.asm["llvm"])[-2].rsplit("addrspace(3)", 1)[1]
    assert ("fence" in last) == (stages > 1)


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx950", "gfx1100"])
@pytest.mark.parametrize("depth", [64, 128])
def test_keys_are_there_for_the_first_dot(name, depth):
    """Where few waves hide that they are waited for, the next iteration's keys are loaded behind this one's, and there is no register for
    values, which are loaded while scores are computed."""
    attention = importlib.import_module("06_attention").attention
    made = attention.warmup(*("*fp16:16",) * 4, "*fp32:16", "i32:16", "fp32", D=depth, BLOCK_M=128, BLOCK_N=64 if WAVES[name] == 64 else 32, CAUSAL=False,
                            target=known(name), grid=(1,), num_warps=256 // WAVES[name])
    assert not made.fallbacks
    loop = "".join(made.asm["staged"].split(" = for ")[1].split("yield %")[:-1])
    ops = re.findall(r"\b(buffer_read|load|dot|buffer_write)\b", loop)
    values = ["load", "buffer_write", "buffer_read", "dot"]
    if WAVES[name] == 64 and depth == 128:
        assert ops == ["buffer_read", "load", "dot", *values, "buffer_write"]
    else:
        assert ops == values * 2


@pytest.mark.parametrize("kind", ["fp32", "fp16"])
def test_two_sums_an_instruction(target, kind):
    """On CDNA, of numbers that are fp32 all along: what multiplies and adds fp16 takes one at a time."""
    text = add.warmup(f"*{kind}", f"*{kind}", "*fp32", "i32", B=1024, target=target, grid=(1,), num_warps=4).asm["asm"]
    assert bool(re.search("v_pk_add_f32", text)) == (kind == "fp32" and WAVES[target] == 64)


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_products_of_one_factor_are_joined(name):
    """Attention's sums of a row are multiplied by one number, which two of them read as different operands."""
    made = importlib.import_module("06_attention").attention.warmup(*["*fp16:16"] * 4, "*fp32:16", "i32:16", "fp32", D=128, BLOCK_M=128,
                                                                    BLOCK_N=32, CAUSAL=False, target=name, grid=(1,), num_warps=8)
    assert len(re.findall("v_dual_mul_f32 .*:: v_dual_mul_f32", made.asm["asm"])) >= 8


def test_what_a_workgroup_has(target):
    with pytest.raises(libtile.OutOfResources, match=f"{target} has 1024 a program"):
        add.warmup("*fp32", "*fp32", "*fp32", "i32", B=4096, target=target, grid=(1,), num_warps=2048 // WAVES[target])
    with pytest.raises(libtile.OutOfResources, match="shared memory"):
        many.warmup("*i32", "*i32", "*i32", B=2**16, target=target, grid=(1,))


@pytest.mark.parametrize("name, waves, most", [("gfx942", 8, 64), ("gfx1100", 16, 96)])
def test_waves_of_a_unit(name, waves, most):
    def registers(**options):
        made = softmax.warmup("*fp16", "*bf16", "i32", "i32", B=8192, target=name, grid=(1,), num_warps=2, **options)
        assert not made.fallbacks
        return number(made.asm["asm"], "vgpr_count")
    assert registers() > most >= registers(waves_per_eu=waves)


@libtile.jit
def asks(out, LANES: tl.constexpr):
    tl.static_assert(tl.target_info.current_target().warp_size == LANES)
    i = tl.arange(0, tl.extra.hip.num_threads())
    tl.store(out + i, tl.extra.hip.memrealtime() + tl.extra.hip.num_warps() * tl.extra.hip.smid())


def test_what_amd_alone_has(target):
    made = asks.warmup("*i64", WAVES[target], target=target, grid=(1,), num_warps=4)
    assert f"tile<{4 * WAVES[target]}xi64>" in made.asm["tile"] and "clock" in made.asm["tile"]
    assert ("hwreg(HW_REG_HW_ID1, 10, 11)" if WAVES[target] == 32 else "hwreg(HW_REG_HW_ID, 8, 8)") in made.asm["asm"]


@libtile.jit
def assembles(x, TEXT: tl.constexpr, CONSTRAINTS: tl.constexpr):
    tl.store(x, tl.inline_asm_elementwise(TEXT, CONSTRAINTS, [tl.load(x)], tl.int32, True, 1))


def test_inline_assembly():
    compiled = [assembles.warmup("*i32", text, constraints, target="gfx942", grid=(1,)).asm["asm"]
                for text, constraints in (("add.s32 $0, $1, 3;", "=r,r"), ("v_bcnt_u32_b32 $0, $1, 0", "=v,v"))]
    assert "add.s32" not in compiled[0] and "v_bcnt_u32_b32" in compiled[1]
    for text, constraints, message in [("tex.2d $0, $1;", "=r,r", "inline assembly on gfx942: `tex.2d"),
                                       ("v_mov_b32 $0, $1", "=a,a", "the constraint `a` of inline assembly on gfx942")]:
        with pytest.raises(libtile.UnsupportedError, match=message):
            assembles.warmup("*i32", text, constraints, target="gfx942", grid=(1,))


@pytest.mark.parametrize("name", ["gfx942", "gfx1100"])
def test_random_kernels_have_code(name, tmp_path):
    """Or say what there is not; LLVM's verifier looks at each."""
    refused = []
    for seed in range(80):
        made = Kernel(seed, 4)
        try:
            text = kernel_of(made.text, tmp_path, seed).warmup(*made.arguments.values(), target=name, grid=(1,), **made.options).asm["asm"]
            assert "s_endpgm" in text
        except libtile.UnsupportedError as error:
            assert isinstance(error, libtile.OutOfResources), error
            refused.append(seed)
    assert len(refused) < 20  # by 32 warps of 64 lanes, as one of eight kernels asks for


@libtile.jit
def along_rows(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), ACC)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :], (i + k)[None, :] < K, 0)
        y = tl.load(b + (i + k)[:, None] * N + n[None, :], ((i + k)[:, None] < K) & (n[None, :] < N), 0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("kind", ["fp16", "i8"])
def test_rows_turn_in_registers(target, kind):
    """No element of B, whose rows go along n, is read from LDS or written there by itself."""
    acc = tl.int32 if kind == "i8" else tl.float32
    text = along_rows.warmup(f"*{kind}:16", f"*{kind}:16", "*i32:16" if kind == "i8" else "*fp32:16", "i32:16", "i32:16", BM=128, BN=128, BK=64,
                          ACC=acc, grid=(1,), num_warps=256 // WAVES[target], target=target).asm["asm"]
    assert re.search("v_mfma|v_wmma", text)
    assert not re.search(r"ds_(read|load|write|store)_(u8|u16|i8|i16|b8|b16)", text)


@pytest.mark.parametrize("first, second, words", [("fp8e4nv", "fp8e4nv", ""), ("fp8e5", "fp8e4nv", "blgp:1"), ("fp8e4nv", "fp8e5", "cbsz:1")])
@pytest.mark.parametrize("size, depth", [(32, 64), (16, 128)])
def test_codes_of_deep_products(first, second, words, size, depth):
    """The lane has sums of a row, for which the instruction is given b first: its formats change places, too."""
    made = mixed.warmup(f"*{first}", f"*{second}", "*fp32", M=size, K=depth, target=known("gfx950"), grid=(1,), num_warps=1)
    assert re.findall(rf"v_mfma_f32_{size}x{size}x{depth}_f8f6f4 [^\n]*?((?:cbsz|blgp):1)?\n", made.asm["asm"]) == [words]


@libtile.jit
def mixed(a, b, c, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    tl.store(c + m[:, None] * M + m[None, :], tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * M + m[None, :])))
