// SPDX-License-Identifier: Apache-2.0
// LLVM's machine for a target, and the text or object that its backend writes.
#pragma once

#include "ir/target.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <array>
#include <memory>
#include <string>

namespace libtile::codegen::amd {

// What passes are made for: they stay with the thread, so that each kind of kernel has its own.
enum class KernelKind : uint8_t { WithDots, WithoutDots };

// The backend's passes, without those of these names, those that the kind gains nothing by, and those that look for what no kernel
// has; and with ours.
class Passes : public llvm::legacy::PassManager {
public:
  Passes(llvm::ArrayRef<llvm::StringLiteral> leftOut, KernelKind kind) : leftOut_(leftOut), kind_(kind) {}
  void add(llvm::Pass *pass) override;

private:
  llvm::ArrayRef<llvm::StringLiteral> leftOut_;
  KernelKind kind_;
};

struct Emitted {
  std::string bytes;
  std::string error; // the first one that LLVM found; "": none
};

// LLVM's machine for a target, which costs more to make than a small kernel's code, and the passes that write its objects, which
// cost a sixth of that.
class Backend {
public:
  using FirstPasses = std::unique_ptr<llvm::legacy::PassManager> (*)(llvm::TargetMachine &, KernelKind);

  // The thread's own. Throws Unsupported if this build's LLVM has no such backend.
  [[nodiscard]] static Backend &of(const ir::Target &target);

  [[nodiscard]] llvm::TargetMachine &machine() { return *machine_; }
  // What LLVM's backend writes: its passes run behind the first ones, which are always the same of a kind.
  [[nodiscard]] Emitted emit(llvm::Module &module, FirstPasses first, KernelKind kind, llvm::CodeGenFileType type);

private:
  struct Writer {
    Writer(llvm::TargetMachine &machine, FirstPasses first, KernelKind kind, llvm::CodeGenFileType type);

    llvm::SmallString<0> text;
    llvm::raw_svector_ostream stream{text};
    std::unique_ptr<llvm::legacy::PassManager> passes; // which hold the stream to their end
  };

  explicit Backend(const ir::Target &target);

  std::unique_ptr<llvm::TargetMachine> machine_; // which passes hold
  // Only of objects: a second text lacks the name of its section. Empty while it runs, so that none is left whose passes LLVM
  // threw out of.
  std::array<std::unique_ptr<Writer>, 2> objects_; // by kind
};

} // namespace libtile::codegen::amd
