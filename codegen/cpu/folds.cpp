// SPDX-License-Identifier: Apache-2.0
// A fold: accumulators in registers, one set for each unrolled step and lane, combined in a fixed
// order at the end: step sets first, two by two, then lanes by halves. With fewer sets than steps the
// elements of one round are combined two by two before they meet the accumulators. So the order depends on the op's own
// attributes and on where its masks end (nests.cpp: vectors past that go to the first set), never on
// the elements.
//
// The first element starts the fold: by the neutral element of the combine region if it is one op
// that has one, else by a select in the first step. Inside of lanes the fold runs element after
// element in each lane.
//
// The maximum of numbers, which passes over NaN, is three instructions of x86, whose own maximum gives its second operand where either
// is a NaN. One is enough where that operand is never a NaN, so such a fold begins with minus infinity. If that is also what it ends with there was
// no greater number, perhaps none at all, and the fold is made again, from its neutral element.
#include "codegen/cpu/emitter.h"
#include "ir/ops.h"

#include <llvm/TargetParser/Triple.h>

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::Elem;
using ir::Opcode;
using ir::ValueId;
using llvm::Value;

namespace {

// x such that op(x, y) = y for all y, in the number's own bits.
llvm::Constant *neutralOf(Elementwise &elementwise, Opcode opcode, bool nan, ir::Type type) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto integer = [&](const llvm::APInt &value) -> llvm::Constant * {
    return llvm::ConstantInt::get(elementwise.registerType(type), value);
  };
  const auto floating = [&](double value) { return elementwise.floatConstant(type.elem(), value); };
  const double quietNan = std::numeric_limits<double>::quiet_NaN();
  const unsigned width = ir::bitWidth(type.elem());
  if (type.isPointer()) {
    return nullptr;
  }
  if (opcode == Opcode::Add) {
    return type.isFloating() ? floating(-0.0) : integer(llvm::APInt(width, 0));
  }
  if (opcode == Opcode::Mul) {
    return type.isFloating() ? floating(1.0) : integer(llvm::APInt(width, 1));
  }
  if (opcode == Opcode::FMax || opcode == Opcode::FMin) {
    return floating(!nan ? quietNan : opcode == Opcode::FMax ? -infinity : infinity);
  }
  if (opcode == Opcode::SMax) {
    return integer(llvm::APInt::getSignedMinValue(width));
  }
  if (opcode == Opcode::SMin) {
    return integer(llvm::APInt::getSignedMaxValue(width));
  }
  if (opcode == Opcode::UMin || opcode == Opcode::And) {
    return integer(llvm::APInt::getAllOnes(width));
  }
  if (opcode == Opcode::UMax || opcode == Opcode::Or || opcode == Opcode::Xor) {
    return integer(llvm::APInt(width, 0));
  }
  return nullptr;
}

// Whether an op of the fold's elements does the same a second time. What is written is, unless the elements are computed from it.
bool repeats(const ir::Function &fn, ir::OpId fold, ir::OpId op) {
  const Opcode opcode = fn.opcode(op);
  if (opcode != Opcode::ElementWrite) {
    return opcode == Opcode::Yield || (fn.effects(op).removable() && !fn.hasAttr(op, Attr::within));
  }
  return llvm::none_of(fn.uses(fn.operand(op, 0)), [&](const ir::Use &use) {
    return fn.opcode(use.op) != Opcode::ElementWrite && fn.isInside(fn.block(use.op), fn.region(fold, 0));
  });
}

// Whether a fold is the extreme of numbers alone, and might as well be made twice.
bool isExtremeOfNumbers(const ir::Function &fn, ir::OpId fold) {
  const ir::BlockId block = fn.region(fold, 1);
  const ir::OpId op = fn.first(block);
  const bool isExtreme = op.valid() && (fn.opcode(op) == Opcode::FMax || fn.opcode(op) == Opcode::FMin) && !fn.getBool(op, Attr::nan);
  if (!isExtreme || fn.args(block).size() != 2 || fn.operand(fn.last(block), 0) != fn.result(op) ||
      fn.operand(op, 0) == fn.operand(op, 1)) {
    return false;
  }
  const Elem elem = fn.type(fn.result(op)).elem();
  return (elem == Elem::F32 || elem == Elem::F64) && llvm::all_of(fn.walk(fn.region(fold, 0)), [&](ir::OpId one) { return repeats(fn, fold, one); });
}

