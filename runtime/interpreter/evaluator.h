// SPDX-License-Identifier: Apache-2.0
// The interpreter of one launch. Each family of ops has a file of its own; control.cpp has the switch over all.
#pragma once

#include "ir/function.h"
#include "ir/ops.h"
#include "runtime/interpreter/interpreter.h"
#include "runtime/interpreter/races.h"
#include "runtime/interpreter/value.h"
#include "runtime/interpreter/work.h"

#include <vector>

namespace libtile::runtime::interpreter {

class Evaluator {
public:
  explicit Evaluator(const Launch &launch);
  // All programs. Throws Finding, and Interrupted.
  void run();

private:
  struct Interrupted {};
  friend Outcome interpreter::run(const Launch &launch);
  using Values = std::vector<Value>;

  // ---- control.cpp
  void runProgram(uint32_t number);
  // Runs the ops of the block; gives the operands of its terminator.
  Values runBlock(ir::BlockId block);
  void runOp(ir::OpId op);
  void runFor(ir::OpId op);
  void runWhile(ir::OpId op);
  void runIf(ir::OpId op);
  void findLastUses();
  void attend(uint64_t elements);
  void define(ir::OpId op, Value value) { values_.set(fn_.result(op), std::move(value)); }
  void defineAll(ir::OpId op, Values values);
  [[nodiscard]] const Value &of(ir::ValueId value) const { return values_[value]; }
  [[nodiscard]] const Value &operand(ir::OpId op, unsigned i) const { return of(fn_.operand(op, i)); }
  [[nodiscard]] size_t count(ir::OpId op) const;
  // The one bit of a scalar condition, which must be defined.
  bool decide(ir::OpId op, const Value &value);

  // ---- elementwise.cpp, integers.cpp, floats.cpp, casts.cpp: one element from the same elements of the operands
  [[nodiscard]] Value elementwise(ir::OpId op);
  [[nodiscard]] Value arithmetic(ir::OpId op);
  [[nodiscard]] Value integers(ir::OpId op);
  [[nodiscard]] Value floats(ir::OpId op);
  [[nodiscard]] Value cast(ir::OpId op);
  [[nodiscard]] Value compare(ir::OpId op);
  [[nodiscard]] Value select(ir::OpId op);
  [[nodiscard]] Value addToPointer(ir::OpId op);
  void inheritMarks(ir::OpId op, Value &result) const;
  [[nodiscard]] bool isIndexMark(Mark mark) const;

  // ---- shapes.cpp
  [[nodiscard]] Value constant(ir::OpId op) const;
  [[nodiscard]] Value arange(ir::OpId op) const;
  [[nodiscard]] Value moved(ir::OpId op) const;
  [[nodiscard]] Value gather(ir::OpId op) const;
  [[nodiscard]] Value histogram(ir::OpId op) const;
  [[nodiscard]] Value sort(ir::OpId op) const;

  // ---- across.cpp
  void runReduce(ir::OpId op);
  void runScan(ir::OpId op);
  void runMap(ir::OpId op);
  [[nodiscard]] Values combine(ir::BlockId region, const Values &left, const Values &right);
  [[nodiscard]] bool isStraight(ir::BlockId block) const;
  [[nodiscard]] Value dot(ir::OpId op) const;
  void markDot(ir::OpId op, Value &result) const;

  // ---- accesses.cpp
  void runLoad(ir::OpId op);
  void runStore(ir::OpId op);
  void runAtomicRmw(ir::OpId op);
  void runAtomicCas(ir::OpId op);
  // An access op, as all of its elements have it.
  struct Access {
    ir::OpId op;
    const Value &pointers;
    const Value *mask; // null: none
    ir::Type element;
    bool isAtomic;
  };
  [[nodiscard]] Access begin(ir::OpId op, unsigned maskOperand);
  [[nodiscard]] bool isOn(const Access &access, size_t i) const;
  // The memory of the element, which is looked at first.
  [[nodiscard]] uint8_t *reach(const Access &access, size_t i);
  void checkPlace(const Access &access, size_t i) const;
  void checkRaces(const Access &access, size_t i);
  void finish(const Access &access);
  void storeElement(const Access &access, const Value &value, size_t i);
  // "one address" for all elements of a tile: they order programs together.
  [[nodiscard]] static uint64_t orderKey(const Access &access);

  // ---- work.cpp; where work_ is not null, but for the first
  void prepareCounting();
  void countAccess(const Access &access, size_t i);
  void countArithmetic(ir::OpId op, size_t elements) const;
  void countDot(ir::OpId op) const;

  // ---- messages.cpp
  void runPrint(ir::OpId op);
  void runAssert(ir::OpId op);
  void runAssume(ir::OpId op);
  void runHint(ir::OpId op);

  [[nodiscard]] Finding finding(Finding::Kind kind, ir::OpId op, size_t element) const;
  [[nodiscard]] Finding findingAt(Finding::Kind kind, const Access &access, size_t element) const;
  [[noreturn]] void failUndefined(ir::OpId op, const char *use, Mark mark, size_t element) const;
  // Throws if the element is marked as undefined.
  void requireDefined(ir::OpId op, const char *use, const Value &value, size_t i) const {
    if (const Mark mark = value.mark(i); mark != 0 && !isIndexMark(mark)) [[unlikely]] {
      failUndefined(op, use, mark, i);
    }
  }

  const Launch &launch_;
  const ir::Function &fn_;
  Races races_;
  ir::IndexMap<ir::ValueId, Value> values_;
  ir::IndexMap<ir::OpId, std::vector<ir::ValueId>> dead_; // behind the op nobody needs these
  int32_t program_[3] = {};
  Work *work_ = nullptr;  // null: the launch is not counted
  uint64_t stride_ = 1;   // of the programs that run
  uint64_t looked_ = 0;   // elements since the clock was read last
  uint64_t polledAt_ = 0; // 0: the launch does not last yet
};

} // namespace libtile::runtime::interpreter
