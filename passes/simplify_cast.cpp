// SPDX-License-Identifier: Apache-2.0
// Casts: chains become one cast, or none where the second undoes the first exactly.
#include "ir/ops.h"
#include "passes/simplify_rules.h"

namespace libtile::passes {

using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

// A cast of x to the type by width: trunc, the extension, or x itself.
ValueId resize(Rewriter &rw, ValueId x, Opcode extension, Type to) {
  const unsigned have = rw.fn.type(x).elementBits(), want = to.elementBits();
  return have == want ? x : rw.builder.make(have > want ? Opcode::Trunc : extension, {x}, to);
}

} // namespace

ValueId simplifyCast(Rewriter &rw, OpId op) {
  if (rw.fn.opInfo(op).rule != ir::TypeRule::Cast) {
    return {};
  }
  const ValueId a = rw.fn.operand(op, 0);
  const Type to = rw.fn.type(rw.fn.result(op));
  const Opcode opcode = rw.fn.opcode(op);
  if (opcode == Opcode::Bitcast && rw.fn.type(a) == to) {
    return a;
  }
  const auto inner = rw.fn.defOpcode(a);
  if (!inner || rw.fn.opInfo(rw.def(a)).rule != ir::TypeRule::Cast) {
    return {};
  }
  const ValueId x = rw.fn.operand(rw.def(a), 0);
  const Type from = rw.fn.type(x);
  if (opcode == Opcode::Bitcast && *inner == Opcode::Bitcast) {
    return from == to ? x : rw.builder.make(Opcode::Bitcast, {x}, to);
  }
  if ((opcode == Opcode::SExt || opcode == Opcode::ZExt) && *inner == Opcode::ZExt) {
    return rw.builder.make(Opcode::ZExt, {x}, to);
  }
  if (opcode == Opcode::SExt && *inner == Opcode::SExt) {
    return rw.builder.make(Opcode::SExt, {x}, to);
  }
  if (opcode == Opcode::Trunc && *inner == Opcode::Trunc) {
    return rw.builder.make(Opcode::Trunc, {x}, to);
  }
  if (opcode == Opcode::Trunc && (*inner == Opcode::SExt || *inner == Opcode::ZExt)) {
    return resize(rw, x, *inner, to);
  }
  if (opcode == Opcode::FpExt && *inner == Opcode::FpExt) {
    return rw.builder.make(Opcode::FpExt, {x}, to);
  }
  if (opcode == Opcode::FpTrunc && *inner == Opcode::FpExt && from == to) {
    return x;
  }
  if (opcode == Opcode::IntToPtr && *inner == Opcode::PtrToInt && from == to) {
    return x;
  }
  return opcode == Opcode::PtrToInt && *inner == Opcode::IntToPtr ? x : ValueId{};
}

} // namespace libtile::passes
