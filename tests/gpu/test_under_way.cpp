// SPDX-License-Identifier: Apache-2.0
// Dots that end one iteration later: which may, and that nobody touches what they work on. The finished code is run on
// numbers of slots alone: what is copied where, what has arrived, what a dot still reads, what a barrier has told.
#include "codegen/codegen.h"
#include "ir/ops.h"
#include "ir/parser.h"
#include "ir/places.h"
#include "passes/analysis/facts.h"
#include "passes/gpu/plan_pipeline.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/pipeline.h"
#include "tests/gpu/dot_nests.h"
#include "tests/gpu/scalar_machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

using namespace libtile;
using tests::Nest;
using tests::textOf;
using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

ir::Function compiled(const Nest &nest, int32_t stages, const std::string &until = "") {
  ir::Function fn = ir::parse(textOf(nest));
  const passes::PassContext context{codegen::findTarget("sm_90a"), 4, stages};
  passes::PipelineOptions options;
  options.verifyEach = true;
  options.stopAfter = until;
  passes::runPipeline(fn, context, options);
  return fn;
}

passes::Plan planOf(const Nest &nest, int32_t stages) {
  const ir::Function fn = compiled(nest, stages, "assign_layouts");
  return passes::planPipeline(fn, passes::computeFacts(fn), {codegen::findTarget("sm_90a"), 4, stages});
}

// A staged function with %n in place, on slots: (ring, index).
class Machine : public tests::ScalarMachine {
public:
  Machine(const ir::Function &fn, int64_t n) : ScalarMachine(fn) { set(fn.arg(fn.body(), 3), n); }

  void run() {
    ScalarMachine::run(fn_.body());
    EXPECT_TRUE(underWay_.empty());
  }
  size_t dots = 0, mostUnderWay = 0;

private:
  using Slot = std::pair<uint32_t, int64_t>;
  struct Content {
    int64_t number = -1; // of the copy, in its ring since the last wait for all
    bool arrived = false, seen = false;
  };
  struct Ring {
    int64_t copies = 0, reads = 0;
  };
  struct Dot {
    OpId place;
    std::vector<Slot> slots;
  };

