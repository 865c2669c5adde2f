// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/carried_tiles.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/lower_dot.h"
#include "passes/cpu/nest_emitter.h"
#include "passes/op_properties.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

bool isTile(const Function &fn, ValueId value) { return fn.type(value).isTile(); }

// The carried values among the arguments of a loop's region.
std::span<const ValueId> carriedArgs(const Function &fn, OpId loop, BlockId region) {
  return fn.args(region).subspan(fn.opcode(loop) == Opcode::For ? 1 : 0);
}

// A for's operands before its initial values.
unsigned initOffset(const Function &fn, OpId loop) {
  return fn.opcode(loop) == Opcode::For ? 3 : 0;
}

// What the region's yield passes to result i.
ValueId yielded(const Function &fn, OpId op, BlockId region, unsigned i) {
  return fn.operand(fn.last(region), i + (fn.getBool(op, Attr::stop) ? 1 : 0));
}

// The shape of the buffer of a value: padded if a dot accumulates in it.
llvm::SmallVector<int32_t, 4> bufferShape(const NestState &state, ValueId value) {
  const Function &fn = state.fn;
  const OpId op = fn.def(value);
  if (op.valid() && fn.opcode(op) == Opcode::Dot) {
    return accumulatorShape(state, op);
  }
  if (op.valid() && isLoop(fn.opcode(op))) {
    return bufferShape(state, yielded(fn, op, fn.regions(op).back(), fn.defIndex(value)));
  }
  const auto shape = fn.type(value).shape();
  return {shape.begin(), shape.end()};
}

// The initial value's own buffer serves: nobody else looks at it, and it is made anew whenever the
// loop is entered.
bool takesOver(const NestState &state, OpId loop, ValueId init, std::span<const int32_t> shape) {
  const Function &fn = state.fn;
  // A while's condition must leave what its body is about to read.
  const OpId parent = fn.parentOp(fn.block(loop));
  if (parent.valid() && fn.opcode(parent) == Opcode::While &&
      fn.region(parent, 0) == fn.block(loop)) {
    return false;
  }
  return state.stored(init) && fn.uses(init).size() == 1 && fn.defBlock(init) == fn.block(loop) &&
         llvm::equal(fn.type(state.buffer[init]).shape(), shape);
}

// One value on its way into its home.
struct Move {
  ValueId value;
  ValueId home;
  ValueId target; // the home, or a second buffer
};

class HomeWriter {
public:
  HomeWriter(NestState &state, OpId position) : state_(state), fn_(state.fn), position_(position) {}

  void add(ValueId value, ValueId home) {
    if (state_.buffer[value] != home) {
      moves_.push_back({value, home, home});
    }
  }

  void run() {
    std::vector<std::vector<Move>> groups = groupByShape();
    // Values that are stored on the way may read any home, so they come first.
    for (const std::vector<Move> &group : groups) {
      prepareExpression(state_, position_, workOf(group));
    }
    for (size_t i = 0; i < groups.size(); ++i) {
      divert(groups, i);
      emitGroup(groups[i]);
    }
    for (const Move &move : moves_) {
      copyBack(move);
    }
  }

private:
  std::vector<std::vector<Move>> groupByShape() const {
    std::vector<std::vector<Move>> groups;
    for (const Move &move : moves_) {
      const auto found = std::ranges::find_if(groups, [&](const std::vector<Move> &group) {
        return fn_.type(group[0].value).sameShape(fn_.type(move.value));
      });
      if (found == groups.end()) {
        groups.push_back({move});
      } else {
        found->push_back(move);
      }
    }
    return groups;
  }

  NestWork workOf(const std::vector<Move> &group) const {
    NestWork work{fn_.type(group[0].value).shape(), {}};
    for (const Move &move : group) {
      work.values.push_back(move.value);
    }
    work.bufferWrites = int32_t(group.size());
    return work;
  }

  // Second buffers for homes of group i that are still read afterwards, or read at other elements.
  void divert(std::vector<std::vector<Move>> &groups, size_t i) {
    for (Move &move : groups[i]) {
      bool needed = false;
      for (size_t j = i; j < groups.size(); ++j) {
        for (const Move &reader : groups[j]) {
          needed |= reads(reader.value, move.home, j > i);
        }
      }
      if (needed) {
        Builder before(fn_, position_);
        move.target = allocBuffer(before, fn_.type(move.home).shape(),
                                  Type::scalar(fn_.type(move.home).elem()));
        std::ranges::find_if(moves_, [&](const Move &m) { return m.home == move.home; })->target =
            move.target;
      }
    }
  }

  // `value` reads the buffer, at all (`anywhere`) or at another element than it computes.
  bool reads(ValueId value, ValueId buffer, bool anywhere) const {
    bool found = false;
    walkExpression(state_, value, [&](const ExpressionNode &node) {
      if (state_.buffer[node.value] == buffer) {
        found |= anywhere || !node.sameElement;
      }
      return !found;
    });
    return found;
  }

