// SPDX-License-Identifier: Apache-2.0
// Protocol of programs that copy boxes for each other: the finished code of all warps of all programs of a cluster, run side by side in
// random orders. No program's copy comes to a slot that another one may still read, each reader finds its own iteration's box, and none
// has ended when something comes to it.
#include "codegen/codegen.h"
#include "ir/parser.h"
#include "passes/pipeline.h"
#include "tests/gpu/dot_nests.h"
#include "tests/gpu/role_trace.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

using namespace libtile;
using ir::Attr;
using ir::Opcode;
using ir::OpId;
using tests::Event;
using tests::Place;
using tests::Trace;

namespace {

constexpr int32_t kWarps = 8;

ir::Function compiled(const std::string &text, int32_t stages, int32_t cluster) {
  ir::Function fn = ir::parse(text);
  passes::PassContext context{codegen::findTarget("sm_90a"), kWarps, stages};
  context.copiesBoxes = context.specialises = true;
  context.cluster = cluster;
  passes::PipelineOptions options;
  options.verifyEach = true;
  passes::runPipeline(fn, context, options);
  return fn;
}

using Spot = std::pair<size_t, Place>; // of a program

class Cluster {
public:
  // `whole`: they want the same boxes. `launched`: programs of the cluster, which is what the code was made for, or 1.
  Cluster(const ir::Function &fn, int64_t n, size_t launched, bool whole, uint32_t seed) : random_(seed), programs_(launched) {
    for (const OpId op : fn.walk()) {
      if (fn.opcode(op) == Opcode::ArrivalsInit) {
        const int64_t all = fn.hasAttr(op, Attr::cluster) ? static_cast<int64_t>(launched) : 1;
        counts_[passes::allocOf(fn, fn.operand(op, 0)).index] = all * fn.getInt(op, Attr::count);
      }
    }
    const int64_t seen = whole ? static_cast<int64_t>(launched) : 0;
    std::vector<Event> producer = Trace(fn, n, seen).ofProducer();
    const std::vector<Event> others = Trace(fn, n, seen).ofOthers();
    // It runs with the others up to its own code.
    producer.insert(producer.begin(), {.kind = Event::Kind::MeetCluster});
    for (size_t program = 0; program < launched; ++program) {
      agents_.push_back({.program = program, .events = producer});
      agents_.insert(agents_.end(), kWarps, {.program = program, .events = others});
    }
  }

  // False: nobody can go on, or something went wrong.
  bool run() {
    while (!::testing::Test::HasFailure()) {
      std::vector<size_t> able;
      for (size_t i = 0; i < agents_.size(); ++i) {
        if (!hasEnded(agents_[i]) && canGo(agents_[i])) {
          able.push_back(i);
        }
      }
      if (able.empty() && flying_.empty()) {
        return std::ranges::all_of(agents_, hasEnded);
      }
      const size_t chosen = random_() % (able.size() + flying_.size());
      chosen < able.size() ? go(agents_[able[chosen]]) : land(chosen - able.size());
    }
    return false;
  }
  [[nodiscard]] int64_t sharedCopies() const { return shared_; }

private:
  struct Agent {
    size_t program;
    std::vector<Event> events;
    size_t next = 0;
    std::deque<std::vector<Place>> underWay = {}; // slots of its dots
    std::map<uint32_t, int64_t> reads = {};       // of a ring
    int64_t met = 0, metCluster = 0;
  };
  struct Counter {
    int64_t phase = 0, arrived = 0;
  };
  struct Slot {
    int64_t number = -1; // of the copy in its ring
    size_t parts = 0;    // that are still to come
  };
  struct Flight {
    Spot slot, counter;
    int64_t number;
  };

  static bool hasEnded(const Agent &agent) { return agent.next == agent.events.size(); }
  [[nodiscard]] bool isAt(const Agent &agent, Event::Kind kind) const { return !hasEnded(agent) && agent.events[agent.next].kind == kind; }
  [[nodiscard]] bool isProducer(const Agent &agent) const { return (&agent - agents_.data()) % (1 + kWarps) == 0; }
  // Of a program that has not ended: what comes to its memory finds it there.
  [[nodiscard]] bool isThere(size_t program) const {
    return std::ranges::any_of(agents_, [&](const Agent &agent) { return agent.program == program && !isProducer(agent) && !hasEnded(agent); });
  }

  bool canGo(const Agent &agent) {
    const Event &event = agent.events[agent.next];
    if (event.kind == Event::Kind::Wait) {
      return counters_[{agent.program, event.place}].phase % 2 != event.number;
    }
    if (event.kind == Event::Kind::Meet) {
      return std::ranges::all_of(agents_, [&](const Agent &other) {
        return other.program != agent.program || isProducer(other) || other.met > agent.met || (other.met == agent.met && isAt(other, event.kind));
      });
    }
    if (event.kind == Event::Kind::MeetCluster) {
      return std::ranges::all_of(agents_, [&](const Agent &other) {
        return hasEnded(other) || other.metCluster > agent.metCluster || (other.metCluster == agent.metCluster && isAt(other, event.kind));
      });
    }
    return true;
  }

