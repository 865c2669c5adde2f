# SPDX-License-Identifier: Apache-2.0
"""Random functions of LLVM IR: which instructions there are, and what they mean."""
import bits as n
from llvm_text import VECTORS, WIDTHS, Block, Instruction, Type, Value, Written

INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("float", "double")
NEW_LINE = "\\0A"
SHARED = 1 << 12  # bytes


def by_lanes(compute):
    return lambda *operands: tuple(compute(*lanes) for lanes in zip(*operands))


def wraps(compute):
    return lambda width: lambda a, b: compute(a, b) & ((1 << width) - 1)


def of_signed(compute):
    return lambda width: lambda a, b: compute(n.signed(a, width), n.signed(b, width)) & ((1 << width) - 1)


def wraps_one(width, less):
    return lambda a: ((a[0] - less) & ((1 << width) - 1),)


# Of integers, by name: what a width makes of two of them.
BINARY = {"add": wraps(lambda a, b: a + b), "sub": wraps(lambda a, b: a - b), "mul": wraps(lambda a, b: a * b),
          "and": wraps(lambda a, b: a & b), "or": wraps(lambda a, b: a | b), "xor": wraps(lambda a, b: a ^ b)}
SHIFTS = {"shl": wraps(lambda a, b: a << b), "lshr": wraps(lambda a, b: a >> b),
          "ashr": lambda width: lambda a, b: n.signed(a, width) >> b & ((1 << width) - 1)}
