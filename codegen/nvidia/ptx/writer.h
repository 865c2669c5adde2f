// SPDX-License-Identifier: Apache-2.0
// LLVM IR as PTX, for what our emitters make of it.
//
// PTX has registers without end and an assembler that allocates and schedules them, so that writing it is one walk over the
// instructions: no selection by graphs, no register allocation, and the same text whatever LLVM's version. What is put
// together here is what the assembler does not see through: addresses of a base and a number, products of twice
// the width, two conversions to 16 bits in one word, sums of products that may be fused.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

namespace libtile::codegen::nvidia::ptx {

// What the text begins with: "8.1" and "sm_90a".
struct Version {
  std::string isa, target;
};

// The data layout that modules are made with (LLVM's for NVPTX).
inline constexpr const char *kDataLayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64";

// Kernels are what has the calling convention of kernels. Throws ir::Unsupported for an instruction that no emitter of ours makes,
// and ir::UserError for inline assembly that names operands it does not have.
[[nodiscard]] std::string write(const llvm::Module &module, const Version &version);

} // namespace libtile::codegen::nvidia::ptx
