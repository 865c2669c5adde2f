// SPDX-License-Identifier: Apache-2.0
// Sorts rows in scratch: Batcher's bitonic network, in the form in which every exchange puts the
// smaller key into the lower place. Merging two sorted runs of `half` elements compares element i of the
// first with element half - 1 - i of the second, then elements that are half/2, half/4, ... 1 apart.
//
// Distances below the lanes are shuffles of one vector, larger ones pairs of vectors. Loops go over
// runs, distances and vectors, so code does not grow with the row. Blocks that the first cache holds are
// sorted one after the other, and in a merge of longer runs the distances inside of blocks go block by
// block, too.
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
    const int64_t bytes = vectors_ * lanes_ * static_cast<int64_t>(align_.value());
    loop(number(0), number(count * bytes), [&](Value *i) { return b_.CreateAdd(i, number(bytes)); },
         [&](Value *offset) { row(b_.CreateGEP(b_.getInt8Ty(), buffer, offset)); });
  }

private:
  using Body = llvm::function_ref<void(Value *)>;
  using Next = llvm::function_ref<Value *(Value *)>;

  llvm::ConstantInt *number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  // for (index = begin; index != end; index = next(index))
  void loop(Value *begin, Value *end, Next next, Body body) {
    llvm::BasicBlock *entry = b_.GetInsertBlock();
    llvm::BasicBlock *head = llvm::BasicBlock::Create(b_.getContext(), "sort", function_);
    llvm::BasicBlock *exit = llvm::BasicBlock::Create(b_.getContext(), "sort.end", function_);
    b_.CreateCondBr(b_.CreateICmpNE(begin, end), head, exit);
    b_.SetInsertPoint(head);
    llvm::PHINode *index = b_.CreatePHI(b_.getInt64Ty(), 2);
    index->addIncoming(begin, entry);
    body(index);
    Value *after = next(index);
    index->addIncoming(after, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpNE(after, end), head, exit);
    b_.SetInsertPoint(exit);
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
      apart(row, vectors_, b_.CreateLShr(half, 1), number(block_ / 2));
      blocks(row, [&](Value *block) {
        apart(block, block_, number(block_ / 2), number(0));
        lanes(block);
      });
    });
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

} // namespace libtile::codegen::cpu
