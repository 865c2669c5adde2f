# SPDX-License-Identifier: Apache-2.0
"""The layer norm tutorial against NumPy in float64."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, ROUNDING, OnDevice, layer_norm, poisoned, random


def run(device, x, weight, bias, block=None):
    on = OnDevice(device)
    rows = x.shape[0]
    out, mean, rstd = (on(poisoned(*spec)) for spec in ((x.shape, x.dtype), (rows, F32), (rows, F32)))
    layer_norm.run(on(x), on(weight), on(bias), out, mean, rstd, block=block)
    return on.back(out).astype(np.float64), on.back(mean), on.back(rstd)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("shape, block", [((1, 2), None), ((3, 17), None), ((4, 781), None),
                                          ((2, 1000), 1000), ((3, 1000), 96), ((5, 4096), 1024),
                                          ((2, 20000), None)])
def test_layer_norm(device, dtype, shape, block):
    rng = np.random.default_rng([*shape, np.dtype(dtype).num])
    x = random(rng, shape, dtype)
    weight, bias = random(rng, shape[1], dtype), random(rng, shape[1], dtype)
    out, mean, rstd = run(device, x, weight, bias, block)
    want, want_mean, want_rstd = layer_norm.reference(x, weight, bias)
    # Sums of n terms of size about 1 in f32: their error grows like the number of terms that one
    # lane adds up, at most n; the mean of the absolute values scales it.
    size = np.abs(x.astype(np.float64)).mean(axis=1)
    unit = ROUNDING[F32]
    terms = 64 + shape[1] / 64
    np.testing.assert_array_less(np.abs(mean - want_mean), terms * unit * size + 1e-30)
    np.testing.assert_array_less(np.abs(rstd - want_rstd), terms * unit * want_rstd * (1 + want_rstd * size))
    scale = (np.abs(x.astype(np.float64)) + size[:, None]) * want_rstd[:, None]
    scale = scale * np.abs(weight.astype(np.float64)) + np.abs(bias.astype(np.float64))
    room = scale * terms * unit * (1 + want_rstd * size)[:, None] + np.abs(want) * ROUNDING[dtype.type if hasattr(dtype, "type") else dtype] * 1.01
    assert (np.abs(out - want) <= room + 1e-7).all()


@pytest.mark.parametrize("device", DEVICES)
def test_padding_does_not_count(device):
    # With a large mean, elements past the row's end would show up in the variance.
    x = np.full((2, 70), 1000.0, F32) + np.arange(70, dtype=F32)
    ones, zeros = np.ones(70, F32), np.zeros(70, F32)
    out, _, _ = run(device, x, ones, zeros, block=64)
    want, _, _ = layer_norm.reference(x, ones, zeros)
    np.testing.assert_allclose(out, want, rtol=2e-4, atol=2e-4)
