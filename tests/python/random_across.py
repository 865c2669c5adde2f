# SPDX-License-Identifier: Apache-2.0
"""Parts, joins and permutations of elements in random kernels (random_kernels.py). A class of their own,
from which Kernel inherits."""
import numpy as np
from random_values import EXACT


class AcrossKinds:
    def join(self, value):
        """Two tiles of one shape and type, joined, interleaved or one behind the other."""
        other = self.fitted(self.one_of([v for v in self.values if v.shape == value.shape]), value.dtype)
        a, b = value.array, other.array
        if 2 * a.size > self.most:
            return None
        kind, axis = int(self.rng.integers(3)), int(self.rng.integers(len(value.shape)))
        pair = f"{value.name}, {other.name}"
        if kind == 0 and len(value.shape) < 4:
            return self.let(f"tl.join({pair})", np.stack([a, b], -1))
        if kind == 1:
            return self.let(f"tl.interleave({pair})", np.stack([a, b], -1).reshape(*a.shape[:-1], -1))
        return self.let(f"tl.cat({pair}, dim={axis})", np.concatenate([a, b], axis))

    def split(self, value):
        """Halves of what has an even extent, back in another order."""
        shape = value.shape
        if shape[-1] % 2 == 1:
            return self.flip(value)
        pairs = value.array.reshape(*shape[:-1], shape[-1] // 2, 2)
        one, two = self.fresh(), self.fresh()
        self.line(f"{one}, {two} = tl.split(tl.reshape({value.name}, {pairs.shape}))")
        return self.let(f"tl.join({two}, {one})", pairs[..., ::-1]) if len(shape) < 4 else None

    def part(self, value):
        """A slice of each axis, or an index of it."""
        texts, keys = [], []
        for extent in value.shape:
            start = int(self.rng.integers(0, extent))
            count = int(self.rng.integers(1, extent - start + 1))
            step = int(self.one_of([1, 1, 1, 2, 3]))
            text, key = self.one_of([(":", slice(None)), (f"{start}:{start + count}", slice(start, start + count)),
                                     (f"{start}:{start + count}:{step}", slice(start, start + count, step)),
                                     (f"{-extent + start}:", slice(start, None)), ("::-1", slice(None, None, -1))])
            if self.rng.random() < 0.15 and len(keys) + 1 < len(value.shape):
                text, key = str(start), start
            texts.append(text)
            keys.append(key)
        return self.let(f"{value.name}[{', '.join(texts)}]", value.array[tuple(keys)])

    def flip(self, value):
        axis = int(self.rng.integers(len(value.shape)))
        return self.let(f"tl.flip({value.name}, {axis})", np.flip(value.array, axis))

    def gather(self, value):
        """At indices that come from memory or from the kernel's numbers; some lie outside."""
        axis = int(self.rng.integers(len(value.shape)))
        extent = value.shape[axis]
        room = max(1, self.most * extent // max(1, value.array.size))
        length = int(self.rng.integers(1, min(2 * extent + 3, room) + 1))
        shape = value.shape[:axis] + (length,) + value.shape[axis + 1:]
        kind = np.dtype(self.one_of([np.int8, np.int16, np.int32, np.int64]))
        index = self.load(shape, kind, min(extent + 2, 100))
        place = index.array.astype(np.int64)
        place = np.where((place < 0) | (place >= extent), extent - 1, place)
        return self.let(f"tl.gather({value.name}, {index.name}, {axis})",
                        np.take_along_axis(value.array, place, axis))

    def histogram(self, value):
        bins = int(self.one_of([1, 2, 7, 16, 33, 128]))
        x = self.fitted(value, np.dtype(self.one_of([np.int8, np.int32, np.int64])), 100)
        flat = x.array.ravel()
        kept = flat[(flat >= 0) & (flat < bins)].astype(np.int64)
        return self.let(f"tl.histogram(tl.ravel({x.name}), {bins})",
                        np.bincount(kept, minlength=bins).astype(np.int32))

    def mapped(self, value):
        """A function with a branch and a loop, element by element."""
        x = self.fitted(value, np.dtype(np.int32), EXACT[np.dtype(np.int16)])
        name, bound = self.fresh("step"), int(self.rng.integers(0, 6))
        self.functions.append(
            f"@libtile.jit\ndef {name}(x, most):\n    if x % 3 == 1:\n        x = -x\n"
            f"    for k in range(most):\n        if x > k:\n            x = x - 2 * k\n    return x\n")
        array = np.where(np.fmod(x.array, 3) == 1, -x.array, x.array)
        for k in range(bound):
            array = np.where(array > k, array - 2 * k, array)
        return self.let(f"tl.map_elementwise({name}, {x.name}, {self.argument('n', bound)})", array.astype(np.int32))
