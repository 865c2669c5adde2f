// SPDX-License-Identifier: Apache-2.0
// The parts of the plan in the order in which they need each other: units, loops that are sunk, tiles, chunks, the shapes
// of nests.
#include "passes/cpu/plan_nests.h"

#include "ir/ops.h"
#include "passes/cpu/kept_panels.h"
#include "passes/cpu/make_nests.h"
#include "passes/cpu/nest_costs.h"
#include "passes/cpu/plan_tiles.h"
#include "passes/cpu/rows_in_place.h"
#include "passes/cpu/sink_loops.h"
#include "passes/cpu/sums_ahead.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

bool isTile(const Function &fn, ValueId value) { return fn.type(value).isTile(); }

void planContracts(const Function &fn, const Target &target, CpuPlan &plan) {
  for (OpId dot : fn.walk()) {
    if (fn.opcode(dot) != Opcode::Dot) {
      continue;
    }
    if (fn.hasAttr(dot, Attr::format_a)) {
      throw Unsupported(target.name + " has no unit for codes of 8-bit floats", fn.locationOf(dot));
    }
    const Type &type = fn.type(fn.result(dot));
    const ContractPins pins{fn.getText(dot, Attr::unit), fn.getInt(dot, Attr::block_m), fn.getInt(dot, Attr::block_n)};
    const auto shape = contractShape(target, fn.type(fn.operand(dot, 0)).elem(), type.elem(),
                                     type.dim(type.rank() - 2), type.dim(type.rank() - 1), pins);
    if (shape) {
      plan.contracts.emplace(dot, *shape);
    } else if (pins.any()) {
      refusePin(fn, dot, pins.unit.empty() ? Attr::block_m : Attr::unit,
                target.name + " has no such unit for its operands, with such a register block");
    }
  }
}

// The dot accumulates tile `i` of the loop's carried values and does nothing else with it.
bool accumulates(const Function &fn, OpId loop, OpId dot, unsigned i) {
  const BlockId body = fn.region(loop);
  const ValueId acc = fn.arg(body, i + 1);
  return fn.operand(fn.last(body), i) == fn.result(dot) && fn.operand(dot, 2) == acc &&
         fn.uses(acc).size() == 1 && fn.uses(fn.result(dot)).size() == 1;
}

// The dots of a loop that can run in chunks (chunk_dot_loops.h); empty: it cannot.
std::vector<OpId> dotsOf(const Function &fn, const CpuPlan &plan, OpId loop) {
  const auto step = fn.opcode(loop) == Opcode::For ? fn.constantInt(fn.operand(loop, 2)) : std::nullopt;
  if (!step || *step <= 0 || fn.getBool(loop, Attr::stop)) {
    return {};
  }
  std::vector<OpId> dots;
  for (OpId op : fn.opsIn(fn.region(loop))) {
    const bool isMatrix = fn.opcode(op) == Opcode::Dot && fn.type(fn.result(op)).rank() == 2;
    if (isMatrix && plan.contracts.contains(op)) {
      dots.push_back(op);
    } else if (fn.opcode(op) != Opcode::Yield && !isInlinable(fn, op)) {
      const Effects effects = fn.ownEffects(op);
      const bool scalar = !std::ranges::any_of(fn.operands(op), [&](ValueId v) { return isTile(fn, v); });
      if (!scalar || !effects.removable() || !fn.regions(op).empty()) {
        return {};
      }
    }
  }
  unsigned tiles = 0;
  for (unsigned i = 0; i < fn.results(loop).size(); ++i) {
    if (isTile(fn, fn.result(loop, i))) {
      ++tiles;
      const bool found = std::ranges::any_of(
          dots, [&](OpId dot) { return accumulates(fn, loop, dot, i); });
      if (!found) {
        return {};
      }
    }
  }
  return tiles == dots.size() ? dots : std::vector<OpId>{};
}

