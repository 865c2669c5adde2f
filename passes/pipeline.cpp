// SPDX-License-Identifier: Apache-2.0
// The table of passes in the order of running, and the reasons for that order. Nothing else calls a
// pass. Tests run with verifyEach; a release compile verifies once, at the end, which costs a few
// percent of the pipeline.
#include "passes/pipeline.h"

#include "ir/verifier.h"
#include "passes/cpu/allocate_scratch.h"
#include "passes/cpu/bound_nests.h"
#include "passes/expand_assembly.h"
#include "passes/cpu/form_nests.h"
#include "passes/cpu/fuse_nests.h"
#include "passes/cpu/mark_accesses.h"
#include "passes/cpu/mark_nonpositive.h"
#include "passes/cpu/mark_streams.h"
#include "passes/cpu/mark_sums.h"
#include "passes/cpu/narrow_compares.h"
#include "passes/cpu/plan_nests.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_code.h"
#include "passes/expand_functions.h"
#include "passes/gpu/allocate_shared.h"
#include "passes/gpu/assign_layouts.h"
#include "passes/gpu/factor_scales.h"
#include "passes/gpu/hold_rows.h"
#include "passes/gpu/late_selects.h"
#include "passes/gpu/lower_conversions.h"
#include "passes/gpu/lower_sorts.h"
#include "passes/gpu/place_barriers.h"
#include "passes/gpu/multiply_codes.h"
#include "passes/gpu/overlap_dots.h"
#include "passes/gpu/overlap_launches.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/plan_pipeline.h"
#include "passes/gpu/plan_text.h"
#include "passes/gpu/skip_masks.h"
#include "passes/gpu/split_moving_addresses.h"
#include "passes/gpu/spread_warps.h"
#include "passes/gpu/store_boxes.h"
#include "passes/gpu/reduce_boxes.h"
#include "passes/gpu/relax_exponentials.h"
#include "passes/gpu/reuse_loads.h"
#include "passes/gpu/rotate_dots.h"
#include "passes/gpu/run_once.h"
#include "passes/gpu/take_turns.h"
#include "passes/gpu/turn_dots.h"
#include "passes/gpu/unwrap_indices.h"
#include "passes/hoist_loop_invariants.h"
#include "passes/pass_scope.h"
#include "passes/request_guards.h"
#include "passes/simplify.h"
#include "passes/split_carried_offsets.h"

#include <algorithm>
#include <array>
#include <map>

