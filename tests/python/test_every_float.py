# SPDX-License-Identifier: Apache-2.0
"""A sample of the bit patterns of fp32 through each function of one; every_float.py takes all of them."""
import every_float
import pytest
from spine import DEVICES


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(every_float.FUNCTIONS))
def test_a_sample_of_all_floats(device, name):
    finding = every_float.sweep(name, device, every=9973)
    assert finding.good, finding
