// SPDX-License-Identifier: Apache-2.0
#include "ir/names.h"

#include <algorithm>

namespace libtile::ir {

namespace {

// The number at the name's end; 0 if there is none, or one that no function has.
uint32_t numberOf(std::string_view name) {
  constexpr size_t kMostDigits = 9;
  const size_t start = name.find_last_not_of("0123456789") + 1; // npos + 1 is 0
  const std::string_view digits = name.substr(start);
  return digits.empty() || digits.size() > kMostDigits ? 0 : std::stoul(std::string(digits));
}

// The axis along which a basis moves: -1 none, -2 several.
int axisOf(const Coords &basis) {
  int found = -1;
  for (size_t axis = 0; axis < basis.size(); ++axis) {
    if (basis[axis] != 0) {
      found = found == -1 ? static_cast<int>(axis) : -2;
    }
  }
  return found;
}

// Each basis that moves doubles the reach along its axis: 1, 2, 4, ... in the order of the bits.
bool doubles(const Layout &layout, std::span<const HwDim> dims) {
  Coords reach(layout.rank(), 1);
  for (const HwDim dim : dims) {
    for (const Coords &basis : layout.bases(dim)) {
      const int axis = axisOf(basis);
      if (axis == -2 || (axis >= 0 && basis[axis] != reach[axis])) {
        return false;
      }
      if (axis >= 0) {
        reach[axis] *= 2;
      }
    }
  }
  return true;
}

std::string_view formOfMemory(const Layout::Bases &offsets) {
  bool rows = true;
  int last = static_cast<int>(offsets[0].size());
  for (const Coords &basis : offsets) {
    const int axis = axisOf(basis);
    if (axis == -2) {
      return "swizzled";
    }
    rows = rows && axis <= last;
    last = axis;
  }
  return rows ? "rows" : "columns";
}

} // namespace

std::string_view formOf(const Layout &layout) {
  if (!layout.bases(HwDim::Offset).empty()) {
    return formOfMemory(layout.bases(HwDim::Offset));
  }
  constexpr HwDim kDims[] = {HwDim::Reg, HwDim::Lane, HwDim::Warp};
  if (!doubles(layout, kDims)) {
    return "fragment";
  }
  for (const HwDim dim : {HwDim::Lane, HwDim::Warp}) {
    for (const Coords &basis : layout.bases(dim)) {
      if (axisOf(basis) == -1) {
        return "replicated";
      }
    }
  }
  return "blocked";
}

const std::string &Names::give(ValueId value, const std::string &wanted) {
  std::string &name = values_.at(value);
  if (name.empty()) {
    const bool free = !wanted.empty() && taken_.insert(wanted).second;
    name = free ? wanted : std::to_string(nextValue_++);
  }
  return name;
}

const std::string &Names::give(LayoutId layout, std::string_view stem) {
  std::string &name = layouts_.at(layout);
  if (name.empty()) {
    name = std::string(stem) + std::to_string(nextLayout_++);
  }
  return name;
}

void Names::set(ValueId value, std::string name) {
  nextValue_ = std::max(nextValue_, numberOf(name) + 1);
  taken_.insert(name);
  values_.set(value, std::move(name));
}

void Names::set(LayoutId layout, std::string name) {
  nextLayout_ = std::max(nextLayout_, numberOf(name) + 1);
  layouts_.set(layout, std::move(name));
}

std::string Names::type(const Type &type) const {
  if (!type.layout().valid()) {
    return type.str();
  }
  std::string text = type.withLayout({}).str();
  const std::string &name = of(type.layout());
  text.insert(text.size() - 1, ", #" + (name.empty() ? "<undefined>" : name));
  return text;
}

} // namespace libtile::ir
