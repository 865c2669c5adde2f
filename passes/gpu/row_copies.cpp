// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/row_copies.h"

#include "ir/ops.h"
#include "passes/gpu/access_layouts.h"
#include "passes/gpu/fragments.h"
#include "passes/gpu/layout_maps.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/plan_registers.h"
#include "passes/gpu/refuse_loops.h"
#include "passes/gpu/shared_layouts.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::HwDim;
using ir::Layout;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

// Layouts under which dots of the load's loop take the tile; false: something else takes it.
bool addReaders(const ir::Function &fn, ValueId tile, const PassContext &context, int32_t warps, std::vector<Layout> &readers) {
  return std::ranges::all_of(fn.uses(tile), [&](ir::Use use) {
    if (fn.opcode(use.op) == Opcode::Trans) {
      std::vector<Layout> turned;
      if (!addReaders(fn, fn.result(use.op), context, warps, turned)) {
        return false;
      }
      const std::span<const int64_t> order = fn.getInts(use.op, ir::Attr::order);
      std::vector<int64_t> back(order.size());
      for (size_t i = 0; i < order.size(); ++i) {
        back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
      }
      std::ranges::transform(turned, std::back_inserter(readers), [&](const Layout &each) { return each.trans(back); });
      return true;
    }
    if (fn.opcode(use.op) != Opcode::Dot || use.operand > 1) {
      return false;
    }
    const ir::DotUnit &unit = unitOf(fn, use.op, context.target);
    if (!unit.together || unit.a.inShared || unit.b.inShared) {
      return false;
    }
    const auto acc = fn.type(fn.result(use.op)).shape();
    const int32_t depth = fn.type(fn.operand(use.op, 0)).shape().back();
    const WarpGrid grid = warpGridOf(fn, use.op, warps);
    readers.push_back(use.operand == 0 ? leftLayout(unit, acc, depth, grid, warps) : rightLayout(unit, acc, depth, grid, warps));
    return true;
  });
}

// As plan_pipeline.h will find.
bool runsAhead(const ir::Function &fn, const Facts &facts, OpId loop, OpId load, const PassContext &context) {
  const int64_t stages = fn.getInt(loop, ir::Attr::num_stages);
  return (stages > 0 ? stages : context.numStages) != 1 && loopRefusal(fn, facts, loop) == nullptr && loadRefusal(fn, facts, load) == nullptr;
}

// Each register moves along one axis, so that its address is its thread's and a constant.
bool movesAlongAxes(const ir::Coords &basis) { return std::ranges::count_if(basis, [](int32_t each) { return each != 0; }) == 1; }

} // namespace

std::optional<Layout> rowCopyLayout(const ir::Function &fn, OpId load, const Facts &facts, const PassContext &context, const Layout &plain, int32_t warps) {
  const ValueId tile = fn.result(load), pointers = fn.operand(load, 0);
  const OpId loop = fn.parentOp(fn.block(load));
  const ir::Target &target = context.target;
  if (target.rowCopy == 0 || !loop.valid() || fn.opcode(loop) != Opcode::For || computesWithSums(fn, loop) || fn.unused(tile) ||
      !runsAhead(fn, facts, loop, load, context)) {
    return std::nullopt;
  }
  const ir::Type type = fn.type(tile);
  const auto bytes = static_cast<int32_t>(type.elementBytes()), fast = axesByRuns(fn, pointers, facts)[0];
  const int32_t elements = target.rowCopy / bytes;
  const bool isWide = facts.access().maxVectorElements(pointers, static_cast<unsigned>(fast), target.maxVectorBytes) >= elements &&
                      (fn.numOperands(load) < 2 || facts.access().equalGroup(fn.operand(load, 1), static_cast<unsigned>(fast)) >= elements);
  std::vector<Layout> readers;
  if (elements < 2 || !isWide || !addReaders(fn, tile, context, warps, readers)) {
    return std::nullopt;
  }
  const Layout slot = chooseBuffer(type.shape(), {.writers = {&plain, 1},
                                                  .readers = readers,
                                                  .elementBytes = bytes,
                                                  .minUnitBytes = target.rowCopy,
                                                  .fastAxis = fast,
                                                  .reads = target.sharedReads});
  const Layout::Bases &offsets = slot.bases(HwDim::Offset);
  const size_t piece = llvm::Log2_64(elements), lanes = piece + llvm::Log2_64(target.warpSize), rest = lanes + llvm::Log2_64(warps);
  if (offsets.size() < rest || !std::all_of(offsets.begin() + static_cast<int64_t>(rest), offsets.end(), movesAlongAxes)) {
    return std::nullopt;
  }
  const auto part = [&](size_t first, size_t end) {
    return Layout::Bases(offsets.begin() + static_cast<int64_t>(first), offsets.begin() + static_cast<int64_t>(end));
  };
  Layout::Bases registers = part(0, piece);
  std::ranges::copy(part(rest, offsets.size()), std::back_inserter(registers));
  return Layout({slot.subtile().begin(), slot.subtile().end()}, {slot.repeats().begin(), slot.repeats().end()},
                {std::move(registers), part(piece, lanes), part(lanes, rest), {}, {}});
}

bool rowsHaveRoom(int64_t slotBytes, const ir::Target &target) {
  constexpr int64_t kSlots = 2, kPrograms = 2;
  return kSlots * kPrograms * slotBytes <= target.sharedMemory;
}

std::optional<Layout> slotOfRows(const Layout &threads, int32_t elements) {
  const Layout::Bases &registers = threads.bases(HwDim::Reg);
  const size_t piece = llvm::Log2_64(elements);
  if (holdsReplicas(threads) || registers.size() < piece) {
    return std::nullopt;
  }
  Layout::Bases offsets(registers.begin(), registers.begin() + static_cast<int64_t>(piece));
  for (const HwDim dim : {HwDim::Lane, HwDim::Warp}) {
    std::ranges::copy(threads.bases(dim), std::back_inserter(offsets));
  }
  offsets.insert(offsets.end(), registers.begin() + static_cast<int64_t>(piece), registers.end());
  std::array<Layout::Bases, ir::kNumHwDims> bases;
  bases[unsigned(HwDim::Offset)] = std::move(offsets);
  return Layout({threads.subtile().begin(), threads.subtile().end()}, {threads.repeats().begin(), threads.repeats().end()}, std::move(bases));
}

} // namespace libtile::passes
