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

class TableMaker {
public:
  TableMaker(NestState &state, const FindingsPlace &place) : fn_(state.fn), place_(place), before_(state.fn, place.loop) {}

  // Findings about so many parts of an operand, in the slot.
  ValueId table(int32_t slots, int32_t parts, ValueId slot) {
    Builder outside(fn_, place_.chunks);
    const std::array<int32_t, 2> row{kContractTurns, kFindingsHead + parts};
    const Type i32 = Type::scalar(Elem::I32);
    const ValueId all = allocBuffer(outside, std::array{slots, row[0], row[1]}, i32);
    fn_.setAttr(fn_.def(all), Attr::kept, AttrValue(int64_t{1}));
    return before_.make(Opcode::BufferSlot, {all, slot}, Type::buffer(row, i32.elem()));
  }

  // Any slot would do: keys that share one drive each other out.
  ValueId slotOf(const Values &keys) {
    const Type i64 = Type::scalar(Elem::I64);
    constexpr int64_t kOdd = int64_t(0xC4CEB9FE1A85EC53); // bits of a product depend on all lower ones of its factors
    const ValueId odd = before_.constInt(i64, kOdd), half = before_.constInt(i64, 32);
    ValueId mixed = before_.constInt(i64, 0);
    for (ValueId key : keys) {
      if (fn_.type(key).isPointer()) {
        continue;
      }
      const ValueId wide = fn_.type(key) == i64 ? key : before_.make(Opcode::ZExt, {key}, i64);
      mixed = before_.make(Opcode::Mul, {before_.make(Opcode::Add, {mixed, wide}), odd});
      mixed = before_.make(Opcode::Xor, {mixed, before_.make(Opcode::LShr, {mixed, half})});
    }
    const ValueId high = before_.constInt(i64, 64 - kSlotBits);
    return before_.make(Opcode::Trunc, {before_.make(Opcode::LShr, {before_.make(Opcode::Mul, {mixed, odd}), high})}, Type::scalar(Elem::I32));
  }

  Builder &before() { return before_; }

private:
  Function &fn_;
  const FindingsPlace &place_;
  Builder before_;
};

} // namespace

Findings keepFindings(NestState &state, const ContractShape &shape, const FindingsPlace &place,
                      const std::optional<Values> &keysOfA) {
  TableMaker maker(state, place);
  const auto never = [&] { return maker.before().constInt(Type::scalar(Elem::I1), 0); };
  const auto first = [&] { return maker.before().i32(0); };
  const bool keepsA = keysOfA.has_value(), keepsB = place.isPanelKept.valid();
  const int32_t slotsOfA = keepsA ? 1 << kSlotBits : 1, columns = shape.paddedN / shape.unit.lanes;
  const ValueId slotOfA = keepsA ? maker.slotOf(*keysOfA) : first();
  Findings found;
  found.knowsA = keepsA ? recall(maker.before(), slotsOfA, slotOfA, *keysOfA) : never();
  found.a = maker.table(slotsOfA, 1, slotOfA);
  found.knowsB = keepsB ? place.isPanelKept : never();
  found.b = maker.table(place.panelSlots, columns, keepsB ? place.panelSlot : first());
  Builder outside(state.fn, place.chunks);
  found.sums = allocBuffer(outside, std::array{columns}, Type::scalar(Elem::I32));
  found.follows = maker.before().cmp(CmpPred::ne, place.first, maker.before().zero(state.fn.type(place.first)));
  return found;
}

} // namespace libtile::passes
