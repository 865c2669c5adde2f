# SPDX-License-Identifier: Apache-2.0
"""Lesson 1: vector addition.

A kernel is a short *program* over tiles. The launch `add[grid](...)` runs one copy of it for each
point of the grid; each copy finds out which one it is with `tl.program_id`, works on a tile of
BLOCK elements, and never touches what its mask excludes.

    python 01_vector_add.py
"""
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


def main():
    rng = np.random.default_rng(0)
    for n in (1, 1000, 98432):
        x = rng.standard_normal(n, dtype=np.float32)
        y = rng.standard_normal(n, dtype=np.float32)
        out = run(x, y, np.empty_like(x))
        # One addition, rounded once: the very same bits as NumPy's.
        np.testing.assert_array_equal(out, x + y)
        print(f"n = {n}: right")


if __name__ == "__main__":
    main()
