// SPDX-License-Identifier: Apache-2.0
// Runs scalar integer tile IR: enough to compare control flow with a reference. Pointers are
// offsets in elements; stores are recorded in order.
#pragma once

#include "ir/function.h"
#include "ir/ops.h"

#include <stdexcept>
#include <vector>

namespace libtile::frontend {

class ScalarInterpreter {
public:
  struct Written {
    int64_t offset, value;
    friend bool operator==(const Written &, const Written &) = default;
  };
  std::vector<Written> trace;

  explicit ScalarInterpreter(const ir::Function &fn) : fn_(fn), values_(fn.numValues()) {}

  void run(const std::vector<int64_t> &arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      set(fn_.arg(fn_.body(), i), arguments[i]);
    }
    block(fn_.body());
  }

private:
  using Numbers = std::vector<int64_t>;

  [[nodiscard]] int64_t get(ir::ValueId value) const { return values_[value.index]; }
  void set(ir::ValueId value, int64_t number) {
    const ir::Type type = fn_.type(value);
    if (!type.isPointer()) {
      number = type.isBool() ? number & 1 : static_cast<int32_t>(number);
    }
    values_[value.index] = number;
  }
  Numbers operands(ir::OpId op, unsigned from = 0) const {
    Numbers out;
    for (unsigned i = from; i < fn_.numOperands(op); ++i) {
      out.push_back(get(fn_.operand(op, i)));
    }
    return out;
  }
  void results(ir::OpId op, const Numbers &numbers) {
    for (size_t i = 0; i < fn_.results(op).size(); ++i) {
      set(fn_.result(op, i), numbers.at(i));
    }
  }
  // What the block yields.
  Numbers block(ir::BlockId id) {
    for (const ir::OpId op : fn_.opsIn(id)) {
      if (fn_.opcode(op) == ir::Opcode::Yield) {
        return operands(op);
      }
      step(op);
    }
    return {};
  }
  Numbers block(ir::BlockId id, const Numbers &arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      set(fn_.arg(id, i), arguments[i]);
    }
    return block(id);
  }
  // Takes the stop flag off; whether the loop ends.
  bool stops(ir::OpId op, Numbers &yielded) const {
    if (!fn_.getBool(op, ir::Attr::stop)) {
      return false;
    }
    const bool stop = yielded.front() != 0;
    yielded.erase(yielded.begin());
    return stop;
  }

  void forLoop(ir::OpId op) {
    Numbers carried = operands(op, 3);
    const int64_t by = get(fn_.operand(op, 2));
    const int64_t to = get(fn_.operand(op, 1));
    for (int64_t i = get(fn_.operand(op, 0)); by > 0 ? i < to : i > to; i += by) {
      Numbers arguments = carried;
      arguments.insert(arguments.begin(), i);
      carried = block(fn_.region(op), arguments);
      if (stops(op, carried)) {
        break;
      }
    }
    results(op, carried);
  }
  void whileLoop(ir::OpId op) {
    Numbers carried = operands(op);
    while (block(fn_.region(op, 0), carried).at(0) != 0) {
      carried = block(fn_.region(op, 1), carried);
      if (stops(op, carried)) {
        break;
      }
    }
    results(op, carried);
  }

  static bool compare(ir::CmpPred predicate, int64_t a, int64_t b) {
    switch (predicate) {
    case ir::CmpPred::eq:
      return a == b;
    case ir::CmpPred::ne:
      return a != b;
    case ir::CmpPred::slt:
      return a < b;
    case ir::CmpPred::sle:
      return a <= b;
    case ir::CmpPred::sgt:
      return a > b;
    case ir::CmpPred::sge:
      return a >= b;
    default:
      throw std::runtime_error("predicate");
    }
  }

  void step(ir::OpId op) {
    const Numbers in = operands(op);
    switch (fn_.opcode(op)) {
    case ir::Opcode::Constant:
      set(fn_.result(op), fn_.getInt(op, ir::Attr::value));
      break;
    case ir::Opcode::Add:
    case ir::Opcode::PtrAdd:
      set(fn_.result(op), in[0] + in[1]);
      break;
    case ir::Opcode::Sub:
      set(fn_.result(op), in[0] - in[1]);
      break;
    case ir::Opcode::Mul:
      set(fn_.result(op), in[0] * in[1]);
      break;
    case ir::Opcode::And:
      set(fn_.result(op), in[0] & in[1]);
      break;
    case ir::Opcode::Or:
      set(fn_.result(op), in[0] | in[1]);
      break;
    case ir::Opcode::Xor:
      set(fn_.result(op), in[0] ^ in[1]);
      break;
    case ir::Opcode::SExt:
    case ir::Opcode::ZExt:
    case ir::Opcode::Trunc:
      set(fn_.result(op), in[0]);
      break;
    case ir::Opcode::Cmp:
      set(fn_.result(op),
          compare(fn_.getEnum<ir::CmpPred>(op, ir::Attr::predicate), in[0], in[1]) ? 1 : 0);
      break;
    case ir::Opcode::Store:
      trace.push_back({in[0], in[1]});
      break;
    case ir::Opcode::If:
      results(op, block(fn_.region(op, in[0] != 0 ? 0 : 1)));
      break;
    case ir::Opcode::For:
      forLoop(op);
      break;
    case ir::Opcode::While:
      whileLoop(op);
      break;
    case ir::Opcode::Return:
      break;
    default:
      throw std::runtime_error(std::string("no rule for ") + fn_.opInfo(op).mnemonic);
    }
  }

  const ir::Function &fn_;
  std::vector<int64_t> values_;
};

} // namespace libtile::frontend
