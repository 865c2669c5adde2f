# SPDX-License-Identifier: Apache-2.0
"""Jit functions in random kernels (random_kernels.py) of any statements: loops with `break`, `continue` and `return`,
conditions, tuples, named tuples, aggregates with methods and operators, calls, functions of elements, memory.

A text is made from the wanted type down: `expression(shape, dtype)` gives one of that type from what is in scope. What it
computes is what Python says, running the same text over NumPy (numpy_language.py). Integers wrap. Floats are
integers, whose bound each expression knows; where a type would not hold a result exactly, operands are clamped.
At the end of a block its names go into a number `seen`, which is a part of what the function gives: so little of it is
computed for nothing.
"""
import math

import numpy as np
import numpy_language
from numpy_language import BOOL, INT32, INT64, NAMES, TYPES, is_float
from random_values import INTEGERS

SIZE = 1024  # elements of a tile
FLOATS = [TYPES[n] for n in ("float16", "bfloat16", "float32", "float64")]
ALL = [*INTEGERS, INT32, INT32, *FLOATS, TYPES["float32"], BOOL]
# Up to where a type holds all integers, and how large a variable of it is.
EXACT = dict(zip(FLOATS, (2**11, 2**8, 2**24, 2**53)))
VARIABLE = dict(zip(FLOATS, (16, 8, 1000, 10**6)))
EIGHT_BITS = ["float8e5", "float8e4nv", "float8e4b8", "float8e5b16"]
NEST = 2
MEMORY = 2048  # elements of an array that functions read and write


class Place:
    """What can be read: a name, a field or an item; a name can be written as well."""

    def __init__(self, text, shape, dtype, written=True):
        self.text, self.shape, self.dtype, self.written = text, shape, dtype, written


class Class:
    """A tuple, a named tuple or an aggregate: what makes one of its fields' values, and how these are read."""

    def __init__(self, maker, fields, types, aggregate=False):
        self.maker, self.fields, self.types, self.aggregate = maker, fields, types, aggregate


class Function:
    def __init__(self, name, parameters, results, nest):
        self.name, self.parameters, self.results, self.nest = name, parameters, results, nest


class Texts:
    """The functions and classes beside one kernel."""

    def __init__(self, rng, fresh, room):
        self.rng, self.fresh, self.texts = rng, fresh, []
        self.classes, self.functions = [], []
        self.room = room  # for expressions; without any they are names and numbers, and blocks end
        self.depth = 0  # of functions that are made for others
        self.nest = 0  # loops around what is made, through calls too
        # Few, so that names of one type meet.
        self.types = [ALL[int(i)] for i in rng.choice(len(ALL), 3)]
        self.common = [self.any_shape() for _ in range(3)]

    def one_of(self, things):
        return things[int(self.rng.integers(len(things)))]

    def chance(self, of):
        return self.rng.random() < of

    def some_type(self):
        return self.one_of(self.types if self.chance(0.75) else ALL)

    def some_shape(self):
        return self.one_of(self.common) if self.chance(0.7) else self.any_shape()

    def any_shape(self):
        rank = int(self.rng.choice([0, 1, 1, 2, 2, 3, 4]))
        while True:
            shape = tuple(int(self.one_of([1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 32, 33, 64, 100])) for _ in range(rank))
            if math.prod(shape) <= SIZE:
                return shape

    def function(self, parameters, results, size, scalar=False):
        """A new function of about that many statements. A parameter is a shape and a type, "memory" and a type, or
        "constant" and None; `scalar`: of elements, for map_elementwise."""
        name, names = self.fresh("fn"), [f"p{i}" for i in range(len(parameters))]
        body = Body(self, results, "{}", scalar)
        for text, (shape, dtype) in zip(names, parameters):
            if shape == "constant":
                body.constants.append(text)
            else:
                (body.memory if shape == "memory" else body.places).append(Place(text, shape, dtype))
        body.places.append(Place("seen", (), INT32, written=False))
        body.block(size, 0)
        body.line(f"return {body.returned()}")
        declared = [n + ": tl.constexpr" if n in body.constants else n for n in names]
        self.texts.append(f"@libtile.jit\ndef {name}({', '.join(declared)}):\n" + "\n".join(body.lines) + "\n")
        made = Function(name, parameters, results, self.nest)
        if not scalar and not body.memory:
            self.functions.append(made)
        return made

    def some_class(self, shapes):
        if self.classes and self.chance(0.5):
            return self.one_of(self.classes)
        types = [(self.one_of(shapes), self.some_type()) for _ in range(int(self.one_of([1, 2, 2, 3])))]
        fields, kind = [f"f{i}" for i in range(len(types))], int(self.rng.integers(3))
        if kind == 0:
            return Class("({},)", [f"[{i}]" for i in range(len(types))], types)
        name = self.fresh("Class")
        made = Class(name + "({})", [f".{f}" for f in fields], types, aggregate=kind == 2)
        if kind == 1:
            self.texts.append(f'{name} = collections.namedtuple("{name}", "{" ".join(fields)}")\n')
        else:
            nest, self.nest = self.nest, NEST
            lines = [f"@libtile.aggregate\nclass {name}:", *(f"    {f}: tl.tensor" for f in fields)]
            for method, owners in [("__add__", ("self", "other")), ("mixed", ("self", "other")), ("first", ("self",))]:
                one = method == "first"
                body = Body(self, types[:1] if one else types, "{}" if one else made.maker, False, indent=2)
                body.places = [Place(o + f, *t, written=False) for o in owners for f, t in zip(made.fields, types)]
                body.block(int(self.rng.integers(0, 3)), 1)
                body.line(f"return {body.returned()}")
                lines += [f"\n    @libtile.jit\n    def {method}({', '.join(owners)}):", *body.lines]
            self.nest = nest
            self.texts.append("\n".join(lines) + "\n")
        self.classes.append(made)
        return made


