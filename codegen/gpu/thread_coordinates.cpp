// SPDX-License-Identifier: Apache-2.0
// Layouts as code. What depends on lane and warp only is made once, in the prologue; each register
// then adds a constant to it.
#include "codegen/gpu/emitter.h"

#include "passes/gpu/layout_maps.h"

namespace libtile::codegen::gpu {

using ir::HwDim;

namespace {

std::vector<int32_t> axisOf(const ir::Layout::Bases &bases, unsigned axis) {
  std::vector<int32_t> out;
  for (const ir::Coords &basis : bases) {
    out.push_back(basis[axis]);
  }
  return out;
}

int32_t unionOf(const std::vector<int32_t> &values) {
  int32_t bits = 0;
  for (int32_t value : values) {
    bits |= value;
  }
  return bits;
}

} // namespace

// Bits that move by the same distance are moved together: out = XOR over distances of
// (source & mask) << distance.
llvm::Value *Emitter::linear(llvm::Value *source, std::span<const int32_t> outputs) {
  std::map<int, uint32_t> masks; // distance -> source bits
  for (size_t bit = 0; bit < outputs.size(); ++bit) {
    for (int out = 0; out < 31; ++out) {
      if (((outputs[bit] >> out) & 1) != 0) {
        masks[out - static_cast<int>(bit)] |= 1u << bit;
      }
    }
  }
  llvm::Value *sum = nullptr;
  for (const auto &[distance, mask] : masks) {
    llvm::Value *part = builder_.CreateAnd(source, i32(mask));
    part = distance >= 0 ? builder_.CreateShl(part, i32(distance))
                         : builder_.CreateLShr(part, i32(-distance));
    sum = sum == nullptr ? part : builder_.CreateXor(sum, part);
  }
  return sum == nullptr ? i32(0) : sum;
}

llvm::Value *Emitter::threadCoord(const ir::Layout &layout, unsigned axis) {
  const std::vector<int32_t> lanes = axisOf(layout.bases(HwDim::Lane), axis);
  const std::vector<int32_t> warps = axisOf(layout.bases(HwDim::Warp), axis);
  std::string key = "coord";
  for (const std::vector<int32_t> *list : {&lanes, &warps}) {
    for (int32_t basis : *list) {
      key += " " + std::to_string(basis);
    }
    key += ",";
  }
  return inPrologue(key, [&] {
    llvm::Value *a = linear(lane_, lanes);
    llvm::Value *b = linear(warp_, warps);
    const bool apart = (unionOf(lanes) & unionOf(warps)) == 0;
    return apart ? builder_.CreateAdd(a, b) : builder_.CreateXor(a, b);
  });
}

int32_t Emitter::threadBits(const ir::Layout &layout, unsigned axis) {
  return unionOf(axisOf(layout.bases(HwDim::Lane), axis)) |
         unionOf(axisOf(layout.bases(HwDim::Warp), axis));
}

llvm::Value *Emitter::coord(const ir::Layout &layout, int32_t reg, unsigned axis) {
  const int32_t part = layout.applyOne(HwDim::Reg, reg)[axis];
  llvm::Value *thread = threadCoord(layout, axis);
  return (part & threadBits(layout, axis)) == 0 ? builder_.CreateAdd(thread, i32(part))
                                  : builder_.CreateXor(thread, i32(part));
}

llvm::Value *Emitter::inTile(const ir::Type &tile, int32_t reg) {
  const ir::Layout &layout = fn_.layout(tile.layout());
  const passes::InTile where = passes::inTile(layout, reg, tile.shape());
  if (where.everywhere) {
    return nullptr;
  }
  if (!where.somewhere) {
    return builder_.getFalse();
  }
  llvm::Value *inside = nullptr;
  for (unsigned axis = 0; axis < tile.rank(); ++axis) {
    const int64_t reach = int64_t{layout.subtile()[axis]} * layout.repeats()[axis];
    if (reach > tile.dim(axis)) {
      inside = both(inside, builder_.CreateICmpSLT(coord(layout, reg, axis), i32(tile.dim(axis))));
    }
  }
  return inside;
}

llvm::Value *Emitter::isCanonicalThread(const ir::Layout &layout) {
  const int32_t lanes = (layout.subtileSize(HwDim::Lane) - 1) & ~layout.canonicalBits(HwDim::Lane);
  const int32_t warps = (layout.subtileSize(HwDim::Warp) - 1) & ~layout.canonicalBits(HwDim::Warp);
  if (lanes == 0 && warps == 0) {
    return nullptr;
  }
  return inPrologue("canonical " + std::to_string(lanes) + " " + std::to_string(warps), [&] {
    llvm::Value *rest = builder_.CreateOr(builder_.CreateAnd(lane_, i32(lanes)),
                                          builder_.CreateAnd(warp_, i32(warps)));
    return builder_.CreateICmpEQ(rest, i32(0));
  });
}

int32_t Emitter::firstReplica(const ir::Layout &layout, int32_t reg) {
  int32_t bit = 1;
  for (const ir::Coords &basis : layout.bases(HwDim::Reg)) {
    bool zero = true;
    for (int32_t coordinate : basis) {
      zero = zero && coordinate == 0;
    }
    reg &= zero ? ~bit : ~0;
    bit <<= 1;
  }
  return reg;
}

llvm::Value *Emitter::inPrologue(const std::string &key, const std::function<llvm::Value *()> &make) {
  if (const auto known = threadValues_.find(key); known != threadValues_.end()) {
    return known->second;
  }
  llvm::IRBuilder<>::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(prologue_->getTerminator());
  return threadValues_[key] = make();
}

llvm::Value *Emitter::isFirstThread() {
  return inPrologue("first", [&] { return builder_.CreateICmpEQ(thread_, i32(0)); });
}

llvm::Value *Emitter::both(llvm::Value *a, llvm::Value *b) {
  if (a == nullptr || b == nullptr) {
    return a == nullptr ? b : a;
  }
  return builder_.CreateAnd(a, b);
}

} // namespace libtile::codegen::gpu
