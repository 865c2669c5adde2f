// SPDX-License-Identifier: Apache-2.0
// Which line of the kernel's source an instruction comes from, for profilers and debuggers: on NVIDIA's
// GPUs directives .file and .loc of the PTX (PTX ISA, "Debugging Directives").
#pragma once

#include "ir/function.h"

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>

#include <map>
#include <optional>
#include <string>

namespace libtile::codegen::gpu {

class LineTable {
public:
  // A table for the function's kernel.
  LineTable(const ir::Function &fn, llvm::Function &kernel);
  // The user's line that the op is on: of code within functions of the library, the line that calls them.
  [[nodiscard]] llvm::DebugLoc at(ir::OpId op);
  // Once, when the kernel is whole.
  void finish() { builder_.finalize(); }

private:
  llvm::DIFile *file(const std::string &name);
  llvm::DIScope *scope(const std::string &name);

  const ir::Function &fn_;
  llvm::DIBuilder builder_;
  llvm::DISubprogram *kernel_ = nullptr;
  std::map<std::string, llvm::DIScope *> scopes_; // by file; in another file than the kernel's one of its own
};

// While it lives, what the builder makes comes from the op's line.
class LineScope {
public:
  LineScope(llvm::IRBuilderBase &builder, std::optional<LineTable> &lines, ir::OpId op)
      : builder_(builder), before_(builder.getCurrentDebugLocation()) {
    if (lines) {
      builder.SetCurrentDebugLocation(lines->at(op));
    }
  }
  LineScope(const LineScope &) = delete;
  LineScope &operator=(const LineScope &) = delete;
  ~LineScope() { builder_.SetCurrentDebugLocation(before_); }

private:
  llvm::IRBuilderBase &builder_;
  const llvm::DebugLoc before_;
};

} // namespace libtile::codegen::gpu
