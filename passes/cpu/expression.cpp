// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/expression.h"

#include "passes/cpu/sink_loops.h"

#include <llvm/ADT/STLExtras.h>

#include <map>
#include <set>

namespace libtile::passes {

using namespace ir;

IndexPath IndexPath::identity(unsigned rank) {
  IndexPath path;
  for (unsigned axis = 0; axis < rank; ++axis) {
    path.axes.push_back(int(axis));
  }
  return path;
}

llvm::SmallVector<ReshapeGroup, 4> reshapeGroups(std::span<const int32_t> from,
                                                 std::span<const int32_t> to) {
  llvm::SmallVector<ReshapeGroup, 4> groups;
  unsigned f = 0;
  unsigned t = 0;
  while (f < from.size() || t < to.size()) {
    ReshapeGroup group{f, f, t, t};
    // Axes of extent 1 stand for themselves.
    if (f < from.size() && from[f] == 1 && (t >= to.size() || to[t] != 1)) {
      group.fromEnd = ++f;
    } else if (t < to.size() && to[t] == 1 && (f >= from.size() || from[f] != 1)) {
      group.toEnd = ++t;
    } else {
      int64_t products[2] = {from[f++], to[t++]};
      while (products[0] != products[1]) {
        if (products[0] < products[1]) {
          products[0] *= from[f++];
        } else {
          products[1] *= to[t++];
        }
      }
      group.fromEnd = f;
      group.toEnd = t;
    }
    groups.push_back(group);
  }
  return groups;
}

namespace {

class ExpressionWalker {
public:
  ExpressionWalker(const NestState &state, ValueId root,
         const std::function<bool(const ExpressionNode &)> &visit)
      : state_(state), fn_(state.fn), visit_(visit), rootShape_(fn_.type(root).shape()) {}

  void walk(ValueId value, const IndexPath &path, bool address) {
    std::vector<int> key{int(value.index), int(path.reshapes), int(address)};
    key.insert(key.end(), path.axes.begin(), path.axes.end());
    if (!seen_.insert(std::move(key)).second) {
      return;
    }
    if (!visit_({value, path, sameElement(value, path), address}) || state_.stored(value)) {
      return;
    }
    const OpId op = fn_.def(value);
    if (op.valid() && isInlinable(fn_, op)) {
      operands(op, path, address);
    } else if (const auto slot = sunkSlot(state_, value)) {
      walk(slot->init, path, address);
      walk(slot->next, path, address);
    }
  }

private:
  bool sameElement(ValueId value, const IndexPath &path) const {
    return path.reshapes == 0 && llvm::equal(fn_.type(value).shape(), rootShape_) &&
           path == IndexPath::identity(rootShape_.size());
  }

  void operands(OpId op, const IndexPath &path, bool address) {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Load) {
      for (unsigned i = 0; i < fn_.numOperands(op); ++i) {
        walk(fn_.operand(op, i), path, address || i < 2);
      }
    } else if (isElementwise(opcode) || opcode == Opcode::Hint) {
      for (ValueId operand : fn_.operands(op)) {
        walk(operand, path, address);
      }
    } else if (opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims ||
               opcode == Opcode::Reshape || opcode == Opcode::Trans) {
      const ValueId operand = fn_.operand(op, 0);
      walk(operand, shapeOp(op, operand, path), address);
    }
  }

  IndexPath shapeOp(OpId op, ValueId operand, const IndexPath &path) {
    const Type &type = fn_.type(operand);
    IndexPath below;
    below.reshapes = path.reshapes;
    below.axes.assign(type.rank(), IndexPath::kNoAxis);
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Trans) {
      const auto order = fn_.getInts(op, Attr::order);
      for (unsigned axis = 0; axis < order.size(); ++axis) {
        below.axes[order[axis]] = path.axes[axis];
      }
    } else if (opcode == Opcode::ExpandDims) {
      below.axes = path.axes;
      below.axes.erase(below.axes.begin() + fn_.getInt(op, Attr::axis));
    } else if (opcode == Opcode::Broadcast) {
      for (unsigned axis = 0; axis < type.rank(); ++axis) {
        const bool repeated = type.dim(axis) == 1 && fn_.type(fn_.result(op)).dim(axis) != 1;
        below.axes[axis] = repeated ? IndexPath::kNoAxis : path.axes[axis];
      }
    } else {
      reshape(op, operand, path, below);
    }
    return below;
  }

  void reshape(OpId op, ValueId operand, const IndexPath &path, IndexPath &below) {
    bool whole = true;
    for (const ReshapeGroup &group :
         reshapeGroups(fn_.type(operand).shape(), fn_.type(fn_.result(op)).shape())) {
      if (group.from == group.fromEnd) {
        continue;
      }
      if (group.to < group.toEnd) {
        below.axes[group.fromEnd - 1] = path.axes[group.toEnd - 1];
      }
      whole &= group.fromEnd - group.from == 1 && group.toEnd - group.to <= 1;
    }
    if (!whole) {
      below.reshapes =
          chains_.try_emplace({path.reshapes, op.index}, uint32_t(chains_.size()) + 1).first->second;
    }
  }

  const NestState &state_;
  const Function &fn_;
  const std::function<bool(const ExpressionNode &)> &visit_;
  std::span<const int32_t> rootShape_;
  std::set<std::vector<int>> seen_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> chains_;
};

} // namespace

void walkExpression(const NestState &state, ValueId root,
                    const std::function<bool(const ExpressionNode &)> &visit) {
  ExpressionWalker(state, root, visit).walk(root, IndexPath::identity(state.fn.type(root).rank()), false);
}

} // namespace libtile::passes
