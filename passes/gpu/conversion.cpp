// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/conversion.h"

#include "ir/diagnostic.h"
#include "passes/gpu/layout_maps.h"

#include <bit>
#include <set>

namespace libtile::passes {
namespace {

using ir::Coords;
using ir::HwDim;
using ir::Layout;

// The linear map from source lanes to registers, given that the receiving lane l takes register
// regs[l] of lane lanes[l] (columns of two linear maps). nullopt: one lane would have to show two
// registers at once.
std::optional<std::array<int32_t, 6>> sendColumns(std::span<const int32_t> lanes,
                                                  std::span<const int32_t> regs) {
  struct Row {
    uint32_t lane, reg;
  };
  std::vector<Row> rows;
  const auto reduce = [&](Row row) {
    for (const Row &pivot : rows) {
      if ((row.lane & std::bit_floor(pivot.lane)) != 0) {
        row.lane ^= pivot.lane;
        row.reg ^= pivot.reg;
      }
    }
    return row;
  };
  for (size_t bit = 0; bit < lanes.size(); ++bit) {
    const Row row = reduce({static_cast<uint32_t>(lanes[bit]), static_cast<uint32_t>(regs[bit])});
    if (row.lane != 0) {
      rows.push_back(row);
    } else if (row.reg != 0) {
      return std::nullopt;
    }
  }
  // Lanes that nobody reads show anything: complete the rows by units that show register 0.
  for (size_t bit = 0; bit < lanes.size(); ++bit) {
    const Row row = reduce({1U << bit, 0});
    if (row.lane != 0) {
      rows.push_back({row.lane, 0});
    }
  }
  std::array<int32_t, 6> columns{};
  for (size_t bit = 0; bit < lanes.size(); ++bit) {
    columns[bit] = static_cast<int32_t>(reduce({1U << bit, 0}).reg);
  }
  return columns;
}

// Shuffles that move all words: those of one word, from one lane, are one.
size_t wordsMoved(std::span<const Conversion::Shuffle> shuffles, int32_t perWord) {
  std::set<std::pair<int32_t, int32_t>> words;
  for (const Conversion::Shuffle &shuffle : shuffles) {
    words.emplace(shuffle.lane.base, shuffle.shown() / perWord);
  }
  return words.size();
}

// The most registers to a word for which fewer words move; all lanes show the same place of a word.
int32_t registersPerWord(std::span<const Conversion::Shuffle> shuffles, int32_t subRegs, int32_t elementBytes) {
  const auto divides = [&](int32_t perWord) {
    return std::ranges::all_of(shuffles[0].send.columns, [&](int32_t column) { return column % perWord == 0; });
  };
  for (int32_t perWord = std::min(subRegs, 4 / elementBytes); perWord > 1; perWord /= 2) {
    if (divides(perWord) && wordsMoved(shuffles, perWord) < wordsMoved(shuffles, 1)) {
      return perWord;
    }
  }
  return 1;
}

bool planShuffles(const Layout &from, const Layout &to, int32_t elementBytes, Conversion &plan) {
  if (to.bases(HwDim::Warp) != from.bases(HwDim::Warp) ||
      to.bases(HwDim::Lane).size() != from.bases(HwDim::Lane).size()) {
    return false;
  }
  const ir::LayoutInverse source(from);
  const int32_t subRegs = from.subtileSize(HwDim::Reg);
  std::vector<int32_t> lanes, regs;
  for (const Coords &basis : to.bases(HwDim::Lane)) {
    const auto holder = source.holderOf(basis);
    if (!holder || holder->warp != 0 || holder->reg >= subRegs) {
      return false;
    }
    lanes.push_back(holder->lane);
    regs.push_back(holder->reg);
  }
  const auto send = sendColumns(lanes, regs);
  if (!send) {
    return false;
  }
  LaneMap sendLinear{0, *send};
  std::vector<Conversion::Shuffle> shuffles;
  for (int32_t reg = 0; reg < to.size(HwDim::Reg); ++reg) {
    const auto holder = source.holderOf(to.applyOne(HwDim::Reg, reg)).value_or(ir::Holder{});
    if (holder.warp != 0) {
      return false;
    }
    Conversion::Shuffle shuffle;
    shuffle.firstRegister = holder.reg / subRegs * subRegs;
    shuffle.lane.base = holder.lane;
    std::copy(lanes.begin(), lanes.end(), shuffle.lane.columns.begin());
    // The receiver wants register (holder.reg XOR regs * l) of lane (holder.lane XOR lanes * l).
    shuffle.send.columns = *send;
    shuffle.send.base = holder.reg % subRegs ^ sendLinear.at(holder.lane);
    shuffles.push_back(shuffle);
  }
  plan.perWord = registersPerWord(shuffles, subRegs, elementBytes);
  plan.shuffles = std::move(shuffles);
  plan.kind = Conversion::Kind::Shuffles;
  return true;
}

bool planExchanges(const Layout &from, const Layout &to, int32_t elementBytes, Conversion &plan) {
  if (to.bases(HwDim::Warp) != from.bases(HwDim::Warp) || to.bases(HwDim::Lane).size() != from.bases(HwDim::Lane).size() ||
      !std::ranges::equal(to.subtile(), from.subtile()) || !std::ranges::equal(to.repeats(), from.repeats())) {
    return false;
  }
  Layout::Bases lanes = from.bases(HwDim::Lane), registers = from.bases(HwDim::Reg);
  std::vector<Conversion::Exchange> exchanges;
  int32_t perWord = std::max(1, 4 / elementBytes);
  for (size_t bit = 0; bit < lanes.size(); ++bit) {
    const Coords &wanted = to.bases(HwDim::Lane)[bit];
    if (lanes[bit] == wanted) {
      continue;
    }
    const auto held = std::ranges::find(registers, wanted);
    if (held == registers.end()) {
      return false;
    }
    std::swap(lanes[bit], *held);
    const auto registerBit = static_cast<int32_t>(held - registers.begin());
    exchanges.push_back({static_cast<int32_t>(bit), registerBit});
    perWord = std::min(perWord, 1 << registerBit);
  }
  auto renamed = registerMap(to, withBases(from, std::move(registers), std::move(lanes)));
  if (!renamed) {
    return false;
  }
  plan.registers = std::move(*renamed);
  plan.exchanges = std::move(exchanges);
  plan.perWord = perWord;
  plan.kind = Conversion::Kind::Exchanges;
  return true;
}

// A shuffle moves at most 4 bytes of a lane and costs about as much as an access of a warp to shared memory; the way
// through memory adds a barrier. An exchange is a shuffle and three selections, which cost half of one, for two words.
bool staysInWarps(const Conversion &plan, const Layout &from, const Layout &to, int32_t elementBytes, const ir::SharedReads &reads) {
  constexpr int64_t kBarrier = 16;
  const auto words = int64_t{from.size(HwDim::Reg)} / plan.perWord;
  const auto moved = static_cast<int64_t>(wordsMoved(plan.shuffles, plan.perWord)) + static_cast<int64_t>(plan.exchanges.size()) * words * 3 / 4;
  const int64_t shuffles = moved * (elementBytes > 4 ? 2 : 1);
  const int64_t memory = accessCost(from, plan.buffer, elementBytes, plan.write) +
                         accessCost(to, plan.buffer, elementBytes, plan.read, reads) + kBarrier;
  return shuffles <= memory;
}

} // namespace

Layout withBases(const Layout &layout, Layout::Bases registers, Layout::Bases lanes) {
  return Layout({layout.subtile().begin(), layout.subtile().end()}, {layout.repeats().begin(), layout.repeats().end()},
                {std::move(registers), std::move(lanes), layout.bases(HwDim::Warp), {}, {}});
}

int32_t LaneMap::at(int32_t lane) const {
  int32_t result = base;
  for (size_t bit = 0; bit < columns.size(); ++bit) {
    result ^= (lane >> bit & 1) != 0 ? columns[bit] : 0;
  }
  return result;
}

bool LaneMap::isConstant() const { return columns == std::array<int32_t, 6>{}; }

Conversion planConversion(const Layout &from, const Layout &to, std::span<const int32_t> shape,
                          int32_t elementBytes, const ir::SharedReads &reads) {
  Conversion plan;
  if (auto registers = registerMap(to, from)) {
    plan.registers = std::move(*registers);
    return plan;
  }
  plan.buffer = chooseBuffer(
      shape, {.writers = {&from, 1}, .readers = {&to, 1}, .elementBytes = elementBytes, .reads = reads});
  plan.write = writeAccess(from, plan.buffer, elementBytes);
  plan.read = readAccess(to, plan.buffer, elementBytes, reads);
  Conversion inWarps = plan;
  if ((planShuffles(from, to, elementBytes, inWarps) || planExchanges(from, to, elementBytes, inWarps)) &&
      staysInWarps(inWarps, from, to, elementBytes, reads)) {
    return inWarps;
  }
  plan.kind = Conversion::Kind::Shared;
  return plan;
}

std::vector<int64_t> simulate(const Conversion &conversion, const Layout &from, const Layout &to,
                              std::span<const int64_t> data) {
  const int32_t lanes = to.size(HwDim::Lane), warps = to.size(HwDim::Warp);
  const int32_t fromRegs = from.size(HwDim::Reg), toRegs = to.size(HwDim::Reg);
  const auto index = [&](int32_t regs, int32_t reg, int32_t lane, int32_t warp) {
    return (static_cast<size_t>(warp) * lanes + lane) * regs + reg;
  };
  std::vector<int64_t> exchanged(data.begin(), data.end()), memory;
  for (const Conversion::Exchange &step : conversion.exchanges) {
    const std::vector<int64_t> before = exchanged;
    for (int32_t warp = 0; warp < warps; ++warp) {
      for (int32_t lane = 0; lane < lanes; ++lane) {
        for (int32_t reg = 0; reg < fromRegs; ++reg) {
          const bool goes = (reg >> step.registerBit & 1) != (lane >> step.laneBit & 1);
          exchanged[index(fromRegs, reg, lane, warp)] =
              goes ? before[index(fromRegs, reg ^ 1 << step.registerBit, lane ^ 1 << step.laneBit, warp)]
                   : before[index(fromRegs, reg, lane, warp)];
        }
      }
    }
  }
  if (conversion.kind == Conversion::Kind::Shared) {
    const ir::LayoutInverse buffer(conversion.buffer);
    memory.assign(static_cast<size_t>(conversion.buffer.size(HwDim::Offset)), -1);
    for (int32_t warp = 0; warp < warps; ++warp) {
      for (int32_t lane = 0; lane < lanes; ++lane) {
        for (int32_t reg = 0; reg < fromRegs; ++reg) {
          const Coords coords = from.apply(reg, lane, warp);
          memory.at(static_cast<size_t>(buffer.offsetOf(coords))) =
              data[index(fromRegs, reg, lane, warp)];
        }
      }
    }
  }
  const ir::LayoutInverse buffer(conversion.buffer);
  std::vector<int64_t> result(static_cast<size_t>(toRegs) * lanes * warps, -1);
  for (int32_t warp = 0; warp < warps; ++warp) {
    for (int32_t lane = 0; lane < lanes; ++lane) {
      for (int32_t reg = 0; reg < toRegs; ++reg) {
        int64_t &out = result[index(toRegs, reg, lane, warp)];
        if (conversion.kind == Conversion::Kind::Registers || conversion.kind == Conversion::Kind::Exchanges) {
          out = exchanged[index(fromRegs, conversion.registers[static_cast<size_t>(reg)], lane, warp)];
        } else if (conversion.kind == Conversion::Kind::Shuffles) {
          const auto &shuffle = conversion.shuffles[static_cast<size_t>(reg)];
          const int32_t source = shuffle.lane.at(lane);
          const int32_t sent = shuffle.firstRegister + shuffle.send.at(source);
          out = data[index(fromRegs, sent, source, warp)];
        } else {
          out = memory.at(static_cast<size_t>(buffer.offsetOf(to.apply(reg, lane, warp))));
        }
      }
    }
  }
  return result;
}

} // namespace libtile::passes
