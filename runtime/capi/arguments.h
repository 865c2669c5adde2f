// SPDX-License-Identifier: Apache-2.0
// From the arguments of a C call to those that the launcher takes: a flat list in the order of the
// parameters. Allocates nothing unless an argument is refused, or a constant that is no number is new.
#pragma once

#include "runtime/capi/handles.h"

namespace libtile::capi {

// Lies on the stack of the call, without initial values.
class Call {
public:
  Call() {} // NOLINT: see above
  [[nodiscard]] std::span<const runtime::CallArgument> arguments() const { return {arguments_, count_}; }
  // For arguments that were put: those at other places have no value.
  [[nodiscard]] const runtime::CallArgument *places() const { return arguments_; }
  // One an argument.
  [[nodiscard]] const runtime::Extent *extents() const { return extents_; }
  // The options that the call's keywords change, or null.
  [[nodiscard]] const runtime::Options *options() const { return options_ ? &*options_ : nullptr; }

  void add(const runtime::CallArgument &argument) { put(count_++, argument); }
  void put(size_t at, const runtime::CallArgument &argument);
  [[nodiscard]] bool isFull() const { return count_ == runtime::kMaxArguments; }
  // The arguments from `first` on become this one.
  void replace(size_t first, const runtime::CallArgument &argument) {
    count_ = first;
    add(argument);
  }
  void setOption(const runtime::Options &given, runtime::Option option, int64_t value) {
    if (!options_) {
      options_ = given;
    }
    options_->set(option, value);
  }

private:
  union {
    runtime::CallArgument arguments_[runtime::kMaxArguments];
  };
  runtime::Extent extents_[runtime::kMaxArguments];
  size_t count_ = 0;
  std::optional<runtime::Options> options_;
};

// A launch takes values, a compilation types as well.
enum class Takes : uint8_t { Values, Types };
// Throws UserError, which names the parameter.
void bind(const libtile_function &function, std::span<const libtile_argument> given,
          const runtime::Options &options, Takes takes, Call &call);

// One argument alone, not a tuple. Throws UserError.
[[nodiscard]] runtime::CallArgument convert(const libtile_argument &given, Takes takes,
                                            std::string_view parameter);
// The constant that a list describes. Throws UserError.
[[nodiscard]] frontend::Value constantOf(std::span<const libtile_argument> given, std::string_view name);
// As arguments of a parameter of that kind; what they point to goes to `kept`.
[[nodiscard]] std::vector<runtime::CallArgument>
argumentsFor(const frontend::Value &value, bool isConstexpr, std::deque<frontend::Value> &kept);

} // namespace libtile::capi
