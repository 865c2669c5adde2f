// SPDX-License-Identifier: Apache-2.0
// Prints, assertions and promises; and what all findings have in common.
#include "runtime/interpreter/evaluator.h"

#include <algorithm>

namespace libtile::runtime::interpreter {

using ir::Attr;
using ir::Opcode;
using ir::OpId;
using Kind = Finding::Kind;

Finding Evaluator::finding(Kind kind, OpId op, size_t element) const {
  Finding made{.kind = kind, .place = fn_.locationOf(op)};
  std::ranges::copy(program_, made.program);
  const ir::Type type = fn_.numOperands(op) != 0 ? fn_.type(fn_.operand(op, 0)) : ir::Type();
  auto rest = static_cast<int64_t>(element);
  for (unsigned axis = type.rank(); axis-- > 0; rest /= type.dim(axis)) {
    made.element.insert(made.element.begin(), static_cast<int32_t>(rest % type.dim(axis)));
  }
  return made;
}

// "a store writes what is undefined: a masked-off element of a load without `other`, at k.py:12:9"
void Evaluator::failUndefined(OpId op, const char *use, Mark mark, size_t element) const {
  const OpId from{mark - 1};
  const Opcode opcode = fn_.opcode(from);
  Finding made = finding(Kind::Undefined, op, element);
  made.cause = fn_.locationOf(from);
  made.text = std::string(use) + " what is undefined, " +
              (opcode == Opcode::Load ? "an element that a mask switches off in a load without `other`"
               : opcode == Opcode::Shl || opcode == Opcode::LShr || opcode == Opcode::AShr
                   ? "a shift by as many bits as the integer has, or more"
                   : "an integer divided by zero") +
              ",";
  throw made;
}

void Evaluator::runPrint(OpId op) {
  codegen::Message message{false, fn_.locationOf(op), std::string(fn_.getText(op, Attr::text)), {}};
  const auto formats = ir::readPrintFormats(fn_.getText(op, Attr::formats));
  std::vector<std::vector<uint8_t>> elements;
  std::vector<const void *> addresses;
  for (unsigned k = 0; k < fn_.numOperands(op); ++k) {
    const ir::Type type = fn_.type(fn_.operand(op, k));
    message.operands.push_back({{type.shape().begin(), type.shape().end()}, type.element(), (*formats)[k]});
    std::vector<uint8_t> &packed = elements.emplace_back(static_cast<size_t>(type.numElements()) * type.elementBytes());
    for (size_t i = 0; i < static_cast<size_t>(type.numElements()); ++i) {
      writeElement(type.element(), operand(op, k)[i], &packed[i * type.elementBytes()]);
    }
  }
  for (const std::vector<uint8_t> &packed : elements) {
    addresses.push_back(packed.data());
  }
  if (launch_.print) {
    launch_.print(message, program_, addresses.data());
  }
}

void Evaluator::runAssert(OpId op) {
  requireDefined(op, "an assertion depends on", operand(op, 0), 0);
  if (operand(op, 0)[0] == 0) {
    Finding made = finding(Kind::Assertion, op, 0);
    made.text = fn_.getText(op, Attr::text);
    throw made;
  }
}

void Evaluator::runAssume(OpId op) {
  if (operand(op, 0)[0] == 0) {
    Finding made = finding(Kind::BrokenPromise, op, 0);
    made.text = "what the kernel assumes is false";
    throw made;
  }
}

// Of a scalar; a tile's promise counts for the elements that an access needs, which is not known here.
void Evaluator::runHint(OpId op) {
  const ir::Type type = fn_.type(fn_.operand(op, 0));
  const std::span<const int64_t> divisible = fn_.getInts(op, Attr::divisible);
  const Value &value = operand(op, 0);
  if (type.isScalar() && !divisible.empty() && divisible[0] != 0 && value.integer(0) % divisible[0] != 0) {
    Finding made = finding(Kind::BrokenPromise, op, 0);
    made.text = std::to_string(value.integer(0)) + " is no multiple of " + std::to_string(divisible[0]) +
                ", as the kernel promises";
    throw made;
  }
  define(op, value);
}

} // namespace libtile::runtime::interpreter
