# SPDX-License-Identifier: Apache-2.0
"""Runs PTX of one thread: what our writer makes of arithmetic, branches, loads and stores. What it does not know, what has
operands of another size or that nothing has written, is an error."""
import re

import bits as n

FILES = {"%p": 1, "%rs": 16, "%r": 32, "%rd": 64}
NAMES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
KINDS = {"s": "integer", "u": "integer", "b": "bits", "f": "float"}


def width_of(type):
    return 1 if type == "pred" else int(re.search(r"\d+$", type)[0])


def mask(width):
    return (1 << width) - 1


# By name: what it is of the type and the operands' bits; without their signs but where the type has one.
INTEGERS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b, "not": lambda a: ~a, "min": min, "max": max, "abs": abs, "neg": lambda a: -a,
            "div": lambda a, b: n.divided(False, a, b), "rem": lambda a, b: n.divided(True, a, b)}
WHOLE = {"rmi": "floor", "rpi": "ceil", "rzi": "trunc", "rni": "roundeven"}
COMPARISONS = {"equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno",
               **{name: "o" + name for name in ("eq", "ne", "lt", "le", "gt", "ge")}}


class Kernel:
    def __init__(self, name, body):
        self.lines, self.labels = [], {}
        for line in body.splitlines():
            line = line.strip()
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.lines)
            elif line and not line.startswith("."):
                guard, name, operands = re.fullmatch(r"(?:@(!?%p\d+) )?(\S+?)(?: (.*))?;", line).groups()
                self.lines.append((line, guard, name.split("."), self.split(operands or "")))

    @staticmethod
    def split(text):
        return [[part.strip() for part in each[1:-1].split(",")] if each.startswith("{") else each
                for each in re.findall(r"\{[^}]*\}|[^,\s][^,]*", text)]


def kernels(text):
    return {name: Kernel(name, body) for name, body in re.findall(r"\.entry (\w+)\([^)]*\)\n(?:\..*\n)*\{\n(.*?)\n\}", text, re.S)}