// The greater of a number and what may be none; the number where neither is greater.
Value *extremeOf(llvm::IRBuilder<> &builder, bool isMax, Value *number, Value *other) {
  Value *better = isMax ? builder.CreateFCmpOGT(other, number) : builder.CreateFCmpOLT(other, number);
  return builder.CreateSelect(better, other, number);
}

} // namespace

// Of each result; empty unless all have one.
std::vector<llvm::Constant *> Emitter::neutrals(ir::OpId fold) {
  const ir::BlockId block = fn_.region(fold, 1);
  const size_t count = fn_.args(block).size() / 2;
  std::vector<llvm::Constant *> found;
  for (size_t i = 0; i < count; ++i) {
    const ir::OpId op = fn_.def(fn_.operand(fn_.last(block), i));
    const ValueId left = fn_.arg(block, i);
    const ValueId right = fn_.arg(block, count + i);
    if (!op.valid() || fn_.block(op) != block || fn_.numOperands(op) != 2) {
      return {};
    }
    const bool plain = fn_.operand(op, 0) == left && fn_.operand(op, 1) == right;
    const bool swapped = fn_.operand(op, 0) == right && fn_.operand(op, 1) == left;
    llvm::Constant *one = plain || swapped ? neutralOf(elementwise_, fn_.opcode(op), fn_.getBool(op, Attr::nan), fn_.type(left)) : nullptr;
    if (one == nullptr) {
      return {};
    }
    found.push_back(one);
  }
  return found;
}

FoldPlan Emitter::planFold(ir::OpId op) {
  FoldPlan plan{op, fn_.getInt(op, Attr::extent), 1, 1, 1, lanes_.count == 1, neutrals(op)};
  if (plan.ownLanes) {
    plan.lanes = std::max<int64_t>(fn_.getInt(op, Attr::lanes), 1);
  }
  ir::check(llvm::isPowerOf2_32(plan.lanes), "a fold's lanes are a power of two");
  const int64_t full = plan.extent / plan.lanes;
  const int64_t wanted = std::min(std::max<int64_t>(fn_.getInt(op, Attr::unroll), 1), full);
  for (int64_t unroll = 1; unroll <= wanted; ++unroll) {
    // A divisor of the steps, or else a short rest after a loop.
    plan.unroll = full % unroll == 0 || full >= 4 * unroll ? unroll : plan.unroll;
  }
  plan.sets = plan.unroll;
  if (fn_.hasAttr(op, Attr::sets)) {
    plan.sets = std::min<int64_t>(plan.sets, fn_.getInt(op, Attr::sets));
  }
  return plan;
}

void Emitter::emitFold(ir::OpId op) {
  const FoldPlan plan = planFold(op);
  const bool asNumbers = plan.ownLanes && plan.lanes > 1 && llvm::Triple(target_.triple).isX86() && isExtremeOfNumbers(fn_, op);
  const std::vector<Value *> values = asNumbers ? foldNumbers(plan) : foldAll(plan);
  for (size_t i = 0; i < values.size(); ++i) {
    define(fn_.result(op, i), values[i], depth(), !plan.ownLanes);
  }
}

std::vector<Value *> Emitter::foldNumbers(const FoldPlan &plan) {
  FoldPlan numbers = plan;
  const Opcode extreme = fn_.opcode(fn_.first(fn_.region(plan.op, 1)));
  llvm::Constant *least = neutralOf(elementwise_, extreme, true, fn_.type(fn_.result(plan.op)));
  numbers.neutrals = {least};
  numbers.numbers = true;
  numbers.sets = numbers.unroll; // elements meet no other ones, which may be no numbers
  Value *found = foldAll(numbers)[0];
  Value *again = nullptr;
  const size_t before = scopes_.back().values.size();
  const auto [taken, skipped] = branch(builder_.CreateFCmpOEQ(found, least), [&] { again = foldAll(plan)[0]; }, [] {}, unlikely());
  forgetValues(before);
  llvm::PHINode *either = builder_.CreatePHI(found->getType(), 2);
  either->addIncoming(again, taken);
  either->addIncoming(found, skipped);
  return {either};
}

