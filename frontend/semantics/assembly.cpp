// SPDX-License-Identifier: Apache-2.0
// Assembly of the user on elements of tiles. Which instructions there are is the target's business.
#include "frontend/semantics/operations.h"
#include "ir/assembly_text.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::frontend::operations {

namespace {

std::span<const Value> itemsOf(const Value &value) {
  return value.tuple() != nullptr ? std::span(value.tuple()->fields) : std::span(&value, 1);
}

std::vector<unsigned> widthsOf(std::span<const DType> types) {
  std::vector<unsigned> widths;
  for (const DType type : types) {
    widths.push_back(type.irType().elementBits());
  }
  return widths;
}

void checkTexts(const Semantics &s, Args args, std::span<const DType> results,
                std::span<const DType> inputs, int64_t pack) {
  const std::string text = constantString(s, args[0], "the assembly");
  const std::string constraints = constantString(s, args[1], "the constraints");
  const ir::AssemblyFault fault =
      ir::findFault(text, constraints, pack, widthsOf(results), widthsOf(inputs));
  switch (fault.part) {
  case ir::AssemblyFault::None:
    return;
  case ir::AssemblyFault::Text:
    s.fail(args[0], fault.message);
  case ir::AssemblyFault::Constraints:
    s.fail(args[1], fault.message);
  case ir::AssemblyFault::Pack:
    s.fail(args[5], fault.message);
  }
}

} // namespace

Value inlineAsmElementwise(Semantics &s, Args args) {
  const int64_t pack = s.constantInt(args[5], "pack");
  std::vector<Tensor> inputs;
  for (const Value &item : itemsOf(args[2])) {
    inputs.push_back(s.toTensor(item));
  }
  if (!inputs.empty()) {
    inputs = broadcastAll(s, std::move(inputs));
  }
  std::vector<DType> types, inputTypes;
  std::vector<ir::ValueId> operands;
  for (const Tensor &input : inputs) {
    inputTypes.push_back(input.dtype);
    operands.push_back(input.id);
  }
  for (const Value &item : itemsOf(args[3])) {
    types.push_back(scalarType(s, item, "the dtype of a result"));
  }
  if (types.empty()) {
    s.fail(args[3], "inline assembly has a result");
  }
  checkTexts(s, args, types, inputTypes, pack);
  const std::vector<int32_t> shape = inputs.empty() ? std::vector<int32_t>() : inputs[0].shape;
  std::vector<ir::Type> results;
  for (const DType type : types) {
    results.push_back(irType(type, shape));
  }
  ir::Function &fn = s.builder.function();
  const ir::OpId op = s.builder.op(ir::Opcode::Assembly, operands, results);
  fn.setAttr(op, ir::Attr::text, ir::AttrValue(constantString(s, args[0], "the assembly")));
  fn.setAttr(op, ir::Attr::constraints,
             ir::AttrValue(constantString(s, args[1], "the constraints")));
  fn.setAttr(op, ir::Attr::pack, ir::AttrValue(pack));
  if (!constantBool(s, args[4], "is_pure")) {
    fn.setAttr(op, ir::Attr::is_volatile, ir::AttrValue(int64_t{1}));
  }
  std::vector<Value> values;
  for (unsigned i = 0; i < types.size(); ++i) {
    values.emplace_back(Tensor{fn.result(op, i), types[i], shape});
  }
  return args[3].tuple() == nullptr ? values[0] : Value::tuple(std::move(values));
}

} // namespace libtile::frontend::operations
