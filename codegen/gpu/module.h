// SPDX-License-Identifier: Apache-2.0
// What generators for GPUs share around their emitters: LLVM's module and machine, and the text or object that it writes.
#pragma once

#include "codegen/codegen.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>
#include <vector>

namespace libtile::codegen::gpu {

// One a target and thread: making one costs more than a small kernel's code. Throws Unsupported if this build's LLVM has no
// such backend.
[[nodiscard]] llvm::TargetMachine &machineFor(const ir::Target &target);
// An empty module in a context of its own; `keep` holds both.
[[nodiscard]] std::shared_ptr<llvm::Module> newModule(const ir::Function &fn, const ir::Target &target, const CodeOptions &options,
                                                      llvm::TargetMachine &machine, std::vector<std::shared_ptr<void>> &keep);
// Letters, digits and _, of which no digit comes first.
[[nodiscard]] std::string symbolFor(const std::string &name);
// Throws InternalError if it is not well formed; `code` gets its text if that is wanted.
void finish(const llvm::Module &module, const ir::Function &fn, const CodeOptions &options, Code &code);

// A backend's passes, without those of these names and without those that look for what no kernel has.
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

} // namespace libtile::codegen::gpu