std::vector<Value *> Emitter::foldAll(const FoldPlan &plan) {
  const ir::OpId op = plan.op;
  const unsigned width = plan.ownLanes ? plan.lanes : lanes_.count;
  std::vector<Value *> accumulators;
  for (unsigned set = 0; set < plan.sets; ++set) {
    for (size_t i = 0; i < fn_.results(op).size(); ++i) {
      llvm::Constant *start =
          !plan.neutrals.empty()
              ? plan.neutrals[i]
              : llvm::Constant::getNullValue(elementwise_.registerType(fn_.type(fn_.result(op, i))));
      accumulators.push_back(splat(start, width));
    }
  }
  const int64_t lanes = plan.lanes;
  const int64_t full = plan.extent / lanes * lanes;
  const int64_t unrolled = full / (lanes * plan.unroll) * (lanes * plan.unroll);
  if (plan.ownLanes && !plan.neutrals.empty() && unrolled > lanes * plan.unroll) {
    foldWithinLimits(plan, unrolled, full, accumulators);
  } else {
    if (unrolled > 0) {
      foldSteps(plan, {0, unrolled, lanes * plan.unroll}, plan.unroll, lanes, true, accumulators);
    }
    if (full > unrolled) {
      foldSteps(plan, {unrolled, full, lanes}, 1, lanes, false, accumulators);
    }
  }
  if (plan.extent > full) {
    foldSteps(plan, {full, plan.extent, lanes}, 1, plan.extent - full, full == 0, accumulators);
  }
  Group outer = plan.ownLanes ? enterLanes(plan.lanes, plan.lanes, nullptr) : group_;
  std::vector<Value *> values = combinePairs(plan, std::move(accumulators), 1);
  leaveLanes(std::move(outer));
  if (plan.ownLanes) {
    combineLanes(plan, values, plan.lanes, std::min<int64_t>(plan.extent, plan.lanes));
  }
  return values;
}

void Emitter::foldWithinLimits(const FoldPlan &plan, int64_t unrolled, int64_t full,
                               std::vector<Value *> &accumulators) {
  limitedLoop({0, unrolled, plan.lanes * plan.unroll}, full, endOf(plan.op), plan.op, accumulators,
              [&](Value *index, unsigned copies, Limits *limits) {
                foldStep(plan, index, copies, plan.lanes, nullptr, accumulators, limits);
              },
              [&](Value *index) { foldStep(plan, index, 1, plan.lanes, nullptr, accumulators); });
}

// `first`: the range holds the fold's first element.
void Emitter::foldSteps(const FoldPlan &plan, Range range, unsigned copies, unsigned valid,
                        bool first, std::vector<Value *> &accumulators) {
  countedLoop(range, fn_.effects(plan.op), accumulators, [&](Value *index) {
    Value *isFirst = nullptr;
    if (first && plan.neutrals.empty()) {
      isFirst = builder_.CreateICmpEQ(index, builder_.getInt64(0));
    }
    foldStep(plan, index, copies, valid, isFirst, accumulators);
  });
}

// The vectors' elements into the sets. Inside of lanes the copies follow each other.
void Emitter::foldStep(const FoldPlan &plan, Value *index, unsigned copies, unsigned valid,
                       Value *isFirst, std::vector<Value *> &accumulators, Limits *limits) {
  const ir::BlockId element = fn_.region(plan.op, 0);
  const size_t count = fn_.results(plan.op).size();
  const auto setOf = [&](unsigned copy) {
    return llvm::MutableArrayRef(accumulators).slice(copy % plan.sets * count, count);
  };
  if (plan.ownLanes && plan.lanes > 1) {
    const bool isRest = copies != plan.unroll || valid != plan.lanes;
    Group outer = enterLanes(plan.lanes, valid, index, copies, limits, plan.extent, nullptr, isRest);
    bindLaneIndex(fn_.arg(element, 0));
    emitBlock(element);
    std::vector<Value *> elements;
    eachVector([&](unsigned) {
      const std::vector<Value *> made = yielded(element, 0);
      elements.insert(elements.end(), made.begin(), made.end());
    });
    group_.resize(1);
    elements = combinePairs(plan, std::move(elements), plan.sets);
    for (unsigned set = 0; set < elements.size() / count; ++set) {
      accumulate(plan, valid, isFirst, llvm::ArrayRef(elements).slice(set * count, count),
                 setOf(set));
    }
    leaveLanes(std::move(outer));
    forgetValues();
    return;
  }
  for (unsigned copy = 0; copy < copies; ++copy) {
    Value *at = builder_.CreateAdd(index, builder_.getInt64(copy * plan.lanes), "", true, true);
    Group outer = plan.ownLanes ? enterLanes(1, valid, at, 1, limits) : group_;
    if (plan.ownLanes) {
      bindLaneIndex(fn_.arg(element, 0));
    } else {
      bindIndex(fn_.arg(element, 0), at);
    }
    emitBlock(element);
    accumulate(plan, valid, isFirst, yielded(element, 0), setOf(copy));
    leaveLanes(std::move(outer));
    forgetValues();
  }
}

