// SPDX-License-Identifier: Apache-2.0
// The module around a kernel, and its PTX (ptx/writer.h): no passes in between, code is straight already.
#include "codegen/backends.h"
#include "codegen/gpu/module.h"
#include "codegen/nvidia/early_folds.h"
#include "codegen/nvidia/nvidia_emitter.h"
#include "codegen/nvidia/ptx/writer.h"
#include "codegen/nvidia/ptxas_faults.h"
#include "ir/ops.h"
#include "passes/gpu/shared_accesses.h"

#include <llvm/ADT/STLExtras.h>

namespace libtile::codegen::nvidia {

namespace {

// "+ptx81" is version 8.1.
ptx::Version versionOf(const ir::Target &target) {
  const llvm::StringRef digits = llvm::StringRef(target.features).drop_front(llvm::StringRef("+ptx").size());
  return {(digits.drop_back(1) + "." + digits.take_back(1)).str(), target.cpu};
}

// Two names are the driver's (emit_messages.cpp).
std::string symbolFor(const std::string &name) {
  return name == "vprintf" || name == "__assertfail" ? "_" + name : gpu::symbolFor(name);
}

} // namespace

Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, Kept &keep) {
  ir::check(fn.stage == ir::Stage::Staged, "the NVIDIA generator takes a staged function");
  const auto module = gpu::newModule(fn, target, options, llvm::DataLayout(ptx::kDataLayout), keep);

  Code code;
  code.info.symbol = symbolFor(fn.name);
  code.info.threads = passes::blockWarps(fn) * target.warpSize;
  code.info.sharedBytes = fn.arenaBytes;
  code.info.lines = options.lines;
  code.info.cooperative = options.cooperative;
  // Code that does not wait must not start early, whatever was asked for.
  code.info.overlaps = options.overlaps && target.gridDependencies &&
                       llvm::any_of(fn.walk(), [&](ir::OpId op) { return fn.opcode(op) == ir::Opcode::GridWait; });
  code.info.cluster = passes::clusterOf(fn);
  code.info.maps = fn.maps;
  code.info.sharesBlocks = passes::sharesBlocks(fn);
  code.info.asserts = llvm::any_of(fn.walk(), [&](ir::OpId op) { return fn.opcode(op) == ir::Opcode::Assert; });
  NvidiaEmitter(fn, target, options, *module).run(code.info.symbol);
  foldEarly(*module->getFunction(code.info.symbol));
  gpu::finish(*module, fn, options, code);
  code.assembly = avoidPtxasFaults(ptx::write(*module, versionOf(target)));
  return code;
}

} // namespace libtile::codegen::nvidia
