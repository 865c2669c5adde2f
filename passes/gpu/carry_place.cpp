// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/carry_place.h"

#include "ir/ops.h"

namespace libtile::passes {

using ir::OpId;
using ir::Opcode;
using ir::Type;
using ir::ValueId;

bool carriesSums(const ir::Function &fn, OpId dot) {
  const OpId loop = fn.parentOp(fn.block(dot));
  const ValueId before = fn.operand(dot, 2), sums = fn.result(dot);
  if (!loop.valid() || fn.opcode(loop) != Opcode::For || !fn.isArg(before) || fn.defBlock(before) != fn.block(dot) ||
      fn.defIndex(before) == 0 || fn.uses(before).size() != 1 || fn.uses(sums).size() != 1) {
    return false;
  }
  const ir::Use use = fn.uses(sums)[0];
  return fn.opcode(use.op) == Opcode::Yield && !fn.getBool(loop, ir::Attr::stop) && use.operand == fn.defIndex(before) - 1;
}

void carryPlace(ir::Function &fn, OpId dot, ir::Builder &before, ir::Builder &after) {
  constexpr unsigned kBounds = 3; // operands of a for in front of what it carries
  const OpId loop = fn.parentOp(fn.block(dot));
  const unsigned carried = fn.defIndex(fn.operand(dot, 2)) - 1;
  const Type tile = fn.type(fn.result(dot));
  const Type place = Type::place(tile.shape(), tile.elem(), tile.layout());
  const ValueId init = fn.operand(loop, kBounds + carried), sum = fn.result(loop, carried);
  before.loc = after.loc = fn.loc(dot);
  const ValueId value = after.make(Opcode::PlaceRead, {sum}, tile);
  fn.replaceAllUses(sum, value);
  fn.setOperand(fn.def(value), 0, sum);
  fn.setOperand(loop, kBounds + carried, before.make(Opcode::PlaceWrite, {init}, place));
  for (const ValueId handed : {sum, fn.operand(dot, 2), fn.result(dot)}) {
    fn.setType(handed, place);
  }
}

} // namespace libtile::passes
