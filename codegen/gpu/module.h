// SPDX-License-Identifier: Apache-2.0
// What generators for GPUs share around their emitters: LLVM's module.
#pragma once

#include "codegen/codegen.h"

#include <llvm/IR/DataLayout.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <vector>

namespace libtile::codegen::gpu {

// An empty module in a context of its own; `keep` holds both.
[[nodiscard]] std::shared_ptr<llvm::Module> newModule(const ir::Function &fn, const ir::Target &target, const CodeOptions &options,
                                                      const llvm::DataLayout &layout, std::vector<std::shared_ptr<void>> &keep);
// What shared memory is called in a module.
inline constexpr const char *kSharedMemory = "libtile_shared";
// Letters, digits and _, of which no digit comes first; not what shared memory is called.
[[nodiscard]] std::string symbolFor(const std::string &name);
// Throws InternalError if it is not well formed; `code` gets its text if that is wanted.
void finish(const llvm::Module &module, const ir::Function &fn, const CodeOptions &options, Code &code);

} // namespace libtile::codegen::gpu
