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

// Registers that elements of these types take, `pack` of each.
size_t registersOf(const Semantics &s, std::span<const DType> types, int64_t pack,
                   const Value &argument) {
  size_t count = 0;
  for (const DType type : types) {
    const ir::AssemblyWord word = ir::assemblyWord(
        type.irType().elementBits(), static_cast<unsigned>(pack));
    if (pack % word.elements != 0) {
      s.fail(argument, std::to_string(pack) + " elements of " + type.name() +
                           " fill no whole registers");
    }
    count += static_cast<size_t>(pack) / word.elements;
  }
  return count;
}

void requireCount(const Semantics &s, const Value &constraints, size_t given, size_t wanted,
                  const char *what) {
  if (given != wanted) {
    s.fail(constraints, "the constraints name " + std::to_string(given) + " registers of " + what +
                            ", which take " + std::to_string(wanted));
  }
}

void checkTexts(const Semantics &s, Args args, std::span<const DType> results,
                std::span<const DType> inputs, int64_t pack) {
  const std::string text = constantString(s, args[0], "the assembly");
  const auto parsed = ir::parseConstraints(constantString(s, args[1], "the constraints"));
  if (!parsed) {
    s.fail(args[1], "expected constraints such as '=r,r', got " + args[1].quoted());
  }
  requireCount(s, args[1], parsed->results.size(), registersOf(s, results, pack, args[5]), "results");
  requireCount(s, args[1], parsed->inputs.size(), registersOf(s, inputs, pack, args[5]), "arguments");
  const std::string wrong =
      ir::wrongRegister(text, parsed->results.size() + parsed->inputs.size());
  if (!wrong.empty()) {
    s.fail(args[0], wrong);
  }
}

} // namespace

Value inlineAsmElementwise(Semantics &s, Args args) {
  const int64_t pack = s.constantInt(args[5], "pack");
  if (pack < 1 || pack > 64) {
    s.fail(args[5], "pack lies between 1 and 64, got " + std::to_string(pack));
  }
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
