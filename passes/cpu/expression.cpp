// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/expression.h"

#include "ir/ops.h"
#include "passes/cpu/sink_loops.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
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
  ExpressionWalker(const NestView &nests, ValueId root,
                   const std::function<bool(const ExpressionNode &)> &visit)
      : nests_(nests), fn_(nests.fn), visit_(visit), rootShape_(fn_.type(root).shape()) {}

  void run(ValueId root) {
    walk(root, IndexPath::identity(rootShape_.size()), Part::Element);
    // Grows on the way, as initial values come out of other loops.
    for (size_t i = 0; i < loops_.size(); ++i) {
      const SunkLoop sunk = loops_[i];
      beside(sunk);
    }
  }

private:
  struct SunkLoop {
    OpId loop;
    IndexPath path;
    friend bool operator==(const SunkLoop &, const SunkLoop &) = default;
  };

  void walk(ValueId value, const IndexPath &path, Part part) {
    std::vector<int> key{int(value.index), int(path.reshapes)};
    key.insert(key.end(), path.axes.begin(), path.axes.end());
    std::set<Part> &parts = seen_[std::move(key)];
    if ((part == Part::Beside && !parts.empty()) || !parts.insert(part).second) {
      return;
    }
    if (!visit_({value, path, sameElement(value, path), part}) || nests_.stored(value)) {
      return;
    }
    const OpId op = fn_.def(value);
    if (op.valid() && isInlinable(fn_, op)) {
      operands(op, path, part);
    } else if (const auto slot = sunkSlot(nests_, value)) {
      enterSunk(value, path);
      walk(slot->init, path, part);
      walk(slot->next, path, part);
    }
  }

  void enterSunk(ValueId value, const IndexPath &path) {
    const OpId loop = fn_.isArg(value) ? fn_.parentOp(fn_.defBlock(value)) : fn_.def(value);
    const SunkLoop sunk{loop, path};
    if (std::ranges::find(loops_, sunk) == loops_.end()) {
      loops_.push_back(sunk);
    }
  }

  // What no value on the way has named of a loop that one of them runs.
  void beside(const SunkLoop &sunk) {
    for (unsigned i = 0; i < fn_.results(sunk.loop).size(); ++i) {
      const Slot slot = slotOf(fn_, sunk.loop, i);
      if (fn_.type(slot.init).isTile()) {
        walk(slot.init, sunk.path, Part::Beside);
        walk(slot.next, sunk.path, Part::Beside);
      }
    }
    for (OpId op : fn_.opsIn(fn_.region(sunk.loop))) {
      for (ValueId result : fn_.results(op)) {
        if (!fn_.type(result).isTile()) {
          walk(result, IndexPath(), Part::Beside);
        }
      }
    }
  }

  bool sameElement(ValueId value, const IndexPath &path) const {
    return path.reshapes == 0 && llvm::equal(fn_.type(value).shape(), rootShape_) &&
           path == IndexPath::identity(rootShape_.size());
  }

  void operands(OpId op, const IndexPath &path, Part part) {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Load) {
      for (unsigned i = 0; i < fn_.numOperands(op); ++i) {
        walk(fn_.operand(op, i), path, i < 2 && part == Part::Element ? Part::Address : part);
      }
    } else if (isElementwise(opcode) || opcode == Opcode::Hint) {
      for (ValueId operand : fn_.operands(op)) {
        walk(operand, path, part);
      }
    } else if (opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims ||
               opcode == Opcode::Reshape || opcode == Opcode::Trans || opcode == Opcode::Slice) {
      const ValueId operand = fn_.operand(op, 0);
      walk(operand, shapeOp(op, operand, path), part);
    } else if (opcode == Opcode::Gather) {
      walk(fn_.operand(op, 0), shapeOp(op, fn_.operand(op, 0), path), part);
      walk(fn_.operand(op, 1), path, part);
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
    } else if (opcode == Opcode::Slice || opcode == Opcode::Gather) {
      below.axes = path.axes;
      if (opcode == Opcode::Gather || fn_.getInt(op, Attr::step) != 1) {
        below.axes[fn_.getInt(op, Attr::axis)] = IndexPath::kNoAxis;
      }
      below.reshapes = chain(op, path);
    } else {
      reshape(op, operand, path, below);
    }
    return below;
  }

  uint32_t chain(OpId op, const IndexPath &path) {
    return chains_.try_emplace({path.reshapes, op.index}, uint32_t(chains_.size()) + 1)
        .first->second;
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
      below.reshapes = chain(op, path);
    }
  }

  const NestView &nests_;
  const Function &fn_;
  const std::function<bool(const ExpressionNode &)> &visit_;
  std::span<const int32_t> rootShape_;
  std::map<std::vector<int>, std::set<Part>> seen_;
  std::vector<SunkLoop> loops_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> chains_;
};

} // namespace

void walkExpression(const NestView &nests, ValueId root,
                    const std::function<bool(const ExpressionNode &)> &visit) {
  ExpressionWalker(nests, root, visit).run(root);
}

} // namespace libtile::passes
