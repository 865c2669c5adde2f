// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/counts.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

namespace emulator {

namespace {

constexpr size_t kMostLines = 8;

struct Kind {
  std::string_view prefix, name;
};
// The first prefix that an instruction's name begins with.
constexpr Kind kKinds[] = {{"v_mfma_", "matrix"},    {"v_wmma_", "matrix"},      {"v_", "vector"},         {"ds_", "LDS"},
                           {"global_", "memory"},    {"flat_", "memory"},        {"buffer_", "memory"},    {"scratch_", "scratch"},
                           {"s_load_", "constants"}, {"s_buffer_", "constants"}, {"s_wait", "waits"},      {"s_barrier", "barriers"},
                           {"s_nop", "waits"},       {"s_delay_", "waits"},      {"s_branch", "branches"}, {"s_cbranch_", "branches"},
                           {"s_", "scalar"},         {"", "others"}};

std::string_view kindOf(const Instruction &instruction) {
  return std::ranges::find_if(kKinds, [&](const Kind &kind) { return instruction.name.starts_with(kind.prefix); })->name;
}

} // namespace

bool Counts::areWanted() {
  const char *wanted = std::getenv("LIBTILE_EMULATED_COUNTS");
  return wanted != nullptr && wanted[0] == '1';
}

std::string Counts::text(const std::vector<Instruction> &instructions) const {
  std::map<std::string_view, uint64_t> sums;
  std::vector<size_t> worst;
  for (size_t i = 0; i < executed_.size(); ++i) {
    if (executed_[i] != 0) {
      sums[kindOf(instructions[i])] += executed_[i];
    }
    if (conflicts_[i] != 0) {
      worst.push_back(i);
    }
  }
  std::string text;
  for (const auto &[kind, sum] : sums) {
    text += (text.empty() ? "" : ", ") + std::string(kind) + " " + std::to_string(sum);
  }
  const uint64_t conflicts = std::accumulate(conflicts_.begin(), conflicts_.end(), uint64_t{0});
  text += "; LDS takes " + std::to_string(cycles_) + " cycles, " + std::to_string(conflicts) + " of them for bank conflicts\n";
  std::ranges::stable_sort(worst, std::greater(), [&](size_t i) { return conflicts_[i]; });
  worst.resize(std::min(worst.size(), kMostLines));
  for (const size_t i : worst) {
    text += "  " + std::to_string(conflicts_[i]) + " cycles in " + std::to_string(executed_[i]) + " times " + instructions[i].text + "\n";
  }
  return text;
}

} // namespace emulator
