# SPDX-License-Identifier: Apache-2.0
"""Launches that may start before the one before has ended (option launch_pdl): where code waits, and what chains of them compute."""
import re

import numpy as np
import pytest
from spine import DEVICES, OnDevice, matmul, poisoned
from test_ptx import PTXAS, assemble, llvm_of_the_build

import libtile
import libtile.language as tl

WAIT, LAUNCH = "griddepcontrol.wait", "griddepcontrol.launch_dependents"
ACCESS = re.compile(r"\b(?:(?:ld|st|atom|red|cp|prefetch|applypriority|discard)\.(?!param|shared|async\.(?:commit|wait))|multimem)")


@libtile.jit
def moved(x, out, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    """Each program reads what others have written."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + (i + SHIFT) % n, mask=i < n)
    tl.store(out + i, a * 3 + 1, mask=i < n)


@libtile.jit
def summed(x, out, n, BLOCK: tl.constexpr):
    """Long, of few programs: each has sums of a whole array."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.int32)
    for k in range(0, n, BLOCK):
        j = k + tl.arange(0, BLOCK)
        acc += tl.load(x + j, mask=j < n, other=0)
    tl.store(out + i, tl.sum(acc, axis=0) ^ tl.load(x + i, mask=i < n), mask=i < n)


@libtile.jit
def counted(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % 7, tl.load(x + i, mask=i < n), mask=i < n)
    tl.store(x + i, i, mask=i < n)


@libtile.jit
def waits(weights, x, out, n, BLOCK: tl.constexpr):
    """Nothing writes the weights."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(weights + i, mask=i < n)
    tl.extra.cuda.gdc_wait()
    a = tl.load(x + n - 1 - i, mask=i < n)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(out + i, a + w, mask=i < n)


@libtile.jit
def lets_start(x, out, n, BLOCK: tl.constexpr):
    tl.extra.cuda.gdc_launch_dependents()
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + n - 1 - i, mask=i < n) * 5, mask=i < n)


@libtile.jit
def nothing(x):
    pass


@libtile.jit
def product(a, b, out, n, WAITS: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """WAITS: nowhere, in front of the loop, in each iteration, or under a condition."""
    ad = tl.make_tensor_descriptor(a, shape=[n, n], strides=[n, 1], block_shape=[BM, BK])
    bd = tl.make_tensor_descriptor(b, shape=[n, BM], strides=[BM, 1], block_shape=[BK, BM])
    row = tl.program_id(0) * BM
    acc = tl.zeros((BM, BM), tl.float32)
    if WAITS == "before":
        tl.extra.cuda.gdc_wait()
    if WAITS == "branch":
        if n > 0:
            tl.extra.cuda.gdc_wait()
    for i in range(0, n, BK):
        x = ad.load([row, i])
        if WAITS == "inside":
            tl.extra.cuda.gdc_wait()
        acc = tl.dot(x, bd.load([i, 0]), acc * 0.5)
    m = row + tl.arange(0, BM)
    tl.store(out + m[:, None] * BM + tl.arange(0, BM)[None, :], acc)


INTS = ["*i32:16", "*i32:16", "i32"]
CASES = {
    "moved": lambda **more: moved.warmup(*INTS, SHIFT=5, BLOCK=256, grid=(1,), **more),
    "summed": lambda **more: summed.warmup(*INTS, BLOCK=256, grid=(1,), **more),
    "counted": lambda **more: counted.warmup(*INTS, BLOCK=256, grid=(1,), **more),
    "lets_start": lambda **more: lets_start.warmup(*INTS, BLOCK=256, grid=(1,), **more),
    "nothing": lambda **more: nothing.warmup("*i32", grid=(1,), **more),
    "product": lambda **more: product.warmup("*fp16:16", "*fp16:16", "*fp32:16", "i32:16", WAITS="", BM=128, BK=128, grid=(1,), num_warps=8, **more),
    "matmul": lambda **more: matmul.matmul.warmup(
        *["*fp16:16"] * 3, *["i32:16"] * 4, 1, "i32:16", 1, "i32:16", 1, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8, grid=(1,), num_warps=8, **more),
}


def in_front(ptx):
    """The code up to the only wait."""
    assert ptx.count(WAIT) == 1
    return ptx[ptx.index(".entry"):ptx.index(WAIT)]


@pytest.mark.parametrize("more", [{}, {"warp_specialize": False}, {"copy_boxes": False}, {"share_blocks": True}, {"launch_cooperative_grid": True}],
                         ids=lambda more: "".join(more) or "plain")
@pytest.mark.parametrize("case", CASES)
def test_code_waits_in_front_of_what_it_accesses(case, more):
    kernel = CASES[case](target="sm_90a", launch_pdl=True, **more)
    ptx = kernel.asm["ptx"]
    before = in_front(ptx)
    assert ptx.count(LAUNCH) == 1 and LAUNCH in before
    assert not ACCESS.search(before) and "setmaxnreg" not in before, "all threads wait"
    assert not re.search(r"\b(?:bra|ret|exit)\b", before), "on one way through the code"
    assert case == "nothing" or ACCESS.search(ptx[len(before):])
    assert not any("launch_pdl" in line for line in kernel.fallbacks)


# Target, and which LLVM has it.
@pytest.mark.parametrize("target, llvm", [("sm_90", 19), ("sm_90a", 19), ("sm_100", 20), ("sm_100a", 20), ("sm_120", 20), ("sm_75", 19), ("sm_80", 19), ("sm_89", 19)])
def test_targets_that_have_such_launches(target, llvm):
    have = llvm_of_the_build()
    if have is not None and have < llvm:
        with pytest.raises(libtile.UnsupportedError, match=f"{target} needs LLVM {llvm}"):
            CASES["moved"](target=target, launch_pdl=True)
        return
    for case in ("moved", "summed"):
        plain, overlapping = (CASES[case](target=target, launch_pdl=pdl) for pdl in (False, True))
        assert "griddepcontrol" not in plain.asm["ptx"]
        assert (WAIT in overlapping.asm["ptx"]) == (int(re.sub(r"\D", "", target)) >= 90)
        assert overlapping.fallbacks == plain.fallbacks


def test_who_waits_himself_does():
    for pdl in (False, True):
        ptx = waits.warmup("*i32:16", *INTS, BLOCK=256, grid=(1,), target="sm_90a", launch_pdl=pdl).asm["ptx"]
        before = in_front(ptx)
        assert "ld.global" in before and "ld.global" in ptx[len(before):] and LAUNCH not in before and ptx.count(LAUNCH) == 1
    ptx = CASES["lets_start"](target="sm_90a").asm["ptx"]
    assert LAUNCH in ptx and WAIT not in ptx
    for target in ("sm_80", "gfx942", "avx512"):
        kernel = waits.warmup("*i32:16", *INTS, BLOCK=256, grid=(1,), target=target, launch_pdl=True)
        assert "griddepcontrol" not in "".join(kernel.asm[name] for name in kernel.asm) and "grid_wait" not in kernel.asm["tile"]


def staged(where, **more):
    return product.warmup("*fp16:16", "*fp16:16", "*fp32:16", "i32:16", WAITS=where, BM=128, BK=128, grid=(1,), num_warps=8, target="sm_90a",
                          launch_pdl=True, **more).asm["staged"]


def test_copies_ahead_stay_behind_a_wait():
    for more in ({"copy_boxes": False}, {"warp_specialize": False}):
        text = staged("before", **more)
        copy = re.search(r"async_copy|copy_box", text).start()
        assert text.count("grid_wait") == 1 and text.index("grid_wait") < copy < text.index(" = for ")
    assert "copy" not in staged("inside")


def test_a_producer_waits_as_its_consumers_do():
    text = staged("before")
    assert "producer" in text, "the loop's boxes are copied by a warp of its own"
    producer = text[text.index("producer"):]
    producer, consumers = producer[:producer.index("\n  }")], producer[producer.index("\n  }"):]
    assert producer.count("grid_wait") == 1 and producer.index("grid_wait") < producer.index("copy_box")
    assert consumers.count("grid_wait") == 1
    assert "producer" not in staged("branch") and "copy_box" in staged("branch")
    text = staged("")
    assert text.count("grid_wait") == 1 and text.index("grid_wait") < text.index("producer")


@pytest.mark.parametrize("case", CASES)
def test_the_assembler_takes_it(case, tmp_path):
    assert PTXAS is not None, "no ptxas: ./dev installs nvidia-cuda-nvcc"
    assert assemble(CASES[case](target="sm_90a", launch_pdl=True).asm["ptx"], "sm_90a", tmp_path) == 0


def chain(device, repeats, programs, options):
    """A -> B -> C, each of which reads what the one before wrote, and writes what an earlier one read."""
    rng, on = np.random.default_rng(programs), OnDevice(device)
    block, n = 128, 128 * programs - 5
    x, w = (rng.integers(-1000, 1000, n, np.int32) for _ in range(2))
    a, b, c, weights = (on(array) for array in (x.copy(), poisoned(n, np.int32), poisoned(n, np.int32), w))
    few = 64
    for number in range(repeats):
        pdl = options(number)
        moved[(programs,)](a, b, n, SHIFT=n // 2, BLOCK=block, num_warps=4, launch_pdl=pdl)
        waits[(programs,)](weights, b, c, n, BLOCK=block, num_warps=4, launch_pdl=pdl)
        lets_start[(-(-n // few),)](c, b, n, BLOCK=few, num_warps=2, launch_pdl=pdl)
        if number % 8 == 0:
            summed[(programs,)](b, c, n, BLOCK=block, num_warps=4, launch_pdl=pdl)
            moved[(programs,)](c, b, n, SHIFT=1, BLOCK=block, num_warps=4, launch_pdl=pdl)
        moved[(programs,)](b, a, n, SHIFT=3, BLOCK=block, num_warps=4, launch_pdl=pdl)
    for number in range(repeats):
        x = np.roll(x, -(n // 2)) * np.int32(3) + np.int32(1)
        x = (x[::-1] + w)[::-1] * np.int32(5)
        if number % 8 == 0:
            x = np.roll(x.sum(dtype=np.int32) ^ x, -1) * np.int32(3) + np.int32(1)
        x = np.roll(x, -3) * np.int32(3) + np.int32(1)
    np.testing.assert_array_equal(on.back(a), x)


HOW = {"all": lambda number: True, "none": lambda number: False, "some": lambda number: number * 7 % 5 < 2}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("programs", [1, 3, 40, 700])
@pytest.mark.parametrize("device", DEVICES)
def test_chains(device, programs, how):
    repeats = 1000 if device == "cuda" else 9 if device == "cpu" or programs < 40 else 1
    chain(device, repeats, programs if device == "cuda" else min(programs, 40), HOW[how])


@pytest.mark.parametrize("device", DEVICES)
def test_counts_and_what_is_written_behind_them(device):
    """Atomics of one launch, and stores into what it has read, beside those of the next."""
    on, n, repeats = OnDevice(device), 5000, 1000 if device == "cuda" else 3
    x, sums = on(np.zeros(n, np.int32)), on(np.zeros(7, np.int32))
    for _ in range(repeats):
        counted[(20,)](x, sums, n, BLOCK=256, num_warps=4, launch_pdl=True)
    i = np.arange(n)
    once = np.bincount(i % 7, weights=i).astype(np.int64)
    np.testing.assert_array_equal(on.back(sums), (once * (repeats - 1)).astype(np.int32))


@pytest.mark.parametrize("options", [{}, {"warp_specialize": False}, {"copy_boxes": False}, {"share_blocks": True}],
                         ids=lambda options: "".join(options) or "plain")
@pytest.mark.parametrize("device", DEVICES)
def test_chains_of_products(device, options):
    """Products of a permutation, exact in fp16: each launch takes what the last one has made."""
    on, n, repeats = OnDevice(device), 512 if device == "cuda" else 128, 300 if device == "cuda" else 2
    order = np.random.default_rng(3).permutation(n)
    x = np.random.default_rng(4).integers(-100, 100, (n, n)).astype(np.float16)
    a, b, p = on(x.copy()), on(poisoned((n, n), np.float16)), on(np.eye(n, dtype=np.float16)[order])
    grid, tile = ((n // 128) ** 2,), {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}
    for _ in range(repeats):
        for source, to in ((a, b), (b, a)):
            matmul.matmul[grid](source, p, to, n, n, n, n, 1, n, 1, n, 1, **tile, num_warps=8, launch_pdl=True, **options)
    want = x.astype(np.float32)
    for _ in range(2 * repeats):
        want = want[:, np.argsort(order)]
    np.testing.assert_array_equal(on.back(a).astype(np.float32), want)


def test_chains_of_a_graph():
    if "cuda" not in DEVICES:
        return
    torch = pytest.importorskip("torch")
    n, block = 5000, 128
    x = torch.arange(n, device="cuda", dtype=torch.int32)
    a, b = x.clone(), torch.empty_like(x)

    def steps():
        for _ in range(50):
            for source, to in ((a, b), (b, a)):
                moved[(-(-n // block),)](source, to, n, SHIFT=n // 2, BLOCK=block, num_warps=4, launch_pdl=True)
    steps()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps()
    a.copy_(x)
    for _ in range(20):
        graph.replay()
    want = np.arange(n, dtype=np.int32)
    for _ in range(20 * 100):
        want = np.roll(want, -(n // 2)) * np.int32(3) + np.int32(1)
    np.testing.assert_array_equal(a.cpu().numpy(), want)
