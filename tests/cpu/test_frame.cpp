// SPDX-License-Identifier: Apache-2.0
// The kernel's ABI (codegen/cpu/frame.h): ranges of programs, and the status word from both sides.
#include "tests/cpu/run_nested.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

namespace libtile::test {
namespace {

using codegen::cpu::Frame;

// Where fields stand is part of the ABI of stored code: a change here is a new LIBTILE_FRAME_VERSION.
static_assert(LIBTILE_FRAME_VERSION == 4);
static_assert(sizeof(Frame) == 112);
static_assert(offsetof(Frame, arguments) == 8 && offsetof(Frame, grid) == 16);
static_assert(offsetof(Frame, status) == 32 && offsetof(Frame, poll) == 40);
static_assert(offsetof(Frame, message) == 56 && offsetof(Frame, extents) == 72);
static_assert(offsetof(Frame, out_of_bounds) == 80 && offsetof(Frame, out_of_bounds_context) == 88);
static_assert(offsetof(Frame, uncached_bytes) == 96 && offsetof(Frame, keeps_arenas) == 104);

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

// Program (p, q) copies 37 elements from x + 37 * p on, and the q-th once more.
const char *const kChecked = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>) {
  %p = program_id {axis=0} : i32
  %q = program_id {axis=1} : i32
  %37 = constant {value=37} : i32
  %first = mul %p, %37 : i32
  %px = ptr_add %x, %first : ptr<f32>
  nest {extents=[37], lanes=8, unroll=2} {
  ^(%i: i32):
    %from = ptr_add %px, %i : ptr<f32>
    %to = ptr_add %o, %i : ptr<f32>
    %v = load %from {within=[0]} : f32
    store %to, %v {within=[1]}
    yield
  }
  %last = ptr_add %px, %q : ptr<f32>
  %w = load %last {within=[0]} : f32
  store %o, %w {within=[1]}
  return
}
)";

// Adds 1 to n of 20 elements, and swaps in others.
const char *const kCheckedAtomics = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<i32>, %n: i32, %o: ptr<i32>) {
  %1 = constant {value=1} : i32
  nest {extents=[20], lanes=8} {
  ^(%i: i32):
    %at = ptr_add %x, %i : ptr<i32>
    %to = ptr_add %o, %i : ptr<i32>
    %m = cmp %i, %n {predicate=slt} : i1
    %old = atomic_rmw %at, %1, %m {kind=add, sem=relaxed, scope=gpu, within=[0]} : i32
    %new = atomic_cas %to, %old, %1 {sem=relaxed, scope=gpu, within=[2]} : i32
    yield
  }
  return
}
)";

// Prints 10 + index of six elements and a scalar; program `bad` fails before it writes.
const char *const kTells = R"(
func @f stage=nested warps=4 stages=3 (%o: ptr<i32>, %n: i64, %bad: i32) {
  %p = program_id {axis=0} : i32
  %10 = constant {value=10} : i32
  %b = alloc {offset=64} : buffer<2x3xi32>
  nest {extents=[2, 3], lanes=4} {
  ^(%i: i32, %j: i32):
    %v = add %10, %j : i32
    element_write %b, %v, %i, %j
    yield
  }
  print %b, %n {text=" b: ", formats="d x16"}
  %good = cmp %p, %bad {predicate=ne} : i1
  assert %good {text="it is the bad one"}
  %at = ptr_add %o, %p : ptr<i32>
  store %at, %p
  return
}
)";

// The records of a launch.
struct Told {
  std::vector<libtile_record> records;
  std::vector<int32_t> elements; // of the last print
  int64_t scalar = 0;
  static void listen(void *context, const void *record, uint64_t bytes) {
    auto &told = *static_cast<Told *>(context);
    std::memcpy(&told.records.emplace_back(), record, sizeof(libtile_record));
    if (told.records.back().kind == LIBTILE_ASSERT) {
      EXPECT_EQ(bytes, sizeof(libtile_record));
      return;
    }
    EXPECT_EQ(bytes, sizeof(libtile_record) + 2 * sizeof(void *));
    const void *operands[2];
    std::memcpy(operands, static_cast<const char *>(record) + sizeof(libtile_record), sizeof operands);
    told.elements.resize(6);
    std::memcpy(told.elements.data(), operands[0], 6 * sizeof(int32_t));
    std::memcpy(&told.scalar, operands[1], sizeof told.scalar);
  }
};

