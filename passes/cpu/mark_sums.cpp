// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/mark_sums.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/op_properties.h"

#include <algorithm>

namespace libtile::passes {

using ir::Attr;
using ir::Effects;
using ir::Function;
using ir::OpId;
using ir::Opcode;
using ir::ValueId;

namespace {

// A thread's sums are zeroed and looked through once a call: more than this would cost more than they save.
constexpr int64_t kMostBytes = 16 << 10;

int64_t bytesOf(const Function &fn, OpId addition) {
  const ir::Type &type = fn.type(fn.operand(addition, 1));
  return type.numElements() * int64_t{type.elementBytes()};
}

bool isAddition(const Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::AtomicRmw && fn.getEnum<ir::AtomicKind>(op, Attr::kind) == ir::AtomicKind::add &&
         fn.getEnum<ir::MemScope>(op, Attr::scope) != ir::MemScope::sys && fn.unused(fn.result(op)) && !fn.hasAttr(op, Attr::within) && placeOfSums(fn, op).has_value();
}

// It may run until somebody outside has seen what it adds.
bool mayWait(const Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::While || (fn.opcode(op) == Opcode::For && fn.getBool(op, Attr::stop));
}

bool isOnce(const Function &fn, OpId op) {
  OpId around = fn.parentOp(fn.block(op));
  while (around.valid() && !isLoop(fn.opcode(around))) {
    around = fn.parentOp(fn.block(around));
  }
  return !around.valid();
}

// What a function's ops do with memory.
struct Accesses {
  std::vector<OpId> additions;
  std::vector<ValueId> others; // arrays, once for each access by another op; invalid: any
  bool writes = false;         // one of these
};

// None: an op whose place counts is no addition.
std::optional<Accesses> accessesOf(const Function &fn, const Facts &facts) {
  Accesses found;
  for (OpId op : fn.walk()) {
    const Effects effects = fn.ownEffects(op);
    if (isAddition(fn, op)) {
      found.additions.push_back(op);
    } else if (effects.has(Effects::Ordered) || effects.has(Effects::Synchronises) || mayWait(fn, op)) {
      return std::nullopt;
    } else if (effects.has(Effects::ReadsGlobal) || effects.has(Effects::WritesGlobal)) {
      const auto bases = basePointers(fn, fn.operand(op, 0), facts);
      found.others.insert(found.others.end(), bases.begin(), bases.end());
      found.others.resize(found.others.size() + (bases.empty() ? 1 : 0));
      found.writes |= effects.has(Effects::WritesGlobal);
    }
  }
  return found;
}

// Beside all the others of the function.
bool mayWaitForTheEnd(const Function &fn, OpId addition, const Accesses &all) {
  const bool isRelaxed = fn.getEnum<ir::MemOrder>(addition, Attr::sem) == ir::MemOrder::relaxed;
  const bool isAlone = all.additions.size() == 1 && !all.writes && isOnce(fn, addition);
  const ValueId array = placeOfSums(fn, addition)->array;
  const bool isTouched = std::ranges::any_of(all.others, [&](ValueId other) { return mayOverlap(fn, array, other); });
  // A carry goes from one element of 4 bytes into the next only where somebody adds 8.
  const bool isMixed = std::ranges::any_of(all.additions, [&](OpId other) {
    return fn.type(fn.operand(other, 1)).elem() != fn.type(fn.operand(addition, 1)).elem() && mayOverlap(fn, array, placeOfSums(fn, other)->array);
  });
  return (isRelaxed || isAlone) && !isTouched && !isMixed;
}

} // namespace

std::optional<SumsPlace> placeOfSums(const Function &fn, OpId addition) {
  const ValueId pointer = fn.operand(addition, 0);
  const ir::Type &type = fn.type(fn.operand(addition, 1));
  if (!type.isTile() || type.rank() != 1 || type.elementBytes() < 4 || fn.defOpcode(pointer) != Opcode::PtrAdd) {
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
  const std::vector<OpId> ops = fn.walk();
  if (std::ranges::none_of(ops, [&](OpId op) { return isAddition(fn, op); })) {
    return false; // most kernels: nothing has to be known of their memory
  }
  const auto all = accessesOf(fn, computeFacts(fn));
  int64_t bytes = 0;
  for (size_t i = 0; all && i < all->additions.size(); ++i) {
    bytes += bytesOf(fn, all->additions[i]);
  }
  if (!all || bytes > kMostBytes || !std::ranges::all_of(all->additions, [&](OpId op) { return mayWaitForTheEnd(fn, op, *all); })) {
    return false;
  }
  for (OpId op : all->additions) {
    fn.setAttr(op, Attr::deferred, true);
  }
  return true;
}

} // namespace libtile::passes
