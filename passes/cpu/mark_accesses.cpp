// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/mark_accesses.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"

#include <algorithm>

namespace libtile::passes {

using ir::Effects;
using ir::OpId;
using ir::ValueId;

bool markAccesses(ir::Function &fn, const PassContext &context) {
  if (!context.checksAccesses) {
    return false;
  }
  const Facts facts = computeFacts(fn);
  bool changed = false;
  for (OpId op : fn.walk()) {
    const Effects effects = fn.ownEffects(op);
    if (!effects.has(Effects::ReadsGlobal) && !effects.has(Effects::WritesGlobal)) {
      continue;
    }
    std::vector<int64_t> arrays;
    for (ValueId base : basePointers(fn, fn.operand(op, 0), facts)) {
      arrays.push_back(fn.defIndex(base));
    }
    if (!arrays.empty()) {
      std::ranges::sort(arrays);
      fn.setAttr(op, ir::Attr::within, ir::AttrValue(std::move(arrays)));
      changed = true;
    }
  }
  return changed;
}

} // namespace libtile::passes
