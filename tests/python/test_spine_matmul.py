# SPDX-License-Identifier: Apache-2.0
"""The matmul tutorial against NumPy in float64, over dtypes, odd sizes and odd tiles."""
import numpy as np
import pytest
from spine import BF16, DEVICES, F16, F32, ROUNDING, TINY, OnDevice, matmul, poisoned, random

TILES = [(64, 64, 32), (96, 80, 48), (17, 5, 3), (128, 128, 64), (16, 16, 16), (1, 1, 1)]
SIZES = [(1, 1, 1), (5, 3, 7), (33, 65, 17), (100, 100, 100), (128, 96, 200), (129, 257, 65)]


def product(device, a, b, out_dtype, tile, **options):
    on = OnDevice(device)
    c = on(poisoned((a.shape[0], b.shape[1]), out_dtype))
    matmul.run(on(a), on(b), c, *tile, **options)
    return on.back(c)


def check(c, a, b, dtype):
    a, b = a.astype(np.float64), b.astype(np.float64)
    want = a @ b
    # The sum of k exact products in f32, in any order, then one rounding to the result's type.
    room = np.abs(a) @ np.abs(b) * (a.shape[1] + 1) * ROUNDING[F32] + np.abs(want) * ROUNDING[dtype] + TINY[dtype]
    assert (np.abs(c.astype(np.float64) - want) <= room * 1.001).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_floats(device, dtype, tile):
    rng = np.random.default_rng([*tile, np.dtype(dtype).num])
    sizes = SIZES if min(tile) > 1 else SIZES[:3]
    for m, n, k in sizes:
        a, b = random(rng, (m, k), dtype), random(rng, (k, n), dtype)
        check(product(device, a, b, dtype, tile), a, b, dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tile", TILES[:5], ids=str)
def test_int8_is_exact(device, tile):
    rng = np.random.default_rng(tile[0])
    for m, n, k in SIZES:
        a, b = random(rng, (m, k), np.int8), random(rng, (k, n), np.int8)
        c = product(device, a, b, np.int32, tile)
        np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_num_stages_and_warps(device, stages):
    rng = np.random.default_rng(stages)
    for warps in (1, 4, 8):
        a, b = random(rng, (130, 300), F16), random(rng, (300, 70), F16)
        check(product(device, a, b, F32, (64, 64, 32), num_stages=stages, num_warps=warps), a, b, F32)


@pytest.mark.parametrize("device", DEVICES)
def test_transposed_operands(device):
    # Strides say where the elements are: A is given column-major, B as rows of columns.
    rng = np.random.default_rng(5)
    m, n, k = 70, 90, 110
    a, b = random(rng, (k, m), F32), random(rng, (n, k), F32)
    on = OnDevice(device)
    c = on(poisoned((m, n), F32))
    matmul.matmul[(4,)](on(a), on(b), c, m, n, k, 1, m, 1, k, n, 1, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32,
                        GROUP_M=4)
    check(on.back(c), a.T, b.T, F32)


@pytest.mark.parametrize("device", DEVICES)
def test_a_nan_stays_in_its_row_and_column(device):
    rng = np.random.default_rng(6)
    a, b = random(rng, (50, 60), F32), random(rng, (60, 40), F32)
    a[7, 59] = np.nan
    c = product(device, a, b, F32, (32, 32, 16))
    assert np.isnan(c[7]).all()
    rest = np.delete(np.arange(50), 7)
    check(c[rest], a[rest], b, F32)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F32, F16, BF16])
def test_large(device, dtype):
    rng = np.random.default_rng(7)
    a, b = random(rng, (1000, 1500), dtype), random(rng, (1500, 700), dtype)
    check(product(device, a, b, dtype, (128, 128, 64)), a, b, dtype)
