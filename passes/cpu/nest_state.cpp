// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/nest_state.h"

#include "ir/ops.h"

namespace libtile::passes {

using namespace ir;

bool isInlinable(const Function &fn, OpId op) {
  const Opcode opcode = fn.opcode(op);
  if (fn.results(op).size() != 1 || !fn.type(fn.result(op)).isTile()) {
    return false;
  }
  if (opcode == Opcode::Load) {
    return !fn.getBool(op, Attr::is_volatile);
  }
  return isElementwise(opcode) || opcode == Opcode::Constant || opcode == Opcode::Arange ||
         opcode == Opcode::Splat || opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims ||
         opcode == Opcode::Reshape || opcode == Opcode::Trans || opcode == Opcode::Slice ||
         opcode == Opcode::Gather || opcode == Opcode::Hint;
}

ValueId allocBuffer(Builder &builder, std::span<const int32_t> shape, Type element) {
  const Elem elem = element.isPointer() ? Elem::I64 : element.elem();
  return builder.make(Opcode::Alloc, {}, Type::buffer(shape, elem));
}

} // namespace libtile::passes
