# SPDX-License-Identifier: Apache-2.0
"""Code objects for AMD's GPUs beside those that LLVM's assembler and linker make of the same kernels: what loaders read is the same,
and whatever points somewhere points there. Addresses differ: the two lay sections out otherwise."""
import dataclasses
import functools
import json
import pathlib
import shutil
import struct
import subprocess

import pytest
import test_amd

import libtile
import libtile.language as tl

pytestmark = pytest.mark.not_interpreted("it compiles for GPUs")
SYMTAB, RELA, NOTE, DYNSYM = 2, 4, 7, 11
ALLOCATED, LOAD = 2, 1

# What is written for a distance, by the kind of relocation: bytes, and the number.
RELOCATIONS = {4: (4, lambda far: far), 10: (4, lambda far: far), 11: (4, lambda far: far >> 32), 5: (8, lambda far: far),
               14: (2, lambda far: (far - 4) // 4)}


@dataclasses.dataclass
class Section:
    name: str
    type: int
    flags: int
    address: int
    bytes: bytes
    link: int
    info: int


class Elf:
    def __init__(self, data):
        self.header = data[:32]  # identification, type, machine
        self.flags, = struct.unpack_from("<I", data, 48)
        segments, start, = struct.unpack_from("<QQ", data, 32)
        each, count, _, sections, names = struct.unpack_from("<HHHHH", data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, segments + i * each) for i in range(count)]
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * 64) for i in range(sections)]
        text = data[rows[names][4]:][:rows[names][5]]
        self.sections = [Section(text[row[0]:].split(b"\0")[0].decode(), row[1], row[2], row[3],
                                 b"" if row[1] == 8 else data[row[4]:row[4] + row[5]], row[6], row[7]) for row in rows]

    def named(self, name):
        section, = [section for section in self.sections if section.name == name]
        return section

    def symbols(self, kind):
        """Name, where, and all that is said of it, in order."""
        table, = [section for section in self.sections if section.type == kind]
        names = self.sections[table.link].bytes
        for at in range(0, len(table.bytes), 24):
            name, info, other, section, value, size = struct.unpack_from("<IBBHQQ", table.bytes, at)
            where = self.sections[section].name if section < len(self.sections) else section
            yield names[name:].split(b"\0")[0].decode(), where, value, (info, other, size)

    def exported(self):
        """Of each name its section, its place there, and the rest."""
        return {name: (where, value - self.named(where).address, rest) for name, where, value, rest in self.symbols(DYNSYM) if name}

    def relocations(self):
        """Section, place there, kind, symbol and its place, addend: of an object."""
        symbols = list(self.symbols(SYMTAB))
        for section in self.sections:
            if section.type == RELA:
                for at in range(0, len(section.bytes), 24):
                    place, info, addend = struct.unpack_from("<QQq", section.bytes, at)
                    yield self.sections[section.info].name, place, info & 0xffffffff, symbols[info >> 32], addend


@functools.cache
def tool(name):
    """Of the LLVM that libtile is built with: another one's objects differ."""
    options = pathlib.Path(libtile.__file__).parents[2] / "meson-info" / "intro-buildoptions.json"
    version = next(option["value"] for option in json.loads(options.read_text()) if option["name"] == "llvm")
    found = shutil.which(f"{name}-{version}") or shutil.which(name)
    assert found, f"there is no {name}-{version}, which ./dev installs"
    return found


