// SPDX-License-Identifier: Apache-2.0
// The module around a kernel, and its PTX by LLVM's NVPTX backend: no pass pipeline of ours, the
// backend's own is enough for code that is straight already.
#include "codegen/backends.h"
#include "codegen/llvm_compat.h"
#include "codegen/nvidia/nvidia_emitter.h"
#include "codegen/nvidia/forward_copies.h"
#include "codegen/nvidia/ptxas_faults.h"
#include "ir/ops.h"
#include "passes/gpu/shared_accesses.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Pass.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <array>
#include <cctype>
#include <mutex>

namespace libtile::codegen::nvidia {

namespace {

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

// LLVM's passes that are left out. They take three quarters of the backend's time on unrolled code
// (some are quadratic in a block's length) and gain nothing: addresses are bases and immediates
// already, invariants stand in front of their loops, and ptxas, which comes next, has passes of its
// own for the rest.
constexpr std::array<llvm::StringLiteral, 9> kLeftOut = {
    "Straight line strength reduction", "Nary reassociation",
    "Loop Strength Reduction",          "GPU Load and Store Vectorizer",
    "Early CSE",                        "CodeGen Prepare",
    // It would take index registers out of the loop and keep them alive in it.
    "Early Machine Loop Invariant Code Motion",
    // Prepares what strength reduction is to find. It calls itself for each loop in front of a loop: a stack
    // does not hold the calls for some thousands of them.
    "Canonicalize Freeze Instructions in Loops",
    // Quadratic in the copies of one register; and it copies anew what a loop starts with.
    "Peephole Optimizations",
};

// Finds what blocks compute again. Whatever it finds, it looks at all uses of the first one: quadratic in long
// code, which goes without. ptxas finds the same: SASS is as long then, from PTX that is up to a third longer.
constexpr llvm::StringLiteral kQuadratic = "Machine Common Subexpression Elimination";
constexpr unsigned kLongest = 20000; // instructions: below, it takes less than a tenth of the backend's time

class Passes final : public llvm::legacy::PassManager {
public:
  explicit Passes(const llvm::Module &module) : isLong_(module.getInstructionCount() > kLongest) {}
  void add(llvm::Pass *pass) override {
    const llvm::StringRef name = pass->getPassName();
    if (name == kQuadratic) {
      PassManager::add(makeForwardCopies());
    }
    if (llvm::is_contained(kLeftOut, name) || (name == kQuadratic && isLong_)) {
      delete pass;
      return;
    }
    PassManager::add(pass);
  }

private:
  bool isLong_;
};

// One machine a target and thread: making one costs more than a small kernel's code.
llvm::TargetMachine &machineFor(const ir::Target &target) {
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine> &machine = machines[target.name];
  if (machine == nullptr) {
    std::string error;
    const llvm::Target *found = compat::lookupTarget(target.triple, error);
    if (found == nullptr) {
      throw ir::Unsupported("this build's LLVM has no NVPTX backend: " + error);
    }
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
    machine = compat::createTargetMachine(*found, target.triple, target.cpu, target.features,
                                          options, llvm::CodeGenOptLevel::Default);
  }
  return *machine;
}

// PTX names are letters, digits, _ and $; two are the driver's (emit_messages.cpp).
std::string symbolFor(const std::string &name) {
  if (name == "vprintf" || name == "__assertfail") {
    return "_" + name;
  }
  std::string out;
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x80 && std::isalnum(byte) != 0 ? std::string(1, c) : std::string("_");
  }
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0 ? "_" + out : out;
}

// LLVM numbers the calls of all kernels of a thread in comments, "// callseq 3, 0". Without them the text of a kernel is
// the same each time.
std::string withoutCallNumbers(llvm::StringRef text) {
  std::string kept;
  kept.reserve(text.size());
  while (!text.empty()) {
    const auto [before, comment] = text.split(" // callseq ");
    kept += before;
    text = comment.drop_until([](char c) { return c == '\n'; });
  }
  return kept;
}

// Of the errors that LLVM finds in the user's assembly the first; without a handler it ends the process.
void keepError(const llvm::DiagnosticInfo *info, void *text) {
  auto &kept = *static_cast<std::string *>(text);
  if (info->getSeverity() == llvm::DS_Error && kept.empty()) {
    llvm::raw_string_ostream stream(kept);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info->print(printer);
  }
}

template <class T> std::string printed(const T &object) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  object.print(stream, nullptr);
  return text;
}

} // namespace

Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options,
              std::vector<std::shared_ptr<void>> &keep) {
  ir::check(fn.stage == ir::Stage::Staged, "the NVIDIA generator takes a staged function");
  initialise();
  auto context = std::make_shared<llvm::LLVMContext>();
  keep.push_back(context);
  context->setDiscardValueNames(!options.keepLlvm);
  // The module holds on to its context, in whatever order the two are let go.
  const std::shared_ptr<llvm::Module> module(new llvm::Module(fn.name, *context),
                                             [context](llvm::Module *held) { delete held; });
  keep.push_back(module);
  llvm::TargetMachine &machine = machineFor(target);
  compat::setTriple(*module, target.triple);
  module->setDataLayout(machine.createDataLayout());

  Code code;
  code.info.symbol = symbolFor(fn.name);
  code.info.threads = passes::blockWarps(fn) * target.warpSize;
  code.info.sharedBytes = fn.arenaBytes;
  code.info.lines = options.lines;
  code.info.cooperative = options.cooperative;
  code.info.maps = fn.maps;
  code.info.asserts = llvm::any_of(fn.walk(), [&](ir::OpId op) { return fn.opcode(op) == ir::Opcode::Assert; });
  NvidiaEmitter(fn, target, options, *module).run(code.info.symbol);
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(*module, &problems)) {
    throw ir::InternalError("invalid LLVM IR: " + problem, {}, fn.str());
  }
  if (options.keepLlvm) {
    code.llvm = printed(*module);
  }
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  Passes passes(*module);
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    throw ir::InternalError("the NVPTX backend writes no assembly");
  }
  std::string error;
  context->setDiagnosticHandlerCallBack(keepError, &error);
  passes.run(*module);
  context->setDiagnosticHandlerCallBack(nullptr, nullptr);
  if (!error.empty()) {
    throw ir::UserError("in the kernel's assembly: " + error);
  }
  code.assembly = withoutCallNumbers(avoidPtxasFaults(text));
  return code;
}

} // namespace libtile::codegen::nvidia
