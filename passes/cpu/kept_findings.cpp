// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/kept_findings.h"

#include "ir/ops.h"
#include "passes/cpu/contract_blocks.h"
#include "passes/cpu/kept_panels.h"

#include <array>

namespace libtile::passes {

using namespace ir;

namespace {

constexpr int32_t kSlotBits = 6; // rows of blocks that programs return to, times the chunks of a loop

// Any slot would do: keys that share one drive each other out.
ValueId slotOf(Builder &before, const Values &keys) {
  const Type i64 = Type::scalar(Elem::I64);
  constexpr int64_t kOdd = int64_t(0xC4CEB9FE1A85EC53); // bits of a product depend on all lower ones of its factors
  const ValueId odd = before.constInt(i64, kOdd), half = before.constInt(i64, 32);
  ValueId mixed = before.constInt(i64, 0);
  for (ValueId key : keys) {
    const Type type = before.function().type(key);
    if (type.isPointer()) {
      continue;
    }
    const ValueId wide = type == i64 ? key : before.make(Opcode::ZExt, {key}, i64);
    mixed = before.make(Opcode::Mul, {before.make(Opcode::Add, {mixed, wide}), odd});
    mixed = before.make(Opcode::Xor, {mixed, before.make(Opcode::LShr, {mixed, half})});
  }
  const ValueId high = before.constInt(i64, 64 - kSlotBits);
  return before.make(Opcode::Trunc, {before.make(Opcode::LShr, {before.make(Opcode::Mul, {mixed, odd}), high})}, Type::scalar(Elem::I32));
}

} // namespace

Findings keepFindings(NestState &state, const ContractShape &shape, const FindingsPlace &place,
                      const std::optional<Values> &keysOfA) {
  const Type i1 = Type::scalar(Elem::I1), i32 = Type::scalar(Elem::I32);
  Builder outside(state.fn, place.chunks), before(state.fn, place.loop);
  // Findings about so many parts of an operand, in the slot.
  const auto table = [&](int32_t slots, int32_t parts, ValueId slot) {
    const std::array<int32_t, 2> row{kContractTurns, kFindingsHead + parts};
    return keptSlot(before, allocKept(outside, slots, row, i32), slot);
  };
  const bool keepsA = keysOfA.has_value(), keepsB = place.isPanelKept.valid();
  const int32_t slotsOfA = keepsA ? 1 << kSlotBits : 1, columns = shape.paddedN / shape.unit.lanes;
  const ValueId slotOfA = keepsA ? slotOf(before, *keysOfA) : before.i32(0);
  Findings found;
  found.knowsA = keepsA ? recall(before, slotsOfA, slotOfA, *keysOfA) : before.constInt(i1, 0);
  found.a = table(slotsOfA, 1, slotOfA);
  found.knowsB = keepsB ? place.isPanelKept : before.constInt(i1, 0);
  found.b = table(place.panelSlots, columns, keepsB ? place.panelSlot : before.i32(0));
  found.sums = allocBuffer(outside, std::array{columns}, i32);
  found.follows = before.cmp(CmpPred::ne, place.first, before.zero(state.fn.type(place.first)));
  return found;
}

} // namespace libtile::passes
