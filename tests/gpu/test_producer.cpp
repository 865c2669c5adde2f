// SPDX-License-Identifier: Apache-2.0
// Protocol of a producer and of turns: the finished code of each warp as a list of what it does with slots and counters, run side by
// side in random orders. No slot is overwritten while somebody may read it, each reader finds its own iteration's box, and all come
// to their ends.
#include "codegen/codegen.h"
#include "ir/ops.h"
#include "ir/parser.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/pipeline.h"
#include "tests/gpu/dot_nests.h"
#include "tests/gpu/role_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

using namespace libtile;
using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;
using tests::Event;
using tests::Nest;
using tests::Place;
using tests::Trace;

namespace {

constexpr int32_t kWarps = 8, kTeams = 2;

ir::Function compiledText(const std::string &text, int32_t stages, bool specialises = true, int32_t warps = kWarps, bool shares = false) {
  ir::Function fn = ir::parse(text);
  passes::PassContext context{codegen::findTarget("sm_90a"), warps, stages};
  context.copiesBoxes = true;
  context.specialises = specialises;
  context.sharesBlocks = shares;
  passes::PipelineOptions options;
  options.verifyEach = true;
  passes::runPipeline(fn, context, options);
  return fn;
}

ir::Function compiled(Nest nest, int32_t stages, bool specialises = true, int32_t warps = kWarps) {
  nest.bounded = true;
  return compiledText(tests::textOf(nest), stages, specialises, warps);
}

// All warps side by side.
class Block {
public:
  // `readers`: dots of an iteration that read each ring.
  Block(const ir::Function &fn, int64_t n, uint32_t seed, int64_t readers = 1) : random_(seed), readers_(readers) {
    for (const OpId op : fn.walk()) {
      if (fn.opcode(op) == Opcode::ArrivalsInit) {
        counts_[passes::allocOf(fn, fn.operand(op, 0)).index] = fn.getInt(op, Attr::count);
      }
    }
    agents_.push_back({Trace(fn, n).ofProducer()});
    const std::vector<Event> others = Trace(fn, n).ofOthers();
    agents_.resize(1 + kWarps, {others});
  }

  // False: nobody can go on, or something went wrong.
  bool run() {
    while (!::testing::Test::HasFailure()) {
      std::vector<size_t> able;
      for (size_t i = 0; i < agents_.size(); ++i) {
        if (agents_[i].next < agents_[i].events.size() && canGo(i)) {
          able.push_back(i);
        }
      }
      if (able.empty() && flying_.empty() && reducing_.empty()) {
        return std::ranges::all_of(agents_, [](const Agent &agent) { return agent.next == agent.events.size(); });
      }
      const size_t chosen = random_() % (able.size() + flying_.size() + reducing_.size());
      if (chosen < able.size()) {
        go(able[chosen]);
      } else if (chosen < able.size() + flying_.size()) {
        land(chosen - able.size());
      } else {
        reducing_.erase(reducing_.begin() + static_cast<std::ptrdiff_t>(chosen - able.size() - flying_.size()));
      }
    }
    return false;
  }

private:
  struct Agent {
    std::vector<Event> events;
    size_t next = 0;
    std::deque<std::vector<Place>> underWay = {}; // slots of its dots
    std::map<uint32_t, int64_t> reads = {};       // of a ring
    int64_t met = 0, taken = 0, given = 0;
  };
  static constexpr size_t kFirstWarp = 1;
  struct Counter {
    int64_t phase = 0, arrived = 0;
  };
  struct Slot {
    int64_t number = -1; // of the copy in its ring
    bool landed = false;
  };

  [[nodiscard]] static int teamOf(size_t agent) { return static_cast<int>((agent - 1) / (kWarps / kTeams)); }

  bool canGo(size_t index) {
    const Agent &agent = agents_[index];
    const Event &event = agent.events[agent.next];
    switch (event.kind) {
    case Event::Kind::Wait:
      return counters_[event.place].phase % 2 != event.number; // the phase of this parity has ended
    case Event::Kind::Meet:
      return std::all_of(agents_.begin() + 1, agents_.end(), [&](const Agent &other) {
        return other.met > agent.met ||
               (other.met == agent.met && other.next < other.events.size() && other.events[other.next].kind == Event::Kind::Meet);
      });
    case Event::Kind::Take:
      return isTurn(index);
    case Event::Kind::Reduced:
      return index != kFirstWarp || reducing_.empty();
    case Event::Kind::Write: case Event::Kind::Reduce:
    case Event::Kind::Copy: case Event::Kind::Read: case Event::Kind::Start: case Event::Kind::DotsEnd: case Event::Kind::Arrive: case Event::Kind::Give: case Event::Kind::MeetCluster:
      return true;
    }
    return false;
  }

