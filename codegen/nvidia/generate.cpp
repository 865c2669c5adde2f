// SPDX-License-Identifier: Apache-2.0
// The module around a kernel, and its PTX by LLVM's NVPTX backend: no pass pipeline of ours, the
// backend's own is enough for code that is straight already. LIBTILE_PTX_WRITER has our own writer write it (ptx/writer.h).
#include "codegen/backends.h"
#include "codegen/gpu/module.h"
#include "codegen/nvidia/nvidia_emitter.h"
#include "codegen/nvidia/forward_copies.h"
#include "codegen/nvidia/ptx/writer.h"
#include "codegen/nvidia/ptxas_faults.h"
#include "ir/ops.h"
#include "passes/gpu/shared_accesses.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/Pass.h>
#include <llvm/Support/TargetSelect.h>

#include <array>
#include <cstdlib>
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

class Passes final : public gpu::Passes {
public:
  explicit Passes(const llvm::Module &module) : gpu::Passes(kLeftOut), isLong_(module.getInstructionCount() > kLongest) {}
  void add(llvm::Pass *pass) override {
    const bool isQuadratic = pass->getPassName() == kQuadratic;
    if (isQuadratic) {
      PassManager::add(makeForwardCopies());
    }
    if (isQuadratic && isLong_) {
      delete pass;
      return;
    }
    gpu::Passes::add(pass);
  }

private:
  bool isLong_;
};

// "+ptx81" is version 8.1.
ptx::Version versionOf(const ir::Target &target) {
  const llvm::StringRef digits = llvm::StringRef(target.features).drop_front(llvm::StringRef("+ptx").size());
  return {(digits.drop_back(1) + "." + digits.take_back(1)).str(), target.cpu};
}

// Two names are the driver's (emit_messages.cpp).
std::string symbolFor(const std::string &name) {
  return name == "vprintf" || name == "__assertfail" ? "_" + name : gpu::symbolFor(name);
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

} // namespace

Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, Kept &keep) {
  ir::check(fn.stage == ir::Stage::Staged, "the NVIDIA generator takes a staged function");
  initialise();
  llvm::TargetMachine &machine = gpu::machineFor(target);
  const auto module = gpu::newModule(fn, target, options, machine, keep);

  Code code;
  code.info.symbol = symbolFor(fn.name);
  code.info.threads = passes::blockWarps(fn) * target.warpSize;
  code.info.sharedBytes = fn.arenaBytes;
  code.info.lines = options.lines;
  code.info.cooperative = options.cooperative;
  // Code that does not wait must not start early, whatever was asked for.
  code.info.overlaps = options.overlaps && target.gridDependencies &&
                       llvm::any_of(fn.walk(), [&](ir::OpId op) { return fn.opcode(op) == ir::Opcode::GridWait; });
  code.info.maps = fn.maps;
  code.info.sharesBlocks = passes::sharesBlocks(fn);
  code.info.asserts = llvm::any_of(fn.walk(), [&](ir::OpId op) { return fn.opcode(op) == ir::Opcode::Assert; });
  NvidiaEmitter(fn, target, options, *module).run(code.info.symbol);
  gpu::finish(*module, fn, options, code);
  if (std::getenv("LIBTILE_PTX_WRITER") != nullptr) {
    code.assembly = avoidPtxasFaults(ptx::write(*module, versionOf(target)));
    return code;
  }
  const auto [text, error] =
      gpu::emit(machine, *module, std::make_unique<Passes>(*module), llvm::CodeGenFileType::AssemblyFile);
  if (!error.empty()) {
    throw ir::UserError("in the kernel's assembly: " + error);
  }
  code.assembly = withoutCallNumbers(avoidPtxasFaults(text));
  return code;
}

} // namespace libtile::codegen::nvidia
