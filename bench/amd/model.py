# SPDX-License-Identifier: Apache-2.0
"""A simple issue-slot model of AMD's GPUs over the code of a loop: README.md says what it takes for granted, and from where.

It counts instructions by class and adds up how long each one keeps its unit. A loop's cycles are those of the unit that is busy
longest. They are modelled: no GPU ran the code, nobody waits for a result, and caches always have what is asked for.
"""
import csv
import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from amd import assembly

FOLDER = Path(__file__).resolve().parent
CLASSES = ("matrix", "valu", "lds", "global", "scratch", "scalar", "wait")  # hints are none of them: they take no slot
PER_SIMD = {"valu", "matrix", "trans", "scalar"}  # other units are the compute unit's, and all waves share them
ALLOWED = 1.1     # of the peer's instructions of a class


@dataclass(frozen=True)
class Kind:
    of: str     # class
    rate: str
    bytes: int  # of a lane, at LDS and memory


def _table(name):
    with open(FOLDER / name, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@cache
def kinds():
    return {row["mnemonic"]: Kind(row["class"], row["rate"], int(row["bytes"] or 0)) for row in _table("instructions.tsv")}


@cache
def rates():
    return {row["rate"]: row for row in _table("rates.tsv")}


@cache
def targets():
    """Rows of targets.tsv: one compute unit, of RDNA one workgroup processor."""
    return {row["target"]: {name: value if name in ("target", "family") else int(value) for name, value in row.items()}
            for row in _table("targets.tsv")}


def kind(mnemonic):
    found = kinds().get(mnemonic)
    if found is None:
        raise KeyError(f"bench/amd/instructions.tsv has no {mnemonic}")
    return found


def flops(mnemonic):
    shape = re.match(r"v_w?mf?ma(?:_scale)?_\w+?_(\d+)x(\d+)x(\d+)", mnemonic)
    return 2 * math.prod(map(int, shape.groups())) if shape and kind(mnemonic).of == "matrix" else 0


def work(instruction):
    """What an instruction does of the kernel's work: operations of a matrix, bytes that a lane moves to or from memory."""
    name = instruction.mnemonics[0]
    return flops(name), kind(name).bytes if kind(name).of == "global" else 0


def reads(instruction):
    """Bytes that a lane reads from memory."""
    found = kind(instruction.mnemonics[0])
    return found.bytes if (found.of, found.rate) == ("global", "global_read") else 0


def cost(mnemonic, target):
    """(unit, cycles) of one instruction of one wave."""
    row, found = rates()[kind(mnemonic).rate], kind(mnemonic)
    unit, _, cycles = row[target["family"]].rpartition(":")
    if cycles == "-":
        raise KeyError(f"bench/amd/rates.tsv has no {found.rate} on {target['family']}, of {mnemonic}")
    width = {"lds_exchange": "lds_read", "global_read": "global", "global_write": "global"}.get(found.rate, found.rate)
    moved = found.bytes * target["wave"] / target[width] if found.bytes else 0
    return unit or row["unit"], max(float(cycles), moved)


def waves_of_registers(target, vgprs, sgprs):
    """Waves that a SIMD has registers for."""
    most = target["waves"] if target["family"].startswith("rdna") or sgprs <= 100 else 7
    return min(most, target["registers"] // _rounded(max(vgprs, 1), target["granule"]))


def occupancy(target, threads, vgprs, sgprs, lds_bytes):
    """Waves on a SIMD: of as many workgroups as registers and LDS have room for."""
    waves = math.ceil(threads / target["wave"])
    groups = min(waves_of_registers(target, vgprs, sgprs) * target["simds"] // waves, target["groups"])
    if lds_bytes:
        groups = min(groups, target["lds_bytes"] // _rounded(lds_bytes, target["lds_granule"]))
    return groups * waves / target["simds"]


def _rounded(value, step):
    return -(-value // step) * step


def _working_loops(code, by_matrix):
    """The innermost of the loops that do the kernel's work."""
    def works(body):
        return any(flops(i.mnemonics[0]) if by_matrix else reads(i) for number in body for i in code.blocks[number].instructions)
    return assembly.innermost([loop for loop in code.loops() if works(loop[1])])


def _units(way, wave, threads, flops_of_unit, bytes_of_unit):
    """How many units of work a way through the loop does. A compiler may do work twice, never less of it: the smaller estimate counts."""
    estimates = [threads * sum(map(reads, way)) / bytes_of_unit]
    if flops_of_unit:
        estimates.append(threads / wave * sum(work(i)[0] for i in way) / flops_of_unit)
    return max(1, int(min(estimates) + 0.01))


def parts(text, target, threads, flops_of_unit, loads):
    """[(instructions, units of work they do)]: of each of the kernel's loops, or of a kernel without one the whole."""
    code, wave = assembly.Code(text), target["wave"]
    if not loads:
        return [(code.path(0, set(range(len(code.blocks))), work), 1)]
    loops = _working_loops(code, flops_of_unit > 0)
    if len(loops) != len(loads):
        raise ValueError(f"{len(loops)} loops where the kernel has {len(loads)}")
    ways = [code.path(header, body, work) for header, body in loops]
    return [(way, _units(way, wave, threads, flops_of_unit, size)) for way, size in zip(ways, loads)]


def analysed(text, target_name, threads, flops_of_unit=0, loads=(), lds_bytes=None):
    """What a row says of one side: per unit of work the instructions of a wave by class and the cycles of a workgroup."""
    target, found = targets()[target_name], assembly.facts(text)
    if lds_bytes is not None:
        found["lds_bytes"] = lds_bytes
    counts, busy = Counter(), defaultdict(float)
    for way, units in parts(text, target, threads, flops_of_unit, loads):
        for instruction in way:
            counts[kind(instruction.mnemonics[0]).of] += 1 / units
            unit, cycles = cost(instruction.mnemonics[0], target)
            waves = threads / target["wave"]
            busy[unit] += cycles / units * (math.ceil(waves / target["simds"]) if unit in PER_SIMD else waves)
    busy.pop("none", None)
    bound = max(busy, key=busy.get)
    return {"instructions": {name: round(counts[name], 2) for name in CLASSES}, "cycles": round(busy[bound], 1), "bound": bound,
            "busy": {unit: round(cycles, 1) for unit, cycles in sorted(busy.items())},
            **{name: found[name] for name in ("vgprs", "agprs", "sgprs", "lds_bytes", "scratch_bytes")},
            "occupancy": occupancy(target, threads, found["vgprs"], found["sgprs"], found["lds_bytes"])}


def exceeding(ours, theirs):
    """{class: ours / theirs} of the classes with more instructions than the peer's by more than allowed; None for none of the peer's."""
    pairs = {name: (ours["instructions"][name], theirs["instructions"][name]) for name in CLASSES}
    return {name: round(a / b, 2) if b else None for name, (a, b) in pairs.items() if a > ALLOWED * b}
