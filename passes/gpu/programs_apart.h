// SPDX-License-Identifier: Apache-2.0
// What programs of a launch have in common, and what they may know of each other.
#pragma once

#include "ir/function.h"

#include <array>
#include <set>

namespace libtile::passes {

// Another program could find out when this one ran, by what it reads or by waiting; or may not start before this one ends.
[[nodiscard]] bool tellsOrder(const ir::Function &fn, ir::OpId op);

// Scalars that may not be the same number in all programs that differ in their ids along some axes of the grid. Of what code does
// that is no arithmetic on scalars, everything differs.
class DifferingValues {
public:
  // `axes`: those along which the programs differ.
  DifferingValues(const ir::Function &fn, std::array<bool, 3> axes);
  [[nodiscard]] bool contains(ir::ValueId value) const { return differing_.contains(value.index); }
  // How often the regions of a loop or branch run may differ.
  [[nodiscard]] bool inTrips(ir::OpId op) const;

private:
  void visit(ir::OpId op);
  void visitLoop(ir::OpId loop);
  void add(ir::ValueId value) { grows_ |= differing_.insert(value.index).second; }
  [[nodiscard]] bool startsToDiffer(ir::OpId op) const;

  const ir::Function &fn_;
  const std::array<bool, 3> axes_;
  std::set<uint32_t> differing_;
  bool grows_ = false;
};

} // namespace libtile::passes
