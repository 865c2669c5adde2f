# SPDX-License-Identifier: Apache-2.0
"""Lesson 8's products of many sizes in one launch, as it stands, beside the faster one of torch and Triton with the same source.

The sizes are those of a mixture of experts: rows by chance, columns and depth of the layer. `prepare` gives what is
measured (kernels.Prepared's fields).
"""
import importlib
from types import SimpleNamespace

import libtile
import libtile.language as tl
import measure
from fitted import fitted

grouped = importlib.import_module("08_grouped_gemm")

# (BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages)
SHAPES = ((128, 256, 64, 8, 3), (128, 128, 64, 8, 3), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4), (64, 128, 64, 4, 4), (128, 128, 32, 8, 4),
          (64, 64, 64, 4, 4), (64, 128, 128, 4, 3), (128, 128, 128, 8, 3), (64, 64, 128, 4, 3))


def cases():
    """(name, arguments of prepare)."""
    for experts, rows, size in ((8, 512, 512), (16, 1024, 2048)):
        yield f"grouped/f16/{experts}x{rows}x{size}", (experts, rows, size)


def _fitted(language, kernel, group, elements):
    import torch
    programs = torch.cuda.get_device_properties(0).multi_processor_count

    def launch(kernel, **options):
        return kernel[(programs,)](*group.arguments, group.size, DTYPE=elements, ALIGNED=group.is_aligned, **options)
    configs = [language.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=stages)
               for m, n, k, warps, stages in SHAPES]
    return launch, fitted(language, kernel, configs, ["groups"], launch)


def prepare(experts, rows, size, twin):
    """(ours, theirs, check, lesson, configuration)."""
    import torch
    import triton
    counts = torch.randint(32, 2 * rows - 31, (experts,), generator=torch.Generator().manual_seed(0)).tolist()
    a = [torch.randn(count, size, device="cuda").half() for count in counts]
    b = [torch.randn(size, size, device="cuda").half() for _ in counts]
    results = [[torch.empty_like(x) for x in a] for _ in range(3)]
    ours, theirs = (grouped.Group("cuda", a, b, c) for c in results[:2])
    launch, options = _fitted(libtile, grouped.grouped_matmul, ours, tl.float16)
    kernel = twin(grouped.grouped_matmul)
    by_triton, their_options = _fitted(triton, kernel, theirs, triton.language.float16)

    def by_torch():
        for x, y, out in zip(a, b, results[2]):
            torch.mm(x, y, out=out)
    peers = [by_torch, lambda: by_triton(kernel, **their_options)]
    lesson = SimpleNamespace(kernel=grouped.grouped_matmul)

    def check():
        for x, y, got in zip(a, b, results[0]):
            want = x.double() @ y.double()
            bound = (x.double().abs() @ y.double().abs()) * size * 2.0**-24 + want.abs() * 2.0**-10
            assert ((got.double() - want).abs() <= bound).all()
    return (lambda: launch(lesson.kernel, **options), min(peers, key=lambda peer: min(measure._cuda(peer, 20) for _ in range(3))),
            check, lesson, options)
