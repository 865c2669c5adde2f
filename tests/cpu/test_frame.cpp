// SPDX-License-Identifier: Apache-2.0
// The kernel's ABI (codegen/cpu/frame.h): ranges of programs, and the status word from both sides.
#include "tests/cpu/run_nested.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace libtile::test {
namespace {

using codegen::cpu::Frame;

// Where fields stand is part of the ABI of stored code: a change here is a new LIBTILE_FRAME_VERSION.
static_assert(LIBTILE_FRAME_VERSION == 1);
static_assert(sizeof(Frame) == 80);
static_assert(offsetof(Frame, arguments) == 8 && offsetof(Frame, grid) == 16);
static_assert(offsetof(Frame, status) == 32 && offsetof(Frame, poll) == 40);
static_assert(offsetof(Frame, message) == 56 && offsetof(Frame, extents) == 72);

// Program p writes p + 1.
const char *const kCounts = R"(
func @f stage=nested warps=4 stages=3 (%o: ptr<i32>) {
  %p = program_id {axis=0} : i32
  %1 = constant {value=1} : i32
  %n = add %p, %1 : i32
  %at = ptr_add %o, %p : ptr<i32>
  store %at, %n
  return
}
)";

// Ends when the word is not 0; then writes it.
const char *const kWaits = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<i32>, %o: ptr<i32>) {
  %0 = constant {value=0} : i32
  %first = load %x {is_volatile=true} : i32
  %last = while %first : i32 {
  ^(%a: i32):
    %more = cmp %a, %0 {predicate=eq} : i1
    yield %more
  } {
  ^(%b: i32):
    %next = load %x {is_volatile=true} : i32
    yield %next
  }
  store %o, %last
  return
}
)";

// Sums 0 .. n-1, an iteration at a time.
const char *const kSums = R"(
func @f stage=nested warps=4 stages=3 (%n: i64, %o: ptr<i64>) {
  %0 = constant {value=0} : i64
  %1 = constant {value=1} : i64
  %sum = for %0, %n, %1, %0 : i64 {
  ^(%i: i64, %s: i64):
    %t = add %s, %i : i64
    yield %t
  }
  store %o, %sum
  return
}
)";

struct Launch {
  Launch(const char *text, const std::string &target, std::vector<uint64_t> args, int32_t programs)
      : code(codegen::generate(expanded(text, target), codegen::findTarget(target))), module(code),
        slots(std::move(args)) {
    const int32_t grid[3] = {programs, 1, 1};
    frame = codegen::cpu::makeFrame(slots.data(), grid, &status);
    frame.launcher = this;
    frame.poll = [](const Frame *frame) {
      auto &launch = *static_cast<Launch *>(frame->launcher);
      return ++launch.polls >= launch.leaveAt ? 1U : 0U;
    };
  }
  uint64_t run(uint64_t first, uint64_t count) { return module.entry()(&frame, first, count, arena); }

  codegen::Code code;
  codegen::cpu::CpuModule module;
  std::vector<uint64_t> slots;
  uint32_t status = LIBTILE_RUN;
  int polls = 0, leaveAt = 1000;
  Frame frame{};
  alignas(64) uint8_t arena[4096];
};

} // namespace

TEST(Frame, ARangeOfProgramsRuns) {
  for (const std::string &target : runnableTargets()) {
    std::vector<int32_t> out(10, -1);
    Launch launch(kCounts, target, {slot(out.data())}, 10);
    EXPECT_EQ(launch.run(7, 0), 0U);
    EXPECT_EQ(launch.run(3, 4), 4U);
    EXPECT_EQ(out, (std::vector<int32_t>{-1, -1, -1, 4, 5, 6, 7, -1, -1, -1}));
  }
}

TEST(Frame, ACalledKernelComesBackAfterOneProgram) {
  for (const std::string &target : runnableTargets()) {
    for (const uint32_t status : {LIBTILE_RETURN, LIBTILE_ATTEND, LIBTILE_STOP}) {
      std::vector<int32_t> out(4, -1);
      Launch launch(kCounts, target, {slot(out.data())}, 4);
      launch.status = status;
      EXPECT_EQ(launch.run(1, 3), 1U);
      EXPECT_EQ(out, (std::vector<int32_t>{-1, 2, -1, -1}));
      EXPECT_EQ(launch.polls, 0) << "there is no loop";
    }
  }
}

TEST(Frame, EndlessLoopsLeaveTheirProgram) {
  for (const std::string &target : runnableTargets()) {
    int32_t word = 0, out = -1;
    Launch launch(kWaits, target, {slot(&word), slot(&out)}, 3);
    launch.status = LIBTILE_ATTEND;
    launch.leaveAt = 5;
    EXPECT_EQ(launch.run(0, 3), 0U);
    EXPECT_EQ(launch.polls, 5);
    EXPECT_EQ(out, -1) << "the program has not ended";
    // In the second program: the first has run.
    word = 7;
    launch.status = LIBTILE_RUN;
    EXPECT_EQ(launch.run(0, 3), 3U);
    EXPECT_EQ(out, 7);
  }
}

TEST(Frame, LongLoopsAsk) {
  for (const std::string &target : runnableTargets()) {
    int64_t out = -1;
    Launch launch(kSums, target, {100, slot(&out)}, 1);
    EXPECT_EQ(launch.run(0, 1), 1U);
    launch.status = LIBTILE_RETURN;
    EXPECT_EQ(launch.run(0, 1), 1U);
    EXPECT_EQ(launch.polls, 0) << "nobody calls";
    launch.status = LIBTILE_ATTEND;
    EXPECT_EQ(launch.run(0, 1), 1U);
    EXPECT_EQ(launch.polls, 100);
    EXPECT_EQ(out, 4950);
    out = -1;
    launch.leaveAt = 150;
    EXPECT_EQ(launch.run(0, 1), 0U);
    EXPECT_EQ(launch.polls, 150);
    EXPECT_EQ(out, -1);
  }
}

TEST(Frame, CodeOfAnotherVersionIsRefused) {
  codegen::Code code = codegen::generate(expanded(kCounts, "cpu"), codegen::hostTarget());
  EXPECT_EQ(code.info.frameVersion, uint32_t{LIBTILE_FRAME_VERSION});
  code.info.frameVersion += 1;
  EXPECT_THROW(codegen::cpu::CpuModule{code}, ir::InternalError);
}

} // namespace libtile::test
