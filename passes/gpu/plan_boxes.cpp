// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_boxes.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/shared_layouts.h"
#include "passes/op_properties.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Guard;
using ir::LaunchNumber;
using ir::Opcode;
using ir::OpId;
using ir::TensorMap;
using ir::ValueId;

constexpr int64_t kStrideUnit = 16;                      // bytes
constexpr int64_t kStrideEnd = int64_t{1} << 40;         // bytes
constexpr int64_t kExtentEnd = int64_t{1} << 31;         // coordinates are 32 bits
constexpr int64_t kUnbounded = kExtentEnd;

class BoxPlanner {
public:
  // `tile`: what it loads or stores.
  BoxPlanner(const ir::Function &fn, OpId access, ValueId tile, const Facts &facts, const ir::Target &target)
      : fn_(fn), access_(access), tile_(tile), facts_(facts), target_(target) {}

  // "" or why not.
  std::string run(PlannedBox &planned) {
    const ir::Type type = fn_.type(tile_);
    if (type.rank() > 2 || type.isPointer() || type.isBool()) {
      return "a tile with more than two axes, or of pointers or i1";
    }
    const bool loads = fn_.opcode(access_) == Opcode::Load;
    if (loads && writesWhatIsLoaded()) {
      return "the kernel may write what is loaded, or waits for others who do";
    }
    const unsigned mask = loads ? 1 : 2;
    const auto box = accessBox(fn_, fn_.operand(access_, 0), fn_.numOperands(access_) > mask ? fn_.operand(access_, mask) : ValueId{}, facts_);
    if (!box) {
      return "addresses and mask are no box";
    }
    const BoxDim &fast = box->dims.back();
    const BoxDim *slow = box->dims.size() >= 2 ? &box->dims[box->dims.size() - 2] : nullptr;
    if (!fast.axis || (type.rank() == 2 && (slow == nullptr || !slow->axis))) {
      return "no axis of the tile has its elements side by side";
    }
    if (loads && !canLieAlong(fn_, tile_, *fast.axis, target_)) {
      return "a unit reads the tile with the other axis side by side";
    }
    const auto bytes = static_cast<int32_t>(type.elementBytes());
    std::vector<ir::Layout> threads = loads ? convertedLayouts(fn_, tile_) : std::vector<ir::Layout>();
    threads.push_back(fn_.layout(type.layout()));
    planned.slot = type.rank() == 1 ? rowLayout(type.shape()[0], bytes, threads) : matrixLayout(type.shape(), *fast.axis, bytes, threads);
    const auto parts = boxParts(planned.slot, type.shape(), bytes);
    if (!parts) {
      return "no buffer of such a tile is made of boxes";
    }
    // What lies behind a tile in its last box would be stored.
    if (!loads && (type.rank() != 2 || type.shape()[parts->fastAxis] % parts->fast != 0 || type.shape()[1 - parts->fastAxis] % parts->slow != 0)) {
      return "a tile that is not made of whole boxes";
    }
    if (!loads && !endsWithUnits(box->dims.back(), bytes)) {
      return "a bound that is no multiple of 16 bytes: the machine stores whole units";
    }
    return makeMap(*box, *parts, type.elem(), planned);
  }

private:
  // A copy gives 0 for each element outside. A store or an addition reaches the end of the unit of 16 bytes that a row's
  // bound lies in.
  [[nodiscard]] bool endsWithUnits(const BoxDim &row, int32_t elementBytes) const {
    return !row.extent || facts_.divisible(*row.extent) * elementBytes % kStrideUnit == 0;
  }

  // With room for the padding of those who read it. Slots of a ring start where a box may: at multiples of 128 bytes.
  static ir::Layout rowLayout(int32_t extent, int32_t elementBytes, std::span<const ir::Layout> threads) {
    int32_t padded = extent;
    for (const ir::Layout &layout : threads) {
      padded = std::max(padded, layout.subtile()[0] * layout.repeats()[0]);
    }
    const int32_t unit = kRowAlignment / elementBytes;
    const int32_t shape[] = {(padded + unit - 1) / unit * unit}, subtile[] = {shape[0] & -shape[0]}, order[] = {0};
    return bufferLayout(shape, subtile, order);
  }

