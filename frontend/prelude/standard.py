# SPDX-License-Identifier: Apache-2.0
"""The standard library of the kernel language: functions that language.def declares in LIBRARY rows.

Each is inlined where it is called, as a jit function is: on tiles of any shape, on scalars, and on
constants, which give constants. A function goes here when others of the language express it well
(softmax, sigmoid, cumulative sums, sorting, random numbers); an op pays when a target has an
instruction for it or when passes want to know it (docs/adding-an-op.md).
"""
import libtile
import libtile.language as tl


@libtile.jit
def cdiv(x, div):
    """The least integer that is not below x / div, for div > 0 and x > -div.

    Constants give a constant. x + div - 1 must not overflow.
    """
    return (x + (div - 1)) // div
