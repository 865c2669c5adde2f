// SPDX-License-Identifier: Apache-2.0
// contract: acc[m,n] += sum over kk < k of a[m,kk] * b[kk,n], the innermost of every dot.
//
// The op names its unit (ir::ContractUnit), of which all else follows: the instruction (multiply_add.cpp), how
// many elements of a and b a step along k takes.
//
// The accumulators of a register block, block_m rows of block_n columns, are read from acc once,
// stay in registers over all of k and are written back; those of an empty acc begin with zeros. A step along k reads the vectors of one row
// of b and, row by row, one word of a broadcast to all lanes; what the block needs besides the
// accumulators is thus one vector for each column of vectors and one more. block_m and block_n were
// chosen so that all that fits the registers (passes/cpu/contract_blocks.h has the shapes of the
// buffers).
//
// The block of columns is the outer loop: its panel of b is then the one that the caches hold on to
// while all rows pass over it.
//
// A unit with a bias, for an instruction that takes a's numbers unsigned, has sums that are too large by the bias
// times the column sums of b. That is what one more row of a would give, with the bias in every place: the
// instruction itself computes it, once for a block of columns, and all rows begin with that much less. It
// costs one row in all those of a. Integers wrap, so the sums are exact.
//
// A unit that flushes takes a block of columns only if there is nothing to flush (tiny_numbers.h); else the
// halves of the pairs are widened, multiplied and added one after the other, in the same blocks of columns.
//
// A contract that goes through more than the second cache holds finds each block of columns of b behind that. While the rows pass
// over one, each register block asks for its share of the next.
//
// Rows that are read in place have one address each in place of one for all. Where a contract has some, all have: the same
// code goes over what is read in place, then over what is packed; the sums go through acc in between.
//
// Blocks that begin behind the ends of rows and columns are left out, since nobody reads what they would sum up. The last
// columns, fewer than a block has, are taken one vector after the other. Rows behind whole blocks are taken by blocks of fewer rows,
// and so are all rows where that is rare.
//
// A unit of tiles has blocks of its own (contract_tiles.cpp).
#include "codegen/cpu/cache_line.h"
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/multiply_add.h"
#include "ir/ops.h"

#include "passes/cpu/contract_blocks.h"

#include <llvm/Support/MathExtras.h>

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::Elem;
using ir::ValueId;
using llvm::Value;

namespace {

// Rows of a register block that takes the place of one of tiles, three vectors wide at most.
constexpr unsigned kRowsForTiles = 8;

int64_t bytesOf(const ir::Type &matrix) { return int64_t{matrix.dim(0)} * matrix.dim(1) * matrix.elementBytes(); }

// Blocks of few rows for all of them, where the code of two kinds would not pay.
Contraction byRest(Contraction plan) {
  plan.blockM = unsigned(plan.rowBlocks.rest);
  plan.rowBlocks.whole = int32_t(plan.rows);
  return plan;
}

Contraction widened(const Contraction &whole) {
  Contraction plan = byRest(whole);
  if (plan.tileRows > 1) {
    plan.blockM = kRowsForTiles;
    plan.tileRows = plan.tileWords = 1;
  }
  plan.widens = true;
  plan.asksForColumns = false;
  plan.instruction = ir::MultiplyAdd::Lanes;
  return plan;
}

} // namespace

