// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/scan_plan.h"

#include "ir/ops.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::HwDim;
using ir::Layout;
using Kind = ScanRun::Kind;

struct Bit {
  Kind kind;
  int32_t bit, distance;
};

// By rising distance.
std::vector<Bit> sortedBits(const Layout &layout, unsigned axis, const ir::Location &location) {
  std::vector<Bit> bits;
  for (const auto &[dim, kind] : {std::pair(HwDim::Reg, Kind::Registers),
                                  {HwDim::Lane, Kind::Lanes},
                                  {HwDim::Warp, Kind::Warps}}) {
    for (const AxisBit &bit : bitsAlong(layout, dim, axis, location)) {
      bits.push_back({kind, bit.bit, bit.distance});
    }
  }
  std::ranges::sort(bits, {}, &Bit::distance);
  return bits;
}

std::vector<ScanRun> runsOf(const Layout &layout, unsigned axis, const std::vector<Bit> &bits) {
  std::vector<ScanRun> runs;
  for (const Bit &bit : bits) {
    const bool joins = !runs.empty() && runs.back().kind == bit.kind &&
                       (bit.kind != Kind::Lanes || runs.back().bits.back() + 1 == bit.bit);
    if (!joins) {
      runs.push_back({.kind = bit.kind, .distance = bit.distance});
    }
    runs.back().parts *= 2;
    runs.back().bits.push_back(bit.bit);
  }
  if (const int32_t repeats = layout.repeats()[axis]; repeats > 1) {
    if (runs.empty() || runs.back().kind != Kind::Registers) {
      runs.push_back({.kind = Kind::Registers, .distance = layout.subtile()[axis]});
    }
    runs.back().parts *= repeats;
  }
  return runs;
}

} // namespace

ScanPlan planScan(const ir::Function &fn, ir::OpId scan) {
  const Layout &layout = fn.layout(fn.type(fn.operand(scan, 0)).layout());
  ScanPlan plan;
  plan.axis = static_cast<unsigned>(fn.getInt(scan, ir::Attr::axis));
  plan.reverse = fn.getBool(scan, ir::Attr::reverse);
  plan.runs = runsOf(layout, plan.axis, sortedBits(layout, plan.axis, fn.locationOf(scan)));
  int32_t blocks = distinctRegisters(layout);
  int32_t lanes = layout.canonicalBits(HwDim::Lane); // that tell totals apart
  for (ScanRun &run : plan.runs) {
    if (run.kind == Kind::Registers) {
      blocks /= run.parts;
    } else if (run.kind == Kind::Lanes) {
      for (const int32_t bit : run.bits) {
        lanes &= ~(1 << bit);
      }
    } else {
      run.scratch = makeWarpScratch(fn, scan, blocks, lanes);
      for (int64_t &start : run.scratch.starts) {
        start += plan.scratchBytes;
      }
      plan.scratchBytes += run.scratch.bytes;
    }
  }
  return plan;
}

} // namespace libtile::passes
