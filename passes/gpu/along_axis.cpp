// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/along_axis.h"

#include "ir/ops.h"

namespace libtile::passes {

using ir::HwDim;
using ir::Layout;

std::vector<AxisBit> bitsAlong(const Layout &layout, HwDim dim, unsigned axis,
                               const ir::Location &location) {
  std::vector<AxisBit> bits;
  const Layout::Bases &bases = layout.bases(dim);
  for (size_t bit = 0; bit < bases.size(); ++bit) {
    if (bases[bit][axis] == 0 || (layout.canonicalBits(dim) >> bit & 1) == 0) {
      continue;
    }
    for (unsigned d = 0; d < layout.rank(); ++d) {
      if (d != axis && bases[bit][d] != 0) {
        throw ir::Unsupported("elements are combined along an axis of a layout whose bits move along two",
                              location);
      }
    }
    bits.push_back({static_cast<int32_t>(bit), bases[bit][axis]});
  }
  return bits;
}

int32_t distinctRegisters(const Layout &layout) {
  int32_t count = 1;
  for (const int32_t repeats : layout.repeats()) {
    count *= repeats;
  }
  return count << layout.withoutReplicatedRegs().bases(HwDim::Reg).size();
}

WarpScratch makeWarpScratch(const ir::Function &fn, ir::OpId op, int32_t entries, int32_t lanes) {
  WarpScratch scratch;
  scratch.entries = entries;
  for (int32_t bit = 0; lanes >> bit != 0; ++bit) {
    if ((lanes >> bit & 1) != 0) {
      scratch.laneBits.push_back(bit);
    }
  }
  const int64_t slots = int64_t{entries} * fn.numWarps << scratch.laneBits.size();
  for (const ir::ValueId input : fn.operands(op)) {
    scratch.starts.push_back(scratch.bytes);
    scratch.bytes += (slots * fn.type(input).elementBytes() + 15) / 16 * 16;
  }
  return scratch;
}

} // namespace libtile::passes
