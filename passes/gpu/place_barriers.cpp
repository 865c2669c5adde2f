// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/place_barriers.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/gpu/layout_maps.h"
#include "passes/gpu/pending_accesses.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/op_properties.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Effects;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

// Each access is compared with those that wait; a barrier after so many costs less than they do.
constexpr size_t kMostPending = 128;

class Placer {
public:
  Placer(ir::Function &fn, const ir::Target &target) : fn_(fn), target_(target), facts_(computeFacts(fn)) {
    for (const SharedObject &object : sharedObjects(fn)) {
      const int64_t offset = fn.getInt(object.owner, Attr::offset);
      bytes_.set(object.owner, {offset, offset + object.bytes});
    }
  }

  void run() {
    PendingAccesses state;
    walk(fn_.body(), state);
    for (const OpId op : placed_) {
      fn_.insertBefore(op, fn_.createOp(Opcode::Barrier, {}, {}, fn_.loc(op)));
    }
  }

private:
  void walk(BlockId block, PendingAccesses &state) {
    for (const OpId op : fn_.opsIn(block)) {
      const Opcode opcode = fn_.opcode(op);
      const bool isBranch = isLoop(opcode) || opcode == Opcode::If;
      // A barrier inside would be one of some paths only, and accesses would wait on along the others.
      if (isBranch && state.global.size() >= kMostPending) {
        meetBefore(op, state);
      }
      if (isLoop(opcode)) {
        walkLoop(op, state);
      } else if (opcode == Opcode::If) {
        PendingAccesses other = state;
        walk(fn_.region(op, 0), state);
        walk(fn_.region(op, 1), other);
        state.merge(other);
      } else {
        visit(op, state);
      }
    }
  }

  // What is written in front of a loop and read in it would be waited for in each iteration: if a barrier in front of the
  // loop leaves fewer in it, that is where it stands. So it does where dots of an iteration go on by themselves: they
  // start before the warps meet. Innermost loops alone, since each loop is settled twice for it.
  void walkLoop(OpId loop, PendingAccesses &state) {
    const std::set<OpId> before = placed_;
    const PendingAccesses entry = state;
    settle(loop, state);
    const size_t inside = placed_.size() - before.size();
    if (inside == 0 || hasLoops(loop)) {
      return;
    }
    std::set<OpId> placed = std::exchange(placed_, before);
    PendingAccesses met = entry;
    meetBefore(loop, met);
    settle(loop, met);
    if (placed_.size() - before.size() <= inside + (startsDots(loop) ? 1 : 0)) {
      state = std::move(met);
    } else {
      placed_ = std::move(placed);
    }
  }
  [[nodiscard]] bool startsDots(OpId loop) const {
    return std::ranges::any_of(fn_.opsIn(fn_.regions(loop).back()), [&](OpId op) { return fn_.opcode(op) == Opcode::PlaceWrite; });
  }
  [[nodiscard]] bool hasLoops(OpId loop) const {
    return std::ranges::any_of(fn_.regions(loop), [&](BlockId region) {
      return std::ranges::any_of(fn_.walk(region), [&](OpId op) { return isLoop(fn_.opcode(op)); });
    });
  }

  // The barriers of the body and what flows back over its end depend on each other: the body is
  // walked, with its barriers decided anew, until what flows back is what was assumed. If that
  // takes long, barriers are kept and what flows back only grows, and of slots it says no more which they are: what lasts
  // from iteration to iteration is of all slots of its ring in the end. A while is left behind its
  // condition, a for in front of its body or behind it; either behind the body where it stops.
  void settle(OpId loop, PendingAccesses &state) {
    constexpr int kPatience = 4;
    const std::set<OpId> before = placed_;
    const bool isWhile = fn_.opcode(loop) == Opcode::While;
    PendingAccesses back, left;
    for (int round = 0;; ++round) {
      if (round < kPatience) {
        placed_ = before;
      }
      PendingAccesses inside = state;
      inside.merge(back);
      left = inside;
      if (isWhile) {
        walk(fn_.region(loop, 0), inside);
        left = inside;
        markCrossed(loop, left);
      }
      walk(fn_.regions(loop).back(), inside);
      if (isOverPrograms(fn_, loop)) {
        inside.global.clear(); // one program's accesses are in no order to the next one's
      }
      markCrossed(loop, inside);
      if (round >= kPatience) {
        forgetPhases(loop, inside);
      }
      if (back.includes(inside) && (round >= kPatience || inside.includes(back))) {
        break;
      }
      if (round < kPatience) {
        back = std::move(inside);
      } else {
        back.merge(inside);
      }
    }
    if (!isWhile || fn_.getBool(loop, Attr::stop)) {
      left.merge(back);
    }
    state = std::move(left);
    forgetPhases(loop, state);
  }

