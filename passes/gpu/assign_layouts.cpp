// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/assign_layouts.h"

#include "ir/ops.h"
#include "passes/gpu/conversion.h"
#include "passes/gpu/layout_maps.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/reduce_plan.h"
#include "passes/gpu/separate_accesses.h"
#include "passes/gpu/split_flat_reduces.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Layout;
using ir::LayoutId;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

class LayoutRewriter {
public:
  LayoutRewriter(ir::Function &fn, const PassContext &context, int32_t warps)
      : fn_(fn), context_(context), warps_(warps) {}

  void run(const LayoutProblem &problem, std::span<const Layout> layouts) {
    for (size_t i = 0; i < layouts.size(); ++i) {
      const LayoutId id = fn_.internLayout(layouts[i]);
      for (const ValueId value : problem.components[i].values) {
        fn_.setType(value, fn_.type(value).withLayout(id));
      }
    }
    for (const OpId op : fn_.walk()) {
      fixOperands(op);
    }
  }

private:
  void fixOperands(OpId op) {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Store && fn_.type(fn_.operand(op, 0)).isTile()) {
      request(op, 1, layoutOf(fn_.operand(op, 0)));
    } else if (isShapeOp(opcode)) {
      fixShapeOp(op);
    } else if (opcode == Opcode::Reduce && fn_.type(fn_.operand(op, 0)).isTile()) {
      fixReduce(op);
    } else if (opcode == Opcode::Dot) {
      fixDot(op);
    }
  }

  void fixShapeOp(OpId op) {
    if (shapeRegisterMap(fn_, op)) {
      return;
    }
    // A reshape or slice that does not divide goes through memory, from any layout to any.
    if (const auto needed = operandLayout(fn_, op, layoutOf(fn_.result(op)))) {
      request(op, 0, *needed);
    }
  }

  void fixReduce(OpId op) {
    const auto axis = static_cast<unsigned>(fn_.getInt(op, Attr::axis));
    const Type type = fn_.type(fn_.operand(op, 0));
    if (!joinsInOrder(fn_, op)) {
      // Registers, lanes and warps one behind the other along the axis.
      std::vector<int32_t> order(type.rank());
      std::iota(order.rbegin(), order.rend(), 0);
      std::ranges::stable_partition(order, [&](int32_t each) { return each == static_cast<int32_t>(axis); });
      const Layout along = Layout::blocked(type.shape(), order, 1, warps_, {}, context_.target.warpSize);
      for (unsigned i = 0; i < fn_.numOperands(op); ++i) {
        request(op, i, along);
      }
    }
    if (type.rank() == 1) {
      return; // the result is a scalar
    }
    const Layout needed = layoutOf(fn_.operand(op, 0)).reduced(axis);
    for (const ValueId result : fn_.results(op)) {
      convertResult(op, result, needed);
    }
  }

  void fixDot(OpId op) {
    const ir::DotUnit &unit = unitOf(fn_, op, context_.target);
    if (!unit.together) {
      return;
    }
    const Type acc = fn_.type(fn_.result(op));
    const WarpGrid grid = warpGridOf(fn_, op, warps_);
    const int32_t depth = fn_.type(fn_.operand(op, 0)).shape().back();
    if (!unit.a.inShared) {
      request(op, 0, leftLayout(unit, acc.shape(), depth, grid, warps_));
    }
    if (!unit.b.inShared) {
      request(op, 1, rightLayout(unit, acc.shape(), depth, grid, warps_));
    }
    const Layout sums = accumulatorLayout(unit, acc.shape(), grid, warps_);
    request(op, 2, sums);
    convertResult(op, fn_.result(op), sums);
  }

  [[nodiscard]] const Layout &layoutOf(ValueId value) const {
    return fn_.layout(fn_.type(value).layout());
  }

  // Gives the op's result the layout; uses keep theirs.
  void convertResult(OpId op, ValueId result, const Layout &layout) {
    const Type wanted = fn_.type(result);
    if (layoutOf(result) == layout) {
      return;
    }
    fn_.setType(result, wanted.withLayout(fn_.internLayout(layout)));
    const OpId convert = fn_.createOp(Opcode::ConvertLayout, {}, {&wanted, 1}, fn_.loc(op));
    fn_.insertAfter(op, convert);
    fn_.replaceAllUses(result, fn_.result(convert));
    fn_.addOperand(convert, result);
  }

  void request(OpId op, unsigned operand, const Layout &layout) {
    const ValueId value = fn_.operand(op, operand);
    if (fn_.type(value).isTile()) {
      fn_.setOperand(op, operand, underLayout(value, layout));
    }
  }

  // The value under the layout: itself, computed again, or converted. The layout comes by value:
  // the function's table of layouts grows meanwhile.
  ValueId underLayout(ValueId value, Layout layout) {
    if (layoutOf(value) == layout) {
      return value;
    }
    const LayoutId id = fn_.internLayout(layout);
    const auto known = made_.find({value.index, id.index});
    if (known != made_.end()) {
      return known->second;
    }
    const OpId op = fn_.def(value);
    const bool moves = !registerMap(layout, layoutOf(value)).has_value();
    const bool throughShape =
        op.valid() && (fn_.opcode(op) == Opcode::Broadcast ||
                       fn_.opcode(op) == Opcode::ExpandDims || fn_.opcode(op) == Opcode::Trans);
    int32_t budget = 16;
    const ValueId result = moves && (throughShape || isCheap(fn_, value, budget) || isLoadedThere(value, layout))
                               ? computeAgain(op, layout)
                               : insertConversion(value, id);
    made_[{value.index, id.index}] = result;
    return result;
  }

  // A load of a few elements along one axis, for this use alone: the way through shared memory and its barriers would take
  // longer than loading what each thread needs.
  [[nodiscard]] bool isLoadedThere(ValueId value, const Layout &layout) const {
    constexpr int32_t kMostElements = 4; // of a thread
    const OpId op = fn_.def(value);
    const Type type = fn_.type(value);
    if (!op.valid() || fn_.opcode(op) != Opcode::Load || type.rank() != 1 || fn_.uses(value).size() != 1 ||
        fn_.ownEffects(op).has(ir::Effects::Ordered) || layout.size(ir::HwDim::Reg) > kMostElements) {
      return false;
    }
    return std::ranges::all_of(fn_.operands(op), [&](ValueId operand) {
      int32_t budget = 16;
      return isCheap(fn_, operand, budget);
    });
  }

  ValueId computeAgain(OpId op, const Layout &layout) {
    const Opcode opcode = fn_.opcode(op);
    const bool shapeOp =
        opcode == Opcode::ExpandDims || opcode == Opcode::Broadcast || opcode == Opcode::Trans;
    ir::Values operands;
    for (const ValueId operand : fn_.operands(op)) {
      if (!fn_.type(operand).isTile()) {
        operands.push_back(operand);
      } else if (shapeOp) {
        const auto needed = operandLayout(fn_, op, layout);
        operands.push_back(underLayout(operand, needed.value()));
      } else {
        operands.push_back(underLayout(operand, layout));
      }
    }
    const Type type = fn_.type(fn_.result(op)).withLayout(fn_.internLayout(layout));
    const OpId copy = fn_.createOp(opcode, operands, {&type, 1}, fn_.loc(op));
    fn_.copyAttrs(op, copy);
    fn_.insertAfter(op, copy);
    return fn_.result(copy);
  }

  ValueId insertConversion(ValueId value, LayoutId layout) {
    const Type type = fn_.type(value).withLayout(layout);
    const OpId op = fn_.def(value);
    const OpId first = fn_.first(fn_.defBlock(value));
    const OpId convert = fn_.createOp(Opcode::ConvertLayout, {&value, 1}, {&type, 1},
                                      fn_.loc(op.valid() ? op : first));
    if (op.valid()) {
      fn_.insertAfter(op, convert);
    } else {
      fn_.insertBefore(first, convert);
    }
    return fn_.result(convert);
  }

  ir::Function &fn_;
  const PassContext &context_;
  const int32_t warps_;
  std::map<std::pair<uint32_t, uint32_t>, ValueId> made_; // (value, layout)
};

} // namespace

bool assignLayouts(ir::Function &fn, const PassContext &context) {
  splitFlatReduces(fn);
  const int32_t warps = chooseWarps(fn, context);
  Facts facts = computeFacts(fn);
  fn.resident = chooseResident(fn, facts, context, warps);
  if (separateAccesses(fn, facts, context, warps)) {
    facts = computeFacts(fn);
  }
  const LayoutProblem problem = proposeLayouts(fn, facts, context, warps);
  const std::vector<Layout> layouts = chooseLayouts(fn, problem, warps, context.target.warpSize);
  LayoutRewriter(fn, context, warps).run(problem, layouts);
  fn.numWarps = warps;
  fn.stage = ir::Stage::LaidOut;
  return true;
}

} // namespace libtile::passes
