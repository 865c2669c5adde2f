// SPDX-License-Identifier: Apache-2.0
// Sorts rows in scratch: Batcher's bitonic network, in the form in which every exchange puts the
// smaller key into the lower place. Merging two sorted runs of `half` elements compares element i of the
// first with element half - 1 - i of the second, then elements that are half/2, half/4, ... 1 apart.
//
// Distances below the lanes are shuffles of one vector, larger ones pairs of vectors. Loops go over
// runs, distances and vectors, so code does not grow with the row. Blocks that the first cache holds are
// sorted one after the other, and in a merge of longer runs the distances inside of blocks go block by
// block, too.
//
// The least of a row: its first elements, sorted, are the least so far. Of what follows, a vector that has no element below
// the last of these that is wanted is passed over, unless rows are so short that it is anyone's guess: the processor waits for
// the merge before to find out that its own was wrong. The others gather until there are as many elements. Those are sorted; where they meet the
// least, counting down, the lesser ones are the least of both, and are merged. So a row in no order costs little
// more than to read it, one in falling order as much as to sort each part of it.
#include "codegen/cpu/emitter.h"
#include "ir/ops.h"

namespace libtile::codegen::cpu {

using llvm::Value;

namespace {

constexpr int64_t kBlockBytes = 16384;

class RowSorter {
public:
  RowSorter(llvm::IRBuilder<> &builder, llvm::Function *function, llvm::Type *key, unsigned lanes,
            int64_t extent)
      : b_(builder), function_(function), lanes_(lanes), vectors_(extent / lanes),
        vector_(llvm::FixedVectorType::get(key, lanes)),
        align_(key->getPrimitiveSizeInBits() / 8),
        block_(std::min(vectors_, kBlockBytes / (lanes * static_cast<int64_t>(align_.value())))) {}

  void rows(Value *buffer, int64_t count) {
    this->count(count * vectors_, [&](Value *first) { row(place(buffer, first)); }, vectors_);
  }

  // The `wanted` least of each of `count` rows of so many vectors; `room` is for a row of those that are kept.
  void leastOfRows(Value *rows, int64_t vectors, Value *least, Value *room, int64_t count, int64_t wanted) {
    this->count(count, [&](Value *i) {
      leastOfRow(place(rows, b_.CreateMul(i, number(vectors))), vectors,
                 place(least, b_.CreateMul(i, number(vectors_))), room, wanted);
    });
  }

private:
  using Body = llvm::function_ref<void(Value *)>;
  using Next = llvm::function_ref<Value *(Value *)>;
  using Values = llvm::SmallVector<Value *, 2>;

  llvm::ConstantInt *number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  // if (cond) body(), which may change what is carried.
  void when(Value *cond, Values &carried, llvm::function_ref<void()> body) {
    llvm::BasicBlock *entry = b_.GetInsertBlock();
    llvm::BasicBlock *taken = llvm::BasicBlock::Create(b_.getContext(), "when", function_);
    llvm::BasicBlock *exit = llvm::BasicBlock::Create(b_.getContext(), "when.end", function_);
    const Values before = carried;
    b_.CreateCondBr(cond, taken, exit);
    b_.SetInsertPoint(taken);
    body();
    llvm::BasicBlock *end = b_.GetInsertBlock();
    b_.CreateBr(exit);
    b_.SetInsertPoint(exit);
    for (size_t i = 0; i < carried.size(); ++i) {
      llvm::PHINode *either = b_.CreatePHI(carried[i]->getType(), 2);
      either->addIncoming(before[i], entry);
      either->addIncoming(carried[i], end);
      carried[i] = either;
    }
  }

