// SPDX-License-Identifier: Apache-2.0
// Copies straight to LDS: an instruction writes the pieces of a wave's lanes one behind the other from where M0 says
// (passes/gpu/row_copies.h). Lanes that are masked off bring nothing, so they write zeros themselves.
#include "codegen/amd/amd_emitter.h"
#include "codegen/llvm_compat.h"
#include "ir/ops.h"

#include <llvm/IR/IntrinsicsAMDGPU.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

namespace libtile::codegen::amd {

namespace {

constexpr uint32_t kAllLanded = 0x0070; // s_waitcnt vmcnt(0) lgkmcnt(0): copies, and zeros
constexpr unsigned kShared = 3;         // address space

} // namespace

void AmdEmitter::lowerAsyncCopy(ir::OpId op) {
  const ir::ValueId pointers = fn_.operand(op, 0), buffer = fn_.operand(op, 1);
  const ir::ValueId mask = fn_.numOperands(op) > 2 ? fn_.operand(op, 2) : ir::ValueId{};
  const ir::Layout &layout = layoutOf(pointers);
  const auto bytes = static_cast<int32_t>(fn_.type(pointers).pointee().elementBytes());
  const int32_t piece = target_.rowCopy, ofWave = piece * target_.warpSize;
  const ir::LayoutInverse inverse(layoutOf(buffer));
  gpu::AccessAddresses addresses(*this, pointers);
  // Known to be the same in all lanes.
  llvm::Value *warp = builder_.CreateCall(wordIntrinsic(llvm::Intrinsic::amdgcn_readfirstlane), {warp_});
  llvm::Value *first = builder_.CreateGEP(builder_.getInt8Ty(), scalar(buffer), builder_.CreateMul(warp, i32(ofWave)));
  const std::vector<RegGroup> groups = accessGroups(pointers, mask, static_cast<unsigned>(bytes));
  if (std::ranges::any_of(groups, [&](const RegGroup &group) { return static_cast<int32_t>(group.size()) * bytes != piece; })) {
    return copyByRegisters(op, groups);
  }
  for (size_t begin = 0, end = 0; begin < groups.size(); begin = end) {
    llvm::Value *on = mask.valid() ? regs(mask)[static_cast<size_t>(groups[begin][0])] : nullptr;
    std::vector<llvm::Value *> places;
    Regs sources;
    for (; end < groups.size() && (on == nullptr || regs(mask)[static_cast<size_t>(groups[end][0])] == on); ++end) {
      const int32_t reg = groups[end][0];
      sources.push_back(pointerOf(addresses.of(reg)));
      places.push_back(builder_.CreateConstGEP1_64(builder_.getInt8Ty(), first, static_cast<uint64_t>(inverse.offsetOf(layout.applyOne(ir::HwDim::Reg, reg)) * bytes)));
    }
    static_cast<void>(where(on, {}, [&]() -> Regs {
      for (size_t i = 0; i < places.size(); ++i) {
        builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_global_load_lds), {sources[i], places[i], i32(piece), i32(0), i32(0)})
            ->setMetadata(llvm::LLVMContext::MD_alias_scope, copied());
      }
      return {};
    }));
    if (on == nullptr) {
      continue;
    }
    static_cast<void>(where(builder_.CreateNot(on), {}, [&]() -> Regs {
      llvm::Value *own = builder_.CreateMul(lane_, i32(piece));
      for (llvm::Value *place : places) {
        llvm::Instruction *zeros = builder_.CreateAlignedStore(llvm::Constant::getNullValue(llvm::FixedVectorType::get(builder_.getInt32Ty(), 4)),
                                    builder_.CreateGEP(builder_.getInt8Ty(), place, own), llvm::Align(static_cast<uint64_t>(piece)));
        zeros->setMetadata(llvm::LLVMContext::MD_noalias, copied()); // beside the bytes of the other lanes
      }
      return {};
    }));
  }
}

// Where less is known of the addresses or the mask than when it was planned.
void AmdEmitter::copyByRegisters(ir::OpId op, const std::vector<RegGroup> &groups) {
  const ir::ValueId pointers = fn_.operand(op, 0), buffer = fn_.operand(op, 1);
  const auto bytes = static_cast<unsigned>(fn_.type(pointers).pointee().elementBytes());
  BufferOffsets offsets = bufferOffsets(layoutOf(pointers), layoutOf(buffer), bytes);
  gpu::AccessAddresses addresses(*this, pointers);
  for (const RegGroup &group : groups) {
    llvm::Type *type = builder_.getIntNTy(static_cast<unsigned>(8 * bytes * group.size()));
    const llvm::Align align(bytes * group.size());
    llvm::Value *on = fn_.numOperands(op) > 2 ? regs(fn_.operand(op, 2))[static_cast<size_t>(group[0])] : nullptr;
    const AccessAddress from = addresses.of(group[0]);
    const Regs loaded = where(on, {llvm::Constant::getNullValue(type)}, [&]() -> Regs { return {builder_.CreateAlignedLoad(type, pointerOf(from), align)}; });
    builder_.CreateAlignedStore(loaded[0], bufferPointer(scalar(buffer), offsets, group[0]), align);
  }
}

void AmdEmitter::lowerAsyncCommit(ir::OpId) {}

void AmdEmitter::lowerAsyncWait(ir::OpId op) {
  ir::check(fn_.getInt(op, ir::Attr::count) == 0, "all copies are waited for");
  builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_s_waitcnt), {i32(kAllLanded)});
  builder_.CreateFence(llvm::AtomicOrdering::Acquire, context_.getOrInsertSyncScopeID("wavefront")); // LLVM moves loads above a mere wait
}

llvm::MDNode *AmdEmitter::copied() {
  if (copied_ == nullptr) {
    llvm::MDBuilder metadata(context_);
    llvm::MDNode *domain = metadata.createAnonymousAliasScopeDomain("copies");
    copied_ = llvm::MDNode::get(context_, {metadata.createAnonymousAliasScope(domain, "copied")});
  }
  return copied_;
}

// Barriers stand between a copy and the reads of what it brings, and wait for it. LLVM would wait in front of each read for all copies.
void AmdEmitter::separateReads() {
  if (copied_ == nullptr) {
    return;
  }
  const auto reads = [](const llvm::Instruction &each) {
    const auto *load = llvm::dyn_cast<llvm::LoadInst>(&each);
    const auto *call = llvm::dyn_cast<llvm::CallInst>(&each);
    const llvm::Function *called = call == nullptr ? nullptr : call->getCalledFunction();
    return (load != nullptr && load->getPointerAddressSpace() == kShared) || (called != nullptr && called->getName().starts_with("llvm.amdgcn.ds.read.tr"));
  };
  for (llvm::Instruction &each : llvm::instructions(*kernel_)) {
    if (reads(each)) {
      each.setMetadata(llvm::LLVMContext::MD_noalias, copied_);
    }
  }
}

} // namespace libtile::codegen::amd
