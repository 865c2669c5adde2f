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

// A loop around one with dots is a kernel's own way over its tiles.
bool isInnermost(const ir::Function &fn, OpId loop, const ir::Target &target) {
  return std::ranges::none_of(fn.opsIn(fn.region(loop)), [&](OpId op) { return hasDotsByItself(fn, op, target); });
}

// How often a loop of the kernel's body with dots runs differs from program to program.
bool isUneven(const ir::Function &fn, const ir::Target &target) {
  const DifferingValues differing(fn, {true, true, true});
  return std::ranges::any_of(fn.opsIn(fn.body()), [&](OpId op) {
    return fn.opcode(op) == Opcode::For && hasDotsByItself(fn, op, target) && differing.inTrips(op);
  });
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
  // Of lengths that memory tells a block may get the greatest all: the device's own order serves better.
  const DifferingValues differing(fn, {true, true, true}), told(fn, {false, false, false});
  bool multiplies = false;
  for (const OpId op : fn.walk()) {
    if ((fn.opcode(op) == Opcode::For || fn.opcode(op) == Opcode::If) && hasDotsByItself(fn, op, target)) {
      const bool isOuter = fn.block(op) == fn.body() && fn.opcode(op) == Opcode::For;
      multiplies |= isOuter;
      if ((isOuter && isInnermost(fn, op, target) ? told : differing).inTrips(op)) {
        return false;
      }
    }
  }
  // Additions tell nobody anything, but a loop with their addresses has no registers left for one around it: attention's way back
  // spills.
  return multiplies && std::ranges::none_of(fn.walk(), [&](OpId op) { return tellsOrder(fn, op) || namesRegisters(fn, op); });
}

// In front of the loop: its numbers are those of turns' first programs, and the last turn is left out by blocks that it has no program for.
static ValueId endOfTurns(Builder &builder, ValueId programs, ValueId worker, ValueId workers, ValueId shift) {
  const ValueId turns = builder.make(Opcode::UDiv, {programs, workers}), rest = builder.make(Opcode::URem, {programs, workers});
  const ValueId place = builder.make(Opcode::URem, {builder.make(Opcode::Add, {worker, builder.make(Opcode::Mul, {turns, shift})}), workers});
  const ValueId whole = builder.make(Opcode::Mul, {turns, workers});
  const ValueId more = builder.make(Opcode::Add, {whole, builder.i32(1)});
  return builder.make(Opcode::Select, {builder.cmp(ir::CmpPred::ult, place, rest), more, whole});
}

ProgramLoop loopOverPrograms(ir::Function &fn, const PassContext &context) {
  std::vector<OpId> ops = opsOf(fn, fn.body());
  ops.pop_back(); // return
  const bool rotates = isUneven(fn, context.target);
  Builder top(fn, fn.first(fn.body()));
  const ir::Type i32 = ir::Type::scalar(ir::Elem::I32);
  ValueId programs;
  for (const int64_t axis : {0, 1, 2}) {
    const ValueId extent = top.make(Opcode::NumPrograms, {}, i32);
    fn.setAttr(fn.def(extent), Attr::axis, ir::AttrValue(axis));
    programs = axis == 0 ? extent : top.make(Opcode::Mul, {programs, extent});
  }
  const ValueId worker = top.make(Opcode::Worker, {}, i32), step = top.make(Opcode::NumWorkers, {}, i32);
  const ValueId shift = top.i32(context.cluster); // programs of a cluster stay neighbours
  ProgramLoop made;
  made.loop = rotates ? top.op(Opcode::For, std::array{top.i32(0), endOfTurns(top, programs, worker, step, shift), step, worker}, std::array{i32})
                      : top.op(Opcode::For, std::array{worker, programs, step});
  const BlockId body = fn.region(made.loop);
  ValueId number = fn.addArg(body, i32);
  std::vector<ValueId> carried;
  if (rotates) {
    const ValueId place = fn.addArg(body, i32);
    Builder inner(fn, body);
    number = inner.make(Opcode::Add, {number, place});
    const ValueId next = inner.make(Opcode::Add, {place, shift});
    const ValueId within = inner.make(Opcode::Sub, {next, step});
    carried = {inner.make(Opcode::Select, {inner.cmp(ir::CmpPred::slt, next, step), next, within})};
    made.counting = opsOf(fn, body);
  }
  for (const OpId op : ops) {
    fn.unlink(op);
    fn.append(body, op);
  }
  Builder(fn, body).yield(carried);
  for (const OpId op : fn.walk(body)) {
    if (fn.opcode(op) == Opcode::ProgramId) {
      fn.addOperand(op, number);
    }
  }
  return made;
}

void leaveLoopOverPrograms(ir::Function &fn, const ProgramLoop &programs) {
  const OpId loop = programs.loop;
  for (const OpId op : fn.walk(fn.region(loop))) {
    if (fn.opcode(op) == Opcode::ProgramId) {
      fn.eraseOperand(op, 0);
    }
  }
  std::vector<OpId> ops = opsOf(fn, fn.region(loop));
  ops.pop_back(); // yield
  for (const OpId op : ops) {
    if (std::ranges::find(programs.counting, op) == programs.counting.end()) {
      fn.unlink(op);
      fn.insertBefore(loop, op);
    }
  }
  fn.erase(loop);
}

} // namespace libtile::passes