def linked_by_llvm(text, target, folder):
    """The object, and what ld.lld makes of it."""
    source, made, linked = folder / "kernel.s", folder / "kernel.o", folder / "kernel.so"
    source.write_text(text)
    subprocess.run([tool("llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-filetype=obj", source, "-o", made], check=True)
    subprocess.run([tool("ld.lld"), "-shared", made, "-o", linked], check=True)
    return Elf(made.read_bytes()), Elf(linked.read_bytes())


@libtile.jit
def speaks(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.device_print("v", v)
    tl.device_assert(v >= 0, "negative")
    tl.store(out + i, tl.sort(v))


KERNELS = {"add": (test_amd.add, ["*fp32"] * 3 + ["i32"], {"B": 512}),
           "matmul": (test_amd.matmul, ["*fp16", "*fp16", "*fp32", "i32", "i32"], {"BM": 32, "BN": 32, "BK": 32}),
           "many": (test_amd.many, ["*i32"] * 3, {"B": 128}), "speaks": (speaks, ["*i32", "*i32"], {"B": 256, "debug": True})}


@pytest.fixture(params=["gfx942", "gfx1100"])
def target(request):
    return request.param


@pytest.fixture(params=KERNELS)
def three(request, target, tmp_path):
    """LLVM's object, the code object that ld.lld makes of it, and ours."""
    function, types, options = KERNELS[request.param]
    kernel = function.warmup(*types, **options, target=target, grid=(1,))
    return *linked_by_llvm(kernel.asm["asm"], target, tmp_path), Elf(kernel._kernel.code())


def without(bytes_, places):
    bytes_ = bytearray(bytes_)
    for place, size in places:
        bytes_[place:place + size] = bytes(size)
    return bytes(bytes_)


def without_scalar_count(bytes_, section, target):
    """From gfx10 on the descriptor's number of scalar registers is reserved: LLVM 19's assembler writes another than its code
    generator."""
    if section != ".rodata" or not target.startswith("gfx1"):
        return bytes_
    return bytes_[:48] + bytes([bytes_[48] & 0x3F, bytes_[49] & 0xFC]) + bytes_[50:]


def test_sections(three, target):
    thing, theirs, ours = three
    assert (ours.header[:24], ours.flags) == (theirs.header[:24], theirs.flags), "what it is, and for which GPU"
    held = [section for section in thing.sections if section.flags & ALLOCATED and section.type != NOTE and section.bytes]
    assert {".text", ".rodata"} <= {section.name for section in held}
    for section in held:
        places = [(place, RELOCATIONS[kind][0]) for name, place, kind, _, _ in thing.relocations() if name == section.name]
        a, b, c = (without_scalar_count(without(bytes_, places), section.name, target)
                   for bytes_ in (theirs.named(section.name).bytes, ours.named(section.name).bytes, section.bytes))
        assert a == b == c, section.name
        assert ours.named(section.name).flags == theirs.named(section.name).flags
    assert [section.bytes for section in ours.sections if section.type == NOTE] == \
        [section.bytes for section in theirs.sections if section.type == NOTE], "the metadata"


def test_symbols(three):
    _, theirs, ours = three
    assert ours.exported() == theirs.exported()
    kernel, = [name.removesuffix(".kd") for name in ours.exported() if name.endswith(".kd")]
    for elf in (theirs, ours):
        (descriptor, place, _), (text, entry, _) = elf.exported()[kernel + ".kd"], elf.exported()[kernel]
        offset, = struct.unpack_from("<q", elf.named(descriptor).bytes, place + 16)
        assert elf.named(descriptor).address + place + offset == elf.named(text).address + entry, "a descriptor leads to its kernel"


def test_relocations(three, request):
    thing, theirs, ours = three
    sections = set()
    for section, place, kind, (_, where, value, _), addend in thing.relocations():
        sections.add(section)
        size, written = RELOCATIONS[kind]
        for elf in (theirs, ours):
            far = elf.named(where).address + value + addend - (elf.named(section).address + place)
            assert elf.named(section).bytes[place:place + size] == (written(far) % 2 ** (8 * size)).to_bytes(size, "little")
    assert sections == ({".rodata", ".text"} if "speaks" in request.node.name else {".rodata"})


def test_segments(three):
    _, theirs, ours = three
    kinds = [{(type_, flags) for type_, flags, *_ in elf.segments if type_ in (LOAD, 2, 4)} for elf in (theirs, ours)]
    assert kinds[0] == kinds[1], "what is loaded, to be read, written or executed"
    loads = [segment for segment in ours.segments if segment[0] == LOAD]
    for _, _, offset, address, _, held, memory, alignment in loads:
        assert offset % alignment == address % alignment and held <= memory
    pages = [set(range(address // 4096, (address + memory - 1) // 4096 + 1)) for _, _, _, address, _, _, memory, _ in loads]
    assert len(functools.reduce(set.union, pages)) == sum(map(len, pages)), "no page has two kinds of access"