  // for (index = begin; index != end; index = next(index)), which may change what is carried.
  void loop(Value *begin, Value *end, Next next, Values &carried, Body body) {
    when(b_.CreateICmpNE(begin, end), carried, [&] {
      llvm::BasicBlock *entry = b_.GetInsertBlock();
      llvm::BasicBlock *head = llvm::BasicBlock::Create(b_.getContext(), "sort", function_);
      llvm::BasicBlock *exit = llvm::BasicBlock::Create(b_.getContext(), "sort.end", function_);
      b_.CreateBr(head);
      b_.SetInsertPoint(head);
      const auto carry = [&](Value *start) {
        llvm::PHINode *phi = b_.CreatePHI(start->getType(), 2);
        phi->addIncoming(start, entry);
        return phi;
      };
      llvm::PHINode *index = carry(begin);
      llvm::SmallVector<llvm::PHINode *, 2> phis;
      for (Value *&value : carried) {
        phis.push_back(carry(value));
        value = phis.back();
      }
      body(index);
      Value *after = next(index);
      index->addIncoming(after, b_.GetInsertBlock());
      for (size_t i = 0; i < phis.size(); ++i) {
        phis[i]->addIncoming(carried[i], b_.GetInsertBlock());
      }
      b_.CreateCondBr(b_.CreateICmpNE(after, end), head, exit);
      b_.SetInsertPoint(exit);
    });
  }
  void loop(Value *begin, Value *end, Next next, Body body) {
    Values none;
    loop(begin, end, next, none, body);
  }
  void count(int64_t end, Body body, int64_t step = 1) {
    loop(number(0), number(end), [&](Value *i) { return b_.CreateAdd(i, number(step)); }, body);
  }
  // value = begin, 2 * begin, ... below end.
  void doubling(int64_t begin, int64_t end, Body body) {
    loop(number(begin), number(end), [&](Value *i) { return b_.CreateShl(i, 1); }, body);
  }

  Value *place(Value *row, Value *vector) { return b_.CreateGEP(vector_, row, vector); }
  Value *load(Value *place) { return b_.CreateAlignedLoad(vector_, place, align_); }
  void store(Value *value, Value *place) { b_.CreateAlignedStore(value, place, align_); }

  void row(Value *row) {
    blocks(row, [&](Value *block) {
      count(block_, [&](Value *i) {
        Value *keys = load(place(block, i));
        for (unsigned half = 1; half < lanes_; half *= 2) {
          keys = exchange(keys, 2 * half - 1, half);
          keys = mergeLanes(keys, half / 2);
        }
        store(keys, place(block, i));
      });
      doubling(1, block_, [&](Value *half) {
        meet(block, block_, half);
        apart(block, block_, b_.CreateLShr(half, 1), number(0));
        lanes(block);
      });
    });
    doubling(block_, vectors_, [&](Value *half) {
      meet(row, vectors_, half);
      merge(row, b_.CreateLShr(half, 1));
    });
  }

  // The steps of `from` vectors apart and all below.
  void merge(Value *row, Value *from) {
    apart(row, vectors_, from, number(block_ / 2));
    blocks(row, [&](Value *block) {
      apart(block, block_, number(block_ / 2), number(0));
      lanes(block);
    });
  }

  void leastOfRow(Value *row, int64_t vectors, Value *least, Value *room, int64_t wanted) {
    count(vectors_, [&](Value *i) { store(load(place(row, i)), place(least, i)); });
    this->row(least);
    Values carried{inAllLanes(least, wanted - 1), number(0)};
    Value *&bound = carried[0], *&held = carried[1];
    const auto empty = [&] {
      takeLesser(least, room);
      bound = inAllLanes(least, wanted - 1);
      held = number(0);
    };
    const auto next = [&](Value *i) { return b_.CreateAdd(i, number(1)); };
    const auto take = [&](Value *keys) {
      store(keys, place(room, held));
      held = next(held);
      when(b_.CreateICmpEQ(held, number(vectors_)), carried, empty);
    };
    // In no order, of the vectors with number v about one in exp(wanted / v) would be passed over.
    const bool takesAll = vectors <= 4 * wanted;
    loop(number(vectors_), number(vectors), next, carried, [&](Value *i) {
      Value *keys = load(place(row, i));
      if (takesAll) {
        take(keys);
      } else {
        when(b_.CreateOrReduce(b_.CreateICmpSLT(keys, bound)), carried, [&] { take(keys); });
      }
    });
    when(b_.CreateICmpNE(held, number(0)), carried, [&] {
      Value *none = llvm::ConstantInt::get(vector_, llvm::APInt::getSignedMaxValue(vector_->getScalarSizeInBits()));
      loop(held, number(vectors_), next, [&](Value *i) { store(none, place(room, i)); });
      empty();
    });
  }

  // The least of both, in rising order.
  void takeLesser(Value *least, Value *room) {
    row(room);
    count(vectors_, [&](Value *i) {
      Value *others = load(place(room, b_.CreateSub(number(vectors_ - 1), i)));
      Value *lesser = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, load(place(least, i)), permuted(others, lanes_ - 1));
      store(lesser, place(least, i));
    });
    merge(least, number(vectors_ / 2));
  }

  Value *inAllLanes(Value *row, int64_t element) {
    const llvm::SmallVector<int, 64> lane(lanes_, int(element % lanes_));
    return b_.CreateShuffleVector(load(place(row, number(element / lanes_))), lane);
  }

  void blocks(Value *row, Body body) {
    count(vectors_, [&](Value *first) { body(place(row, first)); }, block_);
  }

