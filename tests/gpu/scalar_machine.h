// SPDX-License-Identifier: Apache-2.0
// Runs a function's loops on the scalars that it knows; what else an op does, who derives from it says.
#pragma once

#include "ir/function.h"
#include "ir/ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>

namespace libtile::tests {

class ScalarMachine {
public:
  explicit ScalarMachine(const ir::Function &fn) : fn_(fn) {}
  virtual ~ScalarMachine() = default;

protected:
  // Any op but `for` and an `if` whose condition is known.
  virtual void visit(ir::OpId op) = 0;

  void run(ir::BlockId block) {
    for (const ir::OpId op : fn_.opsIn(block)) {
      if (fn_.opcode(op) == ir::Opcode::For) {
        loop(op);
      } else if (fn_.opcode(op) == ir::Opcode::If && numbers_.contains(fn_.operand(op, 0).index)) {
        branch(op);
      } else {
        visit(op);
      }
    }
  }

  [[nodiscard]] int64_t number(ir::OpId op, unsigned operand) const {
    return numbers_.at(fn_.operand(op, operand).index);
  }
  void set(ir::ValueId value, int64_t number) { numbers_[value.index] = number; }

  // The op's scalar, if those of its operands are known.
  void compute(ir::OpId op) {
    const auto isKnown = [&](ir::ValueId value) { return numbers_.contains(value.index); };
    if (fn_.results(op).size() != 1 || !fn_.type(fn_.result(op)).isScalar() || !std::ranges::all_of(fn_.operands(op), isKnown)) {
      return;
    }
    const auto given = [&](int64_t number) { set(fn_.result(op), number); };
    const ir::Opcode opcode = fn_.opcode(op);
    if (opcode == ir::Opcode::Constant) {
      given(fn_.getInt(op, ir::Attr::value));
    } else if (opcode == ir::Opcode::Add) {
      given(number(op, 0) + number(op, 1));
    } else if (opcode == ir::Opcode::Sub) {
      given(number(op, 0) - number(op, 1));
    } else if (opcode == ir::Opcode::Mul) {
      given(number(op, 0) * number(op, 1));
    } else if (opcode == ir::Opcode::And || opcode == ir::Opcode::Xor) {
      given(opcode == ir::Opcode::And ? number(op, 0) & number(op, 1) : number(op, 0) ^ number(op, 1));
    } else if (opcode == ir::Opcode::SMin) {
      given(std::min(number(op, 0), number(op, 1)));
    } else if (opcode == ir::Opcode::Select) {
      given(number(op, number(op, 0) != 0 ? 1 : 2));
    } else if (opcode == ir::Opcode::Cmp) {
      given(compare(fn_.getEnum<ir::CmpPred>(op, ir::Attr::predicate), number(op, 0), number(op, 1)) ? 1 : 0);
    }
  }

  const ir::Function &fn_;

private:
  static bool compare(ir::CmpPred predicate, int64_t a, int64_t b) {
    EXPECT_TRUE(predicate == ir::CmpPred::eq || predicate == ir::CmpPred::ne || predicate == ir::CmpPred::slt ||
                predicate == ir::CmpPred::ugt);
    if (predicate == ir::CmpPred::ugt) {
      return static_cast<uint64_t>(a) > static_cast<uint64_t>(b);
    }
    return predicate == ir::CmpPred::eq ? a == b : predicate == ir::CmpPred::ne ? a != b : a < b;
  }

  void branch(ir::OpId op) {
    const ir::BlockId block = fn_.region(op, number(op, 0) != 0 ? 0 : 1);
    run(block);
    const ir::OpId end = fn_.last(block);
    for (unsigned i = 0; i < fn_.numOperands(end); ++i) {
      copy(fn_.operand(end, i), fn_.result(op, i));
    }
  }

  void loop(ir::OpId op) {
    const ir::BlockId body = fn_.region(op);
    for (unsigned i = 3; i < fn_.numOperands(op); ++i) {
      copy(fn_.operand(op, i), fn_.arg(body, i - 2));
    }
    for (int64_t k = number(op, 0); k < number(op, 1); k += number(op, 2)) {
      set(fn_.arg(body, 0), k);
      run(body);
      std::map<uint32_t, int64_t> next;
      const ir::OpId end = fn_.last(body);
      for (unsigned i = 0; i < fn_.numOperands(end); ++i) {
        if (numbers_.contains(fn_.operand(end, i).index)) {
          next[fn_.arg(body, i + 1).index] = numbers_[fn_.operand(end, i).index];
        }
      }
      for (const auto &[value, is] : next) {
        numbers_[value] = is;
      }
    }
    for (unsigned i = 0; i < fn_.results(op).size(); ++i) {
      copy(fn_.arg(body, i + 1), fn_.result(op, i));
    }
  }

  void copy(ir::ValueId from, ir::ValueId to) {
    if (const auto found = numbers_.find(from.index); found != numbers_.end()) {
      set(to, found->second);
    }
  }

  std::map<uint32_t, int64_t> numbers_; // of scalars that are known
};

} // namespace libtile::tests
