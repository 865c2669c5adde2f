// SPDX-License-Identifier: Apache-2.0
// Masks that are known everywhere, and what a load gives where its mask is false: 0 need not be
// said.
#include "ir/ops.h"
#include "passes/simplify_rules.h"

namespace libtile::passes {

using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

ValueId load(Rewriter &rw, OpId op) {
  const unsigned count = rw.fn.numOperands(op);
  if (count < 2) {
    return {};
  }
  const ValueId mask = rw.fn.operand(op, 1);
  if (rw.isInt(mask, 0)) {
    return count > 2 ? rw.fn.operand(op, 2) : rw.builder.zero(rw.fn.type(rw.fn.result(op)));
  }
  const bool always = rw.isInt(mask, 1);
  const bool zero =
      count > 2 && (rw.isInt(rw.fn.operand(op, 2), 0) || rw.isFloat(rw.fn.operand(op, 2), 0.0));
  if (count > 2 && (always || zero)) {
    rw.fn.eraseOperand(op, 2);
    rw.edited = true;
  }
  if (always) {
    rw.fn.eraseOperand(op, 1);
    rw.edited = true;
  }
  return {};
}

} // namespace

ValueId simplifyMemory(Rewriter &rw, OpId op) {
  const Opcode opcode = rw.fn.opcode(op);
  if (opcode == Opcode::Load) {
    return load(rw, op);
  }
  if ((opcode != Opcode::Store && opcode != Opcode::AtomicRmw) || rw.fn.numOperands(op) < 3) {
    return {};
  }
  const ValueId mask = rw.fn.operand(op, 2);
  if (rw.isInt(mask, 1)) {
    rw.fn.eraseOperand(op, 2);
    rw.edited = true;
  } else if (rw.isInt(mask, 0) && opcode == Opcode::Store) {
    rw.fn.erase(op);
    rw.edited = true;
  }
  return {};
}

} // namespace libtile::passes
