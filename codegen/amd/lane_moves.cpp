// SPDX-License-Identifier: Apache-2.0
#include "codegen/amd/lane_moves.h"

#include <algorithm>
#include <bit>

namespace libtile::codegen::amd {

namespace {

using gpu::LaneSources;
using Kind = LaneMove::Kind;

constexpr int32_t kRow = 16, kQuad = 4, kHalf = 32; // lanes
// Controls of DPP; those that take a number have it in their low bits.
enum Control : uint32_t {
  QuadPerm = 0,
  RowShl = 0x100,
  RowShr = 0x110,
  RowRor = 0x120,
  WaveShl = 0x130,
  WaveShr = 0x138,
  RowMirror = 0x140,
  RowHalfMirror = 0x141,
  RowBcast15 = 0x142,
  RowBcast31 = 0x143,
  RowShare = 0x150, // CDNA's row_newbcast
  RowXmask = 0x160
};

// The lane that a lane reads; -1: none, or one that documents do not agree on.
int32_t sourceOf(uint32_t control, int32_t lane, int32_t lanes) {
  const int32_t row = lane & ~(kRow - 1), at = lane & (kRow - 1);
  const auto number = static_cast<int32_t>(control & 15);
  if (control < RowShl) {
    return (lane & ~(kQuad - 1)) | static_cast<int32_t>(control >> (2 * (lane & (kQuad - 1))) & 3);
  }
  if (control < RowShr) {
    return at + number < kRow ? lane + number : -1;
  }
  if (control < RowRor) {
    return at >= number ? lane - number : -1;
  }
  if (control < WaveShl) {
    return row | ((at - number) & (kRow - 1));
  }
  switch (control) {
  case WaveShl: return lane + 1 < lanes ? lane + 1 : -1;
  case WaveShr: return lane - 1;
  case RowMirror: return row | (kRow - 1 - at);
  case RowHalfMirror: return lane ^ 7;
  case RowBcast15: return (lane & kRow) != 0 ? row - 1 : -1;
  case RowBcast31: return lane >= kHalf ? kHalf - 1 : -1;
  }
  return control < RowXmask ? row | number : row | (at ^ number);
}

class Search {
public:
  Search(const LaneSources &sources, LaneSet set)
      : sources_(sources), lanes_(static_cast<int32_t>(sources.size())), isRdna_(set == LaneSet::Rdna3 || set == LaneSet::Rdna4), set_(set) {}

  std::optional<std::vector<LaneMove>> run() const {
    if (serves([](int32_t lane) { return lane; })) {
      return std::vector<LaneMove>();
    }
    if (const auto control = dpp()) {
      return {{{Kind::Dpp, *control}}};
    }
    if (const uint64_t all = common(0, lanes_)) {
      return {{{Kind::ReadLane, lowest(all)}}};
    }
    return isRdna_ ? permuted() : composed();
  }

private:
  template <class Source> bool serves(Source source) const {
    for (int32_t lane = 0; lane < lanes_; ++lane) {
      const int32_t from = source(lane);
      if (sources_[static_cast<size_t>(lane)] != gpu::kAnyLane &&
          (from < 0 || (sources_[static_cast<size_t>(lane)] >> from & 1) == 0)) {
        return false;
      }
    }
    return true;
  }

  bool serves(uint32_t control) const {
    return serves([&](int32_t lane) { return sourceOf(control, lane, lanes_); });
  }

  // What all lanes of a range take.
  uint64_t common(int32_t first, int32_t end) const {
    uint64_t all = lanes_ == 64 ? ~uint64_t{0} : (uint64_t{1} << lanes_) - 1;
    for (int32_t lane = first; lane < end; ++lane) {
      all &= sources_[static_cast<size_t>(lane)];
    }
    return all;
  }
  static uint32_t lowest(uint64_t lanes) { return static_cast<uint32_t>(std::countr_zero(lanes)); }

