// SPDX-License-Identifier: Apache-2.0
// Invariants 38 and 39: places are handed on, and read when their dots have ended (the list is in
// verifier.cpp).
#include "ir/ops.h"
#include "ir/places.h"
#include "ir/verifier_impl.h"

#include <algorithm>
#include <map>
#include <set>

namespace libtile::ir {

namespace {

// Places that a dot works on, each with the dots that have started since.
using UnderWay = std::map<OpId, int64_t>;

// A path that has fewer dots behind one waits for it longer.
bool merge(UnderWay &into, const UnderWay &other) {
  const UnderWay before = into;
  for (const auto &[place, since] : other) {
    const auto [entry, fresh] = into.try_emplace(place, since);
    entry->second = std::min(entry->second, since);
  }
  return into != before;
}

class PlaceChecks {
public:
  explicit PlaceChecks(Checker &checker) : c_(checker), fn_(checker.fn) {}

  void run() {
    bool any = false;
    for (uint32_t index = 0; index < fn_.numValues(); ++index) {
      const bool isPlace = fn_.type({index}).isPlace() && exists({index});
      any = any || isPlace;
      if (isPlace) {
        handedOn({index});
      }
    }
    if (any && c_.found.empty()) {
      UnderWay none;
      walk(fn_.body(), none);
    }
  }

private:
  // Values of erased ops keep their types.
  [[nodiscard]] bool exists(ValueId value) const {
    const OpId op = fn_.isArg(value) ? fn_.parentOp(fn_.defBlock(value)) : fn_.def(value);
    return op.valid() && !fn_.isErased(op);
  }

  void handedOn(ValueId place) {
    const OpId at = fn_.isArg(place) ? fn_.parentOp(fn_.defBlock(place)) : fn_.def(place);
    if (!c_.require(placeOf(fn_, place).valid(), 38, at, "a place that no place_write has made") ||
        !c_.require(fn_.uses(place).size() == 1, 38, at, "a place is used once")) {
      return;
    }
    const Use use = fn_.uses(place)[0];
    c_.require(takes(place, use), 38, use.op, "no op that a place is handed to");
  }

  [[nodiscard]] bool takes(ValueId place, Use use) const {
    const Opcode opcode = fn_.opcode(use.op);
    if (opcode == Opcode::Yield) {
      const OpId loop = fn_.parentOp(fn_.block(use.op));
      const unsigned arg = use.operand + (fn_.getBool(loop, Attr::stop) ? 0 : 1);
      return fn_.opcode(loop) == Opcode::For && arg < fn_.args(fn_.region(loop)).size() &&
             placeOf(fn_, fn_.arg(fn_.region(loop), arg)) == placeOf(fn_, place);
    }
    return fn_.block(use.op) == fn_.defBlock(place) &&
           (opcode == Opcode::PlaceRead || opcode == Opcode::For ||
            (opcode == Opcode::Dot && use.operand == 2));
  }

  void walk(BlockId block, UnderWay &state) {
    for (OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
      if (fn_.opcode(op) == Opcode::If) {
        UnderWay other = state;
        walk(fn_.region(op, 0), state);
        walk(fn_.region(op, 1), other);
        merge(state, other);
      } else if (!fn_.regions(op).empty()) {
        walkLoop(op, state);
      } else {
        visit(op, state);
      }
    }
  }

  // Regions in their order, any number of times, none at all too.
  void walkLoop(OpId loop, UnderWay &state) {
    bool more = true;
    while (more) {
      UnderWay around = state;
      more = false;
      for (const BlockId region : fn_.regions(loop)) {
        walk(region, around);
        more = merge(state, around) || more;
      }
    }
  }

  void visit(OpId op, UnderWay &state) {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Dot && fn_.type(fn_.operand(op, 2)).isPlace()) {
      for (auto &[place, since] : state) {
        ++since;
      }
      state[placeOf(fn_, fn_.result(op))] = 0;
    } else if (opcode == Opcode::DotWait) {
      std::erase_if(state, [&](const auto &entry) {
        return entry.second >= fn_.getInt(op, Attr::count);
      });
    } else if (opcode == Opcode::PlaceRead && state.contains(placeOf(fn_, fn_.operand(op, 0))) &&
               early_.insert(op).second) {
      c_.fail(39, op, "a place is read while a dot into it may be under way");
    }
  }

  Checker &c_;
  const Function &fn_;
  std::set<OpId> early_; // each is told once
};

} // namespace

void verifyPlaces(Checker &checker) { PlaceChecks(checker).run(); }

} // namespace libtile::ir
