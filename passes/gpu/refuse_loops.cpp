// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/refuse_loops.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/op_properties.h"

#include <algorithm>

namespace libtile::passes {

using ir::Attr;
using ir::Opcode;
using ir::OpId;

// Loads of other addresses may pass an atomic that does not acquire, but no other ordered op.
static bool keepsLoadsBehind(const ir::Function &fn, OpId op) {
  const bool isAtomic = fn.opcode(op) == Opcode::AtomicRmw || fn.opcode(op) == Opcode::AtomicCas;
  return fn.ownEffects(op).has(ir::Effects::Ordered) && (!isAtomic || acquires(fn, op));
}

const char *loopRefusal(const ir::Function &fn, const Facts &facts, OpId loop) {
  if (fn.getBool(loop, Attr::stop)) {
    return "no copies ahead: the loop may stop early";
  }
  const IntRange step = facts.range(fn.operand(loop, 2));
  if (step.lo <= 0) {
    return "no copies ahead: the loop's step may not be positive";
  }
  const std::vector<OpId> ops = fn.walk(fn.region(loop));
  if (std::any_of(ops.begin(), ops.end(), [&](OpId op) { return keepsLoadsBehind(fn, op); })) {
    return "no copies ahead: an atomic that acquires, a volatile access, print or assert of the loop keeps its "
           "place";
  }
  // iv + stages * step is computed in 64 bits and must not wrap, nor be read with another sign.
  constexpr int64_t kFar = int64_t{1} << 61;
  const int64_t least = fn.getBool(loop, Attr::is_unsigned) ? 0 : -kFar;
  const bool wide = fn.type(fn.operand(loop, 1)).elementBits() > 32;
  for (const unsigned bound : {0U, 1U}) {
    if (wide && !facts.range(fn.operand(loop, bound)).within(least, kFar)) {
      return "no copies ahead: the loop's bounds may be near the end of 64 bits";
    }
  }
  if (step.hi > kFar / kMostStages) {
    return "no copies ahead: the loop's step is near the end of 64 bits";
  }
  return nullptr;
}

const char *loadRefusal(const ir::Function &fn, const Facts &facts, OpId load) {
  if (fn.ownEffects(load).has(ir::Effects::Ordered)) {
    return "no copy ahead: a volatile load";
  }
  return mayWriteTo(fn, fn.block(load), load, facts) ? "no copy ahead: a store of the loop may write what is loaded" : nullptr;
}

} // namespace libtile::passes
