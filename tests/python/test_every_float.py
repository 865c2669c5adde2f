# SPDX-License-Identifier: Apache-2.0
"""A sample of what every_float.py takes all of: bit patterns of fp32 through each function of one, special and random
pairs through those of two."""
import every_float_one
import every_float_two
import numpy as np
import pytest
from spine import DEVICES, F32

everywhere = pytest.mark.parametrize("device", DEVICES)


@everywhere
@pytest.mark.parametrize("name", sorted(every_float_one.FUNCTIONS))
def test_a_sample_of_all_floats(device, name):
    for dtype, finding in every_float_one.sweep(name, device, every=9973).items():
        assert finding.good, (dtype, str(finding))


@everywhere
@pytest.mark.parametrize("name", sorted(every_float_two.FUNCTIONS))
def test_pairs(device, name):
    pairs = 10**4 if name in ("jn", "yn") else 10**5
    for dtype, finding in every_float_two.sweep(name, device, pairs, beside_numpy=10**4).items():
        assert finding.good, (dtype, str(finding))


def test_faults_are_seen():
    """One bit, one zero's sign, one NaN, one infinity."""
    want = np.array([1.5, 0.0, 1.0, 1e30, -np.inf, 1e-60, 3.0], np.longdouble)
    good = want.astype(F32)
    assert every_float_one.errors(good, want).max() < 0.51
    for at, wrong in ((0, np.nextafter(F32(1.5), F32(2))), (1, -0.0), (2, np.nan), (3, np.inf), (4, np.inf), (5, -0.0), (6, -3.0)):
        bad = good.copy()
        bad[at] = wrong
        assert every_float_one.errors(bad, want).max() >= 1, at
