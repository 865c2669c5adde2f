// SPDX-License-Identifier: Apache-2.0
#include "ir/ops.h"
#include "passes/gpu/assign_layouts.h"
#include "passes/gpu/layout_maps.h"

#include <algorithm>
#include <numeric>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Layout;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

class Chooser {
public:
  Chooser(const ir::Function &fn, const LayoutProblem &problem, int32_t warps, int32_t warpSize)
      : fn_(fn), problem_(problem), warps_(warps), warpSize_(warpSize), chosen_(problem.components.size()) {}

  std::vector<Layout> run() {
    std::vector<size_t> order(problem_.components.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return stake(problem_.components[a]) > stake(problem_.components[b]);
    });
    // Anchored components first; the others follow as their neighbours are chosen.
    for (const bool takeDefault : {false, true}) {
      for (size_t progress = 1; progress > 0;) {
        progress = 0;
        for (const size_t index : order) {
          if (!chosen_[index]) {
            progress += choose(index, takeDefault) ? 1 : 0;
          }
        }
      }
    }
    std::vector<Layout> result;
    for (const auto &layout : chosen_) {
      result.push_back(layout.value());
    }
    return result;
  }

private:
  static double stake(const LayoutComponent &component) {
    double result = 0;
    for (const LayoutProposal &proposal : component.proposals) {
      result += proposal.strict ? 1e15 + proposal.weight : proposal.weight;
    }
    return result;
  }

  bool choose(size_t index, bool takeDefault) {
    std::vector<LayoutProposal> proposals = problem_.components[index].proposals;
    for (const ValueId value : problem_.components[index].values) {
      deriveFromUses(value, proposals);
      deriveFromDefinition(value, proposals);
    }
    if (proposals.empty()) {
      if (!takeDefault) {
        return false;
      }
      proposals.push_back({plainLayout(problem_.components[index].values[0])});
    }
    chosen_[index] = cheapest(proposals);
    return true;
  }

  // The proposal whose rivals weigh least together; the first of equals. Many proposals, of unrolled code,
  // are for few layouts.
  static Layout cheapest(std::span<const LayoutProposal> proposals) {
    std::vector<const Layout *> layouts;
    std::vector<size_t> layoutOf;
    for (const LayoutProposal &proposal : proposals) {
      const auto same = [&](const Layout *layout) { return *layout == proposal.layout; };
      const auto known = std::ranges::find_if(layouts, same);
      layoutOf.push_back(static_cast<size_t>(known - layouts.begin()));
      if (known == layouts.end()) {
        layouts.push_back(&proposal.layout);
      }
    }
    std::vector<double> costs;
    for (size_t layout = 0; layout < layouts.size(); ++layout) {
      double cost = 0;
      for (size_t i = 0; i < proposals.size(); ++i) {
        const double rival = proposals[i].weight + (proposals[i].strict ? 1e15 : 0);
        cost += layoutOf[i] == layout ? 0 : rival;
      }
      costs.push_back(cost);
    }
    return *layouts[static_cast<size_t>(std::ranges::min_element(costs) - costs.begin())];
  }

  [[nodiscard]] Layout plainLayout(ValueId value) const {
    const ir::Type type = fn_.type(value);
    std::vector<int32_t> order(type.rank());
    std::iota(order.rbegin(), order.rend(), 0);
    return Layout::blocked(type.shape(), order, 1, warps_, {}, warpSize_);
  }

  [[nodiscard]] const Layout *chosen(ValueId value) const {
    const int32_t index = fn_.type(value).isTile() ? problem_.componentOf[value] : -1;
    return index >= 0 && chosen_[static_cast<size_t>(index)] ? &*chosen_[static_cast<size_t>(index)]
                                                             : nullptr;
  }
  [[nodiscard]] double weight(ValueId value, OpId op) const {
    const ir::Type type = fn_.type(value);
    return static_cast<double>(type.numElements() * type.elementBytes()) * frequency(fn_, op);
  }

  void deriveFromUses(ValueId value, std::vector<LayoutProposal> &proposals) const {
    for (const ir::Use use : fn_.uses(value)) {
      const Opcode opcode = fn_.opcode(use.op);
      if (isShapeOp(opcode)) {
        if (const Layout *result = chosen(fn_.result(use.op))) {
          if (auto layout = operandLayout(fn_, use.op, *result)) {
            proposals.push_back({std::move(*layout), weight(value, use.op)});
          }
        }
      } else if (opcode == Opcode::Store && use.operand == 1 && !problem_.across[use.op]) {
        if (const Layout *pointers = chosen(fn_.operand(use.op, 0))) {
          proposals.push_back({*pointers, weight(value, use.op)});
        }
      }
    }
  }

  void deriveFromDefinition(ValueId value, std::vector<LayoutProposal> &proposals) const {
    const OpId op = fn_.def(value);
    if (!op.valid() || fn_.numOperands(op) == 0) {
      return;
    }
    const Layout *operand = chosen(fn_.operand(op, 0));
    const Opcode opcode = fn_.opcode(op);
    if (operand == nullptr) {
      return;
    }
    if (opcode == Opcode::Reduce) {
      proposals.push_back({operand->reduced(static_cast<unsigned>(fn_.getInt(op, Attr::axis))),
                           2 * weight(value, op)});
    } else if (isShapeOp(opcode) && opcode != Opcode::Broadcast) {
      if (auto layout = resultLayout(fn_, op, *operand)) {
        proposals.push_back({std::move(*layout), weight(value, op)});
      }
    }
  }

  const ir::Function &fn_;
  const LayoutProblem &problem_;
  const int32_t warps_;
  const int32_t warpSize_;
  std::vector<std::optional<Layout>> chosen_;
};

} // namespace

std::vector<Layout> chooseLayouts(const ir::Function &fn, const LayoutProblem &problem,
                                  int32_t warps, int32_t warpSize) {
  return Chooser(fn, problem, warps, warpSize).run();
}

} // namespace libtile::passes
