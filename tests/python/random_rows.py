# SPDX-License-Identifier: Apache-2.0
"""Rows that random kernels (random_kernels.py) go through several times: loops over one range, whose end lies around a block,
with sums, stores in place and others between them. A class of its own, from which Kernel inherits.

A group of loops is made twice: as text, and as functions that do the same to NumPy's arrays, in the same order. What lies
in memory and is stored are small integers, since each sum is clamped before it is used."""
import numpy as np
from random_values import BFLOAT16, NAMES
from spine import poisoned

FEW = 3  # what a sum is clamped to
_TYPES = [np.dtype(t) for t in (np.float16, np.float32, np.int32)] + [BFLOAT16]


def clamped(number):
    return max(-FEW, min(FEW, int(number)))


class Rows:
    """What the loops of a group work on, while NumPy runs them: rows of an array, one after the other."""

    def __init__(self, memory, out, length, end, block):
        self.memory, self.out, self.length, self.end, self.block = memory, out, length, end, block
        self.row, self.seen, self.tile = 0, 0, np.zeros(block, np.int64)

    def steps(self, start, step):
        """Places of the row that each step of a range has, and whether they are inside."""
        for first in range(start, self.end, step):
            at = first + np.arange(self.block)
            yield first, at, at < self.end

    def load(self, at, inside, other):
        safe = np.where(inside, at, 0) + self.row * self.length
        return np.where(inside, self.memory[safe].astype(np.int64), other)

    def store(self, array, at, inside, numbers):
        array[(at + self.row * self.length)[inside]] = numbers[inside].astype(array.dtype)