DIVISIONS = {"udiv": wraps(lambda a, b: a // b), "urem": wraps(lambda a, b: a % b),
             "sdiv": of_signed(lambda a, b: n.divided(False, a, b)), "srem": of_signed(lambda a, b: n.divided(True, a, b))}
EXTREMES = {"umax": wraps(max), "umin": wraps(min), "smax": of_signed(max), "smin": of_signed(min)}
COUNTS = {"ctpop": lambda width: lambda a: bin(a).count("1"), "ctlz": lambda width: lambda a: width - a.bit_length(),
          "bitreverse": lambda width: lambda a: n.turned(a, width),
          "abs": lambda width: lambda a: abs(n.signed(a, width)) & ((1 << width) - 1)}
COMPARISONS = ("eq", "ne", "ugt", "uge", "ult", "ule", "sgt", "sge", "slt", "sle")
ORDERS = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")
ARITHMETIC = {"fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "div"}
ROUNDINGS = ("floor", "ceil", "trunc", "roundeven")
MINIMA = {"maxnum": (True, False), "minnum": (False, False), "maximum": (True, True), "minimum": (False, True)}


class Function(Written):
    """Kinds of steps are methods that begin with `step_`."""

    def __init__(self, seed, steps=30):
        super().__init__(seed)
        self.assembled, self.around = [], []  # results of assembly; phis of the loops around
        self.kinds = sorted(each for each in dir(self) if each.startswith("step_"))
        self.kinds += ["step_assembly", "step_branch", "step_loop"] * self.rng.choice([1, 6])
        self.loads()
        self.some_steps(steps, 0)
        for value in self.values[-12:]:
            self.store(value)

    # ---- steps
    def some_steps(self, count, depth):
        for _ in range(count):
            kind = self.rng.choice(self.kinds)
            if kind in ("step_loop", "step_branch") and (depth > 1 or len(self.blocks) > 30):
                continue
            getattr(self, kind)(depth)

    def step_binary(self, _):
        type, name = self.some_type(INTEGERS), self.rng.choice(list(BINARY))
        self.emit(type, f"{name} $0, @1", [self.of(type), self.of(type)], by_lanes(BINARY[name](type.width)))

    def step_bits(self, _):
        type, name = Type("i1"), self.rng.choice(list(BINARY))
        self.emit(type, f"{name} $0, @1", [self.of(type), self.of(type)], by_lanes(BINARY[name](1)))

    def step_shift(self, _):
        type, name = self.some_type(INTEGERS + ("i1",)), self.rng.choice(list(SHIFTS))
        if self.rng.random() < 0.5:
            by = Value(type, "", tuple(self.rng.randrange(type.width) for _ in range(type.count)))
        else:
            most = Value(type, "", (type.width - 1,) * type.count)
            by = self.emit(type, "and $0, @1", [self.of(type), most], by_lanes(BINARY["and"](type.width)))
        self.emit(type, f"{name} $0, @1", [self.of(type), by], by_lanes(SHIFTS[name](type.width)))

    def step_divide(self, _):
        type, name = self.some_type(INTEGERS, 0.1), self.rng.choice(list(DIVISIONS))
        if self.rng.random() < 0.7:
            by = Value(type, "", tuple(self.divisor(type.width) for _ in range(type.count)))
        else:
            by = self.emit(type, "or $0, @1", [self.of(type), Value(type, "", (1,) * type.count)], by_lanes(BINARY["or"](type.width)))
            if name[0] == "s":  # not -1, which overflows
                by = self.emit(type, "and $0, @1", [by, Value(type, "", ((1 << (type.width - 1)) - 1,) * type.count)],
                               by_lanes(BINARY["and"](type.width)))
        self.emit(type, f"{name} $0, @1", [self.of(type), by], by_lanes(DIVISIONS[name](type.width)))

    def divisor(self, width):
        some = [1, -1, 2, 3, -3, 5, 7, 10, -128, 64, 100, 1 << (width - 1), (1 << (width - 1)) - 1, (1 << (width - 1)) + 1, 641, 28]
        return (self.rng.choice(some + [self.rng.getrandbits(width)] * 4) & ((1 << width) - 1)) or 1

    def step_extreme(self, _):
        type, name = self.some_type(INTEGERS + ("i1",)), self.rng.choice(list(EXTREMES))
        self.call(type, name, [self.of(type), self.of(type)], by_lanes(EXTREMES[name](type.width)))

    def step_count(self, _):
        type, name = self.some_type(INTEGERS + ("i1",)), self.rng.choice(list(COUNTS))
        self.call(type, name, [self.of(type)], by_lanes(COUNTS[name](type.width)), ", i1 false" if name in ("ctlz", "abs") else "")

    def step_compare(self, _):
        type, name = self.some_type(INTEGERS + ("i1",), 0), self.rng.choice(COMPARISONS)
        width = type.width if name[0] == "s" else 0
        of = (lambda a: n.signed(a, width)) if width else (lambda a: a)
        self.emit(Type("i1"), f"icmp {name} $0, @1", [self.of(type), self.of(type)],
                  lambda a, b: (int(n.compared(name, of(a[0]), of(b[0]))),))

    def step_order(self, _):
        type, name = self.some_type(FLOATS + ("half",), 0), self.rng.choice(ORDERS)
        self.emit(Type("i1"), f"fcmp {name} $0, @1", [self.of(type), self.of(type)],
                  lambda a, b: (int(n.compared(name, n.number(a[0], type.scalar), n.number(b[0], type.scalar))),))

    def step_select(self, _):
        type = self.some_type(INTEGERS + FLOATS + ("half", "bfloat", "i1"))
        self.emit(type, "select $0, $1, $2", [self.of(Type("i1")), self.of(type), self.of(type)], lambda on, a, b: a if on[0] else b)

    def step_floats(self, _):
        name = self.rng.choice(list(ARITHMETIC))
        type = self.some_type(FLOATS if name == "fdiv" else FLOATS + ("half",))
        a = Value(type, "", (n.rounded(1.0, type.scalar),) * type.count) if self.rng.random() < 0.1 else self.of(type)
        self.emit(type, f"{name} $0, @1", [a, self.of(type)], by_lanes(lambda a, b: n.floats(ARITHMETIC[name], type.scalar, a, b)))

    def step_fma(self, _):
        type = self.some_type(FLOATS)
        self.call(type, "fma", [self.of(type) for _ in range(3)], by_lanes(lambda a, b, c: n.floats("fma", type.scalar, a, b, c)))

    def step_fused(self, _):
        """Of small whole numbers, so that it is all the same whether the product is rounded."""
        type = self.some_type(FLOATS + ("half",), 0)
        a, b, c = (self.emit(type, f"uitofp $0 to {type}", [self.emit(Type("i16"), "and $0, 15", [self.of(Type("i16"))], lambda a: (a[0] & 15,))],
                             lambda a: (n.rounded(n.Fraction(a[0]), type.scalar),)) for _ in range(3))
        if self.rng.random() < 0.3:
            b = Value(type, "", (n.rounded(3.0, type.scalar),))
        product = self.emit(type, "fmul contract $0, @1", [a, b], by_lanes(lambda a, b: n.floats("mul", type.scalar, a, b)))
        name, operands = self.rng.choice(["fadd", "fsub"]), [product, c] if self.rng.random() < 0.5 else [c, product]
        self.emit(type, f"{name} contract $0, @1", operands, by_lanes(lambda a, b: n.floats(ARITHMETIC[name], type.scalar, a, b)))

    def step_signs(self, _):
        type = self.some_type(FLOATS)
        top = 1 << (type.width - 1)
        if self.rng.random() < 0.3:
            return self.emit(type, "fneg $0", [self.of(type)], by_lanes(lambda a: a ^ top))
        if self.rng.random() < 0.5:
            return self.call(type, "fabs", [self.of(type)], by_lanes(lambda a: a & (top - 1)))
        return self.call(type, "copysign", [self.of(type), self.of(type)], by_lanes(lambda a, b: a & (top - 1) | b & top))

    def step_minimum(self, _):
        name = self.rng.choice(list(MINIMA))
        type = self.some_type(("float",) if MINIMA[name][1] else FLOATS)
        self.call(type, name, [self.of(type), self.of(type)], by_lanes(lambda a, b: n.extreme(*MINIMA[name], type.scalar, a, b)))

    def step_whole(self, _):
        type, name = self.some_type(FLOATS), self.rng.choice(ROUNDINGS)
        self.call(type, name, [self.of(type)], by_lanes(lambda a: n.whole(a, type.scalar, name)))

    def step_resize(self, _):
        source, target = sorted(self.rng.sample(["i1", *INTEGERS], 2), key=WIDTHS.get)
        lanes = 0 if source == "i1" else self.some_type([target]).lanes
        lanes = lanes if lanes in VECTORS.get(source, ()) else 0
        small, large = Type(source, lanes), Type(target, lanes)
        name = self.rng.choice(["trunc", "zext", "sext"])
        if name == "trunc":
            return self.emit(small, f"trunc $0 to {small}", [self.of(large)], by_lanes(lambda a: a & ((1 << small.width) - 1)))
        mask = (1 << large.width) - 1
        return self.emit(large, f"{name} $0 to {large}", [self.of(small)],
                         by_lanes(lambda a: (n.signed(a, small.width) if name == "sext" else a) & mask))

    def step_product(self, _):
        """Of twice the width, and its upper half."""
        bits, name = self.rng.choice([16, 32, 64]), self.rng.choice(["sext", "zext"])
        small, large, mask = Type(f"i{bits}"), Type(f"i{2 * bits}"), (1 << 2 * bits) - 1
        wide = [self.emit(large, f"{name} $0 to {large}", [self.of(small)],
                          lambda a: ((n.signed(a[0], bits) if name == "sext" else a[0]) & mask,)) for _ in range(2)]
        if self.rng.random() < 0.4:
            number = self.pattern(small.scalar)
            wide[self.rng.randrange(2)] = Value(large, "", ((n.signed(number, bits) if name == "sext" else number) & mask,))
        product = self.emit(large, "mul $0, @1", wide, by_lanes(BINARY["mul"](2 * bits)))
        upper = self.emit(large, "lshr $0, @1", [product, Value(large, "", (bits,))], by_lanes(SHIFTS["lshr"](2 * bits)))
        if bits == 64:  # of which nothing else is known
            del self.values[-4:]
        self.emit(small, f"trunc $0 to {small}", [upper], lambda a: (a[0] & ((1 << bits) - 1),))

    def step_from_integer(self, _):
        source, target, name = self.some_type(INTEGERS + ("i1",), 0), self.some_type(FLOATS, 0), self.rng.choice(["sitofp", "uitofp"])
        self.emit(target, f"{name} $0 to {target}", [self.of(source)],
                  lambda a: (n.rounded(n.Fraction(n.signed(a[0], source.width) if name[0] == "s" else a[0]), target.scalar),))

    def step_to_integer(self, _):
        source, target, name = self.some_type(FLOATS, 0), self.some_type(INTEGERS, 0), self.rng.choice(["fptosi.sat", "fptoui.sat"])
        self.call(target, name, [self.of(source)],
                  lambda a: (n.to_integer(a[0], source.scalar, target.width, name[4] == "s"),))

    def step_precision(self, _):
        source, target, name = self.rng.choice([("half", "float", "fpext"), ("half", "double", "fpext"), ("float", "double", "fpext"),
                                                ("bfloat", "float", "fpext"), ("bfloat", "double", "fpext"), ("double", "float", "fptrunc"), ("float", "half", "fptrunc"),
                                                ("double", "half", "fptrunc"), ("float", "bfloat", "fptrunc")])
        self.emit(Type(target), f"{name} $0 to {target}", [self.of(Type(source))],
                  lambda a: (a[0] << 16 if (source, target) == ("bfloat", "float") else n.rounded(n.number(a[0], source), target),))

    def step_pair(self, _):
        """Two floats that are rounded to halves of a word."""
        target = Type(self.rng.choice(["half", "bfloat"]), 2)
        parts = [self.emit(Type(target.scalar), f"fptrunc $0 to {target.scalar}", [self.of(Type("float"))],
                           lambda a: (n.rounded(n.number(a[0], "float"), target.scalar),)) for _ in range(2)]
        self.built(target, parts)

    def built(self, type, parts):
        vector = None
        for i, part in enumerate(parts):
            done = self.fresh(type)
            before = vector.name if vector else "poison"
            self.blocks[-1].lines.append(Instruction(
                f"{done.name} = insertelement {type} {before}, {part.type} {self.written(part)}, i32 {i}", done,
                [part, *([vector] if vector else [])], lambda a, before=(), i=i: (*before[:i], *a, *before[i + 1:])))
            vector = done
        self.values.append(vector)

    def step_build(self, _):
        type = self.some_type(list(VECTORS), 1)
        self.built(type, [self.of(Type(type.scalar)) for _ in range(type.lanes)])

    def step_insert(self, _):
        type = self.some_type(list(VECTORS), 1)
        at = self.rng.randrange(type.lanes)
        self.emit(type, f"insertelement $0, $1, i32 {at}", [self.of(type), self.of(Type(type.scalar))],
                  lambda a, b: (*a[:at], *b, *a[at + 1:]))

    def step_extract(self, _):
        type = self.some_type(list(VECTORS), 1)
        at = self.rng.randrange(type.lanes)
        self.emit(Type(type.scalar), f"extractelement $0, i32 {at}", [self.of(type)], lambda a: (a[at],))

    def step_shuffle(self, _):
        type = self.some_type(list(VECTORS), 1)
        target = Type(type.scalar, self.rng.choice(VECTORS[type.scalar]))
        mask = [self.rng.randrange(2 * type.lanes) for _ in range(target.lanes)]
        self.emit(target, f"shufflevector $0, $1, <{target.lanes} x i32> <{', '.join(f'i32 {i}' for i in mask)}>",
                  [self.of(type), self.of(type)], lambda a, b: tuple((a + b)[i] for i in mask))

    def step_bitcast(self, _):
        source = self.some_type(INTEGERS + FLOATS + ("half",), 0.6)
        size = source.width * source.count
        same = [Type(s, lanes) for s in INTEGERS + FLOATS + ("half",) for lanes in (0, *VECTORS[s]) if WIDTHS[s] * max(1, lanes) == size]
        target = self.rng.choice(same)

        def compute(a):
            all = sum(bits << (i * source.width) for i, bits in enumerate(a))
            return tuple(all >> (i * target.width) & ((1 << target.width) - 1) for i in range(target.count))
        self.emit(target, f"bitcast $0 to {target}", [self.of(source)], compute)

    def step_freeze(self, _):
        type = self.some_type(INTEGERS + FLOATS + ("i1",))
        self.emit(type, "freeze $0", [self.of(type)], lambda a: a)

    def step_lanes(self, _):
        """Comparisons of vectors, and what is selected by them."""
        type = self.some_type(INTEGERS, 1)
        a, b, name = self.of(type), self.of(type), self.rng.choice(COMPARISONS)
        of = (lambda x: n.signed(x, type.width)) if name[0] == "s" else (lambda x: x)
        on = self.emit(Type("i1", type.lanes), f"icmp {name} $0, @1", [a, b], by_lanes(lambda a, b: int(n.compared(name, of(a), of(b)))))
        self.values.pop()
        if self.rng.random() < 0.5:
            return self.emit(type, f"sext $0 to {type}", [on], by_lanes(lambda a: (1 << type.width) - 1 if a else 0))
        return self.emit(type, "select $0, $1, $2", [on, self.of(type), self.of(type)], by_lanes(lambda on, a, b: a if on else b))

    def step_index(self, _):
        """A load with an index of any width, which may be negative."""
        type, of = Type(self.rng.choice(INTEGERS)), Type(self.rng.choice(["i8", "i16", "i32", "float"]))
        index = self.emit(type, "and $0, 7", [self.of(type)], lambda a: (a[0] & 7,))
        index = self.emit(type, "sub $0, 4", [index], wraps_one(type.width, 4))
        self.count += 1
        p, result = f"%i{self.count}", self.fresh(of)
        self.plain(f"{p}b = getelementptr i8, ptr addrspace(1) %in, i64 64")
        self.plain(f"{p} = getelementptr {of}, ptr addrspace(1) {p}b, {type} {index.name}")
        self.blocks[-1].lines.append(Instruction(f"{result.name} = load {of}, ptr addrspace(1) {p}, align {of.width // 8}", result,
                                                 [index], ("load", 64)))
        self.values.append(result)

    def step_shared(self, _):
        """A word of shared memory that was just written, at an address of sums and products."""
        index = self.emit(Type("i32"), "and $0, 511", [self.of(Type("i32"))], lambda a: (a[0] & 511,))
        self.count += 1
        p, q = f"%s{self.count}", f"%t{self.count}"
        scale, more = self.rng.choice([1, 2, 3]), self.rng.randrange(64)
        moved = self.emit(Type("i32"), "mul $0, @1", [index, Value(Type("i32"), "", (scale,))], by_lanes(BINARY["mul"](32)))
        moved = self.emit(Type("i32"), "add $0, @1", [moved, Value(Type("i32"), "", (more,))], by_lanes(BINARY["add"](32)))
        value, read = self.of(Type("i16")), self.fresh(Type("i16"))
        self.plain(f"{p} = getelementptr i16, ptr addrspace(3) @memory, i32 {moved.name}")
        if self.rng.random() < 0.3:  # of two addresses that are the same
            self.plain(f"{p}b = getelementptr i16, ptr addrspace(3) @memory, i32 {moved.name}")
            self.plain(f"{p}c = select i1 {self.written(self.of(Type('i1')))}, ptr addrspace(3) {p}, ptr addrspace(3) {p}b")
            p += "c"
        self.plain(f"store i16 {self.written(value)}, ptr addrspace(3) {p}, align 2")
        self.plain(f"{q}b = getelementptr i8, ptr addrspace(3) @memory, i32 {2 * more - 32}")
        self.plain(f"{q}i = sub i32 {moved.name}, {more}")
        self.plain(f"{q}c = getelementptr i16, ptr addrspace(3) {q}b, i32 {q}i")
        self.plain(f"{q} = getelementptr i8, ptr addrspace(3) {q}c, i32 32")
        self.blocks[-1].lines.append(Instruction(f"{read.name} = load i16, ptr addrspace(3) {q}, align 2", read, [value], lambda a: a))
        self.values.append(read)

    def step_assembly(self, _):
        """Several results, some of which begin as operands, that are written one behind the other and read another operand."""
        type, count = self.rng.choice([Type("i32"), Type("float")]), self.rng.randrange(1, 4)
        add, letter, summed = (("add.rn.f32", "f", lambda a, b: n.floats("add", "float", a, b)) if type.scalar == "float" else
                               ("add.s32", "r", lambda a, b: a + b & 0xffffffff))
        tied = [i for i in range(count) if self.rng.random() < 0.8]
        operands = [self.changed(type) for _ in tied] + [self.of(type)]
        lines = [f"{add} #{i}, #{i if i in tied else count + len(tied)}, #{count + len(tied)};" for i in range(count)]
        constraints = ",".join([f"={letter}"] * count + [str(i) for i in tied] + [letter])
        whole = f"{{ {', '.join([str(type)] * count)} }}" if count > 1 else str(type)
        given = ", ".join(f"${i}" for i in range(len(operands)))
        text = f'call {whole} asm "{NEW_LINE.join(lines)}", "{constraints}"({given})'

        def compute(*values):
            more = values[-1][0]
            return tuple(summed(values[tied.index(i)][0] if i in tied else more, more) for i in range(count))
        made = self.emit(type if count == 1 else whole, text, operands, compute)
        if count > 1:
            self.values.pop()
            made = [self.emit(type, f"extractvalue $0, {i}", [made], lambda a, i=i: (a[i],)) for i in range(count) if self.rng.random() < 0.8]
        self.assembled += made if count > 1 else [made]

    def changed(self, type):
        """What assembly begins as: often a phi of a loop around it."""
        phis = [value for loop in self.around for value in loop if value.type == type]
        value = self.rng.choice(phis) if phis and self.rng.random() < 0.7 else self.of(type)
        if type.scalar == "float" and self.rng.random() < 0.4:
            value = self.emit(type, "fmul $0, @1", [value, self.of(type)], by_lanes(lambda a, b: n.floats("mul", "float", a, b)))
        return value

    # ---- control
    def step_branch(self, depth):
        kept = []  # results of assembly in front of the branch, which one side changes
        if self.rng.random() < 0.4:
            known = len(self.assembled)
            self.step_assembly(depth)
            kept = self.assembled[known:]
        on, before, known = self.of(Type("i1")), self.blocks[-1], len(self.values)
        self.loops += 1
        name, ends, values = f"b{self.loops}", [], []
        types = [value.type for value in kept] + [self.some_type(INTEGERS + FLOATS + ("i1", "half")) for _ in range(self.rng.randrange(4))]
        straight = self.rng.choice(["yes", "no", "", ""]) if not kept else self.rng.choice(["yes", "no"])
        ways = []
        for side in ("yes", "no"):
            if side == straight:  # to what follows
                ways.append(f"{name}.end")
                ends.append(before)
                values.append(kept + [self.of(type) for type in types[len(kept):]])
                continue
            ways.append(f"{name}.{side}")
            self.blocks.append(Block(f"{name}.{side}"))
            self.some_steps(self.rng.randrange(5), depth + 1)
            changed = [self.of_two(value) for value in kept]
            ends.append(self.blocks[-1])
            values.append(changed + [self.of(type) for type in types[len(kept):]])
            del self.values[known:]
        before.way = (on, *ways)
        for end in ends:
            end.way = end.way or (f"{name}.end",)
        self.blocks.append(Block(f"{name}.end"))
        self.phis(types, ends, values)

    def of_two(self, value):
        """The value or another one of its type."""
        return self.emit(value.type, "select $0, $1, $2", [self.of(Type("i1")), value, self.of(value.type)],
                         lambda on, a, b: a if on[0] else b)

    def phis(self, types, ends, values):
        made = [self.fresh(type) for type in types]
        for i, result in enumerate(made):
            self.blocks[-1].phis.append((result, {end.name: each[i] for end, each in zip(ends, values)}))
        self.values += made
        return made

    def step_loop(self, depth):
        self.loops += 1
        name, i32 = f"l{self.loops}", Type("i32")
        types = [self.some_type(INTEGERS + FLOATS + ("i1", "half")) for _ in range(self.rng.randrange(1, 4))]
        types += types[:1] + [i32, Type("float")] * self.rng.randrange(3)
        before, starts, trips, known = self.blocks[-1], [self.of(type) for type in types], self.rng.randrange(1, 4), len(self.values)
        guard = self.of(Type("i1")) if self.rng.random() < 0.4 else None  # whether the loop runs at all
        before.way = (guard, name, f"{name}.end") if guard else (name,)
        self.blocks.append(Block(name))
        header = self.blocks[-1]
        made = self.phis([i32, *types], [before], [[Value(i32, "", (0,)), *starts]])
        tested = self.rng.random() < 0.4  # in front of each iteration
        if tested:
            on = self.emit(Type("i1"), f"icmp ult $0, {trips}", [made[0]], lambda a: (int(a[0] < trips),))
            known = known if guard else len(self.values)
            header.way = (on, f"{name}.body", f"{name}.end")
            self.blocks.append(Block(f"{name}.body"))
        self.around.append(made)
        self.some_steps(self.rng.randrange(1, 9), depth + 1)
        self.around.pop()
        ends = [self.of(type) for type in types]
        for i in range(len(ends)):
            results = [value for value in self.assembled if value.type == types[i] and value in self.values]
            if results and self.rng.random() < 0.6:
                ends[i] = self.rng.choice(results[-4:])
            elif self.rng.random() < 0.3:
                ends[i] = self.rng.choice([value for value in made if value.type == types[i]])
        after = self.emit(i32, "add $0, 1", [made[0]], lambda a: (a[0] + 1,))
        latch = self.blocks[-1]
        if tested:
            latch.way = (name,)
        else:
            on = self.emit(Type("i1"), f"icmp ult $0, {trips}", [after], lambda a: (int(a[0] < trips),))
            latch.way = (on, name, f"{name}.end")
        for (_, ways), value in zip(header.phis, [after, *ends]):
            ways[latch.name] = value
        self.blocks.append(Block(f"{name}.end"))
        if guard or tested:
            del self.values[known:]
        if guard:
            self.phis(types, [before, header if tested else latch], [starts, made[1:] if tested else ends])
