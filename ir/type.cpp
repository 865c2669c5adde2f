// SPDX-License-Identifier: Apache-2.0
#include "ir/type.h"

#include "ir/diagnostic.h"

#include <algorithm>

namespace libtile::ir {

namespace {

struct ElemRow {
  const char *name;
  uint8_t bits;
  uint8_t bytes;
};
constexpr ElemRow kElems[] = {
    {"void", 0, 0}, {"i1", 1, 1},   {"i8", 8, 1},    {"i16", 16, 2}, {"i32", 32, 4},
    {"i64", 64, 8}, {"f16", 16, 2}, {"bf16", 16, 2}, {"f32", 32, 4}, {"f64", 64, 8},
};

} // namespace

bool isInt(Elem elem) { return elem >= Elem::I1 && elem <= Elem::I64; }
bool isFloat(Elem elem) { return elem >= Elem::F16; }
unsigned bitWidth(Elem elem) { return kElems[unsigned(elem)].bits; }
unsigned byteSize(Elem elem) { return kElems[unsigned(elem)].bytes; }
const char *elemName(Elem elem) { return kElems[unsigned(elem)].name; }

Type Type::scalar(Elem elem, unsigned pointerDepth) {
  Type type;
  type.kind_ = Kind::Scalar;
  type.elem_ = elem;
  type.pointerDepth_ = static_cast<uint8_t>(pointerDepth);
  return type;
}

Type Type::token() {
  Type type;
  type.kind_ = Kind::Token;
  return type;
}

Type Type::tile(std::span<const int32_t> shape, Type scalar, LayoutId layout) {
  check(!shape.empty() && shape.size() <= kMaxRank, "a tile has 1 to 6 axes");
  check(scalar.isScalar(), "the element of a tile is a scalar");
  Type type = scalar;
  type.kind_ = Kind::Tile;
  type.rank_ = static_cast<uint8_t>(shape.size());
  std::copy(shape.begin(), shape.end(), type.dims_.begin());
  type.layout_ = layout;
  return type;
}

Type Type::tile(std::initializer_list<int32_t> shape, Type scalar, LayoutId layout) {
  return tile(std::span<const int32_t>(shape.begin(), shape.size()), scalar, layout);
}

Type Type::buffer(std::span<const int32_t> shape, Elem elem, LayoutId layout) {
  Type type = tile(shape, scalar(elem), layout);
  type.kind_ = Kind::Buffer;
  return type;
}

Type Type::place(std::span<const int32_t> shape, Elem elem, LayoutId layout) {
  Type type = tile(shape, scalar(elem), layout);
  type.kind_ = Kind::Place;
  return type;
}

int64_t Type::numElements() const {
  int64_t product = 1;
  for (int32_t extent : shape()) {
    product *= extent;
  }
  return product;
}

Type Type::element() const { return rank_ > 0 ? scalar(elem_, pointerDepth_) : *this; }

Type Type::withElement(Type scalar) const {
  check(scalar.isScalar(), "an element is a scalar");
  Type type = *this;
  type.elem_ = scalar.elem_;
  type.pointerDepth_ = scalar.pointerDepth_;
  return type;
}

Type Type::withLayout(LayoutId layout) const {
  Type type = *this;
  type.layout_ = layout;
  return type;
}

Type Type::withShape(std::span<const int32_t> shape) const {
  if (shape.empty()) {
    return element();
  }
  Type type = tile(shape, element());
  type.kind_ = kind_ == Kind::Buffer ? Kind::Buffer : Kind::Tile;
  return type;
}

Type Type::pointee() const {
  check(isPointer(), "pointee of a type that is no pointer");
  Type type = *this;
  --type.pointerDepth_;
  return type;
}

Type Type::pointerTo() const {
  Type type = *this;
  ++type.pointerDepth_;
  return type;
}

bool Type::sameShape(const Type &other) const {
  return rank_ == other.rank_ &&
         std::equal(dims_.begin(), dims_.begin() + rank_, other.dims_.begin());
}

std::string Type::str() const {
  if (kind_ == Kind::None) {
    return "none";
  }
  if (kind_ == Kind::Token) {
    return "token";
  }
  std::string element = elemName(elem_);
  for (unsigned i = 0; i < pointerDepth_; ++i) {
    element = "ptr<" + element + ">";
  }
  if (kind_ == Kind::Scalar) {
    return element;
  }
  std::string out = isTile() ? "tile<" : isBuffer() ? "buffer<" : "place<";
  for (int32_t extent : shape()) {
    out += std::to_string(extent) + "x";
  }
  out += element;
  if (layout_.valid()) {
    out += ", #" + std::to_string(layout_.index);
  }
  return out + ">";
}

} // namespace libtile::ir
