# SPDX-License-Identifier: Apache-2.0
"""A few of the random kernels (random_kernels.py); more by hand, with other seeds."""
import pytest
import random_kernels
from spine import DEVICES


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_kernels(device, first, tmp_path):
    for seed in range(first, first + 10):
        wrong = random_kernels.check(seed, device, tmp_path)
        assert wrong is None, f"seed {seed}: {wrong}"
