// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/program.h"

#include "tests/amd/counts.h"
#include "tests/amd/steps.h"
#include "tests/amd/wait_counts.h"

#include <algorithm>
#include <cfenv>
#include <cstdio>
#include <deque>

namespace emulator {

namespace {

constexpr uint64_t kTurn = 20000;              // instructions of a wave before the next one goes on
constexpr uint64_t kMostInstructions = 400000000; // of a launch

// User SGPRs that the kernel asks for, in the order of their bits in the descriptor.
struct UserRegister {
  unsigned bit, count;
  enum { None, PrivateBuffer, Arguments, ScratchBytes } what;
};
constexpr UserRegister kUserRegisters[] = {
    {0, 4, UserRegister::PrivateBuffer}, {1, 2, UserRegister::None},         {2, 2, UserRegister::None}, {3, 2, UserRegister::Arguments},
    {4, 2, UserRegister::None}, {5, 2, UserRegister::None},         {6, 1, UserRegister::ScratchBytes}};

void setUserRegisters(Wave &wave, const Kernel &kernel, uint64_t arguments, unsigned &next) {
  for (const auto &[bit, count, what] : kUserRegisters) {
    if ((kernel.properties >> bit & 1) == 0) {
      continue;
    }
    if (what == UserRegister::Arguments) {
      wave.setScalarPair(next, arguments);
    } else if (what == UserRegister::PrivateBuffer) {
      wave.setScalarPair(next, kPrivateBuffer);
    } else if (what == UserRegister::ScratchBytes) {
      wave.setScalar(next, kernel.scratchBytes);
    }
    next += count;
  }
  const unsigned words = kernel.preload & 127, first = kernel.preload >> 7;
  for (unsigned i = 0; i < words; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, reinterpret_cast<const void *>(arguments + 4 * (first + i)), 4);
    wave.setScalar(next + i, word);
  }
  next = kernel.userSgprs();
}

} // namespace

struct RunningWave : Wave {
  using Wave::Wave;
  UnderWay underWay;
};

int Mode::roundingOf(uint32_t field) {
  constexpr int kModes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  return kModes[field];
}

struct Program::Code {
  struct Prepared {
    Step step;
    WaitUse waits;
  };
  Machine machine;
  std::vector<Instruction> instructions;
  std::vector<Prepared> prepared; // whose places stay: waves keep what they have under way
  Places places;
  uint64_t base;

  const Prepared &at(size_t index) {
    if (index >= prepared.size()) {
      throw Fault("the kernel runs past its end");
    }
    Prepared &made = prepared[index];
    if (!made.step) {
      made = {makeStep(instructions[index], machine, places, base), waitUseOf(instructions[index], machine)};
    }
    return made;
  }
  static void execute(RunningWave &wave, const Prepared &prepared) {
    wave.underWay.begin(prepared.waits);
    if (!prepared.waits.waits.empty()) {
      wave.group.shared.landCopies(&wave, wave.underWay.copiesLanded());
    }
    prepared.step(wave);
  }
  // Until a barrier, the end, or its turn is over.
  uint64_t run(RunningWave &wave) {
    uint64_t count = 0;
    while (count < kTurn && !wave.isDone && !wave.isAtBarrier) {
      const size_t index = wave.next++;
      ++count;
      try {
        const Prepared &made = at(index);
        if (wave.group.counts != nullptr) {
          wave.group.counts->execute(index);
        }
        execute(wave, made);
      } catch (const Fault &fault) {
        const std::string text = index < instructions.size() ? instructions[index].text : "";
        throw Fault(std::string(fault.what()) + " [instruction " + std::to_string(index) + ": " + text + "]");
      }
    }
    return count;
  }
};

Program::Program(CodeObject object) : object_(std::move(object)) {}
Program::~Program() = default;

Program::Code &Program::codeFor(bool isWave32) {
  std::unique_ptr<Code> &code = code_[isWave32 ? 0 : 1];
  if (code == nullptr) {
    code = std::make_unique<Code>();
    code->machine = {.target = object_.target, .lanes = isWave32 ? 32U : 64U, .isCdna = object_.target.starts_with("gfx9"),
                     .isGfx12 = object_.target.starts_with("gfx12")};
    code->instructions = disassemble(object_, isWave32);
    code->prepared.resize(code->instructions.size());
    code->base = reinterpret_cast<uint64_t>(object_.image.data());
    for (size_t i = 0; i < code->instructions.size(); ++i) {
      code->places[code->instructions[i].address] = i;
    }
  }
  return *code;
}

