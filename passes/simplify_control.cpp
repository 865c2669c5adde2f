// SPDX-License-Identifier: Apache-2.0
// Control that is decided at compile time: conditions that are constant, loops that run never or
// once, assertions that hold, and carried values that do not change. Slots that nobody reads any more are left to
// eliminate_dead_code.
#include "ir/ops.h"
#include "passes/simplify_rules.h"

#include <algorithm>

namespace libtile::passes {

using ir::Attr;
using ir::BlockId;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

void replace(Rewriter &rw, ValueId from, ValueId to) {
  if (from == to || rw.fn.unused(from)) {
    return;
  }
  for (const ir::Use &use : rw.fn.uses(from)) {
    rw.touched.push_back(use.op);
  }
  rw.fn.replaceAllUses(from, to);
  rw.edited = true;
}

// The region's ops take the op's place; its results become what the region yields from `skip` on.
void inlineRegion(Rewriter &rw, OpId op, BlockId region, unsigned skip) {
  const OpId yield = rw.fn.last(region);
  const ir::Values yielded(rw.fn.operands(yield).begin(), rw.fn.operands(yield).end());
  rw.fn.erase(yield);
  rw.fn.spliceBefore(op, region);
  for (unsigned i = 0; i < rw.fn.results(op).size(); ++i) {
    replace(rw, rw.fn.result(op, i), yielded[i + skip]);
  }
  rw.fn.erase(op);
  rw.edited = true;
}

void simplifyIf(Rewriter &rw, OpId op) {
  const auto condition = rw.intOf(rw.fn.operand(op, 0));
  if (condition) {
    inlineRegion(rw, op, rw.fn.region(op, *condition != 0 ? 0 : 1), 0);
    return;
  }
  const OpId a = rw.fn.last(rw.fn.region(op, 0)), b = rw.fn.last(rw.fn.region(op, 1));
  for (unsigned i = 0; i < rw.fn.results(op).size(); ++i) {
    const ValueId value = rw.fn.operand(a, i);
    if (value == rw.fn.operand(b, i)) { // visible in both, so from outside
      replace(rw, rw.fn.result(op, i), value);
    }
  }
}

enum class Trips : uint8_t { Never, Once, Unknown };

Trips tripCount(const Rewriter &rw, OpId op) {
  const ValueId low = rw.fn.operand(op, 0), high = rw.fn.operand(op, 1);
  const auto lo = rw.intOf(low), hi = rw.intOf(high), step = rw.intOf(rw.fn.operand(op, 2));
  if (low == high) {
    return Trips::Never;
  }
  const bool isUnsigned = rw.fn.getBool(op, Attr::is_unsigned);
  if (!lo || !hi || !step || *step == 0 || (isUnsigned && (*lo < 0 || *hi < 0 || *step < 0))) {
    return Trips::Unknown;
  }
  using Wide = __int128;
  const Wide next = Wide{*lo} + *step;
  if (*step > 0 ? *lo >= *hi : *lo <= *hi) {
    return Trips::Never;
  }
  return (*step > 0 ? next >= *hi : next <= *hi) ? Trips::Once : Trips::Unknown;
}

// Carried values that are yielded as they came in, or as they started.
void dropUnchanged(Rewriter &rw, OpId op, unsigned firstInit) {
  const OpId yield = rw.fn.last(rw.fn.regions(op).back());
  const unsigned skip = rw.fn.getBool(op, Attr::stop) ? 1 : 0;
  const unsigned shift = rw.fn.opcode(op) == Opcode::For ? 1 : 0;
  for (unsigned i = 0; i < rw.fn.results(op).size(); ++i) {
    const ValueId init = rw.fn.operand(op, firstInit + i), next = rw.fn.operand(yield, i + skip);
    if (next != init && next != rw.fn.arg(rw.fn.regions(op).back(), i + shift)) {
      continue;
    }
    for (BlockId region : rw.fn.regions(op)) {
      replace(rw, rw.fn.arg(region, i + shift), init);
    }
    replace(rw, rw.fn.result(op, i), init);
  }
}

void simplifyFor(Rewriter &rw, OpId op) {
  const Trips trips = tripCount(rw, op);
  const BlockId body = rw.fn.region(op);
  if (trips == Trips::Never) {
    for (unsigned i = 0; i < rw.fn.results(op).size(); ++i) {
      replace(rw, rw.fn.result(op, i), rw.fn.operand(op, 3 + i));
    }
    rw.fn.erase(op);
    rw.edited = true;
  } else if (trips == Trips::Once) {
    replace(rw, rw.fn.arg(body, 0), rw.fn.operand(op, 0));
    for (unsigned i = 0; i < rw.fn.results(op).size(); ++i) {
      replace(rw, rw.fn.arg(body, i + 1), rw.fn.operand(op, 3 + i));
    }
    inlineRegion(rw, op, body, rw.fn.getBool(op, Attr::stop) ? 1 : 0);
  } else {
    dropUnchanged(rw, op, 3);
  }
}

} // namespace

ValueId simplifyControl(Rewriter &rw, OpId op) {
  const Opcode opcode = rw.fn.opcode(op);
  if (opcode == Opcode::If) {
    simplifyIf(rw, op);
  } else if (opcode == Opcode::For) {
    simplifyFor(rw, op);
  } else if (opcode == Opcode::While) {
    dropUnchanged(rw, op, 0);
  } else if (opcode == Opcode::Assert && rw.intOf(rw.fn.operand(op, 0)).value_or(0) != 0) {
    rw.fn.erase(op);
    rw.edited = true;
  }
  return {};
}

} // namespace libtile::passes
