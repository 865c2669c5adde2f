# SPDX-License-Identifier: Apache-2.0
"""Types and numbers of random kernels (random_kernels.py)."""
import ml_dtypes
import numpy as np

MOST, MANY = 4096, 32768  # elements of a tile, and where tiles are large
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NAMES = {np.dtype(t): n for t, n in [
    (np.bool_, "int1"), (np.int8, "int8"), (np.int16, "int16"), (np.int32, "int32"), (np.int64, "int64"),
    (np.uint8, "uint8"), (np.uint16, "uint16"), (np.uint32, "uint32"), (np.uint64, "uint64"),
    (np.float16, "float16"), (BFLOAT16, "bfloat16"), (np.float32, "float32"), (np.float64, "float64")]}
TYPES = list(NAMES)
NUMBERS = [t for t in TYPES if t != np.bool_]
INTEGERS = [t for t in NUMBERS if t.kind in "iu"]
# The largest integers up to which a type holds all of them, with room for a sum.
EXACT = {np.dtype(t): most for t, most in [
    (np.int8, 100), (np.int16, 30000), (np.int32, 2**30), (np.int64, 2**60),
    (np.uint8, 200), (np.uint16, 60000), (np.uint32, 2**31), (np.uint64, 2**60),
    (np.float16, 2000), (BFLOAT16, 250), (np.float32, 2**23), (np.float64, 2**50)]}


def truncated(a, b):
    """Quotient towards 0 and what is left, in the arrays' type: x // 0 is 0 and x % 0 is x."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "u":
        quotient = np.where(b == 0, a.dtype.type(0), a // np.where(b == 0, b.dtype.type(1), b))
    else:
        word = np.dtype(f"u{a.dtype.itemsize}")
        size = np.abs(a).view(word) // np.abs(np.where(b == 0, b.dtype.type(1), b)).view(word)
        quotient = np.where(b == 0, a.dtype.type(0), np.where((a < 0) == (b < 0), size.view(a.dtype), -size.view(a.dtype)))
    return quotient, a - quotient * b