class Body:
    """The statements of one function."""

    def __init__(self, texts, results, wrap, scalar, indent=1):
        self.texts, self.rng, self.results, self.wrap, self.scalar = texts, texts.rng, results, wrap, scalar
        self.one_of, self.chance, self.fresh = texts.one_of, texts.chance, texts.fresh
        self.places, self.memory, self.objects, self.lines = [], [], [], []
        self.constants = []  # names of small numbers
        self.indent, self.loops = indent, 0
        self.line("seen = 0")

    def line(self, text):
        self.lines.append("    " * self.indent + text)

    # ---- statements
    def block(self, size, depth):
        """What is named first within a block is unknown behind it."""
        places, objects = len(self.places), len(self.objects)
        for _ in range(size):
            if self.texts.room <= 0:
                break
            kinds = [self.new, self.new, self.change, self.change, self.change, self.swap]
            if depth < 3:
                kinds += [self.branch, self.branch]
                kinds += [self.constant_branch] if self.constants else []
            if depth < 3 and self.texts.nest < NEST:
                kinds += [self.count_up, self.count_up, self.unrolled, self.count_while]
            if depth > 0:
                kinds += [self.leave]
            if not self.scalar:
                kinds += [self.make_object, self.change_object, self.comprehend, self.take_several]
                kinds += [self.to_memory, self.to_memory, self.from_memory] if self.memory else []
            before = len(self.lines)
            self.one_of(kinds)(depth)
            if len(self.lines) == before:
                self.new(depth)
        for place in self.places[places:] if depth else self.places:
            if place.text != "seen" and self.chance(0.7):
                self.see(place)
        if depth > 0:
            del self.places[places:], self.objects[objects:]

    def see(self, place):
        text = self.cast(place.text, VARIABLE.get(place.dtype), place.dtype, INT32)[0]
        size = math.prod(place.shape)
        if place.shape:
            text = f"tl.sum(tl.ravel({text}) * (tl.arange(0, {size}) | 1), 0)"
        self.line(f"seen = seen * 5 + {text}")

    def inner(self, depth, size=None):
        self.indent += 1
        before = len(self.lines)
        self.block(size or int(self.rng.integers(1, 4)), depth + 1)
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1

    def shapes(self):
        return [p.shape for p in self.places] or [()]

    def some_shape(self):
        if self.scalar:
            return ()
        return self.one_of(self.shapes()) if self.chance(0.5) else self.texts.some_shape()

    def new(self, depth):
        shape, dtype = self.some_shape(), self.texts.some_type()
        text, name = self.variable(shape, dtype), self.fresh("v")
        self.line(f"{name} = {text}")
        self.places.append(Place(name, shape, dtype))

    def change(self, depth):
        written = [p for p in self.places if p.written]
        if written:
            place = self.one_of(written)
            if place.dtype in INTEGERS and self.chance(0.4):
                self.line(f"{place.text} {self.one_of('+-*^|&')}= {self.variable(place.shape, place.dtype)}")
            else:
                self.line(f"{place.text} = {self.variable(place.shape, place.dtype)}")

    def swap(self, depth):
        written = [p for p in self.places if p.written]
        a = self.one_of(written) if written else None
        others = [p for p in written if a is not p and (p.shape, p.dtype) == (a.shape, a.dtype)]
        if others:
            b = self.one_of(others)
            self.line(f"{a.text}, {b.text} = {b.text}, {self.variable(a.shape, a.dtype)}")

    def branch(self, depth):
        self.line(f"if {self.condition()}:")
        self.inner(depth)
        if self.chance(0.3):
            self.line(f"elif {self.condition()}:")
            self.inner(depth)
        if self.chance(0.5):
            self.line("else:")
            self.inner(depth)

    def constant_branch(self, depth):
        """One side of it is compiled."""
        self.line(f"if {self.one_of(self.constants)} {self.one_of(['<', '==', '>='])} {int(self.rng.integers(0, 4))}:")
        self.inner(depth)
        self.line("else:")
        self.inner(depth)

    def condition(self):
        text = self.expression((), BOOL, 2)[0]
        if self.chance(0.15):
            items = [str(int(self.rng.integers(-3, 4))), *(self.expression((), INT32, depth)[0] for depth in (0, 1))]
            text = f"{self.expression((), INT32, 1)[0]} {self.one_of(['in', 'not in'])} ({', '.join(items)})"
        if self.chance(0.2):
            text = f"({text}) {self.one_of(['and', 'or'])} {self.expression((), BOOL, 1)[0]}"
        return f"not ({text})" if self.chance(0.1) else text

    def bound(self):
        """Of a loop: a small number that is known when the kernel runs, or before."""
        counts = [p for p in self.places if (p.shape, p.dtype) == ((), INT32)]
        if counts and self.chance(0.6):
            return f"({self.one_of(counts).text} & {self.one_of([1, 3, 3])})"
        return str(int(self.rng.integers(0, 4)))

    def count_up(self, depth):
        name, low = self.fresh("k"), int(self.one_of([0, 0, 0, 1, -2]))
        high, step = self.bound(), int(self.one_of([1, 1, 1, 2, 3]))
        text = [f"{high}", f"{low}, {high}", f"{low}, {high}, {step}", f"{high}, {low}, -{step}"][int(self.rng.integers(4))]
        options = self.one_of(["", "", ", num_stages=3", ", loop_unroll_factor=2", ", flatten=True"])
        self.line(f"for {name} in " + self.one_of([f"range({text}):", f"tl.range({text}{options}):"]))
        self.loop_of(depth, Place(name, (), INT32, written=False))

    def unrolled(self, depth):
        name, count = self.fresh("k"), int(self.rng.integers(1, 4))
        self.line(f"for {name} in tl.static_range({self.one_of([count, *self.constants])}):")
        self.loop_of(depth, Place(f"tl.to_tensor({name})", (), INT32, written=False))

    def count_while(self, depth):
        name = self.fresh("k")
        self.line(f"{name} = 0")
        more = f" and ({self.condition()})" if self.chance(0.3) else ""
        self.line(f"while {name} < {self.bound()}{more}:")
        self.line(f"    {name} += 1")
        self.loop_of(depth, Place(name, (), INT32, written=False))

    def loop_of(self, depth, count):
        self.places.append(count)
        self.loops += 1
        self.texts.nest += 1
        self.inner(depth)
        self.loops -= 1
        self.texts.nest -= 1
        self.places.remove(count)

    def leave(self, depth):
        """Out of the loop, to its next turn, or out of the function."""
        if self.loops and self.chance(0.75):
            self.line(f"if {self.condition()}:")
            if self.chance(0.4):
                self.inner(3, 1)
            self.line("    " + self.one_of(["break", "continue"]))
        else:
            self.line(f"if {self.condition()}:")
            self.line(f"    return {self.returned()}")

    def returned(self):
        texts = [self.variable(*t) for t in self.results]
        dtype = self.results[0][1]
        if dtype == BOOL:
            texts[0] = f"({texts[0]} ^ ((seen & 1) == 1))"
        elif is_float(dtype):
            texts[0] = self.clamped(f"({texts[0]} + (seen & 7).to(tl.{NAMES[dtype]}))", None, dtype, VARIABLE[dtype])[0]
        else:
            texts[0] = f"({texts[0]} ^ seen.to(tl.{NAMES[dtype]}))"
        return self.wrap.format(", ".join(texts))

    # ---- objects
    def made(self, kind):
        return kind.maker.format(", ".join(self.variable(*t) for t in kind.types))

    def make_object(self, depth):
        kind, name = self.texts.some_class(self.shapes()), self.fresh("o")
        self.line(f"{name} = {self.made(kind)}")
        self.objects.append((name, kind))
        self.places += [Place(name + f, *t, written=False) for f, t in zip(kind.fields, kind.types)]

    def change_object(self, depth):
        if not self.objects:
            return
        name, kind = self.one_of(self.objects)
        others = [n for n, k in self.objects if k is kind]
        text = self.made(kind)
        if kind.aggregate:
            left, right = name, self.one_of([*others, text])
            text = self.one_of([text, f"{left} + {right}", f"{left}.mixed({right})"])
        self.line(f"{name} = {self.one_of([text, text, self.one_of(others)])}")

    def comprehend(self, depth):
        """Each item of a tuple of tiles of one type."""
        shape, dtype, out = self.some_shape(), self.texts.some_type(), self.texts.some_type()
        item, name, count = self.fresh("e"), self.fresh("o"), int(self.rng.integers(1, 4))
        items = ", ".join(self.variable(shape, dtype) for _ in range(count))
        self.places.append(Place(item, shape, dtype, written=False))
        text = self.variable(shape, out)
        self.places.pop()
        self.line(f"{name} = [{text} for {item} in ({items},)]")
        self.places += [Place(f"{name}[{i}]", shape, out, written=False) for i in range(count)]

    def take_several(self, depth):
        """Names for the items of a tuple, or for some of them; of what a function gives."""
        types = [(self.some_shape(), self.texts.some_type()) for _ in range(int(self.rng.integers(2, 4)))]
        names = [self.fresh("v") for _ in types]
        if self.chance(0.4):
            text = self.call_of(types)
        elif self.chance(0.5):
            first, *rest = (self.variable(*t) for t in types)
            text = f"({first},) + ({', '.join(rest)},)"
        else:
            text = f"({', '.join(self.variable(*t) for t in [*types, *types[:1]])})[:{len(types)}]"
        if text:
            self.line(f"{names[0]}, ({', '.join(names[1:])},) = " + f"({self.variable(*types[0])}, ({text})[1:])"
                      if self.chance(0.3) else f"{', '.join(names)} = {text}")
            self.places += [Place(name, *t) for name, t in zip(names, types)]

    # ---- memory
    def address(self, shape):
        memory = self.one_of(self.memory)
        strides = [math.prod(shape[d + 1:]) for d in range(len(shape))]
        parts = [f"tl.arange(0, {n})" + axis_of(shape, d) + (f" * {s}" if s > 1 else "")
                 for d, (n, s) in enumerate(zip(shape, strides))]
        return memory, f"{memory.text} + " + " + ".join([str(int(self.one_of([0, 0, 1, 16, 300]))), *parts])

    def mask(self, shape):
        axis = int(self.rng.integers(len(shape)))
        condition = f"tl.arange(0, {shape[axis]}){axis_of(shape, axis)} {self.one_of(['<', '>=', '!='])} {self.bound()}"
        return f"tl.broadcast_to({condition}, {shape})"

    def to_memory(self, depth):
        shape = self.some_shape()
        memory, where = self.address(shape)
        value = self.variable(shape, memory.dtype)
        mask = f", mask={self.mask(shape)}" if shape and self.chance(0.5) else ""
        name = "store"
        if memory.dtype == INT32 and self.chance(0.4):
            name = "atomic_" + self.one_of(["add", "max", "xor"])
            if self.chance(0.5):
                old = self.fresh("v")
                self.line(f"{old} = tl.{name}({where}, {value}{mask})")
                self.places.append(Place(old, shape, INT32))
                return
        self.line(f"tl.{name}({where}, {value}{mask})")

    def from_memory(self, depth):
        shape, name = self.some_shape(), self.fresh("v")
        memory, where = self.address(shape)
        mask = f", mask={self.mask(shape)}" if shape and self.chance(0.5) else ""
        self.line(f"{name} = tl.load({where}{mask})")
        self.places.append(Place(name, shape, memory.dtype))

    # ---- expressions
    def variable(self, shape, dtype):
        """What a variable of the type may hold."""
        text, bound = self.expression(shape, dtype, int(self.rng.integers(0, 3)))
        return self.clamped(text, bound, dtype, VARIABLE.get(dtype))[0]

    def clamped(self, text, bound, dtype, most):
        """At most `most` in size, if floats are larger."""
        if most is None or bound is not None and bound <= most:
            return text, bound
        if dtype.kind == "u":
            return f"tl.minimum({text}, {most})", most
        return f"tl.minimum(tl.maximum({text}, -{most}), {most})", most

    def expression(self, shape, dtype, depth):
        """Its text, and how large it may be if it is a float."""
        if depth > 0 and self.texts.room > 0:
            self.texts.room -= 1
            forms = [self.truth, self.truth, self.negated] if dtype == BOOL else [
                self.binary, self.binary, self.binary, self.chosen, self.lesser, self.single]
            forms += [self.converted, self.ternary]
            if not self.scalar:
                forms += [self.reduced, self.moved, self.moved, self.part, self.paired, self.mapped, self.called]
                forms += [self.wide, self.scanned] if shape else [self.reduced]
                forms += [self.product] * 2 if len(shape) == 2 else [self.counted] if len(shape) == 1 else []
            made = self.one_of(forms)(shape, dtype, depth - 1)
            if made:
                return made
        return self.leaf(shape, dtype)

    def leaf(self, shape, dtype):
        same = [p for p in self.places if (p.shape, p.dtype) == (shape, dtype)]
        if same and self.chance(0.85):
            return self.one_of(same).text, VARIABLE.get(dtype)
        alike = [p for p in self.places if p.shape == shape]
        if alike and self.chance(0.7):
            place = self.one_of(alike)
            return self.cast(place.text, VARIABLE.get(place.dtype), place.dtype, dtype)
        scalars = [p for p in self.places if p.shape == ()]
        if shape and self.chance(0.6):
            text = f"tl.reshape(tl.arange(0, {math.prod(shape)}), {shape})"
            if scalars and self.chance(0.5):
                place = self.one_of(scalars)
                text = f"({text} + {self.cast(place.text, VARIABLE.get(place.dtype), place.dtype, INT32)[0]})"
            return self.cast(text, None, INT32, dtype)
        if scalars and self.chance(0.7):
            place = self.one_of(scalars)
            text, bound = self.cast(place.text, VARIABLE.get(place.dtype), place.dtype, dtype)
            return (f"tl.broadcast_to({text}, {shape})" if shape else text), bound
        number = int(self.rng.integers(0 if dtype.kind in "bu" else -7, 2 if dtype == BOOL else 8))
        return f"tl.full({shape}, {number}, tl.{NAMES[dtype]})", abs(number)

    def cast(self, text, bound, old, new):
        to = f".to(tl.{NAMES[new]})"
        if old == new:
            return text, bound
        if new == BOOL:
            return (f"({text} > 1)" if self.chance(0.7) else text + to), None
        if old == BOOL:
            return text + to, 1
        if is_float(old):
            text, bound = self.clamped(text, bound, old, EXACT[new] if is_float(new) else 100)
            if new.kind == "u":
                text = f"tl.abs({text})"
            return text + to, bound if is_float(new) else None
        if is_float(new):
            text, bound = self.clamped(text, None, old, int(self.one_of([3, 7, 7])))
            return text + to, bound
        return text + to, None

    def number(self):
        """A type that is not int1."""
        types = self.texts.types if self.chance(0.6) else ALL
        return self.one_of([t for t in types if t != BOOL] or [INT32])

    def converted(self, shape, dtype, depth):
        old = self.texts.some_type()
        text, bound = self.expression(shape, old, depth)
        text, bound = self.cast(f"({text})", bound, old, dtype)
        if is_float(dtype) and self.chance(0.2):
            text, bound = self.clamped(text, bound, dtype, 8)
            return f"({text}).to(tl.{self.one_of(EIGHT_BITS)}).to(tl.{NAMES[dtype]})", bound
        return text, bound

    def operands(self, shape, dtype, depth, most):
        return [self.clamped(*self.expression(shape, dtype, depth), dtype, most) for _ in range(2)]

    def binary(self, shape, dtype, depth):
        if is_float(dtype):
            if dtype.itemsize >= 4 and self.chance(0.15):
                text, bound = self.expression(shape, dtype, depth)
                return f"({text} % {self.one_of([2.0, 3.0, 7.0])})", bound
            operator = self.one_of("+-*")
            most = math.isqrt(EXACT[dtype]) if operator == "*" else EXACT[dtype] // 2
            (a, x), (b, y) = self.operands(shape, dtype, depth, most)
            return f"({a} {operator} {b})", x * y if operator == "*" else x + y
        (a, _), (b, _) = self.operands(shape, dtype, depth, None)
        kind = int(self.rng.integers(8))
        if kind == 0:
            return f"({a} {self.one_of(['<<', '>>'])} {int(self.rng.integers(0, 8 * dtype.itemsize + 2))})", None
        if kind == 1:
            return f"({a} {self.one_of(['+', '*', '//', '%', '-'])} {int(self.one_of([1, 2, 3, 7, 16, 100]))})", None
        return f"({a} {self.one_of(['+', '-', '*', '&', '|', '^', '//', '%'])} {b})", None

    def single(self, shape, dtype, depth):
        text, bound = self.expression(shape, dtype, depth)
        if not is_float(dtype) and self.chance(0.3):
            if self.chance(0.5):
                return f"tl.cdiv({text}, {int(self.one_of([1, 3, 8, 16]))})", None
            offsets = self.cast(text, None, dtype, INT32)[0]
            return f"(tl.randint({int(self.rng.integers(0, 2**40))}, {offsets}) & 63).to(tl.{NAMES[dtype]})", None
        return self.one_of([f"(-{text})", f"tl.abs({text})"]), bound

    def lesser(self, shape, dtype, depth):
        (a, x), (b, y) = self.operands(shape, dtype, depth, None)
        return f"tl.{self.one_of(['minimum', 'maximum'])}({a}, {b})", larger(x, y)

    def truth(self, shape, dtype, depth):
        of = self.number()
        a, b = (self.expression(shape, of, depth)[0] for _ in range(2))
        if self.chance(0.4):
            b = int(self.rng.integers(0, 8))
        return f"({a} {self.one_of(['<', '<=', '>', '>=', '==', '!='])} {b})", None

    def negated(self, shape, dtype, depth):
        a, b = (self.expression(shape, dtype, depth)[0] for _ in range(2))
        return (f"(~{a})" if self.chance(0.3) else f"({a} {self.one_of('&|^')} {b})"), None

    def chosen(self, shape, dtype, depth):
        (a, x), (b, y) = self.operands(shape, dtype, depth, None)
        condition = self.expression(self.one_of([shape, shape, ()]), BOOL, depth)[0]
        return f"tl.where({condition}, {a}, {b})", larger(x, y)

    def ternary(self, shape, dtype, depth):
        (a, x), (b, y) = self.operands(shape, dtype, depth, None)
        return f"({a} if {self.expression((), BOOL, depth)[0]} else {b})", larger(x, y)

    # ---- expressions of other shapes
    def with_axis(self, shape, extents):
        axis = int(self.rng.integers(len(shape) + 1))
        extent = int(self.one_of([e for e in extents if e * math.prod(shape) <= SIZE] or [1]))
        return axis, extent, shape[:axis] + (extent,) + shape[axis:]

    def reduced(self, shape, dtype, depth):
        if len(shape) > 3:
            return None
        axis, extent, source = self.with_axis(shape, [1, 2, 3, 5, 8, 16, 33, 64])
        of = self.number()
        name = self.one_of(["sum", "max", "min", "argmax", "argmin"] + ["xor_sum", "folded"] * (of in (INT32, INT64)))
        text, bound = self.expression(source, of, depth)
        if name == "sum" and is_float(of):
            text, bound = self.clamped(text, bound, of, EXACT[of] // extent)
            bound *= extent
        if name == "folded":
            other = self.expression(source, of, depth)[0]
            text = f"tl.reduce(({text}, {other}), {axis}, {self.combiner()})[{int(self.rng.integers(2))}]"
            return self.cast(text, None, of, dtype)
        if name.startswith("arg"):
            return self.cast(f"tl.{name}({text}, {axis})", None, INT32, dtype)
        # Types below 32 bits give others.
        wide = of
        if of.itemsize < 4 and not (name == "sum" and is_float(of)):
            wide = TYPES["float32"] if is_float(of) else TYPES["uint32"] if (name, of.kind) == ("sum", "u") else INT32
        return self.cast(f"tl.{name}({text}, {axis})", bound, wide, dtype)

    def combiner(self):
        """Of two pairs (f, g) that stand for x -> f * x + g: one function behind the other."""
        name = self.fresh("compose")
        self.texts.texts.append(f"@libtile.jit\ndef {name}(a, b, c, d):\n    return a * c, b * c + d\n")
        return name

    def scanned(self, shape, dtype, depth):
        axis, reverse = int(self.rng.integers(len(shape))), self.chance(0.4)
        if dtype in (INT32, INT64):
            a, b = (self.expression(shape, dtype, depth)[0] for _ in range(2))
            if self.chance(0.5):
                which = int(self.rng.integers(2))
                return f"tl.associative_scan(({a}, {b}), {axis}, {self.combiner()}, reverse={reverse})[{which}]", None
            return f"tl.cumsum({a}, {axis}, reverse={reverse})", None
        text, bound = self.expression(shape, dtype, depth)
        if dtype.itemsize >= 4 and is_float(dtype) and self.chance(0.5):
            text, bound = self.clamped(text, bound, dtype, EXACT[dtype] // shape[axis])
            return f"tl.cumsum({text}, {axis}, reverse={reverse})", bound * shape[axis]
        return f"tl.sort({text}, {axis}, {reverse})", bound

    def counted(self, shape, dtype, depth):
        """The largest of longer rows, or how often there is each number."""
        if self.chance(0.5):
            text, bound = self.expression((shape[0] + int(self.rng.integers(0, 9)),), dtype, depth)
            return f"tl.topk({text}, {shape[0]}, 0, {self.chance(0.5)})", bound
        source, of = self.one_of([s for s in self.shapes() if s] or [(20,)]), self.one_of([INT32, INT64, TYPES["int8"]])
        text, size = self.expression(source, of, depth)[0], math.prod(source)
        mask = f", mask={self.expression((size,), BOOL, depth)[0]}" if self.chance(0.3) else ""
        return self.cast(f"tl.histogram(tl.ravel({text}), {shape[0]}{mask})", None, INT32, dtype)

    def moved(self, shape, dtype, depth):
        """The same elements in another order or shape."""
        kind = int(self.rng.integers(5))
        if not shape:
            return None
        axis = int(self.rng.integers(len(shape)))
        if kind == 0:
            text, bound = self.expression(shape, dtype, depth)
            return f"tl.flip({text}, {axis})", bound
        if kind == 1 and len(shape) > 1:
            text, bound = self.expression(shape[:-2] + shape[:-3:-1], dtype, depth)
            return f"tl.trans({text})" if len(shape) == 2 else f"tl.permute({text}, {swapped(len(shape))})", bound
        if kind == 2:
            source = self.one_of([(math.prod(shape),), (1, *shape), (*shape, 1), shape[::-1]])
            if len(source) > 4:
                return None
            text, bound = self.expression(source, dtype, depth)
            return f"tl.reshape({text}, {shape})", bound
        if kind == 3:
            source = shape[:axis] + (int(self.one_of([1, 2, 5, shape[axis], 40])),) + shape[axis + 1:]
            if math.prod(source) > SIZE:
                return None
            text, bound = self.expression(source, dtype, depth)
            return f"tl.gather({text}, {self.expression(shape, INT32, depth)[0]}, {axis})", bound
        source = tuple(1 if self.chance(0.5) else n for n in shape)
        text, bound = self.expression(source, dtype, depth)
        return f"tl.broadcast_to({text}, {shape})", bound

    def wide(self, shape, dtype, depth):
        """A row and a column that meet."""
        if len(shape) != 2 or dtype == BOOL:
            return None
        (a, x), (b, y) = (self.clamped(*self.expression(shape[d:d + 1], dtype, depth), dtype,
                                       EXACT[dtype] // 2 if is_float(dtype) else None) for d in range(2))
        return f"({a}[:, None] + {b}[None, :])", None if x is None or y is None else x + y

    def part(self, shape, dtype, depth):
        """Of a longer tile, or of one more axis."""
        if not shape or self.chance(0.4):
            if len(shape) > 3:
                return None
            axis, extent, source = self.with_axis(shape, [1, 2, 3, 4])
            text, bound = self.expression(source, dtype, depth)
            keys = [":"] * len(source)
            keys[axis] = str(int(self.rng.integers(-extent, extent)))
            return f"({text})[{', '.join(keys)}]", bound
        source, keys = list(shape), [":"] * len(shape)
        axis = int(self.rng.integers(len(shape)))
        first, step = int(self.rng.integers(0, 4)), int(self.one_of([1, 1, 2]))
        source[axis] = first + step * shape[axis] + int(self.rng.integers(0, 3))
        keys[axis] = f"{first}:{first + step * shape[axis]}:{step}"
        if math.prod(source) > SIZE:
            return None
        text, bound = self.expression(tuple(source), dtype, depth)
        return f"({text})[{', '.join(keys)}]", bound

    def paired(self, shape, dtype, depth):
        """Joined from two tiles, or half of what was."""
        if shape and shape[-1] == 2:
            (a, x), (b, y) = self.operands(shape[:-1], dtype, depth, None)
            return f"tl.join({a}, {b})", larger(x, y)
        if shape and shape[-1] % 2 == 0:
            half = (*shape[:-1], shape[-1] // 2)
            (a, x), (b, y) = self.operands(half, dtype, depth, None)
            if self.chance(0.5):
                return f"tl.interleave({a}, {b})", larger(x, y)
            return f"tl.cat({a}, {b}, dim={len(shape) - 1})", larger(x, y)
        if len(shape) > 3 or 2 * math.prod(shape) > SIZE:
            return None
        text, bound = self.expression((*shape, 2), dtype, depth)
        return f"tl.split({text})[{int(self.rng.integers(2))}]", bound

    def product(self, shape, dtype, depth):
        """A dot. 8-bit floats of two formats meet too."""
        of, k = self.one_of([*FLOATS, TYPES["int8"], "fp8"]), int(self.one_of([1, 2, 8, 16, 17, 32, 40]))
        if k * max(shape) > SIZE:
            return None
        number = TYPES["float16"] if of == "fp8" else of
        result = INT32 if number.kind == "i" else number if number.itemsize == 8 else TYPES["float32"]
        texts = []
        for source in ((shape[0], k), (k, shape[1])):
            text, bound = self.expression(source, number, depth)
            if is_float(number):
                text = self.clamped(text, bound, number, 4)[0]
            texts.append(f"({text}).to(tl.{self.one_of(EIGHT_BITS)})" if of == "fp8" else text)
        return self.cast(f"tl.dot({texts[0]}, {texts[1]})", 16 * k, result, dtype)

    # ---- calls
    def mapped(self, shape, dtype, depth):
        if not shape or math.prod(shape) > 200:
            return None
        types = [((), self.one_of([INT32, TYPES["int8"], TYPES["float32"], INT64]))
                 for _ in range(int(self.rng.integers(1, 3)))]
        made = self.texts.function(types, [((), dtype)], int(self.rng.integers(1, 5)), scalar=True)
        given = ", ".join(self.variable(shape, t) for _, t in types)
        return f"tl.map_elementwise({made.name}, {given})", VARIABLE.get(dtype)

    def called(self, shape, dtype, depth):
        text = self.call_of([(shape, dtype)])
        return (text, VARIABLE.get(dtype)) if text else None

    def call_of(self, results):
        """Of a function that there is, or of a new one."""
        if self.texts.depth > 1:
            return None
        made = [f for f in self.texts.functions if f.results == results and self.texts.nest <= f.nest]
        if made and self.chance(0.5):
            function = self.one_of(made)
        else:
            types = [(self.one_of([*self.shapes(), ()]), self.texts.some_type()) for _ in range(int(self.rng.integers(1, 4)))]
            types += [("constant", None)] * int(self.rng.integers(0, 2))
            self.texts.depth += 1
            function = self.texts.function(types, results, int(self.rng.integers(1, 5)))
            self.texts.depth -= 1
        given = [str(self.rng.integers(1, 4)) if shape == "constant" else self.variable(shape, dtype)
                 for shape, dtype in function.parameters]
        if self.chance(0.3):
            # Some by name, in any order.
            first = int(self.rng.integers(len(given) + 1))
            named = [f"p{i}={given[i]}" for i in range(first, len(given))]
            given = given[:first] + [named[int(i)] for i in self.rng.permutation(len(named))]
        return f"{function.name}({', '.join(given)})"


def axis_of(shape, axis):
    return f"[{', '.join(':' if d == axis else 'None' for d in range(len(shape)))}]" if len(shape) > 1 else ""


def swapped(rank):
    order = list(range(rank))
    return tuple(order[:-2] + [order[-1], order[-2]])


def larger(x, y):
    return None if x is None or y is None else max(x, y)


class FunctionKinds:
    """For a class with rng, one_of, fitted, let and argument."""

    def function(self, value):
        """A function of tiles, scalars and memory, and what Python makes of it over NumPy."""
        if value.array.size > SIZE:
            return None
        texts = Texts(self.rng, self.fresh, int(self.rng.integers(10, 80)))
        small = [v for v in self.values[-8:] if v.array.size <= SIZE]
        given = [value, *(self.one_of(small) for _ in range(int(self.rng.integers(0, 3))))]
        given = [self.fitted(v, v.dtype, VARIABLE.get(v.dtype)) for v in given]
        counts = [int(n) for n in self.rng.integers(-2, 9, 2)]
        memory = [np.dtype(t) for t in (np.int32, np.float32)]
        types = [(v.shape, v.dtype) for v in given] + [((), INT32)] * 2 + [("memory", t) for t in memory]
        results = [(self.one_of([value.shape, texts.some_shape() or (7,)]), self.some_type())
                   for _ in range(int(self.one_of([1, 1, 2, 3])))]
        function = texts.function(types, results, int(self.rng.integers(3, 12)))
        arrays = [self.numbers(MEMORY, t) for t in memory]
        names = [self.argument("u", a.copy()) for a in arrays]
        call = ", ".join([*(v.name for v in given), *(f"tl.to_tensor({self.argument('n', n)})" for n in counts), *names])
        self.functions += texts.texts
        with np.errstate(all="ignore"):
            made = numpy_language.run("\n".join(texts.texts))[function.name](
                *(numpy_language.Tensor(v.array) for v in given), *(numpy_language.Tensor(np.int32(n)) for n in counts),
                *map(numpy_language.Pointer, arrays))
        self.outputs.update(zip(names, arrays))
        return self.let_all(f"{function.name}({call})", [x.array for x in numpy_language.many(made)])