// As many iterations as suit each dot, and no more than there are.
int32_t chunkOf(const Function &fn, const Target &target, const CpuPlan &plan, OpId loop,
                std::span<const OpId> dots) {
  int32_t chunk = 0;
  for (OpId dot : dots) {
    const int32_t k = fn.type(fn.operand(dot, 0)).dim(1);
    const int32_t iterations = iterationsPerChunk(target, plan.contracts.at(dot), k);
    chunk = chunk == 0 ? iterations : std::min(chunk, iterations);
  }
  const auto lo = fn.constantInt(fn.operand(loop, 0));
  const auto hi = fn.constantInt(fn.operand(loop, 1));
  const int64_t step = *fn.constantInt(fn.operand(loop, 2));
  if (lo && hi && *lo >= 0 && *hi >= *lo) {
    chunk = int32_t(std::min<int64_t>(chunk, (*hi - *lo + step - 1) / step));
  }
  return chunk;
}

int32_t pinnedChunk(const Function &fn, const CpuPlan &plan, OpId loop, std::span<const OpId> dots) {
  const int64_t chunk = fn.getInt(loop, Attr::chunk);
  if (dots.empty() && chunk != 1) {
    refusePin(fn, loop, Attr::chunk, "the loop does more than accumulate dots that have a unit");
  }
  int64_t most = kNestCosts.pinnedChunk;
  for (OpId dot : dots) {
    most = std::min<int64_t>(most, kNestCosts.pinnedChunk / plan.contracts.at(dot).packedK(fn.type(fn.operand(dot, 0)).dim(1)));
  }
  if (chunk < 1 || chunk > std::max<int64_t>(most, 1)) {
    refusePin(fn, loop, Attr::chunk, "a chunk has 1 to " + std::to_string(std::max<int64_t>(most, 1)) + " iterations");
  }
  return int32_t(chunk);
}

void planChunks(const Function &fn, const Facts &facts, const Target &target, CpuPlan &plan) {
  for (OpId loop : fn.walk()) {
    const std::vector<OpId> dots = dotsOf(fn, plan, loop);
    const int32_t chunk = fn.hasAttr(loop, Attr::chunk) ? pinnedChunk(fn, plan, loop, dots)
                          : dots.empty()                ? 0
                                                        : chunkOf(fn, target, plan, loop, dots);
    if (chunk > 1) {
      PlannedChunks &planned = plan.chunks[loop] = {dots, chunk, {}, {}, {}};
      const IndexMap<ValueId, ValueId> nothingStored{ValueId{}};
      for (OpId dot : dots) {
        const ValueId sums = fn.result(loop, fn.defIndex(fn.operand(dot, 2)) - 1);
        const OpId store = storeOfSums({fn, plan.sunk, nothingStored}, facts, loop, sums);
        if (store.valid()) {
          planned.stores.emplace(dot, store);
        }
        const bool isInline = plan.tiles[fn.operand(dot, 1)].keep == Keep::inline_;
        const int32_t slots = isInline ? panelsToKeep(fn, facts, loop, dot, plan.contracts.at(dot), chunk) : 0;
        if (slots != 0) {
          planned.kept.emplace(dot, slots);
        }
        if (plan.contracts.at(dot).unit.flushes && keysOfOperand(fn, facts, loop, dot, 0)) {
          planned.findings.insert(dot);
        }
      }
    }
  }
}

// Behind planChunks.
void planRowsInPlace(const Function &fn, const Facts &facts, const Target &target, CpuPlan &plan) {
  for (const auto &[dot, shape] : plan.contracts) {
    const ValueId a = fn.operand(dot, 0);
    const OpId around = fn.parentOp(fn.block(dot)), loop = plan.chunks.contains(around) ? around : OpId();
    plan.inPlace.set(dot, fn.type(a).rank() == 2 && plan.tiles[a].keep == Keep::inline_ &&
                              haveRowsInPlace(fn, facts, target, loop, dot, shape));
  }
}

// By nests that are made of a copy.
void planShapes(const Function &fn, const Facts &facts, const Target &target, CpuPlan &plan) {
  plan.pins = nestPins(fn);
  Function copy = fn.clone();
  dropPins(copy);
  NestState state{copy, target, facts, plan, /*follows=*/false};
  makeNests(state);
  requireHeeded(fn, plan.pins);
}

} // namespace

CpuPlan planNests(const Function &fn, const Facts &facts, const Target &target) {
  CpuPlan plan;
  planContracts(fn, target, plan);
  planSunkLoops(fn, plan);
  planTiles(fn, facts, plan);
  planChunks(fn, facts, target, plan);
  planRowsInPlace(fn, facts, target, plan);
  planShapes(fn, facts, target, plan);
  return plan;
}

} // namespace libtile::passes
