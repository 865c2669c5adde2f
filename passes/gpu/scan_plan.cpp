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

// Bits that move along the axis, by rising distance.
std::vector<Bit> bitsAlong(const Layout &layout, unsigned axis, const ir::Location &location) {
  std::vector<Bit> bits;
  for (const auto &[dim, kind] : {std::pair(HwDim::Reg, Kind::Registers),
                                  {HwDim::Lane, Kind::Lanes},
                                  {HwDim::Warp, Kind::Warps}}) {
    const Layout::Bases &bases = layout.bases(dim);
    for (size_t bit = 0; bit < bases.size(); ++bit) {
      if (bases[bit][axis] == 0 || (layout.canonicalBits(dim) >> bit & 1) == 0) {
        continue;
      }
      for (unsigned d = 0; d < layout.rank(); ++d) {
        if (d != axis && bases[bit][d] != 0) {
          throw ir::Unsupported("a scan over a layout whose bits move along two axes", location);
        }
      }
      bits.push_back({kind, static_cast<int32_t>(bit), bases[bit][axis]});
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

// Registers of a thread that hold different elements.
int32_t distinctRegisters(const Layout &layout) {
  int32_t count = 1;
  for (const int32_t repeats : layout.repeats()) {
    count *= repeats;
  }
  return count << layout.withoutReplicatedRegs().bases(HwDim::Reg).size();
}

} // namespace

ScanPlan planScan(const ir::Function &fn, ir::OpId scan) {
  const Layout &layout = fn.layout(fn.type(fn.operand(scan, 0)).layout());
  ScanPlan plan;
  plan.axis = static_cast<unsigned>(fn.getInt(scan, ir::Attr::axis));
  plan.reverse = fn.getBool(scan, ir::Attr::reverse);
  plan.runs = runsOf(layout, plan.axis, bitsAlong(layout, plan.axis, fn.locationOf(scan)));
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
      run.entries = blocks;
      for (int32_t bit = 0; lanes >> bit != 0; ++bit) {
        if ((lanes >> bit & 1) != 0) {
          run.rowLaneBits.push_back(bit);
        }
      }
      const int64_t slots = int64_t{blocks} * fn.numWarps << run.rowLaneBits.size();
      for (const ir::ValueId input : fn.operands(scan)) {
        run.scratch.push_back(plan.scratchBytes);
        plan.scratchBytes += (slots * fn.type(input).elementBytes() + 15) / 16 * 16;
      }
    }
  }
  return plan;
}

} // namespace libtile::passes
