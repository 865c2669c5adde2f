// SPDX-License-Identifier: Apache-2.0
// The assembler keeps near to the order of a text where it allocates registers. Emitters make one op for all registers of a tile
// before the next op, so that a sum over a thread's registers comes behind everything that it adds, and words are packed where they
// are stored: all parts are live at once.
#pragma once

#include <llvm/IR/Function.h>

namespace libtile::codegen::nvidia {

// Moves what frees a register, as it is the only reader of two values of its block, right behind the later one of these; and what
// puts a value into a vector behind that value. Nothing is moved that reads memory, or has effects. Sums of an asynchronous dot are
// read by extracts that stand behind the wait for it: these stay, and so does what reads them, behind them.
void foldEarly(llvm::Function &kernel);

} // namespace libtile::codegen::nvidia
