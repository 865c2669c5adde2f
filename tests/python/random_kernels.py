# SPDX-License-Identifier: Apache-2.0
"""Random kernels against NumPy: chains of steps (KINDS) over odd shapes and all element types. Each step is computed in
NumPy as its lines of kernel text are written; functions of any statements are run by Python (random_functions.py).
All numbers are integers that their types hold exactly, so every result is exact and compared bit for bit.

    python tests/python/random_kernels.py --device cuda --count 300 --seed 1
    python tests/python/random_kernels.py --device cuda --only 17 --keep folder   # one of them, to look at
    python tests/python/random_kernels.py --count 20 --steps 100                  # long ones
    python tests/python/random_kernels.py --kinds function,dot                    # of these steps alone
    python tests/python/random_kernels.py --device cpu,cuda --seconds 500         # both, as many as there is time for
"""
import argparse
import importlib.util
import math
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

import float8
import numpy as np
from random_across import AcrossKinds
from random_dots import DotKinds
from random_functions import FunctionKinds
from random_indices import IndexKinds
from random_math import MathKinds
from random_memory import MemoryKinds
from random_rows import RowKinds
from random_values import EXACT, MANY, MOST, NAMES, NUMBERS, TYPES, truncated
from spine import OnDevice, fitted, poisoned

import libtile

HEADER = "import collections\n\nimport libtile\nimport libtile.language as tl\n\n\n{}@libtile.jit\ndef kernel({}):\n"

# What a step may be, methods of Kernel, and how often each is taken beside the others.
KINDS = {"unary": 2, "binary": 2, "permute": 1, "reshape": 2, "grow": 1, "reduce": 2, "scan": 1, "sort": 1, "dot": 2,
         "dot_loop": 1, "dot_batch": 1, "dot_scaled": 1, "asserted": 1, "attention": 1, "team_loop": 1, "float8_loop": 1, "loop": 1,
         "round_trip": 1, "rotate": 1, "overwrite": 1, "rows": 1, "condition": 1, "atomic": 1, "ends_of_types": 2, "float8": 2,
         "rounding": 1, "powers": 1, "extremes": 1, "counted_bits": 1, "random_words": 1, "assembly": 1,
         "narrow_index": 1, "divided_index": 2, "runs": 1, "masked_store": 2, "strided": 2,
         "join": 1, "split": 1, "part": 2, "flip": 1, "gather": 2, "histogram": 1, "mapped": 1,
         "block": 2, "update": 2, "summed": 1, "function": 6}


class Value:
    def __init__(self, name, array):
        self.name, self.array = name, array
        self.shape, self.dtype = array.shape, array.dtype


