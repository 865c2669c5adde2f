// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the verifier: what is being checked and what was found.
#pragma once

#include "ir/verifier.h"

namespace libtile::ir {

struct Checker {
  const Function &fn;
  int32_t lanes; // of a warp; 0: not known
  std::vector<Violation> found;

  void fail(int invariant, OpId op, std::string message) {
    found.push_back({invariant, op, std::move(message)});
  }
  // Records the message when `ok` is false.
  bool require(bool ok, int invariant, OpId op, const char *message) {
    if (!ok) {
      fail(invariant, op, message);
    }
    return ok;
  }
  [[nodiscard]] Type operandType(OpId op, unsigned i) const { return fn.type(fn.operand(op, i)); }
  [[nodiscard]] Type resultType(OpId op, unsigned i = 0) const { return fn.type(fn.result(op, i)); }
  // Types of a list of values.
  [[nodiscard]] std::vector<Type> types(std::span<const ValueId> values) const;
  // What the region's terminator yields.
  [[nodiscard]] std::vector<Type> yieldedTypes(OpId op, unsigned region) const;
  [[nodiscard]] std::vector<Type> argTypes(OpId op, unsigned region) const;
};

// Arity and attributes of the op are right when these are called.
void verifyTypeRule(Checker &checker, OpId op); // invariants 10 to 12
void verifyOp(Checker &checker, OpId op);       // invariants 13 to 30, verify_ops.cpp
void verifyControl(Checker &checker, OpId op);  // invariants 21 to 24 and 28, verify_control.cpp
void verifyDot(Checker &checker, OpId op);      // invariant 20 of dots, verify_dots.cpp
void verifyContract(Checker &checker, OpId op); // invariant 30 of contracts, likewise
void verifyTransposeWords(Checker &checker, OpId op);
void verifyCallSums(Checker &checker, OpId op); // invariant 25 of these, in verify_types.cpp
void verifyPlaces(Checker &checker);            // invariants 38 and 39, verify_places.cpp
void verifyArrivalsInit(Checker &checker, OpId op); // invariant 40, verify_boxes.cpp
void verifyCopyBox(Checker &checker, OpId op);      // likewise
void verifyStoreBox(Checker &checker, OpId op);    // likewise
void verifyStoreWait(Checker &checker, OpId op);   // likewise
void verifyArrivalsWait(Checker &checker, OpId op); // likewise
void verifyClusterBarrier(Checker &checker, OpId op); // likewise
void verifyArrive(Checker &checker, OpId op);       // likewise
void verifyProducer(Checker &checker, OpId op);     // invariant 41, verify_boxes.cpp
void verifyStage(Checker &checker, OpId op);    // invariants 31 to 36, verify_stages.cpp
void verifyFunction(Checker &checker);          // likewise

} // namespace libtile::ir