namespace libtile::passes {

using ir::Function;
using ir::Stage;

namespace {

constexpr auto kAlways = When::Always;

constexpr std::array kTable = {
    // ---- tile stage
    PassRow{"simplify", simplify, kAlways, Stage::Tile, Stage::Tile},
    PassRow{"split_carried_offsets", splitCarriedOffsets, kAlways, Stage::Tile, Stage::Tile},
    PassRow{"eliminate_common_subexpressions", eliminateCommonSubexpressions, kAlways, Stage::Tile,
            Stage::Tile},
    PassRow{"hoist_loop_invariants", hoistLoopInvariants, kAlways, Stage::Tile, Stage::Tile},
    PassRow{"unwrap_indices", unwrapIndices, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"run_once", runOnce, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"simplify", simplify, kAlways, Stage::Tile, Stage::Tile},
    PassRow{"eliminate_common_subexpressions", eliminateCommonSubexpressions, kAlways, Stage::Tile,
            Stage::Tile},
    PassRow{"eliminate_dead_code", eliminateDeadCode, kAlways, Stage::Tile, Stage::Tile},
    PassRow{"spread_warps", spreadWarps, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"factor_scales", factorScales, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"request_guards", requestGuards, kAlways, Stage::Tile, Stage::Tile},
    PassRow{"reuse_loads", reuseLoads, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"expand_assembly", expandAssembly, kAlways, Stage::Tile, Stage::Tile},
    // ---- CPU: nests
    PassRow{"mark_accesses", markAccesses, When::Nests, Stage::Tile, Stage::Tile},
    PassRow{"mark_nonpositive", markNonpositive, When::Nests, Stage::Tile, Stage::Tile},
    PassRow{"mark_streams", markStreams, When::Nests, Stage::Tile, Stage::Tile},
    PassRow{"mark_sums", markSums, When::Nests, Stage::Tile, Stage::Tile},
    PassRow{"narrow_compares", narrowCompares, When::Nests, Stage::Tile, Stage::Tile},
    PassRow{"form_nests", formNests, When::Nests, Stage::Tile, Stage::Nested, nestPlanText},
    PassRow{"bound_nests", boundNests, When::Nests, Stage::Nested, Stage::Nested},
    PassRow{"simplify", simplify, When::Nests, Stage::Nested, Stage::Nested},
    PassRow{"eliminate_common_subexpressions", eliminateCommonSubexpressions, When::Nests,
            Stage::Nested, Stage::Nested},
    PassRow{"fuse_nests", fuseNests, When::Nests, Stage::Nested, Stage::Nested},
    PassRow{"expand_functions", expandFunctions, When::Nests, Stage::Nested, Stage::Nested},
    PassRow{"hoist_loop_invariants", hoistLoopInvariants, When::Nests, Stage::Nested,
            Stage::Nested},
    PassRow{"eliminate_common_subexpressions", eliminateCommonSubexpressions, When::Nests,
            Stage::Nested, Stage::Nested},
    PassRow{"eliminate_dead_code", eliminateDeadCode, When::Nests, Stage::Nested, Stage::Nested},
    PassRow{"allocate_scratch", allocateScratch, When::Nests, Stage::Nested, Stage::Nested},
    // ---- GPU: layouts, staging
    PassRow{"late_selects", lateSelects, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"relax_exponentials", relaxExponentials, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"multiply_codes", multiplyCodes, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"expand_functions", expandFunctions, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"turn_dots", turnDots, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"plan_dots", planDots, When::LaysOut, Stage::Tile, Stage::Tile},
    PassRow{"assign_layouts", assignLayouts, When::LaysOut, Stage::Tile, Stage::LaidOut},
    PassRow{"eliminate_common_subexpressions", eliminateCommonSubexpressions, When::LaysOut,
            Stage::LaidOut, Stage::LaidOut},
    PassRow{"eliminate_dead_code", eliminateDeadCode, When::LaysOut, Stage::LaidOut,
            Stage::LaidOut},
    PassRow{"skip_masks", skipMasks, When::LaysOut, Stage::LaidOut, Stage::LaidOut},
    PassRow{"hold_rows", holdRows, When::LaysOut, Stage::LaidOut, Stage::LaidOut},
    PassRow{"lower_sorts", lowerSorts, When::LaysOut, Stage::LaidOut, Stage::LaidOut},
    PassRow{"pipeline_loops", pipelineLoops, When::LaysOut, Stage::LaidOut, Stage::LaidOut, gpuPlanText},
    PassRow{"split_moving_addresses", splitMovingAddresses, When::LaysOut, Stage::LaidOut, Stage::LaidOut},
    PassRow{"store_boxes", storeBoxes, When::LaysOut, Stage::LaidOut, Stage::LaidOut},
    PassRow{"lower_conversions", lowerConversions, When::LaysOut, Stage::LaidOut, Stage::LaidOut},
    PassRow{"hoist_loop_invariants", hoistLoopInvariants, When::LaysOut, Stage::LaidOut,
            Stage::LaidOut},
    PassRow{"eliminate_common_subexpressions", eliminateCommonSubexpressions, When::LaysOut,
            Stage::LaidOut, Stage::LaidOut},
    PassRow{"eliminate_dead_code", eliminateDeadCode, When::LaysOut, Stage::LaidOut,
            Stage::LaidOut},
    PassRow{"overlap_dots", overlapDots, When::LaysOut, Stage::LaidOut, Stage::LaidOut},
    PassRow{"reduce_boxes", reduceBoxes, When::LaysOut, Stage::LaidOut, Stage::LaidOut},
    PassRow{"allocate_shared", allocateShared, When::LaysOut, Stage::LaidOut, Stage::LaidOut},
    PassRow{"place_barriers", placeBarriers, When::LaysOut, Stage::LaidOut, Stage::Staged},
    PassRow{"rotate_dots", rotateDots, When::LaysOut, Stage::Staged, Stage::Staged},
    PassRow{"take_turns", takeTurns, When::LaysOut, Stage::Staged, Stage::Staged},
    PassRow{"overlap_launches", overlapLaunches, When::LaysOut, Stage::Staged, Stage::Staged},
};

constexpr auto kSome = OrderConstraint::SomeBefore;
constexpr auto kAll = OrderConstraint::AllBefore;
constexpr auto kLater = OrderConstraint::SomeAfter;

constexpr std::array kConstraints = {
    OrderConstraint{"simplify", "split_carried_offsets", kSome,
                    "it recognises steps that are splats or constants, a canonical form"},
    OrderConstraint{"split_carried_offsets", "simplify", kLater,
                    "(splat p + t) + splat off becomes a scalar base plus t"},
    OrderConstraint{"split_carried_offsets", "eliminate_dead_code", kLater,
                    "it leaves the old slots going round unread"},
    OrderConstraint{"hoist_loop_invariants", "eliminate_common_subexpressions", kLater,
                    "equal values of two loops meet only in front of them"},
    OrderConstraint{"split_carried_offsets", "unwrap_indices", kAll, "an index that a loop carries is no sum of a scalar and an arange"},
    OrderConstraint{"unwrap_indices", "simplify", kLater, "a tile's number is divided by 1"},
    OrderConstraint{"unwrap_indices", "request_guards", kAll, "its guards are sorted with the others"},
    OrderConstraint{"eliminate_common_subexpressions", "run_once", kSome, "ends of loops that are equal are one value"},
    OrderConstraint{"run_once", "request_guards", kAll, "its guards are sorted with the others"},
    OrderConstraint{"run_once", "simplify", kLater, "it takes the loops apart that run once"},
    OrderConstraint{"run_once", "eliminate_common_subexpressions", kLater, "addresses of what loops load twice become one value"},
    OrderConstraint{"request_guards", "reuse_loads", kAll, "what arrays that do not overlap hold is not written in between"},
    OrderConstraint{"spread_warps", "factor_scales", kAll, "it asks for the program's warps"},
    OrderConstraint{"spread_warps", "turn_dots", kAll, "what it tries is planned for the program's warps"},
    OrderConstraint{"eliminate_dead_code", "spread_warps", kSome, "what nobody uses takes no registers"},
    OrderConstraint{"simplify", "factor_scales", kSome, "factors that are splats or constants, a canonical form"},
    OrderConstraint{"factor_scales", "request_guards", kAll, "its guards are sorted with the others"},
    OrderConstraint{"assign_layouts", "skip_masks", kAll, "layouts and operands' homes follow from the ops that tiles are made by"},
    OrderConstraint{"eliminate_dead_code", "skip_masks", kSome, "what only a mask uses is computed where it is used"},
    OrderConstraint{"skip_masks", "eliminate_common_subexpressions", kLater, "sides of comparisons are computed again"},
    OrderConstraint{"assign_layouts", "hold_rows", kAll, "registers of a thread follow from layouts"},
    OrderConstraint{"eliminate_dead_code", "hold_rows", kSome, "what nobody uses is not held"},
    OrderConstraint{"eliminate_dead_code", "relax_exponentials", kSome, "a use that nobody needs is none"},
    OrderConstraint{"run_once", "late_selects", kAll, "what a loop that runs once sums is one tile"},
    OrderConstraint{"simplify", "late_selects", kSome, "the zero that such a sum begins with is added last"},
    OrderConstraint{"run_once", "relax_exponentials", kAll, "a loop that runs once carries no error on"},
    OrderConstraint{"expand_assembly", "relax_exponentials", kAll, "what a row of PTX does with an error its ops say"},
    OrderConstraint{"relax_exponentials", "expand_functions", kSome, "it knows functions, not their bodies"},
    OrderConstraint{"relax_exponentials", "hold_rows", kAll, "a row is made again of a power of two, not of an exponential"},
    OrderConstraint{"simplify", "request_guards", kSome,
                    "accesses that are dead or go to the same place need no guard"},
    OrderConstraint{"eliminate_dead_code", "request_guards", kSome,
                    "a parameter that is not used needs no guard"},
    OrderConstraint{"expand_assembly", "form_nests", kAll, "nests are made of ops on elements"},
    OrderConstraint{"request_guards", "form_nests", kAll,
                    "which accesses may overlap decides what is read again and what is stored"},
    OrderConstraint{"split_carried_offsets", "form_nests", kAll,
                    "a carried tile of pointers would become a buffer of pointers"},
    OrderConstraint{"mark_accesses", "form_nests", kAll,
                    "an address that goes through scratch does not show its array"},
    OrderConstraint{"mark_nonpositive", "form_nests", kAll, "a nest computes again what its numbers are less than"},
    OrderConstraint{"mark_streams", "form_nests", kAll, "a nest does not show how long a row of a store is"},
    OrderConstraint{"mark_sums", "form_nests", kAll, "an addition becomes its nest there, of the thread's sums or of memory"},
    OrderConstraint{"narrow_compares", "form_nests", kAll, "a nest has as few lanes as its widest number needs"},
    OrderConstraint{"form_nests", "simplify", kLater, "index maps leave sums with 0 and 1"},
    OrderConstraint{"bound_nests", "fuse_nests", kAll, "what ends at another place is not fused"},
    OrderConstraint{"fuse_nests", "expand_functions", kAll, "a function counts as one op"},
    OrderConstraint{"bound_nests", "simplify", kLater, "ends are sums with 0 and constants"},
    OrderConstraint{"simplify", "expand_functions", kAll, "its rules know functions, not their bodies"},
    OrderConstraint{"form_nests", "expand_functions", kAll,
                    "a function is one value of known cost, computed again or stored as a whole"},
    OrderConstraint{"expand_functions", "eliminate_common_subexpressions", kLater,
                    "bodies repeat constants, and what two functions of a value share"},
    OrderConstraint{"expand_functions", "assign_layouts", kAll, "a body's values are tiles"},
    OrderConstraint{"eliminate_dead_code", "allocate_scratch", kAll,
                    "a buffer that is never read needs no place"},
    OrderConstraint{"multiply_codes", "expand_functions", kSome, "it knows decodes, not their bodies"},
    OrderConstraint{"multiply_codes", "plan_dots", kAll, "which unit fits depends on what is multiplied"},
    OrderConstraint{"expand_functions", "turn_dots", kSome, "what is between two dots is turned op by op, and is planned as it is then"},
    OrderConstraint{"turn_dots", "plan_dots", kAll, "a dot's unit depends on which operands threads have as they are"},
    OrderConstraint{"plan_dots", "assign_layouts", kAll, "a dot's layouts are its unit's"},
    OrderConstraint{"request_guards", "assign_layouts", kAll,
                    "which accesses may overlap decides where threads must meet"},
    OrderConstraint{"split_carried_offsets", "assign_layouts", kAll,
                    "layouts of addresses follow from their affine forms"},
    OrderConstraint{"assign_layouts", "eliminate_dead_code", kLater,
                    "values that were made anew in another layout leave the first ones behind"},
    OrderConstraint{"assign_layouts", "pipeline_loops", kAll,
                    "loads that go through shared memory are known by their layouts"},
    OrderConstraint{"assign_layouts", "lower_sorts", kAll,
                    "a sort knows by its warps which places lie in registers, lanes and warps"},
    OrderConstraint{"lower_sorts", "lower_conversions", kAll,
                    "steps between warps are conversions"},
    OrderConstraint{"pipeline_loops", "lower_conversions", kAll,
                    "what runs ahead is read from its ring, not converted"},
    OrderConstraint{"pipeline_loops", "split_moving_addresses", kAll, "boxes are planned from addresses as the program has them"},
    OrderConstraint{"split_moving_addresses", "hoist_loop_invariants", kLater, "what stays of an address stands in front of the loop"},
    OrderConstraint{"pipeline_loops", "store_boxes", kAll, "it takes room that no ring has a use for"},
    OrderConstraint{"store_boxes", "lower_conversions", kAll, "what threads have goes into the buffer, not rows of it"},
    OrderConstraint{"lower_conversions", "allocate_shared", kAll, "it makes buffers"},
    OrderConstraint{"lower_conversions", "overlap_dots", kAll, "a dot ends in front of what writes the buffers that it reads"},
    OrderConstraint{"overlap_dots", "allocate_shared", kAll, "a buffer lives until the dots that read it have ended"},
    OrderConstraint{"overlap_dots", "reduce_boxes", kAll, "it takes room that nobody else has a use for"},
    OrderConstraint{"reduce_boxes", "allocate_shared", kAll, "it makes buffers"},
    OrderConstraint{"allocate_shared", "place_barriers", kAll,
                    "buffers conflict by the bytes that they share"},
    OrderConstraint{"place_barriers", "rotate_dots", kAll, "what stands between two barriers is not moved across one"},
    OrderConstraint{"rotate_dots", "take_turns", kAll, "a turn is for all dots that start one behind the other"},
    OrderConstraint{"place_barriers", "take_turns", kAll, "a team that has the turn must not wait for the others at a barrier"},
    OrderConstraint{"eliminate_dead_code", "allocate_shared", kAll,
                    "a buffer that is never read needs no place"},
    OrderConstraint{"pipeline_loops", "overlap_launches", kAll, "first copies, and producers, stand in front of what the kernel had"},
    OrderConstraint{"reduce_boxes", "overlap_launches", kAll, "a reduction of boxes is an access"},
    OrderConstraint{"rotate_dots", "overlap_launches", kAll, "what it brings in front of a loop may read"},
    OrderConstraint{"take_turns", "overlap_launches", kAll, "what stands in front of the wait needs no turn"},
};

bool runsOn(const PassRow &row, bool laysOut) {
  return row.when == When::Always || (row.when == When::LaysOut) == laysOut;
}

bool holds(const OrderConstraint &constraint, std::span<const PassRow> rows) {
  std::vector<size_t> before, after;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (std::string_view(rows[i].name) == constraint.before) {
      before.push_back(i);
    }
    if (std::string_view(rows[i].name) == constraint.after) {
      after.push_back(i);
    }
  }
  if (before.empty() || after.empty()) {
    return true;
  }
  switch (constraint.kind) {
  case OrderConstraint::SomeBefore:
    return before.front() < after.front();
  case OrderConstraint::AllBefore:
    return before.back() < after.front();
  case OrderConstraint::SomeAfter:
    return before.back() < after.back();
  }
  return false;
}

void requireStages(const Function &fn, std::span<const PassRun> runs) {
  Stage stage = fn.stage;
  for (const PassRun &run : runs) {
    if (run.row.needs != stage) {
      throw ir::UserError(std::string("pass ") + run.row.name + " takes a function in stage " +
                          ir::stageName(run.row.needs) + "; @" + fn.name + " is in stage " +
                          ir::stageName(stage) + " in front of it");
    }
    stage = run.row.gives;
  }
}

// The text after the first `count` runs on the function.
std::string replay(const Function &start, std::span<const PassRun> runs,
                   const PassContext &context) {
  Function fn = start.clone();
  for (const PassRun &run : runs) {
    run.row.fn(fn, context);
  }
  return ir::print(fn);
}

} // namespace

