// SPDX-License-Identifier: Apache-2.0
// The code that finds out whether there is something to flush. The least magnitudes of the packed operands
// and of the sums are taken beforehand: of a once, of b and acc for each block of columns, whose panel of b
// then lies in the cache for the contraction. The magnitude less one, as an unsigned number, sorts
// zeros last: a mask, a subtraction and a minimum for each vector. That is little beside the multiply-adds:
// a vector of b meets all rows, one of a all columns. Padding holds zeros.
#include "codegen/cpu/tiny_numbers.h"
#include "codegen/cpu/emitter.h"
#include "ir/ops.h"
#include "passes/cpu/contract_blocks.h"

namespace libtile::codegen::cpu {

using llvm::Value;

namespace {

// By lanes the least of `least` and of |x| - 1 where the mask is on; null: everywhere.
Value *leastOf(llvm::IRBuilder<> &builder, Value *bits, Value *least, Value *mask) {
  Value *one = llvm::ConstantInt::get(bits->getType(), 1);
  const unsigned width = bits->getType()->getScalarSizeInBits();
  Value *magnitude = builder.CreateAnd(bits, llvm::ConstantInt::get(bits->getType(), llvm::APInt::getSignedMaxValue(width)));
  if (mask != nullptr) {
    magnitude = builder.CreateSelect(mask, magnitude, llvm::Constant::getNullValue(bits->getType()));
  }
  return builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, least, builder.CreateSub(magnitude, one));
}

} // namespace

// nothingToFlush of tiny_numbers.h.
Value *Emitter::nothingToFlush(const Contraction &plan, Value *leastOfA, Value *n) {
  llvm::Type *byte = builder_.getInt8Ty();
  const int64_t word = 4; // a number of acc, a pair of b
  Value *offset = builder_.CreateMul(n, builder_.getInt64(word));
  const auto least = [&](Value *base, Value *rows, int64_t rowBytes, llvm::Type *element) {
    Panel panel{};
    panel.base = builder_.CreateGEP(byte, base, offset);
    panel.bytes = builder_.CreateMul(rows, builder_.getInt64(rowBytes));
    panel.rowBytes = rowBytes;
    panel.copies = plan.vectors;
    panel.copyBytes = plan.lanes * word;
    const unsigned lanes = target_.vectorBytes * 8 / element->getScalarSizeInBits();
    Value *none = llvm::Constant::getAllOnesValue(Elementwise::widen(element, lanes));
    return leastField(leastOfPanel(plan, panel, none));
  };
  Value *column = builder_.CreateUDiv(n, builder_.getInt64(plan.lanes)); // of vectors
  Value *leastOfB = known(fieldOf(plan.findingsOfB, column), plan.knowsB, [&] { return least(plan.b, plan.steps, plan.rowB, builder_.getInt16Ty()); });
  const auto atLeast = [&](Value *field, int32_t bound) {
    return builder_.CreateICmpUGE(field, builder_.getInt32(bound));
  };
  Value *products = atLeast(builder_.CreateAdd(leastOfA, leastOfB), kLeastProductFields);
  Value *operands = builder_.CreateAnd(atLeast(leastOfA, kLeastOperandField), atLeast(leastOfB, kLeastOperandField));
  Value *all = builder_.CreateAnd(products, operands);
  if (isAlways(plan.empty)) {
    return all;
  }
  Value *rows = isNever(plan.empty) ? rowsOf(plan) : builder_.CreateSelect(plan.empty, builder_.getInt64(0), rowsOf(plan));
  const auto inSums = [&] {
    return atLeast(least(plan.acc, rows, plan.columns * word, builder_.getInt32Ty()), kLeastSumField);
  };
  if (plan.findingsOfSums == nullptr) {
    return builder_.CreateAnd(all, inSums());
  }
  llvm::Type *number = builder_.getInt32Ty();
  Value *place = builder_.CreateGEP(number, plan.findingsOfSums, column), *no = builder_.getInt32(0);
  Value *isTold = builder_.CreateICmpNE(builder_.CreateLoad(number, place), no);
  Value *sums = known(place, isTold, [&] { return builder_.CreateZExt(inSums(), number); });
  Value *none = builder_.CreateAnd(all, builder_.CreateICmpNE(sums, no));
  builder_.CreateStore(builder_.CreateZExt(none, number), place);
  return none;
}

