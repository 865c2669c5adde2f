# SPDX-License-Identifier: Apache-2.0
"""AMD's assembly as LLVM writes it: instructions, blocks, innermost loops, and the way that a full tile takes through them.

What is followed is the steady state: a branch that skips code where no lane is active (s_cbranch_execz) is not taken, one that
goes to code where a lane is (s_cbranch_execnz) is. Where a loop chooses by a number that all lanes share, it goes where most work is
done, and of ways with the same work the shorter one: a full tile needs no mask.
"""
import re
from dataclasses import dataclass, field

ENDS = {"s_branch", "s_endpgm", "s_setpc_b64", "s_endpgm_saved"}  # nothing follows
ENCODINGS = re.compile(r"(_e64_dpp|_e32|_e64|_dpp8|_dpp|_sdwa)$")
FACTS = {"vgprs": "vgpr_count", "agprs": "agpr_count", "sgprs": "sgpr_count", "lds_bytes": "group_segment_fixed_size",
         "scratch_bytes": "private_segment_fixed_size", "threads": "max_flat_workgroup_size"}


@dataclass(frozen=True)
class Instruction:
    mnemonics: tuple  # without the encoding; two of a pair that issues as one
    target: str = ""  # of a branch


@dataclass
class Block:
    instructions: list = field(default_factory=list)
    next: list = field(default_factory=list)  # numbers of blocks


def instruction(line):
    names = tuple(ENCODINGS.sub("", half.split()[0]) for half in line.split("::"))
    branches = names[0] == "s_branch" or names[0].startswith("s_cbranch")
    return Instruction(names, line.split()[1] if branches else "")


def parsed(text):
    """What the first function of a text consists of, in order: labels as text, and instructions."""
    items = []
    for line in text.splitlines():
        line = re.split(r";|//", line)[0].strip()
        label = re.fullmatch(r"([.\w$]+):", line)
        if line.startswith((".Lfunc_end", ".amdhsa_kernel")) or re.match(r"\.section\s+\.rodata", line):
            break
        if label:
            items.append(label[1])
        elif line and not line.startswith("."):
            items.append(instruction(line))
    return items


def facts(text):
    """The kernel's resources, as its metadata say; what a text does not mention is 0."""
    found = {name: re.search(rf"\.{key}:\s+(\d+)", text) for name, key in FACTS.items()}
    return {name: int(match[1]) if match else 0 for name, match in found.items()}


def blocks(items):
    """The function's blocks, the entry first. Labels that no branch names begin none."""
    named = {item.target for item in items if isinstance(item, Instruction)}
    made, places = [Block()], {}
    for item in items:
        if isinstance(item, str):
            if item in named:
                made.append(Block())
                places[item] = len(made) - 1
        else:
            made[-1].instructions.append(item)
            if item.target or item.mnemonics[0] in ENDS:
                made.append(Block())
    for number, block in enumerate(made):
        last = block.instructions[-1] if block.instructions else Instruction(("",))
        name, target = last.mnemonics[0], places.get(last.target)
        falls = number + 1 < len(made) and name not in ENDS
        # At the end of a loop over lanes both ways are gone in the end.
        if name == "s_cbranch_execnz" and target > number:
            falls = False
        takes = target is not None and name != "s_cbranch_execz"
        block.next = list(dict.fromkeys([number + 1] * falls + [target] * takes))
    return made


def _dominators(graph):
    """For each block that is reached the set of those on every way to it, as bits."""
    order, seen, stack = [], {0}, [(0, iter(graph[0].next))]
    while stack:
        number, rest = stack[-1]
        following = next((each for each in rest if each not in seen), None)
        if following is None:
            order.append(number)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(graph[following].next)))
    order.reverse()
    known, changed = {number: -1 for number in order} | {0: 1}, True
    while changed:
        changed = False
        for number in order[1:]:
            common = -1
            for previous in (each for each in order if number in graph[each].next):
                common &= known[previous]
            changed |= known[number] != common | 1 << number
            known[number] = common | 1 << number
    return known


def innermost(loops):
    """Those that have none of the others within."""
    return [(header, body) for header, body in loops if not any(other in body for other, _ in loops if other != header)]


class Code:
    """A function's blocks and how they follow each other."""

    def __init__(self, text):
        self.blocks = blocks(parsed(text))
        self.known = _dominators(self.blocks)

    def returns(self, number, following):
        """Whether that edge closes a loop."""
        return number in self.known and bool(self.known[number] >> following & 1)

    def loops(self):
        """[(header, the blocks' numbers)] in the text's order."""
        found = {}
        for number in self.known:
            for header in self.blocks[number].next:
                if self.returns(number, header):
                    body, stack = found.setdefault(header, {header}), [number]
                    while stack:
                        inner = stack.pop()
                        if inner not in body:
                            body.add(inner)
                            stack += [each for each in self.known if inner in self.blocks[each].next]
        return sorted(found.items())

    def path(self, start, inside, work):
        """The instructions of one way from `start` by way of blocks `inside`, back to it or to the function's end; loops within
        are gone through once. `work(instruction)` is a pair of numbers."""
        best = {}

        def walk(number):
            if number not in best:
                block = self.blocks[number]
                amount = tuple(map(sum, zip((0, 0), *map(work, block.instructions))))
                onward = [n for n in block.next if n in inside and not self.returns(number, n)]
                rest = [walk(n) for n in onward]
                if start in block.next or not block.next:
                    rest.append(((0, 0), 0, []))
                ways = [(tuple(map(sum, zip(amount, more))), count - len(block.instructions), block.instructions + way)
                        for more, count, way in rest]
                best[number] = max(ways, key=lambda way: way[:2], default=((-1, -1), 0, []))
            return best[number]
        return walk(start)[2]
