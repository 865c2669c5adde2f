// SPDX-License-Identifier: Apache-2.0
// Typed 32-bit ids of the entities that a Function owns, and dense side tables over them.
//
// Every entity (op, value, block) is named by an index into a table of its Function. Ids are never
// reused within a function, so "ordered by id" is ordered by creation, and no result of the
// compiler depends on an address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace libtile::ir {

template <class Tag> struct Id {
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t index = kNone;

  [[nodiscard]] bool valid() const { return index != kNone; }
  friend bool operator==(Id a, Id b) { return a.index == b.index; }
  friend bool operator!=(Id a, Id b) { return a.index != b.index; }
  friend bool operator<(Id a, Id b) { return a.index < b.index; }
};

using OpId = Id<struct OpTag>;
using ValueId = Id<struct ValueTag>;
using BlockId = Id<struct BlockTag>;
// Index of an interned Layout of the function (see layout.h).
using LayoutId = Id<struct LayoutTag>;
// Index of an interned source location of the function (see diagnostic.h).
using LocationId = Id<struct LocationTag>;

// Dense table from ids to T; reading past the end gives the default value.
template <class IdT, class T> class IndexMap {
public:
  IndexMap() = default;
  explicit IndexMap(T fallback) : fallback_(std::move(fallback)) {}
  [[nodiscard]] const T &operator[](IdT id) const {
    return id.index < data_.size() ? data_[id.index].value : fallback_;
  }
  T &at(IdT id) {
    if (id.index >= data_.size()) {
      data_.resize(size_t{id.index} + 1, Slot{fallback_});
    }
    return data_[id.index].value;
  }
  void set(IdT id, T value) { at(id) = std::move(value); }
  [[nodiscard]] bool contains(IdT id) const { return id.index < data_.size(); }
  void clear() { data_.clear(); }

private:
  // Keeps std::vector from packing bools.
  struct Slot {
    T value;
  };
  std::vector<Slot> data_;
  T fallback_{};
};

} // namespace libtile::ir

template <class Tag> struct std::hash<libtile::ir::Id<Tag>> {
  size_t operator()(libtile::ir::Id<Tag> id) const noexcept { return id.index; }
};
