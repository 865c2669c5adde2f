// SPDX-License-Identifier: Apache-2.0
#include "codegen/amd/machine.h"

#include "codegen/amd/place_spills.h"
#include "codegen/amd/raise_priority.h"
#include "codegen/llvm_compat.h"
#include "ir/diagnostic.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/Pass.h>

#include <array>
#include <map>

namespace libtile::codegen::amd {

namespace {

// They look for what no kernel has: a collector's roots, exceptions, calls of the C library, masked or reducing intrinsics,
// instrumentation, constants that take several instructions, slots of a stack in what an emitter wrote. Each takes its time to
// be scheduled, and some have analyses computed that nothing else asks for.
constexpr std::array<llvm::StringLiteral, 24> kWithoutWork = {
    "Lower Garbage Collection Instructions",
    "Shadow Stack GC Lowering",
    "Analyze Machine Code For Garbage Collection",
    "Fixup Statepoint Caller Saved",
    "Lower invoke and unwind, for unwindless code generators",
    "Prepare callbr",
    "ObjC ARC contraction",
    "Safe Stack instrumentation pass",
    "Insert stack protectors",
    "Merge disjoint stack slots",
    "Merge contiguous icmps into a memcmp",
    "Expand memcmp() to load/stores",
    "Replace intrinsics with calls to vector library",
    "Partially inline calls to library functions",
    "Expand variadic functions",
    "Scalarize Masked Memory Intrinsics",
    "Expand reduction intrinsics",
    "Instrument function entry/exit with calls to e.g. mcount() (post inlining)",
    "Insert fentry calls",
    "Insert XRay ops",
    "Machine Sanitizer Binary Metadata",
    "Remove Loads Into Fake Uses",
    "Stack Frame Layout Analysis",
    "Constant Hoisting",
};

// The scheduler behind the allocation of registers: a sixth of a softmax' compilation. It parts what had come to stand side by side for
// one instruction of two operations.
constexpr llvm::StringLiteral kForDots = "PostRA Machine Instruction Scheduler";

// The first error; without a handler LLVM ends the process.
void keepError(const llvm::DiagnosticInfo *info, void *text) {
  auto &kept = *static_cast<std::string *>(text);
  if (info->getSeverity() == llvm::DS_Error && kept.empty()) {
    llvm::raw_string_ostream stream(kept);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info->print(printer);
  }
}

} // namespace

Backend::Backend(const ir::Target &target) {
  std::string error;
  const llvm::Target *found = compat::lookupTarget(target.triple, error);
  if (found == nullptr) {
    throw ir::Unsupported("this build's LLVM has no backend for " + target.name + ": " + error);
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  machine_ = compat::createTargetMachine(*found, target.triple, target.cpu, target.features, options,
                                         llvm::CodeGenOptLevel::Default);
}

Backend &Backend::of(const ir::Target &target) {
  thread_local std::map<std::string, std::unique_ptr<Backend>> backends;
  std::unique_ptr<Backend> &backend = backends[target.name];
  if (backend == nullptr) {
    backend.reset(new Backend(target));
  }
  return *backend;
}

void Passes::add(llvm::Pass *pass) {
  const llvm::StringRef name = pass->getPassName();
  const bool isIdle = kind_ == KernelKind::WithoutDots && name == kForDots;
  if (isIdle || llvm::is_contained(kWithoutWork, name) || llvm::is_contained(leftOut_, name)) {
    delete pass;
    return;
  }
  if (name == "Prologue/Epilogue Insertion & Frame Finalization") {
    PassManager::add(createPlaceSpills());
  }
  if (name == "SI insert wait instructions") {
    PassManager::add(createRaisePriority());
  }
  PassManager::add(pass);
}

Backend::Writer::Writer(llvm::TargetMachine &machine, FirstPasses first, KernelKind kind, llvm::CodeGenFileType type)
    : passes(first(machine, kind)) {
  if (machine.addPassesToEmitFile(*passes, stream, nullptr, type)) {
    throw ir::InternalError("LLVM's backend does not write such a file");
  }
}

Emitted Backend::emit(llvm::Module &module, FirstPasses first, KernelKind kind, llvm::CodeGenFileType type) {
  const bool isObject = type == llvm::CodeGenFileType::ObjectFile;
  std::unique_ptr<Writer> &kept = objects_[static_cast<size_t>(kind)];
  std::unique_ptr<Writer> writer = isObject ? std::move(kept) : nullptr;
  if (writer == nullptr) {
    writer = std::make_unique<Writer>(*machine_, first, kind, type);
  }
  Emitted made;
  writer->text.clear();
  llvm::LLVMContext &context = module.getContext();
  context.setDiagnosticHandlerCallBack(keepError, &made.error);
  writer->passes->run(module);
  context.setDiagnosticHandlerCallBack(nullptr, nullptr);
  made.bytes = std::string(writer->text);
  if (isObject && made.error.empty()) {
    kept = std::move(writer);
  }
  return made;
}

} // namespace libtile::codegen::amd
