// SPDX-License-Identifier: Apache-2.0
// LLVM's part on a CPU: from the module that the emitter filled to a relocatable object.
//
// What the emitter makes is clean SSA already, with invariants hoisted and nothing dead, so no
// optimisation pipeline runs before instruction selection. Loop strength reduction is left out of
// the back end: addresses are a base plus an index that the instructions scale, and the pass takes
// a quarter of the time of a matmul's compilation.
#include "codegen/backends.h"
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/frame.h"
#include "codegen/cpu/recent_objects.h"
#include "codegen/llvm_compat.h"
#include "ir/ops.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <mutex>

namespace libtile::codegen::cpu {

namespace {

// Where code accesses memory more often than this without a branch, LLVM's scheduler stops to compare each
// access with each before it. Its own limit is 1000: 2.3 s for 4000 loads and stores, 0.3 s with this one.
void limitSchedulerMaps() {
  constexpr llvm::StringLiteral kName = "dag-maps-huge-region";
  const auto option = llvm::cl::getRegisteredOptions().find(kName);
  if (option != llvm::cl::getRegisteredOptions().end()) {
    option->second->addOccurrence(0, kName, "200");
  }
}

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    limitSchedulerMaps();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

std::unique_ptr<llvm::TargetMachine> makeMachine(const ir::Target &target) {
  initialise();
  std::string error;
  const llvm::Target *found = compat::lookupTarget(target.triple, error);
  if (found == nullptr) {
    throw ir::Unsupported("this LLVM cannot generate code for " + target.name + ": " + error);
  }
  llvm::TargetOptions options;
  options.FunctionSections = true;
  return compat::createTargetMachine(*found, target.triple, target.cpu, target.features, options,
                                     llvm::CodeGenOptLevel::Default);
}

void emitFile(llvm::TargetMachine &machine, llvm::Module &module, llvm::CodeGenFileType type,
              llvm::SmallVectorImpl<char> &out) {
  llvm::raw_svector_ostream stream(out);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true)) {
    throw ir::InternalError("LLVM's target cannot emit this kind of file");
  }
  passes.run(module);
}

// Never destroyed: threads compile while the process ends.
RecentObjects &recentObjects() {
  static auto *const objects = new RecentObjects;
  return *objects;
}

std::vector<char> emitObject(llvm::TargetMachine &machine, llvm::Module &module, bool reuse) {
  const auto emitted = [&] {
    llvm::SmallVector<char, 0> out;
    emitFile(machine, module, llvm::CodeGenFileType::ObjectFile, out);
    return std::vector<char>(out.begin(), out.end());
  };
  if (!reuse) {
    return emitted();
  }
  const RecentObjects::Key key = RecentObjects::keyOf(module, machine); // the back end changes the module
  if (std::optional<std::vector<char>> known = recentObjects().find(key)) {
    return std::move(*known);
  }
  std::vector<char> object = emitted();
  recentObjects().keep(key, object);
  return object;
}

// Whether a program may wait for another one: in a loop of unknown length that reads what others write, or in a
// counted one that it leaves then. Between programs only atomics and volatile accesses order anything.
bool mayWait(const ir::Function &fn) {
  return std::ranges::any_of(fn.walk(), [&](ir::OpId op) {
    const bool open = fn.opcode(op) == ir::Opcode::While;
    const bool left = fn.opcode(op) == ir::Opcode::For && fn.getBool(op, ir::Attr::stop);
    const ir::Effects effects = open || left ? fn.effects(op) : ir::Effects();
    return effects.has(ir::Effects::ReadsGlobal) && (open || effects.has(ir::Effects::Ordered));
  });
}

} // namespace

Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options,
              std::vector<std::shared_ptr<void>> &keep) {
  const std::shared_ptr<llvm::TargetMachine> machine = makeMachine(target);
  keep.push_back(machine);
  const auto context = std::make_shared<llvm::LLVMContext>();
  keep.push_back(context);
  context->setDiscardValueNames(!options.keepLlvm);
  const auto gate = std::make_shared<compat::WithoutPass>("Loop Strength Reduction");
  keep.insert(keep.end() - 1, gate);
  context->setOptPassGate(*gate);
  const auto module = std::make_shared<llvm::Module>(fn.name, *context);
  keep.push_back(module);
  compat::setTriple(*module, target.triple);
  module->setDataLayout(machine->createDataLayout());
  Code code;
  Emitter emitter(fn, target, *module);
  emitter.run();
  code.info.accesses = emitter.checkedAccesses();
  code.info.messages = emitter.messages();
  std::string broken;
  llvm::raw_string_ostream report(broken);
  if (options.keepLlvm) {
    llvm::raw_string_ostream stream(code.llvm);
    module->print(stream, nullptr);
  }
  if (llvm::verifyModule(*module, &report)) {
    throw ir::InternalError("the LLVM IR of @" + fn.name + " is broken: " + broken, {}, fn.str());
  }
  code.info.symbol = symbolOf(fn);
  code.info.scratchBytes = fn.arenaBytes;
  code.info.frameVersion = LIBTILE_FRAME_VERSION;
  code.info.inOrder = mayWait(fn);
  if (options.keepAssembly) {
    // The back end changes the module, so the text comes from a copy made by a second emission.
    llvm::Module copy(fn.name, *context);
    compat::setTriple(copy, target.triple);
    copy.setDataLayout(machine->createDataLayout());
    Emitter(fn, target, copy).run();
    llvm::SmallVector<char, 0> out;
    emitFile(*machine, copy, llvm::CodeGenFileType::AssemblyFile, out);
    code.assembly.assign(out.begin(), out.end());
  }
  code.object = emitObject(*machine, *module, options.reuse);
  return code;
}

void forgetRecentObjects() { recentObjects().clear(); }

} // namespace libtile::codegen::cpu
