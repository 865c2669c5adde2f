# SPDX-License-Identifier: Apache-2.0
"""Integer helpers for grids and block sizes, also in the module `libtile.math`. Kernels may call them: `libtile.cdiv`
is `tl.cdiv` there. What kernels compute with tiles is in `tl`, and by the same names in `tl.math`."""


def cdiv(x: int, div: int) -> int:
    """x / div, rounded up."""
    return -(-x // div)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 if n <= 1 else 1 << (n - 1).bit_length()


next_power_of_2.__libtile_constexpr__ = True  # type: ignore[attr-defined]