  // A turn is a barrier of the team that takes it, which the other one's warps have told of. The first team has the first turn.
  bool isTurn(size_t index) {
    const int64_t number = agents_[index].taken, told = number + teamOf(index);
    return std::all_of(agents_.begin() + 1, agents_.end(), [&](const Agent &other) {
      if (teamOf(static_cast<size_t>(&other - agents_.data())) != teamOf(index)) {
        return other.given >= told;
      }
      return other.taken > number ||
             (other.taken == number && other.next < other.events.size() && other.events[other.next].kind == Event::Kind::Take);
    });
  }

  void go(size_t index) {
    Agent &agent = agents_[index];
    const Event &event = agent.events[agent.next++];
    switch (event.kind) {
    case Event::Kind::Wait:
      return;
    case Event::Kind::Copy: return startCopy(event);
    case Event::Kind::Read: return read(agent, event);
    case Event::Kind::Start: return startDot(agent, event);
    case Event::Kind::DotsEnd:
      while (static_cast<int64_t>(agent.underWay.size()) > event.number) {
        agent.underWay.pop_front();
      }
      return;
    case Event::Kind::Arrive: return arrive(event.place);
    case Event::Kind::Meet:
      ++agent.met;
      return;
    case Event::Kind::Take:
      ++agent.taken;
      return;
    case Event::Kind::Give:
      ++agent.given;
      return;
    case Event::Kind::Write:
      EXPECT_EQ(std::ranges::find(reducing_, event.place), reducing_.end()) << "a reduction still reads the buffer";
      ++writes_[event.place];
      return;
    case Event::Kind::Reduce: return reduce(index, event.place);
    case Event::Kind::Reduced: case Event::Kind::MeetCluster:
      return;
    }
  }

  // The first warp's thread does, when all have written.
  void reduce(size_t index, const Place &buffer) {
    if (index == kFirstWarp) {
      EXPECT_EQ(writes_[buffer], kWarps * ++reductions_[buffer]) << "a warp has not written yet, or for the next one";
      reducing_.push_back(buffer);
    }
  }

  void arrive(const Place &counter) {
    Counter &at = counters_[counter];
    if (++at.arrived == counts_.at(counter.first)) {
      at = {at.phase + 1, 0};
    }
  }

  void startCopy(const Event &event) {
    Slot &slot = slots_[event.place];
    for (size_t i = 1; i < agents_.size(); ++i) {
      for (const std::vector<Place> &dot : agents_[i].underWay) {
        EXPECT_EQ(std::ranges::find(dot, event.place), dot.end()) << "a dot still reads the slot";
      }
      EXPECT_GE(agents_[i].reads[event.place.first], readers_ * (slot.number + 1)) << "a warp has not read the slot yet";
    }
    EXPECT_TRUE(slot.number < 0 || slot.landed);
    slot = {copies_[event.place.first]++, false};
    flying_.push_back({event.place, event.counter});
  }

  void land(size_t index) {
    const auto [slot, counter] = flying_[index];
    flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(index));
    slots_[slot].landed = true;
    arrive(counter);
  }

  void read(Agent &agent, const Event &event) {
    for (const Place &place : event.reads) {
      EXPECT_TRUE(slots_[place].landed) << "the box has not arrived";
      EXPECT_EQ(slots_[place].number, agent.reads[place.first]++ / readers_) << "another iteration's box";
    }
  }

  void startDot(Agent &agent, const Event &event) {
    read(agent, event);
    agent.underWay.push_back(event.reads);
  }

  std::mt19937 random_;
  int64_t readers_;
  std::vector<Agent> agents_; // the producer first
  std::map<uint32_t, int64_t> counts_; // arrivals of a phase
  std::map<Place, Counter> counters_;
  std::map<Place, Slot> slots_;
  std::map<uint32_t, int64_t> copies_;
  std::vector<std::pair<Place, Place>> flying_;
  std::map<Place, int64_t> writes_, reductions_; // of a buffer
  std::vector<Place> reducing_;                  // buffers that are read
};