  // The first step of merging runs of `half` vectors: the second one counts down.
  void meet(Value *first, int64_t vectors, Value *half) {
    pairs(vectors, half, [&](Value *low, Value *inside) {
      Value *size = b_.CreateSub(b_.CreateShl(half, 1), number(1));
      Value *high = b_.CreateSub(b_.CreateAdd(low, size), b_.CreateShl(inside, 1));
      exchangePlaces(place(first, low), place(first, high), true);
    });
  }

  // The steps of `from` vectors apart, half of that, ... above `end`.
  void apart(Value *first, int64_t vectors, Value *from, Value *end) {
    loop(from, end, [&](Value *i) { return b_.CreateLShr(i, 1); },
         [&](Value *distance) {
           pairs(vectors, distance, [&](Value *low, Value *) {
             Value *high = b_.CreateAdd(low, distance);
             exchangePlaces(place(first, low), place(first, high), false);
           });
         });
  }

  void lanes(Value *block) {
    count(block_, [&](Value *i) {
      store(mergeLanes(load(place(block, i)), lanes_ / 2), place(block, i));
    });
  }

  // The lower one of each two vectors that are `distance` apart, a power of two, and its number in the
  // run of `distance`.
  void pairs(int64_t vectors, Value *distance,
             llvm::function_ref<void(Value *low, Value *inside)> body) {
    count(vectors / 2, [&](Value *pair) {
      Value *inside = b_.CreateAnd(pair, b_.CreateSub(distance, number(1)));
      body(b_.CreateSub(b_.CreateShl(pair, 1), inside), inside);
    });
  }

  void exchangePlaces(Value *low, Value *high, bool mirrored) {
    Value *a = load(low);
    Value *b = mirrored ? permuted(load(high), lanes_ - 1) : load(high);
    Value *greater = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
    store(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b), low);
    store(mirrored ? permuted(greater, lanes_ - 1) : greater, high);
  }

  // Lane i gets lane i ^ mask.
  Value *permuted(Value *keys, unsigned mask) {
    llvm::SmallVector<int, 64> from;
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      from.push_back(static_cast<int>(lane ^ mask));
    }
    return b_.CreateShuffleVector(keys, from);
  }

  // Lanes i and i ^ mask; the one without `bit`, the highest of the mask, is the lower one.
  Value *exchange(Value *keys, unsigned mask, unsigned bit) {
    Value *others = permuted(keys, mask);
    llvm::SmallVector<llvm::Constant *, 64> isLow;
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      isLow.push_back(b_.getInt1((lane & bit) == 0));
    }
    return b_.CreateSelect(llvm::ConstantVector::get(isLow),
                           b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, keys, others),
                           b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, keys, others));
  }

  Value *mergeLanes(Value *keys, unsigned distance) {
    for (; distance > 0; distance /= 2) {
      keys = exchange(keys, distance, distance);
    }
    return keys;
  }

  llvm::IRBuilder<> &b_;
  llvm::Function *function_;
  const unsigned lanes_;
  const int64_t vectors_; // of a row
  llvm::Type *vector_;
  const llvm::Align align_;
  const int64_t block_; // vectors in a block
};

} // namespace

void Emitter::emitSortRows(ir::OpId op) {
  const ir::Type buffer = fn_.type(fn_.operand(op, 0));
  const int64_t extent = buffer.dim(buffer.rank() - 1);
  const auto lanes = static_cast<unsigned>(
      std::min(std::max<int64_t>(fn_.getInt(op, ir::Attr::lanes), 1), extent));
  if (extent > 1) {
    RowSorter(builder_, function_, elementwise_.memoryType(buffer.element()), lanes, extent)
        .rows(scalar(fn_.operand(op, 0)), buffer.numElements() / extent);
  }
}

void Emitter::emitLeastOfRows(ir::OpId op) {
  const ir::Type rows = fn_.type(fn_.operand(op, 0)), room = fn_.type(fn_.operand(op, 2));
  const auto lanes = static_cast<unsigned>(fn_.getInt(op, ir::Attr::lanes));
  const int64_t extent = rows.dim(rows.rank() - 1);
  RowSorter(builder_, function_, elementwise_.memoryType(rows.element()), lanes, room.dim(0))
      .leastOfRows(scalar(fn_.operand(op, 0)), extent / lanes, scalar(fn_.operand(op, 1)), scalar(fn_.operand(op, 2)),
                   rows.numElements() / extent, fn_.getInt(op, ir::Attr::count));
}

} // namespace libtile::codegen::cpu