  void go(Agent &agent) {
    const Event &event = agent.events[agent.next++];
    switch (event.kind) {
    case Event::Kind::Copy: return startCopy(agent, event);
    case Event::Kind::Read: return read(agent, event);
    case Event::Kind::Start:
      read(agent, event);
      agent.underWay.push_back(event.reads);
      return;
    case Event::Kind::DotsEnd:
      while (static_cast<int64_t>(agent.underWay.size()) > event.number) {
        agent.underWay.pop_front();
      }
      return;
    case Event::Kind::Arrive:
      for (size_t program = 0; program < programs_; ++program) {
        if (event.inCluster || program == agent.program) {
          EXPECT_TRUE(isThere(program)) << "an arrival at a program that has ended";
          arrive({program, event.place});
        }
      }
      return;
    case Event::Kind::Meet:
      ++agent.met;
      return;
    case Event::Kind::MeetCluster:
      ++agent.metCluster;
      return;
    case Event::Kind::Wait: case Event::Kind::Take: case Event::Kind::Give: case Event::Kind::Write: case Event::Kind::Reduce: case Event::Kind::Reduced:
      return;
    }
  }

  void arrive(const Spot &counter) {
    Counter &at = counters_[counter];
    if (++at.arrived == counts_.at(counter.second.first)) {
      at = {at.phase + 1, 0};
    }
  }

  // One that is shared brings each program a part, and its own expectation of all of them.
  void startCopy(const Agent &agent, const Event &event) {
    const int64_t number = copies_[{agent.program, event.place.first}]++;
    shared_ += event.inCluster ? 1 : 0;
    for (size_t program = 0; program < programs_; ++program) {
      if (!event.inCluster && program != agent.program) {
        continue;
      }
      EXPECT_TRUE(isThere(program)) << "a copy to a program that has ended";
      Slot &slot = slots_[{program, event.place}];
      for (const Agent &other : agents_) {
        if (other.program == program && !isProducer(other)) {
          for (const std::vector<Place> &dot : other.underWay) {
            EXPECT_EQ(std::ranges::find(dot, event.place), dot.end()) << "a dot still reads the slot";
          }
          const auto reads = other.reads.find(event.place.first);
          const int64_t before = slot.number == number ? 0 : slot.number + 1;
          EXPECT_GE(reads == other.reads.end() ? 0 : reads->second, before) << "a warp has not read the slot yet";
        }
      }
      if (slot.number != number) {
        EXPECT_EQ(slot.parts, 0U) << "an earlier box has not arrived";
        slot = {number, event.inCluster ? programs_ : 1};
      }
      flying_.push_back({{program, event.place}, {program, event.counter}, number});
    }
  }

  void land(size_t index) {
    const Flight flight = flying_[index];
    flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(index));
    Slot &slot = slots_[flight.slot];
    EXPECT_EQ(slot.number, flight.number);
    if (--slot.parts == 0) {
      arrive(flight.counter);
    }
  }

  void read(Agent &agent, const Event &event) {
    for (const Place &place : event.reads) {
      const Slot &slot = slots_[{agent.program, place}];
      EXPECT_EQ(slot.parts, 0U) << "the box has not arrived";
      EXPECT_EQ(slot.number, agent.reads[place.first]++) << "another iteration's box";
    }
  }

  std::mt19937 random_;
  const size_t programs_;
  std::vector<Agent> agents_;
  std::map<uint32_t, int64_t> counts_; // arrivals of a phase
  std::map<Spot, Counter> counters_;
  std::map<Spot, Slot> slots_;
  std::map<std::pair<size_t, uint32_t>, int64_t> copies_;
  std::vector<Flight> flying_;
  int64_t shared_ = 0;
};

TEST(Clusters, KeepToTheirProtocolInAnyOrder) {
  const std::string scale = "    %scaled = mul %acc0, %half : tile<64x64xf32>";
  uint32_t seed = 0;
  for (const int32_t cluster : {2, 4}) {
    for (const int dots : {1, 2}) {
      for (const bool outer : {false, true}) {
        for (const std::string &between : {std::string(), scale}) {
          const int32_t stages = 2 + static_cast<int32_t>(seed % 2);
          const ir::Function fn = compiled(tests::textOf(tests::Nest{.dots = dots, .outer = outer, .scale = between, .bounded = true}), stages, cluster);
          ASSERT_TRUE(fn.fallbacks.empty()) << fn.fallbacks.front();
          for (int round = 0; round < 60; ++round) {
            const int64_t trips = round % 6;
            const size_t launched = round % 5 == 0 ? 1 : static_cast<size_t>(cluster);
            const bool same = launched > 1 && round % 2 == 0;
            SCOPED_TRACE(std::to_string(cluster) + " programs, " + std::to_string(dots) + " dots, order " + std::to_string(seed));
            Cluster programs(fn, 64 * trips, launched, same, ++seed);
            ASSERT_TRUE(programs.run()) << "nobody can go on\n" << fn.str();
            EXPECT_EQ(programs.sharedCopies() > 0, same && trips > 0);
          }
        }
      }
    }
  }
}

} // namespace
