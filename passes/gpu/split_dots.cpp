// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/split_dots.h"

#include "ir/builder.h"

#include <limits>

namespace libtile::passes {
namespace {

using ir::CmpPred;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Precision;
using ir::Type;
using ir::ValueId;

class Splitter {
public:
  Splitter(ir::Function &fn, OpId dot, const DotSplit &split)
      : fn_(fn), dot_(dot), split_(split), builder_(fn, dot) {}

  std::vector<OpId> run() {
    const Type acc = fn_.type(fn_.result(dot_));
    const std::vector<ValueId> a = partsOf(fn_.operand(dot_, 0)), b = partsOf(fn_.operand(dot_, 1));
    ValueId small = builder_.zero(acc);
    // The smallest products first.
    for (int32_t order = split_.parts - 1; order > 0; --order) {
      for (int32_t i = 0; i <= order; ++i) {
        small = product(a[static_cast<size_t>(i)], b[static_cast<size_t>(order - i)], small);
      }
    }
    small = builder_.make(Opcode::Select, {isFinite(small), small, builder_.zero(acc)});
    const ValueId start = builder_.make(Opcode::Add, {fn_.operand(dot_, 2), small});
    fn_.replaceAllUses(fn_.result(dot_), product(a[0], b[0], start));
    fn_.erase(dot_);
    return std::move(dots_);
  }

private:
  ValueId product(ValueId a, ValueId b, ValueId acc) {
    const ValueId operands[] = {a, b, acc};
    const Type type = fn_.type(acc);
    dots_.push_back(builder_.op(Opcode::Dot, operands, {&type, 1}));
    if (split_.precision != Precision::ieee) {
      fn_.setAttr(dots_.back(), ir::Attr::precision, split_.precision);
    }
    return fn_.result(dots_.back());
  }

  std::vector<ValueId> partsOf(ValueId x) {
    const Type type = fn_.type(x);
    std::vector<ValueId> parts;
    for (int32_t i = 0; i < split_.parts; ++i) {
      const ValueId part = i == 0 ? firstPart(x) : cut(roundedUp(x), type);
      parts.push_back(split_.elem == type.elem()
                          ? part
                          : builder_.make(Opcode::FpTrunc, {part}, type.withElement(split_.elem)));
      const ValueId rest = builder_.make(Opcode::Sub, {x, part});
      x = i == 0 ? builder_.make(Opcode::Select, {isFinite(x), rest, builder_.zero(type)}) : rest;
    }
    return parts;
  }

  // To the nearest number of the part's type; near the largest ones, which must not become infinite,
  // towards 0.
  ValueId firstPart(ValueId x) {
    const Type type = fn_.type(x);
    const ValueId bits =
        builder_.make(Opcode::Select, {isBelow(x, 0x1p127), roundedUp(x), bitsOf(x)});
    const ValueId isNan = builder_.cmp(CmpPred::une, x, x);
    return builder_.make(Opcode::Select, {isNan, x, cut(bits, type)});
  }

  ValueId bitsOf(ValueId x) {
    return builder_.make(Opcode::Bitcast, {x}, fn_.type(x).withElement(Elem::I32));
  }
  // The bits of x, from half of the part's last place on those of the number above.
  ValueId roundedUp(ValueId x) {
    const ValueId bits = bitsOf(x);
    const ValueId half = builder_.constInt(fn_.type(bits), int64_t{1} << (droppedBits() - 1));
    return builder_.make(Opcode::Add, {bits, half});
  }
  ValueId cut(ValueId bits, const Type &type) {
    const ValueId mask = builder_.constInt(fn_.type(bits), -(int64_t{1} << droppedBits()));
    return builder_.make(Opcode::Bitcast, {builder_.make(Opcode::And, {bits, mask})}, type);
  }
  // Of the mantissa.
  [[nodiscard]] int32_t droppedBits() const { return split_.elem == Elem::BF16 ? 16 : 13; }

  ValueId isFinite(ValueId x) { return isBelow(x, std::numeric_limits<double>::infinity()); }
  // |x| < bound: false for NaN.
  ValueId isBelow(ValueId x, double bound) {
    const ValueId magnitude = builder_.make(Opcode::Abs, {x});
    return builder_.cmp(CmpPred::olt, magnitude, builder_.constFloat(fn_.type(x), bound));
  }

  ir::Function &fn_;
  const OpId dot_;
  const DotSplit split_;
  ir::Builder builder_;
  std::vector<OpId> dots_;
};

} // namespace

std::optional<DotSplit> splitOf(Precision precision) {
  if (precision == Precision::tf32x3) {
    return DotSplit{Elem::F32, Precision::tf32, 2};
  }
  if (precision == Precision::bf16x3 || precision == Precision::bf16x6) {
    return DotSplit{Elem::BF16, Precision::ieee, precision == Precision::bf16x3 ? 2 : 3};
  }
  return std::nullopt;
}

std::vector<OpId> splitDot(ir::Function &fn, OpId dot, const DotSplit &split) {
  return Splitter(fn, dot, split).run();
}

} // namespace libtile::passes
