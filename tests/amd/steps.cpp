// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/steps.h"

#include "tests/amd/matrix_step.h"
#include "tests/amd/memory_step.h"
#include "tests/amd/scalar_step.h"

#include <algorithm>
#include <charconv>

namespace emulator {

namespace {

// What has no meaning here: caches, hints, and waits, which wait_counts.h looks at.
constexpr std::string_view kIdle[] = {
    "s_waitcnt",      "s_wait_",      "s_nop",        "s_delay_alu",   "s_clause",  "s_sleep",      "s_setprio",    "s_code_end",
    "s_barrier_signal", "buffer_gl",  "buffer_inv",   "buffer_wbl2",   "buffer_wb", "global_inv",   "global_wb",    "s_icache_inv",
    "s_dcache_",      "s_ttracedata", "s_set_inst_prefetch", "s_inst_prefetch", "v_nop",        "s_prefetch",   "global_prefetch",
    "s_version",      "s_set_gpr",    "s_wakeup",     "s_sethalt",     "s_alloc_vgpr"};

bool isIdle(const std::string &name) {
  return name == "s_sendmsg" || std::ranges::any_of(kIdle, [&](std::string_view idle) { return name.starts_with(idle); });
}

using Condition = bool (*)(const Wave &);
struct Branch {
  std::string_view name;
  Condition taken;
};
constexpr Branch kBranches[] = {
    {"s_branch", [](const Wave &) { return true; }},
    {"s_cbranch_scc0", [](const Wave &wave) { return !wave.scc; }},
    {"s_cbranch_scc1", [](const Wave &wave) { return wave.scc; }},
    {"s_cbranch_vccz", [](const Wave &wave) { return wave.mask(kVcc) == 0; }},
    {"s_cbranch_vccnz", [](const Wave &wave) { return wave.mask(kVcc) != 0; }},
    {"s_cbranch_execz", [](const Wave &wave) { return wave.exec == 0; }},
    {"s_cbranch_execnz", [](const Wave &wave) { return wave.exec != 0; }},
};

size_t placeOf(const Places &places, uint64_t address) {
  const auto found = places.find(address);
  if (found == places.end()) {
    throw Fault("a branch leads to no instruction");
  }
  return found->second;
}

Step makeControl(const Instruction &in, const Places &places, uint64_t base) {
  for (const auto &[name, taken] : kBranches) {
    if (in.name == name) {
      uint32_t words = 0;
      std::from_chars(in.operands[0].data(), in.operands[0].data() + in.operands[0].size(), words);
      const int64_t distance = 4 * int64_t{static_cast<int16_t>(words)};
      const size_t target = placeOf(places, in.address + 4 + static_cast<uint64_t>(distance));
      return [target, taken = taken](Wave &wave) { wave.next = taken(wave) ? target : wave.next; };
    }
  }
  if (in.name == "s_endpgm") {
    return [](Wave &wave) { wave.isDone = true; };
  }
  if (in.name == "s_barrier" || in.name == "s_barrier_wait") {
    return [](Wave &wave) { wave.isAtBarrier = true; };
  }
  if (in.name == "s_trap") {
    throw Fault("the kernel ended with a trap");
  }
  const uint64_t behind = base + in.address + in.bytes;
  if (in.name == "s_getpc_b64") {
    return [behind, to = ScalarDestination(in.operands[0], 64)](Wave &wave) { to.write(wave, behind); };
  }
  if (in.name == "s_setpc_b64" || in.name == "s_swappc_b64") {
    const bool keeps = in.name == "s_swappc_b64";
    return [=, &places, target = ScalarSource(in.operands.back(), 64), to = ScalarDestination(in.operands[0], 64)](Wave &wave) {
      const uint64_t address = target.read(wave);
      if (keeps) {
        to.write(wave, behind);
      }
      wave.next = placeOf(places, address - base);
    };
  }
  return {};
}

// The instruction of one half of two that go together.
Step makeHalf(std::string text, const Machine &machine) {
  text.replace(0, std::string_view("v_dual_").size(), "v_");
  return makeVectorStep(parseInstruction(text), machine);
}

// Both halves read before either writes: the second one runs on a copy of what the first one changes.
Step makeDual(const Instruction &in, const Machine &machine) {
  const std::string first = in.text.substr(0, *in.second - 4), second = in.text.substr(*in.second);
  const Step a = makeHalf(first, machine), b = makeHalf(second, machine);
  if (!a || !b) {
    return {};
  }
  const unsigned written = registerOf(parseInstruction(first).operands[0]).index;
  return [a, b, written](Wave &wave) {
    std::array<uint32_t, kMostLanes> before, after;
    uint32_t *lanes = wave.vector(written);
    std::memcpy(before.data(), lanes, sizeof before);
    a(wave);
    std::memcpy(after.data(), lanes, sizeof after);
    std::memcpy(lanes, before.data(), sizeof before);
    b(wave);
    std::memcpy(lanes, after.data(), sizeof after);
  };
}

} // namespace

Step makeStep(const Instruction &in, const Machine &machine, const Places &places, uint64_t base) {
  if (isIdle(in.name)) {
    return [](Wave &) {};
  }
  Step step = makeControl(in, places, base);
  if (!step && in.name.starts_with("s_")) {
    step = makeScalarLoad(in);
    step = step ? step : makeHardwareRegister(in);
    step = step ? step : makeScalarStep(in);
  }
  if (!step && in.name.starts_with("v_")) {
    step = in.second ? makeDual(in, machine) : makeMatrixStep(in, machine);
    step = step ? step : makeVectorStep(in, machine);
  }
  step = step ? step : makeMemoryStep(in, machine);
  step = step ? step : makeSharedStep(in, machine);
  if (!step) {
    throw Fault("not emulated");
  }
  return step;
}

} // namespace emulator
