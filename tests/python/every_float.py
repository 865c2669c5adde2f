# SPDX-License-Identifier: Apache-2.0
"""Functions of one fp32 (those of libdevice that test_libdevice.ONE has, and erf) over every bit pattern, against fp64:
the largest error in units of the last place, and where it is.

    python tests/python/every_float.py --device cuda                # all of them
    python tests/python/every_float.py exp log --every 997          # two of them, a sample
"""
import argparse
import sys
import time

import numpy as np
from spine import F32, F64, OnDevice, poisoned
from test_libdevice import HARDWARE, ONE, apply, of_one

import libtile
from libtile.language.extra import libdevice

COUNT = 1 << 17  # patterns at a time


def own(name):
    """The function itself in fp64 on the CPU, whose error test_libdevice bounds."""
    return lambda x: apply("cpu", name, x, block=4096)


FUNCTIONS = {name: (exact, bound) for name, (exact, bound, _) in ONE.items()} | {"erf": (own("erf"), 1.5)}


def errors(got, want):
    """Distances from want, fp64, in units of the last place of fp32; infinite beside what is no number."""
    with np.errstate(all="ignore"):
        nearest = want.astype(F32)
        power = np.maximum(nearest.view(np.int32) & 0x7F800000, 0x00800000).view(F32)  # of two, not above it
        off = np.abs(got - want) / (power * F32(2.0**-23))
        rest = np.flatnonzero(~np.isfinite(off))
    same = (np.isnan(want[rest]) & np.isnan(got[rest])) | (got[rest] == nearest[rest])
    off[rest] = np.where(same, 0, np.inf)
    return off


def worst(name, device, every=1):
    """The largest error over each `every`-th bit pattern, and its argument."""
    exact, _ = FUNCTIONS[name]
    put, most, where = OnDevice(device), -1.0, None
    for first in range(0, 1 << 32, COUNT * every):
        x = np.arange(first, min(first + COUNT * every, 1 << 32), every, dtype=np.uint64).astype(np.uint32).view(F32)
        out = put(poisoned(x.size, F32))
        of_one[(libtile.cdiv(x.size, 4096),)](put(x), out, x.size, FN=getattr(libdevice, name), BLOCK=4096)
        with np.errstate(all="ignore"):
            off = errors(put.back(out), np.asarray(exact(x.astype(F64)), F64))
        at = int(np.argmax(off))
        if off[at] > most:
            most, where = float(off[at]), x[at]
    return most, where


def bound_of(name, device):
    return HARDWARE.get(name, FUNCTIONS[name][1]) if device != "cpu" else FUNCTIONS[name][1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("functions", nargs="*", default=list(FUNCTIONS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for name in options.functions:
        start = time.time()
        most, where = worst(name, options.device, options.every)
        good = most <= bound_of(name, options.device)
        failed += not good
        print(f"{name}: {most:.4f} ulp at {where!r} ({int(where.view(np.uint32)):#010x}), at most "
              f"{bound_of(name, options.device)}{'' if good else ': WRONG'}; {time.time() - start:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
