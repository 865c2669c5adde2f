# SPDX-License-Identifier: Apache-2.0
"""Finds what ptxas gets wrong, without a GPU: random straight-line PTX on words (PTX below), assembled, and what its
machine code computes (Machine), by the text of nvdisasm, beside what NumPy computes of the PTX.

    python tests/python/assembled_words.py --ptxas .../bin/ptxas --nvdisasm .../bin/nvdisasm --count 3000
    ... --plain    # also with minima of negations as they are, which libtile does not write (ptxas_faults.h)

Machine knows the instructions that such PTX becomes on sm_90; kernels with others are counted and left out.
"""
import argparse
import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

U, S = np.uint32, np.int32
ENDS = [0, 1, -1, 2, 3, 7, -7, 16, 31, 100, -100, 127, -128, 255, 32767, -32768, 65535, 2**31 - 1, -2**31]
LANES = 12  # numbers of each word


def s(x):
    return x.view(S)


def u(x):
    return np.asarray(x).astype(np.int64).astype(U)


def wide(x):
    return s(x).astype(np.int64)


def table(bits, a, b, c):
    """lop3: each bit by three bits."""
    found = np.zeros_like(a)
    for i in range(8):
        if bits >> i & 1:
            found |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return found


def counted(x):
    return u([bin(v).count("1") for v in x.tolist()])


def length(x):
    return np.array([v.bit_length() for v in x.tolist()])


def relation(name, a, b):
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name]


MINIMA = [("min.s32", lambda a, b: u(np.minimum(s(a), s(b)))), ("max.s32", lambda a, b: u(np.maximum(s(a), s(b))))]
# `$` is the result, {a} a register, {b} a register or a number, {c} a register, {n} a count.
PTX = [
    ("neg.s32 $, {a};", lambda a, b, c, n: -a), ("neg.s32 $, {a};", lambda a, b, c, n: -a),
    ("not.b32 $, {a};", lambda a, b, c, n: ~a), ("abs.s32 $, {a};", lambda a, b, c, n: u(np.abs(wide(a)))),
    ("add.s32 $, {a}, {b};", lambda a, b, c, n: a + b), ("sub.s32 $, {a}, {b};", lambda a, b, c, n: a - b),
    ("sub.s32 $, {b}, {a};", lambda a, b, c, n: b - a), ("mul.lo.s32 $, {a}, {b};", lambda a, b, c, n: a * b),
    ("mad.lo.s32 $, {a}, {b}, {c};", lambda a, b, c, n: a * b + c),
    ("min.u32 $, {a}, {b};", lambda a, b, c, n: np.minimum(a, b)), ("max.u32 $, {a}, {b};", lambda a, b, c, n: np.maximum(a, b)),
    ("and.b32 $, {a}, {b};", lambda a, b, c, n: a & b), ("or.b32 $, {a}, {b};", lambda a, b, c, n: a | b),
    ("xor.b32 $, {a}, {b};", lambda a, b, c, n: a ^ b), ("shl.b32 $, {a}, {n};", lambda a, b, c, n: a << U(n)),
    ("shr.u32 $, {a}, {n};", lambda a, b, c, n: a >> U(n)), ("shr.s32 $, {a}, {n};", lambda a, b, c, n: u(s(a) >> S(n))),
    ("cvt.s32.s8 $, {a};", lambda a, b, c, n: u(a.astype(np.int8))), ("cvt.u32.u8 $, {a};", lambda a, b, c, n: a & U(255)),
    ("cvt.u16.u32 %h0, {a}; cvt.s32.s16 $, %h0;", lambda a, b, c, n: u(a.astype(np.int16))),
    ("popc.b32 $, {a};", lambda a, b, c, n: counted(a)), ("clz.b32 $, {a};", lambda a, b, c, n: u(32 - length(a)))]
PTX += [(f"setp.{name}.{kind}32 %p1, {{a}}, {{b}}; selp.b32 $, {{b}}, {{{other}}}, %p1;",
         lambda a, b, c, n, name=name, to=to, other=other: np.where(relation(name, to(a), to(b)), b, a if other == "a" else c))
        for name, kind, to, other in [("lt", "s", s, "a"), ("ge", "s", s, "a"), ("eq", "s", s, "c"), ("gt", "u", U, "c")]]


