// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/mark_streams.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"

#include <algorithm>

namespace libtile::passes {

using ir::Attr;
using ir::Effects;
using ir::OpId;
using ir::Opcode;
using ir::ValueId;

namespace {

// The ends of a shorter row, which share lines with its neighbours, are too much of it.
constexpr int64_t kShortestRow = 1024; // bytes

bool isLongRow(const ir::Type &pointers) {
  return pointers.isTile() && pointers.rank() > 0 && pointers.shape().back() * pointers.element().pointee().elementBytes() >= kShortestRow;
}

bool hasNoHint(const ir::Function &fn, OpId store) {
  return !fn.hasAttr(store, Attr::cache) && !fn.hasAttr(store, Attr::evict) && !fn.hasAttr(store, Attr::is_volatile) &&
         !fn.hasAttr(store, Attr::sem);
}

} // namespace

bool markStreams(ir::Function &fn, const PassContext &) {
  const Facts facts = computeFacts(fn);
  std::vector<ValueId> touched; // arrays, once for each access; invalid: any
  std::vector<std::pair<OpId, ValueId>> stores;
  for (OpId op : fn.walk()) {
    const Effects effects = fn.ownEffects(op);
    if (!effects.has(Effects::ReadsGlobal) && !effects.has(Effects::WritesGlobal)) {
      continue;
    }
    const ValueId pointer = fn.operand(op, 0);
    const auto bases = basePointers(fn, pointer, facts);
    touched.insert(touched.end(), bases.begin(), bases.end());
    if (bases.empty()) {
      touched.emplace_back();
    }
    if (fn.opcode(op) == Opcode::Store && bases.size() == 1 && hasNoHint(fn, op) && isLongRow(fn.type(pointer))) {
      stores.emplace_back(op, bases[0]);
    }
  }
  bool changed = false;
  for (const auto &[store, base] : stores) {
    if (std::ranges::count(touched, base) == 1 && std::ranges::count(touched, ValueId()) == 0) {
      fn.setAttr(store, Attr::cache, ir::CacheHint::cs);
      changed = true;
    }
  }
  return changed;
}

} // namespace libtile::passes