  // For each place of a group the place that all its lanes take, in the group `across` away; nullopt: there is none.
  std::optional<std::vector<uint32_t>> places(int32_t group, int32_t across) const {
    std::vector<uint32_t> out;
    for (int32_t place = 0; place < group; ++place) {
      uint64_t all = (uint64_t{1} << group) - 1;
      for (int32_t lane = place; lane < lanes_; lane += group) {
        all &= sources_[static_cast<size_t>(lane)] >> ((lane - place) ^ across);
      }
      if (all == 0) {
        return std::nullopt;
      }
      out.push_back(lowest(all));
    }
    return out;
  }

  std::optional<uint32_t> dpp() const {
    if (const auto quad = places(kQuad, 0)) {
      return QuadPerm | (*quad)[0] | (*quad)[1] << 2 | (*quad)[2] << 4 | (*quad)[3] << 6;
    }
    constexpr std::pair<uint32_t, uint32_t> kOfAll[] = {{RowMirror, RowHalfMirror}, {RowShl + 1, RowShl + 15},
                                                        {RowShr + 1, RowShr + 15}, {RowRor + 1, RowRor + 15}, {RowShare, RowShare + 15}};
    constexpr std::pair<uint32_t, uint32_t> kOfRdna[] = {{RowXmask + 1, RowXmask + 15}};
    constexpr std::pair<uint32_t, uint32_t> kOfCdna[] = {{WaveShl, WaveShl}, {WaveShr, WaveShr}, {RowBcast15, RowBcast31}};
    const auto among = [&](auto &ranges) -> std::optional<uint32_t> {
      for (const auto &[first, last] : ranges) {
        for (uint32_t control = first; control <= last; ++control) {
          if (serves(control)) {
            return control;
          }
        }
      }
      return std::nullopt;
    };
    const auto shared = among(kOfAll);
    return shared ? shared : isRdna_ ? among(kOfRdna) : among(kOfCdna);
  }

  // In rows of 16, every row alike.
  std::optional<std::vector<LaneMove>> permuted() const {
    for (const Kind kind : {Kind::PermuteRow, Kind::PermuteRows}) {
      const auto at = places(kRow, kind == Kind::PermuteRow ? 0 : kRow);
      if (!at) {
        continue;
      }
      LaneMove move{kind, 0};
      for (int32_t place = 0; place < kRow; ++place) {
        (place < 8 ? move.control : move.high) |= (*at)[static_cast<size_t>(place)] << (4 * (place & 7));
      }
      return {{move}};
    }
    return std::nullopt;
  }

  std::optional<std::vector<LaneMove>> composed() const {
    constexpr uint32_t kXor[] = {0xB1, 0x4E, 0x1B}; // quad_perm by 1, 2, 3
    for (const uint32_t second : {RowRor + 8U, uint32_t{RowHalfMirror}, uint32_t{RowMirror}}) {
      for (const uint32_t first : kXor) {
        if (serves([&](int32_t lane) { return sourceOf(first, sourceOf(second, lane, lanes_), lanes_); })) {
          return {{{Kind::Dpp, first}, {Kind::Dpp, second}}};
        }
      }
    }
    for (const int32_t group : {kRow, kHalf}) {
      if (set_ == LaneSet::Cdna4 && serves([&](int32_t lane) { return lane ^ group; })) {
        return {{{Kind::SwapGroups, static_cast<uint32_t>(group)}}};
      }
    }
    const uint64_t low = common(0, kHalf), high = common(kHalf, lanes_);
    if (low != 0 && high != 0) {
      return {{{Kind::ReadHalves, lowest(low), lowest(high)}}};
    }
    for (int32_t mask = 1; mask < kHalf; ++mask) {
      if (serves([&](int32_t lane) { return lane ^ mask; })) {
        return {{{Kind::Swizzle, static_cast<uint32_t>(mask << 10 | (kHalf - 1))}}};
      }
    }
    return std::nullopt;
  }

  const LaneSources &sources_;
  const int32_t lanes_;
  const bool isRdna_;
  const LaneSet set_;
};

} // namespace

std::optional<std::vector<LaneMove>> laneMoves(const LaneSources &sources, LaneSet set) { return Search(sources, set).run(); }

} // namespace libtile::codegen::amd
