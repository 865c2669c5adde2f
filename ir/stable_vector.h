// SPDX-License-Identifier: Apache-2.0
// A vector that grows at its end and never moves its elements: references to them, and views of
// what they hold inline, stay valid while others are added.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace libtile::ir {

template <class T> class StableVector {
public:
  StableVector() = default;
  StableVector(const StableVector &other) { *this = other; }
  StableVector(StableVector &&other) noexcept { *this = std::move(other); }
  StableVector &operator=(const StableVector &other) {
    if (this != &other) {
      chunks_.clear();
      size_ = 0;
      for (size_t i = 0; i < other.size_; ++i) {
        emplace_back() = other[i];
      }
    }
    return *this;
  }
  StableVector &operator=(StableVector &&other) noexcept {
    chunks_ = std::move(other.chunks_);
    size_ = std::exchange(other.size_, 0);
    other.chunks_.clear();
    return *this;
  }
  ~StableVector() = default;

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] T &operator[](size_t i) { return chunks_[i / kChunk][i % kChunk]; }
  [[nodiscard]] const T &operator[](size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
  T &emplace_back() {
    if (size_ == chunks_.size() * kChunk) {
      chunks_.push_back(std::make_unique<T[]>(kChunk));
    }
    return (*this)[size_++];
  }

private:
  static constexpr size_t kChunk = 32;
  std::vector<std::unique_ptr<T[]>> chunks_;
  size_t size_ = 0;
};

} // namespace libtile::ir
