// SPDX-License-Identifier: Apache-2.0
// One exponential after the other is tried: its uses are followed, and a number is kept for each value on the way, of relaxed
// exponentials that are multiplied in it. The first use that no row of kRules allows, or the number of which is too large, ends the try.
#include "passes/gpu/relax_exponentials.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace libtile::passes {
namespace {

using ir::BlockId;
using ir::Builder;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::Use;
using ir::ValueId;

constexpr double kLog2E = 1.4426950408889634;

// What an op makes of a relative error of its operands. What has no row lets none pass.
enum class Rule : uint8_t {
  Stops,
  Ends,       // it is lost in a rounding
  Keeps,      // the largest one
  Multiplies, // their sum
  Adds,       // the largest one, if no operand is negative
};
struct Row {
  Opcode opcode;
  Rule rule;
};
constexpr std::array kRules = {
    Row{Opcode::Mul, Rule::Multiplies},   Row{Opcode::FDiv, Rule::Multiplies}, Row{Opcode::Add, Rule::Adds},
    Row{Opcode::Neg, Rule::Keeps},        Row{Opcode::Abs, Rule::Keeps},       Row{Opcode::FMin, Rule::Keeps},
    Row{Opcode::FMax, Rule::Keeps},       Row{Opcode::Sqrt, Rule::Keeps},      Row{Opcode::Rsqrt, Rule::Keeps},
    Row{Opcode::Select, Rule::Keeps},     Row{Opcode::Hint, Rule::Keeps},      Row{Opcode::Splat, Rule::Keeps},
    Row{Opcode::Broadcast, Rule::Keeps},  Row{Opcode::Reshape, Rule::Keeps},   Row{Opcode::Trans, Rule::Keeps},
    Row{Opcode::ExpandDims, Rule::Keeps}, Row{Opcode::Slice, Rule::Keeps},     Row{Opcode::Gather, Rule::Keeps},
    Row{Opcode::FpTrunc, Rule::Ends},     Row{Opcode::Float8Encode, Rule::Ends},
};

Rule ruleOf(std::optional<Opcode> opcode) {
  const auto row = std::ranges::find_if(kRules, [&](const Row &each) { return each.opcode == opcode; });
  return row == kRules.end() ? Rule::Stops : row->rule;
}

// Operands of a loop in front of what it carries, and arguments of a For's body.
unsigned firstInit(const ir::Function &fn, OpId loop) { return fn.opcode(loop) == Opcode::For ? 3 : 0; }
unsigned firstCarried(const ir::Function &fn, OpId loop) { return fn.opcode(loop) == Opcode::For ? 1 : 0; }
// Of a region's yield in front of the slots.
unsigned firstYielded(const ir::Function &fn, OpId owner) {
  return isLoop(fn.opcode(owner)) && fn.getBool(owner, ir::Attr::stop) ? 1 : 0;
}

// Collects what must not be negative for a value not to be.
class Signs {
public:
  explicit Signs(const ir::Function &fn) : fn_(fn) {}

  // Of a number; a NaN is not. What a loop carries is not negative if what it starts with and what an iteration makes of
  // such is not.
  [[nodiscard]] bool isNotNegative(ValueId value) {
    std::set<uint32_t> seen;
    work_ = {value};
    while (!work_.empty()) {
      const ValueId next = work_.back();
      work_.pop_back();
      if (seen.insert(next.index).second && !(fn_.isArg(next) ? isCarried(next) : follows(next))) {
        return false;
      }
    }
    return true;
  }

private:
  bool isCarried(ValueId argument) {
    const OpId loop = fn_.parentOp(fn_.defBlock(argument));
    if (!loop.valid() || !isLoop(fn_.opcode(loop)) || fn_.defIndex(argument) < firstCarried(fn_, loop)) {
      return false;
    }
    needSlot(loop, fn_.defIndex(argument) - firstCarried(fn_, loop));
    return true;
  }

  void needSlot(OpId owner, unsigned slot) {
    if (isLoop(fn_.opcode(owner))) {
      work_.push_back(fn_.operand(owner, firstInit(fn_, owner) + slot));
    }
    const auto regions = fn_.regions(owner);
    for (const BlockId region : fn_.opcode(owner) == Opcode::While ? regions.last(1) : regions) {
      work_.push_back(fn_.operand(fn_.last(region), firstYielded(fn_, owner) + slot));
    }
  }

  bool need(std::span<const ValueId> values) {
    work_.insert(work_.end(), values.begin(), values.end());
    return true;
  }

  [[nodiscard]] bool isPositiveConstant(ValueId value) const {
    const auto number = fn_.constantFloat(value);
    return number && *number >= 0 && !std::signbit(*number);
  }

  // By its op; operands that must not be negative for that are noted.
  bool follows(ValueId value) {
    const OpId op = fn_.def(value);
    const Opcode opcode = fn_.opcode(op);
    constexpr std::array kNever = {Opcode::Exp, Opcode::Exp2, Opcode::Sqrt, Opcode::Abs, Opcode::UIToFp};
    if (isPositiveConstant(value) || std::ranges::find(kNever, opcode) != kNever.end()) {
      return true;
    }
    if (opcode == Opcode::If || isLoop(opcode)) {
      needSlot(op, fn_.defIndex(value));
      return true;
    }
    if (opcode == Opcode::Reduce) {
      const auto combination = commutativeCombination(fn_, op, fn_.defIndex(value));
      constexpr std::array kStays = {Opcode::Add, Opcode::Mul, Opcode::FMin, Opcode::FMax};
      return combination && std::ranges::find(kStays, *combination) != kStays.end() &&
             need(fn_.operands(op).subspan(fn_.defIndex(value), 1));
    }
    if (opcode == Opcode::Select) {
      return need(fn_.operands(op).subspan(1));
    }
    if (opcode == Opcode::Gather) {
      return need(fn_.operands(op).first(1));
    }
    const bool isSquare = opcode == Opcode::Mul && fn_.operand(op, 0) == fn_.operand(op, 1);
    const bool isBounded = opcode == Opcode::FMax && std::ranges::any_of(fn_.operands(op), [&](ValueId operand) { return isPositiveConstant(operand); });
    if (isSquare || isBounded) {
      return true;
    }
    const bool keepsSigns = opcode == Opcode::FpExt || (ruleOf(opcode) != Rule::Stops && opcode != Opcode::Neg && opcode != Opcode::Float8Encode);
    return keepsSigns && need(fn_.operands(op));
  }

