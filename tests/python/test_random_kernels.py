# SPDX-License-Identifier: Apache-2.0
"""A few of the random kernels (random_kernels.py); more by hand, with other seeds."""
import pytest
import random_kernels
from spine import DEVICES


def check(device, folder, seeds, **options):
    for seed in seeds:
        wrong, _ = random_kernels.check(seed, [device], folder, **options)
        assert wrong is None, f"seed {seed}: {wrong}"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_kernels(device, first, tmp_path):
    check(device, tmp_path, range(first, first + 10))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", range(0, 12, 3))
def test_long_random_kernels(device, first, tmp_path):
    check(device, tmp_path, range(first, first + 3), steps=100)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", range(0, 24, 8))
def test_random_functions(device, first, tmp_path):
    check(device, tmp_path, range(first, first + 8), kinds=["function"])


# Kinds of steps that once were wrong in ways that long chains meet seldom, and one whose machine code they seldom reach.
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["narrow_index", "masked_store", "runs", "divided_index", "overwrite", "ends_of_types",
                                  "extremes", "powers", "rows", "team_loop", "float8_loop"])
def test_random_kernels_of_one_kind(device, kind, tmp_path):
    check(device, tmp_path, range(20), steps=1 if kind.endswith("_loop") else 4, kinds=[kind])
