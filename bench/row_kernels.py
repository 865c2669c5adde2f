# SPDX-License-Identifier: Apache-2.0
"""Operators along rows of 1M elements, one program a row (of dropout one a thousand), and casts and atomic adds.

The functions `prepare` give what is measured (kernels.Prepared's fields). The peer is torch's operator,
Triton with the same source, or a device copy of as many bytes.
"""
from types import SimpleNamespace

import libtile
import libtile.language as tl

LARGEST = 32
BINS = 256
SEED = 20


@libtile.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    tl.store(out + row * n + cols, tl.load(x + row * n + cols, mask=cols < n), mask=cols < n)


@libtile.jit
def cumsum(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@libtile.jit
def sort(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@libtile.jit
def topk(x, out, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out + row * K + tl.arange(0, K), tl.topk(tl.load(x + row * BLOCK + tl.arange(0, BLOCK)), K))


@libtile.jit
def argmax(x, out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out + row, tl.argmax(tl.load(x + row * BLOCK + tl.arange(0, BLOCK)), 0))


@libtile.jit
def gather(x, index, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at).to(tl.int32), 0))


@libtile.jit
def histogram(x, out, BLOCK: tl.constexpr, N: tl.constexpr):
    counts = tl.histogram(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), N)
    tl.atomic_add(out + tl.arange(0, N), counts)


@libtile.jit
def dropout(x, out, seed, p, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * cols + tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.where(tl.rand(seed, at) > p, tl.load(x + at) / (1 - p), 0.0))


@libtile.jit
def cast(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))


@libtile.jit
def count(out):
    tl.atomic_add(out, 1)


@libtile.jit
def scatter_add(x, index, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(index + at), tl.load(x + at))


TYPES = {"histogram": "i32"}
ROWS = ("cumsum", "sort", "topk", "argmax", "gather", "histogram", "dropout")


def prepare(device, name, cols, twin=None):
    """(ours, theirs, check, lesson); `twin` makes a Triton kernel of one of ours, and that is the peer then."""
    import torch
    rows = (1 << 20) // cols
    if name == "histogram":
        x = torch.randint(0, BINS, (rows, cols), device=device, dtype=torch.int32)
    else:
        x = torch.randn(rows, cols, device=device)
    index = torch.randint(0, cols, (rows, cols), device=device)
    shape = {"topk": (rows, LARGEST), "argmax": (rows,), "histogram": (BINS,)}.get(name, (rows, cols))
    dtype = {"argmax": torch.int64, "histogram": torch.int32}.get(name, torch.float32)
    arguments, options = (x, index) if name == "gather" else (x,), {"BLOCK": cols}
    options |= {"topk": {"K": LARGEST}, "histogram": {"N": BINS}}.get(name, {})
    grid, more = (rows,), ()
    if name == "dropout":
        grid, more, options = (rows, cols // 1024), (SEED, 0.5, cols), {"BLOCK": 1024}
    lesson = SimpleNamespace(kernel=globals()[name])

    def by(kernel, out):
        def run():
            if name == "histogram":
                out.zero_()
            kernel[grid](*arguments, out, *more, **options)
        return run

    def torchs(y=x):
        return {"cumsum": lambda: torch.cumsum(y, 1), "sort": lambda: torch.sort(y, 1)[0],
                "topk": lambda: torch.topk(y, LARGEST, 1)[0], "argmax": lambda: torch.argmax(y, 1),
                "gather": lambda: torch.gather(y, 1, index),
                "histogram": lambda: torch.bincount(x.view(-1), minlength=BINS).to(torch.int32),
                "dropout": lambda: torch.nn.functional.dropout(y, 0.5, True)}[name]()

    out = torch.empty(shape, device=device, dtype=dtype)

    def check():
        if name == "dropout":
            kept = out != 0
            torch.testing.assert_close(out[kept], 2 * x[kept], rtol=0, atol=0)
            assert abs(kept.double().mean() - 0.5) < 5 * 0.5 / 1024  # five deviations of 2^20 throws
            return
        # Sums of up to 32768 numbers in fp32; the others only move or count them.
        want = torchs(x.double() if x.is_floating_point() else x)
        torch.testing.assert_close(out.double(), want.double(), rtol=0, atol=1e-2 if name == "cumsum" else 0.0)
    theirs = torchs if twin is None else by(twin(lesson.kernel), torch.empty_like(out))
    return lambda: by(lesson.kernel, out)(), theirs, check, lesson


def prepare_cast(device, source, result, n):
    """A cast beside a copy of as many bytes, read and written."""
    import torch
    x = torch.randn(n, device=device).to(source)
    out = torch.empty(n, device=device, dtype=result)
    # Written to: an array that nobody has written to lies on a CPU in one page of zeros, which is read from a cache.
    a, b = (torch.ones(n * (x.itemsize + out.itemsize) // 2, device=device, dtype=torch.uint8) for _ in range(2))
    lesson = SimpleNamespace(kernel=cast)

    def check():
        torch.testing.assert_close(out.float(), x.to(result).float(), rtol=0, atol=0)
    return lambda: lesson.kernel[(n // 4096,)](x, out, BLOCK=4096), lambda: b.copy_(a), check, lesson


def prepare_atomic(device, name, twin):
    """Atomic adds beside Triton's: of 2^16 programs to one counter; of 2^20 elements to 4096 places."""
    import torch
    x, index = torch.ones(1 << 20, device=device), torch.randint(0, 4096, (1 << 20,), device=device)
    out, other = (torch.zeros(4096, device=device, dtype=torch.int32 if name == "count" else torch.float32)
                  for _ in range(2))
    lesson = SimpleNamespace(kernel=globals()[name])

    def by(kernel, to):
        if name == "count":
            return lambda: kernel[(1 << 16,)](to)
        return lambda: kernel[(1024,)](x, index, to, BLOCK=1024)

    def check():
        out.zero_()
        by(lesson.kernel, out)()
        want = torch.bincount(index, minlength=4096) if name != "count" else torch.zeros_like(out)
        want[0] += (1 << 16) * (name == "count")
        assert (out == want).all()
    return lambda: by(lesson.kernel, out)(), by(twin(lesson.kernel), other), check, lesson
