# SPDX-License-Identifier: Apache-2.0
"""Programs of a cluster (option num_ctas), which copy boxes for each other, against float64; and their code."""
import re

import numpy as np
import pytest
from spine import DEVICES, F16, F32, F64, OnDevice, poisoned
from test_producers import rounds, scaled_sums, small, softmax_sums
from test_ptx import PTXAS, assemble

import libtile
import libtile.language as tl


@libtile.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
            PLAIN: tl.constexpr):
    """Grouped order: neighbours mostly have the same columns, at the end of a group other ones, in a last group of one row the same
    rows. By plain pointers that wrap around, or by descriptors."""
    pid, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * tiles_n)
    rows_here = min(tiles_m - group * GROUP, GROUP)
    row = group * GROUP + pid % (GROUP * tiles_n) % rows_here
    col = pid % (GROUP * tiles_n) // rows_here
    m, n, k = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    if PLAIN:
        for i in range(0, K, BK):
            x = tl.load(a + (m % M)[:, None] * K + (i + k)[None, :], mask=(i + k)[None, :] < K, other=0.0)
            y = tl.load(b + (i + k)[:, None] * N + (n % N)[None, :], mask=(i + k)[:, None] < K, other=0.0)
            acc = tl.dot(x, y, acc)
    else:
        ad = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
        bd = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
        for i in range(0, K, BK):
            acc = tl.dot(ad.load([row * BM, i]), bd.load([i, col * BN]), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@libtile.jit
def halved(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Sums that are halved in each iteration: they are waited for. The grid has the columns on its second axis."""
    ad = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    bd = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(ad.load([row, i]), bd.load([col, i]).T, acc * 0.5)
    m, n = row + tl.arange(0, BM), col + tl.arange(0, BN)
    tl.store(c + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@libtile.jit
def triangle(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Row i of the tiles has i + 1 of the blocks of k: neighbours run loops of different length."""
    ad = tl.make_tensor_descriptor(a, shape=[1024, K], strides=[K, 1], block_shape=[BM, BK])
    bd = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    row = tl.program_id(0)
    m, n = row * BM + tl.arange(0, BM), tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, min((row + 1) * BK, K), BK):
        acc = tl.dot(ad.load([row * BM, i]), bd.load([i, 0]), acc * 0.5)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@libtile.jit
def in_turn(a, b, c, flag, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each program waits for the one before, which must not wait for it."""
    ad = tl.make_tensor_descriptor(a, shape=[1024, K], strides=[K, 1], block_shape=[BM, BK])
    bd = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    row = tl.program_id(0)
    m, n = row * BM + tl.arange(0, BM), tl.arange(0, BN)
    while tl.atomic_add(flag, 0, sem="relaxed") < row:
        pass
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(ad.load([row * BM, i]), bd.load([i, 0]), acc * 0.5)
    tl.store(c + m[:, None] * N + n[None, :], acc)
    tl.atomic_add(flag, 1, sem="relaxed")


@libtile.jit
def where_it_runs(a, b, c, at, N, K, TILES, STRIDE, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, LOOP: tl.constexpr):
    """The multiprocessor's number says which tile a program makes, or the first one of those that it makes; it tells its neighbours
    nothing of theirs."""
    ad = tl.make_tensor_descriptor(a, shape=[1024, K], strides=[K, 1], block_shape=[BM, BK])
    bd = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    first = tl.extra.cuda.smid() if tl.target_info.is_cuda() else tl.program_id(0) * 3
    pid, m, n = tl.program_id(0), tl.arange(0, BM), tl.arange(0, BN)
    tl.store(at + pid, first)
    if LOOP:
        acc = tl.zeros((BM, BN), tl.float32)
        for row in range(first, TILES, STRIDE):
            for i in range(0, K, BK):
                acc = tl.dot(ad.load([row % 8 * BM, i]), bd.load([i, 0]), acc)
    else:
        acc = tl.zeros((BM, BN), tl.float32)
        for i in range(0, K, BK):
            acc = tl.dot(ad.load([first % 8 * BM, i]), bd.load([i, first % 2 * BN]), acc)
    tl.store(c + (pid * BM + m)[:, None] * BN + n[None, :], acc)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("programs", [2, 4, 8])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("tile", [(128, 128, 64, 8), (128, 256, 64, 8), (64, 128, 32, 8)])
def test_product(tile, plain, programs, device):
    """Grids that are a multiple of the cluster, or not; groups that end within one; k of 0."""
    rng = np.random.default_rng(1)
    bm, bn, bk, warps = tile
    for m, n, k, group in ((1024, 1024, 256, 8), (1000, 776, 1232, 3), (384, 512, 64, 2), (128, 2048, 200, 8), (256, 512, 0, 4),
                           (640, 904, 136, 4)):
        a, b = small(rng, m, k), small(rng, k, n)
        on = OnDevice(device)
        there = [on(x) for x in (a, b, poisoned((m, n), F32))]
        grid = (-(-m // bm) * -(-n // bn),)
        product[grid](*there, m, n, k, BM=bm, BN=bn, BK=bk, GROUP=group, PLAIN=plain, num_warps=warps, num_ctas=programs)
        np.testing.assert_array_equal(on.back(there[2]).astype(F64), a.astype(F64) @ b.astype(F64), f"{m} {n} {k}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("programs", [2, 4])
def test_halved(programs, device):
    rng = np.random.default_rng(2)
    for m, n, k in ((1024, 512, 512), (700, 300, 200), (512, 128, 64)):
        a, b = (rng.integers(-1, 2, shape).astype(F16) for shape in ((m, k), (n, k)))
        on = OnDevice(device)
        there = [on(x) for x in (a, b, poisoned((m, n), F32))]
        halved[(-(-m // 128), -(-n // 256))](*there, m, n, k, BM=128, BN=256, BK=64, num_warps=8, num_ctas=programs)
        want = np.zeros((m, n))
        for i in range(0, k, 64):
            want = want * 0.5 + a[:, i:i + 64].astype(F64) @ b[:, i:i + 64].astype(F64).T
        np.testing.assert_array_equal(on.back(there[2]), want.astype(F32), f"{m} {n} {k}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("programs", [2, 4])
def test_attention(programs, device):
    """All programs of a head want the same keys and values; two loops, and how many keys there are from memory."""
    rng = np.random.default_rng(3)
    for n in (128, 256, 700):
        q, k, v = (rng.standard_normal((3, n, 128)).astype(F16) for _ in range(3))
        on = OnDevice(device)
        there = [on(x) for x in (q, k, v, poisoned((3, n, 128), F32))]
        softmax_sums[(-(-n // 128), 3)](*there, n, D=128, BM=128, BN=128, num_warps=8, num_stages=2, num_ctas=programs)
        scores = q.astype(F64) @ k.astype(F64).swapaxes(1, 2) * 0.25
        p = np.exp2(scores - scores.max(axis=2, keepdims=True))
        # P is rounded to fp16.
        np.testing.assert_allclose(on.back(there[3]), p @ v.astype(F64) / p.sum(axis=2, keepdims=True), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_no_cluster_is_right(device):
    rng = np.random.default_rng(4)
    a, b = small(rng, 1024, 256), small(rng, 256, 256)
    for kernel, more in ((triangle, ()), (in_turn, (np.zeros(1, np.int32),))):
        on = OnDevice(device)
        there = [on(x) for x in (a, b, poisoned((1024, 256), F32), *more)]
        made = kernel[(8,)](*there, 256, 256, BM=128, BN=256, BK=64, num_warps=8, num_ctas=2)
        want = np.zeros((1024, 256))
        for i in range(4):
            part = slice(i * 64, i * 64 + 64)
            runs = (np.arange(1024) // 128 >= i)[:, None] if kernel is triangle else True
            want = np.where(runs, want * 0.5 + a[:, part].astype(F64) @ b[part].astype(F64), want)
        np.testing.assert_array_equal(on.back(there[2]), want.astype(F32), kernel.__name__)
        assert device != "cuda" or "sm_9" not in made.target or len(made.fallbacks) == 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loop", [False, True])
def test_multiprocessors_numbers(loop, device):
    rng = np.random.default_rng(5)
    a, b = small(rng, 1024, 256), small(rng, 256, 512)
    on = OnDevice(device)
    there = [on(x) for x in (a, b, poisoned((16 * 128, 256), F32), poisoned(16, np.int32))]
    where_it_runs[(16,)](*there, 512, 256, 200, 50, BM=128, BN=256, BK=64, LOOP=loop, num_warps=8, num_ctas=2)
    at, made = on.back(there[3]), on.back(there[2]).reshape(16, 128, 256)
    rows, columns = a.astype(F64).reshape(8, 128, 256), b.astype(F64).reshape(256, 2, 256).swapaxes(0, 1)
    for first, tile in zip(at, made):
        want = sum((rows[row % 8] @ columns[0] for row in range(first, 200, 50)), np.zeros((128, 256))) if loop else rows[first % 8] @ columns[first % 2]
        np.testing.assert_array_equal(tile, want.astype(F32), f"{first}")


def compiled(kernel, *arguments, target="sm_90a", **options):
    return kernel.warmup(*arguments, grid=(1,), target=target, **{"num_ctas": 2, "num_warps": 8, **options})


CASES = {
    "product": lambda **more: compiled(product, *["*fp16:16"] * 2, "*fp32:16", *["i32:16"] * 3, BM=128, BN=256, BK=64, GROUP=8, PLAIN=False,
                                       **more),
    "plain": lambda **more: compiled(product, *["*fp16:16"] * 2, "*fp32:16", *["i32:16"] * 3, BM=128, BN=256, BK=64, GROUP=8, PLAIN=True,
                                     **more),
    "halved": lambda **more: compiled(halved, *["*fp16:16"] * 2, "*fp32:16", *["i32:16"] * 3, BM=128, BN=256, BK=64, **more),
    "softmax": lambda **more: compiled(softmax_sums, *["*fp16:16"] * 3, "*fp32:16", "i32:16", D=128, BM=128, BN=128, num_stages=2, **more),
}


@pytest.mark.parametrize("programs", [2, 4, 8])
@pytest.mark.parametrize("case", CASES)
def test_code(case, programs, tmp_path):
    """One instruction for each part of a box, by one program for all; ptxas spills nothing and has no fence of all memory."""
    kernel = CASES[case](num_ctas=programs)
    assert kernel.fallbacks == [] and f"// clusters of {programs} programs" in kernel.asm["plan"]
    ptx, staged = kernel.asm["ptx"], kernel.asm["staged"]
    assert staged.count("cluster_barrier") == 2 and staged.count(f"cluster={programs}") >= 4
    assert ptx.count("barrier.cluster.arrive") == 2 and f"mov.b16 programs, {2**programs - 1};" in ptx
    assert len(re.findall(r"@mine\d cp\.async\.bulk\.tensor\S*\.multicast::cluster ", ptx)) == ptx.count(".multicast::cluster")
    assert re.search(r"and\.b32 \S+ \S+ 262143;", ptx), "a descriptor takes no more of an address, which has a program's rank above"
    assert PTXAS is not None and assemble(ptx, "sm_90a", tmp_path) == 0


def test_who_has_no_clusters():
    """Each says why; the code is that of single programs."""
    why = "programs of a cluster copy nothing for each other: "
    one = ("*fp16:16", "*fp16:16", "*fp32:16", "i32:16", "i32:16")
    for reason, kernel in (
            ("clusters have 1, 2, 4 or 8 programs", CASES["product"](num_ctas=3)),
            ("clusters have 1, 2, 4 or 8 programs", CASES["product"](num_ctas=16)),
            ("sm_80 has no clusters", CASES["product"](target="sm_80")),
            ("no warp of its own copies boxes", CASES["product"](warp_specialize=False)),
            ("no warp of its own copies boxes", CASES["softmax"](copy_boxes=False)),
            ("their loops may be of different length", CASES["softmax"](share_blocks=True)),
            ("their loops may be of different length", compiled(triangle, *one, BM=128, BN=256, BK=64)),
            ("their loops may be of different length", compiled(rounds, *one[:3], *["i32:16"] * 3, "i32", BM=128, BN=256, BK=64, STAGES=3)),
            ("their loops may be of different length", compiled(scaled_sums, *one[:2], "*fp16:16", "*fp32:16", "*i32:16", "i32:16", D=128,
                                                                BM=128, BN=64, LOOPS=1, num_stages=2)),
            ("their loops may be of different length", compiled(where_it_runs, *one[:3], "*i32:16", *["i32:16"] * 4, BM=128, BN=256, BK=64,
                                                                LOOP=True)),
            ("they want no box that is the same", compiled(where_it_runs, *one[:3], "*i32:16", *["i32:16"] * 4, BM=128, BN=256, BK=64,
                                                           LOOP=False)),
            ("programs may wait for each other", compiled(in_turn, *one[:3], "*i32:16", *one[3:], BM=128, BN=256, BK=64))):
        assert why + reason in kernel.fallbacks and "cluster" not in kernel.asm["ptx"].replace("shared::cluster", "").replace(
            "init.release.cluster", ""), (reason, kernel.fallbacks)
    assert CASES["product"](num_ctas=1).fallbacks == []
