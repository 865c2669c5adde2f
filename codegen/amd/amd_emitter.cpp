// SPDX-License-Identifier: Apache-2.0
#include "codegen/amd/amd_emitter.h"

#include "codegen/amd/description.h"
#include "codegen/amd/raise_priority.h"
#include "codegen/llvm_compat.h"
#include "ir/ops.h"
#include "passes/gpu/live_tiles.h"
#include "passes/gpu/shared_accesses.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsAMDGPU.h>

namespace libtile::codegen::amd {

namespace {

// The implicit arguments of code object version 5: extents of the grid in workgroups come first, an i32 each.
constexpr int64_t kCountBytes = 4;
constexpr int64_t kClockNanoseconds = 10; // of one tick: 100 MHz
constexpr unsigned kConstant = 4;         // address space

} // namespace

AmdEmitter::AmdEmitter(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, llvm::Module &module)
    : Emitter(fn, target, options, module, elements_) {
  elements_.setFlushes(options.flushes);
  elements_.setPacks(addsPairs(target));
  elements_.setJoins(joinsPairs(target));
}

void AmdEmitter::markKernel() {
  const std::string threads = std::to_string(fn_.numWarps * target_.warpSize);
  kernel_->setCallingConv(llvm::CallingConv::AMDGPU_KERNEL);
  kernel_->addFnAttr(llvm::Attribute::NoUnwind);
  kernel_->addFnAttr("amdgpu-flat-work-group-size", threads + "," + threads);
  kernel_->addFnAttr("uniform-work-group-size", "true");
  // A maximum of a signaling NaN and a number is the number, without an instruction that makes the NaN a quiet one.
  kernel_->addFnAttr("amdgpu-ieee", "false");
  if (matricesBeside(target_)) {
    raisePriority(*kernel_);
  }
  if (const int32_t waves = leastWaves(); waves > 0) {
    kernel_->addFnAttr("amdgpu-waves-per-eu", std::to_string(waves));
    if (waves > 1) {
      // All registers are common ones: LLVM would give half of them to sums, and move these to and fro.
      kernel_->addFnAttr("amdgpu-agpr-alloc", "0");
    }
  }
}

// Waves that a SIMD shall have registers for, 0: any. Beyond those that instructions name, others cost moves and the second wave; where
// tiles leave room among them, what LLVM would take more is for values outside of loops.
int32_t AmdEmitter::leastWaves() const {
  if (options_.waves > 0 || target_.registersPerThread <= passes::kNamedRegisters) {
    return options_.waves;
  }
  return passes::liveOfThread(fn_, target_) + passes::kBesideTiles <= passes::kNamedRegisters ? 2 : 0;
}

llvm::Value *AmdEmitter::threadIndex() {
  return builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_workitem_id_x));
}

llvm::Value *AmdEmitter::programIndex(int64_t axis) {
  constexpr llvm::Intrinsic::ID kIds[] = {llvm::Intrinsic::amdgcn_workgroup_id_x, llvm::Intrinsic::amdgcn_workgroup_id_y,
                                          llvm::Intrinsic::amdgcn_workgroup_id_z};
  return builder_.CreateCall(compat::intrinsic(module_, kIds[axis]));
}

llvm::Value *AmdEmitter::programCount(int64_t axis) {
  llvm::Value *arguments = builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_implicitarg_ptr));
  ir::check(arguments->getType()->getPointerAddressSpace() == kConstant, "implicit arguments are constants");
  llvm::Value *place = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), arguments, static_cast<uint64_t>(axis * kCountBytes));
  return builder_.CreateAlignedLoad(builder_.getInt32Ty(), place, llvm::Align(4));
}

llvm::Value *AmdEmitter::clock() {
  llvm::Value *ticks = builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::readsteadycounter));
  return builder_.CreateMul(ticks, builder_.getInt64(kClockNanoseconds));
}

llvm::Value *AmdEmitter::holdWord(llvm::Value *word) { return assembly("", "=v,0", word->getType(), {word}, false); }

