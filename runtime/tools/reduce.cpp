// SPDX-License-Identifier: Apache-2.0
// Greedy: steps are tried from the last op to the first, since what is used by nobody goes most easily, and a step
// that leaves the failure is kept. The first rounds take runs of neighbouring ops at once. It ends with a round of
// single ops in which no step was kept.
#include "runtime/tools/reduce.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/verifier.h"

#include <algorithm>
#include <optional>

namespace libtile {

using ir::Function;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

// What stands in for a value: an operand of its op, or zeros in front of the op. Nothing has the type of buffers.
std::optional<ValueId> standIn(Function &fn, OpId op, ValueId result, bool byOperand) {
  const Type type = fn.type(result);
  if (byOperand) {
    const auto operands = fn.operands(op);
    const auto found = std::ranges::find_if(operands, [&](ValueId value) { return fn.type(value) == type; });
    return found != operands.end() ? std::optional(*found) : std::nullopt;
  }
  return type.isScalar() || type.isTile() ? std::optional(ir::Builder(fn, op).zero(type)) : std::nullopt;
}

// False: the op stays, and the function may have constants that nobody uses.
bool takeAway(Function &fn, OpId op, bool byOperand) {
  if (fn.opInfo(op).isTerminator() || (fn.opcode(op) == ir::Opcode::Constant && !fn.unused(fn.result(op)))) {
    return false;
  }
  const std::vector<ValueId> results(fn.results(op).begin(), fn.results(op).end());
  for (const ValueId result : results) {
    if (fn.unused(result)) {
      continue;
    }
    const auto other = standIn(fn, op, result, byOperand);
    if (!other) {
      return false;
    }
    fn.replaceAllUses(result, *other);
  }
  fn.unlink(op);
  fn.erase(op);
  return true;
}

class Reduction {
public:
  Reduction(Function fn, const StillFails &fails) : fn_(std::move(fn)), fails_(fails) {}

  Function run() {
    for (size_t length = std::max<size_t>(fn_.walk().size() / 2, 1);;) {
      const bool shrank = round(length);
      if (!shrank && length == 1) {
        return std::move(fn_);
      }
      length = shrank ? length : length / 2;
    }
  }

private:
  // Tries each run of so many ops, from the end.
  bool round(size_t length) {
    bool shrank = false;
    const std::vector<OpId> ops = fn_.walk();
    for (size_t end = ops.size(); end > 0; end -= std::min(end, length)) {
      const std::span<const OpId> chosen = std::span(ops).subspan(end - std::min(end, length), std::min(end, length));
      shrank = tryStep(chosen, true) || tryStep(chosen, false) || shrank;
    }
    return shrank;
  }

  bool tryStep(std::span<const OpId> ops, bool byOperand) {
    Function smaller = fn_.clone();
    bool changed = false;
    for (size_t i = ops.size(); i-- > 0;) {
      if (!smaller.isErased(ops[i])) {
        changed = takeAway(smaller, ops[i], byOperand) || changed;
      }
    }
    if (!changed || !ir::verify(smaller).empty() || !fails_(smaller)) {
      return false;
    }
    fn_ = std::move(smaller);
    return true;
  }

  Function fn_;
  const StillFails &fails_;
};

} // namespace

Function reduced(Function fn, const StillFails &fails) { return Reduction(std::move(fn), fails).run(); }

} // namespace libtile