void Emitter::emitContract(ir::OpId op) {
  const ir::Type a = fn_.type(fn_.operand(op, 0));
  const ir::Type b = fn_.type(fn_.operand(op, 1));
  const ir::Type acc = fn_.type(fn_.operand(op, 2));
  const ir::ContractUnit &unit = passes::contractUnitOf(fn_, op, target_);
  ir::check(!unit.flushes || (unit.packed == Elem::BF16 && unit.group == 2),
            "a unit that flushes takes pairs of bf16");
  ir::check(unit.bias == 0 || unit.group > 1, "numbers with a bias lie in words");
  Contraction plan{};
  plan.instruction = unit.instruction;
  plan.a = scalar(fn_.operand(op, 0));
  plan.b = scalar(fn_.operand(op, 1));
  plan.acc = scalar(fn_.operand(op, 2));
  plan.packed = unit.packed;
  plan.accumulator = unit.accumulator;
  plan.group = unit.group;
  plan.rows = acc.dim(0);
  plan.columns = acc.dim(1);
  const unsigned firstEnd = passes::firstEndOf(fn_, op);
  if (fn_.numOperands(op) > firstEnd) {
    plan.rowsEnd = builder_.CreateSExt(scalar(fn_.operand(op, firstEnd)), builder_.getInt64Ty());
    plan.columnsEnd = builder_.CreateSExt(scalar(fn_.operand(op, firstEnd + 1)), builder_.getInt64Ty());
  }
  plan.asksForColumns = !unit.ofTiles() && bytesOf(a) + bytesOf(b) + bytesOf(acc) > target_.l2Bytes;
  plan.rowA = int64_t{a.dim(1)} * a.elementBytes();
  plan.rowB = int64_t{b.dim(1)} * b.elementBytes();
  plan.lanes = unit.lanes;
  plan.blockM = fn_.getInt(op, Attr::block_m);
  const int64_t blockN = fn_.getInt(op, Attr::block_n);
  plan.vectors = blockN / plan.lanes;
  plan.rowBlocks = *passes::rowBlocks(unit, acc.dim(0), int32_t(plan.blockM));
  plan.tileRows = unit.rows;
  plan.tileWords = unit.words;
  plan.tileRegisters = unit.registers;
  plan.effects = fn_.effects(op);
  const auto stepsOf = [&](unsigned operand) {
    Value *k = builder_.CreateZExt(scalar(fn_.operand(op, operand)), builder_.getInt64Ty());
    return plan.group > 1 ? builder_.CreateLShr(k, builder_.getInt64(llvm::Log2_32(plan.group))) : k;
  };
  plan.steps = stepsOf(3);
  plan.empty = scalar(fn_.operand(op, 4));
  if (const auto ahead = passes::rowsAheadOf(fn_, op)) {
    plan.rowsAhead = scalar(fn_.operand(op, *ahead));
    plan.soon = scalar(fn_.operand(op, *ahead + 1));
    plan.aheadBytes = fn_.getInt(op, Attr::ahead_bytes);
  }
  if (const auto findings = passes::findingsOf(fn_, op)) {
    plan.findingsOfA = openFindings(op, *findings);
    plan.findingsOfB = openFindings(op, *findings + 2);
    plan.findingsOfSums = openFindings(op, *findings + 4);
  }
  const auto rows = passes::rowsInPlaceOf(fn_, op);
  rows ? contractParts(plan, scalar(fn_.operand(op, *rows)), stepsOf(*rows + 1), unit) : contractColumns(plan, unit);
}

// What is read in place, then what is packed, by the same code: the rows of the buffer get addresses as well.
void Emitter::contractParts(const Contraction &whole, Value *rows, Value *direct, const ir::ContractUnit &unit) {
  std::vector<Value *> none;
  countedLoop({0, 2, 1}, whole.effects, none, [&](Value *turn) {
    Contraction plan = whole;
    const auto of = [&](Value *inPlace, Value *packed) { return builder_.CreateSelect(plan.inPlace, inPlace, packed); };
    const auto behind = [&](Value *base, int64_t stepBytes) {
      Value *bytes = builder_.CreateMul(direct, builder_.getInt64(stepBytes));
      return of(base, builder_.CreateGEP(builder_.getInt8Ty(), base, bytes));
    };
    plan.inPlace = builder_.CreateICmpEQ(turn, builder_.getInt64(0));
    plan.a = behind(whole.a, whole.groupBytes());
    plan.b = behind(whole.b, whole.rowB);
    plan.steps = of(direct, builder_.CreateSub(whole.steps, direct));
    plan.empty = of(whole.empty, builder_.CreateAnd(whole.empty, builder_.CreateICmpEQ(direct, builder_.getInt64(0))));
    branch(plan.inPlace, [] {}, [&] {
      restLoop(builder_.getInt64(0), rowsOf(plan), 1, plan.effects, none, [&](Value *m) {
        builder_.CreateStore(startsOfA(plan, m)[0], builder_.CreateGEP(builder_.getInt64Ty(), rows, m));
      });
    });
    plan.rowsOfA = rows;
    takeFindings(plan, turn);
    if (unit.ofTiles()) {
      branch(plan.inPlace, [&] { evenTiles(plan); }, [] {});
    }
    contractColumns(plan, unit);
  });
}