// What a launch is told of an access out of bounds.
struct Heard {
  uint32_t access = 99, elements = 0;
  uint64_t address = 0, program = 0;
  int times = 0;
  static void listen(void *context, uint32_t access, uint32_t elements, uint64_t address,
                     uint64_t program) {
    auto &heard = *static_cast<Heard *>(context);
    heard = {access, elements, address, program, heard.times + 1};
  }
  [[nodiscard]] bool covers(uint64_t place) const {
    return address <= place && place < address + uint64_t{elements} * 4;
  }
};

template <class T> uint64_t addressOf(const std::vector<T> &array, size_t index) {
  return reinterpret_cast<uintptr_t>(array.data() + index);
}

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

TEST(Frame, AccessesOutOfBoundsEndTheLaunch) {
  for (const std::string &target : runnableTargets()) {
    std::vector<float> x(37 * 4, 1.0F), o(37, 0.0F);
    Launch launch(kChecked, target, {slot(x.data()), slot(o.data())}, 3);
    launch.frame.grid[1] = 50;
    const auto at = addressOf<float>;
    Heard heard;
    libtile_extent extents[] = {{at(x, 0), at(x, 37 * 3)}, {at(o, 0), at(o, 37)}};
    launch.frame.out_of_bounds_context = &heard;
    launch.frame.out_of_bounds = Heard::listen;
    ASSERT_EQ(launch.code.info.accesses.size(), 4U);
    EXPECT_EQ(launch.code.info.accesses[1].arrays, std::vector<uint32_t>{1});
    EXPECT_TRUE(launch.code.info.accesses[1].effects.has(ir::Effects::WritesGlobal));
    EXPECT_EQ(launch.code.info.accesses[0].bytes, 4U);

    EXPECT_EQ(launch.run(0, 150), 150U) << "no table: nothing is known";
    launch.frame.extents = extents;
    EXPECT_EQ(launch.run(0, 111), 111U) << "q of program (2, 36) is the last";
    EXPECT_EQ(heard.times, 0);
    EXPECT_EQ(launch.status, uint32_t{LIBTILE_RUN});

    EXPECT_EQ(launch.run(108, 42), 5U);
    EXPECT_EQ(heard.times, 1);
    EXPECT_EQ(heard.access, 2U);
    EXPECT_EQ(heard.elements, 1U);
    EXPECT_EQ(heard.address, at(x, 37 * 3));
    EXPECT_EQ(heard.program, 113U);
    EXPECT_EQ(launch.status, uint32_t{LIBTILE_STOP});

    // Where a vector crosses the end, in the tail, and in front.
    for (const size_t end : {100, 110}) {
      extents[0] = {at(x, 2), at(x, end)};
      launch.status = LIBTILE_RUN;
      EXPECT_EQ(launch.run(1, 2), 1U);
      EXPECT_EQ(heard.access, 0U);
      EXPECT_TRUE(heard.covers(at(x, end)));
      EXPECT_EQ(launch.run(0, 1), 0U);
      EXPECT_EQ(heard.address, at(x, 0));
    }
    extents[0] = {at(x, 0), at(x, 0)};
    EXPECT_EQ(launch.run(1, 1), 0U) << "it holds nothing";
    EXPECT_EQ(heard.address, at(x, 37));
    // Its own elements are smaller than an access.
    extents[0] = {at(x, 0), at(x, 0) + 3};
    EXPECT_EQ(launch.run(0, 1), 0U);
    extents[0] = {0, 0};
    extents[1] = {at(o, 0), at(o, 36)};
    EXPECT_EQ(launch.run(0, 1), 0U);
    EXPECT_EQ(heard.access, 1U);
    EXPECT_TRUE(heard.covers(at(o, 36)));
    EXPECT_FALSE(heard.covers(at(o, 37))) << "lanes past the nest's extent touch nothing";
  }
}

TEST(Frame, AtomicsOutOfBoundsAreNotMade) {
  for (const std::string &target : runnableTargets()) {
    for (const size_t size : {20, 19, 13, 0}) {
      std::vector<int32_t> x(20, 5), o(20, 5);
      Launch launch(kCheckedAtomics, target, {slot(x.data()), slot(int32_t{20}), slot(o.data())}, 1);
      const libtile_extent extents[] = {{addressOf(x, 0), addressOf(x, size)},
                                        {0, 0},
                                        {addressOf(o, 0), addressOf(o, 20)}};
      Heard heard;
      launch.frame.extents = extents;
      launch.frame.out_of_bounds = Heard::listen;
      launch.frame.out_of_bounds_context = &heard;
      EXPECT_EQ(launch.run(0, 1), size == 20 ? 1U : 0U);
      EXPECT_EQ(std::count(x.begin(), x.end(), 6), static_cast<long>(size)) << "those in front are made";
      // The second op follows on each vector of eight.
      EXPECT_EQ(std::count(o.begin(), o.end(), 1), static_cast<long>(size == 20 ? 20 : size / 8 * 8));
      if (size < 20) {
        EXPECT_EQ(heard.address, addressOf(x, size));
        // Masked off from there on.
        launch.slots[1] = slot(static_cast<int32_t>(size));
        launch.status = LIBTILE_RUN;
        EXPECT_EQ(launch.run(0, 1), 1U);
        EXPECT_EQ(heard.times, 1);
      }
    }
  }
}

