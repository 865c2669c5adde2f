# SPDX-License-Identifier: Apache-2.0
"""Steps of random kernels (random_kernels.py) that compare, round, count bits and draw random numbers, all
exact."""
import math

import numpy as np
from random_values import BFLOAT16, EXACT, NAMES

_ROUNDED = {"tl.floor": np.floor, "tl.ceil": np.ceil, "tl.extra.libdevice.trunc": np.trunc,
            "tl.extra.libdevice.rint": np.rint}

_EXTREMES = [("minimum", np.minimum), ("maximum", np.maximum)]


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


def permuted(a, b, selector):
    """prmt: bytes of two words."""
    source = np.stack([(w >> np.uint32(8 * i)) & np.uint32(255) for w in (a, b) for i in range(4)])
    return sum(source[selector >> 4 * i & 7] << np.uint32(8 * i) for i in range(4)).astype(np.uint32)


def looked_up(a, b, c, table):
    """lop3: each bit by three bits."""
    return sum(((a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)) * np.uint32(table >> i & 1)
               for i in range(8)).astype(np.uint32)


def high(a, b):
    return (a.astype(np.uint64) * b >> np.uint64(32)).astype(np.uint32)


def funnel(a, b, count):
    return ((b.astype(np.uint64) << np.uint64(32 + count) | a.astype(np.uint64) << np.uint64(count)) >> np.uint64(32)).astype(np.uint32)


# PTX of three words and a number, and what it computes of uint32.
ASSEMBLY = [
    ("shf.l.wrap.b32 $0, $1, $2, {n};", lambda a, b, c, n: funnel(a, b, n)),
    ("lop3.b32 $0, $1, $2, $3, {n};", looked_up),
    ("prmt.b32 $0, $1, $2, 0x6{n:03o};", lambda a, b, c, n: permuted(a, b, int(f"6{n:03o}", 16))),
    ("mad.lo.s32 $0, $1, {n}, $3;", lambda a, b, c, n: a * np.uint32(n) + c),
    ("mul.hi.u32 $0, $1, $2;", lambda a, b, c, n: high(a, b)),
    ("min.u32 $0, $1, $3;", lambda a, b, c, n: np.minimum(a, c)),
    ("max.s32 $0, $1, $2;", lambda a, b, c, n: np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32)),
    ("and.b32 $0, $1, {n}; shl.b32 $0, $0, 3; xor.b32 $0, $0, $2;",
     lambda a, b, c, n: (a & np.uint32(n)) << np.uint32(3) ^ b),
    ("{{ .reg .pred p; setp.lt.s32 p, $1, $2; selp.b32 $0, $3, {n}, p; }}",
     lambda a, b, c, n: np.where(a.view(np.int32) < b.view(np.int32), c, np.uint32(n))),
    ("{{ .reg .pred p; .reg .b32 t; and.b32 t, $1, 1; setp.eq.s32 p, t, 1; add.s32 $0, $2, {n}; @!p shr.s32 $0, $3, 1; }}",
     lambda a, b, c, n: np.where(a & np.uint32(1) == 1, b + np.uint32(n), (c.view(np.int32) >> 1).view(np.uint32)))]


