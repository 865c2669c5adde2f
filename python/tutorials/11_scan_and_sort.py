# SPDX-License-Identifier: Apache-2.0
"""Lesson 11: scans and sorts.

A scan gives each element what all elements up to it add up to, and "add" may be any associative
function: of pairs of numbers too. The first kernel runs the recurrence h[t] = a[t] h[t-1] + b[t] of a
state-space model. It looks sequential, step after step. But a step is a map h -> a h + b, two such maps
one after the other are one again, and maps may be combined in any grouping: so it is a scan.

The second kernel chooses the words that a language model may say next: of each row of scores the
likeliest ones that have the probability `mass` together. It sorts, scans and compares, and none of
that leaves the registers. New here: `associative_scan`, `sort`, `cumsum`, the last element of a tile.

    python 11_scan_and_sort.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def one_after_the_other(a1, b1, a2, b2):
    """The map h -> a1 h + b1, and then h -> a2 h + b2."""
    return a2 * a1, a2 * b1 + b2


@libtile.jit
def recurrence(a, b, out, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    state = tl.zeros([ROWS], tl.float32)
    for start in range(0, n, BLOCK):
        t = start + tl.arange(0, BLOCK)
        i = row[:, None] * n + t[None, :]
        mask = (row[:, None] < rows) & (t[None, :] < n)
        # Past the end stands the map that changes nothing.
        factor = tl.load(a + i, mask=mask, other=1.0)
        term = tl.load(b + i, mask=mask, other=0.0)
        factor, term = tl.associative_scan((factor, term), 1, one_after_the_other)
        h = factor * state[:, None] + term
        tl.store(out + i, h, mask=mask)
        state = h[:, -1]


@libtile.jit
def nucleus(scores, out, n, mass, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    x = tl.load(scores + row + i, mask=i < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    p = e / tl.sum(e, axis=0)
    # From the likeliest on. A word is taken unless those before it have the mass already.
    falling = tl.sort(p, descending=True)
    before = tl.cumsum(falling, axis=0) - falling
    least = tl.min(tl.where(before < mass, falling, float("inf")), axis=0)
    kept = tl.where(p >= least, p, 0.0)
    tl.store(out + row + i, kept / tl.sum(kept, axis=0), mask=i < n)


def run_recurrence(a, b, out, rows_each=4, block=128):
    """out[r, t] = a[r, t] * out[r, t - 1] + b[r, t], from 0 on, for each row of 2-D arrays."""
    rows, n = a.shape
    recurrence[(libtile.cdiv(rows, rows_each),)](a, b, out, rows, n, ROWS=rows_each, BLOCK=block)
    return out


def run(scores, out, mass=0.9):
    """out = softmax of each row of the 2-D array, of the likeliest elements that have `mass` together, and else 0."""
    rows, n = scores.shape
    block = libtile.next_power_of_2(n)
    # A sort moves every element many times: with 256 to a warp they stay in a GPU's registers.
    nucleus[(rows,)](scores, out, n, mass, BLOCK=block, num_warps=min(max(block // 256, 1), 16))
    return out


def check(device):
    rng = np.random.default_rng(0)
    for rows, n in ((1, 1), (13, 1000)):
        a = rng.uniform(-1, 1, (rows, n)).astype(np.float32)
        b = rng.standard_normal((rows, n), dtype=np.float32)
        out = lesson.host(run_recurrence(*lesson.place(device, a, b, lesson.unwritten((rows, n)))))
        h = np.zeros(rows)
        for t in range(n):
            h = a[:, t].astype(np.float64) * h + b[:, t]
            # Rounding errors fade as the state does.
            np.testing.assert_allclose(out[:, t], h, rtol=1e-5, atol=1e-5)
        print(f"recurrence, {rows} x {n}: right")
    for rows, n in ((1, 1), (37, 1000), (5, 4099)):
        scores = 3 * rng.standard_normal((rows, n), dtype=np.float32)
        out = lesson.host(run(*lesson.place(device, scores, lesson.unwritten((rows, n))), mass=0.9))
        p = np.exp(scores - scores.max(axis=1, keepdims=True).astype(np.float64))
        p /= p.sum(axis=1, keepdims=True)
        for mine, want in zip(out, p):
            kept = mine > 0
            assert want[kept].min() >= want[~kept].max(initial=0), "the likeliest"
            assert want[kept].sum() >= 0.9 - 1e-5, "enough of them"
            assert want[kept].sum() - want[kept].min() < 0.9 + 1e-5, "and not one more"
            np.testing.assert_allclose(mine[kept], want[kept] / want[kept].sum(), rtol=1e-5)
        print(f"nucleus, {rows} x {n}: right")


def by_numpy(scores, mass=0.9):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    falling = -np.sort(-p, axis=1)
    before = np.cumsum(falling, axis=1) - falling
    least = np.where(before < mass, falling, np.inf).min(axis=1, keepdims=True)
    kept = np.where(p >= least, p, 0)
    return kept / kept.sum(axis=1, keepdims=True)


def by_torch(scores, mass=0.9):
    p = scores.softmax(1)
    falling = p.sort(1, descending=True).values
    before = falling.cumsum(1) - falling
    least = falling.masked_fill(before >= mass, float("inf")).amin(1, keepdim=True)
    kept = p.masked_fill(p < least, 0.0)
    return kept / kept.sum(1, keepdim=True)


def measure(columns, provider, device):
    """The choice of words."""
    rows = 256 if device == "cpu" else 4096
    scores = 3 * np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    scores, out = lesson.place(device, scores, np.empty_like(scores), provider=provider)
    calls = {
        "libtile": lambda: run(scores, out),
        "Triton": lambda: lesson.by_triton(__file__).run(scores, out),
        "torch": lambda: by_torch(scores),
        "NumPy": lambda: by_numpy(scores),
    }
    return lesson.rate(calls[provider], 2 * 4 * rows * columns, device, provider)


if __name__ == "__main__":
    lesson.main(check, measure, "choosing the next word", "columns", [128, 256, 512, 1024, 2048, 4096], "GB/s")
