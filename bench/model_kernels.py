# SPDX-License-Identifier: Apache-2.0
"""What models run between their products: norms, losses, gates, rotations, lookups and transposes.

`prepare` gives what is measured (kernels.Prepared's fields), in bf16 on a GPU beside Triton with the same source;
`prepare_ours` our side alone, on any device.
"""
from types import SimpleNamespace

import libtile
import libtile.language as tl

EPS = 1e-5


@libtile.jit
def rms_norm(x, weight, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + i, mask=i < cols, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(a * a) / cols + eps)
    w = tl.load(weight + i, mask=i < cols, other=0.0).to(tl.float32)
    tl.store(out + row * cols + i, (a * scale * w).to(out.dtype.element_ty), mask=i < cols)


@libtile.jit
def cross_entropy(x, target, loss, cols, BLOCK: tl.constexpr):
    # A row does not fit into registers: the largest so far, and the sum of powers relative to it.
    row = tl.program_id(0)
    start = x + row.to(tl.int64) * cols
    largest = -float("inf")
    total = 0.0
    for first in range(0, cols, BLOCK):
        i = first + tl.arange(0, BLOCK)
        a = tl.load(start + i, mask=i < cols, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(largest, tl.max(a))
        total = total * tl.exp(largest - grown) + tl.sum(tl.exp(a - grown))
        largest = grown
    tl.store(loss + row, largest + tl.log(total) - tl.load(start + tl.load(target + row)).to(tl.float32))


@libtile.jit
def swiglu(gate, up, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(gate + i, mask=i < n, other=0.0).to(tl.float32)
    b = tl.load(up + i, mask=i < n, other=0.0)
    tl.store(out + i, (a * tl.sigmoid(a)).to(b.dtype) * b, mask=i < n)


@libtile.jit
def rope(x, cos, sin, out, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    # [positions, heads, 2 * HALF]: the two halves of a head are turned against each other.
    position = tl.program_id(0)
    i = tl.arange(0, HALF)[None, :]
    head = tl.arange(0, HEADS)[:, None]
    at = (position * heads + head) * (2 * HALF) + i
    c, s = tl.load(cos + position * HALF + i).to(tl.float32), tl.load(sin + position * HALF + i).to(tl.float32)
    a = tl.load(x + at, mask=head < heads).to(tl.float32)
    b = tl.load(x + at + HALF, mask=head < heads).to(tl.float32)
    tl.store(out + at, (a * c - b * s).to(out.dtype.element_ty), mask=head < heads)
    tl.store(out + at + HALF, (b * c + a * s).to(out.dtype.element_ty), mask=head < heads)


@libtile.jit
def embedding(index, table, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(out + row.to(tl.int64) * cols + i,
             tl.load(table + tl.load(index + row).to(tl.int64) * cols + i, mask=i < cols), mask=i < cols)


@libtile.jit
def transpose(x, out, rows, cols, BLOCK: tl.constexpr):
    r = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    c = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    inside = (r < rows) & (c < cols)
    tl.store(out + c * rows + r, tl.load(x + r * cols + c, mask=inside), mask=inside)


@libtile.jit
def transpose_trans(x, out, rows, cols, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols))
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(a), mask=(c[:, None] < cols) & (r[None, :] < rows))


def _rms_norm(torch, new, cols, rows):
    x, weight = new(rows, cols), new(cols)
    want = x.double() * torch.rsqrt((x.double() ** 2).mean(1, keepdim=True) + EPS) * weight.double()
    return (rows,), (x, weight), (cols, EPS), {"BLOCK": _power_of_2(cols)}, torch.empty_like(x), want


def _cross_entropy(torch, new, cols, rows):
    x = new(rows, cols)
    target = torch.randint(0, cols, (rows,), device=x.device)
    want = torch.cat([torch.nn.functional.cross_entropy(a.double(), b, reduction="none")
                      for a, b in zip(x.split(256), target.split(256))])
    return (rows,), (x, target), (cols,), {"BLOCK": 4096}, torch.empty(rows, device=x.device), want


def _swiglu(torch, new, cols, rows):
    gate, up = new(rows, cols), new(rows, cols)
    want = torch.nn.functional.silu(gate.double()) * up.double()
    return (-(-gate.numel() // 2048),), (gate, up), (gate.numel(),), {"BLOCK": 2048}, torch.empty_like(gate), want


def _rope(torch, new, half, positions):
    heads = 32
    x, cos, sin = new(positions, heads, 2 * half), new(positions, half), new(positions, half)
    a, b = x.double().split(half, -1)
    c, s = cos.double()[:, None], sin.double()[:, None]
    return ((positions,), (x, cos, sin), (heads,), {"HALF": half, "HEADS": heads}, torch.empty_like(x),
            torch.cat([a * c - b * s, b * c + a * s], -1))


def _embedding(torch, new, cols, rows):
    table = new(32000, cols)
    index = torch.randint(0, 32000, (rows,), device=table.device)
    return (rows,), (index, table), (cols,), {"BLOCK": _power_of_2(cols)}, table[index].clone(), table[index]


def _transpose(torch, new, cols, rows):
    x = new(rows, cols)
    return (-(-rows // 64), -(-cols // 64)), (x,), (rows, cols), {"BLOCK": 64}, torch.empty_like(x), x.T.contiguous()


# name: (kernel, sizes, rows, what makes (grid, inputs, what follows the result, constants, result, right result))
ROWS = {
    "rms_norm": (rms_norm, (4096, 16384), 4096, _rms_norm), "cross_entropy": (cross_entropy, (32000, 128256), 4096, _cross_entropy),
    "swiglu": (swiglu, (14336,), 4096, _swiglu), "rope": (rope, (64,), 8192, _rope),
    "embedding": (embedding, (4096,), 16384, _embedding), "transpose": (transpose, (8192,), 8192, _transpose),
    "transpose_trans": (transpose_trans, (8192,), 8192, _transpose),
}


def _power_of_2(n):
    return 1 << (n - 1).bit_length()


def _made(device, name, size, dtype, rows=None):
    """(lesson, what launches a kernel into an array, inputs, result, check, warps of Triton's)."""
    import torch
    kernel, _, usual_rows, make = ROWS[name]
    grid, inputs, more, constants, out, want = make(torch, lambda *shape: torch.randn(shape, device=device).to(dtype), size,
                                                    rows or usual_rows)
    out.fill_(float("nan"))

    def launch(kernel, to, **options):
        return kernel[grid](*inputs, to, *more, **constants, **options)

    def check():
        # A result of bf16 is rounded to 8 bits; in fp32 a row's sum is off by a few units of its terms.
        rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (2e-2, 1e-3)
        torch.testing.assert_close(out.double(), want.double(), rtol=rtol, atol=atol)
    # Triton's standard is 4 warps; its tutorials give a warp 256 elements of a row, up to 8 or 16 warps.
    warps = {"num_warps": min(max(constants["BLOCK"] // 256, 1), 16)} if "BLOCK" in constants and "trans" not in name else {}
    return SimpleNamespace(kernel=kernel), launch, inputs, out, check, warps


def prepare_ours(device, name, size, dtype, rows):
    """(ours, check, lesson, inputs, result)."""
    lesson, launch, inputs, out, check, _ = _made(device, name, size, dtype, rows)
    return lambda: launch(lesson.kernel, out), check, lesson, inputs, out


def prepare(name, size, twin):
    """(ours, theirs, check, lesson); `twin` makes a Triton kernel of one of ours."""
    import torch
    lesson, launch, _, out, check, warps = _made("cuda", name, size, torch.bfloat16)
    other, theirs = torch.empty_like(out), twin(lesson.kernel)
    return lambda: launch(lesson.kernel, out), lambda: launch(theirs, other, **warps), check, lesson
