// SPDX-License-Identifier: Apache-2.0
// Types of the tile IR: scalars, pointers, tiles of either, buffers, places and tokens.
//
// Integers carry no sign: the op does (sdiv/udiv, cmp slt/ult); the front end keeps the sign of the
// user's types. A Type is a small value, compared member by member; nothing is interned.
//
//   i32   f16   ptr<f32>   ptr<ptr<i8>>   tile<128x64xf32>   tile<64xptr<f16>>
//   tile<128x64xf32, #2>            laid-out stage: #2 is an interned layout of the function
//   buffer<3x128x64xf16, #5>        shared memory (GPU) or scratch (CPU); #5 absent on the CPU
//   place<128x64xf32, #5>           an accumulator that a unit works on by itself (ir/places.h)
//   token                           orders asynchronous operations
#pragma once

#include "ir/ids.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace libtile::ir {

enum class Elem : uint8_t { Void, I1, I8, I16, I32, I64, F16, BF16, F32, F64 };

[[nodiscard]] bool isInt(Elem elem);   // i1 to i64
[[nodiscard]] bool isFloat(Elem elem); // f16 to f64
// Width of the value in bits: 1 for i1.
[[nodiscard]] unsigned bitWidth(Elem elem);
// Bytes in memory: 1 for i1.
[[nodiscard]] unsigned byteSize(Elem elem);
[[nodiscard]] const char *elemName(Elem elem);

class Type {
public:
  enum class Kind : uint8_t { None, Scalar, Tile, Buffer, Place, Token };
  static constexpr unsigned kMaxRank = 6;
  // A tile has at most this many elements; the front end and the parser refuse more.
  static constexpr int64_t kMaxElements = int64_t{1} << 24;

  Type() = default;
  // A scalar of `elem`, or with pointerDepth > 0 a pointer to it (2: pointer to pointer).
  static Type scalar(Elem elem, unsigned pointerDepth = 0);
  static Type pointer(Elem pointee) { return scalar(pointee, 1); }
  static Type token();
  // Shape: 1 to kMaxRank extents, each >= 1. `scalar` is a scalar type and gives the element.
  static Type tile(std::span<const int32_t> shape, Type scalar, LayoutId layout = {});
  static Type tile(std::initializer_list<int32_t> shape, Type scalar, LayoutId layout = {});
  static Type buffer(std::span<const int32_t> shape, Elem elem, LayoutId layout = {});
  static Type place(std::span<const int32_t> shape, Elem elem, LayoutId layout = {});

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool isNone() const { return kind_ == Kind::None; }
  [[nodiscard]] bool isScalar() const { return kind_ == Kind::Scalar; }
  [[nodiscard]] bool isTile() const { return kind_ == Kind::Tile; }
  [[nodiscard]] bool isBuffer() const { return kind_ == Kind::Buffer; }
  [[nodiscard]] bool isPlace() const { return kind_ == Kind::Place; }
  [[nodiscard]] bool isToken() const { return kind_ == Kind::Token; }
  // Scalar or tile whose elements are pointers.
  [[nodiscard]] bool isPointer() const { return pointerDepth_ != 0; }
  // Scalar or tile whose elements are numbers of that sort.
  [[nodiscard]] bool isInteger() const { return !isPointer() && isInt(elem_); }
  [[nodiscard]] bool isFloating() const { return !isPointer() && isFloat(elem_); }
  [[nodiscard]] bool isBool() const { return !isPointer() && elem_ == Elem::I1; }

  // For numbers their kind; for pointers the kind finally pointed to.
  [[nodiscard]] Elem elem() const { return elem_; }
  [[nodiscard]] unsigned pointerDepth() const { return pointerDepth_; }
  // Bits and bytes of one element as it lies in memory: 64 and 8 for a pointer.
  [[nodiscard]] unsigned elementBits() const { return isPointer() ? 64 : bitWidth(elem_); }
  [[nodiscard]] unsigned elementBytes() const { return isPointer() ? 8 : byteSize(elem_); }
  [[nodiscard]] unsigned rank() const { return rank_; }
  [[nodiscard]] std::span<const int32_t> shape() const { return {dims_.data(), rank_}; }
  [[nodiscard]] int32_t dim(unsigned axis) const { return dims_[axis]; }
  // Product of the shape; 1 for a scalar.
  [[nodiscard]] int64_t numElements() const;
  [[nodiscard]] LayoutId layout() const { return layout_; }

  // The scalar type of one element.
  [[nodiscard]] Type element() const;
  // Same shape and layout (or scalar), other element.
  [[nodiscard]] Type withElement(Type scalar) const;
  [[nodiscard]] Type withElement(Elem elem) const { return withElement(scalar(elem)); }
  [[nodiscard]] Type withLayout(LayoutId layout) const;
  // Same element and kind, other shape and no layout; an empty shape gives a scalar.
  [[nodiscard]] Type withShape(std::span<const int32_t> shape) const;
  // What a pointer points to: ptr<f32> -> f32, tile<8xptr<f32>> -> tile<8xf32>. Requires
  // isPointer().
  [[nodiscard]] Type pointee() const;
  // ptr to this element type, same shape.
  [[nodiscard]] Type pointerTo() const;

  [[nodiscard]] bool sameShape(const Type &other) const;
  friend bool operator==(const Type &a, const Type &b) {
    return a.kind_ == b.kind_ && a.elem_ == b.elem_ && a.pointerDepth_ == b.pointerDepth_ &&
           a.layout_ == b.layout_ && a.sameShape(b);
  }
  friend bool operator!=(const Type &a, const Type &b) { return !(a == b); }
  [[nodiscard]] std::string str() const;

private:
  Kind kind_ = Kind::None;
  Elem elem_ = Elem::Void;
  uint8_t pointerDepth_ = 0;
  uint8_t rank_ = 0;
  std::array<int32_t, kMaxRank> dims_{};
  LayoutId layout_;
};

} // namespace libtile::ir