class Machine:
    """`regions`: bytearrays by the address where they begin."""

    def __init__(self, kernel, parameters, regions, names):
        self.kernel, self.parameters, self.regions, self.names = kernel, parameters, regions, names
        self.registers = {}

    # ---- operands
    def read(self, operand, type):
        """The bits of an operand of that type."""
        width = width_of(type)
        if operand.startswith("%"):
            file = re.match(r"%[a-z]+", operand)[0]
            assert FILES[file] == max(width, 16) or (width == 1 and file == "%p"), "a register of another size"
            return self.registers[operand] & mask(width)
        if operand.startswith(("0f", "0d")):
            assert width == (32 if operand[1] == "f" else 64) and type[0] in "bf", "a number of another type"
            return int(operand[2:], 16)
        if operand in self.names:
            return self.names[operand]
        assert type[0] != "f" and re.fullmatch(r"-?\d+", operand), "no number of this type"
        assert -mask(width) <= int(operand) <= mask(width) or width == 1, "a number that the type does not hold"
        return int(operand) & mask(width)

    def write(self, register, bits, width):
        file = FILES[re.match(r"%[a-z]+", register)[0]]
        assert file == max(width, 16) or (file, width) == (1, 1), "a register of another size"
        self.registers[register] = bits & mask(width) | (0xAB00 if width == 8 else 0)  # the upper half is anything

    def memory(self, text):
        base, offset = re.fullmatch(r"\[([\w%$.]+)(?:\+(-?\d+))?\]", text).groups()
        wide = base.startswith("%rd")
        address = self.read(base, "b64" if wide else "b32") + int(offset or 0)
        for start, region in self.regions.items():
            if start <= address < start + len(region):
                return region, address - start
        raise IndexError(f"address {address:#x}")

    # ---- steps
    def run(self):
        at, steps = 0, 0
        while True:
            line, guard, name, operands = self.kernel.lines[at]
            at, steps = at + 1, steps + 1
            assert steps < 100000, "no end"
            try:
                if guard and self.read(guard.lstrip("!"), "pred") == guard.startswith("!"):
                    continue
                if name[0] == "ret":
                    return
                if name[0] == "bra":
                    at = self.kernel.labels[operands[0]]
                else:
                    getattr(self, "do_" + name[0], self.do_integers)(name, *operands)
            except Exception as error:
                raise RuntimeError(f"at `{line}`: {error!r}") from error

    def do_mov(self, name, to, source):
        width = width_of(name[1])
        if isinstance(source, list):
            part = width // len(source)
            source = sum(self.read(each, f"b{part}") << (i * part) for i, each in enumerate(source))
            return self.write(to, source, width)
        bits = self.read(source, name[1])
        for i, each in enumerate(to if isinstance(to, list) else [to]):
            part = width // (len(to) if isinstance(to, list) else 1)
            self.write(each, bits >> (i * part), part)

    def do_ld(self, name, to, source):
        width = width_of(name[-1])
        if name[1] == "param":
            return self.write(to, self.parameters[int(source.rstrip("]").rsplit("_", 1)[1])], width)
        region, at = self.memory(source)
        parts, size = to if isinstance(to, list) else [to], width // 8
        assert at % (size * len(parts)) == 0, "an address that is not aligned"
        for i, part in enumerate(parts):
            self.write(part, int.from_bytes(region[at + i * size:at + (i + 1) * size], "little"), width)

    def do_st(self, name, to, source):
        width, (region, at) = width_of(name[-1]), self.memory(to)
        parts, size = source if isinstance(source, list) else [source], width // 8
        assert at % (size * len(parts)) == 0, "an address that is not aligned"
        for i, part in enumerate(parts):
            assert part.startswith("%"), "no register"
            region[at + i * size:at + (i + 1) * size] = self.read(part, f"b{width}").to_bytes(size, "little")

    def do_setp(self, name, to, a, b):
        how, type = name[1:]
        a, b = self.read(a, type), self.read(b, type)
        if type in NAMES:
            return self.write(to, n.compared(COMPARISONS[how], n.number(a, NAMES[type]), n.number(b, NAMES[type])), 1)
        assert type[0] != "b" or how in ("eq", "ne"), "an order of bits"
        if type[0] == "s":
            a, b = n.signed(a, width_of(type)), n.signed(b, width_of(type))
        self.write(to, n.compared(how, a, b), 1)

    def do_selp(self, name, to, a, b, on):
        self.write(to, self.read(a if self.read(on, "pred") else b, name[1]), width_of(name[1]))

    def do_shl(self, name, to, a, by):
        width = width_of(name[1])
        self.write(to, self.read(a, name[1]) << min(self.read(by, "b32"), width), width)

    def do_shr(self, name, to, a, by):
        width, a = width_of(name[1]), self.read(a, name[1])
        self.write(to, (n.signed(a, width) if name[1][0] == "s" else a) >> min(self.read(by, "b32"), width), width)

    def do_prmt(self, name, to, a, b, selector):
        every = self.read(a, "b32") | self.read(b, "b32") << 32
        picked = [self.read(selector, "b32") >> (4 * i) & 15 for i in range(4)]
        assert all(each < 8 for each in picked), "a sign"
        self.write(to, sum((every >> (8 * each) & 255) << (8 * i) for i, each in enumerate(picked)), 32)

    def do_popc(self, name, to, a):
        self.write(to, bin(self.read(a, name[1])).count("1"), 32)

    def do_clz(self, name, to, a):
        self.write(to, width_of(name[1]) - self.read(a, name[1]).bit_length(), 32)

    def do_brev(self, name, to, a):
        self.write(to, n.turned(self.read(a, name[1]), width_of(name[1])), width_of(name[1]))

    def do_rcp(self, name, to, a):
        self.write(to, n.floats("div", NAMES[name[2]], n.rounded(1.0, NAMES[name[2]]), self.read(a, name[2])), width_of(name[2]))

    def do_copysign(self, name, to, sign, size):
        top = 1 << (width_of(name[1]) - 1)
        self.write(to, self.read(sign, name[1]) & top | self.read(size, name[1]) & (top - 1), width_of(name[1]))

    def do_mul(self, name, to, a, b):
        if name[-1][0] == "f":
            return self.do_floats(name, to, a, b)
        how, type = name[1:]
        width = width_of(type)
        a, b = self.read(a, type), self.read(b, type)
        product = n.signed(a, width) * n.signed(b, width) if type[0] == "s" else a * b
        self.write(to, product >> width if how == "hi" else product, 2 * width if how == "wide" else width)

    def do_cvt(self, name, to, *sources):
        rounding, target, source = name[1] if len(name) > 3 else "", name[-2], name[-1]
        if target in ("f16x2", "bf16x2"):
            high, low = (n.rounded(n.number(self.read(each, "f32"), "float"), NAMES[target[:-2]]) for each in sources)
            return self.write(to, high << 16 | low, 32)
        width, bits = width_of(target), self.read(sources[0], "b16" if width_of(source) == 8 else source) & mask(width_of(source))
        if source in NAMES and target in NAMES:
            widens = width > width_of(source)
            assert rounding == "" if widens else rounding in ("rn", *WHOLE), "a conversion that does not exist"
            bits = n.whole(bits, NAMES[source], WHOLE[rounding]) if rounding in WHOLE else n.rounded(n.number(bits, NAMES[source]), NAMES[target])
        elif source in NAMES:
            assert rounding == "rzi"
            value = n.number(bits, NAMES[source])
            bits = n.to_integer(bits, NAMES[source], width, target[0] == "s")
            bits = bits if value == value or 64 not in (width, width_of(source)) else 1 << (width - 1)
        else:
            bits = n.signed(bits, width_of(source)) if source[0] == "s" else bits
            if target in NAMES:
                assert rounding == "rn" and width_of(source) > 8
                bits = n.rounded(n.Fraction(bits), NAMES[target])
        self.write(to, bits, width)

    def do_fma(self, name, to, *operands):
        self.do_floats(name, to, *operands)

    def do_floats(self, name, to, *operands):
        type = name[-1]
        bits = [self.read(each, type) for each in operands]
        self.write(to, n.floats(name[0], NAMES[type], *bits), width_of(type))

    def do_integers(self, name, to, *operands):
        type = name[-1]
        width, bits = width_of(type), [self.read(each, type) for each in operands]
        if type in NAMES and name[0] in ("neg", "abs"):
            top = 1 << (width - 1)
            return self.write(to, bits[0] ^ top if name[0] == "neg" else bits[0] & (top - 1), width)
        if type in NAMES and name[0] in ("min", "max"):
            return self.write(to, n.extreme(name[0] == "max", "NaN" in name, NAMES[type], *bits), width)
        if type in NAMES:
            return self.do_floats(name, to, *operands)
        values = [n.signed(each, width) for each in bits] if type[0] == "s" else bits
        self.write(to, INTEGERS[name[0]](*values), width)