const std::string kScale = "    %scaled = mul %acc0, %half : tile<64x64xf32>";

// Of a thread as long as the dots, or longer.
const std::string kWork = "    %e = exp2 %acc0 : tile<64x64xf32>\n    %scaled = exp2 %e : tile<64x64xf32>";

size_t count(const ir::Function &fn, Opcode opcode) {
  return static_cast<size_t>(std::ranges::count_if(fn.walk(), [&](OpId op) { return fn.opcode(op) == opcode; }));
}

TEST(Producer, KeepsToItsProtocolInAnyOrder) {
  uint32_t seed = 0;
  for (const int dots : {1, 2}) {
    for (const bool outer : {false, true}) {
      for (const std::string &scale : {std::string(), kScale, kWork}) {
        for (const int32_t stages : {2, 3, 5}) {
          const ir::Function fn = compiled({.dots = dots, .outer = outer, .scale = scale}, stages);
          // Dots that end later leave nothing to hide but what stands around the loop.
          ASSERT_EQ(count(fn, Opcode::Producer), outer || !scale.empty() ? 1U : 0U) << fn.str();
          if (count(fn, Opcode::Producer) == 0) {
            continue;
          }
          EXPECT_EQ(count(fn, Opcode::TakeTurn), dots == 2 && scale == kWork ? 1U : 0U) << fn.str();
          for (int round = 0; round < 500; ++round) {
            const int64_t trips = round % 10;
            SCOPED_TRACE(std::to_string(dots) + " dots, " + std::to_string(stages) + " stages, " + std::to_string(trips) +
                         " trips, order " + std::to_string(seed));
            ASSERT_TRUE(Block(fn, 64 * trips, ++seed).run()) << "nobody can go on\n" << fn.str();
          }
        }
      }
    }
  }
  EXPECT_GE(seed, 9000U);
}

TEST(Producer, KeepsToItsProtocolWhereThreadsReadSlots) {
  uint32_t seed = 50000;
  for (const int dots : {1, 2}) {
    for (const bool outer : {false, true}) {
      for (const int32_t stages : {2, 3}) {
        const ir::Function fn = compiled({.dots = dots, .outer = outer, .held = true}, stages);
        ASSERT_EQ(count(fn, Opcode::Producer), 1U) << fn.str();
        // Of slots, and in a loop on the way of sums to memory; elsewhere they go from their warps.
        EXPECT_EQ(count(fn, Opcode::BufferRead), static_cast<size_t>(outer ? 2 * dots : dots)) << fn.str();
        for (int round = 0; round < 300; ++round) {
          const int64_t trips = round % 10;
          SCOPED_TRACE(std::to_string(dots) + " dots, " + std::to_string(stages) + " stages, " + std::to_string(trips) + " trips, order " +
                       std::to_string(seed));
          ASSERT_TRUE(Block(fn, 64 * trips, ++seed).run()) << "nobody can go on\n" << fn.str();
        }
      }
    }
  }
}

TEST(Producer, KeepsToItsProtocolWhereOneDotIsLate) {
  uint32_t seed = 100000;
  for (const tests::FedNest &nest : {tests::FedNest{}, {.outer = true}, {.functions = 1}, {.functions = 1, .outer = true}, {.behind = 0}}) {
    for (const int32_t stages : {2, 3}) {
      const ir::Function fn = compiledText(tests::textOf(nest), stages);
      ASSERT_EQ(count(fn, Opcode::Producer), 1U) << fn.str();
      // In front of the loop, in it and behind it; the late one, and the early one.
      EXPECT_EQ(count(fn, Opcode::Dot), nest.behind == 0 ? 2U : 4U) << fn.str();
      EXPECT_EQ(count(fn, Opcode::PlaceWrite), nest.behind == 0 ? 0U : 2U) << fn.str();
      EXPECT_EQ(count(fn, Opcode::GiveTurn), nest.functions == 1 ? 0U : nest.behind == 0 ? 2U : 1U) << fn.str();
      for (int round = 0; round < 300; ++round) {
        const int64_t trips = round % 6;
        SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(trips) + " trips, order " + std::to_string(seed));
        ASSERT_TRUE(Block(fn, nest.width * trips, ++seed).run()) << "nobody can go on\n" << fn.str();
      }
    }
  }
}