// ---- findings (passes/cpu/kept_findings.h); a row of a's and b's for each turn: steps and end, with which they were found, then fields

// A table among the operands, behind it whether it is of the same numbers. If not it tells nothing: there are no 0 steps.
Value *Emitter::openFindings(ir::OpId op, unsigned operand) {
  Value *table = scalar(fn_.operand(op, operand));
  const ir::Type type = fn_.type(fn_.operand(op, operand));
  branch(scalar(fn_.operand(op, operand + 1)), [] {}, [&] {
    builder_.CreateMemSet(table, builder_.getInt8(0), type.numElements() * int64_t{type.elementBytes()}, llvm::Align(4));
  });
  return table;
}

void Emitter::takeFindings(Contraction &plan, Value *turn) {
  if (plan.findingsOfA != nullptr) {
    const auto row = [&](Value *table, int64_t fields) {
      Value *words = builder_.CreateMul(turn, builder_.getInt64(passes::kFindingsHead + fields));
      return builder_.CreateGEP(builder_.getInt32Ty(), table, words);
    };
    plan.findingsOfA = row(plan.findingsOfA, 1);
    plan.findingsOfB = row(plan.findingsOfB, plan.columns / plan.lanes);
  }
}

// Numbers behind other steps, rows or columns were not looked at, or were in other blocks.
void Emitter::compareFindings(Contraction &plan) {
  if (plan.findingsOfA == nullptr) {
    return;
  }
  const auto compare = [&](Value *table, Value *end) {
    Value *same = builder_.getTrue();
    for (Value *number : {plan.steps, end}) {
      Value *now = builder_.CreateTrunc(number, builder_.getInt32Ty());
      same = builder_.CreateAnd(same, builder_.CreateICmpEQ(builder_.CreateLoad(now->getType(), table), now));
      builder_.CreateStore(now, table);
      table = builder_.CreateConstGEP1_64(now->getType(), table, 1);
    }
    return same;
  };
  plan.knowsA = compare(plan.findingsOfA, rowsOf(plan));
  plan.knowsB = compare(plan.findingsOfB, plan.columnsEnd != nullptr ? plan.columnsEnd : builder_.getInt64(plan.columns));
}

// The place of a field; null: there is no table.
Value *Emitter::fieldOf(Value *table, Value *field) {
  if (table == nullptr) {
    return nullptr;
  }
  return builder_.CreateGEP(builder_.getInt32Ty(), table, builder_.CreateAdd(field, builder_.getInt64(passes::kFindingsHead)));
}

// What is at the place, found out if it is not known, or has none.
Value *Emitter::known(Value *place, Value *isKnown, llvm::function_ref<Value *()> find) {
  if (place == nullptr) {
    return find();
  }
  branch(isKnown, [] {}, [&] { builder_.CreateStore(find(), place); });
  return builder_.CreateLoad(builder_.getInt32Ty(), place);
}

// Those of the blocks that run.
Value *Emitter::rowsOf(const Contraction &plan) {
  return restEnd(plan.rowsEnd, plan.rows, plan.rowBlocks.both);
}

