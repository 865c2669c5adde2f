// SPDX-License-Identifier: Apache-2.0
// Sorts rows in scratch: Batcher's bitonic network, in the form in which every exchange puts the
// smaller key into the lower place. Merging two sorted runs of `half` elements compares element i of the
// first with element half - 1 - i of the second, then elements that are half/2, half/4, ... 1 apart.
//
// Distances below the lanes are shuffles of one vector, larger ones pairs of vectors. Loops go over
// runs, distances and vectors, so code does not grow with the row.
#include "codegen/cpu/emitter.h"
#include "ir/ops.h"

namespace libtile::codegen::cpu {

using llvm::Value;

namespace {

class RowSorter {
public:
  RowSorter(llvm::IRBuilder<> &builder, llvm::Function *function, llvm::Type *key, unsigned lanes,
            int64_t extent)
      : b_(builder), function_(function), lanes_(lanes), vectors_(extent / lanes),
        vector_(llvm::FixedVectorType::get(key, lanes)),
        align_(key->getPrimitiveSizeInBits() / 8) {}

  void rows(Value *buffer, int64_t count) {
    const int64_t bytes = vectors_ * lanes_ * static_cast<int64_t>(align_.value());
    loop(number(0), number(count * bytes), [&](Value *i) { return b_.CreateAdd(i, number(bytes)); },
         [&](Value *offset) { row(b_.CreateGEP(b_.getInt8Ty(), buffer, offset)); });
  }

private:
  using Body = llvm::function_ref<void(Value *)>;
  using Next = llvm::function_ref<Value *(Value *)>;

  llvm::ConstantInt *number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  // index = begin, next(index), ... until it is `end`, which is not `begin`.
  void loop(Value *begin, Value *end, Next next, Body body) {
    llvm::BasicBlock *entry = b_.GetInsertBlock();
    llvm::BasicBlock *head = llvm::BasicBlock::Create(b_.getContext(), "sort", function_);
    llvm::BasicBlock *exit = llvm::BasicBlock::Create(b_.getContext(), "sort.end", function_);
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    llvm::PHINode *index = b_.CreatePHI(b_.getInt64Ty(), 2);
    index->addIncoming(begin, entry);
    body(index);
    Value *after = next(index);
    index->addIncoming(after, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpNE(after, end), head, exit);
    b_.SetInsertPoint(exit);
  }
  void count(int64_t end, Body body) {
    loop(number(0), number(end), [&](Value *i) { return b_.CreateAdd(i, number(1)); }, body);
  }

  Value *place(Value *row, Value *vector) { return b_.CreateGEP(vector_, row, vector); }
  Value *load(Value *place) { return b_.CreateAlignedLoad(vector_, place, align_); }
  void store(Value *value, Value *place) { b_.CreateAlignedStore(value, place, align_); }

  void row(Value *row) {
    count(vectors_, [&](Value *i) {
      Value *keys = load(place(row, i));
      for (unsigned half = 1; half < lanes_; half *= 2) {
        keys = exchange(keys, 2 * half - 1, half);
        keys = mergeLanes(keys, half / 2);
      }
      store(keys, place(row, i));
    });
    if (vectors_ == 1) {
      return;
    }
    // `half`: vectors in each of the two runs.
    loop(number(1), number(vectors_), [&](Value *half) { return b_.CreateShl(half, 1); },
         [&](Value *half) { merge(row, half); });
  }

  void merge(Value *row, Value *half) {
    pairs(half, [&](Value *low, Value *inside) {
      Value *size = b_.CreateSub(b_.CreateShl(half, 1), number(1));
      Value *high = b_.CreateSub(b_.CreateAdd(low, size), b_.CreateShl(inside, 1));
      exchangePlaces(place(row, low), place(row, high), true);
    });
    llvm::BasicBlock *apart = llvm::BasicBlock::Create(b_.getContext(), "apart", function_);
    llvm::BasicBlock *lanes = llvm::BasicBlock::Create(b_.getContext(), "lanes", function_);
    b_.CreateCondBr(b_.CreateICmpNE(half, number(1)), apart, lanes);
    b_.SetInsertPoint(apart);
    loop(b_.CreateLShr(half, 1), number(0), [&](Value *i) { return b_.CreateLShr(i, 1); },
         [&](Value *distance) {
           pairs(distance, [&](Value *low, Value *) {
             exchangePlaces(place(row, low), place(row, b_.CreateAdd(low, distance)), false);
           });
         });
    b_.CreateBr(lanes);
    b_.SetInsertPoint(lanes);
    count(vectors_, [&](Value *i) {
      store(mergeLanes(load(place(row, i)), lanes_ / 2), place(row, i));
    });
  }

  // The lower one of each two vectors that are `distance` apart, a power of two, and its number in the
  // run of `distance`.
  void pairs(Value *distance, llvm::function_ref<void(Value *low, Value *inside)> body) {
    count(vectors_ / 2, [&](Value *pair) {
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