  void visit(OpId op) override {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::BufferSlot) {
      slots_[fn_.result(op).index] = {passes::allocOf(fn_, fn_.operand(op, 0)).index, number(op, 1)};
    } else if (opcode == Opcode::Trans && slots_.contains(fn_.operand(op, 0).index)) {
      slots_[fn_.result(op).index] = slots_.at(fn_.operand(op, 0).index);
    } else if (opcode == Opcode::BufferRead && slots_.contains(fn_.operand(op, 0).index)) {
      read(slots_.at(fn_.operand(op, 0).index));
      ended_.insert(slots_.at(fn_.operand(op, 0).index));
    } else if (opcode == Opcode::BufferWrite && slots_.contains(fn_.operand(op, 0).index)) {
      write(slots_.at(fn_.operand(op, 0).index), fn_.block(op) == fn_.block(passes::allocOf(fn_, fn_.operand(op, 0))));
    } else if (opcode == Opcode::AsyncCopy) {
      startCopy(slots_.at(fn_.operand(op, 1).index));
    } else if (opcode == Opcode::AsyncCommit) {
      groups_.push_back(std::move(group_));
      group_.clear();
    } else if (opcode == Opcode::AsyncWait) {
      waitForCopies(static_cast<size_t>(fn_.getInt(op, Attr::count)));
    } else if (opcode == Opcode::Dot) {
      startDot(op);
    } else if (opcode == Opcode::DotWait) {
      waitForDots(static_cast<size_t>(fn_.getInt(op, Attr::count)));
    } else if (opcode == Opcode::PlaceRead) {
      for (const Dot &dot : underWay_) {
        EXPECT_NE(dot.place, ir::placeOf(fn_, fn_.operand(op, 0))) << "read while a dot is under way";
      }
    } else if (opcode == Opcode::Barrier) {
      ended_.clear();
      for (auto &[slot, content] : contents_) {
        content.seen = content.arrived;
      }
    } else {
      compute(op);
    }
  }

  void startCopy(const Slot &slot) {
    expectFree(slot);
    contents_[slot] = {rings_[slot.first].copies++};
    group_.push_back(slot);
  }

  // Of what was loaded ahead; the first one in front of the loop.
  void write(const Slot &slot, bool isFirst) {
    expectFree(slot);
    if (isFirst) {
      rings_[slot.first] = {};
    }
    contents_[slot] = {rings_[slot.first].copies++, true};
  }

  void expectFree(const Slot &slot) {
    EXPECT_FALSE(ended_.contains(slot)) << "other warps may still read the slot";
    for (const Dot &dot : underWay_) {
      EXPECT_EQ(std::ranges::find(dot.slots, slot), dot.slots.end()) << "a dot still reads the slot";
    }
  }

  void waitForCopies(size_t pending) {
    for (; groups_.size() > pending; groups_.pop_front()) {
      for (const Slot &slot : groups_.front()) {
        contents_[slot].arrived = true;
      }
    }
    if (pending == 0) {
      rings_.clear();
    }
  }

  void read(const Slot &slot) {
    EXPECT_TRUE(contents_[slot].seen) << "not all warps know that it has arrived";
    EXPECT_EQ(contents_[slot].number, rings_[slot.first].reads++) << "another block";
  }

  void startDot(OpId op) {
    Dot dot{ir::placeOf(fn_, fn_.operand(op, 2)), {}};
    for (const unsigned operand : {0U, 1U}) {
      if (!fn_.type(fn_.operand(op, operand)).isTile()) {
        dot.slots.push_back(slots_.at(fn_.operand(op, operand).index));
        read(dot.slots.back());
      }
    }
    ++dots;
    const bool starts = passes::startsDot(fn_, op);
    underWay_.push_back(std::move(dot));
    mostUnderWay = std::max(mostUnderWay, underWay_.size());
    waitForDots(starts ? underWay_.size() : 0);
  }

  void waitForDots(size_t count) {
    for (; underWay_.size() > count; underWay_.pop_front()) {
      ended_.insert(underWay_.front().slots.begin(), underWay_.front().slots.end());
    }
  }

  std::map<uint32_t, Slot> slots_;
  std::map<Slot, Content> contents_;
  std::map<uint32_t, Ring> rings_;
  std::vector<Slot> group_;
  std::deque<std::vector<Slot>> groups_;
  std::deque<Dot> underWay_;
  std::set<Slot> ended_; // read by threads, or by dots that have ended, since the last barrier
};

TEST(UnderWay, NobodyTouchesWhatADotWorksOn) {
  for (const int dots : {1, 2}) {
    for (const bool outer : {false, true}) {
      for (const char *attributes : {", behind=1", ", behind=0"}) {
        for (const int32_t stages : {2, 3, 4}) {
          const Nest nest{.dots = dots, .outer = outer, .attributes = attributes};
          const ir::Function fn = compiled(nest, stages);
          const bool later = nest.attributes == ", behind=1";
          for (int64_t trips = 0; trips <= 9; ++trips) {
            SCOPED_TRACE(std::to_string(dots) + " dots, " + std::to_string(stages) + " stages, " +
                         std::to_string(trips) + " trips");
            Machine machine(fn, 64 * trips);
            machine.run();
            EXPECT_EQ(machine.dots, static_cast<size_t>(dots * trips * (outer ? 3 : 1)));
            const auto together = static_cast<int64_t>(dots) * std::min<int64_t>(trips, 2);
            EXPECT_EQ(static_cast<int64_t>(machine.mostUnderWay), later ? together : std::min<int64_t>(trips, 1));
          }
        }
      }
    }
  }
}

TEST(UnderWay, WhatGoesByRegistersIsThereInTime) {
  for (const char *odd : {"x", "y", "xy"}) {
    for (const bool outer : {false, true}) {
      for (const bool held : {false, true}) {
        const ir::Function fn = compiled({.outer = outer, .odd = odd, .held = held}, 4);
        EXPECT_TRUE(held || fn.fallbacks.empty()) << fn.str();
        for (int64_t trips = 0; trips <= 7; ++trips) {
          SCOPED_TRACE(std::string(odd) + ", " + std::to_string(trips) + " trips\n" + fn.str());
          Machine machine(fn, 64 * trips);
          machine.run();
          EXPECT_EQ(machine.dots, static_cast<size_t>(trips * (outer ? 3 : 1)));
          EXPECT_EQ(static_cast<int64_t>(machine.mostUnderWay), std::min<int64_t>(trips, held ? 1 : 2));
        }
      }
    }
  }
}

