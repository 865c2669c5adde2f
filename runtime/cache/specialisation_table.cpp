// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/specialisation_table.h"

#include "runtime/cache/reclaim.h"

#include <algorithm>

namespace libtile::runtime {

namespace {

constexpr size_t kLeastSlots = 16;

// Where an entry was removed: no key's, but the search goes on behind it.
Specialisation *mark() {
  static auto *made = new Specialisation;
  return made;
}

void retireAll(std::vector<std::shared_ptr<void>> &gone) {
  for (std::shared_ptr<void> &object : gone) {
    retire(std::move(object));
  }
}

} // namespace

SpecialisationTable::SpecialisationTable() : slots_(std::make_shared<Slots>(kLeastSlots)) {
  current_.store(slots_.get());
  (void)mark();
}

SpecialisationTable::~SpecialisationTable() = default;

uint64_t SpecialisationTable::hash(std::span<const uint64_t> key) noexcept {
  uint64_t state = 0x9E3779B97F4A7C15U * (key.size() + 1);
  for (const uint64_t word : key) {
    const auto product = static_cast<unsigned __int128>(state ^ word) * 0xD6E8FEB86659FD93U;
    state = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  return state;
}

Specialisation *SpecialisationTable::find(std::span<const uint64_t> key) const noexcept {
  const uint64_t wanted = hash(key);
  const Slots &table = *current_.load(std::memory_order_acquire);
  const size_t mask = table.slots.size() - 1;
  for (size_t i = wanted & mask;; i = (i + 1) & mask) {
    Specialisation *entry = table.slots[i].load(std::memory_order_acquire);
    if (entry == nullptr) {
      return nullptr;
    }
    if (entry->hash == wanted &&
        std::equal(key.begin(), key.end(), entry->key.begin(), entry->key.end())) {
      return entry;
    }
  }
}

size_t SpecialisationTable::Slots::find(const Specialisation *entry) const {
  const size_t mask = slots.size() - 1;
  size_t i = entry->hash & mask;
  while (slots[i].load(std::memory_order_relaxed) != entry) {
    i = (i + 1) & mask;
  }
  return i;
}

void SpecialisationTable::Slots::put(Specialisation *entry) {
  const size_t mask = slots.size() - 1;
  size_t i = entry->hash & mask;
  while (slots[i].load(std::memory_order_relaxed) != nullptr) {
    i = (i + 1) & mask;
  }
  ++used;
  slots[i].store(entry, std::memory_order_release);
}

// Slots without marks, for the entries and one more.
void SpecialisationTable::makeRoom(Gone &gone) {
  if ((slots_->used + 1) * 2 <= slots_->slots.size()) {
    return;
  }
  size_t size = kLeastSlots;
  while (size < (entries_.size() + 1) * 4) {
    size *= 2;
  }
  auto made = std::make_shared<Slots>(size);
  for (const auto &entry : entries_) {
    made->put(entry.get());
  }
  current_.store(made.get(), std::memory_order_release);
  gone.push_back(std::exchange(slots_, std::move(made)));
}

void SpecialisationTable::unlink(std::deque<std::shared_ptr<Specialisation>>::iterator at, Gone &gone) {
  slots_->slots[slots_->find(at->get())].store(mark(), std::memory_order_release);
  gone.push_back(std::move(*at));
  entries_.erase(at);
}

void SpecialisationTable::insert(std::shared_ptr<Specialisation> entry) {
  entry->hash = hash(entry->key);
  Gone gone;
  {
    const std::lock_guard lock(mutex_);
    if (find(entry->key) != nullptr) {
      return;
    }
    if (entries_.size() == kCapacity) {
      unlink(entries_.begin(), gone);
    }
    makeRoom(gone);
    slots_->put(entry.get());
    entries_.push_back(std::move(entry));
  }
  retireAll(gone);
}

void SpecialisationTable::remove(const Specialisation *entry) {
  Gone gone;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find(entries_, entry, &std::shared_ptr<Specialisation>::get);
    if (at != entries_.end()) {
      unlink(at, gone);
    }
  }
  retireAll(gone);
}

void SpecialisationTable::clear() {
  Gone gone;
  {
    const std::lock_guard lock(mutex_);
    while (!entries_.empty()) {
      unlink(entries_.begin(), gone);
    }
  }
  retireAll(gone);
}

} // namespace libtile::runtime
