# SPDX-License-Identifier: Apache-2.0
"""Steps of random kernels (random_kernels.py) that round, count bits and draw random numbers, all exact."""
import numpy as np

_ROUNDED = {"tl.floor": np.floor, "tl.ceil": np.ceil, "tl.extra.libdevice.trunc": np.trunc,
            "tl.extra.libdevice.rint": np.rint}


def words_of(seed, offsets):
    """tl.randint of int32 offsets, with uint64 for products."""
    low = np.uint64(0xffffffff)
    a, b = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    c = [offsets.astype(np.int64).astype(np.uint64) & low] + [np.zeros(offsets.shape, np.uint64) for _ in range(3)]
    keys = [seed & 0xffffffff, seed >> 32 & 0xffffffff]
    for _ in range(10):
        left, right = a * c[0], b * c[2]
        k = [np.uint64(key) for key in keys]
        c = [(right >> np.uint64(32)) ^ c[1] ^ k[0], right & low, (left >> np.uint64(32)) ^ c[3] ^ k[1], left & low]
        keys = [keys[0] + 0x9E3779B9 & 0xffffffff, keys[1] + 0xBB67AE85 & 0xffffffff]
    return c[0].astype(np.uint32)


class MathKinds:
    """For a class with rng, one_of, fitted and let."""

    def rounding(self, value):
        """Of quarters, which every float type holds."""
        dtype = self.one_of([np.dtype(t) for t in (np.float16, np.float32, np.float64)])
        x = self.fitted(value, dtype, 400)
        name = self.one_of(sorted(_ROUNDED))
        return self.let(f"{name}({x.name} * 0.25)", _ROUNDED[name](x.array * dtype.type(0.25)))

    def counted_bits(self, value):
        dtype = self.one_of([np.dtype(np.int32), np.dtype(np.int64)])
        x = self.fitted(value, dtype)
        bits = 8 * dtype.itemsize
        word = x.array.view(np.dtype(f"u{dtype.itemsize}"))
        if self.rng.random() < 0.5:
            # High halves of unsigned products, cut to what fits anywhere.
            factor = int(self.rng.integers(1, 2**31))
            high = (word.astype(object) * factor >> bits) & 63
            return self.let(f"tl.umulhi({x.name}, {factor}) & 63", high.astype(dtype))
        name = self.one_of(["popc", "clz"])
        count = [bin(v).count("1") if name == "popc" else bits - int(v).bit_length() for v in word.ravel().tolist()]
        return self.let(f"tl.extra.libdevice.{name}({x.name})", np.array(count, np.int32).reshape(x.shape))

    def random_words(self, value):
        x = self.fitted(value, np.dtype(np.int32))
        seed = int(self.rng.integers(0, 2**40))
        return self.let(f"(tl.randint({seed}, {x.name}) & 63).to(tl.int32)",
                        (words_of(seed, x.array) & np.uint32(63)).astype(np.int32))
