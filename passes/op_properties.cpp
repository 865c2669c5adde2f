// SPDX-License-Identifier: Apache-2.0
#include "passes/op_properties.h"

#include "ir/ops.h"

#include <algorithm>
#include <array>

namespace libtile::passes {

using ir::CmpPred;
using ir::Opcode;

bool isLoop(Opcode opcode) { return opcode == Opcode::For || opcode == Opcode::While; }

bool isInLoop(const ir::Function &fn, ir::OpId op) {
  for (ir::OpId owner = fn.parentOp(fn.block(op)); owner.valid(); owner = fn.parentOp(fn.block(owner))) {
    if (isLoop(fn.opcode(owner))) {
      return true;
    }
  }
  return false;
}

bool commutes(Opcode opcode) {
  static constexpr std::array kOps = {Opcode::Add,  Opcode::Mul,  Opcode::And,
                                      Opcode::Or,   Opcode::Xor,  Opcode::SMin,
                                      Opcode::SMax, Opcode::UMin, Opcode::UMax};
  return std::ranges::find(kOps, opcode) != kOps.end();
}

std::optional<Opcode> commutativeCombination(const ir::Function &fn, ir::OpId reduce, unsigned i) {
  const ir::BlockId combine = fn.region(reduce);
  const ir::OpId yield = fn.last(combine);
  const ir::OpId op = fn.def(fn.operand(yield, i));
  if (!op.valid() || fn.numOperands(op) != 2 ||
      !(commutes(fn.opcode(op)) || fn.opcode(op) == Opcode::FMin || fn.opcode(op) == Opcode::FMax)) {
    return std::nullopt;
  }
  const ir::ValueId left = fn.arg(combine, i), right = fn.arg(combine, fn.numOperands(yield) + i);
  const ir::ValueId a = fn.operand(op, 0), b = fn.operand(op, 1);
  const bool ofBoth = (a == left && b == right) || (a == right && b == left);
  return ofBoth ? std::optional(fn.opcode(op)) : std::nullopt;
}

std::optional<Opcode> onlyCombination(const ir::Function &fn, ir::OpId reduce) {
  const ir::BlockId combine = fn.region(reduce);
  const bool alone = fn.results(reduce).size() == 1 && fn.next(fn.first(combine)) == fn.last(combine);
  return alone ? commutativeCombination(fn, reduce, 0) : std::nullopt;
}

bool combinesInAnyOrder(const ir::Function &fn, ir::OpId reduce) {
  bool all = true;
  for (unsigned i = 0; i < fn.results(reduce).size(); ++i) {
    all = all && commutativeCombination(fn, reduce, i).has_value();
  }
  return all || fn.getBool(reduce, ir::Attr::commutative);
}

bool associatesOnIntegers(Opcode opcode) { return commutes(opcode); }

namespace {

bool hasOrder(const ir::Function &fn, ir::OpId op, ir::MemOrder order) {
  if (!fn.hasAttr(op, ir::Attr::sem)) {
    return false;
  }
  const auto sem = fn.getEnum<ir::MemOrder>(op, ir::Attr::sem);
  return sem == order || sem == ir::MemOrder::acq_rel;
}

} // namespace

bool releases(const ir::Function &fn, ir::OpId op) {
  return hasOrder(fn, op, ir::MemOrder::release);
}

bool acquires(const ir::Function &fn, ir::OpId op) {
  return hasOrder(fn, op, ir::MemOrder::acquire) && !fn.results(op).empty() && !fn.unused(fn.result(op));
}

CmpPred swapped(CmpPred predicate) {
  switch (predicate) {
  case CmpPred::slt:
    return CmpPred::sgt;
  case CmpPred::sle:
    return CmpPred::sge;
  case CmpPred::sgt:
    return CmpPred::slt;
  case CmpPred::sge:
    return CmpPred::sle;
  case CmpPred::ult:
    return CmpPred::ugt;
  case CmpPred::ule:
    return CmpPred::uge;
  case CmpPred::ugt:
    return CmpPred::ult;
  case CmpPred::uge:
    return CmpPred::ule;
  case CmpPred::olt:
    return CmpPred::ogt;
  case CmpPred::ole:
    return CmpPred::oge;
  case CmpPred::ogt:
    return CmpPred::olt;
  case CmpPred::oge:
    return CmpPred::ole;
  case CmpPred::eq:
  case CmpPred::ne:
  case CmpPred::oeq:
  case CmpPred::one:
  case CmpPred::une:
    return predicate;
  }
  return predicate;
}

CmpPred inverted(CmpPred predicate) {
  switch (predicate) {
  case CmpPred::eq:
    return CmpPred::ne;
  case CmpPred::ne:
    return CmpPred::eq;
  case CmpPred::slt:
    return CmpPred::sge;
  case CmpPred::sle:
    return CmpPred::sgt;
  case CmpPred::sgt:
    return CmpPred::sle;
  case CmpPred::sge:
    return CmpPred::slt;
  case CmpPred::ult:
    return CmpPred::uge;
  case CmpPred::ule:
    return CmpPred::ugt;
  case CmpPred::ugt:
    return CmpPred::ule;
  case CmpPred::uge:
    return CmpPred::ult;
  case CmpPred::oeq:
    return CmpPred::une;
  case CmpPred::une:
    return CmpPred::oeq;
  case CmpPred::one:
  case CmpPred::olt:
  case CmpPred::ole:
  case CmpPred::ogt:
  case CmpPred::oge:
    return predicate;
  }
  return predicate;
}

} // namespace libtile::passes
