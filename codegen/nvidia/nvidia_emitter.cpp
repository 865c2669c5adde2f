// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/nvidia_emitter.h"

#include "codegen/llvm_compat.h"
#include "ir/ops.h"
#include "passes/gpu/live_tiles.h"
#include "passes/gpu/shared_accesses.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

namespace libtile::codegen::nvidia {

NvidiaEmitter::NvidiaEmitter(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, llvm::Module &module)
    : Emitter(fn, target, options, module, elements_), inCluster_(passes::clusterOf(fn) > 1) {
  elements_.setFlushes(options.flushes);
}

// Programs that a multiprocessor is told to hold at least; 0: ptxas chooses. Where tiles take all that a thread may have, it may give
// up: 32 registers, and thousands of bytes in memory (ptxas 12.9 to 13.5, sm_80 to sm_89). Told of no more programs than there are
// with all registers, it uses them.
int32_t NvidiaEmitter::leastPrograms() const {
  const int64_t most = passes::threadRegisters(fn_, target_);
  const int32_t warps = passes::blockWarps(fn_);
  if (fn_.resident > 0 || passes::liveOfThread(fn_, target_) + passes::kBesideTiles <= most) {
    const Residents residents = mostResident(target_);
    return std::min({fn_.resident, residents.warps / warps, residents.programs}); // of more it heeds nothing
  }
  const int64_t threads = int64_t{warps} * target_.warpSize;
  return static_cast<int32_t>(std::max<int64_t>(1, target_.registers / (threads * passes::kNamedRegisters)));
}

// A tensor map's descriptor stays where the launch has put it.
void NvidiaEmitter::markKernel() {
  kernel_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  kernel_->addFnAttr(llvm::Attribute::NoUnwind);
  const int32_t threads = passes::blockWarps(fn_) * target_.warpSize;
  // Newer versions read the attribute, older ones the annotations.
  kernel_->addFnAttr("nvvm.maxntid", std::to_string(threads));
  llvm::NamedMDNode *annotations = module_.getOrInsertNamedMetadata("nvvm.annotations");
  const auto annotate = [&](const char *name, int32_t value) {
    annotations->addOperand(llvm::MDNode::get(
        context_, {llvm::ValueAsMetadata::get(kernel_), llvm::MDString::get(context_, name),
                   llvm::ConstantAsMetadata::get(i32(value))}));
  };
  annotate("kernel", 1);
  annotate("maxntidx", threads);
  auto *descriptor = llvm::ArrayType::get(builder_.getInt8Ty(), ir::TensorMap::kBytes);
  const auto firstMap = static_cast<unsigned>(fn_.params.size()), end = firstMap + static_cast<unsigned>(fn_.maps.size());
  for (unsigned i = firstMap; i < end; ++i) {
    kernel_->addParamAttr(i, llvm::Attribute::getWithByValType(context_, descriptor));
    kernel_->addParamAttr(i, llvm::Attribute::getWithAlignment(context_, llvm::Align(ir::TensorMap::kAlign)));
  }
  compat::markGridConstants(*kernel_, firstMap, end);
  if (const int32_t programs = leastPrograms(); programs > 0) {
    kernel_->addFnAttr("nvvm.minctasm", std::to_string(programs));
    annotate("minctasm", programs);
  }
  if (options_.maxRegisters > 0) {
    kernel_->addFnAttr("nvvm.maxnreg", std::to_string(options_.maxRegisters));
    annotate("maxnreg", options_.maxRegisters);
  }
}

// No access, of LLVM's or of the assembler's making, passes it.
void NvidiaEmitter::lowerGridWait(ir::OpId) { assembly("griddepcontrol.wait;", "", builder_.getVoidTy(), {}, true, true); }

void NvidiaEmitter::lowerLaunchDependents(ir::OpId) {
  assembly("griddepcontrol.launch_dependents;", "", builder_.getVoidTy(), {}, true, true);
}

llvm::Value *NvidiaEmitter::specialRegister(llvm::Intrinsic::ID id) {
  return builder_.CreateCall(compat::intrinsic(module_, id));
}

llvm::Value *NvidiaEmitter::threadIndex() { return specialRegister(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x); }

// Lane 0's, of which ptxas knows that all lanes have it: what is computed of it lies in uniform registers, and a branch on it keeps
// warps together. Behind one on the thread's number all addresses and descriptors would be each lane's own.
llvm::Value *NvidiaEmitter::warpNumber() {
  if (passes::blockWarps(fn_) == 1) {
    return i32(0);
  }
  return inPrologue("warp", [&] {
    return assembly("shfl.sync.idx.b32 $0, $1, 0, 31, 0xffffffff;", "=r,r", builder_.getInt32Ty(),
                    {builder_.CreateUDiv(thread_, i32(target_.warpSize))}, true, true);
  });
}

llvm::Value *NvidiaEmitter::isFirstWarp() {
  llvm::Value *const warp = warpNumber();
  return inPrologue("first warp", [&] { return builder_.CreateICmpEQ(warp, i32(0)); });
}

llvm::Value *NvidiaEmitter::programIndex(int64_t axis) {
  constexpr llvm::Intrinsic::ID kIds[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                          llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                          llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
  return specialRegister(kIds[axis]);
}

llvm::Value *NvidiaEmitter::programCount(int64_t axis) {
  constexpr llvm::Intrinsic::ID kIds[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x,
                                          llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_y,
                                          llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_z};
  return specialRegister(kIds[axis]);
}

llvm::Value *NvidiaEmitter::clock() {
  return assembly("mov.u64 $0, %globaltimer;", "=l", builder_.getInt64Ty(), {}, true);
}

void NvidiaEmitter::warpBarrier() {
  assembly("bar.warp.sync 0xffffffff;", "", builder_.getVoidTy(), {}, true, true);
}

void NvidiaEmitter::barrier() {
  if (fn_.numWarps == 1) {
    warpBarrier();
  } else {
    // Barrier 0 is the whole block's, a producer among them.
    const bool isWhole = passes::blockWarps(fn_) == fn_.numWarps;
    assembly(isWhole ? "bar.sync 0;" : "bar.sync 1, " + std::to_string(fn_.numWarps * target_.warpSize) + ";", "",
             builder_.getVoidTy(), {}, true, true);
  }
}

// ptxas sees through moves, and numbers equal values across barriers. What it does not know is that shared memory is smaller
// than 2^31 bytes.
llvm::Value *NvidiaEmitter::holdWord(llvm::Value *word) {
  llvm::Value *zero = inPrologue("zero", [&] {
    return builder_.CreateLShr(assembly("mov.u32 $0, %dynamic_smem_size;", "=r", builder_.getInt32Ty(), {}, false), 31);
  });
  return assembly("xor.b32 $0, $1, $2;", "=r,r,r", builder_.getInt32Ty(), {word, zero}, false);
}

llvm::Value *NvidiaEmitter::shuffleWord(llvm::Value *word, const gpu::LaneExchange &exchange) {
  const std::string text = std::string("shfl.sync.") + (exchange.mode == gpu::LaneExchange::Mode::Xor ? "bfly" : "idx") + ".b32 $0, $1, $2, 0x1f, 0xffffffff;";
  return assembly(text, "=r,r,r", builder_.getInt32Ty(), {word, exchange.operand}, false, true);
}

} // namespace libtile::codegen::nvidia
