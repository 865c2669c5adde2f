// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/multiply_codes.h"

#include "ir/builder.h"
#include "ir/ops.h"

#include <algorithm>
#include <vector>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

int64_t depthOf(const ir::Function &fn, OpId dot) {
  const Type a = fn.type(fn.operand(dot, 0));
  return a.dim(a.rank() - 1);
}

bool isDecoded(const ir::Function &fn, ValueId operand) { return fn.defOpcode(operand) == Opcode::Float8Decode; }

ir::Float8 formatOf(const ir::Function &fn, ValueId decoded) {
  return fn.getEnum<ir::Float8>(fn.def(decoded), Attr::format);
}

bool takesCodes(const ir::Function &fn, OpId dot, const ir::Target &target) {
  const ValueId a = fn.operand(dot, 0), b = fn.operand(dot, 1);
  return fn.getInt(dot, Attr::imprecise) >= depthOf(fn, dot) && isDecoded(fn, a) && isDecoded(fn, b) &&
         std::ranges::any_of(target.units, [&](const ir::DotUnit &unit) {
           return unit.a.format == formatOf(fn, a) && unit.b.format == formatOf(fn, b);
         });
}

// A dot with these operands beside it, of its attributes; `codes`: those that say what operands are codes of, too.
OpId copied(ir::Function &fn, OpId dot, ValueId a, ValueId b, ValueId acc, bool codes = true) {
  ir::Builder builder(fn, dot);
  const Type type = fn.type(fn.result(dot));
  const ValueId operands[] = {a, b, acc};
  const OpId made = builder.op(Opcode::Dot, operands, {&type, 1});
  for (const auto &[attr, value] : fn.attrs(dot)) {
    if (codes || (attr != Attr::format_a && attr != Attr::format_b)) {
      fn.setAttr(made, attr, value);
    }
  }
  return made;
}

OpId replaced(ir::Function &fn, OpId dot, OpId made, ValueId result) {
  fn.replaceAllUses(fn.result(dot), result);
  fn.erase(dot);
  return made;
}

void takeCodes(ir::Function &fn, OpId dot) {
  const OpId decodes[] = {fn.def(fn.operand(dot, 0)), fn.def(fn.operand(dot, 1))};
  const OpId made = copied(fn, dot, fn.operand(decodes[0], 0), fn.operand(decodes[1], 0), fn.operand(dot, 2));
  fn.setAttr(made, Attr::format_a, fn.getEnum<ir::Float8>(decodes[0], Attr::format));
  fn.setAttr(made, Attr::format_b, fn.getEnum<ir::Float8>(decodes[1], Attr::format));
  replaced(fn, dot, made, fn.result(made));
  for (const OpId decode : decodes) {
    if (!fn.isErased(decode) && fn.uses(fn.result(decode)).empty()) {
      fn.erase(decode);
    }
  }
}

} // namespace

bool multiplyCodes(ir::Function &fn, const PassContext &context) {
  std::vector<OpId> dots;
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::Dot && takesCodes(fn, op, context.target)) {
      dots.push_back(op);
    }
  }
  for (const OpId dot : dots) {
    takeCodes(fn, dot);
  }
  return !dots.empty();
}

OpId decodeOperands(ir::Function &fn, OpId dot) {
  ir::Builder builder(fn, dot);
  const auto decoded = [&](unsigned operand, Attr format) {
    const ValueId codes = fn.operand(dot, operand);
    const ValueId result = builder.make(Opcode::Float8Decode, {codes}, fn.type(codes).withElement(ir::Elem::F16));
    fn.setAttr(fn.def(result), Attr::format, fn.getEnum<ir::Float8>(dot, format));
    return result;
  };
  const ValueId a = decoded(0, Attr::format_a), b = decoded(1, Attr::format_b);
  const OpId made = copied(fn, dot, a, b, fn.operand(dot, 2), false);
  return replaced(fn, dot, made, fn.result(made));
}

OpId separateSums(ir::Function &fn, OpId dot) {
  if (fn.getInt(dot, Attr::imprecise) > depthOf(fn, dot)) {
    return dot;
  }
  ir::Builder builder(fn, dot);
  const ValueId acc = fn.operand(dot, 2);
  const OpId made = copied(fn, dot, fn.operand(dot, 0), fn.operand(dot, 1), builder.zero(fn.type(acc)));
  return replaced(fn, dot, made, builder.make(Opcode::Add, {acc, fn.result(made)}));
}

} // namespace libtile::passes