// Where a row of a lies in the buffer.
Value *Emitter::packedRow(const Contraction &plan, Value *m) {
  return builder_.CreateGEP(builder_.getInt8Ty(), plan.a, builder_.CreateMul(m, builder_.getInt64(plan.rowA)));
}

// A row that is read in place goes to where it would be packed; returns that place. It is whole vectors.
Value *Emitter::packRow(const Contraction &plan, Value *m) {
  llvm::Type *byte = builder_.getInt8Ty(), *vector = Elementwise::widen(byte, target_.vectorBytes);
  Value *from = builder_.CreateLoad(builder_.getPtrTy(), builder_.CreateGEP(builder_.getInt64Ty(), plan.rowsOfA, m));
  Value *to = packedRow(plan, m);
  Value *bytes = builder_.CreateMul(plan.steps, builder_.getInt64(plan.groupBytes()));
  std::vector<Value *> none;
  restLoop(builder_.getInt64(0), bytes, target_.vectorBytes, plan.effects, none, [&](Value *offset) {
    Value *numbers = builder_.CreateAlignedLoad(vector, builder_.CreateGEP(byte, from, offset), llvm::Align(1));
    builder_.CreateAlignedStore(numbers, builder_.CreateGEP(byte, to, offset), llvm::Align(1));
  });
  return to;
}

// By blocks of columns, if there is a step along k.
void Emitter::contractColumns(Contraction plan, const ir::ContractUnit &unit) {
  std::vector<Value *> none;
  // What is widened takes registers of its own, and is rare: rows in place are copied to where they would be packed.
  const auto inBuffer = [&] {
    Contraction packed = plan;
    packed.rowsOfA = nullptr;
    if (plan.rowsOfA != nullptr) {
      branch(plan.inPlace, [&] {
        restLoop(builder_.getInt64(0), rowsOf(plan), 1, plan.effects, none, [&](Value *m) { packRow(plan, m); });
      }, [] {});
    }
    return packed;
  };
  Value *leastOfA = nullptr;
  const auto block = [&](Value *n) {
    if (unit.flushes) {
      branch(nothingToFlush(plan, leastOfA, n), [&] { contractRows(plan, n); },
             [&] { contractRows(widened(inBuffer()), n); });
      return;
    }
    if (unit.bias != 0) {
      plan.biasSums = biasSums(plan, unit.bias, n);
      plan.readBias = unit.packsBias ? nullptr : biasWord(plan, unit.bias);
    }
    contractRows(plan, n);
  };
  const auto blocks = [&] {
    if (unit.flushes) {
      compareFindings(plan);
      leastOfA = known(fieldOf(plan.findingsOfA, builder_.getInt64(0)), plan.knowsA, [&] { return leastFieldOfA(plan); });
    }
    const int64_t width = int64_t{plan.vectors} * plan.lanes;
    if (plan.columnsEnd == nullptr || plan.vectors == 1 || unit.ofTiles()) {
      return countedLoop({0, plan.columns, width, plan.columnsEnd}, plan.effects, none, block);
    }
    Value *end = restEnd(plan.columnsEnd, plan.columns, plan.lanes);
    Value *whole = builder_.CreateSub(end, builder_.CreateURem(end, builder_.getInt64(width)));
    restLoop(builder_.getInt64(0), whole, width, plan.effects, none, block);
    plan = byRest(plan);
    plan.vectors = 1;
    plan.asksForColumns = false;
    restLoop(whole, end, plan.lanes, plan.effects, none, block);
  };
  branch(builder_.CreateICmpNE(plan.steps, builder_.getInt64(0)),
         [&] {
           unit.ofTiles() ? withTiles(plan, blocks) : blocks();
         },
         [] {});
}

