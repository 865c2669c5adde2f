// SPDX-License-Identifier: Apache-2.0
// LLVM's machine for a target, and the text or object that its backend writes.
#pragma once

#include "ir/target.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

namespace libtile::codegen::amd {

// One a target and thread: making one costs more than a small kernel's code. Throws Unsupported if this build's LLVM has no
// such backend.
[[nodiscard]] llvm::TargetMachine &machineFor(const ir::Target &target);

// The backend's passes, without those of these names and without those that look for what no kernel has; and with ours.
class Passes : public llvm::legacy::PassManager {
public:
  explicit Passes(llvm::ArrayRef<llvm::StringLiteral> leftOut) : leftOut_(leftOut) {}
  void add(llvm::Pass *pass) override;

private:
  llvm::ArrayRef<llvm::StringLiteral> leftOut_;
};

struct Emitted {
  std::string bytes;
  std::string error; // the first one that LLVM found; "": none
};
// What LLVM's backend writes by these passes, which it adds its own to.
[[nodiscard]] Emitted emit(llvm::TargetMachine &machine, llvm::Module &module,
                           std::unique_ptr<llvm::legacy::PassManager> passes, llvm::CodeGenFileType type);

} // namespace libtile::codegen::amd
