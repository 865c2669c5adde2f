# SPDX-License-Identifier: Apache-2.0
"""The 8-bit floats from their definitions: every code as a number, and the code that a number is rounded to."""
import numpy as np

import libtile.language as tl

# Mantissa bits, bias, largest, name in ml_dtypes and torch.
FORMATS = {"float8e5": (2, 15, 57344.0, "float8_e5m2"), "float8e4nv": (3, 7, 448.0, "float8_e4m3fn"),
           "float8e4b15": (3, 15, 1.75, None), "float8e4b8": (3, 8, 240.0, "float8_e4m3fnuz"),
           "float8e5b16": (2, 16, 57344.0, "float8_e5m2fnuz")}
TYPES = {name: getattr(tl, name) for name in FORMATS}
ONE_ZERO = ("float8e4b8", "float8e5b16")
CODES = np.arange(256, dtype=np.uint8)


def number(name, code):
    mantissa_bits, bias, _, _ = FORMATS[name]
    size, sign = int(code) & 0x7F, -1.0 if code & 0x80 else 1.0
    if name in ONE_ZERO and code == 0x80 or name == "float8e4nv" and size == 0x7F:
        return np.nan
    if name == "float8e5" and size >= 0x7C:
        return sign * np.inf if size == 0x7C else np.nan
    exponent, mantissa = size >> mantissa_bits, (size & (1 << mantissa_bits) - 1) / (1 << mantissa_bits)
    return sign * (2.0**(1 - bias) * mantissa if exponent == 0 else 2.0**(exponent - bias) * (1 + mantissa))


NUMBERS = {name: np.array([number(name, code) for code in CODES]) for name in FORMATS}


def decode(name, codes):
    """As fp64."""
    return NUMBERS[name][codes]


def sizes(name):
    """The numbers that others are rounded to, from 0 up; the code of each is its index."""
    return NUMBERS[name][:np.flatnonzero(NUMBERS[name] == FORMATS[name][2])[0] + 1]


def encode(name, x, rounding="rtne"):
    """The codes of floats, which are compared with the middle between two neighbours."""
    x, table = np.asarray(x).astype(np.float64), sizes(name)
    size = np.where(np.isnan(x), table[-1], np.minimum(np.abs(x), table[-1]))
    low = np.searchsorted(table, size, side="right") - 1
    high = np.minimum(low + 1, table.size - 1)
    middle = (table[low] + table[high]) / 2
    ties_up = (low % 2 == 1) | (name == "float8e4b15")
    up = (size > middle) | (size == middle) & ties_up & (size > table[low])
    code = np.where(up & (rounding == "rtne"), high, low)
    if rounding == "rtz" and name == "float8e5":
        code = np.where(np.isinf(x), 0x7C, code)
    sign = np.where(np.signbit(x) & ~((code == 0) & (name in ONE_ZERO)), 0x80, 0)
    nan = 0x80 if name in ONE_ZERO else 0x7F
    if name != "float8e4b15":
        return np.where(np.isnan(x), nan, code | sign).astype(np.uint8)
    return (code | sign).astype(np.uint8)


def same(got, want):
    """Bit for bit, but any NaN is as good as another."""
    return got.dtype == want.dtype and np.array_equal(np.isnan(got), np.isnan(want)) and np.array_equal(
        np.where(np.isnan(got), 0, got).view(np.uint8), np.where(np.isnan(want), 0, want).view(np.uint8))
