// SPDX-License-Identifier: Apache-2.0
// The making of Facts, private to facts*.cpp: one file for each family of claims (axis, range,
// affine) and one for the walk. Each family looks only at the operands' facts, so that the walk
// computes all three of an op together.
#pragma once

#include "passes/analysis/facts.h"

#include <utility>

namespace libtile::passes {

// Which of the two kinds of claims (facts.h) a rule makes, and which of its operands it asks.
enum class Trust { Proved, Promised };

class FactsBuilder {
public:
  using Claims = Facts::Claims;
  using ValueFacts = Facts::ValueFacts;
  struct AxisPair;

  explicit FactsBuilder(const ir::Function &fn) : fn_(fn) {}
  Facts run();

private:
  // ---- the walk (facts_builder.cpp)
  void collectAssumptions();
  void assume(ir::ValueId condition, ir::BlockId block);
  void assumeBound(ir::ValueId value, ir::CmpPred predicate, int64_t bound, ir::BlockId block);
  void visitParams();
  void visitBlock(ir::BlockId block, unsigned depth);
  void visitOp(ir::OpId op, unsigned depth);
  void visitLoop(ir::OpId op, unsigned depth);
  void visitIf(ir::OpId op, unsigned depth);
  void visitOther(ir::OpId op, unsigned depth);
  void loopBodies(ir::OpId op, std::span<const ValueFacts> carried, unsigned depth);
  ValueFacts induction(ir::OpId op) const;
  IntRange inductionRange(ir::OpId op, Trust trust, IntRange whole) const;
  // The values that the region's yield carries around a loop.
  [[nodiscard]] std::vector<ir::ValueId> carriedYield(ir::OpId op) const;

  // Facts without knowledge, of the value's type.
  [[nodiscard]] ValueFacts unknown(ir::ValueId value) const;
  // What is true of both; `widen`: bounds of the range that move go to the type's.
  [[nodiscard]] ValueFacts join(const ValueFacts &a, const ValueFacts &b, ir::ValueId value,
                                bool widen) const;
  // Stores the facts, sharpened by assumptions, with a form of its own if it has none.
  void set(ir::ValueId value, ValueFacts facts);
  [[nodiscard]] const ValueFacts &of(ir::ValueId value) const { return facts_.values_[value]; }
  [[nodiscard]] const Claims &claims(ir::ValueId value, Trust trust) const {
    return trust == Trust::Proved ? of(value).proved : of(value).promised;
  }
  // Of the op's first result, whose shape `result` says.
  [[nodiscard]] Claims claimsOf(ir::OpId op, const ValueFacts &result, Trust trust) const;
  [[nodiscard]] bool mayPromiseMore(ir::OpId op, const ValueFacts &result) const;

  // ---- axis facts (facts_axis.cpp)
  using Axes = llvm::SmallVector<AxisFacts, 2>;
  class AxisRules;
  [[nodiscard]] Axes axesOf(ir::OpId op, const ValueFacts &result, Trust trust) const;
  [[nodiscard]] int64_t allDivisible(ir::ValueId value, Trust trust) const;

  // ---- ranges (facts_range.cpp): of the op's first result
  [[nodiscard]] IntRange rangeOf(ir::OpId op, Trust trust) const;
  [[nodiscard]] IntRange arithmeticRange(ir::OpId op, Trust trust) const;
  [[nodiscard]] IntRange compareRange(ir::OpId op, Trust trust) const;

  // ---- affine forms (facts_affine.cpp): -1 if there is none
  int32_t affineOf(ir::OpId op);
  std::optional<AffineForm> arithmeticForm(ir::OpId op) const;
  std::optional<AffineForm> castForm(ir::OpId op) const;
  std::optional<AffineForm> extendedForm(ir::ValueId value, bool isSigned) const;
  std::optional<AffineForm> shapeForm(ir::OpId op) const;
  int32_t ownForm(ir::ValueId value);
  int32_t addForm(AffineForm form);

  const ir::Function &fn_;
  Facts facts_;
  struct Assumption {
    IntRange range;
    int64_t divisible = 1;
  };
  ir::IndexMap<ir::ValueId, Assumption> assumptions_;
};

// ---- shared arithmetic of runs
// Largest power of two that divides the value; AxisFacts::kMaxDivisible for 0.
[[nodiscard]] int64_t lowBit(int64_t value);
// Divisibility of every element, not only of the first of each group; `unit` is what one step is worth.
[[nodiscard]] int64_t everyElement(const AxisFacts &axis, int64_t unit);
// The longest group that fits both groups along an axis of `extent` elements.
[[nodiscard]] int64_t commonRun(int64_t a, int64_t b, int64_t extent);
// Least and greatest value of a scalar of this width.
[[nodiscard]] IntRange typeRange(ir::Type type);
[[nodiscard]] IntRange hull(IntRange a, IntRange b);
[[nodiscard]] IntRange intersect(IntRange a, IntRange b);

} // namespace libtile::passes
