# SPDX-License-Identifier: Apache-2.0
"""Lesson 1: vector addition.

A kernel is a short *program* over tiles. The launch `add[grid](...)` runs one copy of it for each
point of the grid; each copy finds out which one it is with `tl.program_id`, works on a tile of
BLOCK elements, and never touches what its mask excludes.

An addition does nothing but read and write memory, so the plot shows bytes a second: as soon as the
arrays are larger than the caches, nobody can be faster than the memory is.

    python 01_vector_add.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl


@libtile.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    # The indices that this program is in charge of: a tile of BLOCK integers.
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # The last program's tile may reach past the arrays.
    mask = i < n
    # A pointer plus a tile of integers is a tile of pointers.
    a = tl.load(x + i, mask=mask)
    b = tl.load(y + i, mask=mask)
    tl.store(out + i, a + b, mask=mask)


def run(x, y, out, block=1024):
    """out = x + y for arrays of one size on one device."""
    n = x.shape[0]
    add[(libtile.cdiv(n, block),)](x, y, out, n, BLOCK=block)
    return out


def check(device):
    rng = np.random.default_rng(0)
    for n in (1, 1000, 98432):
        x, y = rng.standard_normal((2, n), dtype=np.float32)
        out = run(*lesson.place(device, x, y, lesson.unwritten(n)))
        # One addition, rounded once: the very same bits as NumPy's.
        np.testing.assert_array_equal(lesson.host(out), x + y)
        print(f"n = {n}: right")


def measure(n, provider, device):
    x, y = np.random.default_rng(0).standard_normal((2, n), dtype=np.float32)
    x, y, out = lesson.place(device, x, y, np.empty_like(x), provider=provider)
    calls = {
        "libtile": lambda: run(x, y, out, 4096),
        "Triton": lambda: lesson.by_triton(__file__).run(x, y, out, 4096),
        "torch": lambda: lesson.torch().add(x, y, out=out),
        "NumPy": lambda: np.add(x, y, out=out),
    }
    return lesson.rate(calls[provider], 3 * x.nbytes, device, provider)


if __name__ == "__main__":
    lesson.main(check, measure, "vector addition", "n", [2**k for k in range(14, 25, 2)], "GB/s")
