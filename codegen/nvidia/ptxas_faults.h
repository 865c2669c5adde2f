// SPDX-License-Identifier: Apache-2.0
// What ptxas gets wrong and only the text shows: LLVM's instruction selection makes these instructions of
// others. What can be seen earlier is not written in the first place (elementwise.cpp, emit_memory.cpp).
#pragma once

#include <llvm/ADT/StringRef.h>

#include <string>

namespace libtile::codegen::nvidia {

// The PTX that LLVM wrote, with the same meaning and without
// - neg.s16, abs.s16, sub.s16. ptxas (12.9 to 13.5) takes the negation of the least number for one of 16
//   bits, which it is not: an extension to more bits, or a shift right, makes 32768 of it. In 32 bits it cuts
//   the result.
// - min.s32 and max.s32 of what may be a negation. Up to 13.0 ptxas makes one instruction of the minimum of
//   a minimum, on sm_90, and takes a negation of the second number into it, which this instruction ignores:
//   max(max(a, -b), c) becomes max(max(a, b), c). It does not of unsigned numbers.
// - cvt between integers and floats, or among floats, from 64 bits to fewer, unless under a predicate. Short of
//   registers ptxas (12.9 to 13.5) converts a second time where the result is used again, from registers that
//   hold other numbers by then. It does not repeat what depends on a predicate.
std::string avoidPtxasFaults(llvm::StringRef text);

} // namespace libtile::codegen::nvidia
