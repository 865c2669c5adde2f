// SPDX-License-Identifier: Apache-2.0
#include "ir/places.h"

#include "ir/ops.h"

namespace libtile::ir {

OpId placeOf(const Function &fn, ValueId place) {
  constexpr unsigned kBounds = 3; // operands of a for in front of what it carries
  while (true) {
    const bool isArg = fn.isArg(place);
    const OpId op = isArg ? fn.parentOp(fn.defBlock(place)) : fn.def(place);
    const Opcode opcode = op.valid() ? fn.opcode(op) : Opcode::Return;
    // The index is the first argument.
    const unsigned carried = fn.defIndex(place) - (isArg ? 1 : 0);
    if (opcode == Opcode::For && carried < fn.numOperands(op) - kBounds) {
      place = fn.operand(op, kBounds + carried);
    } else if (opcode == Opcode::Dot) {
      place = fn.operand(op, 2);
    } else {
      return opcode == Opcode::PlaceWrite ? op : OpId{};
    }
  }
}

} // namespace libtile::ir
