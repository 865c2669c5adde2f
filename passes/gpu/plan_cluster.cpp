// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_cluster.h"

#include "ir/ops.h"
#include "passes/expand_assembly.h"
#include "passes/polynomial_code.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>

namespace libtile::passes {
namespace {

using ir::Opcode;
using ir::OpId;
using ir::ValueId;

constexpr std::array<bool, 3> kAlongCluster = {true, false, false};

// The terms of a coordinate that programs of the cluster may have different numbers of.
Polynomial differingTerms(const Polynomial &coordinate, const DifferingValues &differing) {
  Polynomial same = coordinate;
  for (const Monomial &monomial : coordinate.monomials()) {
    for (const ValueId factor : monomial.factors) {
      same = differing.contains(factor) ? same.without(factor) : same;
    }
  }
  return coordinate.minus(same).value();
}

// Straight code on scalars, outside of all loops, so that a program may compute what another one has.
bool isStraight(const ir::Function &fn, ValueId value, const DifferingValues &differing) {
  if (fn.isArg(value) || fn.block(fn.def(value)) != fn.body()) {
    return fn.isArg(value) && fn.defBlock(value) == fn.body();
  }
  const OpId op = fn.def(value);
  return !differing.contains(value) ||
         (fn.effects(op).pure() && fn.regions(op).empty() && fn.opcode(op) != Opcode::Worker && !namesRegisters(fn, op) &&
          std::ranges::all_of(fn.operands(op), [&](ValueId each) { return isStraight(fn, each, differing); }));
}

bool mayBeSame(const ir::Function &fn, const PlannedLoad &load, const DifferingValues &differing) {
  return std::ranges::all_of(load.box->coordinates, [&](const Polynomial &coordinate) {
    const Polynomial terms = differingTerms(coordinate, differing);
    return std::ranges::all_of(terms.monomials(), [&](const Monomial &monomial) {
      return std::ranges::all_of(monomial.factors, [&](ValueId factor) { return isStraight(fn, factor, differing); });
    });
  });
}

// "" or why not.
std::string refusalOf(const ir::Function &fn, const PassContext &context, const Plan &plan, const DifferingValues &differing) {
  if (context.cluster > context.target.mostCluster || !std::has_single_bit(static_cast<uint32_t>(context.cluster))) {
    return context.target.mostCluster == 0 ? context.target.name + " has no clusters"
                                           : "clusters have 1, 2, 4 or " + std::to_string(context.target.mostCluster) + " programs";
  }
  if (std::ranges::none_of(plan.loops, &LoopPlan::byProducer)) {
    return "no warp of its own copies boxes";
  }
  if (std::ranges::any_of(fn.walk(), [&](OpId op) { return tellsOrder(fn, op); })) {
    return "programs may wait for each other";
  }
  const bool sameTrips = std::ranges::none_of(plan.producer.loops, [&](const auto &loop) { return differing.inTrips(loop.first); });
  return sameTrips ? "" : "their loops may be of different length";
}

// What another program of the cluster has: its id differs in some of the bits below the cluster's size.
class OtherProgram {
public:
  OtherProgram(ir::Builder &builder, const DifferingValues &differing, const ir::IndexMap<ValueId, ValueId> &mapped, ValueId bits)
      : builder_(builder), differing_(differing), mapped_(mapped), bits_(bits) {}

  ValueId valueOf(ValueId value) {
    const ir::Function &fn = builder_.function();
    if (!differing_.contains(value)) {
      return own(value);
    }
    if (!known_[value].valid()) {
      const OpId op = fn.def(value);
      known_.set(value, fn.opcode(op) == Opcode::ProgramId ? builder_.make(Opcode::Xor, {own(value), bits_}) : computed(op, value));
    }
    return known_[value];
  }

  // What this program has.
  [[nodiscard]] ValueId own(ValueId value) const { return mapped_[value].valid() ? mapped_[value] : value; }

private:
  ValueId computed(OpId op, ValueId result) {
    ir::Function &fn = builder_.function();
    ir::IndexMap<ValueId, ValueId> operands;
    for (const ValueId operand : fn.operands(op)) {
      operands.set(operand, valueOf(operand));
    }
    const OpId copy = fn.copyOp(op, operands);
    builder_.insert(copy);
    return fn.result(copy, fn.defIndex(result));
  }

  ir::Builder &builder_;
  const DifferingValues &differing_;
  const ir::IndexMap<ValueId, ValueId> &mapped_;
  const ValueId bits_;
  ir::IndexMap<ValueId, ValueId> known_;
};

} // namespace

void planCluster(const ir::Function &fn, const PassContext &context, Plan &plan) {
  if (context.cluster <= 1) {
    return;
  }
  const DifferingValues differing(fn, kAlongCluster);
  std::string why = refusalOf(fn, context, plan, differing);
  for (LoopPlan &loop : plan.loops) {
    for (PlannedLoad &load : loop.loads) {
      load.shared = why.empty() && loop.byProducer && mayBeSame(fn, load, differing);
      plan.cluster = load.shared ? context.cluster : plan.cluster;
    }
  }
  if (plan.cluster == 1) {
    plan.refusals.push_back("programs of a cluster copy nothing for each other: " + (why.empty() ? "they want no box that is the same" : why));
  }
}

ClusterCode::ClusterCode(const Plan &plan, ir::Builder &builder, const ir::IndexMap<ValueId, ValueId> &mapped)
    : builder_(builder), mapped_(mapped), differing_(builder.function(), kAlongCluster), programs_(plan.cluster) {}

// A loop, as eight programs side by side have more numbers than a producer's registers.
ValueId ClusterCode::wantSame(const PlannedLoad &load) {
  ir::Function &fn = builder_.function();
  const ir::Type i1 = ir::Type::scalar(ir::Elem::I1);
  const ValueId size = builder_.make(Opcode::ClusterSize, {}, ir::Type::scalar(ir::Elem::I32));
  const ValueId whole = builder_.cmp(ir::CmpPred::eq, size, builder_.i32(programs_));
  const std::array<ValueId, 4> operands = {builder_.i32(1), builder_.i32(programs_), builder_.i32(1), whole};
  const OpId loop = builder_.op(Opcode::For, operands, std::array{i1});
  ir::Builder inside(fn, fn.region(loop));
  OtherProgram other(inside, differing_, mapped_, fn.addArg(fn.region(loop), ir::Type::scalar(ir::Elem::I32)));
  ValueId same = fn.addArg(fn.region(loop), i1);
  for (const Polynomial &coordinate : load.box->coordinates) {
    if (const Polynomial terms = differingTerms(coordinate, differing_); !terms.isZero()) {
      const ValueId own = makeNumber(inside, terms, [&](ValueId value) { return other.own(value); });
      const ValueId its = makeNumber(inside, terms, [&](ValueId value) { return other.valueOf(value); });
      same = inside.make(Opcode::And, {same, inside.cmp(ir::CmpPred::eq, own, its)});
    }
  }
  inside.yield(std::array{same});
  return fn.result(loop);
}

} // namespace libtile::passes
