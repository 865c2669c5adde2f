// SPDX-License-Identifier: Apache-2.0
// Atomics. A scalar one is done by thread 0, which tells the others the old value if anybody asks
// for it; of a tile each element is done by one thread, and passes/gpu/lower_conversions.h spreads the old
// values. What a release or an acquire orders for the other threads is the barriers' business
// (passes/gpu/place_barriers.h): a barrier makes their accesses happen before thread 0's release,
// which is cumulative, and after its acquire.
#include "codegen/gpu/emitter.h"
#include "codegen/gpu/memory_order.h"
#include "ir/ops.h"

#include "passes/gpu/shared_accesses.h"

namespace libtile::codegen::gpu {

using ir::Attr;
using ir::MemOrder;

void Emitter::lowerAtomic(ir::OpId op, unsigned numValues) {
  const ir::ValueId result = fn_.result(op);
  const ir::ValueId mask = fn_.numOperands(op) > numValues ? fn_.operand(op, numValues) : ir::ValueId{};
  const ir::Type &type = fn_.type(result);
  const ir::Type element = type.element();
  const bool wantsOld = !fn_.unused(result);
  const auto sem = fn_.getEnum<MemOrder>(op, Attr::sem);
  const auto operandsOf = [&](unsigned reg) {
    llvm::SmallVector<llvm::Value *, 3> operands;
    for (unsigned i = 0; i < numValues; ++i) {
      operands.push_back(regs(fn_.operand(op, i))[reg]);
    }
    return operands;
  };
  const auto maskOf = [&](unsigned reg) { return mask.valid() ? regs(mask)[reg] : nullptr; };
  Regs out(numRegs(result), llvm::Constant::getNullValue(registerType(result)));
  if (!type.isTile()) {
    llvm::Value *old =
        atomic(op, sem, element, operandsOf(0), both(isFirstThread(), maskOf(0)), wantsOld);
    return set(result, old != nullptr ? tellOthers(op, old) : out[0]);
  }
  const ir::Layout &layout = layoutOf(result);
  llvm::Value *canonical = isCanonicalThread(layout);
  const bool isVector = addsNeighbours(op);
  const std::vector<RegGroup> groups = accessGroups(fn_.operand(op, 0), mask, isVector ? element.elementBytes() : 16);
  // A thread that has several elements waits for its earlier accesses once, not at each of them.
  const bool fences = groups.size() > 1;
  if (fences && releases(sem)) {
    fence(op, nullptr);
  }
  for (const RegGroup &group : groups) {
    llvm::Value *predicate = both(both(canonical, inTile(type, group[0])), maskOf(group[0]));
    if (group.size() > 1) {
      addNeighbours(op, fences ? MemOrder::relaxed : sem, group, predicate);
      continue;
    }
    llvm::Value *old = atomic(op, fences ? MemOrder::relaxed : sem, element, operandsOf(group[0]),
                              predicate, wantsOld);
    out[group[0]] = old != nullptr ? old : out[group[0]];
  }
  if (fences && acquires(sem) && wantsOld) {
    fence(op, nullptr);
  }
  for (size_t reg = 0; reg < out.size(); ++reg) {
    out[reg] = out[firstReplica(layout, static_cast<int32_t>(reg))];
  }
  set(result, std::move(out));
}

llvm::Value *Emitter::tellOthers(ir::OpId op, llvm::Value *value) {
  if (!passes::tellsOthers(fn_, op)) {
    return value;
  }
  const ir::Type type = fn_.type(fn_.result(op));
  if (fn_.numWarps == 1) {
    return shuffle(type, value, {LaneExchange::Mode::From, i32(0), LaneSources(static_cast<size_t>(target_.warpSize), onlyLane(0))});
  }
  llvm::Value *slot =
      builder_.CreateConstGEP1_64(builder_.getInt8Ty(), sharedBase(),
                                  static_cast<uint64_t>(fn_.getInt(op, Attr::offset)));
  storeShared(type, {value}, slot, isFirstThread());
  barrier();
  return loadShared(type, slot);
}

void Emitter::lowerAtomicRmw(ir::OpId op) { lowerAtomic(op, 2); }

void Emitter::lowerAtomicCas(ir::OpId op) { lowerAtomic(op, 3); }

} // namespace libtile::codegen::gpu