class Words:
    """PTX, what it loads and what it must store."""

    def __init__(self, seed, steps, plain):
        self.rng = np.random.default_rng(seed)
        self.lines, self.values, self.negations = [], [], set()
        for i in range(int(self.rng.integers(2, 5))):
            self.values.append(u(np.where(self.rng.random(LANES) < 0.6, self.rng.choice(ENDS, LANES),
                                          self.rng.integers(-2**31, 2**31, LANES))))
            self.lines.append(f"ld.global.b32 %r{i}, [%d0+{4 * i}];")
        self.given = list(self.values)
        for _ in range(steps):
            self.step(plain)
        self.wanted = [self.values[-1], self.values[int(self.rng.integers(len(self.given), len(self.values)))]]
        last = len(self.values) - 1
        where = [last, next(i for i, v in enumerate(self.values) if v is self.wanted[1])]
        self.lines += [f"st.global.b32 [%d0+{64 + 4 * i}], %r{r};" for i, r in enumerate(where)]

    def operand(self, constant):
        """Its text and numbers, and whether ptxas may take it for a negation; the newest most often."""
        if self.rng.random() < constant:
            number = int(self.rng.choice(ENDS))
            return str(number), u(np.full(LANES, number)), False
        top = len(self.values)
        i = int(self.rng.choice([top - 1, top - 1, top - 2, *self.rng.integers(0, top, 2)]))
        return f"%r{i}", self.values[i], i in self.negations

    def step(self, plain):
        (a, x, p), (b, y, q), (c, z, r) = (self.operand(often) for often in (0, 0.25, 0))
        n, result = int(self.rng.integers(0, 32)), f"%r{len(self.values)}"
        if self.rng.random() < 0.35:
            name, function = MINIMA[int(self.rng.integers(2))]
            text, number = f"{name} {result}, {a}, {b};", function(x, y)
            if not plain and b.startswith("%") and (p or q):  # as ptxas_faults.h writes it
                text = (f"xor.b32 %x0, {a}, 0x80000000; xor.b32 %x1, {b}, 0x80000000; {name[:3]}.u32 %x0, %x0, %x1; "
                        f"xor.b32 {result}, %x0, 0x80000000;")
        else:
            form, function = PTX[int(self.rng.integers(len(PTX)))]
            text, number = form.replace("$", result).format(a=a, b=b, c=c, n=n), u(function(x, y, z, n))
            moves = re.match(r"add|cvt|setp", text)
            if re.match(r"neg|abs|sub|mul|mad", text) or (moves and (p or q or r)):
                self.negations.add(len(self.values))
        self.lines.append(text)
        self.values.append(number)

    def entry(self, name):
        return (f".visible .entry {name}(.param .u64 a) {{ .reg .pred %p<2>; .reg .b16 %h<1>; .reg .b32 %r<99>, %x<2>; "
                ".reg .b64 %d<1>;\nld.param.b64 %d0, [a];\n" + "\n".join(self.lines) + "\nret;\n}\n")


class Unknown(Exception):
    """An instruction that Machine does not have."""


