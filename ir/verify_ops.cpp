// SPDX-License-Identifier: Apache-2.0
// Invariants 13 to 20, 25 to 27, 29 and 30: ops whose result is stated by their maker, one overload
// an op, reached through ops.def (the list is in verifier.cpp).
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/print_text.h"
#include "ir/verifier_impl.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace libtile::ir {

namespace {

const Type kI32 = Type::scalar(Elem::I32);

bool isPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

struct OpChecks {
  Checker &c;
  const Function &fn = c.fn;

  // What has a rule of its own is checked by the type rule, the others stand below.
  template <Opcode opcode> void check(OpId) {}

  void axis(OpId op) {
    const int64_t axis = fn.getInt(op, Attr::axis);
    c.require(axis >= 0 && axis <= 2, 14, op, "a grid axis is 0, 1 or 2");
    c.require(c.resultType(op) == kI32, 14, op, "the result is an i32");
  }

  // A tile whose element and sort are the operand's.
  bool reshapes(OpId op, Type from, Type to) {
    return c.require(from.isTile() && to.isTile() && from.element() == to.element(), 17, op,
                     "operand and result are tiles of one element type");
  }

  static bool isIntegers(const Type &type) {
    return type.isTile() && type.isInteger() && type.elementBits() >= 8;
  }

  void atomic(OpId op, bool kindFits) {
    c.require(kindFits, 19, op, "no such atomic on this element type");
  }

  // A load or store: atomic if it has an order.
  void ordered(OpId op, bool orderFits) {
    const bool atomic = fn.hasAttr(op, Attr::sem);
    c.require(atomic == fn.hasAttr(op, Attr::scope) &&
                  (!atomic || (orderFits && fn.getBool(op, Attr::is_volatile))),
              19, op, "an atomic load or store is volatile, has a scope, and an order of its own; no other");
  }

  bool indexed(OpId op, unsigned firstIndex) {
    const Type buffer = c.operandType(op, 0);
    if (!c.require(buffer.isBuffer() && fn.numOperands(op) == firstIndex + buffer.rank(), 29, op,
                   "a buffer and one index an axis")) {
      return false;
    }
    bool ok = true;
    for (unsigned i = firstIndex; i < fn.numOperands(op); ++i) {
      ok = ok && c.operandType(op, i) == kI32;
    }
    return c.require(ok, 29, op, "an index is an i32");
  }

  // Shapes that are equal outside of an axis that both have.
  bool differsAlong(std::span<const int32_t> a, std::span<const int32_t> b, int64_t axis) {
    bool ok = a.size() == b.size() && axis >= 0 && axis < static_cast<int64_t>(a.size());
    for (size_t i = 0; ok && i < a.size(); ++i) {
      ok = a[i] == b[i] || static_cast<int64_t>(i) == axis;
    }
    return ok;
  }

  // The elements that a slice takes lie in an axis of that extent.
  bool slices(OpId op, int32_t extent, const Type &to) {
    const int64_t start = fn.getInt(op, Attr::start), step = fn.getInt(op, Attr::step);
    const int64_t count = to.dim(static_cast<unsigned>(fn.getInt(op, Attr::axis)));
    const auto inside = [&](int64_t index) { return index >= 0 && index < extent; };
    return step != 0 && step > -extent - 1 && step <= extent && inside(start) &&
           inside(start + (count - 1) * step);
  }

  bool indices(OpId op, unsigned operand) {
    const Type type = c.operandType(op, operand);
    return (type.isTile() && type.element() == kI32);
  }

  // The mask behind an index tile, if there is one.
  bool maskFits(OpId op, unsigned index) {
    return fn.numOperands(op) <= index + 1 ||
           c.operandType(op, index + 1) == c.operandType(op, index).withElement(Elem::I1);
  }

  bool tileOfBuffer(OpId op, const Type &tile, const Type &buffer) {
    const bool fits = tile.isTile() && buffer.isBuffer() &&
                      (tile.sameShape(buffer) ||
                       (buffer.rank() == 1 && tile.numElements() == buffer.numElements()));
    // Of a buffer with one axis the padding has no place of its own.
    const bool laidOut = fits && tile.layout().valid() && buffer.layout().valid() && buffer.rank() > 1;
    return c.require(fits && tile.element() == buffer.element(), 26, op,
                     "the tile does not have the buffer's shape and element") &&
           c.require(!laidOut || fn.layout(buffer.layout()).hasRoomFor(fn.layout(tile.layout())), 26, op,
                     "the tile's padding reaches past the buffer's");
  }

