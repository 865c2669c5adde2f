# SPDX-License-Identifier: Apache-2.0
"""What the tests of the spine's kernels share: the tutorials as modules, arrays on each device, dtypes
with their rounding units."""
import functools
import importlib
import re
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import libtile

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tutorials"))
add = importlib.import_module("01_vector_add")
softmax = importlib.import_module("02_fused_softmax")
layer_norm = importlib.import_module("05_layer_norm")
matmul = importlib.import_module("03_matmul")

F32, F16, BF16, F64 = np.float32, np.float16, ml_dtypes.bfloat16, np.float64
# Half a unit in the last place of 1.
ROUNDING = {F64: 2.0**-53, F32: 2.0**-24, F16: 2.0**-11, BF16: 2.0**-8}
# Half of the smallest subnormal number: the rounding error near 0.
TINY = {F64: 2.0**-1075, F32: 2.0**-150, F16: 2.0**-25, BF16: 2.0**-134}


def devices():
    """cpu, and cuda and hip where they are; what is interpreted (conftest.py) has its arrays on the CPU."""
    if libtile.knobs.interpreter.enabled:
        return ["cpu"]
    return sorted({name.partition(":")[0] for name in libtile.available_devices()})


DEVICES = devices()


@functools.cache
def most_warps(device):
    """Of a program: a GPU has 1024 threads for them."""
    return 32 if device in ("cpu", "interpreter") else 1024 // libtile._libtile.device_properties(libtile.device.ordinal(device))["warpSize"]


def fitted(options, device):
    """The options, with no more warps than the device takes."""
    return {name: min(value, most_warps(device)) if name == "num_warps" and value else value for name, value in options.items()}


class OnDevice:
    """Copies of NumPy arrays on a device; `back()` gives what an array holds now."""

    def __init__(self, device):
        self.device = device

    def __call__(self, array):
        return array if self.device == "cpu" else libtile.to_device(array, self.device)

    def back(self, array):
        return array if self.device == "cpu" else array.numpy()


def poisoned(shape, dtype):
    """An output array full of what no kernel computes."""
    out = np.empty(shape, dtype)
    out.view(np.uint8).fill(0xA5)
    return out


def fewest_rows(kernel):
    """Of the register blocks of a kernel's dot on a CPU: what is rare, as the last columns, goes by those."""
    return min(int(rows) for rows in re.findall(r"\b(\d+)x\d+", re.search("blocks of ([^;]*);", kernel.asm["plan"])[1]))


def random(rng, shape, dtype):
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)