// By blocks of rows, those behind the whole ones last.
void Emitter::contractRows(const Contraction &plan, Value *n) {
  std::vector<Value *> none;
  const auto whole = [&](Value *m) { plan.tileRows > 1 ? contractTiles(plan, m, n) : contractBlock(plan, m, n); };
  if (plan.rowBlocks.whole == plan.rows) {
    return countedLoop({0, plan.rows, plan.blockM, plan.rowsEnd}, plan.effects, none, whole);
  }
  Contraction rest = plan;
  rest.blockM = unsigned(plan.rowBlocks.rest);
  Value *begin = builder_.getInt64(plan.rowBlocks.whole), *end = rowsOf(plan);
  restLoop(builder_.getInt64(0), builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, end, begin), plan.blockM, plan.effects, none, whole);
  restLoop(begin, builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, end, begin), rest.blockM, plan.effects, none,
           [&](Value *m) { contractBlock(rest, m, n); });
}

// A word whose numbers are all the bias, in all lanes. That is their highest bit: adding it turns it over.
Value *Emitter::biasWord(const Contraction &plan, int32_t bias) {
  const llvm::APInt number(8 * unsigned(ir::byteSize(plan.packed)), uint64_t(bias));
  ir::check(number.isSignMask(), "a bias is the highest bit of a's numbers");
  return splat(builder_.getInt(llvm::APInt::getSplat(32, number)), plan.lanes);
}

// What the bias adds to the sums of a block of columns, whatever the row.
llvm::SmallVector<Value *, 6> Emitter::biasSums(const Contraction &plan, int32_t bias, Value *n) {
  Contraction row = plan;
  row.blockM = 1;
  row.wordOfA = biasWord(plan, bias);
  row.readBias = nullptr;
  llvm::Type *vector = Elementwise::widen(elementwise_.registerType(plan.accumulator), plan.lanes);
  std::vector<Value *> sums(plan.vectors, llvm::Constant::getNullValue(vector));
  Value *column = builder_.CreateMul(n, builder_.getInt64(plan.groupBytes()));
  contractLoop(row, {plan.a}, builder_.CreateGEP(builder_.getInt8Ty(), plan.b, column), sums);
  return {sums.begin(), sums.end()};
}

void Emitter::contractBlock(const Contraction &plan, Value *m, Value *n) {
  llvm::Type *byte = builder_.getInt8Ty();
  const auto at = [&](Value *base, Value *bytes) { return builder_.CreateGEP(byte, base, bytes); };
  const auto times = [&](Value *index, int64_t bytes) {
    return builder_.CreateMul(index, builder_.getInt64(bytes));
  };
  const int64_t accBytes = ir::byteSize(plan.accumulator);
  llvm::Type *vector = Elementwise::widen(elementwise_.registerType(plan.accumulator), plan.lanes);
  Value *corner = at(at(plan.acc, times(m, plan.columns * accBytes)), times(n, accBytes));
  const auto accAddress = [&](unsigned row, unsigned column) {
    return builder_.CreateConstGEP1_64(byte, corner,
                                       (row * plan.columns + column * plan.lanes) * accBytes);
  };
  const llvm::Align align(target_.vectorBytes);
  std::vector<Value *> sums;
  for (unsigned i = 0; i < plan.blockM * plan.vectors; ++i) {
    Value *place = accAddress(i / plan.vectors, i % plan.vectors);
    Value *sum = llvm::Constant::getNullValue(vector);
    if (!isAlways(plan.empty)) {
      Value *held = builder_.CreateAlignedLoad(vector, place, align);
      sum = isNever(plan.empty) ? held : builder_.CreateSelect(plan.empty, sum, held);
    }
    sums.push_back(plan.biasSums.empty() ? sum
                                         : builder_.CreateSub(sum, plan.biasSums[i % plan.vectors]));
  }
  askAhead(plan, m, n);
  askForColumns(plan, m, n);
  contractLoop(plan, startsOfA(plan, m), at(plan.b, times(n, plan.groupBytes())), sums);
  for (unsigned i = 0; i < sums.size(); ++i) {
    builder_.CreateAlignedStore(sums[i], accAddress(i / plan.vectors, i % plan.vectors), align);
  }
}

