# SPDX-License-Identifier: Apache-2.0
"""`triton.tools.mxfp`: tensors of torch in the formats of microscaling: fp4 (e2m1), and scales of it (e8m0)."""
import math

import torch

# Of the codes 0 to 7; bit 3 is the sign.
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_BIAS, _NAN = 127, 255


class MXFP4Tensor:
    """fp4: `data` holds a code a byte. Made of values, which are rounded to the nearest (ties to the even code) and clamped to
    -6 .. 6, or with a size alone, for random()."""

    def __init__(self, data=None, size=None, device=None):
        self.device = device if data is None else data.device
        self.size = size if data is None else data.shape
        self.data = None if data is None else self._encode(data)

    @staticmethod
    def _encode(values):
        magnitude = values.abs().to(torch.float64)
        code = torch.zeros(values.shape, dtype=torch.uint8, device=values.device)
        for i, (low, high) in enumerate(zip(_FP4, _FP4[1:])):
            middle = (low + high) / 2
            code += (magnitude >= middle) if i % 2 else (magnitude > middle)
        return code | (torch.signbit(values).to(torch.uint8) << 3)

    def random(self):
        """Every code is as likely."""
        self.data = torch.randint(0, 16, tuple(self.size), dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype):
        """The values as another type of floats."""
        values = torch.tensor([*_FP4, *(-value for value in _FP4)], dtype=dtype, device=self.data.device)
        return values[self.data.long()]

    def to_packed_tensor(self, dim):
        """Two codes a byte along an axis, the first in the low bits; an odd extent is filled up with 0."""
        data = self.data
        assert 0 <= dim < data.ndim, f"there is no axis {dim} of {data.ndim}"
        if data.shape[dim] % 2:
            filling = list(data.shape)
            filling[dim] = 1
            data = torch.cat([data, data.new_zeros(filling)], dim)
        pairs = data.unflatten(dim, (-1, 2))
        return pairs.select(dim + 1, 0) | (pairs.select(dim + 1, 1) << 4)

    @staticmethod
    def unpack_packed_tensor(packed_tensor, dim, original_shape):
        """The codes again, of a tensor that had this shape."""
        pairs = torch.stack([packed_tensor & 15, packed_tensor >> 4], dim + 1)
        return pairs.flatten(dim, dim + 1).narrow(dim, 0, original_shape[dim]).contiguous()


class MXScaleTensor:
    """e8m0: `data` holds the exponent of a power of two, plus 127; 255 is NaN, which all but positive finite values
    become."""

    def __init__(self, data=None, size=None, device=None):
        self.device = device if data is None else data.device
        self.size = size if data is None else data.shape
        self.data = None if data is None else self._encode(data)

    @staticmethod
    def _encode(values):
        is_scale = torch.isfinite(values) & (values > 0)
        exponent = torch.log2(torch.where(is_scale, values, torch.ones_like(values)).to(torch.float64)).round() + _BIAS
        return torch.where(is_scale, exponent.clamp(0, _NAN - 1), torch.full_like(exponent, _NAN)).to(torch.uint8)

    def random(self, low=None, high=None):
        """Powers of two from `low` to `high`; without them all that there are, not NaN."""
        first = 0 if low is None else max(0, int(math.log2(low)) + _BIAS)
        last = _NAN - 1 if high is None else min(_NAN - 1, max(0, int(math.log2(high)) + _BIAS))
        self.data = torch.randint(first, last + 1, tuple(self.size), dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype):
        """The values as another type of floats."""
        return fp8e8m0_to_float32(self.data).to(dtype)


def fp8e8m0_to_float32(scale):
    """The scales that bytes stand for."""
    code = scale.view(torch.uint8)
    values = torch.exp2(code.to(torch.float64) - _BIAS)
    return torch.where(code == _NAN, torch.full_like(values, math.nan), values).to(torch.float32)
