// SPDX-License-Identifier: Apache-2.0
// Atomics on scalars and tiles. Elements of 8 to 64 bits; targets do the narrow ones in words where they
// have nothing narrower.
#include "frontend/semantics/accesses.h"
#include "ir/ops.h"

namespace libtile::frontend::operations {

namespace {

using ir::AtomicKind;
using ir::Attr;
using ir::AttrValue;
using ir::MemOrder;

constexpr std::array<std::pair<const char *, MemOrder>, 5> kReadAndWrite = {
    {{"", MemOrder::acq_rel},
     {"relaxed", MemOrder::relaxed},
     {"acquire", MemOrder::acquire},
     {"release", MemOrder::release},
     {"acq_rel", MemOrder::acq_rel}}};
constexpr std::array<std::pair<const char *, MemOrder>, 3> kReads = {
    {{"", MemOrder::acquire}, {"relaxed", MemOrder::relaxed}, {"acquire", MemOrder::acquire}}};
constexpr std::array<std::pair<const char *, MemOrder>, 3> kWrites = {
    {{"", MemOrder::release}, {"relaxed", MemOrder::relaxed}, {"release", MemOrder::release}}};
constexpr std::array<std::pair<const char *, ir::MemScope>, 4> kScopes = {
    {{"", ir::MemScope::gpu},
     {"cta", ir::MemScope::cta},
     {"gpu", ir::MemScope::gpu},
     {"sys", ir::MemScope::sys}}};

struct Order {
  MemOrder sem;
  ir::MemScope scope;
};

template <size_t N>
Order orderOf(const Semantics &s, const Value &sem, const Value &scope,
              const std::array<std::pair<const char *, MemOrder>, N> &orders) {
  return {choice(s, sem, "sem", orders), choice(s, scope, "scope", kScopes)};
}

void setOrder(Semantics &s, ir::OpId op, Order order) {
  ir::Function &fn = s.builder.function();
  fn.setAttr(op, Attr::sem, order.sem);
  fn.setAttr(op, Attr::scope, order.scope);
}

// The pointer of an atomic whose elements are numbers of memory's sizes.
Tensor atomicPointer(const Semantics &s, const Value &value, const char *what) {
  const Tensor pointer = requireWritable(s, value, what);
  const DType element = pointer.dtype.pointee();
  if (element.isPointer() || element.isBool() || element.isFloat8()) {
    s.fail(value, std::string(what) + " takes pointers to integers of 8 to 64 bits or floats of 16 to 64, got " +
                      value.describe());
  }
  return pointer;
}

// One operation on memory: what its arguments are in the pointer's shape.
struct Update {
  Tensor pointer, value;
  std::optional<Tensor> mask;
  Order order;
};

Update updateOf(Semantics &s, Args args, const char *what) {
  const Tensor pointer = atomicPointer(s, args[0], what);
  return {pointer, valueFor(s, args[1], pointer, "val"), maskFor(s, args[2], pointer),
          orderOf(s, args[3], args[4], kReadAndWrite)};
}

Tensor makeAtomic(Semantics &s, const Update &update, AtomicKind kind) {
  std::vector<ir::ValueId> operands = {update.pointer.id, update.value.id};
  if (update.mask) {
    operands.push_back(update.mask->id);
  }
  const ir::ValueId id = s.builder.make(ir::Opcode::AtomicRmw, operands);
  ir::Function &fn = s.builder.function();
  fn.setAttr(fn.def(id), Attr::kind, kind);
  setOrder(s, fn.def(id), update.order);
  return s.makeTensor(id, update.pointer.dtype.pointee());
}

// Floats in the total order of their bits, -NaN < -inf < ... < -0 < 0 < ... < inf < NaN: without its sign
// the integer of the same bits grows with the float. So a val without a sign goes by the signed integers,
// and one with a sign by the unsigned ones the other way round.
Value floatExtreme(Semantics &s, const Update &update, bool isMax) {
  const DType element = update.pointer.dtype.pointee();
  const unsigned bits = ir::bitWidth(element.elem);
  const DType integer{bits == 16 ? ir::Elem::I16 : bits == 32 ? ir::Elem::I32 : ir::Elem::I64, true};
  Update positive = update;
  positive.pointer = s.cast(update.pointer, integer.pointerTo());
  positive.value = s.cast(update.value, integer, true);
  const Tensor zero = constantTensor(s, integer, update.value.shape, Constant(BigInt(0)));
  const Tensor hasSign = emitCompare(s, CompareOp::Lt, positive.value, zero);
  const Tensor hasNone = emitCompare(s, CompareOp::Ge, positive.value, zero);
  Update negative = positive;
  const auto also = [&](const Tensor &condition) {
    return update.mask ? emitBinary(s, BinaryOp::BitAnd, *update.mask, condition) : condition;
  };
  positive.mask = also(hasNone);
  negative.mask = also(hasSign);
  const Tensor a = makeAtomic(s, positive, isMax ? AtomicKind::smax : AtomicKind::smin);
  const Tensor b = makeAtomic(s, negative, isMax ? AtomicKind::umin : AtomicKind::umax);
  return Value(s.cast(emitSelect(s, hasSign, b, a), element, true));
}

Value extreme(Semantics &s, Args args, bool isMax) {
  const Update update = updateOf(s, args, isMax ? "atomic_max" : "atomic_min");
  const DType element = update.pointer.dtype.pointee();
  if (element.isFloat()) {
    return floatExtreme(s, update, isMax);
  }
  const AtomicKind kind = element.isSigned ? (isMax ? AtomicKind::smax : AtomicKind::smin)
                                           : (isMax ? AtomicKind::umax : AtomicKind::umin);
  return Value(makeAtomic(s, update, kind));
}

Value bitwise(Semantics &s, Args args, AtomicKind kind, const char *what) {
  const Update update = updateOf(s, args, what);
  if (!update.pointer.dtype.pointee().isInt()) {
    s.fail(args[0], std::string(what) + " takes pointers to integers, got " + args[0].describe());
  }
  return Value(makeAtomic(s, update, kind));
}

} // namespace

Value atomicAdd(Semantics &s, Args args) {
  const Update update = updateOf(s, args, "atomic_add");
  const bool isFloat = update.pointer.dtype.pointee().isFloat();
  return Value(makeAtomic(s, update, isFloat ? AtomicKind::fadd : AtomicKind::add));
}

Value atomicMax(Semantics &s, Args args) { return extreme(s, args, true); }
Value atomicMin(Semantics &s, Args args) { return extreme(s, args, false); }
Value atomicAnd(Semantics &s, Args args) { return bitwise(s, args, AtomicKind::and_, "atomic_and"); }
Value atomicOr(Semantics &s, Args args) { return bitwise(s, args, AtomicKind::or_, "atomic_or"); }
Value atomicXor(Semantics &s, Args args) { return bitwise(s, args, AtomicKind::xor_, "atomic_xor"); }

Value atomicXchg(Semantics &s, Args args) {
  return Value(makeAtomic(s, updateOf(s, args, "atomic_xchg"), AtomicKind::xchg));
}

Value atomicCas(Semantics &s, Args args) {
  const Tensor pointer = atomicPointer(s, args[0], "atomic_cas");
  const Tensor expected = valueFor(s, args[1], pointer, "cmp");
  const Tensor value = valueFor(s, args[2], pointer, "val");
  std::vector<ir::ValueId> operands = {pointer.id, expected.id, value.id};
  if (const std::optional<Tensor> mask = maskFor(s, args[5], pointer)) {
    operands.push_back(mask->id);
  }
  const Order order = orderOf(s, args[3], args[4], kReadAndWrite);
  const ir::ValueId id = s.builder.make(ir::Opcode::AtomicCas, operands);
  setOrder(s, s.builder.function().def(id), order);
  return Value(s.makeTensor(id, pointer.dtype.pointee()));
}

Value atomicLoad(Semantics &s, Args args) {
  const Order order = orderOf(s, args[2], args[3], kReads);
  const MadeAccess made = makeLoad(s, requirePointer(s, args[0], "atomic_load"), args[1], Value::none());
  s.builder.function().setAttr(made.op, Attr::is_volatile, AttrValue(int64_t{1}));
  setOrder(s, made.op, order);
  return made.result;
}

Value atomicStore(Semantics &s, Args args) {
  const Order order = orderOf(s, args[3], args[4], kWrites);
  const MadeAccess made = makeStore(s, requireWritable(s, args[0], "atomic_store"), args[1], args[2]);
  s.builder.function().setAttr(made.op, Attr::is_volatile, AttrValue(int64_t{1}));
  setOrder(s, made.op, order);
  return Value::none();
}

} // namespace libtile::frontend::operations