  // Accesses that differ by nothing else are one then, and of dots nothing tells which of them started first.
  void forgetPhases(OpId loop, PendingAccesses &state) {
    eachPhase(loop, state, [](RingPhase &phase) { phase = {}; });
    dropRepeats(state.shared);
    const size_t started = state.reading.size();
    dropRepeats(state.reading);
    state.inOrder = state.inOrder && state.reading.size() == started;
  }

  void markCrossed(OpId loop, PendingAccesses &state) {
    eachPhase(loop, state, [](RingPhase &phase) { phase.recede(); });
    for (GlobalPending &pending : state.global) {
      if (std::ranges::any_of(fn_.regions(loop), [&](BlockId region) {
            return fn_.isInside(fn_.block(pending.op), region);
          })) {
        pending.loop = fn_.regions(loop).back();
      }
    }
  }

  // Of the slots that the loop's numbers name.
  void eachPhase(OpId loop, PendingAccesses &state, llvm::function_ref<void(RingPhase &)> change) {
    const auto visit = [&](auto &access) {
      if (access.phase.body.valid() && access.phase.body == fn_.regions(loop).back()) {
        change(access.phase);
      }
    };
    std::ranges::for_each(state.shared, visit);
    for (Reading &each : state.reading) {
      std::ranges::for_each(each.buffers, visit);
    }
  }

  void visit(OpId op, PendingAccesses &state) {
    if (fn_.opcode(op) == Opcode::Barrier || fn_.opcode(op) == Opcode::Producer) {
      return state.synchronise();
    }
    if (needsBarrier(op, state)) {
      meetBefore(op, state);
    }
    record(op, state);
  }

  void meetBefore(OpId op, PendingAccesses &state) {
    placed_.insert(op);
    state.synchronise();
  }

  ir::LayoutId ownersOf(OpId op) const {
    const auto [found, isNew] = owners_.try_emplace(op);
    if (isNew) {
      found->second = passes::ownersOf(fn_, op, target_.sharedReads);
    }
    return found->second;
  }
  [[nodiscard]] bool isAsync(OpId op) const { return fn_.opcode(op) == Opcode::AsyncCopy; }
  [[nodiscard]] bool isAtomic(OpId op) const {
    return fn_.hasAttr(op, Attr::sem);
  }
  [[nodiscard]] bool touchesGlobal(OpId op) const {
    const Effects effects = fn_.ownEffects(op);
    return effects.has(Effects::ReadsGlobal) || effects.has(Effects::WritesGlobal);
  }

  [[nodiscard]] bool needsBarrier(OpId op, const PendingAccesses &state) const {
    const ir::LayoutId own = ownersOf(op);
    for (const SharedAccess &access : sharedAccesses(fn_, op)) {
      keepsAway(access, state);
      for (const SharedPending &pending : state.shared) {
        // A copy may overwrite what its own thread has copied into the same buffer before.
        const bool ordered = pending.kind == SharedPending::Kind::Read ? access.write
                             : pending.kind == SharedPending::Kind::Arrived
                                 ? !isAsync(op) || pending.owner != access.owner
                                 : true;
        const bool isOwn = own.valid() && pending.own == own;
        const bool apart = pending.owner == access.owner && (isOwn || pending.phase.isApart(access.phase));
        if (ordered && !apart && bytes_[pending.owner].overlaps(bytes_[access.owner])) {
          return true;
        }
      }
    }
    if (!touchesGlobal(op)) {
      return false;
    }
    if (state.acquired || (releases(fn_, op) && !state.global.empty()) || state.global.size() >= kMostPending) {
      return true;
    }
    return std::any_of(state.global.begin(), state.global.end(),
                       [&](const GlobalPending &pending) { return conflicts(pending, op); });
  }

  // No barrier ends a dot or a store of a box. The slots of one ring are the plan's care.
  void keepsAway(const SharedAccess &access, const PendingAccesses &state) const {
    for (const Reading &reading : state.reading) {
      for (const SharedAccess &read : reading.buffers) {
        ir::check(!access.write || read.owner == access.owner || !bytes_[read.owner].overlaps(bytes_[access.owner]),
                  "a write into what a dot under way reads");
      }
    }
    for (const OpId buffer : state.storing) {
      ir::check(!access.write || !bytes_[buffer].overlaps(bytes_[access.owner]), "a write into what a store of a box under way reads");
    }
  }

