// SPDX-License-Identifier: Apache-2.0
// What each role of a finished kernel does with slots, counters and turns, as a list (test_producer.cpp, test_clusters.cpp).
#pragma once

#include "ir/ops.h"
#include "passes/gpu/shared_accesses.h"
#include "tests/gpu/scalar_machine.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace libtile::tests {

using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

inline constexpr int64_t kPrograms = 11; // of which the second of three blocks runs four

using Place = std::pair<uint32_t, int64_t>; // of an alloc: a slot, or a counter

struct Event {
  enum class Kind : uint8_t { Wait, Copy, Read, Start, DotsEnd, Arrive, Meet, MeetCluster, Take, Give, Write, Reduce, Reduced } kind;
  Place place = {};            // counter; of a copy its slot, of a reduction its buffer
  Place counter = {};          // of a copy
  int64_t number = 0;          // parity, or how many dots may be under way
  std::vector<Place> reads = {}; // of a dot, or of threads
  bool inCluster = false;        // a copy or an arrival for all programs of the cluster
};

// What one role does, from its first op on.
class Trace : public ScalarMachine {
public:
  // `n`: the kernel's fourth argument; `cluster`: what cluster_size is.
  Trace(const ir::Function &fn, int64_t n, int64_t cluster = 1) : ScalarMachine(fn), cluster_(cluster) {
    set(fn.arg(fn.body(), 3), n);
    for (const OpId op : fn.walk()) {
      if (fn.opcode(op) == Opcode::StoreBox) {
        reduced_.insert(passes::allocOf(fn, fn.operand(op, 0)));
      }
    }
  }

  std::vector<Event> ofProducer() {
    for (const OpId op : fn_.opsIn(fn_.body())) {
      if (fn_.opcode(op) == Opcode::Producer) {
        run(fn_.region(op));
      }
    }
    return std::move(events_);
  }
  std::vector<Event> ofOthers() {
    run(fn_.body());
    return std::move(events_);
  }

private:
  [[nodiscard]] Place placeOf(OpId op, unsigned operand) const { return places_.at(fn_.operand(op, operand).index); }

  void visit(OpId op) override {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::BufferSlot) {
      places_[fn_.result(op).index] = {passes::allocOf(fn_, fn_.operand(op, 0)).index, number(op, 1)};
    } else if (opcode == Opcode::Trans && places_.contains(fn_.operand(op, 0).index)) {
      places_[fn_.result(op).index] = placeOf(op, 0);
    } else if (opcode == Opcode::ArrivalsWait) {
      events_.push_back({.kind = Event::Kind::Wait, .place = placeOf(op, 0), .number = number(op, 1)});
    } else if (opcode == Opcode::CopyBox && number(op, 2) != 0) {
      events_.push_back({.kind = Event::Kind::Copy, .place = placeOf(op, 0), .counter = placeOf(op, 1), .inCluster = fn_.hasAttr(op, Attr::cluster)});
    } else if (opcode == Opcode::Arrive && number(op, 1) != 0) {
      events_.push_back({.kind = Event::Kind::Arrive, .place = placeOf(op, 0), .inCluster = fn_.hasAttr(op, Attr::cluster)});
    } else if (opcode == Opcode::BufferRead && places_.contains(fn_.operand(op, 0).index)) {
      events_.push_back({.kind = Event::Kind::Read, .reads = {placeOf(op, 0)}});
    } else if (opcode == Opcode::Dot) {
      events_.push_back({.kind = Event::Kind::Start, .reads = slotsOf(op)});
      if (!passes::startsDot(fn_, op)) {
        events_.push_back({.kind = Event::Kind::DotsEnd});
      }
    } else if (opcode == Opcode::DotWait) {
      events_.push_back({.kind = Event::Kind::DotsEnd, .number = fn_.getInt(op, Attr::count)});
    } else if (opcode == Opcode::StoreBox || opcode == Opcode::StoreWait) {
      events_.push_back({.kind = opcode == Opcode::StoreBox ? Event::Kind::Reduce : Event::Kind::Reduced, .place = bufferOf(op)});
    } else if (opcode == Opcode::BufferWrite && reduced_.contains(passes::allocOf(fn_, fn_.operand(op, 0)))) {
      events_.push_back({.kind = Event::Kind::Write, .place = bufferOf(op)});
    } else if (opcode == Opcode::Barrier) {
      events_.push_back({.kind = Event::Kind::Meet});
    } else if (opcode == Opcode::ClusterBarrier) {
      events_.push_back({.kind = Event::Kind::MeetCluster});
    } else if (opcode == Opcode::ClusterSize) {
      set(fn_.result(op), cluster_);
    } else if (opcode == Opcode::TakeTurn || opcode == Opcode::GiveTurn) {
      events_.push_back({.kind = opcode == Opcode::TakeTurn ? Event::Kind::Take : Event::Kind::Give});
    } else if (opcode == Opcode::NumPrograms) {
      set(fn_.result(op), fn_.getInt(op, Attr::axis) == 0 ? kPrograms : 1);
    } else if (opcode == Opcode::Worker || opcode == Opcode::NumWorkers) {
      set(fn_.result(op), opcode == Opcode::Worker ? 1 : 3);
    } else if (opcode != Opcode::Producer) {
      compute(op);
    }
  }

  [[nodiscard]] Place bufferOf(OpId op) const { return {passes::allocOf(fn_, fn_.operand(op, 0)).index, 0}; }

  // The dot's sums go into a buffer that is reduced: it reads what threads write.
  [[nodiscard]] bool isAdded(OpId dot) const {
    std::vector<ir::Use> uses(fn_.uses(fn_.result(dot)).begin(), fn_.uses(fn_.result(dot)).end());
    if (uses.size() == 1 && fn_.opcode(uses[0].op) == Opcode::PlaceRead) {
      const ValueId sums = fn_.result(uses[0].op);
      uses.assign(fn_.uses(sums).begin(), fn_.uses(sums).end());
    }
    return uses.size() == 1 && fn_.opcode(uses[0].op) == Opcode::BufferWrite && reduced_.contains(passes::allocOf(fn_, fn_.operand(uses[0].op, 0)));
  }

  // What a dot reads of rings.
  [[nodiscard]] std::vector<Place> slotsOf(OpId dot) const {
    std::vector<Place> slots;
    for (const unsigned operand : {0U, 1U}) {
      if (const auto found = places_.find(fn_.operand(dot, operand).index); found != places_.end()) {
        slots.push_back(found->second);
      }
    }
    EXPECT_NE(slots.empty(), !isAdded(dot));
    return slots;
  }

  const int64_t cluster_;
  std::map<uint32_t, Place> places_;
  std::set<OpId> reduced_; // buffers of reductions
  std::vector<Event> events_;
};

} // namespace libtile::tests
