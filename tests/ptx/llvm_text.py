# SPDX-License-Identifier: Apache-2.0
"""Functions of LLVM IR that are written value by value: their text, and what they compute."""
import random
from dataclasses import dataclass, field

import bits as n

WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, **n.WIDTHS}
VECTORS = {"i8": (2, 4, 8, 16), "i16": (2, 4, 8), "i32": (2, 4), "i64": (2,), "half": (2, 4), "float": (2, 4), "double": (2,)}


@dataclass(frozen=True)
class Type:
    scalar: str
    lanes: int = 0  # of a vector

    def __str__(self):
        return f"<{self.lanes} x {self.scalar}>" if self.lanes else self.scalar

    @property
    def width(self):
        return WIDTHS[self.scalar]

    @property
    def count(self):
        return max(1, self.lanes)


@dataclass
class Value:
    """What an instruction makes, or a number: a bit pattern a lane."""
    type: Type
    name: str
    number: tuple = None


@dataclass
class Instruction:
    text: str
    result: Value
    operands: list
    compute: object  # of tuples of lanes, one an operand; ("load", offset): what is there, so many elements on


@dataclass
class Block:
    name: str
    lines: list = field(default_factory=list)  # Instructions; phis first
    phis: list = field(default_factory=list)  # (result, {block: value})
    way: tuple = ()  # (block,) or (condition, block, block)