// A column of vectors at a time, a block of rows at once; rows of tiles in place one after the other, as memory has them. The
// last column ends at k, wherever that is in its vector: what lies behind is not packed. By tiles k is whole vectors.
Value *Emitter::leastFieldOfA(const Contraction &plan) {
  const unsigned lanes = target_.vectorBytes / 2;
  llvm::Type *vector = Elementwise::widen(builder_.getInt16Ty(), lanes);
  std::vector<Value *> least{llvm::Constant::getAllOnesValue(vector)};
  Value *k = builder_.CreateShl(plan.steps, builder_.getInt64(1));
  Value *whole = builder_.CreateAnd(builder_.CreateAdd(k, builder_.getInt64(lanes - 1)),
                                    builder_.getInt64(-int64_t{lanes}));
  const auto maskAt = [&](Value *column) {
    Value *left = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, builder_.CreateSub(k, column),
                                                 builder_.getInt64(lanes));
    Value *end = splat(builder_.CreateTrunc(left, builder_.getInt16Ty()), lanes);
    return builder_.CreateICmpULT(builder_.CreateStepVector(vector), end);
  };
  const bool ofTiles = plan.tileRows > 1;
  const auto together = unsigned(plan.rowBlocks.rest); // all of whole blocks are whole ones of these, too
  if (plan.rowsOfA != nullptr) {
    Contraction part = plan;
    part.blockM = ofTiles ? 1 : together;
    restLoop(builder_.getInt64(0), rowsOf(plan), part.blockM, plan.effects, least, [&](Value *m) {
      const auto starts = startsOfA(part, m);
      restLoop(builder_.getInt64(0), whole, lanes, plan.effects, least, [&](Value *column) {
        Value *mask = ofTiles ? nullptr : maskAt(column);
        for (Value *start : starts) {
          Value *place = builder_.CreateGEP(builder_.getInt16Ty(), start, column);
          least[0] = leastOf(builder_, builder_.CreateAlignedLoad(vector, place, llvm::Align(2)), least[0], mask);
        }
      });
    });
    return leastField(least[0]);
  }
  restLoop(builder_.getInt64(0), whole, lanes, plan.effects, least, [&](Value *column) {
    Panel panel{};
    panel.base = builder_.CreateGEP(builder_.getInt16Ty(), plan.a, column);
    panel.bytes = builder_.CreateMul(rowsOf(plan), builder_.getInt64(plan.rowA));
    panel.rowBytes = together * plan.rowA;
    panel.copies = together;
    panel.copyBytes = plan.rowA;
    panel.mask = maskAt(column);
    least[0] = leastOfPanel(plan, panel, least[0]);
  });
  return leastField(least[0]);
}

// By lanes the least of `least` and of all |x| - 1. The vectors of a row are unrolled.
Value *Emitter::leastOfPanel(const Contraction &plan, const Panel &panel, Value *least) {
  llvm::Type *vector = least->getType();
  const llvm::Align align(vector->getScalarSizeInBits() / 8);
  std::vector<Value *> carried{least};
  const auto row = [&](Value *offset) {
    Value *first = builder_.CreateGEP(builder_.getInt8Ty(), panel.base, offset);
    for (int64_t copy = 0; copy < panel.copies; ++copy) {
      Value *place = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), first, copy * panel.copyBytes);
      carried[0] = leastOf(builder_, builder_.CreateAlignedLoad(vector, place, align), carried[0], panel.mask);
    }
  };
  restLoop(builder_.getInt64(0), panel.bytes, panel.rowBytes, plan.effects, carried, row);
  return carried[0];
}

// The exponent field of the least number other than 0, as an i32; if there is none, one beyond all fields.
Value *Emitter::leastField(Value *least) {
  Value *lane = builder_.CreateIntMinReduce(least);
  const unsigned bits = lane->getType()->getScalarSizeInBits();
  Value *magnitude = builder_.CreateAdd(builder_.CreateZExt(lane, builder_.getInt64Ty()), builder_.getInt64(1));
  const unsigned fieldBits = 8;
  return builder_.CreateTrunc(builder_.CreateLShr(magnitude, builder_.getInt64(bits - 1 - fieldBits)),
                              builder_.getInt32Ty());
}

} // namespace libtile::codegen::cpu
