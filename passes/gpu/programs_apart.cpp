// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/programs_apart.h"

#include "ir/ops.h"
#include "passes/expand_assembly.h"

#include <algorithm>

namespace libtile::passes {

using ir::Attr;
using ir::BlockId;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

bool tellsOrder(const ir::Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::While || fn.ownEffects(op).has(ir::Effects::Ordered);
}

// What a loop carries may differ because of what its iterations do with it, so all is looked at until nothing is added.
DifferingValues::DifferingValues(const ir::Function &fn, std::array<bool, 3> axes) : fn_(fn), axes_(axes) {
  do {
    grows_ = false;
    for (const OpId op : fn.walk()) {
      visit(op);
    }
  } while (grows_);
}

bool DifferingValues::inTrips(OpId op) const {
  const auto operands = fn_.operands(op);
  return fn_.opcode(op) == Opcode::While ||
         std::ranges::any_of(operands.first(fn_.opcode(op) == Opcode::For ? 3 : operands.size()), [&](ValueId each) { return contains(each); });
}

bool DifferingValues::startsToDiffer(OpId op) const {
  if (fn_.opcode(op) == Opcode::ProgramId) {
    return fn_.numOperands(op) != 0 || axes_[static_cast<size_t>(fn_.getInt(op, Attr::axis))];
  }
  return fn_.opcode(op) == Opcode::Worker || namesRegisters(fn_, op) || !fn_.effects(op).pure() || !fn_.regions(op).empty();
}

void DifferingValues::visit(OpId op) {
  if (fn_.opcode(op) == Opcode::For) {
    return visitLoop(op);
  }
  if (startsToDiffer(op) || std::ranges::any_of(fn_.operands(op), [&](ValueId each) { return contains(each); })) {
    std::ranges::for_each(fn_.results(op), [&](ValueId each) { add(each); });
    for (const BlockId region : fn_.regions(op)) {
      std::ranges::for_each(fn_.args(region), [&](ValueId each) { add(each); });
    }
  }
}

void DifferingValues::visitLoop(OpId loop) {
  const BlockId body = fn_.region(loop);
  const OpId yield = fn_.last(body);
  const bool trips = inTrips(loop) || fn_.getBool(loop, Attr::stop);
  if (trips) {
    add(fn_.arg(body, 0));
  }
  const unsigned firstYielded = fn_.getBool(loop, Attr::stop) ? 1 : 0;
  for (unsigned i = 0; i < fn_.results(loop).size(); ++i) {
    if (trips || contains(fn_.operand(loop, 3 + i)) || contains(fn_.operand(yield, firstYielded + i))) {
      add(fn_.arg(body, 1 + i));
      add(fn_.result(loop, i));
    }
  }
}

} // namespace libtile::passes