class Written:
    """Text, and `run`."""

    def __init__(self, seed):
        self.rng, self.count, self.loops = random.Random(seed), 0, 0
        self.name = f"f{seed}"
        self.blocks = [Block("entry")]
        self.values, self.stored, self.declarations = [], [], set()

    # ---- choices
    def of(self, type):
        """A value of the type: one there is, one made of another, or a number."""
        found = [value for value in self.values if value.type == type]
        if found and self.rng.random() < 0.85:
            return found[-1 - min(int(self.rng.expovariate(0.3)), len(found) - 1)]
        return Value(type, "", tuple(self.pattern(type.scalar) for _ in range(type.count)))

    def pattern(self, scalar):
        width = WIDTHS[scalar]
        if scalar in n.WIDTHS:
            some = [0.0, -0.0, 1.0, -1.0, 2.5, float("inf"), float("-inf"), float("nan"), 3e4, -7e9, 1e-40, 65503.0, 0.1]
            return n.rounded(self.rng.choice(some + [self.rng.uniform(-300, 300)] * 6), scalar)
        ends = [0, 1, -1, -2, 7, 1 << (width - 1), (1 << (width - 1)) - 1, 127, 128, 255]
        return (self.rng.choice(ends) if self.rng.random() < 0.5 else self.rng.getrandbits(width)) & ((1 << width) - 1)

    def some_type(self, scalars, vectors=0.3):
        scalar = self.rng.choice(scalars)
        lanes = self.rng.choice(VECTORS[scalar]) if scalar in VECTORS and self.rng.random() < vectors else 0
        return Type(scalar, lanes)

    # ---- text
    def written(self, value):
        if value.number is None:
            return value.name
        each = [self.written_number(value.type.scalar, bits) for bits in value.number]
        return f"<{', '.join(f'{value.type.scalar} {text}' for text in each)}>" if value.type.lanes else each[0]

    @staticmethod
    def written_number(scalar, bits):
        if scalar == "i1":
            return "true" if bits else "false"
        if scalar in ("half", "bfloat"):
            return f"0x{'H' if scalar == 'half' else 'R'}{bits:04X}"
        if scalar == "float":  # as the double that it is
            value = n.number(bits, "float")
            wide = n.rounded(value, "double") if value == value else (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
            return f"0x{wide:016X}"
        return f"0x{bits:016X}" if scalar == "double" else str(n.signed(bits, WIDTHS[scalar]))

    def fresh(self, type):
        self.count += 1
        return Value(type, f"%v{self.count}")

    def emit(self, type, text, operands, compute):
        """`text` has operands as $0 with their type and @0 without."""
        result = self.fresh(type)
        for i, operand in reversed(list(enumerate(operands))):
            text = text.replace(f"${i}", f"{operand.type} {self.written(operand)}").replace(f"@{i}", self.written(operand))
        text = text.replace("#", "$")  # the operands of assembly
        self.blocks[-1].lines.append(Instruction(f"{result.name} = {text}", result, operands, compute))
        self.values.append(result)
        return result

    def call(self, type, name, operands, compute, more=""):
        suffix = "".join("." + (f"v{t.lanes}" if t.lanes else "") + {"half": "f16", "float": "f32", "double": "f64"}.get(t.scalar, t.scalar)
                         for t in ([type] if name.endswith("sat") else []) + [operands[0].type])
        arguments = ", ".join(f"${i}" for i in range(len(operands)))
        types = ", ".join([*(str(operand.type) for operand in operands), *(["i1"] if more else [])])
        self.declarations.add(f"declare {type} @llvm.{name}{suffix}({types})\n")
        return self.emit(type, f"call {type} @llvm.{name}{suffix}({arguments}{more})", operands, compute)

    # ---- memory: 16 bytes each, of arguments and results
    def loads(self):
        for i, scalar in enumerate(["i8", "i16", "i32", "i64", "half", "bfloat", "float", "double"] * 2):
            type = Type(scalar) if i < 8 or scalar not in VECTORS else Type(scalar, VECTORS[scalar][-1])
            self.load(type, 16 * i, "in")
        self.emit(Type("i1"), "icmp slt $0, 5", [self.of(Type("i32"))], lambda a: (int(n.signed(a[0], 32) < 5),))

    def load(self, type, offset, pointer):
        address = self.address(pointer, offset)
        result = self.fresh(type)
        self.blocks[-1].lines.append(Instruction(f"{result.name} = load {type}, ptr addrspace(1) {address}, align {self.alignment(type)}", result,
                                                 [], ("load", offset)))
        self.values.append(result)

    def alignment(self, type):
        least, most = type.width // 8, min(16, type.width * type.count // 8)
        return self.rng.choice([most, most, least, max(least, 4) if most > 4 else least])

    def address(self, pointer, offset):
        self.count += 1
        name, base = f"%p{self.count}", f"%{pointer}"
        if self.rng.random() < 0.3:  # there and back
            far = self.rng.choice([16, 4096, 1 << 33, -48])
            self.plain(f"{name}f = getelementptr i8, ptr addrspace(1) {base}, i64 {far}")
            base, offset = f"{name}f", offset - far
        self.plain(f"{name} = getelementptr i8, ptr addrspace(1) {base}, i64 {offset}")
        return name

    def plain(self, text):
        self.blocks[-1].lines.append(Instruction(text, None, [], None))

    def store(self, value):
        type, at = value.type, 16 * len(self.stored)
        if type.scalar == "i1":
            value = self.emit(Type("i32"), "sext $0 to i32", [value], lambda a: ((1 << 32) - 1 if a[0] else 0,))
            type = value.type
        self.plain(f"store {type} {self.written(value)}, ptr addrspace(1) {self.address('out', at)}, align {self.alignment(type)}")
        self.stored.append(value)

    # ---- the whole
    def text(self):
        lines = [f"define ptx_kernel void @{self.name}(ptr addrspace(1) %in, ptr addrspace(1) %out) {{"]
        for block in self.blocks:
            lines.append(f"{block.name}:")
            for result, ways in block.phis:
                each = ", ".join(f"[{self.written(value)}, %{name}]" for name, value in ways.items())
                lines.append(f"  {result.name} = phi {result.type} {each}")
            lines += [f"  {it.text}" for it in block.lines]
            lines.append("  ret void" if not block.way else f"  br label %{block.way[0]}" if len(block.way) == 1 else
                         f"  br i1 {self.written(block.way[0])}, label %{block.way[1]}, label %{block.way[2]}")
        return "\n".join(lines) + "\n}\n"

    def run(self, memory):
        """The bit patterns of what is stored, of the bytes that `in` points to."""
        known, block, before = {}, self.blocks[0], None
        named = {each.name: each for each in self.blocks}
        get = lambda value: known[value.name] if value.number is None else value.number  # noqa: E731
        while True:
            known.update([(result.name, get(ways[before])) for result, ways in block.phis])
            for it in block.lines:
                if isinstance(it.compute, tuple):
                    type, at = it.result.type, it.compute[1]
                    size = type.width // 8
                    at += sum(size * n.signed(*get(index), index.type.width) for index in it.operands)
                    known[it.result.name] = tuple(int.from_bytes(memory[at + i * size:at + (i + 1) * size], "little") for i in range(type.count))
                elif it.result is not None:
                    known[it.result.name] = it.compute(*map(get, it.operands))
            if not block.way:
                return [(value.type, get(value)) for value in self.stored]
            before = block.name
            way = block.way[0] if len(block.way) == 1 else block.way[1 if get(block.way[0])[0] else 2]
            block = named[way]