class MathKinds:
    """For a class with rng, one_of, fitted, load and let."""

    def assembly(self, value):
        """Instructions on words, of which some are those of a value."""
        dtype = np.dtype(self.one_of([np.int32, np.uint32]))
        words = [self.load(value.shape, dtype, 2**31 - 1) for _ in range(3)]
        words[int(self.rng.integers(3))] = self.fitted(value, dtype)
        (text, function), n = self.one_of(ASSEMBLY), int(self.rng.integers(0, 32))
        result = function(*(w.array.view(np.uint32) for w in words), n)
        return self.let(f'tl.inline_asm_elementwise("{text.format(n=n)}", "=&r,r,r,r", [{", ".join(w.name for w in words)}], '
                        f"tl.{dtype.name}, True, 1)", result.view(dtype))

    def rounding(self, value):
        """Of quarters, which every float type holds."""
        dtype = self.one_of([np.dtype(t) for t in (np.float16, np.float32, np.float64)])
        x = self.fitted(value, dtype, 400)
        name = self.one_of(sorted(_ROUNDED))
        return self.let(f"{name}({x.name} * 0.25)", _ROUNDED[name](x.array * dtype.type(0.25)))

    def powers(self, value):
        """Powers of two by exponentials, whose errors a rounding to few bits takes away, and sums and products of them."""
        k = self.fitted(value, np.dtype(np.int32))
        text = f"tl.exp(({k.name} & 7).to(tl.float32) * {math.log(2)!r})"
        array = 2.0 ** (k.array & 7)
        factor, axis = int(self.rng.integers(-9, 10)), int(self.rng.integers(value.array.ndim))
        forms = [(text, array), (f"{text} * {factor}", array * factor), (f"128 / {text}", 128 / array),
                 (f"{text} + 1.0", array + 1), (f"{text} - 1.0", array - 1),
                 (f"tl.where({k.name} > 3, {text}, {factor})", np.where(k.array > 3, array, factor))]
        if k.shape[axis] <= 8:  # sums that fp16 holds
            forms.append((f"tl.sum({text}, {axis}, keep_dims=True)", array.sum(axis, keepdims=True)))
        text, array = self.one_of(forms)
        dtype = self.one_of([np.dtype(t) for t in (np.float16, np.float16, np.float32)] + [BFLOAT16])
        if dtype == BFLOAT16 and np.abs(array).max() > EXACT[dtype]:
            dtype = np.dtype(np.float16)
        if dtype == np.float32:
            text = f"tl.extra.libdevice.rint({text})"
        return self.let(f"({text}).to(tl.{NAMES[dtype]})", array.astype(dtype))

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

    def extremes(self, value):
        """Minima or maxima of minima and maxima, of numbers that are negated, differences and products."""
        dtype = np.dtype(self.one_of([np.int8, np.int16, np.int32, np.int32, np.int32, np.int64, np.float32]))
        partners = [v for v in self.values if v.shape == value.shape]
        leaves = []
        for _ in range(int(self.rng.integers(3, 7))):
            x = self.fitted(self.one_of(partners), dtype, EXACT[dtype] // 8)
            y = self.one_of(leaves) if leaves else (x.name, x.array)
            least, zero = int(self.rng.integers(-100, 100)), dtype.type(0)
            leaves.append(self.one_of([(x.name, x.array), (f"(-{x.name})", zero - x.array), (f"(-{x.name})", zero - x.array),
                                       (f"(0 - {x.name})", zero - x.array), (f"({x.name} * -1)", zero - x.array),
                                       (f"tl.minimum({y[0]}, {least})", np.minimum(y[1], dtype.type(least))),
                                       (f"tl.where({x.name} > 2, -{x.name}, {x.name})", np.where(x.array > 2, zero - x.array, x.array))]))
        if dtype.itemsize < 4:
            leaves = [(f"({text}).to(tl.{dtype.name})", array) for text, array in leaves]
        mostly = self.one_of(_EXTREMES)
        while len(leaves) > 1:
            (a, x), (b, y) = (leaves.pop(int(self.rng.integers(len(leaves)))) for _ in range(2))
            name, function = mostly if self.rng.random() < 0.8 else self.one_of(_EXTREMES)
            leaves.append((f"tl.{name}({a}, {b})", function(x, y)))
        return self.let(*leaves[0])

    def random_words(self, value):
        x = self.fitted(value, np.dtype(np.int32))
        seed = int(self.rng.integers(0, 2**40))
        return self.let(f"(tl.randint({seed}, {x.name}) & 63).to(tl.int32)",
                        (words_of(seed, x.array) & np.uint32(63)).astype(np.int32))