// The block's share of the next block of columns, by rows of b. It goes to the second cache: the first one has the columns in use.
void Emitter::askForColumns(const Contraction &plan, Value *m, Value *n) {
  if (!plan.asksForColumns) {
    return;
  }
  const auto shareUpTo = [&](Value *row) {
    return builder_.CreateUDiv(builder_.CreateMul(plan.steps, row), builder_.getInt64(plan.rows));
  };
  const int64_t width = int64_t{plan.vectors} * plan.lanes * plan.groupBytes();
  Value *column = builder_.CreateAdd(builder_.CreateMul(n, builder_.getInt64(plan.groupBytes())), builder_.getInt64(width));
  Value *end = shareUpTo(builder_.CreateAdd(m, builder_.getInt64(plan.blockM)));
  std::vector<Value *> none;
  restLoop(shareUpTo(m), end, 1, plan.effects, none, [&](Value *row) {
    Value *offset = builder_.CreateAdd(builder_.CreateMul(row, builder_.getInt64(plan.rowB)), column);
    Value *first = builder_.CreateGEP(builder_.getInt8Ty(), plan.b, offset);
    for (int64_t line = 0; line < width; line += kCacheLine) {
      askFor(builder_.CreateConstGEP1_64(builder_.getInt8Ty(), first, line), false, /*isNear=*/false);
    }
  });
}

// The lines that the block's sums are stored to soon: into the second cache, where they are for long enough.
void Emitter::askAhead(const Contraction &plan, Value *m, Value *n) {
  if (plan.rowsAhead == nullptr) {
    return;
  }
  constexpr int kForReading = 0, kIntoSecondCache = 2, kData = 1;
  branch(plan.soon, [&] {
    Value *first = builder_.CreateGEP(builder_.getInt64Ty(), plan.rowsAhead, m);
    Value *column = builder_.CreateMul(n, builder_.getInt64(plan.aheadBytes));
    for (unsigned row = 0; row < plan.blockM; ++row) {
      Value *begin = builder_.CreateLoad(builder_.getPtrTy(), builder_.CreateConstGEP1_64(builder_.getInt64Ty(), first, row));
      Value *part = builder_.CreateGEP(builder_.getInt8Ty(), begin, column);
      for (int64_t at = 0; at < plan.vectors * plan.lanes * plan.aheadBytes; at += kCacheLine) {
        Value *line = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), part, at);
        builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {line->getType()},
                                 {line, builder_.getInt32(kForReading), builder_.getInt32(kIntoSecondCache), builder_.getInt32(kData)});
      }
    }
  }, [] {});
}

// Where the block of a begins: its first row in the buffer, or each row in place.
llvm::SmallVector<Value *, 6> Emitter::startsOfA(const Contraction &plan, Value *m) {
  if (plan.rowsOfA == nullptr) {
    return {packedRow(plan, m)};
  }
  llvm::SmallVector<Value *, 6> rows;
  Value *first = builder_.CreateGEP(builder_.getInt64Ty(), plan.rowsOfA, m);
  for (unsigned row = 0; row < plan.blockM; ++row) {
    Value *address = builder_.CreateConstGEP1_64(builder_.getInt64Ty(), first, row);
    rows.push_back(builder_.CreateLoad(builder_.getPtrTy(), address));
  }
  return rows;
}

