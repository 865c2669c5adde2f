// SPDX-License-Identifier: Apache-2.0
// A function under construction, for tests that call operations directly and look at the IR.
#pragma once

#include "frontend/semantics/semantics.h"
#include "ir/ops.h"
#include "ir/printer.h"
#include "ir/verifier.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace libtile::frontend {

struct Kernel {
  ir::Function fn{"k"};
  ir::Builder builder{fn};
  Semantics s{builder};

  // A parameter of that type ("*fp32", "i32", "bf16").
  Value param(const std::string &type) {
    const DType dtype = *DType::byName(type);
    const size_t number = fn.params.size();
    const std::string name = number < 26 ? std::string(1, static_cast<char>('a' + number))
                                         : "p" + std::to_string(number);
    return Value(Tensor{fn.addParam(dtype.irType(), {name}), dtype, {}});
  }
  // A tile of that shape in which each element is a parameter of the type.
  Value tile(const std::string &type, std::vector<int64_t> shape) {
    return call("broadcast_to", {param(type), ints(shape)});
  }
  static Value ints(const std::vector<int64_t> &numbers) {
    std::vector<Value> items;
    for (const int64_t number : numbers) {
      items.push_back(Value::integer(number));
    }
    return Value::tuple(items);
  }
  static Value real(double value) { return Value(Constant(value)); }
  static Value type(const std::string &name) { return Value(TypeValue{*DType::byName(name), {}}); }

  Value call(const std::string &name, std::vector<Value> positional,
             std::vector<std::pair<std::string, Value>> keyword = {}) {
    const Operation *operation = Semantics::find(name);
    if (operation == nullptr) {
      operation = Semantics::findMember(name, Operation::Receiver::Tensor);
    }
    EXPECT_NE(operation, nullptr) << name;
    return s.call(*operation, {std::move(positional), std::move(keyword)});
  }

  // Ends the function, verifies it, and gives its ops, one a line, without indentation; those that
  // the description of the parameters took (leading splats) included.
  std::string text() {
    builder.op(ir::Opcode::Return, {});
    ir::verifyOrThrow(fn, "test");
    std::istringstream all(ir::print(fn));
    std::string result;
    for (std::string line; std::getline(all, line);) {
      const size_t begin = line.find_first_not_of(' ');
      if (begin == std::string::npos || line.starts_with("func") || line == "}" ||
          line.substr(begin) == "return") {
        continue;
      }
      size_t end = line.find("  loc(");
      result += line.substr(begin, end == std::string::npos ? end : end - begin) + "\n";
    }
    return result;
  }
};

// The message of the UserError (or Unsupported) that the statement throws; "" if it throws none.
template <class E, class F> std::string messageOf(F statement) {
  try {
    statement();
  } catch (const E &error) {
    return error.message();
  }
  return "";
}

#define EXPECT_USER_ERROR(statement, text)                                                         \
  EXPECT_EQ(messageOf<ir::UserError>([&] { (void)(statement); }), text)
#define EXPECT_UNSUPPORTED(statement, text)                                                        \
  EXPECT_EQ(messageOf<ir::Unsupported>([&] { (void)(statement); }), text)

} // namespace libtile::frontend
