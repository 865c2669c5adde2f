// SPDX-License-Identifier: Apache-2.0
// How many registers a program's tiles take where most of them are live at once.
//
// A tile lives from its definition to its last use; what a loop reads from outside, as long as the loop.
// Registers are counted where an op takes whole tiles: elementwise ops take one element after the other.
// Not counted is what need not be held:
// - pointers, constants, and integers made of indices alone: a thread makes them again from a few numbers
// - a broadcast: it repeats the registers of what it is made of
// - operands of dots, most of which lie in shared memory
// - a load with one use in its block: it can wait for it
#pragma once

#include "ir/function.h"
#include "ir/target.h"

namespace libtile::passes {

// Registers of 32 bits, over all threads. A number takes one at least; of f16 and bf16 two share one.
[[nodiscard]] int64_t liveRegisters(const ir::Function &fn);
// Of these, the sums of dots: what dots add to and return, as loops carry it. The assembler keeps those of an instruction
// that runs by itself where they are, and can spill others around it.
[[nodiscard]] int64_t liveSums(const ir::Function &fn);
// Registers of one thread, as its layouts have them, and with the dots' operands that threads hold. Requires: laid-out.
[[nodiscard]] int64_t liveOfThread(const ir::Function &fn, const ir::Target &target);
// What addresses and numbers take beside tiles, at least.
constexpr int64_t kBesideTiles = 40;
// Registers that instructions name; what CDNA has beside them is for sums alone.
constexpr int64_t kNamedRegisters = 256;
// Programs of so many warps for which a multiprocessor has registers, where a thread's tiles take `tiles` of them.
[[nodiscard]] int64_t programsByRegisters(int64_t tiles, int32_t warps, const ir::Target &target);
// That a thread may have, of the warps that run loops.
[[nodiscard]] int64_t threadRegisters(const ir::Function &fn, const ir::Target &target);
// Of liveOfThread, those of one tile.
[[nodiscard]] int64_t registersOfThread(const ir::Function &fn, ir::ValueId tile);

} // namespace libtile::passes
