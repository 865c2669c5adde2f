// SPDX-License-Identifier: Apache-2.0
// Pointer tiles as sums, so that their registers need not exist. A tile of pointers into one array
// is, at register r of this thread,
//
//   base + constants[r] + sum over terms of counts[r] * values[r] * factor        (bytes)
//
// where base is one pointer of this thread: everything that all registers share (the array, the
// program's part, the thread's coordinates) goes into it, once. Constants become the immediate
// offsets of the accesses. Terms are what is left: strides that are not known (factor, counted by
// the register's coordinate) and index tiles that are no sums (values). They are added where an
// access needs them.
//
// Sums are exact in 64 bits, also where the program computes its indices in 32: ptr_add promises
// that those do not wrap.
#pragma once

#include "ir/ids.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Value.h>

#include <cstdint>
#include <vector>

namespace libtile::codegen::gpu {

struct TileAddress {
  // Values and factors are signed integers of any width: a product of two of 32 bits is one
  // instruction.
  struct Term {
    std::vector<int64_t> counts;
    std::vector<llvm::Value *> values; // empty: all 1
    llvm::Value *factor = nullptr;     // the same in all registers; null: 1
  };
  llvm::Value *base = nullptr; // ptr addrspace(1)
  std::vector<int64_t> constants;
  llvm::SmallVector<Term, 2> terms;

  // The same pointers in another order: register r is `registers[r]` here.
  [[nodiscard]] TileAddress moved(const std::vector<int32_t> &registers) const;
};

// An index tile, likewise: shared + constants[r], modulo the width of its elements. So it is made
// where it is read, and no register lives from its definition to there.
struct TileIndices {
  llvm::Value *shared = nullptr; // null: 0
  std::vector<int64_t> constants;
};

// What an access takes: pointer + index * scale + bytes. Its text computes the product, in one
// instruction that LLVM need not select.
struct AccessAddress {
  llvm::Value *pointer = nullptr;
  int64_t bytes = 0;
  llvm::Value *index = nullptr; // a signed integer of 32 or 64 bits; null: none
  int64_t scale = 0;
};

class Emitter;

// The addresses of one pointer tile's elements, made where the builder stands.
class AccessAddresses {
public:
  AccessAddresses(Emitter &emitter, ir::ValueId pointers);
  AccessAddress of(int32_t reg);
  // The same as one pointer.
  llvm::Value *pointerTo(int32_t reg);

private:
  void addTerm(AccessAddress &address, const TileAddress::Term &term, size_t reg);
  llvm::Value *plus(llvm::Value *pointer, llvm::Value *offset);
  Emitter &e_;
  const ir::ValueId pointers_;
  const TileAddress *tile_; // null: registers that stand in this block
};

} // namespace libtile::codegen::gpu
