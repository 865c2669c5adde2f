# SPDX-License-Identifier: Apache-2.0
"""Matrix products beside cuBLAS: the kernels of lessons 3 and 9 as they stand, fitted by the tuner to each size.

`prepare` gives what is measured (kernels.Prepared's fields). The products of a batch and of a long sum have kernels of
their own here. Beside Triton (/triton) both sides have the best of the same list. fp8 has B with K along its rows' neighbours, the one order that both sides' matrix units take.
"""
import importlib
from types import SimpleNamespace

import libtile
import libtile.language as tl
import measure
from fitted import FINALISTS, fastest, fitted
from libtile.tools.tensor_descriptor import TensorDescriptor

matmul = importlib.import_module("03_matmul")
persistent = importlib.import_module("09_persistent_matmul")

# What the tuner tries: of the lesson's list what takes a GPU's matrix units, and deeper sums for 8-bit types.
SHAPES = ((128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 64, 8, 4), (128, 256, 128, 8, 3),
          (128, 128, 128, 4, 3), (128, 256, 32, 8, 4), (256, 128, 32, 8, 4), (128, 128, 32, 8, 3), (128, 128, 32, 4, 4), (64, 128, 64, 4, 4), (128, 64, 64, 8, 4),
          (64, 64, 64, 4, 5), (64, 32, 64, 4, 5), (64, 128, 128, 4, 3),
          (128, 256, 64, 8, 4, "share_blocks"), (256, 128, 64, 8, 4, "share_blocks"), (128, 256, 128, 8, 3, "share_blocks"))
# How many rows of tiles are passed together decides what stays in the second cache: for the tiles of large products, whose matrices do not.
GROUPS = {shape: (4, 8, 16) for shape in SHAPES if "share_blocks" in shape or shape == (128, 256, 64, 8, 4)}
CONFIGS = [libtile.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": group, **dict.fromkeys(options, True)}, num_warps=warps,
                          num_stages=stages) for m, n, k, warps, stages, *options in SHAPES
           for group in GROUPS.get((m, n, k, warps, stages, *options), (8,))]


