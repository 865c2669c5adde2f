# SPDX-License-Identifier: Apache-2.0
"""The softmax tutorial against NumPy in float64."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, ROUNDING, TINY, OnDevice, poisoned, random, softmax


def bound(want, dtype):
    # exp is right to 2 ulp of a number whose exponent is off by one rounding of |x - max| <= 16,
    # the sum to a few roundings, and the result is rounded once more.
    return want * (40 * ROUNDING[F32] + 1.01 * ROUNDING[dtype]) + TINY[dtype]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (7, 31), (5, 64), (16, 781), (4, 1000), (3, 1024),
                                   (2, 4099), (2, 16384)])
def test_softmax(device, dtype, shape):
    rng = np.random.default_rng([*shape, np.dtype(dtype).num])
    x = random(rng, shape, dtype)
    on = OnDevice(device)
    given, out = on(x), on(poisoned(shape, dtype))
    softmax.run(given, out)
    want = softmax.reference(x)
    assert (np.abs(on.back(out).astype(np.float64) - want) <= bound(want, dtype)).all()
    np.testing.assert_array_equal(on.back(given), x)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_are_shared_by_programs(device):
    rng = np.random.default_rng(1)
    x = random(rng, (37, 100), F32)
    on = OnDevice(device)
    out = on(poisoned(x.shape, F32))
    softmax.run(on(x), out, programs=5)
    want = softmax.reference(x)
    assert (np.abs(on.back(out) - want) <= bound(want, F32)).all()


@pytest.mark.parametrize("device", DEVICES)
def test_in_place(device):
    rng = np.random.default_rng(2)
    x = random(rng, (9, 300), F32)
    on = OnDevice(device)
    both = on(x.copy())
    softmax.run(both, both)
    want = softmax.reference(x)
    assert (np.abs(on.back(both) - want) <= bound(want, F32)).all()


@pytest.mark.parametrize("device", DEVICES)
def test_large_values_do_not_overflow(device):
    x = np.array([[1e38, 1e38, -1e38, 0.0], [-3e38, -3e38, -3e38, -3e38], [88.0, 89.0, 90.0, 700.0]], F32)
    on = OnDevice(device)
    out = on(poisoned(x.shape, F32))
    softmax.run(on(x), out)
    np.testing.assert_allclose(on.back(out), softmax.reference(x), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("device", DEVICES)
def test_non_power_of_two_tiles(device):
    rng = np.random.default_rng(3)
    on = OnDevice(device)
    for cols, block in ((90, 96), (96, 96), (1000, 1000), (641, 1000)):
        x = random(rng, (6, cols), F32)
        out = on(poisoned(x.shape, F32))
        softmax.softmax[(6,)](out, on(x), cols, cols, 6, cols, BLOCK=block)
        want = softmax.reference(x)
        assert (np.abs(on.back(out) - want) <= bound(want, F32)).all()


def test_a_tile_of_a_million_elements():
    rng = np.random.default_rng(4)
    x = random(rng, (2, 1_000_000), F32)
    out = poisoned(x.shape, F32)
    softmax.softmax[(2,)](out, x, 1_000_000, 1_000_000, 2, 1_000_000, BLOCK=1_000_000)
    want = softmax.reference(x)
    assert (np.abs(out - want) <= bound(want, F32) + 1e-5 * want).all()
