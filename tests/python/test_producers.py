# SPDX-License-Identifier: Apache-2.0
"""Loops whose boxes a warp of its own copies, and teams that take turns (option warp_specialize), against float64; and their code."""
import importlib
import re
import subprocess

import numpy as np
import pytest
from spine import DEVICES, F16, F32, F64, OnDevice, poisoned
from test_ptx import PTXAS

import libtile
import libtile.language as tl

attention = importlib.import_module("06_attention").attention


@libtile.jit
def rounds(a, b, c, M, N, K, TRIPS, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    """Persistent: each program makes every num_programs-th tile of the product, TRIPS times over."""
    ad = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    bd = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    tiles_n = tl.cdiv(N, BN)
    for trip in range(TRIPS):
        for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0)):
            row, col = tile // tiles_n * BM, tile % tiles_n * BN
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for k in tl.range(0, K, BK, num_stages=STAGES):
                acc = tl.dot(ad.load([row, k]), bd.load([k, col]), acc)
            m, n = row + tl.arange(0, BM), col + tl.arange(0, BN)
            tl.store(c + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@libtile.jit
def scaled_sums(q, k, v, out, lengths, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, LOOPS: tl.constexpr):
    """Linear attention whose sums are halved for each block of keys. How many keys there are is read from memory; LOOPS loops share
    them, and the first takes half of its blocks; threads copy what the second one, whose bounds may be below 0, needs."""
    head = tl.program_id(1)
    rows, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    queries = tl.load(q + (head * n + rows)[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    acc = tl.zeros([BM, D], tl.float32)
    length = tl.load(lengths + head)
    middle = length // BN // 2 * BN if LOOPS == 2 else length
    for start in range(0, middle, BN):
        cols = start + tl.arange(0, BN)
        keys = tl.load(k + (head * n + cols)[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
        p = tl.where(cols[None, :] < length, tl.dot(queries, keys.T), 0.0)
        values = tl.load(v + (head * n + cols)[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
        acc = tl.dot(p.to(tl.float16), values, acc * 0.5)
    if LOOPS == 2:
        for start in range(middle, length, BN):
            cols = start + tl.arange(0, BN)
            keys = tl.load(k + (head * n + cols)[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
            p = tl.where(cols[None, :] < length, tl.dot(queries, keys.T), 0.0)
            values = tl.load(v + (head * n + cols)[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
            acc = tl.dot(p.to(tl.float16), values, acc * 0.5)
    tl.store(out + (head * n + rows)[:, None] * D + d[None, :], acc, mask=rows[:, None] < n)


@libtile.jit
def softmax_sums(q, k, v, out, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Attention in powers of 2: work between two dots that is as long as they are, so that teams take turns."""
    head = tl.program_id(1)
    rows, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    queries = tl.load(q + (head * n + rows)[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    largest = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, n, BN):
        cols = start + tl.arange(0, BN)
        keys = tl.load(k + (head * n + cols)[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
        scores = tl.where(cols[None, :] < n, tl.dot(queries, keys.T) * 0.25, -float("inf"))
        grown = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - grown[:, None])
        shrink = tl.exp2(largest - grown)
        total = total * shrink + tl.sum(p, axis=1)
        values = tl.load(v + (head * n + cols)[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
        acc = tl.dot(p.to(tl.float16), values, acc * shrink[:, None])
        largest = grown
    tl.store(out + (head * n + rows)[:, None] * D + d[None, :], acc / total[:, None], mask=rows[:, None] < n)


def small(rng, *shape):
    return rng.integers(-3, 4, shape).astype(F16)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tile", [(128, 128, 64, 8), (128, 256, 64, 8), (256, 64, 32, 16)])
@pytest.mark.parametrize("stages", [2, 4])
def test_rounds(tile, stages, device):
    rng = np.random.default_rng(1)
    bm, bn, bk, warps = tile
    for (m, n, k), trips in (((300, 264, 200), 2), ((128, 256, 64), 3), ((257, 136, 8), 1), ((128, 128, 0), 2)):
        a, b = small(rng, m, k), small(rng, k, n)
        on = OnDevice(device)
        there = [on(x) for x in (a, b, poisoned((m, n), F32))]
        rounds[(2,)](*there, m, n, k, trips, BM=bm, BN=bn, BK=bk, STAGES=stages, num_warps=warps)
        np.testing.assert_array_equal(on.back(there[2]).astype(F64), a.astype(F64) @ b.astype(F64), f"{m} {n} {k}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("tile", [(64, 128, 64), (128, 128, 64), (128, 128, 32), (32, 128, 128)])
def test_lengths_from_memory(tile, loops, device):
    rng = np.random.default_rng(2)
    d, bm, bn = tile
    for n, lengths in ((300, (300, 0, 1, 299)), (128, (128, 64, 65))):
        # Sums of few numbers of few bits: P and all sums are exact.
        q, k = ((rng.integers(-1, 2, (len(lengths), n, d)) * (rng.random((len(lengths), n, d)) < 0.2)).astype(F16) for _ in range(2))
        v = small(rng, len(lengths), n, d)
        on = OnDevice(device)
        there = [on(x) for x in (q, k, v, poisoned((len(lengths), n, d), F32), np.array(lengths, np.int32))]
        scaled_sums[(-(-n // bm), len(lengths))](*there, n, D=d, BM=bm, BN=bn, LOOPS=loops, num_warps=8, num_stages=2)
        got = on.back(there[3])
        for head, length in enumerate(lengths):
            want = np.zeros((n, d))
            for start in range(0, length, bn):
                part = slice(start, min(start + bn, length))
                want = want * 0.5 + q[head].astype(F64) @ k[head, part].astype(F64).T @ v[head, part].astype(F64)
            np.testing.assert_allclose(got[head], want, rtol=2**-20, atol=2**-12, err_msg=f"{n} {length}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("warps", [8, 16])
@pytest.mark.parametrize("d", [64, 128])
def test_turns(d, warps, device):
    rng = np.random.default_rng(3)
    for n in (1, 128, 700):
        q, k, v = (rng.standard_normal((3, n, d)).astype(F16) for _ in range(3))
        on = OnDevice(device)
        there = [on(x) for x in (q, k, v, poisoned((3, n, d), F32))]
        bm = 16 * warps
        softmax_sums[(-(-n // bm), 3)](*there, n, D=d, BM=bm, BN=128, num_warps=warps, num_stages=2)
        scores = q.astype(F64) @ k.astype(F64).swapaxes(1, 2) * 0.25
        p = np.exp2(scores - scores.max(axis=2, keepdims=True))
        # P is rounded to fp16.
        np.testing.assert_allclose(on.back(there[3]), p @ v.astype(F64) / p.sum(axis=2, keepdims=True), rtol=2e-3, atol=2e-3)


def compiled(kernel, *arguments, **options):
    return kernel.warmup(*arguments, grid=(1,), target="sm_90a", **options)


CASES = {
    "rounds": lambda **more: compiled(rounds, *["*fp16:16"] * 2, "*fp32:16", *["i32:16"] * 3, "i32", BM=128, BN=256, BK=64, STAGES=3,
                                      num_warps=8, **more),
    "lengths": lambda **more: compiled(scaled_sums, *["*fp16:16"] * 3, "*fp32:16", "*i32:16", "i32:16", D=128, BM=128, BN=64, LOOPS=1,
                                       num_warps=8, num_stages=2, **more),
    "softmax": lambda **more: compiled(softmax_sums, *["*fp16:16"] * 3, "*fp32:16", "i32:16", D=128, BM=128, BN=128, num_warps=8,
                                       num_stages=2, **more),
}


@pytest.mark.parametrize("case", CASES)
def test_code(case, tmp_path):
    """A producer's budget, no barrier in the loops, and ptxas spills nothing and serialises no dots."""
    kernel = CASES[case]()
    ptx, staged = kernel.asm["ptx"], kernel.asm["staged"]
    assert ".maxntid 384" in ptx and "setmaxnreg.dec.sync.aligned.u32 24;" in ptx and "setmaxnreg.inc.sync.aligned.u32 240;" in ptx
    assert staged.count("producer {count=4, registers=[24, 240]} {") == 1
    consumers = staged[staged.index("\n  }\n", staged.index("producer {")):]
    for loop in re.findall(r" = for .*?\n    yield", consumers, re.S):
        if "dot" in loop and loop.count(" = for ") == 1:
            assert "barrier" not in loop and "copy_box" not in loop and "arrivals_wait" in loop
    assert ("take_turn" in staged) == (case == "softmax")
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    result = subprocess.run([PTXAS, "-arch=sm_90a", "-v", source, "-o", tmp_path / "kernel"], capture_output=True, text=True)
    assert result.returncode == 0 and "0 bytes spill stores, 0 bytes spill loads" in result.stderr, result.stderr
    assert "C75" not in result.stderr and "setmaxnreg" not in result.stderr, result.stderr


@pytest.mark.parametrize("case", ["lengths", "softmax"])
def test_the_dot_that_another_one_feeds_is_late(case):
    """Both dots start side by side; the wait for the late one begins a block behind the exponentials, or ptxas moves it up."""
    kernel = CASES[case]()
    loop = re.findall(r" = for .*?\n      yield", kernel.asm["staged"], re.S)[-1]
    order = re.findall(r" = dot |dot_wait {count=\d}|exp2|arrivals_wait|place_read", loop)
    assert [step for step in order if step != "exp2"] == [
        "arrivals_wait", " = dot ", "arrivals_wait", " = dot ", "dot_wait {count=1}", "place_read", "arrivals_wait", "dot_wait {count=0}",
        "place_read"]
    if case == "softmax":
        assert order.index("place_read") < order.index("exp2") < order.index("dot_wait {count=0}")
    ptx = kernel.asm["ptx"]
    wait = ptx.index("wgmma.wait_group.sync.aligned 0", ptx.rindex("wgmma.wait_group.sync.aligned 1"))
    if case == "softmax":
        assert "mbarrier.try_wait" in ptx[ptx.rindex("ex2", 0, wait):wait]


@pytest.mark.skipif("cuda" not in DEVICES, reason="a GPU's registers")
def test_each_role_has_its_registers():
    """The driver's assembler gives threads what setmaxnreg says: nothing lies in local memory."""
    on = OnDevice("cuda")
    q, k, v = (np.zeros((1, 256, 128), F16) for _ in range(3))
    kernel = softmax_sums[(2, 1)](*(on(x) for x in (q, k, v, poisoned((1, 256, 128), F32))), 256, D=128, BM=128, BN=128, num_warps=8,
                                  num_stages=2)
    assert kernel._kernel.facts()["local_bytes"] == 0


@pytest.mark.parametrize("case", CASES)
def test_the_option_turns_it_off(case):
    staged = CASES[case](warp_specialize=False).asm["staged"]
    assert "producer" not in staged and "turn" not in staged.replace("return", "") and "copy_box" in staged
    assert "setmaxnreg" not in CASES[case](maxnreg=168).asm["ptx"], "the user's number of registers stands"


# ---- blocks that run programs in turn (option share_blocks)


def test_blocks_are_shared_where_programs_know_nothing_of_each_other():
    """Attention's queries are copied for the next program while the last one is computed; no thread loads a tile. How many keys
    there are is read from memory in another kernel: its programs may be of unequal length."""
    staged = CASES["softmax"](share_blocks=True).asm["staged"]
    assert "= worker" in staged and staged.count("copy_box") == 3 and " load " not in staged
    assert "    barrier\n" not in staged, "what is stored goes through no shared memory, and programs owe each other no order"
    assert "= worker" not in CASES["softmax"]().asm["staged"]
    for more in ({"warp_specialize": False}, {"launch_cooperative_grid": True}):
        assert "= worker" not in CASES["softmax"](share_blocks=True, **more).asm["staged"], more
    for case in ("lengths", "rounds"):
        assert "= worker" not in CASES[case](share_blocks=True).asm["staged"], case


@libtile.jit
def largest(a, b, out, who, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TEXT: tl.constexpr):
    """The largest number of each row of a block of the product: no tile is stored. Assembly tells where that was done."""
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :], mask=(m[:, None] < M) & ((i + k)[None, :] < K), other=0.0)
        y = tl.load(b + (i + k)[:, None] * N + n[None, :], mask=((i + k)[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(out + tl.program_id(1) * M + m, tl.max(acc, axis=1), mask=m < M)
    place = tl.inline_asm_elementwise(TEXT, "=r", [], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(who + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0), place)


def shared_largest(text):
    kernel = compiled(largest, *["*fp16:16"] * 2, "*fp32:16", "*i32:16", *["i32:16"] * 3, BM=128, BN=64, BK=64, TEXT=text, num_warps=8,
                      share_blocks=True)
    return kernel.asm["staged"]


def test_assembly_that_names_the_block_keeps_blocks_apart():
    assert "= worker" in shared_largest("mov.b32 $0, 7;")
    assert "= worker" not in shared_largest("mov.u32 $0, %ctaid.x;")


def test_programs_of_a_block_do_not_meet():
    """What one of them stores has no order to what the next one does: the one barrier ends the counters."""
    staged = shared_largest("mov.b32 $0, 7;")
    assert staged.count("  barrier\n") == 1 and staged.index("  barrier\n") > staged.rindex("    yield")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("d", [64, 128])
def test_shared_blocks(d, device):
    """More programs than blocks: each has its own queries, sums and turns."""
    rng = np.random.default_rng(6)
    for heads, n in ((1, 128), (60, 700), (300, 60)) if device == "cuda" else ((2, 300),):
        q, k, v = (rng.standard_normal((heads, n, d)).astype(F16) for _ in range(3))
        on = OnDevice(device)
        there = [on(x) for x in (q, k, v, poisoned((heads, n, d), F32))]
        softmax_sums[(-(-n // 128), heads)](*there, n, D=d, BM=128, BN=128, num_warps=8, num_stages=2, share_blocks=True)
        scores = q.astype(F64) @ k.astype(F64).swapaxes(1, 2) * 0.25
        p = np.exp2(scores - scores.max(axis=2, keepdims=True))
        np.testing.assert_allclose(on.back(there[3]), p @ v.astype(F64) / p.sum(axis=2, keepdims=True), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("heads, n", ((1, 128), (3, 1000), (60, 700), (7, 3000), (300, 60)))
def test_shared_blocks_of_unequal_length(heads, n, device):
    """Programs with one to as many blocks of keys as there are: a block changes its place from turn to turn, and runs each once."""
    if device == "cpu" and heads * n > 5000:
        heads = 2
    rng, d = np.random.default_rng(heads), 64
    q, k, v = (rng.standard_normal((heads, n, d)).astype(F16) for _ in range(3))
    on = OnDevice(device)
    out, sums = poisoned((heads, n, d), F16), poisoned((heads, n), F32)
    there = [on(x) for x in (q, k, v, out, sums)]
    attention[(-(-n // 128), heads)](*there, n, d**-0.5, D=d, CAUSAL=True, BLOCK_M=128, BLOCK_N=128, num_warps=8, num_stages=2,
                                     share_blocks=True)
    scores = q.astype(F64) @ k.astype(F64).swapaxes(1, 2) * d**-0.5
    scores[:, ~np.tri(n, dtype=bool)] = -np.inf
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    np.testing.assert_allclose(on.back(there[3]), p @ v.astype(F64) / p.sum(axis=2, keepdims=True), rtol=2e-3, atol=2e-3)


def test_lengths_that_follow_from_a_program_s_number_are_shared():
    kernel = compiled(attention, *["*fp16:16"] * 4, "*fp32:16", "i32:16", "fp32", D=64, CAUSAL=True, BLOCK_M=128, BLOCK_N=128, num_warps=8,
                      num_stages=2, share_blocks=True)
    staged = kernel.asm["staged"]
    assert "= worker" in staged and "producer" in staged and "urem" in staged