TEST(Frame, ProgramsTell) {
  static_assert(sizeof(libtile_record) == 16 && offsetof(libtile_record, program) == 8);
  for (const std::string &target : runnableTargets()) {
    std::vector<int32_t> out(12, -1);
    Launch launch(kTells, target, {slot(out.data()), slot(int64_t{7} << 40), slot(int32_t{4})}, 12);
    const std::vector<codegen::Message> &messages = launch.code.info.messages;
    ASSERT_EQ(messages.size(), 2U);
    EXPECT_EQ(messages[0].operands[0].shape, (std::vector<int32_t>{2, 3}));
    EXPECT_TRUE(messages[0].operands[1].shape.empty());
    EXPECT_EQ(messages[1].text, "it is the bad one");

    EXPECT_EQ(launch.run(0, 12), 4U) << "nobody listens, and it ends";
    EXPECT_EQ(launch.status, uint32_t{LIBTILE_STOP});
    EXPECT_EQ(out, (std::vector<int32_t>{0, 1, 2, 3, -1, -1, -1, -1, -1, -1, -1, -1}));

    Told told;
    launch.frame.message = Told::listen;
    launch.frame.message_context = &told;
    launch.status = LIBTILE_RUN;
    EXPECT_EQ(launch.run(2, 10), 2U);
    ASSERT_EQ(told.records.size(), 4U);
    EXPECT_EQ(told.elements, (std::vector<int32_t>{10, 11, 12, 10, 11, 12}));
    EXPECT_EQ(told.scalar, int64_t{7} << 40);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(told.records[i].kind, uint32_t{i < 3 ? LIBTILE_PRINT : LIBTILE_ASSERT});
      EXPECT_EQ(told.records[i].message, i < 3 ? 0U : 1U);
      EXPECT_EQ(told.records[i].program, std::min<uint64_t>(i + 2, 4));
    }
    EXPECT_EQ(launch.status, uint32_t{LIBTILE_STOP});
  }
}

// Reads a word in each turn of a counted loop, which `leaves` where it is not 0.
std::string pollingFor(bool leaves, bool isVolatile) {
  return std::string(R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<i32>, %turns: i32, %o: ptr<i32>) {
  %0 = constant {value=0} : i32
  %1 = constant {value=1} : i32
  %last = for %0, %turns, %1, %0 )") +
         (leaves ? "{stop=true} " : "") + R"(: i32 {
  ^(%i: i32, %a: i32):
    %b = load %x )" + (isVolatile ? "{is_volatile=true} " : "") + R"(: i32
    %seen = cmp %b, %0 {predicate=ne} : i1
    yield )" + (leaves ? "%seen, %b" : "%b") + R"(
  }
  store %o, %last
  return
}
)";
}

TEST(Frame, ProgramsThatMayWaitForOthersAreInOrder) {
  const auto isInOrder = [](const std::string &text) {
    return codegen::generate(expanded(text, "cpu"), codegen::hostTarget()).info.inOrder;
  };
  EXPECT_TRUE(isInOrder(kWaits));
  EXPECT_TRUE(isInOrder(pollingFor(true, true)));
  EXPECT_FALSE(isInOrder(pollingFor(true, false)));
  EXPECT_FALSE(isInOrder(pollingFor(false, true)));
  EXPECT_FALSE(isInOrder(kSums));
  EXPECT_FALSE(isInOrder(kCounts));
}

TEST(Frame, CodeOfAnotherVersionIsRefused) {
  codegen::Code code = codegen::generate(expanded(kCounts, "cpu"), codegen::hostTarget());
  EXPECT_EQ(code.info.frameVersion, uint32_t{LIBTILE_FRAME_VERSION});
  code.info.frameVersion += 1;
  EXPECT_THROW(codegen::cpu::CpuModule{code}, ir::InternalError);
}

} // namespace libtile::test
