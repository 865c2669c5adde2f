// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/share_blocks.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/expand_assembly.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/plan_residency.h"
#include "passes/gpu/programs_apart.h"

#include <algorithm>
#include <array>
#include <vector>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

bool hasDotsByItself(const ir::Function &fn, OpId op, const ir::Target &target) {
  const auto isOne = [&](OpId each) { return fn.opcode(each) == Opcode::Dot && readsByItself(unitOf(fn, each, target)); };
  return std::ranges::any_of(fn.regions(op), [&](BlockId region) { return std::ranges::any_of(fn.walk(region), isOne); });
}

std::vector<OpId> opsOf(const ir::Function &fn, BlockId block) {
  const auto range = fn.opsIn(block);
  return {range.begin(), range.end()};
}

} // namespace

bool mayShareBlocks(const ir::Function &fn, const PassContext &context) {
  const ir::Target &target = context.target;
  if (!context.sharesBlocks || !context.copiesBoxes || !hasTeams(fn, context)) {
    return false;
  }
  const DifferingValues differing(fn, {true, true, true});
  bool multiplies = false;
  for (const OpId op : fn.walk()) {
    if ((fn.opcode(op) == Opcode::For || fn.opcode(op) == Opcode::If) && hasDotsByItself(fn, op, target)) {
      multiplies |= fn.block(op) == fn.body() && fn.opcode(op) == Opcode::For;
      if (differing.inTrips(op)) {
        return false;
      }
    }
  }
  // Additions tell nobody anything, but a loop with their addresses has no registers left for one around it: attention's way back
  // spills.
  return multiplies && std::ranges::none_of(fn.walk(), [&](OpId op) { return tellsOrder(fn, op) || namesRegisters(fn, op); });
}

OpId loopOverPrograms(ir::Function &fn) {
  std::vector<OpId> ops = opsOf(fn, fn.body());
  ops.pop_back(); // return
  Builder top(fn, fn.first(fn.body()));
  const ir::Type i32 = ir::Type::scalar(ir::Elem::I32);
  ValueId programs;
  for (const int64_t axis : {0, 1, 2}) {
    const ValueId extent = top.make(Opcode::NumPrograms, {}, i32);
    fn.setAttr(fn.def(extent), Attr::axis, ir::AttrValue(axis));
    programs = axis == 0 ? extent : top.make(Opcode::Mul, {programs, extent});
  }
  const ValueId worker = top.make(Opcode::Worker, {}, i32), step = top.make(Opcode::NumWorkers, {}, i32);
  const OpId loop = top.op(Opcode::For, std::array{worker, programs, step});
  const BlockId body = fn.region(loop);
  const ValueId number = fn.addArg(body, i32);
  for (const OpId op : ops) {
    fn.unlink(op);
    fn.append(body, op);
  }
  Builder(fn, body).yield({});
  for (const OpId op : fn.walk(body)) {
    if (fn.opcode(op) == Opcode::ProgramId) {
      fn.addOperand(op, number);
    }
  }
  return loop;
}

void leaveLoopOverPrograms(ir::Function &fn, OpId loop) {
  for (const OpId op : fn.walk(fn.region(loop))) {
    if (fn.opcode(op) == Opcode::ProgramId) {
      fn.eraseOperand(op, 0);
    }
  }
  std::vector<OpId> ops = opsOf(fn, fn.region(loop));
  ops.pop_back(); // yield
  for (const OpId op : ops) {
    fn.unlink(op);
    fn.insertBefore(loop, op);
  }
  fn.erase(loop);
}

} // namespace libtile::passes
