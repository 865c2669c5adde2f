// SPDX-License-Identifier: Apache-2.0
// Random tile programs: what their code leaves in memory is what the interpreter leaves.
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

void checkSeed(const std::string &way, uint64_t seed, bool stores) {
  RandomProgram program =
      randomProgram(seed, {2 + unsigned(seed / 10) % 40, seed % 2 == 1, stores});
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
    ASSERT_TRUE(sameWord(seen + at, expected.memory.data() + at, isFloat))
        << "seed " << seed << " at byte " << at << "\n"
        << text << ir::print(nested(text, way));
  }
}

TEST_P(NestPrograms, AsInterpreted) {
  for (uint64_t seed = 0; seed < 250; ++seed) {
    checkSeed(GetParam(), seed, false);
    if (HasFatalFailure()) {
      return;
    }
  }
}

TEST_P(NestPrograms, StoresInOrder) {
  for (uint64_t seed = 0; seed < 250; ++seed) {
    checkSeed(GetParam(), seed, true);
    if (HasFatalFailure()) {
      return;
    }
  }
}

} // namespace

} // namespace libtile::test
