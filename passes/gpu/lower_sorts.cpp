// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/lower_sorts.h"

#include "ir/builder.h"
#include "ir/ops.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <utility>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Builder;
using ir::HwDim;
using ir::Layout;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

const Type kI32 = Type::scalar(ir::Elem::I32);

int32_t log2Of(int64_t x) { return static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(x))) - 1; }

// Where the bits of a place along the axis are: [0, registers) in registers, [registers, warps) in
// lanes, [warps, places) in warps.
struct Bits {
  int32_t registers, warps, places;
};

class SortLowering {
public:
  SortLowering(ir::Function &fn, OpId op, int32_t warpSize)
      : fn_(fn), op_(op), warpSize_(warpSize), axis_(static_cast<unsigned>(fn.getInt(op, Attr::axis))),
        from_(compared(fn.type(fn.operand(op, 0)))), builder_(fn, op) {
    std::vector<int32_t> shape(from_.shape().begin(), from_.shape().end());
    shape[axis_] = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(shape[axis_])));
    const Layout layout = rowLayout(shape);
    padded_ = from_.withShape(shape).withLayout(fn.internLayout(layout));
    exchanged_ = padded_.withLayout(fn.internLayout(exchanged(layout)));
  }

  void run() {
    ValueId keys = cast(Opcode::SExt, converted(fn_.operand(op_, 0), padded_.layout()), from_.elem());
    if (from_.dim(axis_) != padded_.dim(axis_)) {
      keys = padded(keys);
    }
    keys = inWarps(keys);
    keys = betweenWarps(keys);
    const Type result = fn_.type(fn_.result(op_));
    keys = resized(keys, from_.withShape(result.shape()).withLayout(padded_.layout()));
    keys = cast(Opcode::Trunc, keys, result.elem());
    fn_.replaceAllUses(fn_.result(op_), converted(keys, result.layout()));
    fn_.erase(op_);
  }

