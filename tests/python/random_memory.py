# SPDX-License-Identifier: Apache-2.0
"""Blocks of arrays and atomics in random kernels (random_kernels.py). A class of their own, from which
Kernel inherits."""
import math

import numpy as np
from random_values import EXACT, NAMES
from spine import poisoned

UPDATES = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
           "xor": np.bitwise_xor, "xchg": lambda a, b: b}


def window(x, offsets, block):
    """Indices into the block and into the array of what they have in common."""
    low = [max(0, -o) for o in offsets]
    high = [max(a, min(b, n - o)) for a, b, n, o in zip(low, block, x.shape, offsets)]
    inside = tuple(slice(a, b) for a, b in zip(low, high))
    return inside, tuple(slice(a + o, b + o) if b > a else slice(0, 0) for a, b, o in zip(low, high, offsets))


class MemoryKinds:
    def block(self, value):
        """A block that may leave its array on every side, and back into another array."""
        dtype = self.some_type()
        shape = self.some_shape()
        block = self.some_shape(len(shape))
        steps, step = int(self.rng.integers(0, 4)), [int(self.rng.integers(-2, 4)) for _ in shape]
        offsets = [int(self.rng.integers(-2, extent)) for extent in shape]
        last = [o + steps * by for o, by in zip(offsets, step)]
        read, written = self.numbers(shape, dtype), poisoned(shape, dtype)
        array = np.zeros(block, dtype)
        inside, there = window(read, last, block)
        if all(part.stop > part.start for part in inside):
            array[inside] = read[there]
        source, target = self.argument("x", read), self.argument("o", written)
        strides = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
        given = [self.argument("n", extent) if self.rng.random() < 0.5 else extent for extent in shape]
        name, back, axes = self.fresh("block"), self.fresh("block"), tuple(range(len(shape)))
        if self.rng.random() < 0.5:
            text = "({}, [" + ", ".join(map(str, given)) + f"], {strides}, [{{}}], {list(block)}, {axes[::-1]})"
            self.line(f"{name} = tl.make_block_ptr" + text.format(source, ", ".join(map(str, offsets))))
            self.line(f"{back} = tl.make_block_ptr" + text.format(target, ", ".join(map(str, last))))
            self.line(f"for _ in range({self.argument('n', steps)}):")
            self.line(f"    {name} = tl.advance({name}, {step})")
            result = self.let(f"tl.load({name}, boundary_check={axes})", array)
            self.line(f"tl.store({back}, {result.name}, boundary_check={axes})")
        else:
            text = "({}, [" + ", ".join(map(str, given)) + f"], {strides}, {list(block)})"
            self.line(f"{name} = tl.make_tensor_descriptor" + text.format(source))
            self.line(f"{back} = tl.make_tensor_descriptor" + text.format(target))
            result = self.let(f"{name}.load({last})", array)
            self.line(f"{back}.store({last}, {result.name})")
        self.outputs[target] = written.copy()
        if all(part.stop > part.start for part in inside):
            self.outputs[target][there] = array[inside]
        return result

    def strided(self, value):
        """Elements whose strides only the launch knows: read, changed and read again under one mask, of bounds or of any form."""
        dtype, shape = self.some_type(), value.shape
        strides, span = self.strides(shape)
        memory, mark = self.numbers(span, dtype), self.fresh("on")
        after = memory.copy()
        elements = np.lib.stride_tricks.as_strided(after, shape, [stride * after.itemsize for stride in strides])
        array = self.argument("s", memory)
        place = f"{array} + {self.index(shape, [self.argument('n', stride) for stride in strides])}"
        if self.rng.random() < 0.5:
            text, on = self.bounds(shape)
        else:
            chosen = self.fitted(value, np.dtype(np.bool_))
            text, on = chosen.name, chosen.array
        self.line(f"{mark} = tl.broadcast_to({text}, {shape})")
        mask, absent = f"mask={mark}", np.zeros((), dtype)
        if self.rng.random() < 0.6:
            mask, absent = f"{mask}, other=3", np.array(3, dtype)
        if self.rng.random() < 0.2:
            mask = f"{mask}, volatile=True"
        first = self.let(f"tl.load({place}, {mask})", np.where(on, elements, absent))
        self.line(f"tl.store({place}, {first.name} + 1, mask={mark})")
        elements[...] = np.where(on, first.array + np.array(1, dtype), elements)
        self.outputs[array] = after
        return self.let(f"tl.load({place}, {mask}) + {first.name}", np.where(on, elements, absent) + first.array)

    def bounds(self, shape):
        """A text, and what it says, of a mask that each axis may bound."""
        texts, on = ["True"], np.ones(shape, np.bool_)
        for axis, extent in enumerate(shape):
            if self.rng.random() < 0.7:
                bound = int(self.one_of([0, extent - 1, extent, self.rng.integers(0, extent + 3)]))
                texts.append(f"({self.axis_index(shape, axis)} < {self.argument('n', bound)})")
                on &= np.arange(extent).reshape([-1 if d == axis else 1 for d in range(len(shape))]) < bound
        return " & ".join(texts[1:] or texts), on

    def asserted(self, value):
        """What the tile holds, said by an array, in a loop or a condition too; where a mask is off it is wrong."""
        strides, span = self.strides(value.shape)
        memory = self.numbers(span, value.dtype)
        said = np.lib.stride_tricks.as_strided(memory, value.shape, [s * memory.itemsize for s in strides])
        kept = self.rng.random(value.shape) < 0.9
        said[...] = np.where(kept, value.array, value.array == 0)
        on = self.argument("x", np.ascontiguousarray(kept))
        dense = self.index(value.shape, [math.prod(value.shape[axis + 1:]) for axis in range(len(value.shape))])
        pointer, turns = self.argument("x", memory), self.argument("n", 2)
        self.line(self.one_of(["if True:", f"for _ in range({turns}):", f"if {turns} > 1:"]))
        self.line(f"    tl.device_assert({value.name} == tl.load({pointer} + {self.index(value.shape, strides)}), "
                  f"'{value.name}', tl.load({on} + {dense}))")
        self.options.update(debug=True, sanitize_overflow=False)

    def update(self, value):
        """Atomics on the elements of a tile: what they give, and what they leave behind."""
        kinds = [kind for kind in UPDATES if kind not in ("and", "or", "xor") or value.dtype.kind in "iu"]
        if value.dtype == np.bool_ or value.array.size > 2048:
            return None
        kind = self.one_of(kinds)
        x = self.fitted(value, value.dtype, EXACT[value.dtype] // 4)
        # -0.0 and 0.0 are one number, but not to atomics.
        x = self.let(f"{x.name} + tl.zeros({x.shape}, tl.{NAMES[x.dtype]})", x.array + np.zeros((), x.dtype))
        memory = self.numbers(x.shape, x.dtype)
        name, bound = self.argument("u", memory), int(self.rng.integers(-3, 4))
        strides = [math.prod(x.shape[axis + 1:]) for axis in range(len(x.shape))]
        where, on = f"{name} + {self.index(x.shape, strides)}", np.ones(x.shape, np.bool_)
        mask, bound = "", abs(bound) if x.dtype.kind == "u" else bound
        if self.rng.random() < 0.6:
            mask, on = f", mask={x.name} > {bound}", x.array > bound
        order = self.one_of(["", ", sem='relaxed'", ", sem='acquire', scope='cta'", ", sem='release', scope='sys'"])
        self.outputs[name] = np.where(on, UPDATES[kind](memory, x.array), memory).astype(x.dtype)
        if self.rng.random() < 0.3:
            self.line(f"tl.atomic_{kind}({where}, {x.name}{mask}{order})")
            return self.let(f"tl.atomic_load({where})", self.outputs[name])
        return self.let(f"tl.atomic_{kind}({where}, {x.name}{mask}{order})", np.where(on, memory, np.zeros((), x.dtype)))

    def summed(self, value):
        """Integers added to a row that nothing else of the kernel touches: what a thread may sum up until its programs have run."""
        if value.array.size > 2048:
            return
        x = self.fitted(value, np.dtype(self.one_of([np.int32, np.uint32, np.int64, np.uint64])), 1000)
        n, first, turns = x.array.size, int(self.rng.integers(0, 5)), int(self.rng.integers(1, 4))
        row, place = self.let(f"tl.reshape({x.name}, [{n}])", x.array.reshape(-1)), self.fresh("place")
        memory, bound = self.numbers(first + n + 5, x.dtype), int(self.one_of([first, first + n // 2, first + n]))
        array, mask = self.argument("u", memory), self.one_of(["", f", mask={place} < {self.argument('n', bound)}"])
        order = self.one_of(["", ", sem='relaxed'", ", sem='relaxed', scope='cta'", ", sem='release', scope='sys'"])
        self.line(f"{place} = tl.arange({first}, {first + n})")
        self.line(self.one_of([f"for _ in range({self.argument('n', turns)}):", f"for _ in tl.static_range({turns}):"]) if turns > 1 else "if True:")
        self.line(f"    tl.atomic_add({array} + {place}, {row.name}{mask}{order})")
        on = np.arange(first, first + n) < (bound if mask else first + n)
        self.outputs[array] = memory.copy()
        self.outputs[array][first:first + n] += np.where(on, row.array, np.zeros((), x.dtype)) * x.dtype.type(turns)
