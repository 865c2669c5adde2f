// SPDX-License-Identifier: Apache-2.0
// What is known of each value before the program runs: alignment, runs of consecutive or equal
// elements, integer ranges, and the affine form of index and address tiles.
//
// A pure analysis: `Facts facts = computeFacts(fn);` is a snapshot. A pass that changes the
// function keeps using it for the values that were there; values made later have the default
// ("nothing is known"). Every stage is accepted; layouts do not matter (convert_layout is the
// identity). Linear time, one walk and a second one of each loop body.
//
// Three families of claims, each true for every run of the kernel that the guards, the parameters'
// promises, `hint` and `assume` allow:
//
// 1. AxisFacts of an integer or pointer tile along one axis. The elements along the axis are cut
//    into aligned groups, [0, n), [n, 2n), ... (a last group may be short):
//      contiguous  in each group of this many elements, each is its predecessor + 1 (integers), or
//                  + the size of the pointee (pointers)
//      constant    in each group of this many elements, all are equal
//      divisible   a power of two. The first element of each group of `contiguous` is a multiple of
//                  it (pointers: of this many bytes); so it is for all elements where contiguous
//                  = 1. The largest power that is claimed is kMaxDivisible (the value 0).
//    A scalar is a tile of one element: only `divisible` is of interest.
//    Like Triton's axis analysis, apart from `contiguous` and `constant`, which need not be powers
//    of two: a tile of 96 consecutive elements has 96. Facts hold as machine integers, modulo
//    2^width. Those of pointers, and of what an extension, a division or a remainder makes, may
//    rely on the promises of ptr_add in ops.def: an index computation that feeds an address does
//    not wrap and divides nothing negative.
//
// 2. range: the least and greatest value of any element, as a signed integer (i1: 0 and 1); never
//    by the promises.
//
// 3. affine: the value of the element at index (i0, i1, ...) of a tile, or of a scalar, as
//        base + offset + stride[0] * i0 + stride[1] * i1 + ...
//    where base is a scalar pointer (invalid for integers) and offset and strides are polynomials
//    over scalar integer values of the program; in bytes for pointers. All symbols are visible
//    where the value is defined. Sums of scalars are taken apart as far as they go, so two forms
//    with the same base and equal polynomials are the same addresses. The indices of a nest or fold
//    are symbols like any other scalar. The form of an integer of width w is exact modulo 2^w if
//    !assumesNoWrap, and exact under the promise that i32 index computations do not wrap otherwise;
//    a pointer's form may always rely on the promise.
#pragma once

#include "ir/function.h"
#include "passes/analysis/polynomial.h"

#include <array>
#include <deque>
#include <limits>
#include <optional>

namespace libtile::passes {

struct AxisFacts {
  static constexpr int64_t kMaxDivisible = int64_t{1} << 32;
  int64_t divisible = 1;
  int64_t contiguous = 1;
  int64_t constant = 1;
  friend bool operator==(const AxisFacts &, const AxisFacts &) = default;
};

struct IntRange {
  int64_t lo = std::numeric_limits<int64_t>::min();
  int64_t hi = std::numeric_limits<int64_t>::max();
  [[nodiscard]] bool within(int64_t least, int64_t greatest) const {
    return lo >= least && hi <= greatest;
  }
  friend bool operator==(const IntRange &, const IntRange &) = default;
};

struct AffineForm {
  ir::ValueId base;
  Polynomial offset;
  llvm::SmallVector<Polynomial, 2> strides; // one an axis; empty for a scalar
  bool assumesNoWrap = false;
  friend bool operator==(const AffineForm &, const AffineForm &) = default;
};

// A group of elements along an axis that one access may take.
struct AccessRun {
  int64_t elements = 1; // consecutive in memory, in every aligned group of this many along the axis
  int64_t alignBytes = 1; // a power of two: of the first address of each such group
};

class Facts {
public:
  [[nodiscard]] const AxisFacts &axis(ir::ValueId value, unsigned axis) const;
  // Scalars, or tiles: every element is a multiple of this (pointers: bytes).
  [[nodiscard]] int64_t divisible(ir::ValueId value) const;
  [[nodiscard]] IntRange range(ir::ValueId value) const;
  // A scalar, or a tile whose elements are provably all equal.
  [[nodiscard]] bool isUniform(ir::ValueId value) const;
  // nullptr: not affine, or not an integer or pointer. Scalars always have one.
  [[nodiscard]] const AffineForm *affine(ir::ValueId value) const;
  // Step from one element to the next along the axis: bytes for pointers. nullopt: not affine or
  // not a number known now.
  [[nodiscard]] std::optional<int64_t> constantStride(ir::ValueId value, unsigned axis) const;

  // Pointer tiles: the longest run along the axis. It is at most the axis' extent, and not rounded:
  // cut it to what the access can take.
  [[nodiscard]] AccessRun accessRun(ir::ValueId pointer, unsigned axis) const;
  // The largest power of two v, v * element bytes <= maxBytes, such that every aligned group of v
  // elements along the axis is consecutive in memory and starts at a multiple of its size. v
  // divides the axis' extent.
  [[nodiscard]] int64_t maxVectorElements(ir::ValueId pointer, unsigned axis,
                                          int64_t maxBytes = 16) const;
  // Masks (i1): all elements of every aligned group of this many along the axis are equal.
  [[nodiscard]] int64_t maskAlignment(ir::ValueId mask, unsigned axis) const;

  // Of a polynomial over values of the function.
  [[nodiscard]] IntRange range(const Polynomial &polynomial) const;
  [[nodiscard]] int64_t divisible(const Polynomial &polynomial) const;
  // Of base + this, over all elements of the tile: offset + strides * indices; bytes for pointers.
  [[nodiscard]] IntRange offsetRange(ir::ValueId value) const;

  // One line a value, "%name: div=.. cont=.. const=.. range=[..] affine=..", for tests and tools.
  [[nodiscard]] std::string str(const ir::Function &fn) const;

private:
  friend class FactsBuilder;
  struct ValueFacts {
    llvm::SmallVector<AxisFacts, 2> axes;
    IntRange range;
    IntRange promised; // of indices that do not wrap: within range
    std::array<int32_t, ir::Type::kMaxRank> shape{};
    uint8_t rank = 0;
    uint8_t elementBytes = 0; // of the pointee, for pointers; else 0
    int32_t affine = -1;      // index into forms_
  };
  ir::IndexMap<ir::ValueId, ValueFacts> values_;
  std::deque<AffineForm> forms_;
};

[[nodiscard]] Facts computeFacts(const ir::Function &fn);

} // namespace libtile::passes
