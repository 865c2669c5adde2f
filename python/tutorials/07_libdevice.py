# SPDX-License-Identifier: Apache-2.0
"""Lesson 7: more mathematics, and rounding up or down.

`libdevice` has what C's math.h has and more: about two hundred functions, on every target, with the
errors that docs/semantics.md states. The first kernel takes sine, cosine and arc sine to find how far
apart places on a globe are. The second needs what no plain operator gives: `mul_rd` and `mul_ru` round
down and up, so that products of intervals are sure to hold the exact result, and rounding errors
cannot hide. New here: the library, and directed rounding.

    python 07_libdevice.py --plot plots
"""
import lesson
import numpy as np

import libtile
import libtile.language as tl
from libtile.language.extra import libdevice


@libtile.jit
def distance(lat1, lon1, lat2, lon2, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    a1 = tl.load(lat1 + i, mask=mask)
    a2 = tl.load(lat2 + i, mask=mask)
    half = 0.5 * (a1 - a2)
    across = 0.5 * (tl.load(lon1 + i, mask=mask) - tl.load(lon2 + i, mask=mask))
    s = libdevice.sin(half)
    t = libdevice.sin(across)
    # Places opposite to each other may come out a rounding above 1.
    h = tl.minimum(s * s + libdevice.cos(a1) * libdevice.cos(a2) * t * t, 1.0)
    tl.store(out + i, 2 * 6371.0 * libdevice.asin(libdevice.sqrt(h)), mask=mask)


@libtile.jit
def interval_products(x_low, x_high, y_low, y_high, low, high, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    a, b = tl.load(x_low + i, mask=mask), tl.load(x_high + i, mask=mask)
    c, d = tl.load(y_low + i, mask=mask), tl.load(y_high + i, mask=mask)
    # The signs tell which ends give the least product: take the least of all four, rounded down.
    least = tl.minimum(tl.minimum(libdevice.mul_rd(a, c), libdevice.mul_rd(a, d)),
                       tl.minimum(libdevice.mul_rd(b, c), libdevice.mul_rd(b, d)))
    most = tl.maximum(tl.maximum(libdevice.mul_ru(a, c), libdevice.mul_ru(a, d)),
                      tl.maximum(libdevice.mul_ru(b, c), libdevice.mul_ru(b, d)))
    tl.store(low + i, least, mask=mask)
    tl.store(high + i, most, mask=mask)


def run(lat1, lon1, lat2, lon2, out, block=1024):
    """out = kilometres between two places each, along the surface; angles in radians."""
    n = out.shape[0]
    # These functions need many registers: four warps have fewer elements each than the compiler's own choice.
    distance[(libtile.cdiv(n, block),)](lat1, lon1, lat2, lon2, out, n, BLOCK=block, num_warps=4)
    return out


def run_intervals(x_low, x_high, y_low, y_high, low, high, block=1024):
    """[low, high] holds each product of a number in [x_low, x_high] and one in [y_low, y_high]."""
    n = low.shape[0]
    interval_products[(libtile.cdiv(n, block),)](x_low, x_high, y_low, y_high, low, high, n, BLOCK=block)
    return low, high


def by_numpy(lat1, lon1, lat2, lon2):
    s, t = np.sin((lat1 - lat2) / 2), np.sin((lon1 - lon2) / 2)
    h = np.minimum(s * s + np.cos(lat1) * np.cos(lat2) * t * t, 1)
    return 2 * 6371 * np.arcsin(np.sqrt(h))


def by_torch(lat1, lon1, lat2, lon2):
    s, t = (0.5 * (lat1 - lat2)).sin(), (0.5 * (lon1 - lon2)).sin()
    return 2 * 6371 * (s * s + lat1.cos() * lat2.cos() * t * t).clamp(max=1).sqrt().asin()


def places(n):
    """Latitudes, longitudes, latitudes, longitudes."""
    angles = (np.random.default_rng(0).random((4, n), dtype=np.float32) - np.float32(0.5)) * np.float32(np.pi)
    return angles * np.float32([[1], [2], [1], [2]])


def check(device):
    rng = np.random.default_rng(0)
    for n in (1, 98_431):
        angles = places(n)
        out = lesson.host(run(*lesson.place(device, *angles, lesson.unwritten(n))))
        want = by_numpy(*angles.astype(np.float64))
        # An error of a few 2^-24 in h grows where the arc sine is steep: below its root near opposite places.
        np.testing.assert_allclose(out, want, rtol=1e-6, atol=2 * 6371 * 2 * np.sqrt(8 * 2.0**-24))
        far = want < 0.9 * 6371 * np.pi
        np.testing.assert_allclose(out[far], want[far], rtol=5e-6, atol=2e-3)
        print(f"distances, n = {n}: right")
        ends = rng.standard_normal((4, n), dtype=np.float32)
        x, y = np.sort(ends[:2], axis=0), np.sort(ends[2:], axis=0)
        low, high = map(lesson.host, run_intervals(*lesson.place(device, *x, *y, *lesson.unwritten((2, n)))))
        # fp64 holds a product of two fp32 exactly, and the nearest fp32 on either side is no secret.
        exact = np.stack([p * q for p in x.astype(np.float64) for q in y.astype(np.float64)])
        np.testing.assert_array_equal(low, down(exact.min(axis=0)))
        np.testing.assert_array_equal(high, -down(-exact.max(axis=0)))
        print(f"intervals, n = {n}: right")


def down(x):
    """The largest fp32 that is not above x."""
    near = x.astype(np.float32)
    return np.where(near > x, np.nextafter(near, np.float32(-np.inf)), near)


def measure(n, provider, device):
    angles = lesson.place(device, *places(n), provider=provider)
    out = lesson.place(device, np.empty(n, np.float32), provider=provider)
    calls = {
        "libtile": lambda: run(*angles, out),
        "Triton": lambda: lesson.by_triton(__file__).run(*angles, out),
        "torch": lambda: by_torch(*angles),
        "NumPy": lambda: by_numpy(*angles),
    }
    return lesson.rate(calls[provider], 5 * out.nbytes, device, provider)


if __name__ == "__main__":
    lesson.main(check, measure, "distances on a globe", "n", [2**k for k in range(14, 23, 2)], "GB/s")
