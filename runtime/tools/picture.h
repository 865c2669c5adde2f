// SPDX-License-Identifier: Apache-2.0
// What tile-opt --draw shows of a kernel for a GPU:
//  - each loop of the Plan over its first iterations: what lies in which slot of its rings, from the start of a copy to
//    the end of the dots that read it;
//  - which warp, lane and register holds which element of each dot's accumulator, and of operands that units take from
//    registers; of several that hold it, the first;
//  - where the rows of a slot lie in shared memory: 16 bytes a cell, of one colour what lies in the same banks.
#pragma once

#include "passes/gpu/plan_pipeline.h"
#include "passes/pipeline.h"
#include "runtime/tools/svg.h"

#include <set>
#include <string>

namespace libtile {

class Picture {
public:
  explicit Picture(const passes::PassContext &context) : context_(context) {}

  // Takes what it shows once the passes have made it: the function is laid out, and no loop is rewritten yet.
  void after(const passes::PassRun &run, const ir::Function &fn);
  // UserError: there is nothing to show.
  [[nodiscard]] std::string svg() const;

private:
  void drawLoop(const ir::Function &fn, const passes::LoopPlan &plan);
  void drawSlots(const ir::Function &fn, const passes::LoopPlan &plan, const passes::PlannedLoad &load);
  void drawDots(const ir::Function &fn);
  // `others`: further tiles of the layout, in words.
  void drawHolders(const std::string &title, const std::string &others, const ir::Layout &layout, std::span<const int32_t> shape);
  void drawWarps(double left, double extent, const ir::LayoutInverse &inverse, std::span<const int32_t> shape);
  void drawMemory(const std::string &title, const ir::Layout &layout, std::span<const int32_t> shape, int32_t elementBytes);
  void heading(const std::string &title, const std::string &words);

  const passes::PassContext &context_;
  Svg svg_;
  double y_ = 0; // where the next part begins
  bool isDone_ = false;
  std::set<std::string> slots_; // that are shown already, by their titles
};

} // namespace libtile
