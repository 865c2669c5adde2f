// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/late_selects.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/op_properties.h"

#include <bit>
#include <vector>

namespace libtile::passes {
namespace {

using ir::Opcode;
using ir::OpId;
using ir::ValueId;

// Where the condition does not hold. -0.0 is another number: its product with itself is not.
bool isZero(const ir::Function &fn, ValueId value) {
  const auto number = fn.constantFloat(value);
  return number && std::bit_cast<uint64_t>(*number) == 0;
}

// The product's operands are selects of one condition, and have no other use.
bool selectsBoth(const ir::Function &fn, OpId product) {
  const ValueId a = fn.operand(product, 0), b = fn.operand(product, 1);
  const size_t uses = a == b ? 2 : 1;
  const auto selects = [&](ValueId value) {
    return fn.defOpcode(value) == Opcode::Select && fn.uses(value).size() == uses && isZero(fn, fn.operand(fn.def(value), 2));
  };
  return selects(a) && selects(b) && fn.operand(fn.def(a), 0) == fn.operand(fn.def(b), 0);
}

} // namespace

bool lateSelects(ir::Function &fn, const PassContext &) {
  bool changed = false;
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) != Opcode::Reduce || onlyCombination(fn, op) != Opcode::Add) {
      continue;
    }
    const ValueId terms = fn.operand(op, 0);
    if (fn.defOpcode(terms) != Opcode::Mul || fn.uses(terms).size() != 1 || !selectsBoth(fn, fn.def(terms))) {
      continue;
    }
    const OpId product = fn.def(terms);
    const OpId left = fn.def(fn.operand(product, 0)), right = fn.def(fn.operand(product, 1));
    fn.setOperand(product, 0, fn.operand(left, 1));
    fn.setOperand(product, 1, fn.operand(right, 1));
    ir::Builder builder(fn, fn.next(product));
    fn.setOperand(op, 0, builder.make(Opcode::Select, {fn.operand(left, 0), terms, fn.operand(left, 2)}));
    for (const OpId select : left == right ? std::vector{left} : std::vector{left, right}) {
      fn.erase(select);
    }
    changed = true;
  }
  return changed;
}

} // namespace libtile::passes
