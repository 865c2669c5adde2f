// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/evict_streams.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"

#include <algorithm>
#include <vector>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Effects;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

// Values that may differ between programs. A guess where loops carry them: what follows is a hint.
class OwnValues {
public:
  explicit OwnValues(const ir::Function &fn) : fn_(fn) {
    for (const OpId op : fn.walk()) {
      const std::span<const ValueId> operands = fn.operands(op);
      if (fn.opcode(op) != Opcode::ProgramId && std::ranges::none_of(operands, [&](ValueId value) { return isOwn(value); })) {
        continue;
      }
      for (const ValueId result : fn.results(op)) {
        own_.set(result, true);
      }
      for (const BlockId region : fn.regions(op)) {
        for (const ValueId argument : fn.args(region)) {
          own_.set(argument, true);
        }
      }
    }
  }
  [[nodiscard]] bool isOwn(ValueId value) const { return own_[value]; }

private:
  const ir::Function &fn_;
  ir::IndexMap<ValueId, bool> own_;
};

struct Access {
  OpId op;
  ValueId array; // the parameter; invalid: not known
};

// One runs, or the other.
bool excludeEachOther(const ir::Function &fn, OpId a, OpId b) {
  for (BlockId block = fn.block(a); block != fn.body(); block = fn.block(fn.parentOp(block))) {
    const OpId around = fn.parentOp(block);
    if (fn.opcode(around) == Opcode::If) {
      const auto inside = [&](OpId op, unsigned region) { return fn.isInside(fn.block(op), fn.region(around, region)); };
      if ((inside(a, 0) && inside(b, 1)) || (inside(a, 1) && inside(b, 0))) {
        return true;
      }
    }
  }
  return false;
}

// Nothing else of the program touches what it accesses, but for stores what it stores to.
bool isAlone(const ir::Function &fn, const Access &access, const std::vector<Access> &all) {
  return std::ranges::none_of(all, [&](const Access &other) {
    const bool bothStore = fn.opcode(access.op) == Opcode::Store && fn.opcode(other.op) == Opcode::Store;
    return other.op != access.op && !bothStore && (!other.array.valid() || other.array == access.array) && !excludeEachOther(fn, access.op, other.op);
  });
}

// The body of the innermost loop around it, or the function's.
BlockId repeatedBlock(const ir::Function &fn, OpId op) {
  BlockId block = fn.block(op);
  while (block != fn.body() && fn.opcode(fn.parentOp(block)) == Opcode::If) {
    block = fn.block(fn.parentOp(block));
  }
  return block;
}

bool isPlain(const ir::Function &fn, OpId op) {
  const Effects effects = fn.ownEffects(op);
  return (fn.opcode(op) == Opcode::Load || fn.opcode(op) == Opcode::Store) && !effects.has(Effects::Ordered) &&
         fn.type(fn.operand(op, 0)).isTile();
}

} // namespace

bool evictStreams(ir::Function &fn, const PassContext &context) {
  if (!context.target.evictsFirst) {
    return false;
  }
  const std::vector<OpId> ops = fn.walk();
  const bool leaves = std::ranges::any_of(ops, [&](OpId op) {
    return fn.opcode(op) == Opcode::Dot || fn.hasAttr(op, Attr::evict) || fn.hasAttr(op, Attr::cache);
  });
  const OwnValues values(fn);
  std::vector<BlockId> everybodys; // where what all programs read is loaded
  for (const OpId op : ops) {
    if (fn.opcode(op) == Opcode::Load && isPlain(fn, op) && !values.isOwn(fn.operand(op, 0))) {
      everybodys.push_back(fn.block(op));
    }
  }
  if (leaves || everybodys.empty()) {
    return false;
  }
  const Facts facts = computeFacts(fn);
  std::vector<Access> accesses;
  for (const OpId op : ops) {
    const Effects effects = fn.ownEffects(op);
    if (effects.has(Effects::ReadsGlobal) || effects.has(Effects::WritesGlobal)) {
      accesses.push_back({op, basePointer(fn, fn.operand(op, 0), facts)});
    }
  }
  std::vector<OpId> streams;
  for (const Access &access : accesses) {
    if (isPlain(fn, access.op) && access.array.valid() && values.isOwn(fn.operand(access.op, 0)) && isAlone(fn, access, accesses)) {
      streams.push_back(access.op);
    }
  }
  const bool areAsOften = std::ranges::all_of(streams, [&](OpId op) {
    return std::ranges::any_of(everybodys, [&](BlockId block) { return fn.isInside(block, repeatedBlock(fn, op)); });
  });
  if (!areAsOften) {
    return false;
  }
  for (const OpId op : streams) {
    fn.setAttr(op, Attr::evict, ir::EvictHint::first);
  }
  return !streams.empty();
}

} // namespace libtile::passes
