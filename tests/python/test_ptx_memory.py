# SPDX-License-Identifier: Apache-2.0
"""Atomics and blocks of arrays as PTX: ptxas takes it, and blocks cost what pointers written by hand cost."""
import re

import pytest
import test_block_pointers
import test_descriptors
from spine import matmul
from test_ptx import TARGETS, assemble

import libtile
import libtile.language as tl

TYPES = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "fp16", "bf16", "fp32", "fp64"]


@libtile.jit
def every_kind(x, value, old, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v, on = tl.load(value + i), i < n
    was = tl.atomic_add(x + i, v, on) + tl.atomic_max(x + i, v, on, "acquire") + tl.atomic_min(x + i, v, on, "release", "sys")
    if x.dtype.element_ty.is_int():
        was += tl.atomic_and(x + i, v, sem="relaxed") ^ tl.atomic_or(x + i, v, scope="cta") ^ tl.atomic_xor(x + i, v)
    was += tl.atomic_xchg(x + i, v, on) + tl.atomic_cas(x + i, v, was, mask=on) + tl.atomic_load(x + i, on)
    tl.store(old + i, was)
    # Results that nobody reads, and scalars.
    tl.atomic_add(x + i, v)
    tl.atomic_max(x + i, v)
    tl.atomic_store(x + i, tl.atomic_add(x, tl.atomic_cas(x, tl.load(value), tl.atomic_load(x))), on)
    tl.atomic_store(x, tl.atomic_min(x, tl.load(value)), sem="relaxed")


@pytest.mark.parametrize("target", [target for target in TARGETS if target in ("sm_75", "sm_80", "sm_90a")])
@pytest.mark.parametrize("dtype", TYPES)
def test_atomics_assemble(dtype, target, tmp_path):
    for block, warps in ((128, 4), (7, 2)):
        compiled = every_kind.warmup(*[f"*{dtype}"] * 3, "i32", BLOCK=block, num_warps=warps, target=target, grid=(1,))
        ptx = compiled.asm["ptx"]
        assemble(ptx, target, tmp_path)
        # Whose old value nobody asks for.
        wide = dtype.startswith("fp") or (dtype == "bf16" and target == "sm_90a") or dtype[1:] in ("32", "64")
        assert ("red.release.gpu.global.add" in ptx) == wide
        assert "atom.acq_rel.gpu.global" in ptx or "fence.acq_rel.gpu" in ptx


@libtile.jit
def add_up(x, old, BLOCK: tl.constexpr, SEM: tl.constexpr, ASKS: tl.constexpr):
    i = tl.arange(0, BLOCK)
    was = tl.atomic_add(x + i, i, sem=SEM)
    if ASKS:
        tl.store(old + i, was)


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release", "acq_rel"])
def test_a_thread_with_several_elements_waits_once(sem, asks):
    """And neighbours in memory are neighbouring lanes': an instruction takes one line of 128 bytes."""
    ptx = add_up.warmup("*i32:16", "*i32:16", BLOCK=512, SEM=sem, ASKS=asks, num_warps=4, target="sm_90a", grid=(1,)).asm["ptx"]
    accesses = [line.strip() for line in ptx.splitlines() if "fence" in line or ".add.u32" in line and line.strip()[0] in "ar"]
    before = ["fence"] * (sem in ("release", "acq_rel"))
    after = ["fence"] * (asks and sem in ("acquire", "acq_rel"))
    one = "atom.relaxed" if asks else "red.relaxed"
    assert [line[:len(want)] for line, want in zip(accesses, before + [one] * 4 + after)] == before + [one] * 4 + after
    assert len(accesses) == len(before) + 4 + len(after)
    assert {int(offset) for offset in re.findall(r"add.s64\s+%rd\d+, %rd\d+, (\d+);", ptx)} == {512, 1024, 1536}


@libtile.jit
def ordered(x, out, n, BLOCK: tl.constexpr, SEM: tl.constexpr):
    i = tl.arange(0, BLOCK)
    on = (i < n) & (tl.load(x + i) > 1)
    tl.atomic_xchg(x + i, i, mask=on, sem="release")
    # Numbers that nobody uses: ptxas loses the predicate of such a load.acquire, and `on` with it.
    tl.atomic_load(x + i, mask=on, sem=SEM)
    tl.atomic_load(x + n, sem=SEM)
    tl.store(out + i, tl.load(x + i + BLOCK), on)
    tl.atomic_store(out + i, i, on, sem="relaxed" if SEM == "relaxed" else "release")


@pytest.mark.parametrize("block, warps", [(128, 4), (100, 1), (512, 4)])
@pytest.mark.parametrize("sem", ["relaxed", "acquire"])
def test_a_fence_acquires_what_is_loaded(sem, block, warps):
    ptx = ordered.warmup("*i32:16", "*i32:16", "i32", BLOCK=block, SEM=sem, num_warps=warps, target="sm_90a", grid=(1,)).asm["ptx"]
    assert not re.search(r"ld\.acquire|st\.release", ptx)
    accesses = re.findall(r"\b(fence|ld\.relaxed|st\.relaxed)", ptx)
    each = -(-block // (32 * warps))
    want = ["ld.relaxed"] * each + ["ld.relaxed"] + ["st.relaxed"] * each if sem == "relaxed" else \
        ["ld.relaxed"] * each + ["fence", "ld.relaxed", "fence", "fence"] + ["st.relaxed"] * each
    assert accesses[len(accesses) - len(want):] == want


STRIDES = ["i32:16", 1] * 3
SIZES = ["i32:16"] * 3


def counts(ptx):
    kinds = ("cp.async.cg.shared.global", "ld.global", "st.global.v4.b32", "st.global", "ldmatrix", "mma.sync", "bar.sync")
    return {kind: len(re.findall(re.escape(kind), ptx)) for kind in kinds}


def test_a_matmul_by_block_pointers_is_one_by_pointers():
    by_hand = matmul.matmul.warmup(*["*fp16:16"] * 3, *SIZES, *STRIDES, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8,
                                   num_warps=4, target="sm_90a", grid=(1,)).asm["ptx"]
    blocks = test_block_pointers.matmul.warmup(*["*fp16:16"] * 3, *SIZES, *STRIDES, BM=128, BN=128, BK=32, num_warps=4,
                                               target="sm_90a", grid=(1,)).asm["ptx"]
    assert counts(blocks) == counts(by_hand)


@pytest.mark.parametrize("target", [target for target in TARGETS if target in ("sm_75", "sm_80", "sm_90a")])
def test_descriptors_assemble(target, tmp_path):
    for kernel, types, constants in (
            (test_descriptors.double, ["*fp16:16", "i32", "i32:16"], {"BM": 32, "BN": 64}),
            (test_descriptors.pick_rows, ["*fp16", "*fp16", "*fp16", "i32", "i32:16", "*i32", "i32"], {"R": 12, "N": 64}),
            (test_descriptors.reduce_block, ["*bf16", "*bf16", "i32", "i32"], {"BM": 8, "BN": 32, "KIND": "max"})):
        assemble(kernel.warmup(*types, target=target, grid=(1,), **constants).asm["ptx"], target, tmp_path)


@libtile.jit
def hinted(x, out, BLOCK: tl.constexpr, CACHE: tl.constexpr, EVICT: tl.constexpr, VOLATILE: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, cache_modifier=CACHE, eviction_policy=EVICT, volatile=VOLATILE), eviction_policy=EVICT)


@pytest.mark.parametrize("cache, evict, volatile, text", [
    ("", "", False, "ld.global.v4"), (".ca", "", False, "ld.global.ca"), ("cg", "", False, "ld.global.cg"),
    (".cv", "", False, "ld.global.cv"), ("", "evict_first", False, "ld.global.L1::evict_first"),
    ("", "evict_last", False, "st.global.L1::evict_last"), ("", "", True, "ld.volatile.global")])
def test_hints(cache, evict, volatile, text, tmp_path):
    ptx = hinted.warmup("*fp32:16", "*fp32:16", BLOCK=512, CACHE=cache, EVICT=evict, VOLATILE=volatile, target="sm_80",
                        grid=(1,)).asm["ptx"]
    assert text in ptx
    assemble(ptx, "sm_80", tmp_path)


@libtile.jit
def transpose(x, out, rows, cols, BLOCK: tl.constexpr):
    r = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    c = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    inside = (r < rows) & (c < cols)
    tl.store(out + c * rows + r, tl.load(x + r * cols + c, mask=inside), mask=inside)


@pytest.mark.parametrize("dtype, vector", [("bf16", "v4.b32"), ("fp32", "v4.b32"), ("i8", "v4.b32"), ("fp64", "v2.b64")])
def test_a_transpose_by_pointers_has_wide_accesses_on_both_sides(dtype, vector):
    ptx = transpose.warmup(*[f"*{dtype}:16"] * 2, "i32:16", "i32:16", BLOCK=64, target="sm_90a", grid=(1,)).asm["ptx"]
    accesses = re.findall(r"(ld|st)\.global\.(\S+)", ptx)
    assert {("ld", vector), ("st", vector)} == set(accesses)
