# SPDX-License-Identifier: Apache-2.0
"""Masks of 64-bit indices: where they end, also when the limit or the base is far beyond 32 bits."""
import numpy as np
import pytest
from spine import DEVICES, OnDevice

import libtile
import libtile.language as tl

BLOCK = 200


@libtile.jit
def marks(out, base, limit, START: tl.constexpr, CLOSED: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.arange(0, BLOCK)
    # Within 2^40 of 0, which the compiler knows by the remainder.
    index = base.to(tl.int64) % (1 << 40) + (t + START).to(tl.int64)
    inside = index <= limit if CLOSED else index < limit
    tl.store(out + t, 1, mask=inside)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("closed", (False, True))
@pytest.mark.parametrize("start", (0, -77))
def test_a_mask_of_wide_indices_ends_where_it_says(device, start, closed):
    far, on = 1 << 33, OnDevice(device)
    for base in (0, 5, -5, far, -far):
        middle = base + start
        limits = [middle + off for off in (-1, 0, 1, 7, 8, 63, BLOCK - 1, BLOCK, BLOCK + 1)]
        for limit in limits + [0, far, -far, 2**63 - 1, -(2**63), 2**31, -(2**31), middle + 2**32]:
            out = on(np.zeros(BLOCK, np.int32))
            marks[(1,)](out, base, limit, START=start, CLOSED=closed, BLOCK=BLOCK)
            index = [base + i + start for i in range(BLOCK)]
            want = [int(i <= limit if closed else i < limit) for i in index]
            np.testing.assert_array_equal(on.back(out), want, err_msg=f"{base} {limit}")
