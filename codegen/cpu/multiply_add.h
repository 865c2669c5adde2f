// SPDX-License-Identifier: Apache-2.0
// The instructions of the units that execute a contract, one emitter for each ir::MultiplyAdd.
#pragma once

#include "ir/target.h"

#include <llvm/IR/IRBuilder.h>

namespace libtile::codegen::cpu {

// sum + a * b: in each lane the sum of a group's products is added. `a` and `b` are vectors of numbers or, of
// a unit of groups, of i32 words of them; `sum` has the lanes of the accumulator, as many as the instruction.
[[nodiscard]] llvm::Value *multiplyAdd(llvm::IRBuilder<> &builder, ir::MultiplyAdd instruction,
                                       llvm::Value *a, llvm::Value *b, llvm::Value *sum);

// The same on tiles, by the numbers of their registers: a of rows x words, b of words x lanes, sum of
// rows x lanes.
void multiplyAddTiles(llvm::IRBuilder<> &builder, ir::MultiplyAdd instruction, unsigned a, unsigned b,
                      unsigned sum);

} // namespace libtile::codegen::cpu
