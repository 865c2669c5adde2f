// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/access_layouts.h"

#include "ir/ops.h"
#include "passes/gpu/conversion.h"
#include "passes/gpu/live_tiles.h"
#include "passes/op_properties.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Coords;
using ir::HwDim;
using ir::Layout;
using ir::Type;
using ir::ValueId;

Coords along(unsigned rank, int32_t axis, int32_t step) {
  Coords out(rank, 0);
  out[static_cast<size_t>(axis)] = step;
  return out;
}

// Registers' lowest bits count `vector` neighbours along the axis: what of these lanes count changes places with the next
// further steps along the axis that registers count.
std::optional<Layout> withVectors(const Layout &held, int32_t axis, int32_t vector) {
  Layout::Bases registers = held.bases(HwDim::Reg), lanes = held.bases(HwDim::Lane), vectors;
  const auto step = [&](int32_t by) { return along(held.rank(), axis, by); };
  for (int32_t by = 1, further = vector; by < vector; by *= 2) {
    if (std::erase(registers, step(by)) == 0) {
      while (further < held.subtile()[static_cast<size_t>(axis)] && std::ranges::find(registers, step(further)) == registers.end()) {
        further *= 2;
      }
      const auto lane = std::ranges::find(lanes, step(by));
      const auto given = std::ranges::find(registers, step(further));
      if (lane == lanes.end() || given == registers.end()) {
        return std::nullopt;
      }
      *lane = *given;
      registers.erase(given);
    }
    vectors.push_back(step(by));
  }
  vectors.insert(vectors.end(), registers.begin(), registers.end());
  return withBases(held, std::move(vectors), std::move(lanes));
}

// Neighbours along the axis that the lanes of a warp have together, each a vector.
int32_t runOfWarp(const Layout &layout, int32_t axis, int32_t vector) {
  int32_t run = vector;
  while (std::ranges::count(layout.bases(HwDim::Lane), along(layout.rank(), axis, run)) > 0) {
    run *= 2;
  }
  return run;
}

// A program's part of shared memory: a tile that takes more keeps out another one that registers and the dots' operands leave room for.
int64_t shareOfProgram(const ir::Function &fn, const Layout &held, int64_t elementBytes, const ir::Target &target) {
  constexpr int64_t kSum = 4; // bytes, of sums that are stored as smaller numbers
  int64_t operands = 1;
  for (const ir::OpId op : fn.walk()) {
    if (fn.opcode(op) == ir::Opcode::Dot) {
      const auto bytes = [&](unsigned operand) { return fn.type(fn.operand(op, operand)).numElements() * fn.type(fn.operand(op, operand)).elementBytes(); };
      operands = std::max(operands, bytes(0) + bytes(1));
    }
  }
  const int64_t sums = held.size(HwDim::Reg) * std::max(elementBytes, kSum) / kSum;
  const int64_t programs = std::min(programsByRegisters(sums, held.size(HwDim::Warp), target), target.sharedMemory / operands);
  return target.sharedMemory / std::clamp<int64_t>(programs, 1, 2);
}

} // namespace

std::vector<int32_t> axesByRuns(const ir::Function &fn, ValueId pointers, const Facts &facts) {
  const Type type = fn.type(pointers);
  std::vector<int32_t> order(type.rank());
  for (unsigned i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int32_t>(type.rank() - 1 - i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return facts.access().run(pointers, static_cast<unsigned>(a)).elements >
           facts.access().run(pointers, static_cast<unsigned>(b)).elements;
  });
  return order;
}

Layout memoryLayout(const ir::Function &fn, ValueId pointers, const Facts &facts, const AccessShape &shape) {
  constexpr int32_t kWord = 4, kLine = 128; // bytes
  const Type type = fn.type(pointers);
  const auto bytes = static_cast<int32_t>(type.pointee().elementBytes());
  std::vector<int32_t> order = axesByRuns(fn, pointers, facts);
  const int64_t widest = facts.access().maxVectorElements(pointers, static_cast<unsigned>(order[0]), shape.maxVectorBytes);
  const int64_t perThread = type.numElements() / (int64_t{shape.warps} * shape.warpSize);
  ir::Layout::Blocks blocks = {.order = order, .warps = shape.warps, .warpSize = shape.warpSize};
  std::vector<int32_t> warpOrder = order;
  if (shape.reducedAxis >= 0) {
    std::ranges::stable_partition(warpOrder, [&](int32_t axis) { return axis != shape.reducedAxis; });
  }
  if (shape.run) {
    // Rows for a word that is written, as long as what is loaded is one, too.
    const int32_t rows = std::min(std::max(1, kWord / bytes), floorPowerOfTwo(perThread * bytes / kWord));
    blocks.vector = floorPowerOfTwo(std::min(widest, perThread / rows));
    blocks.rows = std::min(shape.run->elements, floorPowerOfTwo(perThread / blocks.vector));
    blocks.lanesAlong = std::max(1, kLine / (blocks.vector * bytes));
    std::ranges::stable_partition(std::span(order).subspan(1), [&](int32_t axis) { return axis == static_cast<int32_t>(shape.run->axis); });
  } else {
    blocks.vector = floorPowerOfTwo(std::min(widest, perThread));
  }
  blocks.warpOrder = warpOrder;
  return Layout::blocked(type.shape(), blocks);
}

std::optional<Layout> layoutInWarps(const ir::Function &fn, ir::OpId store, const Facts &facts, const Layout &held, const ir::Target &target) {
  constexpr int64_t kShortest = 64; // bytes: two of the sectors that memory moves
  const ValueId pointers = fn.operand(store, 0);
  const Type type = fn.type(pointers);
  const auto bytes = static_cast<int32_t>(type.pointee().elementBytes());
  const bool hasRoom = type.numElements() * bytes <= shareOfProgram(fn, held, bytes, target);
  if (hasRoom && isInLoop(fn, store)) {
    return std::nullopt;
  }
  const int32_t axis = axesByRuns(fn, pointers, facts)[0];
  const int32_t vector = floorPowerOfTwo(facts.access().maxVectorElements(pointers, static_cast<unsigned>(axis), target.maxVectorBytes));
  const auto layout = withVectors(held, axis, vector);
  if (layout && (!hasRoom || int64_t{runOfWarp(*layout, axis, vector)} * bytes >= kShortest) &&
      planConversion(held, *layout, type.shape(), bytes, target.sharedReads).kind != Conversion::Kind::Shared) {
    return layout;
  }
  return hasRoom ? std::nullopt : std::optional(held);
}

} // namespace libtile::passes