// Accesses in front of it are seen by all threads behind it.
void AmdEmitter::barrier() {
  const llvm::SyncScope::ID group = context_.getOrInsertSyncScopeID("workgroup");
  if (fn_.numWarps == 1) {
    return warpBarrier();
  }
  // LLVM's machine code sinks loads below fences and barriers, into blocks behind, but not below assembly that may access memory. So
  // may what has an operand that is no register. A clobber of memory would say it, too, but its name is compared with those of all
  // registers: a thirtieth of a layer norm's compilation for each barrier.
  auto *type = llvm::FunctionType::get(builder_.getVoidTy(), {builder_.getInt32Ty()}, false);
  builder_.CreateCall(type, llvm::InlineAsm::get(type, "", "I", true), {builder_.getInt32(0)})->addFnAttr(llvm::Attribute::NoUnwind);
  builder_.CreateFence(llvm::AtomicOrdering::Release, group);
  builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_s_barrier));
  builder_.CreateFence(llvm::AtomicOrdering::Acquire, group);
}

// LLVM decides what a barrier waits for when it first sees it, and takes what is not under way then out of the wait for good. In a
// loop's first block it has not seen the last one yet: nothing that others shall see may be under way from there, but for copies, which
// have a wait of their own.
void AmdEmitter::endIteration(ir::OpId loop) {
  const auto writes = [&](ir::OpId op) {
    return fn_.opcode(op) != ir::Opcode::AsyncCopy && (fn_.ownEffects(op).has(ir::Effects::WritesBuffer) || fn_.ownEffects(op).has(ir::Effects::WritesGlobal));
  };
  const ir::BlockId body = fn_.regions(loop).back();
  bool isUnderWay = false, meet = false;
  for (const ir::OpId op : fn_.walk(body)) {
    const bool meetsHere = fn_.opcode(op) == ir::Opcode::Barrier || passes::meetsInside(fn_, op);
    meet = meet || meetsHere;
    isUnderWay = writes(op) || (isUnderWay && !(meetsHere && fn_.block(op) == body));
  }
  if (isUnderWay && meet && fn_.numWarps > 1) {
    builder_.CreateFence(llvm::AtomicOrdering::Release, context_.getOrInsertSyncScopeID("workgroup"));
  }
}

// The lanes of a wave go together; what is needed is that the compiler keeps the order.
void AmdEmitter::warpBarrier() {
  const llvm::SyncScope::ID wave = context_.getOrInsertSyncScopeID("wavefront");
  builder_.CreateFence(llvm::AtomicOrdering::Release, wave);
  builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_wave_barrier));
  builder_.CreateFence(llvm::AtomicOrdering::Acquire, wave);
}

llvm::Type *AmdEmitter::assemblyRegister(ir::OpId op, const std::string &constraint, unsigned bits) {
  if (constraint != "v" && constraint != "s") {
    throw ir::Unsupported("the constraint `" + constraint + "` of inline assembly on " + target_.name, fn_.locationOf(op));
  }
  return builder_.getIntNTy(bits <= 32 ? 32 : 64);
}

int64_t AmdEmitter::sharedExtent() const { return fn_.arenaBytes; }

void AmdEmitter::publish() {}

void AmdEmitter::unsupported(ir::OpId op) const {
  throw ir::Unsupported(std::string(fn_.opInfo(op).mnemonic) + " is not supported on " + target_.name + " yet", fn_.locationOf(op));
}

// They are made for targets that have them: copies ahead, boxes, units that go on by themselves, launches that overlap.
#define NONE(Name)                                                                                 \
  void AmdEmitter::lower##Name(ir::OpId op) { unsupported(op); }
NONE(ArrivalsInit)
NONE(ArrivalsWait)
NONE(ArrivalsEnd)
NONE(CopyBox)
NONE(StoreBox)
NONE(StoreWait)
NONE(Arrive)
NONE(Producer)
NONE(BeginTurns)
NONE(TakeTurn)
NONE(GiveTurn)
NONE(PlaceWrite)
NONE(PlaceRead)
NONE(DotWait)
NONE(GridWait)
NONE(LaunchDependents)
NONE(ClusterBarrier)
NONE(ClusterSize)
#undef NONE

} // namespace libtile::codegen::amd