TEST(Producer, KeepsToItsProtocolWhereDotsOverlap) {
  uint32_t seed = 200000;
  for (const tests::CrossedNest &nest : {tests::CrossedNest{}, {.outer = true}, {.behind = 0}}) {
    for (const int32_t stages : {2, 3}) {
      const ir::Function fn = compiledText(tests::textOf(nest), stages);
      ASSERT_EQ(count(fn, Opcode::Producer), 1U) << fn.str();
      EXPECT_EQ(count(fn, Opcode::PlaceWrite), nest.behind == 0 ? 0U : 4U) << fn.str();
      for (int round = 0; round < 300; ++round) {
        const int64_t trips = round % 6;
        SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(trips) + " trips, order " + std::to_string(seed));
        ASSERT_TRUE(Block(fn, nest.width * trips, ++seed, 2).run()) << "nobody can go on\n" << fn.str();
      }
    }
  }
}

TEST(Producer, KeepsToItsProtocolWhereSumsAreReduced) {
  uint32_t seed = 300000;
  for (const tests::CrossedNest &nest : {tests::CrossedNest{.adds = true}, {.outer = true, .adds = true}, {.behind = 0, .adds = true}}) {
    for (const int32_t stages : {2, 3}) {
      const ir::Function fn = compiledText(tests::textOf(nest), stages);
      ASSERT_EQ(count(fn, Opcode::Producer), 1U) << fn.str();
      ASSERT_EQ(count(fn, Opcode::StoreBox), 1U) << fn.str();
      EXPECT_EQ(count(fn, Opcode::StoreWait), 2U) << fn.str();
      EXPECT_EQ(count(fn, Opcode::AtomicRmw), 0U) << fn.str();
      for (int round = 0; round < 300; ++round) {
        const int64_t trips = round % 6;
        SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(trips) + " trips, order " + std::to_string(seed));
        ASSERT_TRUE(Block(fn, nest.width * trips, ++seed, 2).run()) << "nobody can go on\n" << fn.str();
      }
    }
  }
}

TEST(Producer, KeepsToItsProtocolWhereBlocksAreShared) {
  uint32_t seed = 400000;
  for (const int dots : {1, 2}) {
    for (const std::string &scale : {std::string(), kScale}) {
      for (const int32_t stages : {2, 3}) {
        Nest nest{.dots = dots, .scale = scale, .bounded = true};
        const ir::Function fn = compiledText(tests::textOf(nest), stages, true, kWarps, true);
        // Dots that end later have something to hide now.
        ASSERT_EQ(count(fn, Opcode::Producer), 1U) << fn.str();
        ASSERT_EQ(count(fn, Opcode::Worker), 2U) << "the producer's, and the others'\n" << fn.str();
        for (int round = 0; round < 300; ++round) {
          const int64_t trips = round % 10;
          SCOPED_TRACE(std::to_string(dots) + " dots, " + std::to_string(stages) + " stages, " + std::to_string(trips) + " trips, order " +
                       std::to_string(seed));
          ASSERT_TRUE(Block(fn, 64 * trips, ++seed).run()) << "nobody can go on\n" << fn.str();
        }
      }
    }
  }
}

TEST(Producer, IsLeftOutWhereTheOptionOrTheTargetSaysSo) {
  EXPECT_EQ(count(compiled({.scale = kScale}, 3, false), Opcode::Producer), 0U);
  EXPECT_EQ(count(compiled({.scale = kScale}, 3), Opcode::Producer), 1U);
  EXPECT_EQ(count(compiled({.scale = kScale}, 3, true, 4), Opcode::Producer), 0U) << "of one team of warps";
}

TEST(Producer, LeavesNoBarrierInTheLoop) {
  const ir::Function fn = compiled({.scale = kScale}, 3);
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::For && !passes::producerAround(fn, op).valid()) {
      EXPECT_TRUE(std::ranges::none_of(fn.walk(fn.region(op)), [&](OpId inside) { return fn.opcode(inside) == Opcode::Barrier; }));
    }
  }
}

} // namespace