  // Thread 0 alone stores scalars and does their atomics, reads with an order among them.
  [[nodiscard]] bool byFirstThread(OpId op) const {
    return (isAtomic(op) || fn_.opcode(op) == Opcode::Store) && fn_.type(fn_.operand(op, 0)).isScalar();
  }
  // Atomics of one kind whose old values nobody asks for.
  [[nodiscard]] bool commute(OpId a, OpId b) const {
    const auto kindOf = [&](OpId op) { return fn_.getEnum<ir::AtomicKind>(op, Attr::kind); };
    return fn_.opcode(a) == Opcode::AtomicRmw && fn_.opcode(b) == Opcode::AtomicRmw &&
           kindOf(a) == kindOf(b) && kindOf(a) != ir::AtomicKind::xchg && fn_.unused(fn_.result(a)) &&
           fn_.unused(fn_.result(b));
  }

  [[nodiscard]] bool conflicts(const GlobalPending &pending, OpId op) const {
    const bool writes = fn_.ownEffects(pending.op).has(Effects::WritesGlobal) ||
                        fn_.ownEffects(op).has(Effects::WritesGlobal);
    if (!writes || (byFirstThread(pending.op) && byFirstThread(op)) || commute(pending.op, op)) {
      return false;
    }
    const ValueId a = fn_.operand(pending.op, 0), b = fn_.operand(op, 0);
    if (pending.loop.valid()) {
      return mayAliasAcross(fn_, pending.loop, a, b, facts_) && !movesOn(pending.loop, a, b);
    }
    return mayAlias(fn_, a, b, facts_) && !meetsOwnElements(a, b);
  }

  // Both are one address, which each iteration moves by at least the bytes that it spans.
  [[nodiscard]] bool movesOn(BlockId body, ValueId a, ValueId b) const {
    const AffineForm *form = facts_.access().affine(a), *other = facts_.access().affine(b);
    if (form == nullptr || other == nullptr || !(*form == *other) || fn_.opcode(fn_.parentOp(body)) != Opcode::For ||
        !fn_.type(a).sameShape(fn_.type(b))) {
      return false;
    }
    std::vector<std::optional<__int128>> steps = {advanceOf(form->base, body)};
    for (const Monomial &monomial : form->offset.monomials()) {
      const bool stays = std::ranges::all_of(monomial.factors, [&](ValueId factor) { return fn_.isDefinedOutside(factor, body); });
      const auto advance = monomial.factors.size() == 1 ? advanceOf(monomial.factors[0], body) : std::nullopt;
      steps.push_back(stays ? 0 : advance ? std::optional(*advance * monomial.coefficient) : std::nullopt);
    }
    __int128 forwards = 0, backwards = 0;
    for (const std::optional<__int128> &step : steps) {
      if (!step) {
        return false;
      }
      (*step < 0 ? backwards : forwards) += *step < 0 ? -*step : *step;
    }
    const auto span = spanOf(a, b, *form);
    // Steps both ways could bring it back.
    return span && (forwards == 0 || backwards == 0) && forwards + backwards >= *span;
  }

  // What an iteration adds to a value at least, away from 0: of a pointer in bytes. nullopt: not known.
  [[nodiscard]] std::optional<__int128> advanceOf(ValueId value, BlockId body) const {
    if (fn_.isDefinedOutside(value, body)) {
      return 0;
    }
    if (!fn_.isArg(value) || fn_.defBlock(value) != body) {
      return std::nullopt;
    }
    const unsigned position = fn_.defIndex(value);
    if (position == 0) {
      const IntRange step = facts_.range(Polynomial::symbol(fn_.operand(fn_.parentOp(body), 2)));
      return step.lo > 0 ? std::optional<__int128>(step.lo) : std::nullopt;
    }
    const OpId end = fn_.last(body);
    const bool stops = fn_.getBool(fn_.parentOp(body), Attr::stop);
    const OpId next = fn_.def(fn_.operand(end, position - (stops ? 0 : 1)));
    if (!next.valid() || (fn_.opcode(next) != Opcode::Add && fn_.opcode(next) != Opcode::PtrAdd) || fn_.operand(next, 0) != value) {
      return std::nullopt;
    }
    const auto step = fn_.constantInt(fn_.operand(next, 1));
    const ir::Type type = fn_.type(value);
    return step ? std::optional<__int128>(__int128{*step} * (type.isPointer() ? type.pointee().elementBytes() : 1)) : std::nullopt;
  }