std::span<const PassRow> pipelineTable() { return kTable; }
std::span<const OrderConstraint> orderConstraints() { return kConstraints; }

const PassRow *findPass(std::string_view name) {
  const auto found =
      std::ranges::find_if(kTable, [&](const PassRow &row) { return row.name == name; });
  return found == kTable.end() ? nullptr : &*found;
}

bool matches(const std::string &pattern, const PassRun &run) {
  return pattern == "all" || pattern == run.row.name ||
         pattern == std::string(run.row.name) + ":" + std::to_string(run.nth);
}

std::vector<PassRun> schedule(const ir::Target &target, const PipelineOptions &options) {
  std::vector<PassRun> runs;
  std::map<std::string_view, unsigned> count;
  bool started = options.startAfter.empty();
  for (const PassRow &row : kTable) {
    if (!runsOn(row, target.laysOut)) {
      continue;
    }
    const PassRun run{row, ++count[row.name]};
    const bool disabled = std::ranges::any_of(
        options.disabled, [&](const std::string &pattern) { return matches(pattern, run); });
    if (started && !disabled) {
      runs.push_back(run);
    }
    started = started || matches(options.startAfter, run);
    if (matches(options.stopAfter, run)) {
      break;
    }
  }
  return runs;
}

std::vector<std::string> checkPipeline(std::span<const PassRow> table,
                                       std::span<const OrderConstraint> constraints) {
  std::vector<std::string> wrong;
  for (const bool laysOut : {false, true}) {
    std::vector<PassRow> rows;
    std::ranges::copy_if(table, std::back_inserter(rows),
                         [&](const PassRow &row) { return runsOn(row, laysOut); });
    Stage stage = Stage::Tile;
    for (const PassRow &row : rows) {
      if (row.needs != stage) {
        wrong.push_back(std::string(row.name) + " needs the stage " + ir::stageName(row.needs) +
                        " and finds " + ir::stageName(stage));
      }
      stage = row.gives;
    }
    for (const OrderConstraint &constraint : constraints) {
      if (!holds(constraint, rows)) {
        wrong.push_back(std::string(constraint.before) + " before " + constraint.after + ": " +
                        constraint.reason);
      }
    }
  }
  return wrong;
}

void runPipeline(Function &fn, const PassContext &context, const PipelineOptions &options) {
  const std::vector<PassRun> runs = schedule(context.target, options);
  requireStages(fn, runs);
  const Function start = fn.clone();
  for (size_t i = 0; i < runs.size(); ++i) {
    PassScope scope(runs[i], fn, context, options,
                    [&] { return replay(start, std::span(runs).first(i), context); });
    scope.run();
  }
  if (options.verifyEnd) {
    ir::verifyOrThrow(fn, "the pipeline", context.target.warpSize);
  }
}

void runPass(const PassRow &row, Function &fn, const PassContext &context,
             const PipelineOptions &options) {
  const Function start = fn.clone();
  PassScope({row, 1}, fn, context, options, [&] { return ir::print(start); }).run();
}

} // namespace libtile::passes
