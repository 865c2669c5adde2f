// SPDX-License-Identifier: Apache-2.0
// Promises to the compiler, checks and prints while compiling, and the names that only the walker
// carries out.
#include "frontend/semantics/operations.h"
#include "ir/ops.h"

namespace libtile::frontend::operations {

namespace {

// The input through a hint op that carries `values`, one an axis.
Value hint(Semantics &s, Args args, ir::Attr attr, const std::string &what) {
  if (args[0].constant() != nullptr) {
    return args[0];
  }
  const Tensor input = requireTensor(s, args[0], "the input of " + what);
  const std::vector<int64_t> values = constantInts(s, args[1], "a value of " + what);
  const size_t expected = input.isScalar() ? 1 : input.shape.size();
  if (values.size() != expected) {
    s.fail(args[1], what + " takes one value an axis: " + std::to_string(expected) + " for " +
           args[0].describe() + ", got " + std::to_string(values.size()));
  }
  for (const int64_t value : values) {
    if (value < 1) {
      s.fail(args[1], "a value of " + what + " must be positive, got " + std::to_string(value));
    }
  }
  const Tensor result = emit(s, ir::Opcode::Hint, {input.id}, input.dtype);
  ir::Function &fn = s.builder.function();
  fn.setAttr(fn.def(result.id), attr, ir::AttrValue(values));
  return Value(result);
}

} // namespace

Value multipleOf(Semantics &s, Args args) {
  return hint(s, args, ir::Attr::divisible, "multiple_of");
}

Value maxContiguous(Semantics &s, Args args) {
  return hint(s, args, ir::Attr::contiguous, "max_contiguous");
}

Value maxConstancy(Semantics &s, Args args) {
  return hint(s, args, ir::Attr::constant, "max_constancy");
}

Value assume(Semantics &s, Args args) {
  if (const Tensor *condition = args[0].tensor()) {
    if (!condition->isScalar()) {
      s.fail(args[0], "assume takes a scalar condition, got " + args[0].describe());
    }
    const ir::ValueId truth = toBool(s, *condition).id;
    s.builder.op(ir::Opcode::Assume, {&truth, 1});
  } else if (!*s.constantTruth(args[0])) {
    s.fail("assume of a condition that is false");
  }
  return Value::none();
}

Value staticAssert(Semantics &s, Args args) {
  const std::optional<bool> truth = s.constantTruth(args[0]);
  if (!truth) {
    s.fail(args[0], "static_assert takes a constant, got " + args[0].describe() +
                        (args[0].tensor() != nullptr ? "; tl.device_assert checks what the running program knows" : ""));
  }
  if (!*truth) {
    const std::string text = args[1].text();
    s.fail("static assertion failed" + (text.empty() ? "" : ": " + text));
  }
  return Value::none();
}

Value staticPrint(Semantics &s, Args args) {
  const std::string separator = optionalString(s, args[1], "sep");
  std::string line;
  const std::vector<Value> &items = args[0].tuple()->fields;
  for (size_t i = 0; i < items.size(); ++i) {
    line += (i == 0 ? "" : separator) + items[i].text();
  }
  line += optionalString(s, args[2], "end");
  if (s.print) {
    s.print(line);
  }
  return Value::none();
}

// args, type
Value makeTuple(Semantics &s, Args args) {
  if (args[0].tuple() == nullptr) {
    s.fail(args[0], "tl.tuple takes a tuple or a list, got " + args[0].describe());
  }
  return Value::tuple(args[0].tuple()->fields);
}

// Of a tuple it is what the tuple's `type` is: the types of its constants.
Value makeConstexprType(Semantics &s, Args args) {
  return args[0].tuple() != nullptr ? s.attribute(args[0], "type")
                                    : Value::aggregate(Class::constexprType(), {args[0]});
}

// types, fields
Value makeTupleType(Semantics &s, Args args) {
  if (args[0].tuple() == nullptr) {
    s.fail(args[0], "tl.tuple_type takes a list of types, got " + args[0].describe());
  }
  return Value::aggregate(Class::tupleType(), {Value::tuple(args[0].tuple()->fields), args[1]});
}

Value construct(Semantics &s, Args) {
  s.fail("this name of the language cannot be called here: tl.range and tl.static_range stand in "
         "for statements, tl.condition in while statements");
}

} // namespace libtile::frontend::operations
