// SPDX-License-Identifier: Apache-2.0
// Random layouts and tiles for property tests; the same numbers on every machine.
#pragma once

#include "ir/layout.h"

#include <algorithm>
#include <random>

namespace libtile::tests {

class Random {
public:
  explicit Random(unsigned seed) : engine_(seed) {}
  // 0 .. bound-1
  int32_t below(int32_t bound) {
    return static_cast<int32_t>(engine_() % static_cast<uint32_t>(bound));
  }

  std::vector<int32_t> shape(unsigned rank, int32_t most) {
    std::vector<int32_t> result(rank);
    for (int32_t &extent : result) {
      extent = 1 + below(most);
      extent = below(2) == 0 ? 1 << below(7) : extent;
    }
    return result;
  }
  std::vector<int32_t> permutation(unsigned rank) {
    std::vector<int32_t> order(rank);
    for (unsigned i = 0; i < rank; ++i) {
      order[i] = static_cast<int32_t>(i);
    }
    for (unsigned i = rank; i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<size_t>(below(static_cast<int32_t>(i)))]);
    }
    return order;
  }
  ir::Layout blocked(std::span<const int32_t> shape, int32_t warps) {
    const std::vector<int32_t> order = permutation(shape.size());
    return ir::Layout::blocked(shape, order, 1 << below(4), warps, permutation(shape.size()));
  }
  // Unit bases of a power-of-two subtile handed out to registers, lanes and warps at random, some
  // of them mixed with others, replicas where threads are left over.
  ir::Layout scattered(std::span<const int32_t> shape, int32_t warpBits) {
    std::vector<int32_t> subtile(shape.size(), 1);
    ir::Layout::Bases units;
    for (size_t d = 0; d < shape.size(); ++d) {
      while (subtile[d] < shape[d] && (below(4) != 0 || shape[d] / subtile[d] > 8)) {
        ir::Coords basis(shape.size(), 0);
        basis[d] = subtile[d];
        subtile[d] *= 2;
        units.push_back(basis);
      }
    }
    std::shuffle(units.begin(), units.end(), engine_);
    std::array<ir::Layout::Bases, ir::kNumHwDims> bases;
    auto &regs = bases[unsigned(ir::HwDim::Reg)];
    auto &lanes = bases[unsigned(ir::HwDim::Lane)];
    auto &warps = bases[unsigned(ir::HwDim::Warp)];
    for (const ir::Coords &unit : units) {
      const int32_t where = below(3);
      if (where == 0 && lanes.size() < 5) {
        lanes.push_back(unit);
      } else if (where == 1 && warps.size() < static_cast<size_t>(warpBits)) {
        warps.push_back(unit);
      } else {
        regs.push_back(unit);
      }
    }
    lanes.resize(5, ir::Coords(shape.size(), 0));
    warps.resize(static_cast<size_t>(warpBits), ir::Coords(shape.size(), 0));
    std::shuffle(lanes.begin(), lanes.end(), engine_);
    std::vector<int32_t> once(shape.size(), 1);
    return ir::Layout(subtile, once, bases).coveringShape(shape);
  }

  std::mt19937 &engine() { return engine_; }

private:
  std::mt19937 engine_;
};

} // namespace libtile::tests