  void tileOfPlace(OpId op, const Type &tile, const Type &place) {
    c.require(tile.isTile() && place.isPlace() &&
                  tile == Type::tile(place.shape(), place.element(), place.layout()),
              38, op, "the tile does not have the place's shape, element and layout");
  }
};

template <> void OpChecks::check<Opcode::Constant>(OpId op) {
  const Type type = c.resultType(op);
  const AttrValue &value = *fn.findAttr(op, Attr::value);
  const auto *whole = std::get_if<int64_t>(&value);
  const auto *real = std::get_if<double>(&value);
  bool ok = type.isScalar() || type.isTile();
  if (type.isFloating()) {
    ok = ok && real != nullptr &&
         std::bit_cast<uint64_t>(canonicalFloat(type.elem(), *real)) ==
             std::bit_cast<uint64_t>(*real);
  } else if (type.isPointer()) {
    ok = ok && whole != nullptr && *whole == 0;
  } else {
    ok = ok && whole != nullptr && canonicalInt(type.elem(), *whole) == *whole;
  }
  c.require(ok, 13, op, "the value is no number of this type");
}

template <> void OpChecks::check<Opcode::ProgramId>(OpId op) {
  axis(op);
  c.require(fn.numOperands(op) == 0 || c.operandType(op, 0) == kI32, 14, op, "a program's number is an i32");
}
template <> void OpChecks::check<Opcode::NumPrograms>(OpId op) { axis(op); }
template <> void OpChecks::check<Opcode::Worker>(OpId op) { c.require(c.resultType(op) == kI32, 14, op, "the result is an i32"); }
template <> void OpChecks::check<Opcode::NumWorkers>(OpId op) { c.require(c.resultType(op) == kI32, 14, op, "the result is an i32"); }

template <> void OpChecks::check<Opcode::Arange>(OpId op) {
  const Type type = c.resultType(op);
  const int64_t start = fn.getInt(op, Attr::start);
  constexpr int64_t kLimit = int64_t{1} << 31;
  c.require(type.isTile() && type.rank() == 1 && type.element() == kI32 && start >= -kLimit &&
                start <= kLimit - type.numElements(),
            15, op, "a 1-D tile of i32 numbers");
}

template <> void OpChecks::check<Opcode::Splat>(OpId op) {
  const Type type = c.resultType(op);
  c.require(type.isTile() && type.element() == c.operandType(op, 0), 16, op,
            "a tile of the scalar operand's type");
}

template <> void OpChecks::check<Opcode::Broadcast>(OpId op) {
  const Type from = c.operandType(op, 0);
  const Type to = c.resultType(op);
  bool ok =
      from.isTile() && to.isTile() && from.element() == to.element() && from.rank() == to.rank();
  for (unsigned axis = 0; ok && axis < from.rank(); ++axis) {
    ok = from.dim(axis) == to.dim(axis) || from.dim(axis) == 1;
  }
  c.require(ok, 16, op, "an extent that is neither 1 nor the result's");
}

template <> void OpChecks::check<Opcode::ExpandDims>(OpId op) {
  const Type from = c.operandType(op, 0);
  const Type to = c.resultType(op);
  const int64_t axis = fn.getInt(op, Attr::axis);
  if (reshapes(op, from, to)) {
    std::vector<int32_t> shape(from.shape().begin(), from.shape().end());
    const bool ok = axis >= 0 && axis <= int64_t{from.rank()};
    if (ok) {
      shape.insert(shape.begin() + axis, 1);
    }
    c.require(ok && std::ranges::equal(shape, to.shape()), 17, op,
              "the result is not the operand with an axis of extent 1");
  }
}

template <> void OpChecks::check<Opcode::Hold>(OpId op) {
  const Type type = c.operandType(op, 0);
  c.require(type.isTile() && !type.isPointer() && !type.isBuffer() && c.resultType(op) == type, 17, op, "the result is not a tile of the operand's type");
}

template <> void OpChecks::check<Opcode::Reshape>(OpId op) {
  const Type from = c.operandType(op, 0);
  const Type to = c.resultType(op);
  if (reshapes(op, from, to)) {
    c.require(from.numElements() == to.numElements(), 17, op, "the number of elements changes");
  }
}

template <> void OpChecks::check<Opcode::Trans>(OpId op) {
  const Type from = c.operandType(op, 0);
  const Type to = c.resultType(op);
  const std::span<const int64_t> order = fn.getInts(op, Attr::order);
  const bool isView = from.isBuffer() && to.isBuffer() && from.element() == to.element();
  if (!isView && !reshapes(op, from, to)) {
    return;
  }
  bool ok = order.size() == from.rank() && to.rank() == from.rank();
  unsigned seen = 0;
  for (unsigned i = 0; ok && i < order.size(); ++i) {
    ok = order[i] >= 0 && order[i] < int64_t{from.rank()} && to.dim(i) == from.dim(order[i]);
    seen |= ok ? 1u << order[i] : 0;
  }
  ok = ok && seen == (1u << from.rank()) - 1;
  c.require(ok, 17, op, "order is no permutation to the result's shape");
  if (!ok || !isView) {
    return;
  }
  // Offsets count repeats along several axes in the order of the axes.
  const auto liesThere = [&](const Layout &own, const Layout &permuted) {
    return own.rank() == from.rank() &&
           std::ranges::count_if(own.repeats(), [](int32_t times) { return times > 1; }) <= 1 &&
           own.trans(order) == permuted;
  };
  c.require(from.layout().valid() && to.layout().valid() &&
                liesThere(fn.layout(from.layout()), fn.layout(to.layout())),
            17, op, "the permuted buffer lies elsewhere");
}

template <> void OpChecks::check<Opcode::Slice>(OpId op) {
  const Type from = c.operandType(op, 0);
  const Type to = c.resultType(op);
  const int64_t axis = fn.getInt(op, Attr::axis);
  if (reshapes(op, from, to)) {
    c.require(differsAlong(from.shape(), to.shape(), axis) &&
                  slices(op, from.dim(static_cast<unsigned>(axis)), to),
              17, op, "the result is no part of the operand along the axis");
  }
}

template <> void OpChecks::check<Opcode::Gather>(OpId op) {
  const Type from = c.operandType(op, 0);
  const Type to = c.resultType(op);
  c.require(from.isTile() && indices(op, 1) && to == c.operandType(op, 1).withElement(from.element()) &&
                differsAlong(from.shape(), to.shape(), fn.getInt(op, Attr::axis)),
            37, op, "the result is not what i32 indices along the axis name");
}

template <> void OpChecks::check<Opcode::Histogram>(OpId op) {
  const Type to = c.resultType(op);
  c.require(indices(op, 0) && maskFits(op, 0) && to.isTile() && to.rank() == 1 &&
                to.element() == kI32,
            37, op, "a histogram counts i32 indices under a mask of their shape in a 1-D i32 tile");
}

template <> void OpChecks::check<Opcode::Hint>(OpId op) {
  const size_t entries = std::max(1u, c.resultType(op).rank());
  for (Attr attr : {Attr::divisible, Attr::contiguous, Attr::constant}) {
    const std::span<const int64_t> list = fn.getInts(op, attr);
    const bool positive = std::ranges::all_of(list, [](int64_t value) { return value >= 1; });
    c.require(!fn.hasAttr(op, attr) || (list.size() == entries && positive), 18, op,
              "a hint has one positive entry an axis");
  }
}

template <> void OpChecks::check<Opcode::Assume>(OpId op) {
  c.require(c.operandType(op, 0) == Type::scalar(Elem::I1), 18, op, "assume takes a scalar i1");
}

template <> void OpChecks::check<Opcode::Print>(OpId op) {
  const auto formats = readPrintFormats(fn.getText(op, Attr::formats));
  bool ok = formats && formats->size() == fn.numOperands(op);
  for (unsigned i = 0; ok && i < fn.numOperands(op); ++i) {
    const Type type = c.operandType(op, i);
    ok = type.isBuffer() == (type.rank() > 0 && fn.stage == Stage::Nested) &&
         writes((*formats)[i], type.element());
  }
  c.require(ok, 18, op, "print takes i32, i64, f32 and f64, and a format for each that fits it");
}

template <> void OpChecks::check<Opcode::Assert>(OpId op) {
  c.require(c.operandType(op, 0) == Type::scalar(Elem::I1), 18, op, "assert takes a scalar i1");
}

template <> void OpChecks::check<Opcode::AtomicRmw>(OpId op) {
  const Type type = c.resultType(op);
  const auto kind = fn.getEnum<AtomicKind>(op, Attr::kind);
  const bool any = kind == AtomicKind::xchg && type.elementBits() >= 8;
  const bool floats = kind == AtomicKind::fadd;
  atomic(op, any || (floats ? type.isFloating() : type.isInteger() && type.elementBits() >= 8));
  const bool waits = kind == AtomicKind::add && type.isTile() && type.rank() == 1 && fn.unused(fn.result(op));
  c.require(waits || !fn.getBool(op, Attr::deferred), 19, op, "an addition to a row of integers may be deferred whose old value nobody reads");
}

template <> void OpChecks::check<Opcode::AtomicCas>(OpId op) {
  atomic(op, c.resultType(op).elementBits() >= 8);
}

template <> void OpChecks::check<Opcode::Clock>(OpId op) {
  c.require(c.resultType(op) == Type::scalar(Elem::I64), 19, op, "a clock gives an i64");
}

template <> void OpChecks::check<Opcode::Load>(OpId op) {
  const auto sem = fn.getEnum<MemOrder>(op, Attr::sem);
  const bool reads = sem == MemOrder::relaxed || sem == MemOrder::acquire;
  ordered(op, reads && fn.numOperands(op) < 3);
}

template <> void OpChecks::check<Opcode::Store>(OpId op) {
  const auto sem = fn.getEnum<MemOrder>(op, Attr::sem);
  ordered(op, sem == MemOrder::relaxed || sem == MemOrder::release);
}

template <> void OpChecks::check<Opcode::Dot>(OpId op) { verifyDot(c, op); }

template <> void OpChecks::check<Opcode::Sort>(OpId op) {
  const Type from = c.operandType(op, 0);
  const Type to = c.resultType(op);
  const int64_t axis = fn.getInt(op, Attr::axis);
  if (!c.require(isIntegers(from) && to.isTile() && from.element() == to.element() && axis >= 0 &&
                     axis < int64_t{from.rank()} && to.rank() == from.rank(),
                 20, op, "sort takes a tile of integers with that axis and gives one")) {
    return;
  }
  bool ok = true;
  for (unsigned i = 0; i < from.rank(); ++i) {
    ok = ok && (int64_t{i} == axis ? to.dim(i) <= from.dim(i) : to.dim(i) == from.dim(i));
  }
  c.require(ok, 20, op, "the result has more elements along the axis, or other rows");
}

template <> void OpChecks::check<Opcode::Resize>(OpId op) {
  const Type from = c.operandType(op, 0);
  const Type to = c.resultType(op);
  c.require(from.isTile() && to.isTile() && from.element() == to.element() &&
                from.rank() == to.rank() && from.layout() == to.layout(),
            17, op, "operand and result are tiles of one element, rank and layout");
}

template <> void OpChecks::check<Opcode::CompareExchange>(OpId op) {
  const Type type = c.operandType(op, 0);
  const int64_t axis = fn.getInt(op, Attr::axis);
  c.require(isIntegers(type) && c.resultType(op) == type && axis >= 0 &&
                axis < int64_t{type.rank()} && c.operandType(op, 1) == kI32,
            20, op, "a tile of integers with that axis and an i32 give the tile's type");
}

template <> void OpChecks::check<Opcode::SortRows>(OpId op) {
  const Type buffer = c.operandType(op, 0);
  c.require(buffer.isBuffer() && buffer.isInteger() && buffer.elementBits() >= 8 &&
                isPowerOfTwo(buffer.dim(buffer.rank() - 1)) &&
                isPowerOfTwo(fn.getInt(op, Attr::lanes)),
            30, op, "a buffer of integers whose rows are a power of two, and so many lanes");
}

template <> void OpChecks::check<Opcode::LeastOfRows>(OpId op) {
  const Type rows = c.operandType(op, 0), least = c.operandType(op, 1), room = c.operandType(op, 2);
  const int64_t lanes = fn.getInt(op, Attr::lanes), count = fn.getInt(op, Attr::count);
  const bool buffers = rows.isBuffer() && least.isBuffer() && room.isBuffer();
  const bool sameElement = buffers && rows.isInteger() && rows.elementBits() >= 8 &&
                           least.element() == rows.element() && room.element() == rows.element();
  if (!c.require(sameElement && least.rank() == rows.rank() && room.rank() == 1, 30, op,
                 "buffers of one type of integers, of one rank and of rank 1")) {
    return;
  }
  const size_t last = rows.rank() - 1;
  const int32_t kept = least.dim(last);
  c.require(std::ranges::equal(rows.shape().first(last), least.shape().first(last)) && room.dim(0) == kept &&
                rows.dim(last) % kept == 0 && isPowerOfTwo(kept) && isPowerOfTwo(lanes) && lanes <= kept &&
                count >= 1 && count <= kept,
            30, op, "rows of a multiple of what is kept of them, a power of two, and at most so many lanes and wanted");
}

template <> void OpChecks::check<Opcode::Alloc>(OpId op) {
  c.require(c.resultType(op).isBuffer(), 25, op, "alloc gives a buffer");
  c.require(fn.getInt(op, Attr::offset) >= 0, 25, op, "a negative offset");
  c.require(!fn.hasAttr(op, Attr::align) || isPowerOfTwo(fn.getInt(op, Attr::align)), 25, op,
            "align is a power of two");
}

template <> void OpChecks::check<Opcode::Recall>(OpId op) {
  c.require(c.resultType(op) == Type::scalar(Elem::I1) && c.operandType(op, 0) == kI32, 25, op, "an i1 of an i32 slot");
  c.require(fn.getInt(op, Attr::slots) >= 1 && fn.getInt(op, Attr::offset) >= 0, 25, op, "no slots, or a negative offset");
  for (unsigned i = 1; i < fn.numOperands(op); ++i) {
    const Type type = c.operandType(op, i);
    c.require(type.isScalar() && (type.isPointer() || type.isInteger()), 25, op, "a key is of integers and addresses");
  }
}

template <> void OpChecks::check<Opcode::CallSums>(OpId op) { verifyCallSums(c, op); }

template <> void OpChecks::check<Opcode::BufferSlot>(OpId op) {
  const Type from = c.operandType(op, 0);
  const Type to = c.resultType(op);
  c.require(from.isBuffer() && to.isBuffer() && from.rank() >= 2 &&
                from.element() == to.element() &&
                std::ranges::equal(from.shape().subspan(1), to.shape()),
            25, op, "a slot is the buffer without its leading axis");
  c.require(c.operandType(op, 1) == kI32, 25, op, "a slot is chosen by an i32");
}

template <> void OpChecks::check<Opcode::BufferRead>(OpId op) {
  tileOfBuffer(op, c.resultType(op), c.operandType(op, 0));
}

template <> void OpChecks::check<Opcode::BufferWrite>(OpId op) {
  tileOfBuffer(op, c.operandType(op, 1), c.operandType(op, 0));
}

template <> void OpChecks::check<Opcode::BufferGather>(OpId op) {
  const Type buffer = c.operandType(op, 0);
  const Type to = c.resultType(op);
  const std::span<const int64_t> extents = fn.getInts(op, Attr::extents);
  const std::vector<int32_t> shape(extents.begin(), extents.end());
  const int64_t axis = fn.getInt(op, Attr::axis);
  int64_t elements = 1;
  for (const int64_t extent : extents) {
    elements = extent >= 1 && elements <= Type::kMaxElements ? elements * extent : 0;
  }
  if (!c.require(buffer.isBuffer() && buffer.rank() == 1 && elements == buffer.numElements() &&
                     to.isTile() && to.element() == buffer.element() &&
                     differsAlong(shape, to.shape(), axis),
                 26, op, "the result is not what the indices name in a buffer of these extents")) {
    return;
  }
  const bool indexed = fn.numOperands(op) > 1;
  c.require(indexed ? c.operandType(op, 1) == to.withElement(Elem::I32)
                    : slices(op, shape[static_cast<size_t>(axis)], to),
            26, op, "the indices are neither i32 in the result's shape nor inside of the axis");
}

template <> void OpChecks::check<Opcode::BufferCount>(OpId op) {
  const Type buffer = c.operandType(op, 0);
  c.require(buffer.isBuffer() && buffer.rank() == 1 && buffer.element() == kI32 &&
                indices(op, 1) && maskFits(op, 1),
            26, op, "a buffer of i32 with one axis, i32 indices and a mask of their shape");
}

template <> void OpChecks::check<Opcode::AsyncCopy>(OpId op) {
  const Type pointer = c.operandType(op, 0);
  const Type buffer = c.operandType(op, 1);
  c.require(pointer.isTile() && pointer.isPointer() && buffer.isBuffer() &&
                pointer.sameShape(buffer) && pointer.pointee().element() == buffer.element(),
            27, op, "the pointers do not have the buffer's shape and element");
}

template <> void OpChecks::check<Opcode::AsyncWait>(OpId op) {
  c.require(fn.getInt(op, Attr::count) >= 0, 27, op, "count is not negative");
}

template <> void OpChecks::check<Opcode::ArrivalsInit>(OpId op) { verifyArrivalsInit(c, op); }
template <> void OpChecks::check<Opcode::CopyBox>(OpId op) { verifyCopyBox(c, op); }
template <> void OpChecks::check<Opcode::StoreBox>(OpId op) { verifyStoreBox(c, op); }
template <> void OpChecks::check<Opcode::StoreWait>(OpId op) { verifyStoreWait(c, op); }
template <> void OpChecks::check<Opcode::ArrivalsWait>(OpId op) { verifyArrivalsWait(c, op); }
template <> void OpChecks::check<Opcode::ClusterBarrier>(OpId op) { verifyClusterBarrier(c, op); }
template <> void OpChecks::check<Opcode::ClusterSize>(OpId op) { c.require(c.resultType(op) == kI32, 14, op, "the result is an i32"); }
template <> void OpChecks::check<Opcode::Arrive>(OpId op) { verifyArrive(c, op); }
template <> void OpChecks::check<Opcode::Producer>(OpId op) { verifyProducer(c, op); }

template <> void OpChecks::check<Opcode::PlaceWrite>(OpId op) {
  tileOfPlace(op, c.operandType(op, 0), c.resultType(op));
}

template <> void OpChecks::check<Opcode::PlaceRead>(OpId op) {
  tileOfPlace(op, c.resultType(op), c.operandType(op, 0));
}

template <> void OpChecks::check<Opcode::DotWait>(OpId op) {
  c.require(fn.getInt(op, Attr::count) >= 0, 38, op, "count is not negative");
}

template <> void OpChecks::check<Opcode::ElementRead>(OpId op) {
  if (indexed(op, 1)) {
    c.require(c.resultType(op) == c.operandType(op, 0).element(), 29, op, "the result is not the element");
  }
}

template <> void OpChecks::check<Opcode::ElementWrite>(OpId op) {
  if (indexed(op, 2)) {
    c.require(c.operandType(op, 1) == c.operandType(op, 0).element(), 29, op, "the value is not the element's type");
  }
}

template <> void OpChecks::check<Opcode::Contract>(OpId op) { verifyContract(c, op); }
template <> void OpChecks::check<Opcode::TransposeWords>(OpId op) { verifyTransposeWords(c, op); }

} // namespace

void verifyOp(Checker &checker, OpId op) {
  OpChecks checks{checker};
  switch (checker.fn.opcode(op)) {
#define OP(Name, ...)                                                                              \
  case Opcode::Name:                                                                               \
    return checks.check<Opcode::Name>(op);
#include "ir/ops.def"
  }
}

} // namespace libtile::ir