class Kernel(IndexKinds, AcrossKinds, DotKinds, FunctionKinds, MathKinds, MemoryKinds, RowKinds):
    """A kernel's text, its arguments, and what it must store."""

    def __init__(self, seed, steps=None, kinds=None):
        self.rng = np.random.default_rng(seed)
        self.lines, self.values, self.arguments = [], [], {}
        self.outputs = {}
        self.functions = []  # texts of functions and classes beside the kernel
        self.count, self.indent = 0, 1
        self.kinds = [kind for kind in kinds or KINDS for _ in range(KINDS[kind])]
        self.options = {"num_warps": int(self.rng.choice([1, 1, 2, 4, 4, 8, 16, 32])),
                        "num_stages": int(self.rng.choice([1, 2, 3, 4]))}
        if self.rng.random() < 0.2:
            self.options = {}  # the compiler's choice
        self.most = MANY if self.rng.random() < 0.1 else MOST
        self.load(self.some_shape(), self.some_type(TYPES))
        for number in range(steps or int(self.rng.integers(3, 11))):
            if len(self.arguments) > 220:
                break  # a kernel has at most 256
            getattr(self, self.one_of(self.kinds))(self.one_of(self.values[-4:]))
            if number % 8 == 7:
                self.store(self.one_of(self.values[-16:]))
        for value in self.values[-3:]:
            self.store(value)
        self.text = HEADER.format("".join(f"{text}\n\n" for text in self.functions), ", ".join(self.arguments)) + "\n".join(self.lines) + "\n"

    # ---- choices
    def one_of(self, things):
        return things[int(self.rng.integers(len(things)))]

    def some_type(self, types=NUMBERS):
        return self.one_of(types)

    def some_shape(self, rank=None):
        rank = rank or int(self.rng.choice([1, 1, 2, 2, 2, 2, 3, 3, 4]))
        while True:
            top = (1100, 80, 18, 9)[rank - 1] if self.most == MOST else (20000, 300, 40, 15)[rank - 1]
            shape = tuple(int(2 ** self.rng.integers(0, math.log2(top))) if self.rng.random() < 0.4
                          else int(self.rng.integers(1, top)) for _ in range(rank))
            if math.prod(shape) <= self.most:
                return shape

    def regrouped(self, shape):
        factors = []
        for extent in shape:
            prime = 2
            while extent > 1:
                while extent % prime == 0:
                    factors.append(prime)
                    extent //= prime
                prime += 1
        if self.rng.random() < 0.6:
            self.rng.shuffle(factors)
        result = [1]
        for factor in factors:
            if len(result) < 4 and self.rng.random() < 0.35:
                result.append(1)
            result[-1] *= int(factor)
        return tuple(result)

    # ---- text
    def line(self, text):
        self.lines.append("    " * self.indent + text)

    def fresh(self, prefix="t"):
        self.count += 1
        return f"{prefix}{self.count}"

    def let(self, expression, array):
        value = Value(self.fresh(), np.ascontiguousarray(array))
        self.line(f"{value.name} = {expression}")
        self.values.append(value)
        return value

    def let_all(self, expression, arrays):
        """Several results of one call."""
        values = [Value(self.fresh(), np.ascontiguousarray(array)) for array in arrays]
        self.line(f"{', '.join(v.name for v in values)} = {expression}")
        self.values += values
        return values[-1]

    def argument(self, prefix, value):
        name = self.fresh(prefix)
        self.arguments[name] = value
        return name

    def numbers(self, shape, dtype, most=9):
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        if dtype.kind == "u":
            return self.rng.integers(0, most + 1, shape).astype(dtype)
        return self.rng.integers(-most, most + 1, shape).astype(dtype)

    def axis_index(self, shape, axis):
        where = ", ".join(":" if d == axis else "None" for d in range(len(shape)))
        return f"tl.arange(0, {shape[axis]})" + (f"[{where}]" if len(shape) > 1 else "")

    def index(self, shape, strides):
        return " + ".join(self.axis_index(shape, d) + (f" * {strides[d]}" if strides[d] != 1 else "")
                          for d in range(len(shape)))

    def strides(self, shape):
        """Of axes in any order, with gaps; and the elements that they span."""
        strides, span = [0] * len(shape), 1
        axes = list(range(len(shape)))[::-1]
        if self.rng.random() < 0.4:
            self.rng.shuffle(axes)
        for axis in axes:
            strides[axis] = span
            span = span * shape[axis] + int(self.rng.choice([0, 0, 0, 1, 3, 8]))
        return strides, span

    # ---- ops
    def load(self, shape, dtype, most=9):
        strides, span = self.strides(shape)
        memory = self.numbers(span, dtype, most)
        pointer = self.argument("x", memory)
        array = np.lib.stride_tricks.as_strided(memory, shape, [s * memory.itemsize for s in strides])
        where = f"{pointer} + {self.index(shape, strides)}"
        if self.rng.random() < 0.5:
            return self.let(f"tl.load({where})", array)
        axis = int(self.rng.integers(len(shape)))
        bound = int(self.rng.integers(0, shape[axis] + 3))
        if self.rng.random() < 0.5:
            bound = bound // 16 * 16  # the compiler knows of multiples of 16
        kept = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]) < bound
        mask = f"({self.axis_index(shape, axis)} < {self.argument('n', bound)})"
        mask = f"tl.broadcast_to({mask}, {shape})"
        other = self.rng.random() < 0.4 and dtype != np.bool_
        return self.let(f"tl.load({where}, {mask}" + (", 3)" if other else ")"),
                        np.where(kept, array, np.array(3 if other else 0, dtype)))

    def store(self, value):
        strides, span = self.strides(value.shape)
        out = poisoned(span, value.dtype)
        want = out.copy()
        name = self.argument("o", out)
        np.lib.stride_tricks.as_strided(want, value.shape, [s * want.itemsize for s in strides])[...] = value.array
        self.line(f"tl.static_assert({value.name}.dtype == tl.{NAMES[value.dtype]} and {value.name}.shape == {value.shape})")
        self.line(f"tl.store({name} + {self.index(value.shape, strides)}, {value.name})")
        self.outputs[name] = want

    def fitted(self, value, dtype, most=None):
        """The value in the type, clamped where the type (or `most`) asks for it."""
        most = most or EXACT.get(dtype, 1)
        if dtype == np.bool_:
            return value if value.dtype == dtype else self.let(f"{value.name} > 1", value.array > 1)
        if value.dtype == np.bool_:
            return self.let(f"{value.name}.to(tl.{NAMES[dtype]})", value.array.astype(dtype))
        least = 0 if dtype.kind == "u" else -most
        if value.array.min() < least or value.array.max() > most:
            # Of an unsigned type nothing is below 0, and none of these numbers is a constant of a type that is too small.
            low = 0 if value.dtype.kind == "u" else max(least, np.iinfo(value.dtype).min) if value.dtype.kind == "i" else least
            high = min(most, np.iinfo(value.dtype).max) if value.dtype.kind in "iu" else most
            value = self.let(f"tl.minimum(tl.maximum({value.name}, {low}), {high})",
                             np.minimum(np.maximum(value.array, value.dtype.type(low)), value.dtype.type(high)))
        if value.dtype == dtype:
            return value
        return self.let(f"{value.name}.to(tl.{NAMES[dtype]})", value.array.astype(dtype))

    def unary(self, value):
        if value.dtype == np.bool_:
            return self.let(f"~{value.name}", ~value.array)
        dtype = self.some_type()
        x = self.fitted(value, dtype, EXACT[dtype] // 4)
        kind = int(self.rng.integers(4))
        two = np.array(2, dtype)
        if kind == 0:
            return self.let(f"-{x.name}", -x.array)
        if kind == 1:
            return self.let(f"tl.abs({x.name}) * 2", np.abs(x.array) * two)
        if kind == 2:
            return self.let(f"tl.where({x.name} > 1, {x.name}, {x.name} + 2)",
                            np.where(x.array > 1, x.array, x.array + two))
        return self.let(f"{x.name} < 2", x.array < 2)

    def binary(self, value):
        partners = [v for v in self.values if v.shape == value.shape]
        other = self.one_of(partners)
        if value.dtype == np.bool_:
            other = self.fitted(other, value.dtype)
            operator = self.one_of("&|^")
            return self.let(f"{value.name} {operator} {other.name}",
                            {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor}[operator](
                                value.array, other.array))
        dtype = value.dtype
        most = int(math.isqrt(EXACT[dtype] // 2))
        a, b = self.fitted(value, dtype, most), self.fitted(other, dtype, most)
        symbol, function = self.one_of([("+", np.add), ("-", np.subtract), ("*", np.multiply),
                                        ("tl.minimum", np.minimum), ("tl.maximum", np.maximum)])
        text = f"{symbol}({a.name}, {b.name})" if symbol.startswith("tl") else f"{a.name} {symbol} {b.name}"
        return self.let(text, function(a.array, b.array))

    def permute(self, value):
        order = [int(i) for i in self.rng.permutation(len(value.shape))]
        return self.let(f"tl.permute({value.name}, {tuple(order)})" if len(order) > 1 else value.name,
                        value.array.transpose(order))

    def reshape(self, value):
        shape = value.shape[::-1] if self.rng.random() < 0.3 else self.regrouped(value.shape)
        return self.let(f"tl.reshape({value.name}, {shape})", value.array.reshape(shape))

    def grow(self, value):
        if len(value.shape) > 2:
            return None
        axis = int(self.rng.integers(len(value.shape) + 1))
        wide = np.expand_dims(value.array, axis)
        extent = int(self.rng.integers(1, max(2, min(40, self.most // max(1, value.array.size)))))
        shape = wide.shape[:axis] + (extent,) + wide.shape[axis + 1:]
        return self.let(f"tl.broadcast_to(tl.expand_dims({value.name}, {axis}), {shape})",
                        np.broadcast_to(wide, shape))

    def reduce(self, value):
        axis = int(self.rng.integers(len(value.shape)))
        dtype = self.one_of([np.dtype(np.int32), np.dtype(np.float32), np.dtype(np.float64)])
        x = self.fitted(value, dtype, 1000)
        name, function = self.one_of([("sum", np.sum), ("max", np.max), ("min", np.min), ("argmax", np.argmax)])
        if len(value.shape) == 1:
            # A scalar meets its tile again.
            if name == "argmax":
                return self.let(f"tl.arange(0, {x.shape[0]}) - tl.argmax({x.name}, axis=0)",
                                np.arange(x.shape[0], dtype=np.int32) - np.argmax(x.array).astype(np.int32))
            return self.let(f"{x.name} - tl.{name}({x.name}, axis=0)", x.array - function(x.array).astype(dtype))
        if name == "argmax":
            return self.let(f"tl.argmax({x.name}, axis={axis})", np.argmax(x.array, axis).astype(np.int32))
        if self.rng.random() < 0.4:
            return self.let(f"{x.name} + tl.{name}({x.name}, axis={axis}, keep_dims=True)",
                            x.array + function(x.array, axis, keepdims=True).astype(dtype))
        return self.let(f"tl.{name}({x.name}, axis={axis})", function(x.array, axis).astype(dtype))

    def scan(self, value):
        axis, reverse = int(self.rng.integers(len(value.shape))), bool(self.rng.random() < 0.4)
        if self.rng.random() < 0.4:
            # The newest element that is above 1, whatever the type: does not commute.
            flags, name = self.fitted(value, np.dtype(np.bool_)), self.fresh("newest")
            self.functions.append(f"@libtile.jit\ndef {name}(a, x, b, y):\n    return a | b, tl.where(b, y, x)\n")
            both = f"tl.associative_scan(({flags.name}, {value.name}), {axis}, {name}, reverse={reverse})[1]"
            x, f = (np.flip(a, axis) if reverse else a for a in (value.array, flags.array))
            count = np.arange(x.shape[axis]).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
            kept = np.take_along_axis(x, np.maximum.accumulate(np.where(f, count, 0), axis), axis)
            return self.let(both, np.flip(kept, axis) if reverse else kept)
        dtype = self.one_of([np.dtype(np.int32), np.dtype(np.float32), np.dtype(np.float64)])
        x = self.fitted(value, dtype, 1000)
        array = np.flip(x.array, axis) if reverse else x.array
        total = np.cumsum(array, axis, dtype=dtype)
        return self.let(f"tl.cumsum({x.name}, {axis}, reverse={reverse})", np.flip(total, axis) if reverse else total)

    def sort(self, value):
        axis, descending = int(self.rng.integers(len(value.shape))), bool(self.rng.random() < 0.4)
        array = np.sort(value.array, axis)
        array = np.flip(array, axis) if descending else array
        if self.rng.random() < 0.5:
            return self.let(f"tl.sort({value.name}, {axis}, {descending})", array)
        k = int(self.rng.integers(1, value.shape[axis] + 1))
        return self.let(f"tl.topk({value.name}, {k}, {axis}, {descending})", np.take(array, range(k), axis))

    def loop(self, value):
        """A sum of tiles that a running pointer meets, a run-time number of times."""
        dtype = self.one_of([np.dtype(np.int32), np.dtype(np.float32)])
        x = self.fitted(value, dtype, 1000)
        trips, size = int(self.rng.integers(0, 5)), x.array.size
        memory = self.numbers(max(trips, 1) * size, dtype)
        pointer, bound = self.argument("x", memory), self.argument("n", trips)
        tiles = memory.reshape(-1, *x.shape)
        strides = [math.prod(x.shape[d + 1:]) for d in range(len(x.shape))]
        name, total = self.fresh("acc"), x.array.copy()
        self.line(f"{name} = {x.name}")
        self.line(f"for k in range({bound}):")
        self.indent += 1
        self.line(f"part = tl.load({pointer} + k * {size} + {self.index(x.shape, strides)})")
        reduced = len(x.shape) > 1 and self.rng.random() < 0.5
        axis = int(self.rng.integers(len(x.shape)))
        turned = len(x.shape) == 2 and self.rng.random() < 0.5
        if turned:
            self.line(f"part = tl.reshape(tl.trans(part), {x.shape})")
        self.line(f"{name} += part" + (f" - tl.max(part, axis={axis}, keep_dims=True)" if reduced else ""))
        self.indent -= 1
        for part in tiles[:trips]:
            part = part.T.reshape(x.shape) if turned else part
            total = total + part - (part.max(axis, keepdims=True) if reduced else 0)
        return self.let(name, total.astype(dtype))

    def rotate(self, value):
        """A tile that goes round a loop through memory: each iteration reads what the last one stored."""
        if value.dtype == np.bool_ or value.array.size > 2000:
            return None
        x, size, trips = value.array.ravel(), value.array.size, int(self.rng.integers(0, 4))
        scratch, bound = self.argument("s", x.copy()), self.argument("n", trips)
        name, step = self.fresh("turned"), int(self.rng.integers(1, 40))
        self.line(f"{name} = tl.reshape({value.name}, ({size},))")
        self.line(f"for k in range({bound}):")
        self.indent += 1
        self.line(f"tl.store({scratch} + tl.arange(0, {size}), {name})")
        self.line(f"{name} = tl.load({scratch} + (tl.arange(0, {size}) + {step}) % {size})")
        if self.rng.random() < 0.5:
            self.line(f"tl.store({scratch} + {size - 1}, tl.load({scratch}))")
        self.indent -= 1
        return self.let(name, np.roll(x, -step * trips))

    def round_trip(self, value):
        """Stored, and read back through another layout; sometimes written over in place after it."""
        if value.dtype == np.bool_:
            return None
        scratch = self.argument("s", np.zeros(value.array.size, value.dtype))
        strides = [math.prod(value.shape[d + 1:]) for d in range(len(value.shape))]
        order = [int(i) for i in self.rng.permutation(len(value.shape))]
        shape = tuple(value.shape[i] for i in order)
        self.line(f"tl.store({scratch} + {self.index(value.shape, strides)}, {value.name})")
        back = self.let(f"tl.load({scratch} + {self.index(shape, [strides[i] for i in order])})",
                        value.array.transpose(order))
        size = value.array.size
        flat = self.let(f"tl.load({scratch} + {size - 1} - tl.arange(0, {size}))", value.array.ravel()[::-1])
        self.line(f"tl.store({scratch} + tl.arange(0, {size}), {flat.name})")
        return self.one_of([back, self.let(f"tl.load({scratch} + {self.index(value.shape, strides)})",
                                           flat.array.reshape(value.shape))])

    def overwrite(self, _):
        """A loop reads an array number by number, and what it makes of them is stored over the array."""
        dtype = self.one_of([np.dtype(t) for t in (np.int32, np.int64, np.float32, np.float64)])
        shape = self.one_of([(5,), (64,), (250,), (300,), (1000,), (4, 40), (16, 33)])
        size, trips = math.prod(shape), int(self.rng.integers(0, math.prod(shape) + 1))
        x, y = self.numbers(size, dtype, 3), self.numbers(size + trips + 4, dtype, 3)
        array, other, bound = self.argument("s", x.copy()), self.argument("x", y), self.argument("n", trips)
        use, store = int(self.rng.integers(4)), int(self.rng.integers(4))
        stops, masked, acc = self.rng.random() < 0.2, self.rng.random() < 0.3, self.fresh("acc")
        place = self.index(shape, [math.prod(shape[d + 1:]) for d in range(len(shape))])
        self.line(f"{acc} = tl.zeros({shape}, dtype=tl.{NAMES[dtype]})")
        self.line(f"for k in range({bound}):")
        self.indent += 1
        self.line(f"one = tl.load({array} + k" + (f", k < {bound} - 2, 1)" if masked else ")"))
        self.line([f"{acc} += one * tl.load({other} + k + {place})",
                   f"{acc} = tl.where(one > 0, {acc} + tl.load({other} + k + {place}), {acc} - 1)",
                   f"{acc} += tl.load({other} + tl.minimum(tl.abs(one), 3).to(tl.int32) + {place})",
                   f"{acc} += one"][use])
        if stops:
            self.line("if one > 2:")
            self.line("    break")
        self.indent -= 1
        total, where = np.zeros(size, dtype), np.arange(size)
        for k in range(trips):
            one = x[k] if not masked or k < trips - 2 else dtype.type(1)
            total = [total + one * y[k + where], np.where(one > 0, total + y[k + where], total - 1),
                     total + y[abs(int(one)) + where], total + one][use]
            if stops and one > 2:
                break
        want = [total, np.where(total > 0, 7, x), np.where(total > 0, total, x), np.where(where < trips, total, x)][store]
        self.line(f"tl.store({array} + {place}, " + [acc, f"7, {acc} > 0", f"{acc}, {acc} > 0",
                                                     f"{acc}, {place} < {bound}"][store] + ")")
        self.outputs[array] = want.astype(dtype)
        return self.let(acc, total.astype(dtype).reshape(shape))

    def ends_of_types(self, value):
        """Arithmetic of integers up to the least and greatest ones, which wraps, and is widened or cut afterwards."""
        dtype = np.dtype(self.one_of([np.int8, np.int8, np.int16, np.int16, np.int32, np.int64]))
        shape, info = self.one_of([value.shape, self.some_shape()]), np.iinfo(dtype)
        ends = np.array([info.min, info.min, info.min + 1, -3, -1, 0, 1, 7, info.max - 1, info.max], dtype)
        strides = [math.prod(shape[d + 1:]) for d in range(len(shape))]
        x, y = (self.let(f"tl.load({self.argument('x', m.ravel())} + {self.index(shape, strides)})", m)
                for m in (np.where(self.rng.random(shape) < 0.5, self.rng.choice(ends, shape),
                                   self.rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))
                          for _ in range(2)))
        a, b, count = x.array, y.array, int(self.rng.integers(1, 8))
        by = int(self.one_of([info.min, -1, self.rng.integers(info.min, 0)]))
        c = np.full_like(a, by)
        (quotient, rest), (quotient_by, rest_by) = truncated(a, b), truncated(a, c)
        text, result = self.one_of([
            (f"-{x.name}", -a), (f"tl.abs({x.name})", np.abs(a)), (f"{x.name} - {y.name}", a - b),
            (f"{x.name} // {y.name}", quotient), (f"{x.name} % {y.name}", rest),
            (f"{x.name} // {by}", quotient_by), (f"{x.name} % {by}", rest_by),
            (f"{x.name} + {by}", a + c), (f"{by} - {x.name}", c - a), (f"{x.name} * {by}", a * c),
            (f"{x.name} << {count}", a << count), (f"-{x.name} >> {count}", -a >> count),
            (f"tl.minimum({x.name}, -{y.name})", np.minimum(a, -b)),
            (f"tl.maximum({x.name}, -{x.name})", np.maximum(a, -a))])
        to = self.one_of([dtype, np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.int64), np.dtype(np.float64)])
        return self.let(f"({text}).to(tl.{NAMES[to]})", result.astype(to))

    def condition(self, value):
        if value.dtype == np.bool_:
            return None
        x = self.fitted(value, value.dtype, EXACT[value.dtype] // 4)
        bound = int(self.rng.integers(0, 2))
        name, switch = self.fresh("chosen"), self.argument("n", bound)
        axis = len(x.shape) - 1
        self.line(f"{name} = {x.name}")
        self.line(f"if {switch} > 0:")
        self.line(f"    {name} = {x.name} - tl.max({x.name}, axis={axis}, keep_dims=True).to(tl.{NAMES[x.dtype]})")
        largest = x.array.max(axis, keepdims=True).astype(x.dtype)
        return self.let(name, x.array - largest if bound else x.array)

    def float8(self, value):
        """Numbers of few bits in 8-bit floats: moved, computed with, multiplied, and back."""
        name = self.one_of([n for n in float8.FORMATS if n != "float8e4b15"])
        if value.dtype == np.bool_:
            return None
        x = self.fitted(value, np.dtype(self.one_of([np.float16, np.float32, np.float64])), 4)
        codes, back = f"{x.name}.to(tl.{name})", x.dtype
        axis, kind = int(self.rng.integers(len(x.shape))), int(self.rng.integers(6))
        if kind == 0 and len(x.shape) == 2 and x.array.size <= self.most // 2 and max(x.shape) <= 64:
            other = self.one_of(list(float8.FORMATS)[:4])
            ones = np.sign(x.array).T.astype(np.float32)
            signs = f"tl.trans(tl.where({x.name} > 0, 1.0, tl.where({x.name} < 0, -1.0, 0.0))).to(tl.{other})"
            return self.let(f"tl.dot({codes}, {signs})", x.array.astype(np.float32) @ ones)
        text, result = [
            (codes, x.array), (f"({codes} + {codes})", x.array * 2), (f"tl.where({codes} > 1, {codes}, -{codes})", np.where(x.array > 1, x.array, -x.array)),
            (f"tl.broadcast_to(tl.max({codes}, axis={axis}, keep_dims=True), {x.shape})",
             np.broadcast_to(x.array.max(axis, keepdims=True), x.shape)),
            (f"tl.minimum(tl.abs({codes}), 3)", np.minimum(np.abs(x.array), 3)),
            (f"{codes}.to(tl.uint8, bitcast=True).to(tl.{name}, bitcast=True).to(tl.float8e5)", x.array)][kind]
        return self.let(f"{text}.to(tl.{NAMES[back]})", result.astype(back))

    def atomic(self, value):
        dtype = np.dtype(np.int32)
        x = self.fitted(value, dtype, 1000)
        counter = self.argument("s", np.array([5], np.int32))
        self.line(f"first = tl.atomic_add({counter}, 2)")
        self.line(f"second = tl.atomic_add({counter}, first)")
        return self.let(f"{x.name} + second + tl.load({counter})", x.array + np.int32(7 + 12))


def kernel_of(text, folder, number):
    path = Path(folder) / f"random_{number}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"random_{number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def operations(compiled):
    """How many operations of tile IR the kernel has, constants not counted."""
    return len(re.findall(r"^ +(?!constant\b)(?:%[^=\n]*= (?!constant\b))?[a-z]", compiled.asm["tile"], re.M))


def check(seed, devices, folder, steps=None, kinds=None, **options):
    """What is wrong with the kernel of this seed on these devices, or None, launched with these options; and how many
    operations it has."""
    with np.errstate(all="ignore"):
        made = Kernel(seed, steps, kinds)
    kernel = kernel_of(made.text, folder, seed)
    count = 0
    for device in devices:
        on = OnDevice(device)
        arguments = [on(np.copy(a)) if isinstance(a, np.ndarray) else a for a in made.arguments.values()]
        count = operations(kernel[(1,)](*arguments, **fitted({**made.options, **options}, device)))
        held = dict(zip(made.arguments, arguments))
        for name, want in made.outputs.items():
            got = on.back(held[name])
            wrong = np.flatnonzero(got.view(np.uint8) != want.view(np.uint8))
            # -0.0 is as good as 0.0: which one comes out depends on the order of a sum.
            if wrong.size and not np.array_equal(got, want):
                first = wrong[0] // want.itemsize
                return (f"{device}: {name}[{first}] is {got[first]}, not {want[first]}; {wrong.size} bytes differ\n"
                        f"{made.options}\n{made.text}"), count
    return None, count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", type=lambda text: text.split(","), help="one, or several: cpu,cuda,interpreter")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no further kernel begins")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--steps", type=int, help="how many, without it 3 to 10")
    parser.add_argument("--kinds", type=lambda text: text.split(","), help="of steps, those alone: " + ", ".join(KINDS))
    parser.add_argument("--keep")
    parser.add_argument("--check", action="store_true", help="with checked accesses")
    options = parser.parse_args()
    libtile.knobs.interpreter.portable = False  # NumPy says what libtile says, where Triton says nothing
    seeds = [options.only] if options.only is not None else range(options.seed, options.seed + options.count)
    failed, large, done, least, start = 0, 0, 0, math.inf, time.time()
    with tempfile.TemporaryDirectory() as temporary:
        for seed in seeds:
            if time.time() - start > options.seconds:
                break
            try:
                wrong, count = check(seed, options.device, options.keep or temporary, options.steps, options.kinds, check=options.check)
                least = min(least, count)
            except libtile.UnsupportedError as error:
                wrong = str(error)
                if isinstance(error, libtile.OutOfResources):
                    large, wrong = large + 1, None
            except libtile.DeviceError as error:  # what follows has no device
                sys.exit(f"---- seed {seed}: {error}")
            except Exception:  # every error is a finding
                wrong = traceback.format_exc(limit=-4)
            done += 1
            if wrong:
                failed += 1
                print(f"---- seed {seed}: {wrong}", flush=True)
    print(f"{done} kernels of {least} operations and more on {' and '.join(options.device)}, {failed} wrong, "
          f"{large} too large for a GPU, {time.time() - start:.1f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
