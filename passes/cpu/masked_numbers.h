// SPDX-License-Identifier: Apache-2.0
// What the elements behind a mask are.
//
// Behind the end of a mask each element is computed from the same things: loads give `other`, selects
// their last operand, and what is known in front of the nest is one number, though not a known one. So all
// those elements are one number, and often it is one of a few:
//
//   load %p, %m, -inf                       -inf
//   sub (load), %most                       -inf or NaN, whatever %most is
//   exp (sub)                               0 or NaN
#pragma once

#include "ir/function.h"

#include <map>
#include <optional>

namespace libtile::passes {

// An element's number, as `value` of a constant has it. All NaNs are one.
struct Number {
  bool isFloat = false;
  int64_t integer = 0;
  double real = 0;

  [[nodiscard]] static Number of(const ir::AttrValue &value);
  [[nodiscard]] ir::AttrValue attr() const;
  friend bool operator==(const Number &a, const Number &b);
};

class MaskedNumbers {
public:
  // The body of a nest or fold; `position`: an op in front of which constants may be made for a moment.
  MaskedNumbers(ir::Function &fn, ir::OpId position, ir::BlockId body)
      : fn_(fn), position_(position), body_(body) {}

  // The result of a compare of the body is false behind the mask.
  void setFalse(ir::ValueId compare);
  void evaluate();
  // For each element that the fold's body yields one of these numbers, its combine yields it again when both
  // sides are that element. Requires: evaluate().
  [[nodiscard]] bool combineKeeps(ir::BlockId combine);

private:
  // One number for all elements: one of `known`, or, where that is empty, any.
  struct Candidates {
    llvm::SmallVector<Number, 4> known;
    friend bool operator==(const Candidates &, const Candidates &) = default;
  };

  void evaluate(ir::BlockId block);
  void evaluateLoop(ir::OpId loop);
  void evaluateLoad(ir::OpId load);
  void evaluateElementwise(ir::OpId op);
  // The image of a function over all choices of its operands; the numbers that it may give.
  [[nodiscard]] std::optional<Candidates> image(ir::OpId op, std::vector<Candidates> operands);
  [[nodiscard]] std::optional<Number> fold(ir::OpId op, const std::vector<Number> &operands);
  [[nodiscard]] std::optional<Candidates> candidates(ir::ValueId value) const;
  void set(ir::ValueId value, std::optional<Candidates> numbers);
  [[nodiscard]] bool isFalse(ir::ValueId value) const;
  // Grows `into`; false: too many.
  [[nodiscard]] static bool join(Candidates &into, const Candidates &from);

  ir::Function &fn_;
  ir::OpId position_;
  ir::BlockId body_;
  std::map<ir::ValueId, Candidates> numbers_;
  std::map<ir::ValueId, Number> false_;
};

} // namespace libtile::passes
