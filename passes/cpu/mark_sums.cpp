// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/mark_sums.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"

#include <algorithm>

namespace libtile::passes {

using ir::Attr;
using ir::Effects;
using ir::Function;
using ir::OpId;
using ir::Opcode;
using ir::ValueId;

namespace {

// A thread's sums are zeroed and added once a call: more than its first cache keeps would cost more than they save.
constexpr int64_t kMostBytes = 16 << 10;

bool isAddition(const Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::AtomicRmw && fn.getEnum<ir::AtomicKind>(op, Attr::kind) == ir::AtomicKind::add &&
         fn.unused(fn.result(op)) && !fn.hasAttr(op, Attr::within);
}

} // namespace

std::optional<SumsPlace> placeOfSums(const Function &fn, OpId addition) {
  const ValueId pointer = fn.operand(addition, 0);
  const ir::Type &type = fn.type(fn.operand(addition, 1));
  if (!type.isTile() || type.rank() != 1 || type.elementBytes() < 4 || type.numElements() * type.elementBytes() > kMostBytes ||
      fn.defOpcode(pointer) != Opcode::PtrAdd) {
    return std::nullopt;
  }
  const ValueId base = fn.operand(fn.def(pointer), 0), index = fn.operand(fn.def(pointer), 1);
  if (fn.defOpcode(base) != Opcode::Splat || fn.defOpcode(index) != Opcode::Arange) {
    return std::nullopt;
  }
  const ValueId array = fn.operand(fn.def(base), 0);
  const int64_t start = fn.getInt(fn.def(index), Attr::start);
  const bool isParameter = fn.isArg(array) && fn.defBlock(array) == fn.body();
  return isParameter && start >= 0 ? std::optional(SumsPlace{array, start}) : std::nullopt;
}

bool markSums(Function &fn, const PassContext &) {
  const Facts facts = computeFacts(fn);
  std::vector<OpId> additions;
  std::vector<ValueId> touched; // by other ops; invalid: any array
  for (OpId op : fn.walk()) {
    const Effects effects = fn.ownEffects(op);
    if (isAddition(fn, op) && placeOfSums(fn, op)) {
      additions.push_back(op);
    } else if (effects.has(Effects::Ordered) || effects.has(Effects::Synchronises)) {
      return false;
    } else if (effects.has(Effects::ReadsGlobal) || effects.has(Effects::WritesGlobal)) {
      const auto bases = basePointers(fn, fn.operand(op, 0), facts);
      touched.insert(touched.end(), bases.begin(), bases.end());
      touched.resize(touched.size() + (bases.empty() ? 1 : 0));
    }
  }
  for (OpId op : additions) {
    const ValueId array = placeOfSums(fn, op)->array;
    if (std::ranges::any_of(touched, [&](ValueId other) { return mayOverlap(fn, array, other); })) {
      return false;
    }
  }
  for (OpId op : additions) {
    fn.setAttr(op, Attr::deferred, true);
  }
  return !additions.empty();
}

} // namespace libtile::passes