  // What threads write is not seen by the machine's copies without further ado.
  [[nodiscard]] bool writesWhatIsLoaded() const {
    return mayWriteTo(fn_, fn_.body(), access_, facts_) ||
           std::ranges::any_of(fn_.walk(), [&](OpId op) { return acquires(fn_, op); });
  }

  std::string makeMap(const AccessBox &box, const BoxParts &parts, ir::Elem elem, PlannedBox &planned) {
    if (box.dims.size() > TensorMap::kMostDims) {
      return "more than five dimensions";
    }
    if (facts_.divisible(box.base) % kStrideUnit != 0) {
      return "the array may start at no multiple of 16 bytes";
    }
    planned.map.param = fn_.defIndex(box.base);
    planned.map.elem = elem;
    // The machine stops with an illegal instruction where a row of the box starts elsewhere.
    if (facts_.divisible(box.dims.back().coordinate) * static_cast<int64_t>(ir::bitWidth(elem) / 8) % kStrideUnit != 0) {
      return "a row of the box may start at no multiple of 16 bytes";
    }
    for (const BoxDim &dim : box.dims) {
      TensorMap::Dim made;
      if (&dim == &box.dims.back()) {
        made.stride = {dim.stride.constant(), -1};
      } else if (!makeStride(dim.stride, made.stride)) {
        return "a stride that is no multiple of 16 bytes and of one parameter";
      }
      if (!makeExtent(dim, made.extent)) {
        return "a bound that is no parameter, or elements below 0";
      }
      made.box = !dim.axis ? 1 : *dim.axis == parts.fastAxis ? parts.fast : parts.slow;
      planned.map.dims.push_back(made);
      planned.coordinates.push_back(dim.coordinate);
    }
    planned.guards = std::move(guards_);
    return "";
  }

  // Of factor * parameter or a number.
  [[nodiscard]] std::optional<LaunchNumber> numberOf(const Polynomial &polynomial) const {
    if (polynomial.isConstant()) {
      return LaunchNumber{polynomial.constant(), -1};
    }
    const Monomial &monomial = polynomial.monomials()[0];
    const ValueId factor = monomial.factors[0];
    const bool isOne = polynomial.constant() == 0 && polynomial.monomials().size() == 1 &&
                       monomial.factors.size() == 1 && fn_.isArg(factor) && fn_.defBlock(factor) == fn_.body();
    return isOne ? std::optional(LaunchNumber{monomial.coefficient, static_cast<int32_t>(fn_.defIndex(factor))})
                 : std::nullopt;
  }

  bool makeStride(const Polynomial &stride, LaunchNumber &made) {
    const auto number = numberOf(stride);
    if (!number || number->factor < 1 || number->factor >= kStrideEnd || facts_.divisible(stride) % kStrideUnit != 0) {
      return false;
    }
    made = *number;
    keepWithin(made, kStrideEnd);
    return true;
  }

  bool makeExtent(const BoxDim &dim, LaunchNumber &made) {
    const IntRange first = facts_.access().range(dim.coordinate);
    if (!dim.startsAtZero) {
      return false;
    }
    if (!dim.extent) {
      made = {kUnbounded, -1};
      // The last element has a coordinate, too.
      const int64_t elements = dim.axis ? fn_.type(tile_).dim(*dim.axis) : 1;
      return first.hi <= kExtentEnd - elements;
    }
    const auto number = numberOf(*dim.extent);
    if (!number || number->factor < 1 || (number->param < 0 && number->factor >= kExtentEnd)) {
      return false;
    }
    made = *number;
    keepWithin(made, kExtentEnd);
    return true;
  }

  // Guards that the number is positive and below `end`, as far as that is not known.
  void keepWithin(const LaunchNumber &number, int64_t end) {
    if (number.param < 0) {
      return;
    }
    const auto param = static_cast<uint32_t>(number.param);
    const IntRange range = facts_.range(fn_.arg(fn_.body(), param));
    const int64_t most = (end - 1) / number.factor;
    if (range.lo < 1) {
      guards_.push_back({Guard::Kind::Above, param, 0});
    }
    if (range.hi > most) {
      guards_.push_back({Guard::Kind::Below, param, most + 1});
    }
  }

