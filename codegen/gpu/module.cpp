// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/module.h"

#include "codegen/llvm_compat.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <cctype>

namespace libtile::codegen::gpu {

std::shared_ptr<llvm::Module> newModule(const ir::Function &fn, const ir::Target &target, const CodeOptions &options,
                                        const llvm::DataLayout &layout, std::vector<std::shared_ptr<void>> &keep) {
  auto context = std::make_shared<llvm::LLVMContext>();
  keep.push_back(context);
  context->setDiscardValueNames(!options.keepLlvm);
  // The module holds on to its context, in whatever order the two are let go.
  std::shared_ptr<llvm::Module> module(new llvm::Module(fn.name, *context), [context](llvm::Module *held) { delete held; });
  keep.push_back(module);
  compat::setTriple(*module, target.triple);
  module->setDataLayout(layout);
  return module;
}

std::string symbolFor(const std::string &name) {
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x80 && std::isalnum(byte) != 0 ? std::string(1, c) : std::string("_");
  }
  const bool isTaken = out == kSharedMemory;
  return out.empty() || isTaken || std::isdigit(static_cast<unsigned char>(out[0])) != 0 ? "_" + out : out;
}

void finish(const llvm::Module &module, const ir::Function &fn, const CodeOptions &options, Code &code) {
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(module, &problems)) {
    throw ir::InternalError("invalid LLVM IR: " + problem, {}, fn.str());
  }
  if (options.keepLlvm) {
    llvm::raw_string_ostream stream(code.llvm);
    module.print(stream, nullptr);
  }
}

} // namespace libtile::codegen::gpu
