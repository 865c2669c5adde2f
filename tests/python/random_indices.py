# SPDX-License-Identifier: Apache-2.0
"""Indices in random kernels (random_kernels.py): what they are computed from, and what conditions on them
decide. A class of their own, from which Kernel inherits."""
import math

import numpy as np
from random_values import EXACT, NAMES, truncated
from spine import poisoned


class IndexKinds:
    def narrow_index(self, value):
        """Indices of few bits, which wrap: what is read there, and written where they are all different."""
        narrow = self.one_of([np.dtype(t) for t in (np.int8, np.int16, np.uint8, np.uint16)])
        least, most = np.iinfo(narrow).min, np.iinfo(narrow).max
        size, step = int(self.one_of([40, 128, 200, 300, 500])), int(self.one_of([0, 0, 1, 50, 100]))
        start = self.one_of([0, least - 9, most - 37, most // 2 - 3])
        text = f"(tl.arange(0, {size}) + {start}).to(tl.{narrow.name})" + (f" + {step}" if step else "")
        index = ((np.arange(size) + start).astype(narrow) + narrow.type(step)).astype(np.int64)
        if self.rng.random() < 0.4:
            text = f"({text}).to(tl.{self.one_of(['int32', 'int64'])})"
        base, dtype = -int(index.min()), self.some_type()
        # With room for an index that does not wrap.
        memory = self.numbers(max(int(index.max()), start + size + step) + base + 1, dtype)
        read = self.let(f"tl.load({self.argument('x', memory)} + {base} + ({text}))", memory[index + base])
        if size <= most - least + 1:
            out = poisoned(memory.size, dtype)
            name = self.argument("o", out)
            self.line(f"tl.store({name} + {base} + ({text}), {read.name})")
            self.outputs[name] = out.copy()
            self.outputs[name][index + base] = read.array
        return read

    def masked_store(self, value):
        """A store of numbers that were of another type, mostly a wider one, behind which nothing may be written. Its
        mask is made of conditions on the index and on an argument; often few lanes are on in a vector, or one."""
        extent = int(self.one_of([8, 16, 32, 64, 128])) + int(self.one_of([0, 1, 1, 1, 3]))
        index, given = np.arange(extent), int(self.rng.integers(0, 3))
        number = self.argument("n", given)
        text, mask = None, None
        for _ in range(int(self.one_of([1, 2, 2, 3]))):
            operator = self.one_of(["==", "!=", "<", ">=", ">"])
            bound = int(self.one_of([0, 1, extent // 2, extent - 2, extent - 1]))
            more, holds = f"(i {operator} {bound})", eval(f"index {operator} bound")
            if self.rng.random() < 0.4:
                bound = int(self.rng.integers(0, 3))
                more, holds = f"({number} == {bound})", np.full(extent, given == bound)
            elif self.rng.random() < 0.3:
                more, holds = f"(~{more})", ~holds
            if text is None:
                text, mask = more, holds
            elif self.rng.random() < 0.5:
                text, mask = f"({text} | {more})", mask | holds
            else:
                text, mask = f"({text} & {more})", mask & holds
        to, source = sorted([self.some_type(), self.some_type()], key=lambda dtype: dtype.itemsize)
        memory = self.numbers(extent, source)
        memory = np.abs(memory) if to.kind == "u" and source.kind not in "iu" else memory
        out = poisoned(extent + 40, to)
        name = self.argument("o", out)
        self.line(f"i = tl.arange(0, {extent})")
        self.line(f"tl.store({name} + i, tl.load({self.argument('x', memory)} + i).to(tl.{NAMES[to]}), "
                  f"tl.broadcast_to({text}, [{extent}]))")
        self.outputs[name] = out.copy()
        self.outputs[name][:extent][mask] = memory[mask].astype(to)

    def divided_index(self, value):
        """Quotients and remainders of indices on both sides of 0, as numbers and in conditions; those that are
        not negative in addresses too."""
        axis = int(self.rng.integers(len(value.shape)))
        extent, wide = value.shape[axis], self.one_of(["", ".to(tl.int64)"])
        by = int(self.one_of([3, 4, 7, 8, 12, 16, 16, 16, 32, 48, 100, -8, -8]))
        start = int(self.one_of([-2 * by, -by, -extent, -48, -32, -16, -7, -5, 0, 0, 3, 5, 16, by, -(2**31)]))
        index = f"({self.argument('n', start)} + tl.arange(0, {extent})){wide}"
        indices = np.arange(start, start + extent, dtype=np.int64 if wide else np.int32)
        quotient, rest = truncated(indices, np.full_like(indices, by))
        use = self.one_of(["address", "number", "condition"])
        if use == "condition":
            if self.rng.random() < 0.5:
                bound = int(self.one_of([self.rng.integers(-8, 8), rest[0]]))
                return self.chosen(value, axis, f"{index} % {by} < {bound}", rest < bound)[2]
            bound = int(self.one_of(quotient))
            return self.chosen(value, axis, f"{index} // {by} == {bound}", quotient == bound)[2]
        shape = [extent if d == axis else 1 for d in range(len(value.shape))]
        where = ", ".join(":" if d == axis else "None" for d in range(len(value.shape)))
        ids = self.fresh("ids")
        self.line(f"{ids} = tl.broadcast_to({index}" + (f"[{where}]" if len(shape) > 1 else "") + f", {value.shape})")
        quotient, rest = (np.broadcast_to(np.reshape(part, shape), value.shape) for part in (quotient, rest))
        if use == "address" and start >= 0 and by > 0:
            memory, last = self.numbers(by * 4, self.some_type()), self.argument("n", by)
            return self.let(f"tl.load({self.argument('x', memory)} + {ids} % {last} * 4)", memory[rest * 4])
        some, part = int(quotient.flat[quotient.size // 2]), int(rest.flat[0])
        one, two = np.int32(1), np.int32(2)
        return self.let(*self.one_of([
            (f"{ids} // {by}", quotient), (f"{ids} % {by}", rest),
            (f"tl.where({ids} // {by} == {some}, 1, 2)", np.where(quotient == some, one, two)),
            (f"tl.where({ids} % {by} < {part}, 1, 2)", np.where(rest < part, one, two))]))

    def chosen(self, value, axis, condition, holds):
        """One of two tiles by a condition on the axis' indices: 1 and 2, or the value and what is less by 3."""
        where = ", ".join(":" if d == axis else "None" for d in range(len(value.shape)))
        mask = self.fresh("mask")
        self.line(f"{mask} = tl.broadcast_to(({condition})" + (f"[{where}]" if len(value.shape) > 1 else "")
                  + f", {value.shape})")
        holds = np.broadcast_to(np.expand_dims(holds, [d for d in range(len(value.shape)) if d != axis]), value.shape)
        if self.rng.random() < 0.3 or value.dtype == np.bool_:
            return mask, holds, self.let(f"tl.where({mask}, 1, 2)", np.where(holds, np.int32(1), np.int32(2)))
        x = self.fitted(value, value.dtype, EXACT[value.dtype] // 2)
        return mask, holds, self.let(f"tl.where({mask}, {x.name}, {x.name} - 3)",
                                     np.where(holds, x.array, x.array - np.array(3, x.dtype)))

    def runs(self, value):
        """Runs of equal numbers of any length, known by a hint only: a mask of values and of loads."""
        axis, dtype = int(self.rng.integers(len(value.shape))), self.one_of([value.dtype, np.dtype(np.float16)])
        dtype = np.dtype(np.float16) if dtype == np.bool_ else dtype
        run, extent = int(self.one_of([2, 3, 4, 6, 8, 12, 12, 20])), value.shape[axis]
        numbers = np.repeat(self.rng.integers(0, 4, extent // run + 1), run)[:extent].astype(np.int32)
        ids, bound = self.argument("x", numbers), int(self.rng.integers(0, 5))
        condition = f"tl.max_constancy(tl.load({ids} + tl.arange(0, {extent})), [{run}]) < {self.argument('n', bound)}"
        mask, holds, result = self.chosen(value, axis, condition, numbers < bound)
        strides, span = self.strides(value.shape)
        memory = self.numbers(span, dtype)
        tile = np.lib.stride_tricks.as_strided(memory, value.shape, [s * memory.itemsize for s in strides])
        where = f"{self.argument('x', memory)} + {self.index(value.shape, strides)}"
        loaded = self.let(f"tl.load({where}, {mask}, 5)", np.where(holds, tile, np.array(5, dtype)))
        return self.one_of([result, loaded])
