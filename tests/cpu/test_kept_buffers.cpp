// SPDX-License-Identifier: Apache-2.0
// What a program leaves for the next one of its thread (codegen/cpu/kept_buffers.cpp): it is found under the same keys in the
// same slot, in the same launch, and nowhere else, whatever lies in the arena at first.
#include "tests/cpu/run_nested.h"

#include <array>
#include <map>
#include <random>

namespace libtile::test {

namespace {

// Program p asks for slots[p] under keys[p] and the address wheres[p]. Where it finds others it writes p, found[p] is what is there then.
const char *const kRecalls = R"(
func @recalls stage=nested warps=4 stages=3 arena=256 (%slots: ptr<i32>, %keys: ptr<i64>, %wheres: ptr<ptr<i32>>, %found: ptr<i32>) {
  %p = program_id {axis=0} : i32
  %zero = constant {value=0} : i32
  %panels = alloc {offset=64, kept=true} : buffer<2x16xi32>
  %sp = ptr_add %slots, %p : ptr<i32>
  %slot = load %sp : i32
  %kp = ptr_add %keys, %p : ptr<i64>
  %key = load %kp : i64
  %wp = ptr_add %wheres, %p : ptr<ptr<i32>>
  %where = load %wp : ptr<i32>
  %panel = buffer_slot %panels, %slot : buffer<16xi32>
  %same = recall %slot, %key, %where {slots=2, offset=192} : i1
  if %same {
    yield
  } {
    element_write %panel, %p, %zero
    yield
  }
  %v = element_read %panel, %zero : i32
  %fp = ptr_add %found, %p : ptr<i32>
  store %fp, %v
  return
}
)";

constexpr int32_t kPrograms = 200;

struct Asked {
  std::vector<int32_t> slots;
  std::vector<int64_t> keys;
  std::vector<uint64_t> wheres;
};

Asked random(std::mt19937 &random) {
  Asked asked;
  for (int32_t p = 0; p < kPrograms; ++p) {
    asked.slots.push_back(random() % 2);
    asked.keys.push_back(random() % 2 == 0 ? 1 : int64_t{1} << 40);
    asked.wheres.push_back(random() % 8 == 0 ? 1 : 0);
  }
  return asked;
}

class KeptBuffers : public ::testing::TestWithParam<bool> {};

} // namespace

TEST_P(KeptBuffers, AreFoundUnderTheSameKeysInOneLaunch) {
  std::mt19937 engine(3);
  for (const std::string &target : runnableTargets()) {
    const codegen::Code code = codegen::generate(expanded(kRecalls, target), codegen::findTarget(target));
    const codegen::cpu::CpuModule module(code);
    alignas(64) std::array<uint64_t, 32> arena{};
    arena.fill(1); // every slot seems to have keys
    for (int launch = 0; launch < 10; ++launch) {
      const Asked asked = random(engine);
      std::vector<int32_t> found(kPrograms, -1);
      const std::array<uint64_t, 4> slots{slot(asked.slots.data()), slot(asked.keys.data()), slot(asked.wheres.data()),
                                          slot(found.data())};
      const int32_t grid[3] = {kPrograms, 1, 1};
      uint32_t status = LIBTILE_RUN;
      codegen::cpu::Frame frame = codegen::cpu::makeFrame(slots.data(), grid, &status);
      frame.keeps_arenas = GetParam() ? 1 : 0;
      arena[0] = GetParam() ? 0 : 1;
      std::map<int32_t, std::tuple<int64_t, uint64_t, int32_t>> last; // by slot
      for (uint64_t first = 0; first < kPrograms;) {
        const uint64_t count = std::min<uint64_t>(1 + engine() % 40, kPrograms - first);
        ASSERT_EQ(module.entry()(&frame, first, count, reinterpret_cast<uint8_t *>(arena.data())), count);
        if (!GetParam()) {
          last.clear();
        }
        for (const uint64_t end = first + count; first < end; ++first) {
          const auto known = last.find(asked.slots[first]);
          const bool isSame = known != last.end() && std::get<0>(known->second) == asked.keys[first] &&
                              std::get<1>(known->second) == asked.wheres[first];
          if (!isSame) {
            last[asked.slots[first]] = {asked.keys[first], asked.wheres[first], static_cast<int32_t>(first)};
          }
          ASSERT_EQ(found[first], std::get<2>(last[asked.slots[first]])) << first;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FromCallToCall, KeptBuffers, ::testing::Bool());

} // namespace libtile::test