  // Bytes from the first element to the end of the last one.
  [[nodiscard]] std::optional<__int128> spanOf(ValueId a, ValueId b, const AffineForm &form) const {
    __int128 span = std::max(fn_.type(a).pointee().elementBytes(), fn_.type(b).pointee().elementBytes());
    for (unsigned axis = 0; axis < form.strides.size(); ++axis) {
      const auto stride = facts_.access().constantStride(a, axis);
      if (!stride) {
        return std::nullopt;
      }
      span += __int128{*stride < 0 ? -*stride : *stride} * (fn_.type(a).dim(axis) - 1);
    }
    return span;
  }

  [[nodiscard]] bool meetsOwnElements(ValueId a, ValueId b) const {
    const ir::Type type = fn_.type(a);
    if (!type.isTile() || type.layout() != fn_.type(b).layout() ||
        !sameElements(fn_, a, b, facts_)) {
      return false;
    }
    return !holdsReplicas(fn_.layout(type.layout()));
  }

  // All but the last `count`, where it is known which these are.
  static void endDots(PendingAccesses &state, int64_t count) {
    const auto begin = state.reading.begin(), end = state.inOrder ? state.reading.end() - std::min<int64_t>(count, std::ssize(state.reading)) : state.reading.end();
    for (const Reading &ended : std::ranges::subrange(begin, end)) {
      for (const SharedAccess &read : ended.buffers) {
        addOnce(state.shared, {SharedPending::Kind::Read, read.owner, read.phase, {}});
      }
    }
    if (state.inOrder || count == 0) {
      state.reading.erase(begin, end);
    }
    state.inOrder = state.inOrder || state.reading.empty();
  }

  void record(OpId op, PendingAccesses &state) {
    if (fn_.opcode(op) == Opcode::AsyncWait) {
      for (const auto &[buffer, own] : state.flying) {
        addOnce(state.shared, {SharedPending::Kind::Arrived, buffer, {}, own});
      }
      if (fn_.getInt(op, Attr::count) == 0) {
        state.flying.clear();
      }
      return;
    }
    if (fn_.opcode(op) == Opcode::CopyBox) {
      return; // each thread waits by itself for what it reads
    }
    if (fn_.opcode(op) == Opcode::DotWait) {
      return endDots(state, fn_.getInt(op, Attr::count));
    }
    if (fn_.opcode(op) == Opcode::StoreBox) {
      return addOnce(state.storing, allocOf(fn_, fn_.operand(op, 0)));
    }
    if (fn_.opcode(op) == Opcode::StoreWait) {
      std::erase(state.storing, allocOf(fn_, fn_.operand(op, 0))); // one thread knows, the others read as it were
    }
    if (meetsInside(fn_, op)) {
      state.synchronise();
      addOnce(state.shared, {SharedPending::Kind::Read, op, {}, {}});
      return;
    }
    if (startsDot(fn_, op)) {
      const Reading reading = {op, sharedAccesses(fn_, op)};
      // Nothing tells it from the iteration before's.
      state.inOrder = state.inOrder && std::ranges::find(state.reading, reading) == state.reading.end();
      return addOnce(state.reading, reading);
    }
    for (const SharedAccess &access : sharedAccesses(fn_, op)) {
      if (isAsync(op)) {
        addOnce(state.flying, {access.owner, ownersOf(op)});
      } else {
        addOnce(state.shared, {access.write ? SharedPending::Kind::Write : SharedPending::Kind::Read, access.owner, access.phase, ownersOf(op)});
      }
    }
    if (touchesGlobal(op)) {
      addOnce(state.global, {op, {}});
      state.acquired |= acquires(fn_, op);
    }
  }

  ir::Function &fn_;
  const ir::Target &target_;
  const Facts facts_;
  ir::IndexMap<OpId, Bytes> bytes_;
  mutable std::map<OpId, ir::LayoutId> owners_; // of ops that have been asked for
  std::set<OpId> placed_; // ops with a barrier in front
};

} // namespace

bool placeBarriers(ir::Function &fn, const PassContext &context) {
  Placer(fn, context.target).run();
  fn.stage = ir::Stage::Staged;
  return true;
}

} // namespace libtile::passes
