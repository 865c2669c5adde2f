// SPDX-License-Identifier: Apache-2.0
// transpose_words: rows in scratch become columns of words.
//
// A step takes a chunk of 16 bytes, q words, of each of `lanes` rows. Its vector r has the chunks of rows r, r + q, r + 2q, ...
// side by side: one load, and insertions that take theirs from memory. To interleave vectors i and i + q/2, each chunk
// with its counterpart, log2(q) times over transposes squares of q x q words, one for each chunk of a vector: vector j then has
// word j of all rows in order. No shuffle moves anything from one chunk to another, so that each is a single cheap instruction
// in registers of 128, 256 and 512 bits.
#include "codegen/cpu/emitter.h"
#include "ir/ops.h"

#include <llvm/Analysis/VectorUtils.h>

namespace libtile::codegen::cpu {

using llvm::Value;

namespace {

constexpr unsigned kChunkBytes = 16;

// The lower or the upper words of each chunk of two vectors in turns.
Value *interleaveChunks(llvm::IRBuilder<> &builder, Value *left, Value *right, unsigned words, bool upper) {
  const auto lanes = llvm::cast<llvm::FixedVectorType>(left->getType())->getNumElements();
  llvm::SmallVector<int, 32> order;
  for (unsigned chunk = 0; chunk < lanes; chunk += words) {
    for (unsigned word = 0; word < words / 2; ++word) {
      const unsigned from = chunk + (upper ? words / 2 : 0) + word;
      order.append({int(from), int(lanes + from)});
    }
  }
  return builder.CreateShuffleVector(left, right, order);
}

} // namespace

void Emitter::emitTransposeWords(ir::OpId op) {
  const ir::Type rows = fn_.type(fn_.operand(op, 0)), words = fn_.type(fn_.operand(op, 1));
  const auto lanes = unsigned(fn_.getInt(op, ir::Attr::lanes));
  const unsigned wordBytes = words.elementBytes(), perChunk = kChunkBytes / wordBytes;
  const int64_t rowBytes = int64_t{rows.dim(1)} * rows.elementBytes();
  const int64_t wordsInRow = words.dim(1);
  llvm::Type *byte = builder_.getInt8Ty();
  llvm::Type *chunk = llvm::FixedVectorType::get(builder_.getIntNTy(8 * wordBytes), perChunk);
  const auto number = [&](int64_t value) { return builder_.getInt64(uint64_t(value)); };
  Value *first = builder_.CreateSExt(scalar(fn_.operand(op, 2)), builder_.getInt64Ty());
  Value *to = builder_.CreateGEP(byte, scalar(fn_.operand(op, 1)), builder_.CreateMul(first, number(wordsInRow * wordBytes)));
  const auto step = [&](Value *row, Value *column) { // in bytes
    Value *from = builder_.CreateGEP(byte, scalar(fn_.operand(op, 0)),
                                     builder_.CreateAdd(builder_.CreateMul(row, number(rowBytes)), column));
    llvm::SmallVector<Value *, 16> vectors;
    for (unsigned i = 0; i < perChunk; ++i) {
      llvm::SmallVector<Value *, 4> chunks;
      for (unsigned one = i; one < lanes; one += perChunk) {
        Value *place = builder_.CreateConstGEP1_64(byte, from, one * rowBytes);
        chunks.push_back(builder_.CreateAlignedLoad(chunk, place, llvm::Align(kChunkBytes)));
      }
      vectors.push_back(llvm::concatenateVectors(builder_, chunks));
    }
    for (unsigned done = 1; done < perChunk; done *= 2) {
      llvm::SmallVector<Value *, 16> next;
      for (unsigned i = 0; i < perChunk / 2; ++i) {
        for (const bool upper : {false, true}) {
          next.push_back(interleaveChunks(builder_, vectors[i], vectors[i + perChunk / 2], perChunk, upper));
        }
      }
      vectors = std::move(next);
    }
    Value *there = builder_.CreateGEP(byte, to, builder_.CreateAdd(builder_.CreateMul(column, number(wordsInRow)),
                                                                   builder_.CreateMul(row, number(wordBytes))));
    for (unsigned i = 0; i < perChunk; ++i) {
      builder_.CreateAlignedStore(vectors[i], builder_.CreateConstGEP1_64(byte, there, i * wordsInRow * wordBytes), llvm::Align(wordBytes));
    }
  };
  Values none;
  countedLoop({0, rows.dim(0), lanes}, fn_.effects(op), none, [&](Value *row) {
    countedLoop({0, rowBytes, kChunkBytes}, fn_.effects(op), none, [&](Value *column) { step(row, column); });
  });
}

} // namespace libtile::codegen::cpu