  const ir::Function &fn_;
  std::vector<ValueId> work_;
};

class Relaxer {
public:
  explicit Relaxer(ir::Function &fn) : fn_(fn), signs_(fn), factors_(fn.numValues()) {}

  bool run() {
    std::vector<OpId> relaxed;
    std::ranges::copy_if(fn_.walk(), std::back_inserter(relaxed), [&](OpId op) {
      return fn_.opcode(op) == Opcode::Exp && fn_.type(fn_.result(op)).elem() == Elem::F32 && endsInRoundings(fn_.result(op));
    });
    std::ranges::for_each(relaxed, [&](OpId op) { relax(op); });
    return !relaxed.empty();
  }

private:
  // Follows the exponential's result, beside those that are relaxed so far.
  bool endsInRoundings(ValueId result) {
    tried_ = factors_;
    work_.clear();
    raise(result, 1);
    while (!work_.empty()) {
      const ValueId value = work_.back();
      work_.pop_back();
      if (!std::ranges::all_of(fn_.uses(value), [&](Use use) { return passes(use); })) {
        return false;
      }
    }
    factors_ = tried_;
    return true;
  }

  bool raise(ValueId value, unsigned factors) {
    if (factors > kMostFactors) {
      return false;
    }
    if (tried_[value.index] < factors) {
      tried_[value.index] = factors;
      work_.push_back(value);
    }
    return true;
  }

  bool passes(Use use) {
    const Opcode opcode = fn_.opcode(use.op);
    if (opcode == Opcode::Yield) {
      const OpId owner = fn_.parentOp(fn_.block(use.op));
      return raiseSlot(owner, use.operand - firstYielded(fn_, owner), tried_[fn_.operand(use.op, use.operand).index]);
    }
    if (isLoop(opcode)) {
      return raiseSlot(use.op, use.operand - firstInit(fn_, use.op), tried_[fn_.operand(use.op, use.operand).index]);
    }
    if (opcode == Opcode::Reduce) {
      return passesFold(use);
    }
    const Rule rule = ruleOf(opcode);
    switch (rule) {
    case Rule::Stops:
      return false;
    case Rule::Ends:
      return opcode == Opcode::Float8Encode || fn_.type(fn_.result(use.op)).elementBits() <= 16;
    case Rule::Keeps:
    case Rule::Multiplies:
      break;
    case Rule::Adds:
      if (!std::ranges::all_of(fn_.operands(use.op), [&](ValueId value) { return signs_.isNotNegative(value); })) {
        return false;
      }
    }
    unsigned most = 0, sum = 0;
    for (const ValueId operand : fn_.operands(use.op)) {
      most = std::max(most, tried_[operand.index]);
      sum += tried_[operand.index];
    }
    return raise(fn_.result(use.op), rule == Rule::Multiplies ? sum : most);
  }

  bool passesFold(Use use) {
    const ValueId operand = fn_.operand(use.op, use.operand);
    const auto combination = commutativeCombination(fn_, use.op, use.operand);
    const bool isSum = combination == Opcode::Add && signs_.isNotNegative(operand);
    return isCombinedAlone(use) && (isSum || combination == Opcode::FMin || combination == Opcode::FMax) && raise(fn_.result(use.op, use.operand), tried_[operand.index]);
  }

  // What is combined for other results, an index for one, does not look at this operand.
  [[nodiscard]] bool isCombinedAlone(Use use) const {
    const BlockId combine = fn_.region(use.op);
    const OpId yield = fn_.last(combine);
    const std::array values = {fn_.arg(combine, use.operand), fn_.arg(combine, fn_.numOperands(yield) + use.operand), fn_.operand(yield, use.operand)};
    return std::ranges::all_of(values, [&](ValueId value) { return fn_.uses(value).size() == 1; });
  }

  // What a loop or a branch hands on.
  bool raiseSlot(OpId owner, unsigned slot, unsigned factors) {
    if (!isLoop(fn_.opcode(owner))) {
      return fn_.opcode(owner) == Opcode::If && raise(fn_.result(owner, slot), factors);
    }
    return raise(fn_.result(owner, slot), factors) && std::ranges::all_of(fn_.regions(owner), [&](BlockId region) {
             return raise(fn_.arg(region, firstCarried(fn_, owner) + slot), factors);
           });
  }

  void relax(OpId op) {
    Builder builder(fn_, op);
    const ValueId operand = fn_.operand(op, 0);
    const ValueId scaled = builder.make(Opcode::Mul, {operand, builder.constFloat(fn_.type(operand), kLog2E)});
    fn_.replaceAllUses(fn_.result(op), builder.make(Opcode::Exp2, {scaled}));
    fn_.erase(op);
  }

  ir::Function &fn_;
  Signs signs_;
  std::vector<unsigned> factors_, tried_; // of each value
  std::vector<ValueId> work_;
};

} // namespace

bool relaxExponentials(ir::Function &fn, const PassContext &) { return Relaxer(fn).run(); }

} // namespace libtile::passes
