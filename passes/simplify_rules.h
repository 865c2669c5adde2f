// SPDX-License-Identifier: Apache-2.0
// What the rules of simplify are written in, private to simplify*.cpp. A family of rules is a
// function that looks at one op and either gives the value that replaces its only result, or edits
// in place and says so, or leaves it. New ops go in front of it. Before adding a rule read
// simplify.md.
#pragma once

#include "ir/builder.h"
#include "ir/function.h"
#include "ir/ops.h"

#include <optional>

namespace libtile::passes {

class Rewriter {
public:
  explicit Rewriter(ir::Function &function) : fn(function), builder(function) {}

  ir::Function &fn;
  ir::Builder builder;           // inserts in front of the op in hand
  bool edited = false;           // set by a rule that has changed something in place
  std::vector<ir::OpId> touched; // ops other than the one in hand to be looked at again

  // ---- looking
  [[nodiscard]] ir::OpId def(ir::ValueId value) const { return fn.def(value); }
  [[nodiscard]] bool is(ir::ValueId value, ir::Opcode opcode) const {
    return fn.defOpcode(value) == opcode;
  }
  // The operand of the op with that opcode that defines the value; invalid if another does.
  [[nodiscard]] ir::ValueId through(ir::ValueId value, ir::Opcode opcode) const {
    return is(value, opcode) ? fn.operand(fn.def(value), 0) : ir::ValueId{};
  }
  [[nodiscard]] std::optional<int64_t> intOf(ir::ValueId value) const {
    return fn.constantInt(value);
  }
  [[nodiscard]] std::optional<double> floatOf(ir::ValueId value) const {
    return fn.constantFloat(value);
  }
  [[nodiscard]] bool isConstant(ir::ValueId value) const { return is(value, ir::Opcode::Constant); }
  // The integer constant is n, taken modulo the width (-1: all ones; of i1: true).
  [[nodiscard]] bool isInt(ir::ValueId value, int64_t n) const;
  // The float constant has exactly these bits (0.0 is not -0.0).
  [[nodiscard]] bool isFloat(ir::ValueId value, double x) const;
  // The scalar of a splat, as it is or to be made of a constant tile; see scalarOf.
  [[nodiscard]] bool isSplat(ir::ValueId value) const {
    return is(value, ir::Opcode::Splat) || isConstant(value);
  }

  // ---- making
  ir::ValueId constant(ir::Type type, ir::AttrValue value);
  ir::ValueId constant(ir::Type type, int64_t value) { return builder.constInt(type, value); }
  // The scalar that all elements of the splat or constant tile are.
  ir::ValueId scalarOf(ir::ValueId splat);
  // An op of the same opcode and attributes over other operands.
  ir::ValueId sameOp(ir::OpId op, std::span<const ir::ValueId> operands, ir::Type result);
  ir::ValueId make(ir::Opcode opcode, std::initializer_list<ir::ValueId> operands) {
    return builder.make(opcode, operands);
  }
};

using Rule = ir::ValueId (*)(Rewriter &, ir::OpId);

ir::ValueId simplifyConstants(Rewriter &rewriter, ir::OpId op); // simplify.cpp
ir::ValueId simplifySplats(Rewriter &rewriter, ir::OpId op);    // simplify_shape.cpp
ir::ValueId simplifyInteger(Rewriter &rewriter, ir::OpId op);   // simplify_integer.cpp
ir::ValueId simplifyFloat(Rewriter &rewriter, ir::OpId op);     // simplify_float.cpp
ir::ValueId simplifyCompare(Rewriter &rewriter, ir::OpId op);   // simplify_compare.cpp
ir::ValueId simplifySelect(Rewriter &rewriter, ir::OpId op);    // simplify_compare.cpp
ir::ValueId simplifyCast(Rewriter &rewriter, ir::OpId op);      // simplify_cast.cpp
ir::ValueId simplifyShape(Rewriter &rewriter, ir::OpId op);     // simplify_shape.cpp
ir::ValueId simplifyMemory(Rewriter &rewriter, ir::OpId op);    // simplify_memory.cpp
ir::ValueId simplifyControl(Rewriter &rewriter, ir::OpId op);   // simplify_control.cpp

} // namespace libtile::passes
