# SPDX-License-Identifier: Apache-2.0
"""Chains of short launches, each of which needs what the one before has made: with launch_pdl, without, and Triton's with it.

A chain is a graph, so that the time is the GPU's. Triton's kernels wait by themselves, ours where the compiler has it.
"""
import measure

import libtile
import libtile.language as tl

PAIRS = 16  # of launches in a chain
SHAPES = ((16, 1024), (128, 4096), (1024, 4096))


@libtile.jit
def normalise(x, out, n, WAITS: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    if WAITS:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    d = tl.where(i < n, v - tl.sum(v, axis=0) / n, 0.0)
    tl.store(out + row * n + i, d * tl.rsqrt(tl.sum(d * d, axis=0) / n + 1e-5), mask=i < n)


@libtile.jit
def add(x, y, out, n, WAITS: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    if WAITS:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    at = row * n + i
    tl.store(out + at, tl.load(x + at, mask=i < n) + tl.load(y + at, mask=i < n), mask=i < n)


def _chain(kernels, arrays, waits, pdl):
    """The chain as a graph."""
    import torch
    x, y, middle, out = arrays
    rows, n = x.shape
    options = {"WAITS": waits, "BLOCK": libtile.next_power_of_2(n), "num_warps": 4, "launch_pdl": pdl}

    def steps():
        source = x
        for _ in range(PAIRS):
            kernels[0][(rows,)](source, middle, n, **options)
            kernels[1][(rows,)](middle, y, out, n, **options)
            source = out
    steps()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps()
    return graph


def _want(x, y):
    import torch
    for _ in range(PAIRS):
        x = (torch.nn.functional.layer_norm(x.float(), (x.shape[1],)).to(x.dtype) + y).to(x.dtype)
    return x


def prepare(rows, n, twin):
    import torch
    x, y = (torch.randn(rows, n, device="cuda", dtype=torch.float16) for _ in range(2))

    def made(kernels, waits, pdl):
        arrays = x, y, torch.empty_like(x), torch.empty_like(x)
        return _chain(kernels, arrays, waits, pdl), arrays[3]
    (ours, out), (plain, other) = (made((normalise, add), False, pdl) for pdl in (True, False))
    theirs, _ = made((twin(normalise), twin(add)), True, True)

    def check():
        for graph, result in ((ours, out), (plain, other)):
            result.zero_()
            graph.replay()
            torch.testing.assert_close(result, _want(x, y), rtol=2e-2, atol=2e-2)
    return ours, plain, theirs, check


def row(rows, n, twin):
    """Seconds of one launch of the chain; `gain`: without launch_pdl over with it."""
    ours, plain, theirs, check = prepare(rows, n, twin)
    check()
    beside, without = (measure.interleaved(ours.replay, other.replay, "cuda") for other in (theirs, plain))
    check()
    of_one = {"ours_s": beside["ours_s"], "peer_s": beside["peer_s"], "plain_s": without["peer_s"]}
    return {"peer": "triton", **{name: seconds / (2 * PAIRS) for name, seconds in of_one.items()}, "ratio": beside["ratio"],
            "gain": without["ratio"], "spread": max(beside["spread"], without["spread"])}