private:
  using Body = std::function<ValueId(ValueId index, ValueId keys)>;

  // Narrow integers are compared in 32 bits: they are extended once, not for each step.
  static Type compared(const Type &type) {
    return type.elementBits() < 32 ? type.withElement(ir::Elem::I32) : type;
  }

  // ---- layouts

  // At least as many register bits as warp bits, so that the two can change places; warps beyond that
  // take other rows, or do the same.
  Layout rowLayout(const std::vector<int32_t> &shape) {
    int64_t elements = 1;
    for (const int32_t extent : shape) {
      elements *= extent;
    }
    const int32_t places = log2Of(shape[axis_]), lanes = log2Of(warpSize_);
    const int64_t perThread = std::max<int64_t>(elements / (int64_t{fn_.numWarps} * warpSize_), 1);
    const int32_t registers =
        std::min(std::max(log2Of(perThread), (places - lanes + 1) / 2), places);
    std::vector<int32_t> order = {static_cast<int32_t>(axis_)};
    for (auto axis = static_cast<int32_t>(shape.size()); axis-- > 0;) {
      if (axis != order[0]) {
        order.push_back(axis);
      }
    }
    bits_ = {registers, std::min(registers + lanes, places), places};
    return Layout::blocked(shape, order, 1 << registers, fn_.numWarps, {}, warpSize_);
  }

  // The highest bits of registers and those of warps in each other's place.
  [[nodiscard]] Layout exchanged(const Layout &layout) const {
    std::array<Layout::Bases, ir::kNumHwDims> bases;
    for (const HwDim dim : {HwDim::Reg, HwDim::Lane, HwDim::Warp}) {
      bases[unsigned(dim)] = layout.bases(dim);
    }
    const auto basis = [&](HwDim dim, int32_t bit) -> ir::Coords & {
      return *std::ranges::find_if(bases[unsigned(dim)], [&](const ir::Coords &coords) {
        return coords[axis_] == 1 << bit;
      });
    };
    const int32_t count = bits_.places - bits_.warps;
    for (int32_t i = 0; i < count; ++i) {
      std::swap(basis(HwDim::Reg, bits_.registers - count + i), basis(HwDim::Warp, bits_.warps + i));
    }
    return {{layout.subtile().begin(), layout.subtile().end()},
            {layout.repeats().begin(), layout.repeats().end()},
            bases};
  }

  // ---- pieces

  ValueId converted(ValueId value, ir::LayoutId layout) {
    const Type type = fn_.type(value);
    return type.layout() == layout
               ? value
               : builder_.make(Opcode::ConvertLayout, {value}, type.withLayout(layout));
  }

  ValueId cast(Opcode opcode, ValueId value, ir::Elem elem) {
    const Type type = fn_.type(value);
    return type.elem() == elem ? value : builder_.make(opcode, {value}, type.withElement(elem));
  }

  ValueId resized(ValueId value, const Type &type) {
    return fn_.type(value) == type ? value : builder_.make(Opcode::Resize, {value}, type);
  }

  // The largest integer past the extent.
  ValueId padded(ValueId keys) {
    const Type index = padded_.withElement(ir::Elem::I32);
    const ValueId inside = builder_.cmp(ir::CmpPred::slt, places(),
                                        builder_.constInt(index, from_.dim(axis_)));
    const auto greatest = static_cast<int64_t>(~uint64_t{0} >> (65 - padded_.elementBits()));
    return builder_.make(Opcode::Select, {inside, resized(keys, padded_),
                                          builder_.constInt(padded_, greatest)});
  }

  // The place along the axis of each element.
  ValueId places() {
    Layout layout = fn_.layout(padded_.layout());
    const auto rank = static_cast<int32_t>(padded_.rank());
    for (int32_t axis = rank; axis-- > 0;) {
      if (axis != static_cast<int32_t>(axis_)) {
        layout = layout.reduced(static_cast<unsigned>(axis));
      }
    }
    std::vector<int32_t> shape = {padded_.dim(axis_)};
    const auto typeOf = [&](const Layout &of) {
      return Type::tile(shape, kI32).withLayout(fn_.internLayout(of));
    };
    ValueId value = builder_.make(Opcode::Arange, {}, typeOf(layout));
    fn_.setAttr(fn_.def(value), Attr::start, ir::AttrValue(int64_t{0}));
    for (int32_t axis = 0; axis < rank; ++axis) {
      if (axis != static_cast<int32_t>(axis_)) {
        layout = layout.expandDims(static_cast<unsigned>(axis));
        shape.insert(shape.begin() + axis, 1);
        value = builder_.make(Opcode::ExpandDims, {value}, typeOf(layout));
        fn_.setAttr(fn_.def(value), Attr::axis, ir::AttrValue(int64_t{axis}));
      }
    }
    const Type whole = padded_.withElement(ir::Elem::I32);
    return rank == 1 ? value : builder_.make(Opcode::Broadcast, {value}, whole);
  }

  ValueId number(int32_t value) { return builder_.i32(value); }

  ValueId exchange(ValueId keys, ValueId distance, bool mirrored = false) {
    const ValueId made =
        builder_.make(Opcode::CompareExchange, {keys, distance}, fn_.type(keys));
    fn_.setAttr(fn_.def(made), Attr::axis, ir::AttrValue(int64_t{axis_}));
    if (mirrored) {
      fn_.setAttr(fn_.def(made), Attr::mirrored, ir::AttrValue(int64_t{1}));
    }
    return made;
  }

  // for index = lo; index != hi; index += step
  ValueId loop(ValueId lo, int32_t hi, int32_t step, ValueId keys, const Body &body) {
    const ValueId operands[] = {lo, number(hi), number(step), keys};
    const Type type = fn_.type(keys);
    const OpId op = builder_.op(Opcode::For, operands, {&type, 1});
    const ir::BlockId region = fn_.region(op);
    const ValueId index = fn_.addArg(region, kI32);
    const ValueId carried = fn_.addArg(region, type);
    const Builder::Point outside = builder_.point();
    builder_.setEnd(region);
    const ValueId next = body(index, carried);
    builder_.yield({&next, 1});
    builder_.setPoint(outside);
    return fn_.result(op);
  }

  // ---- the network

  // Distances 2^from, ... 2^(registers), between lanes.
  ValueId mergeLanes(ValueId keys, ValueId from) {
    return loop(from, bits_.registers - 1, -1, keys, [&](ValueId bit, ValueId carried) {
      return exchange(carried, builder_.make(Opcode::Shl, {number(1), bit}));
    });
  }

  // Distances 2^(count-1), ... 1, between registers.
  ValueId mergeRegisters(ValueId keys, int32_t count) {
    while (count-- > 0) {
      keys = exchange(keys, number(1 << count));
    }
    return keys;
  }

  ValueId inWarps(ValueId keys) {
    if (bits_.places > bits_.warps) {
      keys = flipped(keys, bits_.warps, {});
    }
    for (int32_t bit = 0; bit < bits_.registers; ++bit) {
      keys = mergeRegisters(exchange(keys, number(1 << bit), true), bit);
    }
    if (bits_.warps == bits_.registers) {
      return keys;
    }
    return loop(number(bits_.registers), bits_.warps, 1, keys, [&](ValueId bit, ValueId carried) {
      const ValueId distance = builder_.make(Opcode::Shl, {number(1), bit});
      const ValueId first = exchange(carried, distance, true);
      const ValueId below = builder_.make(Opcode::Sub, {bit, number(1)});
      return mergeRegisters(mergeLanes(first, below), bits_.registers);
    });
  }

  ValueId betweenWarps(ValueId keys) {
    for (int32_t bit = bits_.warps; bit < bits_.places; ++bit) {
      keys = flipped(keys, bit, bit + 1);
      keys = converted(keys, exchanged_.layout());
      for (int32_t distance = bit; distance >= bits_.warps; --distance) {
        keys = exchange(keys, number(1 << distance));
      }
      keys = converted(keys, padded_.layout());
      keys = mergeRegisters(mergeLanes(keys, number(bits_.warps - 1)), bits_.registers);
    }
    return keys;
  }

  // All bits flipped where bit `a` of the place differs from bit `b`; a bit that no place has is 0.
  ValueId flipped(ValueId keys, int32_t a, std::optional<int32_t> b) {
    const Type index = padded_.withElement(ir::Elem::I32);
    const auto bitOf = [&](int32_t bit) {
      const ValueId shifted =
          builder_.make(Opcode::LShr, {places(), builder_.constInt(index, bit)});
      return builder_.make(Opcode::And, {shifted, builder_.constInt(index, 1)});
    };
    ValueId differs = bitOf(a);
    if (b && *b < bits_.places) {
      differs = builder_.make(Opcode::Xor, {differs, bitOf(*b)});
    }
    const ValueId isSet =
        builder_.cmp(ir::CmpPred::ne, differs, builder_.constInt(index, 0));
    return builder_.make(
        Opcode::Xor, {keys, builder_.make(Opcode::SExt, {isSet}, padded_)});
  }

  ir::Function &fn_;
  const OpId op_;
  const int32_t warpSize_;
  const unsigned axis_;
  const Type from_; // the keys as they are compared
  Builder builder_;
  Bits bits_{};
  Type padded_, exchanged_; // a power of two of places, in the two layouts
};

} // namespace

bool lowerSorts(ir::Function &fn, const PassContext &context) {
  bool changed = false;
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::Sort) {
      SortLowering(fn, op, context.target.warpSize).run();
      changed = true;
    }
  }
  return changed;
}

} // namespace libtile::passes
