// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/line_table.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/Path.h>

namespace libtile::codegen::gpu {

namespace {

// The first op that has a place: the kernel's file is its file.
const ir::Location *firstPlace(const ir::Function &fn) {
  for (const ir::OpId op : fn.walk()) {
    const ir::Location &place = fn.locationOf(op).place();
    if (place.known()) {
      return &place;
    }
  }
  return nullptr;
}

} // namespace

LineTable::LineTable(const ir::Function &fn, llvm::Function &kernel) : fn_(fn), builder_(*kernel.getParent()) {
  llvm::Module &module = *kernel.getParent();
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  const ir::Location *first = firstPlace(fn);
  const std::string name = first != nullptr ? first->file->name : fn.name;
  const uint32_t line = first != nullptr ? first->file->firstLine : 1;
  builder_.createCompileUnit(llvm::dwarf::DW_LANG_C, file(name), "libtile", /*isOptimized=*/true, "", 0, "",
                             llvm::DICompileUnit::DebugDirectivesOnly);
  kernel_ = builder_.createFunction(file(name), fn.name, kernel.getName(), file(name), line,
                                    builder_.createSubroutineType(builder_.getOrCreateTypeArray({})), line,
                                    llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  kernel.setSubprogram(kernel_);
  scopes_[name] = kernel_;
}

llvm::DIFile *LineTable::file(const std::string &name) {
  return builder_.createFile(llvm::sys::path::filename(name), llvm::sys::path::parent_path(name));
}

llvm::DIScope *LineTable::scope(const std::string &name) {
  llvm::DIScope *&found = scopes_[name];
  if (found == nullptr) {
    found = builder_.createLexicalBlockFile(kernel_, file(name));
  }
  return found;
}

llvm::DebugLoc LineTable::at(ir::OpId op) {
  const ir::Location &place = fn_.locationOf(op).place();
  llvm::LLVMContext &context = kernel_->getContext();
  if (!place.known()) {
    return llvm::DILocation::get(context, 0, 0, kernel_);
  }
  return llvm::DILocation::get(context, place.file->firstLine + place.line - 1, place.column, scope(place.file->name));
}

} // namespace libtile::codegen::gpu
