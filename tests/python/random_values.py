# SPDX-License-Identifier: Apache-2.0
"""Types and numbers of random kernels (random_kernels.py)."""
import numpy as np

MOST = 4096  # elements of a tile
NAMES = {np.dtype(t): n for t, n in [(np.bool_, "int1"), (np.int8, "int8"), (np.int16, "int16"),
                                     (np.int32, "int32"), (np.int64, "int64"), (np.float16, "float16"),
                                     (np.float32, "float32"), (np.float64, "float64")]}
TYPES = list(NAMES)
NUMBERS = [t for t in TYPES if t != np.bool_]
# The largest integers up to which a type holds all of them, with room for a sum.
EXACT = {np.dtype(np.int8): 100, np.dtype(np.int16): 30000, np.dtype(np.int32): 2**30, np.dtype(np.int64): 2**60,
         np.dtype(np.float16): 2000, np.dtype(np.float32): 2**23, np.dtype(np.float64): 2**50}


def truncated(a, b):
    """Quotient towards 0 and what is left, in the arrays' type: x // 0 is 0 and x % 0 is x."""
    x, y = a.astype(object), np.where(b == 0, 1, b).astype(object)
    quotient = np.where(b == 0, 0, np.sign(x) * np.sign(y) * (abs(x) // abs(y)))
    bits = 8 * a.itemsize
    wrapped = (quotient + 2**(bits - 1)) % 2**bits - 2**(bits - 1)
    return wrapped.astype(a.dtype), (x - quotient * b.astype(object)).astype(a.dtype)