  void emitGroup(const std::vector<Move> &group) {
    const NestWork work = workOf(group);
    emitNest(state_, position_, work,
             [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
               Values computed;
               for (const Move &move : group) {
                 computed.push_back(elements.element(move.value, indices));
               }
               for (size_t i = 0; i < group.size(); ++i) {
                 elements.write(group[i].target, indices, computed[i]);
               }
             });
  }

  void copyBack(const Move &move) {
    if (move.target == move.home) {
      return;
    }
    const auto shape = fn_.type(move.value).shape();
    const Type element = fn_.type(move.value).element();
    const LaneChoice choice{unsigned(shape.size()) - 1,
                            lanesFor(state_, std::array{move.value}, shape.back())};
    emitNest(state_, position_, shape, choice,
             [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
               elements.write(move.home, indices, elements.read(move.target, indices, element));
             });
  }

  NestState &state_;
  Function &fn_;
  OpId position_;
  std::vector<Move> moves_;
};

void openLoop(NestState &state, OpId loop, bool mayBeEmpty, TileHomes &homes) {
  Function &fn = state.fn;
  HomeWriter writer(state, loop);
  for (unsigned i = 0; i < fn.results(loop).size(); ++i) {
    const ValueId result = fn.result(loop, i);
    homes.buffers.push_back({});
    homes.empty.push_back(false);
    if (!isTile(fn, result)) {
      continue;
    }
    const ValueId init = fn.operand(loop, i + initOffset(fn, loop));
    const auto shape = bufferShape(state, result);
    Builder before(fn, loop);
    if (takesOver(state, loop, init, shape)) {
      homes.buffers.back() = state.buffer[init];
    } else {
      homes.buffers.back() = allocBuffer(before, shape, fn.type(result).element());
      homes.empty.back() = mayBeEmpty && fn.isZero(init);
      if (!homes.empty.back()) {
        zeroPadding(state, loop, homes.buffers.back(), fn.type(result));
        writer.add(init, homes.buffers.back());
      }
    }
  }
  writer.run();
  for (unsigned i = 0; i < homes.buffers.size(); ++i) {
    if (homes.buffers[i].valid()) {
      state.buffer.set(fn.result(loop, i), homes.buffers[i]);
      for (BlockId region : fn.regions(loop)) {
        state.buffer.set(carriedArgs(fn, loop, region)[i], homes.buffers[i]);
      }
    }
  }
}

// Every inline use of `value` ends in `root`.
bool onlyUsedBy(const NestState &state, ValueId value, OpId root) {
  const Function &fn = state.fn;
  return std::ranges::all_of(fn.uses(value), [&](const Use &use) {
    if (use.op == root) {
      return true;
    }
    return isInlinable(fn, use.op) && !state.stored(fn.result(use.op)) &&
           fn.uses(fn.result(use.op)).size() == 1 && onlyUsedBy(state, fn.result(use.op), root);
  });
}

} // namespace

TileHomes openHomes(NestState &state, OpId op, bool mayBeEmpty) {
  Function &fn = state.fn;
  TileHomes homes;
  if (fn.opcode(op) != Opcode::If) {
    openLoop(state, op, mayBeEmpty, homes);
    return homes;
  }
  for (ValueId result : std::vector<ValueId>(fn.results(op).begin(), fn.results(op).end())) {
    homes.buffers.push_back({});
    if (isTile(fn, result)) {
      Builder before(fn, op);
      homes.buffers.back() = allocBuffer(before, fn.type(result).shape(), fn.type(result).element());
      state.buffer.set(result, homes.buffers.back());
    }
  }
  return homes;
}

void closeHomes(NestState &state, OpId yield, const TileHomes &homes, unsigned skip) {
  HomeWriter writer(state, yield);
  for (unsigned i = 0; i < homes.buffers.size(); ++i) {
    if (homes.buffers[i].valid()) {
      writer.add(state.fn.operand(yield, i + skip), homes.buffers[i]);
    }
  }
  writer.run();
}

ValueId homeOfDot(const NestState &state, OpId dot, const TileHomes &homes, OpId yield,
                  unsigned skip) {
  const Function &fn = state.fn;
  const OpId parent = fn.parentOp(fn.block(dot));
  if (!parent.valid() || fn.opcode(parent) == Opcode::If || fn.uses(fn.result(dot)).size() != 1) {
    return {};
  }
  for (unsigned i = 0; i < homes.buffers.size(); ++i) {
    if (!homes.buffers[i].valid() || fn.operand(yield, i + skip) != fn.result(dot)) {
      continue;
    }
    const ValueId arg = carriedArgs(fn, parent, fn.block(dot))[i];
    bool elementwise = true;
    walkExpression(state, fn.operand(dot, 2), [&](const ExpressionNode &node) {
      elementwise &= state.buffer[node.value] != homes.buffers[i] || node.sameElement;
      return elementwise;
    });
    return elementwise && onlyUsedBy(state, arg, dot) ? homes.buffers[i] : ValueId{};
  }
  return {};
}

} // namespace libtile::passes