class Machine:
    """Runs machine code without branches, each register a word of LANES numbers."""

    def __init__(self, given):
        self.memory = {4 * i: v for i, v in enumerate(given)}
        self.registers, self.predicates = {"RZ": u(np.zeros(LANES))}, {"PT": np.ones(LANES, bool)}

    def number(self, text):
        sign, name = re.fullmatch(r"([-~|]*)(.*?)\|?", text).groups()
        if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", name):
            x = u(np.full(LANES, int(name, 0)))
        elif re.fullmatch(r"U?R(\d+|Z)", name):
            x = self.registers[name.replace("URZ", "RZ")]
        else:
            raise Unknown(text)
        x = u(np.abs(wide(x))) if "|" in sign else x
        return -x if "-" in sign else ~x if "~" in sign else x

    def holds(self, text):
        x = self.predicates[text.lstrip("!").replace("UPT", "PT")]
        return ~x if text.startswith("!") else x

    def write(self, bank, name, value, mask):
        if name not in ("RZ", "URZ", "PT", "UPT"):
            bank[name] = np.where(mask, value, bank.get(name, np.zeros_like(value)))

    def step(self, line):
        guard, op, rest = re.match(r"(?:@(!?U?P[T\d]) +)?(\S+) *(.*)", line).groups()
        mask, operands = self.holds(guard or "PT"), [text.strip() for text in rest.split(",")]
        name, *kinds = op.split(".")
        if name in ("LDC", "ULDC", "EXIT", "BRA", "NOP"):
            return
        if name in ("LDG", "STG"):
            place = int((re.search(r"\.64\+(0x\w+)\]", rest) or ["", "0"])[1], 16)
            if name == "LDG":
                self.write(self.registers, operands[0], self.memory[place], mask)
            else:
                self.write(self.memory, place, self.number(operands[-1]), mask)
        elif name == "ISETP" and kinds[-1] in ("AND", "OR", "XOR") and "EX" not in kinds:
            a, b = (x if "U32" in kinds else s(x) for x in map(self.number, operands[2:4]))
            found, other = relation(kinds[0].lower(), a, b), self.holds(operands[4])
            meet = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}[kinds[-1]]
            self.write(self.predicates, operands[0], meet(found, other), mask)
            self.write(self.predicates, operands[1], meet(~found, other), mask)
        elif re.fullmatch(r"U?P[T\d]", operands[0]):
            raise Unknown(f"{op} to a predicate")
        else:
            self.write(self.registers, operands[0], self.word(name.removeprefix("U"), kinds, operands[1:]), mask)

    def word(self, name, kinds, operands):
        if name == "SEL":
            return np.where(self.holds(operands[2]), *map(self.number, operands[:2]))
        if "MNMX" in name and set(kinds) <= {"U32", "RELU"}:
            words = [self.number(text) for text in operands[:-1]]
            words = [words[0] + words[1], words[2]] if name == "VIADDMNMX" else words
            words = [x if "U32" in kinds else s(x) for x in words]
            least, most = np.minimum.reduce(words), np.maximum.reduce(words)
            found = np.where(self.holds(operands[-1]), least, most)
            return u(np.maximum(found, 0) if "RELU" in kinds else found)
        bits = int(operands[3], 16) if name == "LOP3" else 0
        a, b, c, d = ([self.number(text) for text in operands if not re.fullmatch(r"!?U?PT", text)] + [None] * 4)[:4]
        known = {
            "IADD3": lambda: a + b + c, "VIADD": lambda: a + b, "IABS": lambda: u(np.abs(wide(a))),
            "MOV": lambda: a, "POPC": lambda: counted(a), "LOP3.LUT": lambda: table(bits, a, b, c),
            "PRMT": lambda: self.bytes_of(a, b, c),
            "IMAD": lambda: a * b + c, "IMAD.MOV": lambda: a * b + c, "IMAD.IADD": lambda: a * b + c,
            "IMAD.MOV.U32": lambda: a * b + c, "IMAD.SHL.U32": lambda: a * b + c, "IMAD.U32": lambda: a * b + c, "FLO.U32": lambda: u(length(a) - 1),
            "SHF.R.S32.HI": lambda: u(s(c) >> s(b)), "SHF.R.U32.HI": lambda: c >> b, "SHF.L.U32": lambda: a << b,
            "LEA": lambda: (a << c) + b,
            "LEA.HI": lambda: u((c.astype(np.uint64) << np.uint64(32) | a) << d.astype(np.uint64) >> np.uint64(32)) + b,
            "LEA.HI.SX32": lambda: u(s(a) >> (32 - s(c))) + b}.get(".".join([name, *kinds]))
        if known is None or any(re.fullmatch(r"U?P\d", text) for text in operands):
            raise Unknown(".".join([name, *kinds]))
        return known()

    def bytes_of(self, a, selector, b):
        source = np.stack([(w >> U(8 * i)) & U(255) for w in (a, b) for i in range(4)])
        found = np.zeros_like(a)
        for i in range(4):
            nibble = selector >> U(4 * i) & U(15)
            byte = np.take_along_axis(source, (nibble & U(7))[None].astype(int), 0)[0]
            found |= np.where(nibble > 7, np.where(byte > 127, U(255), U(0)), byte) << U(8 * i)
        return found


def machine_codes(words, options, folder):
    """The lines of each kernel's machine code."""
    path = Path(folder) / "words"
    path.write_text(".version 8.0\n.target sm_90a\n.address_size 64\n" + "".join(w.entry(f"k{i}") for i, w in enumerate(words)))
    subprocess.run([options.ptxas, "-arch=sm_90a", path, "-o", f"{path}.cubin"], check=True)
    text = subprocess.run([options.nvdisasm, "-c", f"{path}.cubin"], capture_output=True, text=True, check=True).stdout
    codes, code = {}, []
    for line in text.splitlines():
        line = re.sub(r"/\*.*?\*/", "", line).strip()
        if found := re.match(r"\.text\.k(\d+):", line):
            code = codes.setdefault(int(found[1]), [])
        elif line.endswith(";"):
            code.append(line.rstrip("; ").replace(".reuse", ""))
    return [codes[i] for i in range(len(words))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    wrong, unknown = 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for first in range(options.seed, options.seed + options.count, 100):
            words = [Words(first + i, options.steps, options.plain) for i in range(min(100, options.seed + options.count - first))]
            for i, (word, code) in enumerate(zip(words, machine_codes(words, options, folder))):
                machine = Machine(word.given)
                try:
                    for line in code:
                        machine.step(line)
                except Unknown as what:
                    unknown[str(what)] += 1
                    continue
                if any((machine.memory[64 + 4 * at] != want).any() for at, want in enumerate(word.wanted)):
                    wrong += 1
                    print(f"---- seed {first + i}:", *word.lines, "", *code, sep="\n")
    print(f"{options.count} kernels, {wrong} wrong, left out by their instructions: {dict(unknown)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
