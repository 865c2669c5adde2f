// SPDX-License-Identifier: Apache-2.0
// Interned sets form a list that only grows at its head: a reader follows pointers that never change.
// There are as many sets as a process tries, tens or hundreds.
#include "runtime/options.h"

#include "ir/diagnostic.h"
#include "ir/ops.h"
#include "runtime/environment.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cctype>
#include <cstdlib>

namespace libtile::runtime {

namespace {

constexpr OptionRow kRows[] = {
#define OPTION(name, kind, standard, low, high, targets, heeded, doc)                              \
  {#name, OptionKind::kind, standard, low, high, OptionTargets::targets, OptionTargets::heeded, doc},
#include "runtime/options.def"
};

using Values = std::array<int64_t, kNumOptions>;

constexpr auto kTable = [] {
  Values values{};
  for (size_t i = 0; i < kNumOptions; ++i) {
    values[i] = kRows[i].standard;
  }
  return values;
}();

// TRITON_DEBUG as Triton takes it: one of a few words for yes. Others are no error: the variable is not ours.
int64_t tritonDebug() {
  const char *given = std::getenv("TRITON_DEBUG");
  std::string word = given != nullptr ? given : "";
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::string_view kYes[] = {"1", "on", "true", "y", "yes"};
  return std::ranges::find(kYes, word) != std::end(kYes) ? 1 : 0;
}

// Of this process.
const Values &standardValues() {
  static const Values values = [] {
    Values made = kTable;
    made[static_cast<size_t>(Option::check)] = environmentNumber("LIBTILE_CHECK", 1);
    made[static_cast<size_t>(Option::debug)] = environmentNumber("LIBTILE_DEBUG", 1) | tritonDebug();
    made[static_cast<size_t>(Option::line_info)] = environmentNumber("LIBTILE_LINE_INFO", 1);
    made[static_cast<size_t>(Option::copy_boxes)] = environmentNumber("LIBTILE_COPY_BOXES", 1, 1);
    made[static_cast<size_t>(Option::share_blocks)] = environmentNumber("LIBTILE_SHARE_BLOCKS", 1);
    made[static_cast<size_t>(Option::warp_specialize)] = environmentNumber("LIBTILE_WARP_SPECIALIZE", 1, 1);
    return made;
  }();
  return values;
}

bool includes(OptionTargets targets, const ir::Target &target) {
  switch (targets) {
  case OptionTargets::Any:
    return true;
  case OptionTargets::Cpu:
    return !target.laysOut;
  case OptionTargets::Gpu:
    return target.laysOut;
  case OptionTargets::Nvidia:
    return target.triple.starts_with("nvptx");
  case OptionTargets::Amd:
    return target.triple.starts_with("amdgcn");
  case OptionTargets::None:
    return false;
  }
  return false;
}

// Of the option's value.
std::string precisionName(int64_t value) {
  return std::string(ir::enumeratorName(ir::AttrKind::Precision, value - 1));
}

struct Interned {
  Options options;
  uint32_t id;
  const Interned *next;
};
std::atomic<const Interned *> interned{nullptr};

// Between `from` and `until`, which is not looked at.
const Interned *findInterned(const Options &options, const Interned *from, const Interned *until) {
  while (from != until && !(from->options == options)) {
    from = from->next;
  }
  return from != until ? from : nullptr;
}

} // namespace

std::span<const OptionRow> optionRows() { return kRows; }

std::optional<Option> findOption(std::string_view name) {
  for (size_t i = 0; i < kNumOptions; ++i) {
    if (name == kRows[i].name) {
      return static_cast<Option>(i);
    }
  }
  return std::nullopt;
}

bool fits(const OptionRow &row, int64_t value) {
  const bool hasForm = row.kind != OptionKind::PowerOfTwo || value == 0 ||
                       std::has_single_bit(static_cast<uint64_t>(value));
  return hasForm && value >= row.low && value <= row.high;
}

std::string describeValues(const OptionRow &row) {
  switch (row.kind) {
  case OptionKind::Integer:
    return std::to_string(row.low) + " .. " + std::to_string(row.high);
  case OptionKind::PowerOfTwo:
    return "0 or a power of two up to " + std::to_string(row.high);
  case OptionKind::Flag:
  case OptionKind::Object:
    return "0 or 1";
  case OptionKind::Precision: {
    std::string names;
    for (int64_t value = 1; value <= row.high; ++value) {
      names += (value == 1 ? "'" : value == row.high ? " or '" : ", '") + precisionName(value) + "'";
    }
    return names;
  }
  }
  return {};
}

std::optional<int64_t> valueOfText(const OptionRow &row, std::string_view text) {
  for (int64_t value = 1; row.kind == OptionKind::Precision && value <= row.high; ++value) {
    if (text == precisionName(value)) {
      return value;
    }
  }
  return std::nullopt;
}

Options::Options() : values_(standardValues()) {}

Options Options::ofTable() {
  Options options;
  options.values_ = kTable;
  return options;
}

void Options::set(Option option, int64_t value) {
  const OptionRow &known = row(option);
  if (!fits(known, value)) {
    throw ir::UserError("option " + std::string(known.name) + "=" + std::to_string(value) + ": it takes " +
                        describeValues(known));
  }
  // As in Triton, the variable is stronger than what a launch says.
  static const int64_t debugs = tritonDebug();
  values_[static_cast<size_t>(option)] = option == Option::debug ? value | debugs : value;
}

Options Options::normalised(const ir::Target &target) const {
  Options result = *this;
  for (size_t i = 0; i < kNumOptions; ++i) {
    if (!includes(kRows[i].targets, target)) {
      result.values_[i] = kRows[i].standard;
    }
  }
  if (result[Option::debug] == 0) { // it says what debug does
    result.values_[static_cast<size_t>(Option::sanitize_overflow)] = row(Option::sanitize_overflow).standard;
  }
  return result;
}

std::vector<std::string> Options::unheeded(const ir::Target &target) const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < kNumOptions; ++i) {
    if (values_[i] != kRows[i].standard && includes(kRows[i].targets, target) &&
        !includes(kRows[i].heeded, target)) {
      lines.push_back("option " + std::string(kRows[i].name) + " changes nothing on " + target.name +
                      " yet");
    }
  }
  return lines;
}

std::string Options::text() const {
  std::string text;
  for (size_t i = 0; i < kNumOptions; ++i) {
    if (values_[i] != kRows[i].standard) {
      text += (text.empty() ? "" : " ") + std::string(kRows[i].name) + "=" + std::to_string(values_[i]);
    }
  }
  return text;
}

uint32_t Options::id() const {
  if (values_ == standardValues()) {
    return 0;
  }
  const Interned *head = interned.load(std::memory_order_acquire);
  if (const Interned *found = findInterned(*this, head, nullptr)) {
    return found->id;
  }
  auto *made = new Interned{*this, 0, nullptr};
  while (true) {
    made->next = head;
    made->id = head != nullptr ? head->id + 1 : 1;
    if (interned.compare_exchange_weak(head, made, std::memory_order_acq_rel)) {
      return made->id;
    }
    if (const Interned *found = findInterned(*this, head, made->next)) { // another thread was faster
      delete made;
      return found->id;
    }
  }
}

} // namespace libtile::runtime