@libtile.jit
def batched(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    part = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a + part * M * K + rows * K + k[None, :], mask=(rows < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + part * K * N + k[:, None] * N + cols, mask=(k[:, None] < K) & (cols < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + part * M * N + rows * N + cols, acc.to(c.dtype.element_ty), mask=(rows < M) & (cols < N))


@libtile.jit
def split_k(a, b, c, M, N, K, PARTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(tl.program_id(2) * BLOCK_K, K, PARTS * BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a + rows * K + k[None, :], mask=(rows < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + cols, mask=(k[:, None] < K) & (cols < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.extra.cuda.gdc_wait()  # for c's zeros, which the launch before writes
    tl.atomic_add(c + rows * N + cols, acc, mask=(rows < M) & (cols < N), sem="relaxed")


def _types(torch):
    return {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "int8": torch.int8, "e4m3": torch.float8_e4m3fn}


def cases():
    """(name, arguments of prepare)."""
    for kind in ("f16", "bf16"):
        for size in (2048, 4096, 8192):
            for order in ("", "/bt"):
                yield f"matmul/{kind}/{size}{order}", (kind, (size,) * 3, order)
            yield f"matmul/{kind}/{size}/triton", (kind, (size,) * 3, "/triton")
            yield f"matmul/{kind}/{size}/descriptors", (kind, (size,) * 3, "/descriptors")
    for kind in ("e4m3", "int8", "tf32"):
        for size in (2048, 4096, 8192):
            yield f"matmul/{kind}/{size}/bt", (kind, (size,) * 3, "/bt")
    for kind in ("int8", "tf32"):
        yield f"matmul/{kind}/4096", (kind, (4096,) * 3, "")
    for size in ((512,) * 3, (1024,) * 3, (1000, 777, 1234)):
        yield "matmul/f16/" + "x".join(map(str, size[:1] if size[0] == size[1] else size)), ("f16", size, "")
    yield "batched/f16/64x128", ("f16", (128, 128, 128), "batched")
    yield "split_k/f16/512x512x16384", ("f16", (512, 512, 16384), "split_k")


def _operands(torch, kind, shape, order):
    """a, b (a view of its transpose for "/bt") and c."""
    dtype = _types(torch)[kind]
    m, n, k = shape
    lead = (64,) if order == "batched" else ()

    def new(*extents):
        if kind == "int8":
            return torch.randint(-128, 128, extents, device="cuda", dtype=dtype)
        return torch.randn(extents, device="cuda").to(dtype)
    a, b = new(*lead, m, k), new(n, k).T if order == "/bt" else new(*lead, k, n)
    result = {"int8": torch.int32, "e4m3": torch.bfloat16}.get(kind, torch.float32 if order == "split_k" else dtype)
    return a, b, torch.empty(*lead, m, n, device="cuda", dtype=result)


def _peer(torch, kind, a, b, order):
    if kind == "int8":
        return lambda: torch._int_mm(a, b)
    if kind == "e4m3":
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    if kind == "tf32":
        torch.backends.cuda.matmul.allow_tf32 = True
    return lambda: torch.matmul(a, b)


def _launch(kernel, order, a, b, c):
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if order == "/descriptors":
        return lambda **options: _by_descriptors(kernel, a, b, c, **options)
    tiles = [lambda meta: -(-m // meta["BLOCK_M"]), lambda meta: -(-n // meta["BLOCK_N"])]
    if order in ("", "/bt", "/triton"):
        grid = lambda meta: (tiles[0](meta) * tiles[1](meta),)
        return lambda **options: kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), **options)
    grid = lambda meta: (tiles[0](meta), tiles[1](meta), meta["PARTS"] if order == "split_k" else a.shape[0])

    def launch(**options):
        if order == "split_k":
            c.zero_()
            options["launch_pdl"] = True  # the sums start while c is still being zeroed
        return kernel[grid](a, b, c, m, n, k, **options)
    return launch


def _by_descriptors(kernel, a, b, c, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, **options):
    import torch
    blocks = (a, BLOCK_M, BLOCK_K), (b, BLOCK_K, BLOCK_N), (c, BLOCK_M, BLOCK_N)
    descriptors = [TensorDescriptor.from_tensor(array, [rows, columns]) for array, rows, columns in blocks]
    tiles = -(-a.shape[0] // BLOCK_M) * -(-b.shape[1] // BLOCK_N)
    programs = min(tiles, torch.cuda.get_device_properties(0).multi_processor_count)
    return kernel[(programs,)](*descriptors, a.shape[0], b.shape[1], a.shape[1], GROUP_M=GROUP_M, **options)


def _error_bound(torch, kind, a, b, want, depth):
    """Products are exact in fp32 (of tf32's operands 10 bits are kept); sums of k terms and one final rounding are not. The
    8-bit units keep 13 bits of a sum."""
    sums = {"int8": 0.0, "e4m3": 2.0**-13 * depth**0.5, "tf32": depth * 2.0**-24 + 2.0**-9}.get(kind, depth * 2.0**-24)
    unit = {"f16": 2.0**-10, "bf16": 2.0**-7, "e4m3": 2.0**-7}.get(kind, 2.0**-23 if kind == "tf32" else 0.0)
    return (a.double().abs() @ b.double().abs()) * sums + want.abs() * unit


def prepare(kind, shape, order, twin):
    """(ours, theirs, check, lesson, configuration); ours is launched with the best of CONFIGS."""
    import torch
    a, b, c = _operands(torch, kind, shape, order)
    kernel = {"batched": batched, "split_k": split_k, "/descriptors": persistent.persistent_matmul}.get(order, matmul.matmul)
    precision = {"default_dot_input_precision": "tf32"} if kind == "tf32" else {}

    def launch(kernel, **options):
        return _launch(kernel, order, a, b, c)(**precision, **options)
    if order == "/descriptors":
        options = _fitted_blocks(kernel, launch)
    else:
        options = precision | fitted(libtile, kernel, _configs(kernel), ["M", "N", "K"], launch)
    lesson = SimpleNamespace(kernel=kernel)

    def check():
        rows = slice(0, min(shape[0], 512))
        part = (Ellipsis, rows, slice(None))
        want = a[part].double() @ b.double()
        assert ((c[part].double() - want).abs() <= _error_bound(torch, kind, a[part], b, want, shape[2])).all()
    c.fill_(0)
    theirs = _best_of_triton(twin(kernel), a, b) if order == "/triton" else _peer(torch, kind, a, b, order)
    return lambda: _launch(lesson.kernel, order, a, b, c)(**options), theirs, check, lesson, options


def _best_of_triton(kernel, a, b):
    import torch
    import triton
    c = torch.empty(a.shape[0], b.shape[1], device="cuda", dtype=a.dtype)
    configs = [triton.Config(config.kwargs, num_warps=config.num_warps, num_stages=config.num_stages)
               for config in CONFIGS if "share_blocks" not in config.kwargs]

    def launch(kernel, **options):
        return _launch(kernel, "/triton", a, b, c)(**options)
    options = fitted(triton, kernel, configs, ["M", "N", "K"], launch)
    return lambda: launch(kernel, **options)


def _configs(kernel):
    if kernel is matmul.matmul:
        return CONFIGS
    configs = [_without_groups(config) for config in CONFIGS if config.kwargs["GROUP_M"] == 8]
    return [_in_parts(config, parts) for config in configs for parts in (4, 8, 16)] if kernel is split_k else configs


def _fitted_blocks(kernel, launch):
    """As `fitted`, for blocks that are no arguments of the kernel: descriptors bring them along."""
    timings = {}
    for config in CONFIGS:
        if "share_blocks" not in config.kwargs and not launch(kernel, **config.all_kwargs()).fallbacks:
            timings[config] = 1e3 * min(measure._cuda(lambda: launch(kernel, **config.all_kwargs()), 3) for _ in range(3))
    return fastest(kernel, sorted(timings, key=timings.get)[:FINALISTS], timings, launch).all_kwargs()


def _without_groups(config):
    constants = {name: value for name, value in config.kwargs.items() if name != "GROUP_M"}
    return libtile.Config(constants, num_warps=config.num_warps, num_stages=config.num_stages)


def _in_parts(config, parts):
    return libtile.Config({**config.kwargs, "PARTS": parts}, num_warps=config.num_warps, num_stages=config.num_stages)
