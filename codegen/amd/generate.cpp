// SPDX-License-Identifier: Apache-2.0
// A staged function as an object of AMD's: LLVM IR, and LLVM's backend, which ends in machine code.
#include "codegen/amd/amd_emitter.h"
#include "codegen/amd/code_object.h"
#include "codegen/amd/machine.h"
#include "codegen/backends.h"
#include "codegen/gpu/module.h"
#include "ir/ops.h"

#include <llvm-c/Target.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Transforms/Scalar.h>

#include <algorithm>
#include <array>
#include <mutex>

namespace libtile::codegen::amd {

namespace {

constexpr uint32_t kCodeObjectVersion = 500;

// As a command line would: what an option's variable is, only its parser knows. Other versions of LLVM lack some of them.
void setOption(llvm::StringRef name, llvm::StringRef value) {
  const auto &options = llvm::cl::getRegisteredOptions();
  if (const auto found = options.find(name); found != options.end()) {
    const bool isWrong = found->second->addOccurrence(0, name, value);
    ir::check(!isWrong, "an option of the AMD backend takes no such value");
  }
}

void setOptions() {
  // The backend asks scalar evolution about chains of minima, which sorts consist of: it compares such expressions in a time that
  // grows with two to the power of this depth, 32 by default. What it is for, their order in sums, needs no more than a few.
  setOption("scalar-evolution-max-scev-compare-depth", "8");
  // LLVM 19 loses a register of a group that is spilled to the other file in part.
  setOption("amdgpu-spill-vgpr-to-agpr", "false");
  // LLVM 22 puts scalar registers for which there is no room into lanes of vector registers, and where it has no room for all of these
  // it takes one for undefined on a path on which it is not: a mask was lost. In memory they are slower and stay.
  setOption("amdgpu-spill-sgpr-to-vgpr", "false");
  // Matrix instructions keep sums in the common registers. In the others they are copied to and fro at each turn of a loop, and
  // what is computed from them has to be read back.
  setOption("amdgpu-mfma-vgpr-form", "true");
  // They take a fifth of the backend's time, most of it for products that share a factor. What pays of them is in addressPasses.
  setOption("amdgpu-scalar-ir-passes", "false");
  // Its search for memory that registers can hold during a loop compares each access of the loop with all others, a thirtieth of a
  // product's time. What loops carry is in registers; only one that stores to the same address at each turn would gain.
  setOption("disable-licm-promotion", "true");
}

// LLVM's passes that are left out: what they look for is a language's or a graphics driver's, or registers that no target here
// has, or memory of a thread's own, and no kernel has that before registers are spilled.
constexpr std::array<llvm::StringLiteral, 14> kLeftOut = {
    "AMDGPU Remove Incompatible Functions",
    "AMDGPU Printf lowering",
    "Lower ctors and dtors for AMDGPU",
    "AMDGPU Image Intrinsic Optimizer",
    "Externalize enqueued block runtime handles",
    "AMDGPU lowering of execution synchronization",
    "AMDGPU Software lowering of LDS",
    "AMDGPU Promote Alloca",
    "Lower buffer fat pointer operations to buffer resources",
    "AMDGPU Preload Kernel Arguments",
    "AMDGPU Preload Kernel Arguments Prolog",
    "GCN NSA Reassign",
    "AMDGPU Lower VGPR Encoding",
    // No value is frozen; and it calls itself for each loop in front of a loop.
    "Canonicalize Freeze Instructions in Loops",
};

// Addresses that differ by a constant become one, with offsets that instructions have room for.
std::unique_ptr<llvm::legacy::PassManager> addressPasses(llvm::TargetMachine &machine, KernelKind kind) {
  auto passes = std::make_unique<Passes>(kLeftOut, kind);
  passes->add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  passes->add(llvm::createSeparateConstOffsetFromGEPPass());
  passes->add(llvm::createEarlyCSEPass());
  return passes;
}

// Instruction selection takes a block at a time, and some of its steps are more than linear in a block's
// length: what it asks of the bits of a value looks at up to 64 others. The assembler puts the parts
// together again.
void splitLongBlocks(llvm::Function &kernel) {
  constexpr size_t kLongest = 1024;
  for (llvm::BasicBlock &block : llvm::make_early_inc_range(kernel)) {
    // From the end, so that each instruction changes its block once.
    for (size_t length = block.size(); length > 2 * kLongest; length -= kLongest) {
      const auto first = std::prev(block.end(), kLongest);
      if (llvm::isa<llvm::PHINode>(*first)) {
        break; // phis stay together, at the head
      }
      block.splitBasicBlock(first);
    }
  }
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
  Backend &backend = Backend::of(target);
  const auto module = gpu::newModule(fn, target, options, backend.machine().createDataLayout(), keep);
  module->addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", kCodeObjectVersion);

  Code code;
  code.info.symbol = gpu::symbolFor(fn.name);
  code.info.threads = fn.numWarps * target.warpSize;
  code.info.sharedBytes = fn.arenaBytes;
  AmdEmitter emitter(fn, target, options, *module);
  emitter.run(code.info.symbol);
  splitLongBlocks(*module->getFunction(code.info.symbol));
  emitter.separateReads();
  code.info.records = emitter.records();
  gpu::finish(*module, fn, options, code);
  const bool asText = options.keepAssembly;
  const bool hasDots = std::ranges::any_of(fn.walk(), [&](ir::OpId op) { return fn.opcode(op) == ir::Opcode::Dot; });
  const auto [bytes, error] = backend.emit(*module, addressPasses, hasDots ? KernelKind::WithDots : KernelKind::WithoutDots,
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
