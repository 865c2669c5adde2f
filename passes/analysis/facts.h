// SPDX-License-Identifier: Apache-2.0
// What is known of each value before the program runs: alignment, runs of consecutive or equal
// elements, integer ranges, and the affine form of index and address tiles.
//
// A pure analysis: `Facts facts = computeFacts(fn);` is a snapshot. A pass that changes the
// function keeps using it for the values that were there; values made later have the default
// ("nothing is known"). Every stage is accepted; layouts do not matter (convert_layout is the
// identity). Linear time, one walk and a second one of each loop body.
//
// Three families of claims. What is **proved** is true for every run of the kernel that the guards,
// the parameters' promises, `hint` and `assume` allow; `Facts` tells it. What is **promised** is true
// where ptr_add's promises hold too (ops.def: an index computation that feeds an address or the mask of
// an access does not wrap, and divides nothing negative): only the code of an access may assume it, of
// its addresses and its mask, and asks `Facts::access()` for it.
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
//    of two: a tile of 96 consecutive elements has 96. So a group of 8 elements may lie in two runs
//    of 12: who wants groups of a size asks for them (alignedGroup). Facts hold as machine integers,
//    modulo 2^width.
//
// 2. range: the least and greatest value of any element, as a signed integer (i1: 0 and 1).
//
// 3. affine: the value of the element at index (i0, i1, ...) of a tile, or of a scalar, as
//        base + offset + stride[0] * i0 + stride[1] * i1 + ...
//    where base is a scalar pointer (invalid for integers) and offset and strides are polynomials
//    over scalar integer values of the program; in bytes for pointers. All symbols are visible
//    where the value is defined. Sums of scalars are taken apart as far as they go, so two forms
//    with the same base and equal polynomials are the same addresses. The indices of a nest or fold
//    are symbols like any other scalar. The form of a value of width w (pointers: 64) is exact modulo
//    2^w.
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
  bool promised = false;                    // holds by the promises only
  friend bool operator==(const AffineForm &, const AffineForm &) = default;
};

// A group of elements along an axis that one access may take.
struct AccessRun {
  int64_t elements = 1; // consecutive in memory, in every aligned group of this many along the axis
  int64_t alignBytes = 1; // a power of two: of the first address of each such group
};

// The largest power of two v such that each aligned group of v elements lies within one run of `run`;
// for a run that covers the axis of `extent` elements, the least one that covers it.
[[nodiscard]] int64_t alignedGroup(int64_t run, int64_t extent);

// An index of this proved range is promised not to be negative: what does not show its sign. A lower bound in the lower
// half of the type's negative numbers shows nothing: it comes from bounds that say little.
[[nodiscard]] bool isPromisedNatural(IntRange proved, ir::Type type);

class AccessFacts;

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
  // A power of two: all elements of every aligned group of this many along the axis are equal.
  [[nodiscard]] int64_t equalGroup(ir::ValueId value, unsigned axis) const;

  // Of a polynomial over values of the function.
  [[nodiscard]] IntRange range(const Polynomial &polynomial) const;
  [[nodiscard]] int64_t divisible(const Polynomial &polynomial) const;

  // What an access may assume of its addresses and its mask.
  [[nodiscard]] AccessFacts access() const;

  // One line a value, "%name: div=.. cont=.. const=.. range=[..] affine=..", for tests and tools; what
  // is promised beyond it follows behind "promised".
  [[nodiscard]] std::string str(const ir::Function &fn) const;

private:
  friend class AccessFacts;
  friend class FactsBuilder;
  struct Claims {
    llvm::SmallVector<AxisFacts, 2> axes;
    IntRange range;
    friend bool operator==(const Claims &, const Claims &) = default;
  };
  struct ValueFacts {
    Claims proved, promised;
    std::array<int32_t, ir::Type::kMaxRank> shape{};
    uint8_t rank = 0;
    uint8_t elementBytes = 0; // of the pointee, for pointers; else 0
    int32_t affine = -1;      // index into forms_
  };
  [[nodiscard]] const AffineForm *form(ir::ValueId value) const;
  [[nodiscard]] IntRange rangeBy(const Polynomial &polynomial, Claims ValueFacts::*claims) const;
  // Of base + this, over all elements of the tile: offset + strides * indices; bytes for pointers.
  [[nodiscard]] IntRange offsetRange(ir::ValueId value) const;

  ir::IndexMap<ir::ValueId, ValueFacts> values_;
  std::deque<AffineForm> forms_;
};

// The promised facts, for the code of accesses: values are pointers, what they are computed from, and
// masks.
class AccessFacts {
public:
  explicit AccessFacts(const Facts &facts) : facts_(facts) {}

  [[nodiscard]] const AxisFacts &axis(ir::ValueId value, unsigned axis) const;
  // nullptr: not affine.
  [[nodiscard]] const AffineForm *affine(ir::ValueId value) const;
  // Step from one element to the next along the axis: bytes for pointers. nullopt: not affine or
  // not a number known now.
  [[nodiscard]] std::optional<int64_t> constantStride(ir::ValueId value, unsigned axis) const;

  // Pointer tiles: the longest run along the axis. It is at most the axis' extent, and not rounded:
  // cut it to what the access can take.
  [[nodiscard]] AccessRun run(ir::ValueId pointer, unsigned axis) const;
  // The largest power of two v, v * element bytes <= maxBytes, such that every aligned group of v
  // elements along the axis is consecutive in memory and starts at a multiple of its size. v
  // divides the axis' extent.
  [[nodiscard]] int64_t maxVectorElements(ir::ValueId pointer, unsigned axis,
                                          int64_t maxBytes = 16) const;
  // Of a polynomial over integers that an address or a mask is computed from.
  [[nodiscard]] IntRange range(const Polynomial &polynomial) const;
  // Of the access' mask: Facts::equalGroup.
  [[nodiscard]] int64_t equalGroup(ir::ValueId mask, unsigned axis) const;

private:
  const Facts &facts_;
};

inline AccessFacts Facts::access() const { return AccessFacts(*this); }

[[nodiscard]] Facts computeFacts(const ir::Function &fn);

} // namespace libtile::passes
