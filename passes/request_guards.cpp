// SPDX-License-Identifier: Apache-2.0
#include "passes/request_guards.h"

#include "passes/analysis/alias.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace libtile::passes {

using ir::Effects;
using ir::Function;
using ir::Guard;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

constexpr int64_t kBelow = int64_t{1} << 31;

// The pointer parameters that are accessed, and of those the ones read and the ones written.
struct Accessed {
  std::set<uint32_t> all, read, written;
};

Accessed accessedParameters(const Function &fn, const Facts &facts) {
  Accessed result;
  for (OpId op : fn.walk()) {
    const Effects effects = fn.ownEffects(op);
    if (!effects.has(Effects::ReadsGlobal) && !effects.has(Effects::WritesGlobal)) {
      continue;
    }
    const ValueId base = basePointer(fn, fn.operand(op, 0), facts);
    if (base.valid()) {
      result.all.insert(fn.defIndex(base));
      if (effects.has(Effects::ReadsGlobal)) {
        result.read.insert(fn.defIndex(base));
      }
      if (effects.has(Effects::WritesGlobal)) {
        result.written.insert(fn.defIndex(base));
      }
    }
  }
  return result;
}

// The i64 integer parameters that addresses depend on, as symbols of their affine forms.
std::set<uint32_t> wideSizes(const Function &fn, const Facts &facts) {
  std::set<uint32_t> result;
  const auto collect = [&](const Polynomial &polynomial) {
    for (const Monomial &monomial : polynomial.monomials()) {
      for (ValueId factor : monomial.factors) {
        const bool parameter = fn.isArg(factor) && fn.defBlock(factor) == fn.body();
        if (parameter && fn.type(factor).elem() == ir::Elem::I64) {
          result.insert(fn.defIndex(factor));
        }
      }
    }
  };
  for (OpId op : fn.walk()) {
    if (!fn.ownEffects(op).has(Effects::ReadsGlobal) &&
        !fn.ownEffects(op).has(Effects::WritesGlobal)) {
      continue;
    }
    if (const AffineForm *form = facts.access().affine(fn.operand(op, 0))) {
      collect(form->offset);
      std::ranges::for_each(form->strides, collect);
    }
  }
  return result;
}

} // namespace

bool requestGuards(Function &fn, const PassContext &context) {
  if (context.relies == Reliance::Nothing) {
    return false;
  }
  const Facts facts = computeFacts(fn);
  const Accessed accessed = accessedParameters(fn, facts);
  std::vector<Guard> wanted = fn.guards;
  for (uint32_t written : accessed.written) {
    for (uint32_t other : accessed.all) {
      const bool once = other > written || !accessed.written.contains(other);
      const bool isOfOutputs = !accessed.read.contains(written) && !accessed.read.contains(other);
      if (other != written && once && !(isOfOutputs && context.relies == Reliance::Inputs)) {
        wanted.push_back({Guard::Kind::Disjoint, std::min(written, other),
                          static_cast<int64_t>(std::max(written, other))});
      }
    }
  }
  for (uint32_t size : wideSizes(fn, facts)) {
    wanted.push_back({Guard::Kind::Below, size, kBelow});
  }
  std::ranges::sort(wanted, {},
                    [](const Guard &g) { return std::tuple(g.kind, g.param, g.value); });
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  if (wanted == fn.guards) {
    return false;
  }
  fn.guards = std::move(wanted);
  return true;
}

} // namespace libtile::passes
