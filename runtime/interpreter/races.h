// SPDX-License-Identifier: Apache-2.0
// Which programs touch one byte in no order.
//
// A program's clock counts its releases. An event is an access op of one program, with the program's clock then.
// A program knows of another one's events up to a clock, which it learns where it acquires what that released:
//
//     release of q at address a   known[a][q] = clock of q; the clock goes up by one
//     acquire of p at address a   p knows all that known[a] does
//
// An event of q at clock c is in order with p if p is q or knows of q's clock c. Programs run one after the other,
// so that what is not in order here might have been the other way around.
//
// A byte keeps its last plain store, its last atomic write and its last two readers, each an event. With more than
// two readers some are forgotten, so that a race with them may go unseen; what is found is always one.
#pragma once

#include "ir/ids.h"

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace libtile::runtime::interpreter {

class Races {
public:
  enum class How : uint8_t { Reads, Writes, IsAtomic };
  struct Event {
    uint32_t program = 0, clock = 0;
    ir::OpId op;
  };

  void beginProgram(uint32_t number);
  // What the accesses that follow are of.
  void beginAccess(ir::OpId op) {
    pending_ = op;
    hasEvent_ = false;
  }
  // An access of the running program. The event that it races with; null: none. What is found is not kept.
  [[nodiscard]] const Event *touch(uint64_t address, uint32_t bytes, How how);
  // Whether the access that is under way has stored to one of these bytes before.
  [[nodiscard]] bool storedBefore(uint64_t address, uint32_t bytes);
  void acquire(uint64_t address);
  void release(uint64_t address);

private:
  using EventId = uint32_t; // 0: none
  struct Cell {
    EventId writer = 0, atomic = 0, readers[2] = {};
  };
  static constexpr uint64_t kPage = 256;
  using Page = std::array<Cell, kPage>;
  using Clocks = std::unordered_map<uint32_t, uint32_t>;

  [[nodiscard]] Cell &cell(uint64_t address);
  [[nodiscard]] EventId current();
  [[nodiscard]] bool inOrder(EventId event) const;
  [[nodiscard]] EventId raceWith(const Cell &cell, How how) const;
  void remember(Cell &cell, How how, EventId event) const;

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t lastNumber_ = ~uint64_t{0};
  Page *lastPage_ = nullptr;
  std::vector<Event> events_ = {{}};
  std::unordered_map<uint64_t, Clocks> known_;
  Clocks own_; // what the running program knows of others
  uint32_t program_ = 0, clock_ = 1;
  ir::OpId pending_;
  bool hasEvent_ = false;
};

} // namespace libtile::runtime::interpreter
