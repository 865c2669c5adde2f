// SPDX-License-Identifier: Apache-2.0
// The one set of options that a compilation or a launch may be given (options.def), as a value.
//
// Options are normalised by the target before anything is looked up or compiled: what means nothing
// there has its standard value, so that the CPU does not compile twice for num_warps.
#pragma once

#include "ir/target.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace libtile::runtime {

enum class Option : uint8_t {
#define OPTION(name, kind, standard, low, high, targets, heeded, doc) name,
#include "runtime/options.def"
  Count
};
constexpr size_t kNumOptions = static_cast<size_t>(Option::Count);

enum class OptionKind : uint8_t { Integer, PowerOfTwo, Flag, Object, Precision };
enum class OptionTargets : uint8_t { Any, Cpu, Gpu, Nvidia, Amd, None };

struct OptionRow {
  const char *name;
  OptionKind kind;
  int64_t standard, low, high;
  OptionTargets targets, heeded;
  const char *doc;
};
[[nodiscard]] std::span<const OptionRow> optionRows(); // by Option
[[nodiscard]] inline const OptionRow &row(Option option) {
  return optionRows()[static_cast<size_t>(option)];
}
[[nodiscard]] std::optional<Option> findOption(std::string_view name);
// Whether the option takes the value; and what it takes, in words: "0 .. 64".
[[nodiscard]] bool fits(const OptionRow &row, int64_t value);
[[nodiscard]] std::string describeValues(const OptionRow &row);
// The value that a text stands for, of an option that takes texts.
[[nodiscard]] std::optional<int64_t> valueOfText(const OptionRow &row, std::string_view text);

class Options {
public:
  // Standard values: those of the table, but what the environment says at the first use (LIBTILE_CHECK,
  // LIBTILE_DEBUG, LIBTILE_LINE_INFO, LIBTILE_COPY_BOXES). Throws UserError if that is neither 0 nor 1.
  Options();
  // Those of the table, in every process.
  [[nodiscard]] static Options ofTable();
  [[nodiscard]] int64_t operator[](Option option) const { return values_[static_cast<size_t>(option)]; }
  [[nodiscard]] int32_t number(Option option) const { return static_cast<int32_t>((*this)[option]); }
  // Throws UserError for a value that does not fit.
  void set(Option option, int64_t value);

  [[nodiscard]] Options normalised(const ir::Target &target) const;
  // One line for each that the target's code does not heed though it should.
  [[nodiscard]] std::vector<std::string> unheeded(const ir::Target &target) const;
  // "num_warps=8 num_stages=2": those that are not as in the table.
  [[nodiscard]] std::string text() const;
  // Equal for equal sets in this process, 0 for the standard one. Takes no lock and allocates nothing for
  // a set that was asked for before.
  [[nodiscard]] uint32_t id() const;

  friend bool operator==(const Options &, const Options &) = default;

private:
  std::array<int64_t, kNumOptions> values_;
};

} // namespace libtile::runtime
