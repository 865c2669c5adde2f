// SPDX-License-Identifier: Apache-2.0
#include "runtime/interpreter/races.h"

#include <algorithm>

namespace libtile::runtime::interpreter {

void Races::beginProgram(uint32_t number) {
  program_ = number;
  clock_ = 1;
  own_.clear();
}

Races::Cell &Races::cell(uint64_t address) {
  const uint64_t number = address / kPage;
  if (number != lastNumber_) {
    std::unique_ptr<Page> &page = pages_[number];
    if (page == nullptr) {
      page = std::make_unique<Page>();
    }
    lastNumber_ = number;
    lastPage_ = page.get();
  }
  return (*lastPage_)[address % kPage];
}

Races::EventId Races::current() {
  if (!hasEvent_) {
    events_.push_back({program_, clock_, pending_});
    hasEvent_ = true;
  }
  return static_cast<EventId>(events_.size() - 1);
}

bool Races::inOrder(EventId id) const {
  if (id == 0) {
    return true;
  }
  const Event &event = events_[id];
  if (event.program == program_) {
    return true;
  }
  const auto known = own_.find(event.program);
  return known != own_.end() && known->second >= event.clock;
}

Races::EventId Races::raceWith(const Cell &cell, How how) const {
  const auto first = [&](std::initializer_list<EventId> events) {
    const auto *found = std::ranges::find_if(events, [&](EventId event) { return !inOrder(event); });
    return found != events.end() ? *found : 0;
  };
  return how == How::Writes ? first({cell.writer, cell.atomic, cell.readers[0], cell.readers[1]})
                            : first({cell.writer});
}

void Races::remember(Cell &cell, How how, EventId event) const {
  switch (how) {
  case How::Writes:
    cell = {event};
    return;
  case How::IsAtomic:
    cell.atomic = event;
    return;
  case How::Reads:
    if (events_[cell.readers[0]].program != program_) {
      cell.readers[1] = cell.readers[0];
    }
    cell.readers[0] = event;
    return;
  }
}

const Races::Event *Races::touch(uint64_t address, uint32_t bytes, How how) {
  const EventId event = current();
  for (uint32_t i = 0; i < bytes; ++i) {
    Cell &touched = cell(address + i);
    if (const EventId other = raceWith(touched, how); other != 0) {
      return &events_[other];
    }
    remember(touched, how, event);
  }
  return nullptr;
}

bool Races::storedBefore(uint64_t address, uint32_t bytes) {
  const EventId event = current();
  for (uint32_t i = 0; i < bytes; ++i) {
    if (cell(address + i).writer == event) {
      return true;
    }
  }
  return false;
}

void Races::acquire(uint64_t address) {
  if (const auto known = known_.find(address); known != known_.end()) {
    for (const auto &[program, clock] : known->second) {
      uint32_t &own = own_[program];
      own = std::max(own, clock);
    }
  }
}

void Races::release(uint64_t address) {
  Clocks &known = known_[address];
  for (const auto &[program, clock] : own_) {
    uint32_t &there = known[program];
    there = std::max(there, clock);
  }
  known[program_] = clock_++;
  hasEvent_ = false; // what follows is of the new clock
}

} // namespace libtile::runtime::interpreter
