# SPDX-License-Identifier: Apache-2.0
"""fp32 to bf16: to nearest even, subnormal numbers too; instructions that flush them must not show."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F32, OnDevice, poisoned

import libtile
import libtile.language as tl


@libtile.jit
def rounded(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n).to(tl.bfloat16), mask=i < n)


@libtile.jit
def halved(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 0.5, mask=i < n)  # in fp32, and rounded


def nearest(bits):
    """The bf16 of fp32, both as bits."""
    wide = bits.astype(np.uint64)
    is_nan = (wide & 0x7FFFFFFF) > 0x7F800000
    return np.where(is_nan, wide >> 16 | 0x40, wide + 0x7FFF + (wide >> 16 & 1) >> 16).astype(np.uint16)


def check(got, want, device):
    is_nan = (want & 0x7FFF) > 0x7F80
    np.testing.assert_array_equal((got & 0x7FFF) > 0x7F80, is_nan)
    same = got == want if device == "cpu" else (got == want) | is_nan  # payloads are kept on CPUs
    assert same.all(), [f"{g:04x} for {w:04x}" for g, w in zip(got[~same][:5], want[~same][:5])]


def patterns(rng, lows):
    """All upper halves, subnormal numbers beside others."""
    bits = (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | np.array(lows, np.uint32)[None, :]).reshape(-1)
    return rng.permutation(np.concatenate([bits, rng.integers(0, 1 << 23, 1 << 14, dtype=np.uint32), np.arange(1 << 12, dtype=np.uint32)]))


def launched(kernel, x, block, device):
    on = OnDevice(device)
    out = on(poisoned(len(x), BF16))
    kernel[(-(-len(x) // block),)](on(x), out, len(x), BLOCK=block)
    return on.back(out).view(np.uint16)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block", [1024, 32, 16, 8])
def test_all_upper_halves(block, device):
    bits = patterns(np.random.default_rng(block), [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])[:300 * block + 5]
    check(launched(rounded, bits.view(F32), block, device), nearest(bits), device)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_computed(device):
    """Halves of the least normal numbers are subnormal, and lie between two bf16."""
    x = np.random.default_rng(0).permutation(np.arange(1 << 16, dtype=np.uint16))
    x = x[(x & 0x7FFF) <= 0x7F80]  # a NaN's bits are not the multiplication's
    want = nearest(((x.astype(np.uint32) << 16).view(F32) * F32(0.5)).view(np.uint32))
    check(launched(halved, x.view(BF16), 256, device), want, device)
