// SPDX-License-Identifier: Apache-2.0
// Random tile programs: what their code leaves in memory is what the interpreter leaves.
#include "codegen/codegen.h"
#include "ir/ops.h"
#include "passes/cpu/plan_nests.h"
#include "tests/cpu/nests_fixture.h"
#include "tests/passes/random_program.h"

namespace libtile::test {

namespace {

LIBTILE_NEST_TESTS(NestPrograms);

bool isNan(uint32_t bits) { return (bits & 0x7FFFFFFF) > 0x7F800000; }

// Equal words. Of floats what the ops leave open is not compared: a NaN's payload, and which zero the
// minimum of both is (and with it the sign of an infinity).
bool sameWord(const uint8_t *a, const uint8_t *b, bool isFloat) {
  uint32_t first = 0, second = 0;
  std::memcpy(&first, a, 4);
  std::memcpy(&second, b, 4);
  const uint32_t sign = first ^ second;
  const bool open = (first & 0x7FFFFFFF) == 0 || (first & 0x7FFFFFFF) == 0x7F800000;
  return first == second ||
         (isFloat && ((isNan(first) && isNan(second)) || (open && sign == 0x80000000)));
}

// Pins some decisions of the plan; those that cannot be heeded are taken back. Gives how many stay.
int pinAtRandom(ir::Function &fn, const ir::Target &target, uint64_t seed) {
  std::mt19937 random(seed);
  int pinned = 0;
  const std::pair<ir::Attr, int64_t> pins[] = {
      {ir::Attr::keep, 0},  {ir::Attr::keep, 1},  {ir::Attr::keep, 2},   {ir::Attr::lane_axis, 0}, {ir::Attr::lane_axis, 1},
      {ir::Attr::lanes, 1}, {ir::Attr::lanes, 2}, {ir::Attr::lanes, 32}, {ir::Attr::unroll, 1},    {ir::Attr::unroll, 8},
      {ir::Attr::sunk, 0}};
  for (const ir::OpId op : fn.walk()) {
    const auto [attr, value] = pins[random() % std::size(pins)];
    if (random() % 2 == 0 || (attr == ir::Attr::sunk && fn.opcode(op) != ir::Opcode::For)) {
      continue;
    }
    fn.setAttr(op, attr, ir::AttrValue(value));
    try {
      static_cast<void>(passes::planNests(fn, passes::computeFacts(fn), target));
      ++pinned;
    } catch (const ir::UserError &) {
      fn.eraseAttr(op, attr);
    }
  }
  return pinned;
}

// Gives how many decisions are pinned.
int checkSeed(const std::string &way, uint64_t seed, bool stores, bool pins = false) {
  RandomProgram program =
      randomProgram(seed, {2 + unsigned(seed / 10) % 40, seed % 2 == 1, stores});
  const int pinned = pins ? pinAtRandom(program.fn, codegen::findTarget(targetOf(way)), seed) : 0;
  const std::string text = ir::print(program.fn);
  Machine expected = program.machine;
  evaluate(program.fn, program.arguments, expected);

  // Four bytes each: the interpreter's memory, at a place of this process.
  std::vector<uint64_t> memory((program.machine.memory.size() + 7) / 8 + 1);
  std::memcpy(memory.data(), program.machine.memory.data(), program.machine.memory.size());
  std::vector<uint64_t> arguments;
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const bool isPointer = program.fn.type(program.fn.arg(program.fn.body(), i)).isPointer();
    const uint64_t base = isPointer ? pointer(memory.data()) : 0;
    arguments.push_back(base + uint64_t(program.arguments[i].i));
  }
  TileKernel kernel(text, way);
  kernel.run(arguments, {program.machine.grid[0]}, program.machine.program[0], 1);
  const auto *seen = reinterpret_cast<const uint8_t *>(memory.data());
  for (size_t at = 0; at + 4 <= expected.memory.size(); at += 4) {
    const bool isFloat = at >= size_t(program.arguments[3].i);
    if (!sameWord(seen + at, expected.memory.data() + at, isFloat)) {
      ADD_FAILURE() << "seed " << seed << " at byte " << at << "\n" << text << ir::print(nested(text, way));
      break;
    }
  }
  return pinned;
}

TEST_P(NestPrograms, AsInterpreted) {
  for (uint64_t seed = 0; seed < 250; ++seed) {
    checkSeed(GetParam(), seed, false);
    if (HasFailure()) {
      return;
    }
  }
}

TEST_P(NestPrograms, StoresInOrder) {
  for (uint64_t seed = 0; seed < 250; ++seed) {
    checkSeed(GetParam(), seed, true);
    if (HasFailure()) {
      return;
    }
  }
}

TEST_P(NestPrograms, Pinned) {
  int pinned = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    pinned += checkSeed(targetOf(GetParam()), seed, seed % 2 == 0, true);
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_GT(pinned, 200);
}

} // namespace

} // namespace libtile::test