std::vector<Value *> Emitter::combinePairs(const FoldPlan &plan, std::vector<Value *> values, size_t sets) {
  const size_t count = fn_.results(plan.op).size();
  while (values.size() > sets * count) {
    std::vector<Value *> next;
    for (size_t i = 0; i < values.size(); i += 2 * count) {
      const llvm::ArrayRef<Value *> left = llvm::ArrayRef(values).slice(i, count);
      std::vector<Value *> both = left;
      if (i + count < values.size()) {
        both = combined(plan, left, llvm::ArrayRef(values).slice(i + count, count));
      }
      next.insert(next.end(), both.begin(), both.end());
    }
    values = std::move(next);
  }
  return values;
}

// Elements into their set.
void Emitter::accumulate(const FoldPlan &plan, unsigned valid, Value *isFirst,
                         llvm::ArrayRef<Value *> elements,
                         llvm::MutableArrayRef<Value *> accumulators) {
  const std::vector<Value *> joined = combined(plan, accumulators, elements);
  for (size_t i = 0; i < accumulators.size(); ++i) {
    Value *result = joined[i];
    if (plan.ownLanes && valid < plan.lanes) {
      llvm::SmallVector<llvm::Constant *, 64> inside;
      for (unsigned lane = 0; lane < plan.lanes; ++lane) {
        inside.push_back(builder_.getInt1(lane < valid));
      }
      result = builder_.CreateSelect(llvm::ConstantVector::get(inside), result, accumulators[i]);
    }
    accumulators[i] =
        isFirst != nullptr ? builder_.CreateSelect(isFirst, elements[i], result) : result;
  }
}

// Left are accumulators.
std::vector<Value *> Emitter::combined(const FoldPlan &plan, llvm::ArrayRef<Value *> left, llvm::ArrayRef<Value *> right) {
  return plan.numbers ? std::vector{extremeOf(builder_, fn_.opcode(fn_.first(fn_.region(plan.op, 1))) == Opcode::FMax, left[0], right[0])}
                      : combine(plan.op, left, right);
}

std::vector<Value *> Emitter::combine(ir::OpId fold, llvm::ArrayRef<Value *> left,
                                      llvm::ArrayRef<Value *> right) {
  const ir::BlockId block = fn_.region(fold, 1);
  const size_t before = scopes_.back().values.size();
  for (size_t i = 0; i < left.size(); ++i) {
    define(fn_.arg(block, i), left[i], depth(), true);
    define(fn_.arg(block, left.size() + i), right[i], depth(), true);
  }
  emitBlock(block);
  const std::vector<Value *> values = yielded(block, 0);
  forgetValues(before);
  return values;
}

void Emitter::combineLanes(const FoldPlan &plan, std::vector<Value *> &values, unsigned lanes,
                           int64_t valid) {
  while (lanes > 1) {
    const unsigned half = lanes / 2;
    std::vector<Value *> low, high;
    for (Value *value : values) {
      llvm::SmallVector<int, 64> mask;
      for (unsigned i = 0; i < lanes; ++i) {
        mask.push_back(static_cast<int>(i));
      }
      const auto take = [&](llvm::ArrayRef<int> part) -> Value * {
        return half == 1 ? builder_.CreateExtractElement(value, part[0])
                         : builder_.CreateShuffleVector(value, part);
      };
      low.push_back(take(llvm::ArrayRef(mask).take_front(half)));
      high.push_back(take(llvm::ArrayRef(mask).drop_front(half)));
    }
    Group outer = enterLanes(half, half, nullptr);
    values = combined(plan, low, high);
    leaveLanes(std::move(outer));
    if (valid < lanes) {
      llvm::SmallVector<llvm::Constant *, 64> both;
      for (unsigned i = 0; i < half; ++i) {
        both.push_back(builder_.getInt1(i + half < valid));
      }
      llvm::Constant *mask = half == 1 ? both[0] : llvm::ConstantVector::get(both);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = builder_.CreateSelect(mask, values[i], low[i]);
      }
    }
    valid = std::min<int64_t>(valid, half);
    lanes = half;
  }
}

} // namespace libtile::codegen::cpu
