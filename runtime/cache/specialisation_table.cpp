// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/specialisation_table.h"

#include <algorithm>

namespace libtile::runtime {

SpecialisationTable::SpecialisationTable() {
  generations_.push_back(std::make_unique<Slots>(16));
  current_.store(generations_.back().get());
}

uint64_t SpecialisationTable::hash(std::span<const uint64_t> key) noexcept {
  uint64_t state = 0x9E3779B97F4A7C15U * (key.size() + 1);
  for (const uint64_t word : key) {
    const auto product = static_cast<unsigned __int128>(state ^ word) * 0xD6E8FEB86659FD93U;
    state = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  return state;
}

lt_entry *SpecialisationTable::find(std::span<const uint64_t> key) const noexcept {
  const uint64_t wanted = hash(key);
  const Slots &table = *current_.load(std::memory_order_acquire);
  const size_t mask = table.slots.size() - 1;
  for (size_t i = wanted & mask;; i = (i + 1) & mask) {
    lt_entry *entry = table.slots[i].load(std::memory_order_acquire);
    if (entry == nullptr) {
      return nullptr;
    }
    if (entry->hash == wanted && !entry->retired.load(std::memory_order_relaxed) &&
        std::equal(key.begin(), key.end(), entry->key.begin(), entry->key.end())) {
      return entry;
    }
  }
}

void SpecialisationTable::Slots::put(lt_entry *entry) {
  const size_t mask = slots.size() - 1;
  size_t i = entry->hash & mask;
  while (slots[i].load(std::memory_order_relaxed) != nullptr) {
    i = (i + 1) & mask;
  }
  slots[i].store(entry, std::memory_order_release);
}

void SpecialisationTable::insert(std::unique_ptr<lt_entry> entry) {
  const std::lock_guard lock(mutex_);
  entry->hash = hash(entry->key);
  lt_entry *added = entry.get();
  entries_.push_back(std::move(entry));
  Slots *slots = generations_.back().get();
  if (entries_.size() * 2 <= slots->slots.size()) {
    slots->put(added);
    return;
  }
  auto larger = std::make_unique<Slots>(slots->slots.size() * 2);
  for (const auto &each : entries_) {
    if (!each->retired.load()) {
      larger->put(each.get());
    }
  }
  current_.store(larger.get(), std::memory_order_release);
  generations_.push_back(std::move(larger));
}

} // namespace libtile::runtime
