// SPDX-License-Identifier: Apache-2.0
// Which loads of a loop run ahead of it, decided as data and applied by one rewrite.
//
// A loop is pipelined when it feeds dots: a load whose elements are needed only under another
// layout than the one it is made in (they have to go through shared memory anyway) is copied there
// asynchronously, `stages - 1` iterations ahead, into a ring of `stages` slots. What computes its
// addresses and mask, with the carried values that takes, runs ahead in a copy of its own. Loops
// that only stream memory are left alone, unless the user gives their stages (plan_streams.h).
//
//   with n = stages
//   copy 0, commit, ..., copy n-2, commit
//   for i:  wait until n-2 groups are pending     slot i has arrived
//           copy i+n-1, commit                    into the slot that iteration i-1 has read
//           read slot i, dots
//   wait for all
//
// A dot of a unit that goes on by itself may stay under way while the next iteration begins: its
// accumulator is then a place (ir/places.h), and the wait for it stands behind the dots of the next
// iteration. That is so if the loop does nothing with the result but hand it on, if both operands
// are slots of its rings, and if the same holds of all such dots of the loop, since waiting for one
// waits for those before it. What iteration i-1 reads is then filled again in iteration i+1, so the
// rings have one slot more than stages (unless that takes the last neighbour from the program's
// multiprocessor, plan_residency.h):
//
//   for i:  wait for copies, copy i+n-1          into the slot that iteration i-2 has read
//           start the dots of i, wait for the dots of i-1
//   wait for all, read the places
//
// A text can pin it: `behind` of the dot is 0 or 1 iterations.
//
// A plan has as many stages as are asked for and leave room in shared memory for what else the kernel
// keeps there; with room for less than two the loop stays as it is.
//
// A load whose addresses and mask are a box (analysis/access_box.h) may be copied by the machine itself: all
// threads wait for its slot's counter of arrivals in place of the groups. If all loads of a loop are, a warp of its own may copy
// them (plan_producer.h), and no slot more is needed for dots that end one iteration later.
//
// What threads cannot copy asynchronously goes by registers, where they have them (plan_registers.h): neighbours of fewer than
// 4 bytes, or anything where the target has no such copies. An iteration loads it in place of copying it, and writes it to its
// slot at the end.
//
//   for i:  wait for copies
//           load i+n-1
//           read slot i, dots
//           write what was loaded                into the slot that iteration i-1 has read (i-2, if dots end later)
//
// Other copies write rows (row_copies.h), all that a loop loads or none of it, and are not waited for by groups: such loops have two
// stages.
//
// Where everything goes by registers, a target may do with one slot for two stages:
//
//   load 0, write it to the slot
//   for i:  read the slot's first tile
//           load i+1                             behind the barrier in front of the reads: it may wait for loads
//           read the other tiles, dots
//           write what was loaded to the slot    all have read it
//
// The barriers that this needs follow from the buffers' dependences (place_barriers.h): one between
// the wait and what comes after it, and with one slot one in front of the writes.
#pragma once

#include "passes/analysis/facts.h"
#include "passes/gpu/plan_boxes.h"
#include "passes/pass.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace libtile::passes {

struct PlannedLoad {
  ir::OpId load;
  ir::Layout slot = {};    // of one slot
  int32_t vectorBytes = 0; // of one thread's copy or load: 1 to 16, of a copy 4 at least; a box has none
  int64_t slotBytes = 0;
  int32_t align = 0;       // of the ring, if it needs more than others; bytes
  std::optional<PlannedBox> box = {}; // the way of its copy; nullopt: by threads
  bool byRegisters = false;           // which hold it for an iteration
  bool shared = false;                // a box: programs of a cluster copy it for each other where they want the same
  bool carried = false;               // a number: the loop carries it from iteration to iteration, and it has no slot
  std::string noBox = {};             // why threads copy it, in words; "": nobody asked
};

[[nodiscard]] PlannedLoad boxedLoad(const ir::Function &fn, ir::OpId load, PlannedBox box);

struct LoopPlan {
  ir::OpId loop;
  int32_t stages = 0; // 1: it brings what inner loops read (plan_around.h)
  [[nodiscard]] int64_t slotBytes() const; // of all loads
  std::vector<PlannedLoad> loads = {};
  // Ops of the body that run ahead, in order, and positions among the carried values that they use.
  std::vector<ir::OpId> ahead = {};
  std::vector<unsigned> carriedAhead = {};
  std::vector<ir::OpId> underWay = {}; // dots that end one iteration later
  bool isTwoStages = false;            // for a target without copies that are waited for by groups
  bool oneSlot = false;                // all loads go by registers, to the slot that has been read
  bool byProducer = false;             // a producer copies its boxes (plan_producer.h)
  std::string noProducer = {};         // or why not, in words; "": nobody asked
  [[nodiscard]] int32_t slots() const { return oneSlot ? 1 : stages + (underWay.empty() || byProducer ? 0 : 1); }
};

// What a producer runs: scalar code, and of loops what they carry for it.
struct ProducerSlice {
  std::set<ir::OpId> ops;
  std::map<ir::OpId, std::set<unsigned>> loops; // positions among the carried values
};

// Its warps, which give registers to the others, and those of a thread then.
struct ProducerTeam {
  int32_t warps = 0;
  int32_t own = 0, others = 0; // registers
  int32_t resident = 0;        // programs of a multiprocessor that this is meant for
};

struct Plan {
  std::vector<LoopPlan> loops;
  ProducerSlice producer;
  ProducerTeam team; // of 0 warps: there is no producer
  int32_t cluster = 1; // programs that copy for each other (plan_cluster.h)
  bool lacksRoom = false; // a loop has fewer stages than it should, or no ring for what it reads in each iteration
  // Why a loop with dots has loads that do not run ahead, in words.
  std::vector<std::string> refusals;
};

// Requires: laid-out.
[[nodiscard]] Plan planPipeline(const ir::Function &fn, const Facts &facts,
                                const PassContext &context);
// The same of a function whose body has become a loop over programs, where blocks share them (share_blocks.h).
[[nodiscard]] Plan planPrograms(ir::Function &fn, const PassContext &context);
// Requires: the plan is of this function as it is.
void applyPlan(ir::Function &fn, const Plan &plan);
// A copy with the plan applied and its conversions lowered: what there is to know of its shared memory.
[[nodiscard]] ir::Function withPlan(const ir::Function &fn, const Plan &plan, const PassContext &context);

// planPrograms and applyPlan. Ensures: laid-out; refusals are recorded as fallbacks.
bool pipelineLoops(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
