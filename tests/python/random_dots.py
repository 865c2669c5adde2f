# SPDX-License-Identifier: Apache-2.0
"""Dots in random kernels (random_kernels.py): alone, in loops, with scales. A class of their own, from which Kernel
inherits."""
import float8
import ml_dtypes
import numpy as np
from random_values import BFLOAT16, NAMES

# The formats of scaled operands, as arrays hold them.
SCALED = {"e2m1": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": BFLOAT16,
          "fp16": np.float16}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


class DotKinds:
    def dot_operands(self):
        dtype = self.one_of([np.dtype(t) for t in (np.float16, BFLOAT16, np.float32, np.int8, np.float64)])
        total = np.dtype(np.int32) if dtype == np.int8 else dtype if dtype == np.float64 else np.dtype(np.float32)
        return dtype, total

    def dot(self, value):
        if len(value.shape) != 2 or value.shape[1] > 256 or value.shape[0] > 256:
            shape = (int(self.one_of([1, 5, 16, 17, 32, 48])), int(self.one_of([1, 3, 16, 32, 33, 64])))
            value = self.load(shape, self.some_type())
        dtype, total = self.dot_operands()
        a = self.fitted(value, dtype, 9)
        n = int(self.one_of([1, 4, 8, 9, 16, 24, 32, 40]))
        kind = self.rng.random()
        if kind < 0.45:
            b = self.load((a.shape[1], n), dtype)
        elif kind < 0.9:
            turned = self.load((n, a.shape[1]), dtype)
            b = self.let(f"tl.trans({turned.name})", turned.array.T)
        else:
            b = self.constant_rows(a.shape[1], n, dtype)
        # The float types are exact on these numbers, whichever unit multiplies.
        return self.let(f"tl.dot({a.name}, {b.name})", (a.array.astype(total) @ b.array.astype(total)))

    def constant_rows(self, rows, columns, dtype):
        """What an assembler knows, too: two numbers in turns."""
        even, odd = (int(self.one_of([-3, -1, 2])) for _ in range(2))
        array = np.where(np.arange(rows)[:, None] % 2 == 0, even, odd).astype(dtype)
        text = f"tl.where(tl.arange(0, {rows})[:, None] % 2 == 0, {even}, {odd}).to(tl.{NAMES[dtype]})"
        return self.let(f"tl.broadcast_to({text}, ({rows}, {columns}))", np.broadcast_to(array, (rows, columns)))

    def dot_batch(self, value):
        """Slices of matrices, some of them turned, onto an accumulator."""
        if len(value.shape) != 3 or max(value.shape) > 64:
            value = self.load((int(self.one_of([1, 2, 3, 5])), int(self.one_of([1, 7, 16, 32])),
                               int(self.one_of([3, 8, 16, 24, 32]))), self.some_type())
        dtype, total = self.dot_operands()
        a = self.fitted(value, dtype, 9)
        slices, _, k = a.shape
        n = int(self.one_of([1, 5, 8, 16, 24]))
        if self.rng.random() < 0.5:
            b = self.load((slices, k, n), dtype)
        else:
            turned = self.load((slices, n, k), dtype)
            b = self.let(f"tl.trans({turned.name})", turned.array.transpose(0, 2, 1))
        product = a.array.astype(total) @ b.array.astype(total)
        if self.rng.random() < 0.5:
            return self.let(f"tl.dot({a.name}, {b.name})", product)
        acc = self.load(product.shape, total)
        return self.let(f"tl.dot({a.name}, {b.name}, {acc.name})", product + acc.array)

    def is_below(self, index, end):
        """A compare of the index with the end; of half of them both are shifted."""
        if self.rng.random() < 0.5:
            return f"{index} < {self.argument('n', end)}"
        shift = int(self.rng.integers(-99, 100))
        return f"{index} + {self.argument('n', shift)} < {self.argument('n', end + shift)}"

    def dot_loop(self, _):
        """A product by blocks of its depth. Of half of them rows and columns end within the tile, where the launch says."""
        dtype, total = self.dot_operands()
        m, n = int(self.one_of([1, 7, 16, 32, 48, 64])), int(self.one_of([3, 8, 16, 24, 32, 64]))
        depth, steps = int(self.one_of([1, 8, 16, 32, 32, 48, 64])), int(self.rng.integers(0, 6))
        k = max(0, steps * depth - int(self.one_of([0, 0, 1, depth // 2])))
        ends = self.rng.random() < 0.5
        rows, cols = (m - int(self.rng.integers(0, m)), n - int(self.rng.integers(0, n))) if ends else (m, n)
        a, b = self.numbers((rows, max(k, 1)), dtype, 5), self.numbers((max(k, 1), cols), dtype, 5)
        turned = self.rng.random() < 0.5
        x, y = self.argument("x", a), self.argument("x", b.T.copy() if turned else b)
        bound, stride = self.argument("n", k), self.argument("n", max(k, 1))
        below, right_of = "", ""
        if ends:
            below = f" & ({self.is_below(f'tl.arange(0, {m})[:, None]', rows)})"
            right_of = f" & ({self.is_below(f'tl.arange(0, {n})[None, :]', cols)})"
        name = self.fresh("acc")
        self.line(f"{name} = tl.zeros(({m}, {n}), dtype=tl.{NAMES[total]})")
        self.line(f"for k in range(0, {bound}, {depth}):")
        self.indent += 1
        self.line(f"inner = k + tl.arange(0, {depth})")
        self.line(f"left = tl.load({x} + tl.arange(0, {m})[:, None] * {stride} + inner[None, :], "
                  f"tl.broadcast_to({self.is_below('inner[None, :]', k)}, ({m}, {depth})){below}, 0)")
        place = (f"tl.arange(0, {n})[None, :] * {stride} + inner[:, None]" if turned
                 else f"inner[:, None] * {cols} + tl.arange(0, {n})[None, :]")
        self.line(f"right = tl.load({y} + {place}, tl.broadcast_to({self.is_below('inner[:, None]', k)}, ({depth}, {n})){right_of}, 0)")
        self.line(f"{name} = tl.dot(left, right, {name})")
        self.indent -= 1
        product = np.zeros((m, n), total)
        product[:rows, :cols] = a[:, :k].astype(total) @ b[:k].astype(total)
        return self.let(name, product)

    def attention(self, _):
        """Two dots in one loop, the second of what the first gives, with a reduction between them."""
        dtype = self.one_of([np.dtype(np.float16), BFLOAT16, np.dtype(np.float32)])
        m, n, depth = (int(self.one_of(c)) for c in ([16, 17, 32, 64], [16, 24, 32], [16, 32, 40]))
        steps = int(self.rng.integers(0, 4))
        q, size = self.load((m, depth), dtype, 2), max(1, steps) * n
        keys, values = self.numbers((size, depth), dtype, 2), self.numbers((size, depth), dtype, 3)
        k, v = self.argument("x", keys), self.argument("x", values)
        bound, name = self.argument("n", steps), self.fresh("acc")
        self.line(f"{name} = tl.zeros(({m}, {depth}), dtype=tl.float32)")
        self.line(f"for block in range({bound}):")
        self.indent += 1
        self.line(f"rows = (block * {n} + tl.arange(0, {n})) * {depth}")
        self.line(f"scores = tl.dot({q.name}, tl.load({k} + rows[None, :] + tl.arange(0, {depth})[:, None]))")
        self.line("scores = tl.maximum(scores - tl.max(scores, axis=1, keep_dims=True), -4.0) + 4")
        self.line(f"right = tl.load({v} + rows[:, None] + tl.arange(0, {depth})[None, :])")
        self.line(f"{name} = tl.dot(scores.to(tl.{NAMES[dtype]}), right, {name})")
        self.indent -= 1
        total = np.zeros((m, depth))
        for block in range(steps):
            rows = slice(block * n, block * n + n)
            scores = q.array.astype(np.float64) @ keys[rows].astype(np.float64).T
            scores = np.maximum(scores - scores.max(axis=1, keepdims=True), -4) + 4
            total += scores @ values[rows].astype(np.float64)
        return self.let(name, total.astype(np.float32))

    def team_loop(self, _):
        """As attention, by tiles of whole teams of warps, whose copies may be boxes: rows up to a bound, sums that each block
        scales, maybe all of it once more. At most eight blocks halve sixteenths: 4096 of the sums are integers."""
        if self.rng.random() < 0.5:  # two teams, or four
            self.options = {"num_warps": int(self.one_of([8, 8, 16])), "num_stages": int(self.one_of([2, 3, 4]))}
        dtype = self.one_of([np.dtype(np.float16), BFLOAT16])
        m, n, depth = (int(self.one_of(c)) for c in ([48, 64, 128, 128, 128, 256], [32, 64, 128, 128], [32, 64, 128, 128]))
        count, trips, pad = int(self.rng.integers(0, 3 * n + 2)), int(self.one_of([1, 1, 2])), int(self.one_of([0, 0, 16, 8]))
        q = self.load((m, depth), dtype, 1)
        keys, values = (self.numbers((max(1, count), depth + pad), dtype, most) for most in (1, 3))
        k, v = self.argument("x", keys), self.argument("x", values)
        bound, stride, rounds = self.argument("n", count), self.argument("n", depth + pad), self.argument("n", trips)
        name, powers = self.fresh("acc"), self.rng.random() < 0.5
        self.line(f"{name} = tl.zeros(({m}, {depth}), dtype=tl.float32)")
        self.line(f"for trip in range({rounds}):")
        self.line(f"    for first in range(0, {bound}, {n}):")
        self.indent += 2
        self.line(f"rows = first + tl.arange(0, {n})")
        self.line(f"place = rows[:, None] * {stride} + tl.arange(0, {depth})[None, :]")
        self.line(f"keys = tl.load({k} + place, tl.broadcast_to(rows[:, None] < {bound}, ({n}, {depth})), 0)")
        self.line(f"scores = tl.where(rows[None, :] < {bound}, tl.dot({q.name}, keys.T), -1024.0)")
        self.line("scores = tl.maximum(scores - tl.max(scores, axis=1, keep_dims=True), -4.0)")
        self.line("scores = tl.exp2(scores)" if powers else "scores = scores + 4")
        self.line(f"right = tl.load({v} + place, tl.broadcast_to(rows[:, None] < {bound}, ({n}, {depth})), 0)")
        self.line(f"{name} = tl.dot(scores.to(tl.{NAMES[dtype]}), right, {name} * 0.5)")
        self.indent -= 2
        total = np.zeros((m, depth))
        for first in list(range(0, count, n)) * trips:
            rows = slice(first, min(first + n, count))
            scores = q.array.astype(np.float64) @ keys[rows, :depth].astype(np.float64).T
            scores = np.maximum(scores - scores.max(axis=1, keepdims=True), -4)
            total = total * 0.5 + (np.exp2(scores) if powers else scores + 4) @ values[rows, :depth].astype(np.float64)
        return self.let(f"{name} * 4096.0", (total * 4096).astype(np.float32))

    def float8_loop(self, _):
        """Products of 8-bit floats, whose sums may be imprecise: below 2^13, where those of every unit are exact."""
        if self.rng.random() < 0.8:  # whole teams
            self.options = {"num_warps": int(self.one_of([4, 4, 4, 8, 16])), "num_stages": int(self.one_of([1, 2, 3, 4]))}
        formats = [self.one_of([ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]) for _ in range(2)]
        m, n, depth = (int(self.one_of(c)) for c in ([17, 64, 128, 128, 128, 256], [24, 64, 72, 128, 128, 128, 192], [16, 32, 64, 64, 64, 128]))
        steps = int(self.one_of([0, 1, 2, 3, 4, 5]))
        k = max(0, steps * depth - int(self.one_of([0] * 6 + [1, depth // 2])))
        turned = [self.rng.random() < 0.9, self.rng.random() < 0.1]  # b's neighbours along k, a's along m
        a, b = (self.numbers(shape, dtype, 3) for shape, dtype in zip(((m, max(k, 1)), (max(k, 1), n)), formats))
        x = self.argument("x", a.T.copy() if turned[1] else a)
        y = self.argument("x", b.T.copy() if turned[0] else b)
        bound, name = self.argument("n", k), self.fresh("acc")
        steps_a = (self.argument("n", v) for v in ((1, m) if turned[1] else (max(k, 1), 1)))
        steps_b = (self.argument("n", v) for v in ((1, max(k, 1)) if turned[0] else (n, 1)))
        imprecise = self.one_of([None, None, None, depth, depth, depth // 2, 0])
        self.line(f"{name} = tl.full(({m}, {n}), 1, tl.float32)")
        self.line(f"for k in range(0, {bound}, {depth}):")
        self.indent += 1
        self.line(f"inner = k + tl.arange(0, {depth})")
        for operand, array, shape, strides, along in (("left", x, (m, depth), steps_a, 1), ("right", y, (depth, n), steps_b, 0)):
            rows, columns = (f"tl.arange(0, {extent})" if axis != along else "inner" for axis, extent in enumerate(shape))
            there = f"inner[{'None, :' if along else ':, None'}] < {bound}"
            self.line(f"{operand} = tl.load({array} + {rows}[:, None] * {next(strides)} + {columns}[None, :] * {next(strides)}, "
                      f"tl.broadcast_to({there}, {shape}), 0)")
        self.line(f"{name} = tl.dot(left, right, {name}, max_num_imprecise_acc={imprecise})")
        self.indent -= 1
        return self.let(name, (a[:, :k].astype(np.float32) @ b[:k].astype(np.float32) + 1).astype(np.float32))

    def scaled_operand(self, form, shape, axis, by_axis):
        """What lies in memory of a matrix whose K is the axis, and its numbers. Two codes of e2m1 lie in one byte,
        along K or along the other axis."""
        if form == "e2m1":
            packed = axis if by_axis else 1 - axis
            codes = self.rng.integers(0, 16, shape, dtype=np.uint8)
            even, odd = (np.take(codes, range(first, shape[packed], 2), packed) for first in (0, 1))
            return even | odd << 4, E2M1[codes]
        memory = self.rng.integers(-4, 5, shape).astype(SCALED[form])
        return memory, memory.astype(np.float64)

    def tile_of(self, memory):
        """All of an array with two axes."""
        dtype = memory.dtype
        text = f"tl.load({self.argument('x', memory.view(np.uint8) if dtype.kind == 'V' and dtype.itemsize == 1 else memory)}"
        return text + f" + {self.index(memory.shape, [memory.shape[1], 1])})"

    def dot_scaled(self, _):
        left, right = (self.one_of(list(SCALED)) for _ in range(2))
        if "16" in left + right and left != right and "e" not in left[0] + right[0]:
            right = left
        m, n, k = 2 * int(self.rng.integers(1, 20)), 2 * int(self.rng.integers(1, 20)), 32 * int(self.rng.integers(1, 4))
        packs, texts, numbers = [self.rng.random() < 0.5 for _ in range(2)], [], []
        for form, shape, axis, packed in [(left, (m, k), 1, packs[0]), (right, (k, n), 0, packs[1])]:
            memory, array = self.scaled_operand(form, shape, axis, packed)
            texts.append(self.tile_of(memory))
            if form in ("e4m3", "e5m2"):
                texts[-1] += f".to(tl.{'float8e4nv' if form == 'e4m3' else 'float8e5'}, bitcast=True)"
            if self.rng.random() < 0.7:
                scales = self.rng.integers(127, 131, (shape[1 - axis], k // 32), dtype=np.uint8)
                texts.append(self.tile_of(scales))
                factors = np.repeat(2.0 ** (scales - 127.0), 32, 1)
                array = array * (factors if axis == 1 else factors.T)
            else:
                texts.append("None")
            numbers.append(array)
        (a, b), acc = numbers, self.load((m, n), np.dtype(np.float32))
        # Halves times halves become integers.
        return self.let(f'tl.dot_scaled({texts[0]}, {texts[1]}, "{left}", {texts[2]}, {texts[3]}, "{right}", {acc.name}, '
                        f"lhs_k_pack={packs[0]}, rhs_k_pack={packs[1]}) * 4", ((a @ b + acc.array) * 4).astype(np.float32))
