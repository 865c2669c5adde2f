// SPDX-License-Identifier: Apache-2.0
// A staged function as an object of AMD's: LLVM IR, and LLVM's backend, which ends in machine code.
#include "codegen/amd/amd_emitter.h"
#include "codegen/amd/code_object.h"
#include "codegen/backends.h"
#include "codegen/gpu/module.h"

#include <llvm-c/Target.h>
#include <llvm/Support/CommandLine.h>

#include <mutex>

namespace libtile::codegen::amd {

namespace {

constexpr uint32_t kCodeObjectVersion = 500;

template <class T> void setOption(llvm::StringRef name, T value) {
  const auto &options = llvm::cl::getRegisteredOptions();
  if (const auto found = options.find(name); found != options.end()) {
    static_cast<llvm::cl::opt<T> *>(found->second)->setValue(value);
  }
}

void setOptions() {
  // The backend asks scalar evolution about chains of minima, which sorts consist of: it compares such expressions in a time that
  // grows with two to the power of this depth, 32 by default. What it is for, their order in sums, needs no more than a few.
  setOption<unsigned>("scalar-evolution-max-scev-compare-depth", 8);
  // LLVM 19 loses a register of a group that is spilled to the other file in part.
  setOption<bool>("amdgpu-spill-vgpr-to-agpr", false);
}

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser(); // of inline assembly
    setOptions();
  });
}

} // namespace

Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, Kept &keep) {
  ir::check(fn.stage == ir::Stage::Staged, "the AMD generator takes a staged function");
  initialise();
  llvm::TargetMachine &machine = gpu::machineFor(target);
  const auto module = gpu::newModule(fn, target, options, machine, keep);
  module->addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", kCodeObjectVersion);

  Code code;
  code.info.symbol = gpu::symbolFor(fn.name);
  code.info.threads = fn.numWarps * target.warpSize;
  code.info.sharedBytes = fn.arenaBytes;
  AmdEmitter emitter(fn, target, options, *module);
  emitter.run(code.info.symbol);
  code.info.records = emitter.records();
  gpu::finish(*module, fn, options, code);
  const bool asText = options.keepAssembly;
  const auto [bytes, error] =
      gpu::emit(machine, *module, std::make_unique<llvm::legacy::PassManager>(),
                asText ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile);
  if (!error.empty()) {
    throw ir::Unsupported("LLVM makes no code for " + target.name + " of this kernel: " + error);
  }
  if (asText) {
    code.assembly = bytes;
  } else {
    const std::string linked = linkCodeObject(bytes);
    code.object.assign(linked.begin(), linked.end());
  }
  return code;
}

} // namespace libtile::codegen::amd
