// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/dpp.h"

namespace emulator {

namespace {

constexpr int kRow = 16; // lanes

// Where lane `lane` reads; -1: nowhere.
int sourceOf(const Instruction &in, int lane, int lanes) {
  const int row = lane & ~(kRow - 1), at = lane & (kRow - 1);
  const auto shift = [&](const char *word) { return static_cast<int>(in.number(word).value_or(0)); };
  if (in.has("quad_perm")) {
    return (lane & ~3) | in.list("quad_perm", 4, 0)[static_cast<size_t>(lane & 3)];
  }
  if (in.has("dpp8")) {
    return (lane & ~7) | in.list("dpp8", 8, 0)[static_cast<size_t>(lane & 7)];
  }
  if (in.has("row_shl")) {
    return at + shift("row_shl") < kRow ? lane + shift("row_shl") : -1;
  }
  if (in.has("row_shr")) {
    return at >= shift("row_shr") ? lane - shift("row_shr") : -1;
  }
  if (in.has("row_ror")) {
    return row | ((at - shift("row_ror")) & (kRow - 1));
  }
  if (in.has("row_share") || in.has("row_newbcast")) {
    return row | (in.has("row_share") ? shift("row_share") : shift("row_newbcast"));
  }
  if (in.has("row_xmask")) {
    return row | (at ^ shift("row_xmask"));
  }
  if (in.has("row_half_mirror")) {
    return (lane & ~7) | (7 - (lane & 7));
  }
  if (in.has("row_mirror")) {
    return row | (kRow - 1 - at);
  }
  if (in.has("row_bcast")) {
    // The last lane of a row to the next row, or of two rows to the two behind them.
    return shift("row_bcast") == 15 ? ((lane >> 4 & 1) != 0 ? row - 1 : -1) : lane >= 32 ? (lane & ~31) - 1 : -1;
  }
  if (in.has("wave_shr")) {
    return lane - 1;
  }
  if (in.has("wave_shl")) {
    return lane + 1 < lanes ? lane + 1 : -1;
  }
  throw Fault("unknown DPP: " + in.text);
}

} // namespace

Dpp::Dpp(const Instruction &instruction, unsigned lanes)
    : zeroes_(instruction.has("bound_ctrl")), fetchesInactive_(instruction.number("fi").value_or(0) != 0) {
  const auto rows = static_cast<uint64_t>(instruction.number("row_mask").value_or(15));
  const auto banks = static_cast<uint64_t>(instruction.number("bank_mask").value_or(15));
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const int from = sourceOf(instruction, static_cast<int>(lane), static_cast<int>(lanes));
    const Mask bit = Mask{1} << lane;
    valid_ |= from >= 0 ? bit : 0;
    from_[lane] = static_cast<uint8_t>(from >= 0 ? from : 0);
    enabled_ |= (rows >> (lane / kRow) & 1) != 0 && (banks >> (lane % kRow / 4) & 1) != 0 ? bit : 0;
  }
}

Mask Dpp::apply(const Wave &wave, Lanes &values) const {
  const Lanes before = values;
  Mask good = valid_;
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    if (!fetchesInactive_ && (wave.exec >> from_[lane] & 1) == 0) {
      good &= ~(Mask{1} << lane);
    }
    values[lane] = (good >> lane & 1) != 0 ? before[from_[lane]] : 0;
  }
  return wave.exec & enabled_ & (zeroes_ ? ~Mask{0} : good);
}

} // namespace emulator