class RowKinds:
    """For a class with rng, one_of, argument, fresh, line and let."""

    def rows(self, value):
        """Two to four loops over each row, most over one range."""
        dtype, block = self.one_of(_TYPES), int(self.one_of([4, 16, 32, 64, 100, 256]))
        end = int(self.one_of([-7, 0, 1, block - 1, block, block, block, block, block + 1, 2 * block, 2 * block + 3]))
        start, count = int(self.one_of([0, 0, 0, 0, 1, 5])), int(self.one_of([1, 1, 2, 3]))
        length = 3 * block + 8
        memory, out = self.numbers(count * length, dtype, 4), poisoned(count * length, self.one_of(_TYPES))
        text = {"x": self.argument("x", memory.copy()), "o": self.argument("o", out.copy()), "end": self.argument("n", end),
                "seen": self.fresh("seen"), "tile": self.fresh("tile"), "row": self.fresh("row"),
                "wide": "int32" if dtype.kind == "i" else "float32"}
        rows = Rows(memory, out, length, end, block)
        self.line(f"{text['seen']} = 0")
        self.line(f"{text['tile']} = tl.zeros(({block},), tl.{text['wide']})")
        options = f", num_stages={self.one_of([2, 3])}" if self.rng.random() < 0.3 else ""
        self.line(f"for {text['row']} in tl.range({self.argument('n', count)}{options}):")
        self.indent += 1
        text["x_row"], text["o_row"] = (f"{text[name]} + {text['row']} * {length}" for name in "xo")
        actions = []
        for _ in range(int(self.rng.integers(2, 5))):
            steps = int(self.one_of([start] * 9 + [start + 2])), int(self.one_of([block] * 9 + [block // 2]))
            actions += [self.loop_of(rows, text, *steps), self.between(rows, text)]
        self.indent -= 1
        for rows.row in range(count):
            for action in actions:
                action()
        self.outputs[text["x"]], self.outputs[text["o"]] = memory, out
        wide = np.dtype(text["wide"])
        return self.let(f"{text['tile']} + {text['seen']}", (rows.tile + rows.seen).astype(wide))

    def loop_of(self, rows, names, start, step):
        """The text of a loop; what it does."""
        k, at, a, total = (self.fresh(prefix) for prefix in ("k", "at", "a", "total"))
        other, bound, shift = int(self.one_of([0, 0, 0, 1])), int(self.rng.integers(-9, 10)), int(self.rng.integers(0, 5))
        kind = int(self.rng.integers(7))
        x, o, seen, tile = (names[name] for name in ("x_row", "o_row", "seen", "tile"))
        inside, less = f"{at} < {names['end']}", f"tl.where({a} > 0, {a} - {seen}, {a} + {seen})"
        if kind < 2:
            self.line(f"{total} = " + (f"tl.zeros(({rows.block},), tl.{names['wide']})" if kind == 0 else "0"))
        options = f", num_stages={self.one_of([1, 2, 3, 4])}" if self.rng.random() < 0.5 else ""
        self.line(f"for {k} in tl.range({start}, {names['end']}, {step}{options}):")
        for line in [f"{at} = {k} + tl.arange(0, {rows.block})", f"{a} = tl.load({x} + {at}, {inside}, {other}).to(tl.{names['wide']})",
                     *[[f"{total} += {a}"],
                       [f"{total} += tl.sum({a}, 0).to(tl.int32)"],
                       [f"tl.store({x} + {at}, {less}, {inside})"],
                       [f"tl.store({o} + {at}, {a} * 2 + {seen}, {inside})"],
                       [f"tl.store({x} + {shift} + {at}, {less}, {inside})", f"{tile} += tl.load({x} + {at}, {inside}, {other})"],
                       [f"if tl.max({a}, 0) > {bound}:", "    break", f"{tile} += {a} + {seen}"],
                       [f"{tile} += {a} * tl.load({x} + {k}, {k} != {start}, {seen}).to(tl.{names['wide']})"]][kind]]:
            self.line("    " + line)
        if kind < 2:
            result = f"tl.sum({total}, 0).to(tl.int32)" if kind == 0 else total
            self.line(f"{seen} = tl.minimum(tl.maximum({result}, {-FEW}), {FEW})")

        def run():
            total = 0
            for first, at, inside in rows.steps(start, step):
                a = rows.load(at, inside, other)
                less = np.where(a > 0, a - rows.seen, a + rows.seen)
                if kind < 2:
                    total += a.sum()
                elif kind == 2:
                    rows.store(rows.memory, at, inside, less)
                elif kind == 3:
                    rows.store(rows.out, at, inside, a * 2 + rows.seen)
                elif kind == 4:
                    rows.store(rows.memory, at + shift, inside, less)
                    rows.tile = rows.tile + rows.load(at, inside, other)
                elif kind == 5 and a.max() > bound:
                    break
                elif kind == 5:
                    rows.tile = rows.tile + a + rows.seen
                else:
                    rows.tile = rows.tile + a * (rows.seen if first == start else int(rows.memory[first + rows.row * rows.length]))
            if kind < 2:
                rows.seen = clamped(total)
        return run

    def between(self, rows, names):
        """What stands behind a loop; what it does."""
        place, kind = int(self.rng.integers(0, rows.block)), int(self.one_of([0, 0, 0, 0, 1, 2, 3, 4]))
        x, seen, tile, all_of = names["x_row"], names["seen"], names["tile"], f"tl.arange(0, {rows.block})"
        for line in [[], [f"tl.store({x} + {place}, {seen} + 1)"],
                     [f"if {seen} > 0:", f"    tl.store({x} + {all_of}, {tile} * 0 + 2, {all_of} > {place})"],
                     ["tl.debug_barrier()"],
                     [f"{seen} = tl.minimum(tl.maximum({seen} + tl.load({x} + {place}).to(tl.int32), {-FEW}), {FEW})"]][kind]:
            self.line(line)

        def run():
            here = rows.row * rows.length
            if kind == 1:
                rows.memory[here + place] = rows.seen + 1
            elif kind == 2 and rows.seen > 0:
                rows.memory[here + place + 1:here + rows.block] = 2
            elif kind == 4:
                rows.seen = clamped(rows.seen + int(rows.memory[here + place]))
        return run
