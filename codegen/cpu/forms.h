// SPDX-License-Identifier: Apache-2.0
// What the emitter (emitter.h) knows while it runs: the form of a value, the scope that it was made in,
// the lanes that it varies in, where an access goes and what it is checked against, what a contract does.
#pragma once

#include "ir/function.h"
#include "passes/cpu/contract_blocks.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Instruction.h>
#include <llvm/IR/PatternMatch.h>

#include <map>
#include <tuple>
#include <vector>

namespace libtile::codegen::cpu {

struct Form {
  llvm::Value *exact = nullptr; // a scalar, or a vector where varying in several lanes
  unsigned depth = 0;           // scope of `exact`
  llvm::Value *splat = nullptr; // of a uniform value, made when asked for
  int lanesId = -1;             // the Lanes that it varies with
  bool affine = false;          // varying, with anchor and stride
  llvm::Value *anchor = nullptr;
  unsigned anchorDepth = 0;
  int64_t stride = 0; // per lane: of integers in units, of pointers in bytes
  // Element i of the nest holds anchor + i in the type's own arithmetic, wrapping included.
  bool counts = false;
  void takeAnchor(const Form &of) {
    std::tie(affine, anchor, anchorDepth, stride, counts) =
        std::tie(of.affine, of.anchor, of.anchorDepth, of.stride, of.counts);
  }
};

// A value and the row of forms_ that holds its form.
struct Defined {
  ir::ValueId value;
  unsigned row;
};

struct Scope {
  llvm::Instruction *jump = nullptr; // into the next scope, once that is open
  unsigned hoisted = 0;              // pure values that came out of it
  std::vector<Defined> values;
  bool mayHoistOut = true; // always entered, so reads may leave it
  bool writesGlobal = false;
  bool writesBuffer = false;
};

// Compares of the lane index with uniform bounds that some code takes for true, and below which
// index (i64, made in scope `depth`) they all are.
struct Limits {
  unsigned depth;
  Limits *outer = nullptr; // of the code around
  std::vector<ir::OpId> compares{};
  std::vector<llvm::Value *> below{};
  // Stores past the caches (streams.cpp), where the code may have some.
  bool mayStream = false;
  llvm::Value *begin = nullptr;             // i64: where whole steps begin; null: at 0
  int64_t perLine = 0;                      // elements that fill a line of each of these stores, in whole vectors
  llvm::Value *row = nullptr;               // the address at index 0 of the first of these stores
  int64_t rowBytes = 0;                     // of an element there
  llvm::Value *nextRow = nullptr;           // i64: how many bytes further on the next such row begins; null: not known
  std::map<uint32_t, llvm::Value *> past{}; // by OpId, whether a store goes there: an i1; null: it does not
};

// The lanes that values vary in: those of the innermost vectorised dimension.
struct Lanes {
  int id = -1;        // of this vectorisation; -1: there is none
  unsigned depth = 0; // its scope
  unsigned count = 1;
  unsigned valid = 1;          // lanes below this are elements; the rest is the tail
  llvm::Value *base = nullptr; // i64 index of lane 0 in this step
  Limits *limits = nullptr;    // compares may be taken for true; null: not here
  unsigned copy = 0;           // of the vectors that run at once
  ir::ValueId index;           // the region's argument
  int64_t run = 0;             // elements that steps go through, one after the other; 0: of several rows
  llvm::Value *on = nullptr;   // an i1 each: those that are elements, where that is not known beforehand
  bool isRest = false;         // one vector behind whole steps, or in front of them
};
// The vectors that run at once: a `for` is made once for all of them, everything else for one after
// the other. Without lanes there is one.
using Group = llvm::SmallVector<Lanes, 8>;

// The nests or folds that ask for memory ahead (ask_ahead.cpp): the first through a run, and the last of the others that
// store nothing to memory, if there is one.
struct Askers {
  ir::OpId first, last;
};

// Where an access goes: one address and a stride of one element, or one address a lane.
struct Address {
  llvm::Value *pointer; // scalar, or a vector of pointers
  bool contiguous;      // lane i at pointer[i]
  bool perLane;         // `pointer` is a vector
  unsigned depth;
  llvm::Value *first = nullptr; // lane i lies `step` bytes times i behind it, too; null: the lanes are at no constant distance
  int64_t step = 0;
};

// A contract (contract.cpp), as its unit takes it.
struct Contraction {
  llvm::Value *a, *b, *acc; // addresses of the buffers
  llvm::Value *rowsOfA;     // that of the addresses of a's rows; null: they lie in the buffer
  llvm::Value *inPlace;     // with rowsOfA, an i1: they lie elsewhere, and the buffer has room for them
  llvm::Value *steps;       // i64: groups along k; at least 1
  llvm::Value *empty;       // i1: the sums begin with zeros, not with what acc holds
  llvm::Value *rowsAhead, *soon; // addresses of rows that the sums are stored to, if `soon`, an i1; null: they are not known
  int64_t aheadBytes;            // of an element there
  ir::MultiplyAdd instruction;
  ir::Elem packed, accumulator;
  int32_t group;
  bool asksForColumns;               // of b, a block ahead
  bool widens;                       // pairs of bf16 as numbers of f32, one after the other
  ir::Effects effects;
  int64_t rows, columns, rowA, rowB; // of acc; bytes from row to row of a and b
  llvm::Value *rowsEnd, *columnsEnd; // i64: blocks that begin there are not needed; null: all are
  unsigned blockM, vectors, lanes;   // the register block: rows, vectors a row, lanes a vector
  passes::RowBlocks rowBlocks;       // which rows have blocks of blockM, and what others have
  unsigned tileRows, tileWords;      // of a and along k that an instruction takes; both 1: no unit of tiles
  unsigned tileRegisters;
  // Of a block of columns, one vector each: what the bias of a adds to every row's sums. Without one, empty.
  llvm::SmallVector<llvm::Value *, 6> biasSums;
  llvm::Value *readBias = nullptr; // what a's words lack of the bias, in all lanes; null: they have it
  llvm::Value *wordOfA = nullptr; // a's word in all lanes, where it is one along all of k; else it is read
  // What is known of tiny numbers (tiny_numbers.cpp), of a and b in this turn with whether it is of these numbers, i1s; null: nothing is.
  llvm::Value *findingsOfA = nullptr, *findingsOfB = nullptr, *findingsOfSums = nullptr, *knowsA = nullptr, *knowsB = nullptr;
  // What a and b hold for a step along k, in one row or column.
  [[nodiscard]] int64_t groupBytes() const { return group * ir::byteSize(packed); }
};

// Where a tile of a lies, and how many bytes its rows are apart.
struct TilePlace {
  llvm::Value *first, *rowBytes;
};

[[nodiscard]] inline bool isAlways(llvm::Value *condition) { return llvm::PatternMatch::match(condition, llvm::PatternMatch::m_One()); }
[[nodiscard]] inline bool isNever(llvm::Value *condition) { return llvm::PatternMatch::match(condition, llvm::PatternMatch::m_Zero()); }

// Numbers of a contract that are looked at for whether they are tiny (tiny_numbers.cpp).
struct Panel {
  llvm::Value *base;
  llvm::Value *bytes;          // from the first row to the end
  int64_t rowBytes;            // from row to row
  int64_t copies, copyBytes;   // vectors in a row, and from one to the next
  llvm::Value *mask = nullptr; // lanes that count; null: all
};

// A fold (folds.cpp).
struct FoldPlan {
  ir::OpId op;
  int64_t extent;
  unsigned lanes;  // of the fold itself; 1 where it runs inside of lanes
  unsigned unroll; // vectors at once
  unsigned sets;   // of accumulators, at most `unroll`
  bool ownLanes;   // it vectorises its own index
  std::vector<llvm::Constant *> neutrals; // of the results; empty: not all have one
  bool numbers = false; // accumulators are never NaN: a maximum is one instruction
};

// An array that accesses are checked against.
struct KnownArray {
  llvm::Value *begin, *size;              // i64
  std::map<int64_t, llvm::Value *> rooms; // by the bytes of an access
};

// An access that leaves the program, from a block of its own.
struct Violation {
  llvm::BasicBlock *from;
  llvm::Value *access, *elements, *address; // as of the frame's out_of_bounds
};

} // namespace libtile::codegen::cpu
