// SPDX-License-Identifier: Apache-2.0
// Loads and stores of global memory. The registers of a tile that lie side by side in memory, in
// one thread, become one access of up to 16 bytes; a mask becomes the instruction's predicate, so
// masked-off elements never touch memory. Elements in the padding are left out; of replicas all
// load and one stores.
#include "codegen/gpu/emitter.h"
#include "codegen/gpu/memory_order.h"
#include "ir/ops.h"

#include "passes/gpu/layout_maps.h"

#include <algorithm>

namespace libtile::codegen::gpu {

using ir::Attr;
using ir::HwDim;

namespace {

// Elements of an atomic access go one by one.
unsigned accessBytes(const ir::Function &fn, ir::OpId op, const ir::Type &type) {
  constexpr unsigned kAlone = 16;
  return fn.hasAttr(op, Attr::sem) ? kAlone : type.elementBytes();
}

bool isFalse(llvm::Value *predicate) {
  const auto *constant = llvm::dyn_cast_or_null<llvm::ConstantInt>(predicate);
  return constant != nullptr && constant->isZero();
}

// Both are computed in the same way of the same values, by few instructions.
bool isSame(const llvm::Value *a, const llvm::Value *b, int depth = 3) {
  if (a == b || a == nullptr || b == nullptr) {
    return a == b;
  }
  const auto *first = llvm::dyn_cast<llvm::Instruction>(a), *second = llvm::dyn_cast<llvm::Instruction>(b);
  if (depth == 0 || first == nullptr || second == nullptr || !first->isSameOperationAs(second) || llvm::isa<llvm::PHINode, llvm::CallBase>(first) ||
      first->mayReadOrWriteMemory()) {
    return false;
  }
  return std::equal(first->op_begin(), first->op_end(), second->op_begin(), second->op_end(),
                    [&](const llvm::Use &x, const llvm::Use &y) { return isSame(x, y, depth - 1); });
}

} // namespace

void Emitter::vectorAlong(ir::ValueId pointer, ir::ValueId mask, unsigned axis,
                          unsigned elementBytes, RegGroup &bits) const {
  const ir::Layout &layout = layoutOf(pointer);
  const passes::AccessFacts facts = facts_.access();
  int64_t elements = facts.maxVectorElements(pointer, axis, target_.maxVectorBytes);
  elements =
      std::min<int64_t>(elements, std::max<int64_t>(1, target_.maxVectorBytes / elementBytes));
  if (mask.valid()) {
    elements = std::min(elements, facts.equalGroup(mask, axis));
  }
  const ir::Layout::Bases &registers = layout.bases(HwDim::Reg);
  for (unsigned width = 1; 2 * int64_t{width} <= elements; width *= 2) {
    ir::Coords wanted(layout.rank(), 0);
    wanted[axis] = static_cast<int32_t>(width);
    const auto found = std::find(registers.begin(), registers.end(), wanted);
    // No other coordinate may move the element within the run.
    unsigned movers = 0;
    for (HwDim dim : {HwDim::Reg, HwDim::Lane, HwDim::Warp}) {
      for (const ir::Coords &basis : layout.bases(dim)) {
        movers += (static_cast<unsigned>(basis[axis]) & width) != 0 ? 1 : 0;
      }
    }
    if (found == registers.end() || movers != 1) {
      break;
    }
    bits.push_back(static_cast<int32_t>(found - registers.begin()));
  }
}

std::vector<RegGroup> Emitter::accessGroups(ir::ValueId pointer, ir::ValueId mask,
                                            unsigned elementBytes) {
  const ir::Type &type = fn_.type(pointer);
  if (!type.isTile()) {
    return {{0}};
  }
  const ir::Layout &layout = layoutOf(pointer);
  RegGroup best;
  for (unsigned axis = 0; axis < type.rank(); ++axis) {
    RegGroup bits;
    vectorAlong(pointer, mask, axis, elementBytes, bits);
    best = bits.size() > best.size() ? bits : best;
  }
  std::vector<RegGroup> groups = groupsOf(layout.size(HwDim::Reg), best);
  std::erase_if(groups, [&](const RegGroup &group) {
    return firstReplica(layout, group[0]) != group[0] || !passes::inTile(layout, group[0], type.shape()).somewhere;
  });
  return groups;
}

// Acquires by one fence behind the loads: NVIDIA's assembler (up to 13.5 at least) loses the predicate of a load.acquire
// whose number nobody uses, and with it what else that predicate decides.
void Emitter::lowerLoad(ir::OpId op) {
  const ir::ValueId pointer = fn_.operand(op, 0);
  const ir::ValueId mask = fn_.numOperands(op) > 1 ? fn_.operand(op, 1) : ir::ValueId{};
  const ir::ValueId result = fn_.result(op);
  const ir::Type &type = fn_.type(result);
  Regs out(numRegs(result), llvm::Constant::getNullValue(registerType(result)));
  AccessAddresses addresses(*this, pointer);
  // A scalar that is read atomically is told to the others by the thread that reads it.
  llvm::Value *reader = !type.isTile() && fn_.hasAttr(op, Attr::sem) ? isFirstThread() : nullptr;
  const auto predicateOf = [&](const RegGroup &group) {
    llvm::Value *predicate = type.isTile() ? inTile(fn_.type(pointer), group[0]) : reader;
    return both(predicate, mask.valid() ? regs(mask)[group[0]] : nullptr);
  };
  const std::vector<RegGroup> groups = accessGroups(pointer, mask, accessBytes(fn_, op, type));
  for (size_t first = 0, end = 0; first < groups.size(); first = end) {
    llvm::Value *predicate = predicateOf(groups[first]);
    std::vector<AccessAddress> from;
    do {
      from.push_back(addresses.of(groups[end++][0]));
    } while (branchesOnMasks() && end < groups.size() && isSame(predicate, predicateOf(groups[end])));
    const llvm::ArrayRef<RegGroup> together = llvm::ArrayRef(groups).slice(first, end - first);
    const Regs loaded = loadGroups(op, together, from, predicate);
    size_t next = 0;
    for (const RegGroup &group : together) {
      for (const int32_t reg : group) {
        out[reg] = loaded[next++];
      }
    }
  }
  if (fn_.hasAttr(op, Attr::sem) && acquires(fn_.getEnum<ir::MemOrder>(op, Attr::sem))) {
    fence(op, reader);
  }
  if (type.isTile()) {
    for (size_t reg = 0; reg < out.size(); ++reg) {
      out[reg] = out[firstReplica(layoutOf(result), static_cast<int32_t>(reg))];
    }
  } else {
    out[0] = tellOthers(op, out[0]);
  }
  set(result, std::move(out));
}

void Emitter::lowerStore(ir::OpId op) {
  const ir::ValueId pointer = fn_.operand(op, 0);
  const ir::ValueId mask = fn_.numOperands(op) > 2 ? fn_.operand(op, 2) : ir::ValueId{};
  const ir::Type &type = fn_.type(pointer);
  llvm::Value *canonical = type.isTile() ? isCanonicalThread(layoutOf(pointer)) : isFirstThread();
  AccessAddresses addresses(*this, pointer);
  if (fn_.hasAttr(op, Attr::sem) && releases(fn_.getEnum<ir::MemOrder>(op, Attr::sem))) {
    fence(op, type.isTile() ? nullptr : canonical);
  }
  for (const RegGroup &group :
       accessGroups(pointer, mask, accessBytes(fn_, op, fn_.type(fn_.operand(op, 1))))) {
    llvm::Value *predicate = type.isTile() ? both(canonical, inTile(type, group[0])) : canonical;
    predicate = both(predicate, mask.valid() ? regs(mask)[group[0]] : nullptr);
    if (!isFalse(predicate)) {
      storeGroup(op, group, addresses.of(group[0]), predicate);
    }
  }
}

} // namespace libtile::codegen::gpu