  const ir::Function &fn_;
  const OpId access_;
  const ValueId tile_;
  const Facts &facts_;
  const ir::Target &target_;
  std::vector<Guard> guards_;
};

} // namespace

static bool isZero(const ir::Function &fn, ValueId value) {
  const OpId op = fn.def(value);
  if (op.valid() && fn.opcode(op) == Opcode::Splat) {
    return isZero(fn, fn.operand(op, 0));
  }
  return fn.isZero(value);
}

bool isZeroOutside(const ir::Function &fn, OpId load) { return fn.numOperands(load) <= 2 || isZero(fn, fn.operand(load, 2)); }

std::vector<ir::Layout> convertedLayouts(const ir::Function &fn, ValueId tile) {
  std::vector<ir::Layout> layouts;
  for (const ir::Use use : fn.uses(tile)) {
    if (fn.opcode(use.op) == Opcode::ConvertLayout) {
      layouts.push_back(fn.layout(fn.type(fn.result(use.op)).layout()));
    }
  }
  return layouts;
}

std::optional<PlannedBox> planBox(const ir::Function &fn, OpId load, const Facts &facts, const PassContext &context,
                                  std::string &why) {
  PlannedBox planned;
  why = context.relies == Reliance::Nothing ? "it may rely on nothing" : BoxPlanner(fn, load, fn.result(load), facts, context.target).run(planned);
  return why.empty() ? std::optional(std::move(planned)) : std::nullopt;
}

std::optional<PlannedBox> planStore(const ir::Function &fn, OpId store, ValueId tile, const Facts &facts, const PassContext &context) {
  PlannedBox planned;
  const bool is = context.relies != Reliance::Nothing && BoxPlanner(fn, store, tile, facts, context.target).run(planned).empty();
  return is ? std::optional(std::move(planned)) : std::nullopt;
}

// One row, not swizzled.
static std::optional<BoxParts> rowParts(const ir::Layout &buffer, int32_t extent, int32_t elementBytes) {
  const ir::LayoutInverse inverse(buffer);
  for (int32_t i = 0; i < extent; ++i) {
    if (inverse.offsetOf(ir::Coords(1, i)) != i) {
      return std::nullopt;
    }
  }
  BoxParts result{0, std::min(extent, TensorMap::kWidestBox), 1, {}};
  if (extent % result.fast != 0 || result.fast * elementBytes % kStrideUnit != 0) {
    return std::nullopt;
  }
  for (int32_t first = 0; first < extent; first += result.fast) {
    result.parts.push_back({ir::Coords(1, first), first * elementBytes});
  }
  return result;
}

std::optional<BoxParts> boxParts(const ir::Layout &buffer, std::span<const int32_t> shape, int32_t elementBytes) {
  if (buffer.rank() == 1 && shape.size() == 1) {
    return rowParts(buffer, shape[0], elementBytes);
  }
  if (buffer.rank() != 2 || shape.size() != 2) {
    return std::nullopt;
  }
  // The axis and the row are those of the whole buffer, whatever a part's walk could be taken for.
  for (const unsigned fastAxis : {1U, 0U}) {
    for (const int32_t rowBytes : {128, 64, 32}) {
      const unsigned slowAxis = 1 - fastAxis;
      BoxParts result{fastAxis, rowBytes / elementBytes, 0, {}};
      result.slow = std::min(buffer.subtile()[slowAxis], TensorMap::kWidestBox);
      ir::Coords extents(2, result.slow);
      extents[fastAxis] = result.fast;
      bool ok = result.fast <= buffer.subtile()[fastAxis];
      for (int32_t fast = 0; ok && fast < shape[fastAxis]; fast += result.fast) {
        for (int32_t slow = 0; ok && slow < shape[slowAxis]; slow += result.slow) {
          ir::Coords first(2, slow);
          first[fastAxis] = fast;
          const auto walk = matrixWalk(buffer, first, extents, elementBytes);
          ok = walk && walk->fastAxis == fastAxis && walk->rowBytes == rowBytes && walk->start % (8 * rowBytes) == 0 &&
               (result.slow <= 8 || walk->stride == 8 * rowBytes);
          if (ok) {
            result.parts.push_back({first, walk->start});
          }
        }
      }
      if (ok) {
        return result;
      }
    }
  }
  return std::nullopt;
}

} // namespace libtile::passes