// Along k, from the block's first row of a and its first column of b. What is widened takes two turns for a
// pair, in the order of vdpbf16ps: the upper halves, then with a shift the lower ones.
void Emitter::contractLoop(const Contraction &plan, llvm::ArrayRef<Value *> startsOfA, Value *startB,
                           std::vector<Value *> &sums) {
  Value *turns = plan.widens ? builder_.CreateShl(plan.steps, builder_.getInt64(1)) : plan.steps;
  llvm::BasicBlock *entry = builder_.GetInsertBlock();
  llvm::BasicBlock *loop = newBlock("contract");
  llvm::BasicBlock *exit = newBlock("contract.end");
  builder_.CreateBr(loop);
  builder_.SetInsertPoint(loop);
  const auto carry = [&](Value *start) {
    llvm::PHINode *phi = builder_.CreatePHI(start->getType(), 2);
    phi->addIncoming(start, entry);
    return phi;
  };
  llvm::PHINode *left = carry(turns);
  // In place it is how far from their beginnings the rows are read.
  llvm::PHINode *rowOfA = carry(plan.rowsOfA != nullptr ? builder_.getInt64(0) : startsOfA[0]);
  llvm::PHINode *rowOfB = carry(startB);
  llvm::PHINode *shift = plan.widens ? carry(builder_.getInt32(0)) : nullptr;
  std::vector<llvm::PHINode *> phis;
  for (Value *&sum : sums) {
    phis.push_back(carry(sum));
    sum = phis.back();
  }
  const auto placeInA = [&](unsigned row) {
    return plan.rowsOfA != nullptr ? builder_.CreateGEP(builder_.getInt8Ty(), startsOfA[row], rowOfA)
                                : builder_.CreateConstGEP1_64(builder_.getInt8Ty(), rowOfA, row * plan.rowA);
  };
  contractStep(plan, placeInA, rowOfB, shift, sums);
  const auto advance = [&](llvm::PHINode *row, int64_t bytes) {
    Value *by = builder_.getInt64(bytes);
    if (plan.widens) {
      by = builder_.CreateSelect(builder_.CreateICmpEQ(shift, builder_.getInt32(0)),
                                 builder_.getInt64(0), by);
    }
    row->addIncoming(row->getType()->isPointerTy() ? builder_.CreateGEP(builder_.getInt8Ty(), row, by)
                                                   : builder_.CreateAdd(row, by),
                     loop);
  };
  advance(rowOfA, plan.groupBytes());
  advance(rowOfB, plan.rowB);
  if (plan.widens) {
    shift->addIncoming(builder_.CreateSub(builder_.getInt32(16), shift), loop);
  }
  Value *rest = builder_.CreateSub(left, builder_.getInt64(1));
  left->addIncoming(rest, loop);
  for (unsigned i = 0; i < sums.size(); ++i) {
    phis[i]->addIncoming(sums[i], loop);
  }
  builder_.CreateCondBr(builder_.CreateICmpNE(rest, builder_.getInt64(0)), loop, exit);
  builder_.SetInsertPoint(exit);
}

// A group of a is broadcast as one number of 32 bits. `shift`: brings the half that is widened to the top of
// its pair; bf16 is the upper half of f32.
void Emitter::contractStep(const Contraction &plan, llvm::function_ref<Value *(unsigned)> placeInA, Value *rowOfB,
                           Value *shift, std::vector<Value *> &sums) {
  llvm::Type *byte = builder_.getInt8Ty();
  llvm::Type *single = elementwise_.registerType(plan.packed);
  llvm::Type *element = plan.group > 1 ? builder_.getInt32Ty() : single;
  llvm::Type *vector = Elementwise::widen(element, plan.lanes);
  const llvm::Align align(ir::byteSize(plan.packed));
  const auto numbersAt = [&](llvm::Type *type, Value *place) -> Value * {
    Value *bits = builder_.CreateAlignedLoad(type, place, align);
    if (!plan.widens) {
      return bits;
    }
    const unsigned lanes = type->isVectorTy() ? plan.lanes : 1;
    Value *top = builder_.CreateShl(bits, splat(shift, lanes));
    return builder_.CreateBitCast(builder_.CreateAnd(top, elementwise_.intLike(top, 0xffff0000)),
                                  Elementwise::widen(builder_.getFloatTy(), lanes));
  };
  std::vector<Value *> columns;
  for (unsigned i = 0; i < plan.vectors; ++i) {
    const int64_t offset = int64_t{i} * plan.lanes * plan.groupBytes();
    columns.push_back(numbersAt(vector, builder_.CreateConstGEP1_64(byte, rowOfB, offset)));
  }
  for (unsigned row = 0; row < plan.blockM; ++row) {
    Value *number = plan.wordOfA;
    if (number == nullptr) {
      number = splat(numbersAt(element, placeInA(row)), plan.lanes);
      if (plan.readBias != nullptr) {
        number = builder_.CreateXor(number, plan.readBias);
      }
    }
    for (unsigned i = 0; i < plan.vectors; ++i) {
      Value *&sum = sums[row * plan.vectors + i];
      sum = multiplyAdd(builder_, plan.instruction, number, columns[i], sum);
    }
  }
}

} // namespace libtile::codegen::cpu