TEST(UnderWay, ThreadsReadSlotsThatAreThere) {
  for (const int dots : {1, 2}) {
    for (const bool outer : {false, true}) {
      for (const int32_t stages : {2, 3, 4}) {
        const ir::Function fn = compiled({.dots = dots, .outer = outer, .held = true}, stages);
        // Of slots, and in a loop on the way of sums to memory; elsewhere they go from their warps.
        EXPECT_EQ(std::ranges::count_if(fn.walk(), [&](OpId op) { return fn.opcode(op) == Opcode::BufferRead; }), outer ? 2 * dots : dots) << fn.str();
        for (int64_t trips = 0; trips <= 9; ++trips) {
          SCOPED_TRACE(std::to_string(dots) + " dots, " + std::to_string(stages) + " stages, " + std::to_string(trips) + " trips");
          Machine machine(fn, 64 * trips);
          machine.run();
          EXPECT_EQ(machine.dots, static_cast<size_t>(dots * trips * (outer ? 3 : 1)));
        }
      }
    }
  }
}

// With as many stages as leave no second program on the multiprocessor.
size_t later(const Nest &nest, int32_t stages = 8) {
  const passes::Plan plan = planOf(nest, stages);
  EXPECT_EQ(plan.loops.size(), 1U);
  return plan.loops.empty() ? 0 : plan.loops[0].underWay.size();
}

TEST(UnderWay, DotsWhoseResultsAreOnlyHandedOnEndLater) {
  EXPECT_EQ(later({}), 1U);
  EXPECT_EQ(later({.dots = 2}), 2U);
  EXPECT_EQ(later({.attributes = ", behind=1"}), 1U);
  EXPECT_EQ(later({.inside = "    %got = atomic_rmw %flag, %one {kind=add, sem=relaxed, scope=gpu} : i32"}), 1U);
  // What is done with a result needs the result; and who waits for one waits for all.
  for (const int dots : {1, 2}) {
    EXPECT_EQ(later({.dots = dots, .attributes = ", behind=0"}), 0U);
    EXPECT_EQ(later({.dots = dots, .scale = "    %scaled = mul %acc0, %half : tile<64x64xf32>"}), 0U);
    EXPECT_EQ(later({.dots = dots,
                     .inside = "    %h = mul %d0, %half : tile<64x64xf32>",
                     .result = "%h"}),
              0U);
    EXPECT_EQ(later({.dots = dots,
                     .inside = "    %first = cmp %k, %lo {predicate=eq} : i1\n    if %first {\n    store %cp, %d0\n    "
                               "yield\n    } {\n    yield\n    }"}),
              0U);
  }
}

TEST(UnderWay, RingsHaveASlotMore) {
  const passes::LoopPlan with = planOf({}, 8).loops.at(0), without = planOf({.attributes = ", behind=0"}, 8).loops.at(0);
  EXPECT_EQ(with.slots(), 9);
  EXPECT_EQ(without.slots(), 8);
  // Slots of 16 KiB: with seven, two programs share a multiprocessor, with eight none do.
  EXPECT_EQ(later({}, 3), 1U);
  EXPECT_EQ(later({}, 7), 0U);
  EXPECT_EQ(later({.attributes = ", behind=1"}, 7), 1U);
  // Where there is no room, fewer run ahead, and at the end each dot waits for itself.
  const passes::LoopPlan deep = planOf({.dots = 2}, 64).loops.at(0);
  EXPECT_EQ(deep.slots(), 7) << "slots of 32 KiB in 227";
  EXPECT_EQ(deep.underWay.size(), 2U);
}

TEST(UnderWay, APinThatCannotBeIsAnError) {
  for (const Nest &nest : {Nest{.attributes = ", behind=1", .scale = "    %scaled = mul %acc0, %half : tile<64x64xf32>"},
                           Nest{.attributes = ", behind=1", .inside = "    store %cp, %d0"}}) {
    EXPECT_THROW((void)planOf(nest, 3), ir::UserError) << textOf(nest);
  }
  EXPECT_THROW((void)planOf({.attributes = ", behind=1"}, 1), ir::UserError) << "nothing runs ahead";
}

} // namespace
