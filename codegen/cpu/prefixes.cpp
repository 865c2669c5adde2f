// SPDX-License-Identifier: Apache-2.0
// A prefix: what came before is carried in registers from step to step. With lanes of its own a step is
// a vector, which is scanned by log2(lanes) shifts, each lane combined with the one `distance` before
// it; inside of lanes a step is one element in each lane. Reversed, steps and lanes go from the last
// element down, so the tail comes first: its lanes past the extent are left out, while going up nothing
// that is valid comes behind them.
//
// The carried tuple is combined with the vector's last lane alone, beside the results, so that the next
// step waits for one combination.
#include "codegen/cpu/emitter.h"
#include "ir/ops.h"

namespace libtile::codegen::cpu {

using ir::Attr;
using llvm::Value;

void Emitter::emitPrefix(ir::OpId op) {
  const bool ownLanes = lanes_.count == 1;
  const int64_t extent = fn_.getInt(op, Attr::extent);
  const auto lanes = ownLanes ? static_cast<unsigned>(fn_.getInt(op, Attr::lanes)) : 1U;
  ir::check(llvm::isPowerOf2_32(lanes), "a prefix's lanes are a power of two");
  const std::vector<llvm::Constant *> start = neutrals(op);
  std::vector<Value *> carried;
  for (ir::ValueId value : fn_.operands(fn_.last(fn_.region(op, 0)))) {
    llvm::Type *type = elementwise_.registerType(fn_.type(value));
    carried.push_back(splat(!start.empty() ? start[carried.size()] : llvm::Constant::getNullValue(type),
                            ownLanes ? lanes : lanes_.count));
  }
  const bool reverse = fn_.getBool(op, Attr::reverse);
  const int64_t full = extent / lanes * lanes;
  const auto tail = [&](bool first) {
    if (extent > full) {
      Value *isFirst = first && start.empty() ? builder_.getTrue() : nullptr;
      countedLoop({full, extent, lanes}, fn_.effects(op), carried, [&](Value *index) {
        prefixStep(op, index, lanes, static_cast<unsigned>(extent - full), isFirst, carried);
      });
    }
  };
  if (reverse) {
    tail(true);
  }
  if (full > 0) {
    const bool first = !reverse || full == extent;
    countedLoop({0, full, lanes}, fn_.effects(op), carried, [&](Value *step) {
      Value *isFirst = first && start.empty()
                           ? builder_.CreateICmpEQ(step, builder_.getInt64(0))
                           : nullptr;
      Value *last = builder_.getInt64(full - lanes);
      Value *index = reverse ? builder_.CreateSub(last, step, "", true, true) : step;
      prefixStep(op, index, lanes, lanes, isFirst, carried);
    });
  }
  if (!reverse) {
    tail(full == 0);
  }
}

void Emitter::prefixStep(ir::OpId op, Value *index, unsigned lanes, unsigned valid, Value *isFirst,
                         std::vector<Value *> &carried) {
  const ir::BlockId element = fn_.region(op, 0), write = fn_.region(op, 2);
  const bool ownLanes = lanes_.count == 1;
  Group outer = ownLanes ? enterLanes(lanes, valid, index) : group_;
  const auto bind = [&](ir::ValueId argument) {
    ownLanes ? bindLaneIndex(argument) : bindIndex(argument, index);
  };
  bind(fn_.arg(element, 0));
  emitBlock(element);
  std::vector<Value *> own = yielded(element, 0);
  if (lanes > 1) {
    own = scanLanes(op, std::move(own), lanes, valid);
  }
  const auto join = [&](const std::vector<Value *> &values) {
    std::vector<Value *> joined = combine(op, carried, values);
    for (size_t i = 0; isFirst != nullptr && i < joined.size(); ++i) {
      joined[i] = builder_.CreateSelect(isFirst, values[i], joined[i]);
    }
    return joined;
  };
  const std::vector<Value *> results = join(own);
  std::vector<Value *> next = results;
  if (lanes > 1) {
    const int last = fn_.getBool(op, Attr::reverse) ? 0 : static_cast<int>(lanes) - 1;
    const llvm::SmallVector<int, 64> everywhere(lanes, last);
    std::vector<Value *> total;
    for (Value *value : own) {
      total.push_back(builder_.CreateShuffleVector(value, everywhere));
    }
    next = join(total);
  }
  bind(fn_.arg(write, 0));
  for (size_t i = 0; i < results.size(); ++i) {
    define(fn_.arg(write, static_cast<unsigned>(i) + 1), results[i], depth(), true);
  }
  emitBlock(write);
  leaveLanes(std::move(outer));
  forgetValues();
  carried = next;
}

std::vector<Value *> Emitter::scanLanes(ir::OpId op, std::vector<Value *> values, unsigned lanes,
                                        unsigned valid) {
  const bool reverse = fn_.getBool(op, Attr::reverse);
  const std::vector<llvm::Constant *> numbers = neutrals(op);
  for (unsigned distance = 1; distance < lanes; distance *= 2) {
    llvm::SmallVector<int, 64> from;
    llvm::SmallVector<llvm::Constant *, 64> inside;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const bool has = reverse ? lane + distance < valid : lane >= distance;
      // Past the end of one vector begins the other: a shift of both, as targets have it.
      const unsigned other = (reverse ? lane + distance : lane + lanes - distance) % lanes;
      from.push_back(static_cast<int>(has ? other : !numbers.empty() ? lanes + other : lane));
      inside.push_back(builder_.getInt1(has));
    }
    std::vector<Value *> before;
    for (size_t i = 0; i < values.size(); ++i) {
      Value *none = !numbers.empty() ? splat(numbers[i], lanes) : values[i];
      before.push_back(builder_.CreateShuffleVector(values[i], none, from));
    }
    const std::vector<Value *> joined = combine(op, before, values);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = !numbers.empty() ? joined[i]
                                    : builder_.CreateSelect(llvm::ConstantVector::get(inside),
                                                            joined[i], values[i]);
    }
  }
  return values;
}

} // namespace libtile::codegen::cpu
