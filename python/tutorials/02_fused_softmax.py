# SPDX-License-Identifier: Apache-2.0
"""Lesson 2: a fused softmax.

Each program takes whole rows: it reads a row once, keeps it as a tile, and writes the result once.
In NumPy the same formula goes over memory five times. New here: reductions (`tl.max`, `tl.sum`),
a loop over rows, and masked elements that are given a value (`other`).

    python 02_fused_softmax.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def softmax(out, x, out_stride, x_stride, n_rows, n_cols, BLOCK: tl.constexpr):
    start = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(start, n_rows, step):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        # -inf is neutral for max, and exp(-inf) = 0 is neutral for sum.
        a = tl.load(x + row * x_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
        # Subtracting the largest element keeps exp from overflowing.
        e = tl.exp(a - tl.max(a, axis=0))
        y = e / tl.sum(e, axis=0)
        tl.store(out + row * out_stride + cols, y, mask=mask)


def run(x, out, programs=None):
    """out = softmax of each row of the 2-D array x."""
    rows, cols = x.shape
    grid = (programs or rows,)
    softmax[grid](out, x, cols, cols, rows, cols, BLOCK=libtile.next_power_of_2(cols))
    return out


def reference(x):
    """In float64, with NumPy."""
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def check(device):
    rng = np.random.default_rng(0)
    for shape in ((3, 1), (1823, 781), (64, 4096)):
        x = rng.standard_normal(shape, dtype=np.float32)
        out = run(*lesson.place(device, x, lesson.unwritten(shape)))
        np.testing.assert_allclose(lesson.host(out), reference(x), rtol=1e-5, atol=1e-8)
        print(f"{shape[0]} x {shape[1]}: right")


def by_numpy(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def measure(columns, provider, device):
    rows = 1024 if device == "cpu" else 4096
    x = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    x, out = lesson.place(device, x, np.empty_like(x), provider=provider)
    calls = {
        "libtile": lambda: run(x, out),
        "Triton": lambda: lesson.by_triton(__file__).run(x, out),
        "torch": lambda: x.softmax(1),
        "NumPy": lambda: by_numpy(x),
    }
    return lesson.rate(calls[provider], 2 * x.nbytes, device, provider)


if __name__ == "__main__":
    lesson.main(check, measure, "fused softmax", "columns", [256, 781, 1024, 2048, 4096, 8192], "GB/s")