namespace {

struct RunningGroup {
  Group group;
  std::deque<RunningWave> waves;
  [[nodiscard]] bool isDone() const {
    return std::ranges::all_of(waves, [](const Wave &wave) { return wave.isDone; });
  }
  // Barriers open when every wave that has not ended is there.
  void openBarrier() {
    if (std::ranges::all_of(waves, [](const Wave &wave) { return wave.isDone || wave.isAtBarrier; })) {
      for (Wave &wave : waves) {
        wave.isAtBarrier = false;
      }
    }
  }
};

// The state that a wave starts with (LLVM's "Initial Kernel Execution State").
void start(Wave &wave, const Kernel &kernel, const Program::Shape &shape, const Machine &machine, uint64_t arguments,
           const uint32_t (&group)[3], uint32_t firstThread) {
  const uint32_t threads = shape.block[0] * shape.block[1] * shape.block[2];
  wave.setExec(threads - firstThread >= 64 ? ~Mask{0} : (Mask{1} << (threads - firstThread)) - 1);
  wave.mode.bits = kernel.rsrc1 >> 12 & 255;
  unsigned next = 0;
  setUserRegisters(wave, kernel, arguments, next);
  if (machine.isGfx12) {
    wave.setScalar(kTrap + 9, group[0]);
    wave.setScalar(kTrap + 7, group[1] | group[2] << 16);
    wave.setScalar(kTrap + 8, firstThread / machine.lanes << 25);
  } else {
    for (unsigned axis = 0; axis < 3; ++axis) {
      if ((kernel.rsrc2 >> (7 + axis) & 1) != 0) {
        wave.setScalar(next++, group[axis]);
      }
    }
  }
  for (unsigned lane = 0; lane < machine.lanes; ++lane) {
    const uint32_t thread = firstThread + lane;
    wave.vector(0)[lane] = thread % shape.block[0] | thread / shape.block[0] % shape.block[1] << 10 |
                           thread / (shape.block[0] * shape.block[1]) << 20;
  }
}

// The kernel's own arguments and the hidden ones behind them.
std::vector<uint8_t> layOutArguments(const Kernel &kernel, const Program::Shape &shape, const std::vector<uint8_t> &own) {
  std::vector<uint8_t> bytes(std::max<size_t>(kernel.argumentBytes, own.size()) + 256);
  std::copy(own.begin(), own.end(), bytes.begin());
  for (const Argument &argument : kernel.arguments) {
    uint64_t value = 0;
    const unsigned axis = static_cast<unsigned>(argument.kind.back() - 'x');
    if (argument.kind.starts_with("hidden_block_count_")) {
      value = shape.grid[axis];
    } else if (argument.kind.starts_with("hidden_group_size_")) {
      value = shape.block[axis];
    } else if (argument.kind == "hidden_grid_dims") {
      value = 3;
    } else if (argument.kind == "hidden_dynamic_lds_size") {
      value = shape.sharedBytes;
    }
    if (argument.kind.starts_with("hidden_") && argument.offset + argument.bytes <= bytes.size()) {
      std::memcpy(&bytes[argument.offset], &value, argument.bytes);
    }
  }
  return bytes;
}

// Memory that is known for as long as it lives.
class Known {
public:
  Known(Memory &memory, uint64_t base, uint64_t bytes) : memory_(memory), base_(base) { memory.add(base, bytes); }
  ~Known() { memory_.remove(base_); }
  Known(const Known &) = delete;
  Known &operator=(const Known &) = delete;

private:
  Memory &memory_;
  uint64_t base_;
};

} // namespace

uint64_t Program::run(const Kernel &kernel, const Shape &shape, const std::vector<uint8_t> &arguments, Memory &memory) {
  Code &code = codeFor(kernel.isWave32());
  const std::vector<uint8_t> block = layOutArguments(kernel, shape, arguments);
  const auto place = reinterpret_cast<uint64_t>(block.data()), image = reinterpret_cast<uint64_t>(object_.image.data());
  const Known knownBlock(memory, place, block.size()), knownImage(memory, image, object_.image.size());
  const Rounding nearest(FE_TONEAREST);
  const uint32_t threads = shape.block[0] * shape.block[1] * shape.block[2];
  const uint64_t groups = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  std::optional<Counts> counts;
  if (Counts::areWanted()) {
    counts.emplace(code.instructions.size());
  }
  const auto make = [&](uint64_t number, std::deque<RunningGroup> &running) {
    SharedMemory shared(kernel.sharedBytes + shape.sharedBytes);
    RunningGroup &group = running.emplace_back(RunningGroup{{memory, std::move(shared), counts ? &*counts : nullptr}, {}});
    const uint32_t at[3] = {static_cast<uint32_t>(number % shape.grid[0]), static_cast<uint32_t>(number / shape.grid[0] % shape.grid[1]),
                            static_cast<uint32_t>(number / shape.grid[0] / shape.grid[1])};
    for (uint32_t first = 0; first < threads; first += code.machine.lanes) {
      Wave &wave = group.waves.emplace_back(code.machine.lanes, group.group, kernel.scratchBytes);
      start(wave, kernel, shape, code.machine, place, at, first);
      wave.next = code.places.at(kernel.entry);
    }
  };
  uint64_t count = 0;
  for (uint64_t first = 0; first < groups;) {
    std::deque<RunningGroup> running;
    for (const uint64_t end = shape.isCooperative ? groups : first + 1; first < end; ++first) {
      make(first, running);
    }
    while (!std::ranges::all_of(running, &RunningGroup::isDone)) {
      for (RunningGroup &group : running) {
        for (RunningWave &wave : group.waves) {
          count += code.run(wave);
        }
        group.openBarrier();
      }
      if (count > kMostInstructions) {
        throw Fault("the kernel does not end");
      }
    }
  }
  if (counts) {
    std::fprintf(stderr, "%s: %s", kernel.name.c_str(), counts->text(code.instructions).c_str());
  }
  return count;
}

} // namespace emulator
