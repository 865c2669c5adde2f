// SPDX-License-Identifier: Apache-2.0
// What values and layouts are called in the text form.
//
// A text by itself numbers both from 0 in its own order, so that equal functions print equally.
// Texts of one function that are read side by side share a Names instead: a value keeps its name as
// long as it lives (ids are never used again), and a layout is called after its form, such as
// #blocked0. The parser gives one too, so that what is printed with it has the names that were read.
#pragma once

#include "ir/function.h"

#include <string>
#include <string_view>
#include <unordered_set>

namespace libtile::ir {

class Names {
public:
  // Without % or #; empty if none was given.
  [[nodiscard]] const std::string &of(ValueId value) const { return values_[value]; }
  [[nodiscard]] const std::string &of(LayoutId layout) const { return layouts_[layout]; }
  // The name that was given or else, from here on, the wanted one if it is free, the next number if
  // not.
  const std::string &give(ValueId value, const std::string &wanted = {});
  // The name that was given or else the stem and the next number.
  const std::string &give(LayoutId layout, std::string_view stem = {});
  // As a text has it; the name is not taken by another value (or layout).
  void set(ValueId value, std::string name);
  void set(LayoutId layout, std::string name);
  // The type's text with the layout's name.
  [[nodiscard]] std::string type(const Type &type) const;

private:
  IndexMap<ValueId, std::string> values_;
  IndexMap<LayoutId, std::string> layouts_;
  std::unordered_set<std::string> taken_; // names of values that were wanted or set
  uint32_t nextValue_ = 0;                // above all numbers that were set
  uint32_t nextLayout_ = 0;
};

// A word for what the layout looks like: blocked (each thread holds neighbours, threads and warps
// follow), replicated (likewise, and several threads hold an element), fragment (any other map of
// threads, as matrix instructions have); of memory rows, columns or swizzled.
[[nodiscard]] std::string_view formOf(const Layout &layout);

} // namespace libtile::ir
