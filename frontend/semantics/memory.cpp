// SPDX-License-Identifier: Apache-2.0
// Memory: loads, stores, atomics. The pointer (or tile of pointers) gives the shape; mask, value
// and other are brought to it. An int1 in memory is a byte: read as != 0, written as 0 or 1.
#include "frontend/semantics/operations.h"
#include "ir/ops.h"

#include <array>

namespace libtile::frontend::operations {

namespace {

using ir::Attr;
using ir::AttrValue;

constexpr DType kInt1{ir::Elem::I1, false};
constexpr DType kByte{ir::Elem::I8, false};

Tensor requirePointer(const Semantics &s, const Value &value, const char *what) {
  const Tensor *tensor = value.tensor();
  if (tensor == nullptr || !tensor->dtype.isPointer()) {
    s.fail(value, std::string("the pointer of ") + what +
                      " must be a pointer or a tile of pointers, got " + value.describe());
  }
  if (tensor->dtype.pointee().elem == ir::Elem::Void && tensor->dtype.pointerDepth == 1) {
    s.fail(value, std::string(what) + " does not take a pointer to void");
  }
  return *tensor;
}

Tensor requireWritable(const Semantics &s, const Value &value, const char *what) {
  const Tensor pointer = requirePointer(s, value, what);
  if (pointer.dtype.isConst) {
    s.fail(value, std::string(what) + " cannot write through a pointer that is const");
  }
  return pointer;
}

// `x` in the shape of the pointer.
Tensor likePointer(Semantics &s, const Tensor &x, const Tensor &pointer, const Value &argument,
                   const char *what) {
  if (x.shape == pointer.shape) {
    return x;
  }
  if (pointer.isScalar()) {
    s.fail(argument, std::string(what) + " has shape " + shapeText(x.shape) +
                         " but the pointer is a scalar");
  }
  if (commonShape(s, x.shape, pointer.shape) != pointer.shape) {
    s.fail(argument, std::string(what) + " has shape " + shapeText(x.shape) +
                         ", which the pointer's shape " + shapeText(pointer.shape) +
                         " does not hold");
  }
  return stretch(s, x, pointer.shape);
}

// The mask in the pointer's shape; nullopt for None and for a constant that is true.
std::optional<Tensor> maskFor(Semantics &s, const Value &mask, const Tensor &pointer) {
  if (mask.isNone()) {
    return std::nullopt;
  }
  if (mask.constant() != nullptr) {
    if (constantBool(s, mask, "mask")) {
      return std::nullopt;
    }
    return constantTensor(s, kInt1, pointer.shape, Constant(false));
  }
  const Tensor tensor = requireTensor(s, mask, "mask");
  if (!tensor.dtype.isBool()) {
    s.fail(mask, "mask must be boolean, got " + mask.describe());
  }
  return likePointer(s, tensor, pointer, mask, "mask");
}

// A value in the element type and shape of the pointer.
Tensor valueFor(Semantics &s, const Value &value, const Tensor &pointer, const char *what) {
  const DType element = pointer.dtype.pointee();
  const bool fits =
      value.constant() != nullptr && (element.isFloat() || holds(element, *value.constant()));
  if (fits && !element.isBool()) {
    return s.toComputation(value, element, pointer.shape);
  }
  return s.cast(likePointer(s, s.toTensor(value), pointer, value, what), element);
}

// Pointers to int1 as pointers to bytes.
Tensor asBytes(Semantics &s, const Tensor &pointer) {
  return pointer.dtype.pointee().isBool() ? s.cast(pointer, kByte.pointerTo()) : pointer;
}

template <class E, size_t N>
E choice(const Semantics &s, const Value &value, const std::string &what,
         const std::array<std::pair<const char *, E>, N> &choices) {
  const std::string text = optionalString(s, value, what);
  std::string known;
  for (const auto &[name, result] : choices) {
    if (text == name) {
      return result;
    }
    known += (known.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  s.fail(value, what + " must be one of " + known + ", got '" + text + "'");
}

void setHints(Semantics &s, ir::OpId op, const Value &cache, const Value &evict, bool isLoad) {
  using enum ir::CacheHint;
  constexpr std::array<std::pair<const char *, ir::CacheHint>, 5> kLoads = {
      {{"", none}, {".ca", ca}, {".cg", cg}, {".cs", cs}, {".cv", cv}}};
  constexpr std::array<std::pair<const char *, ir::CacheHint>, 5> kStores = {
      {{"", none}, {".wb", wb}, {".cg", cg}, {".cs", cs}, {".wt", wt}}};
  constexpr std::array<std::pair<const char *, ir::EvictHint>, 3> kEvict = {
      {{"", ir::EvictHint::none},
       {"evict_first", ir::EvictHint::first},
       {"evict_last", ir::EvictHint::last}}};
  ir::Function &fn = s.builder.function();
  const auto cacheHint = choice(s, cache, "cache_modifier", isLoad ? kLoads : kStores);
  const auto evictHint = choice(s, evict, "eviction_policy", kEvict);
  if (cacheHint != none) {
    fn.setAttr(op, Attr::cache, cacheHint);
  }
  if (evictHint != ir::EvictHint::none) {
    fn.setAttr(op, Attr::evict, evictHint);
  }
}

void setOrder(Semantics &s, ir::OpId op, const Value &sem, const Value &scope) {
  using enum ir::MemOrder;
  constexpr std::array<std::pair<const char *, ir::MemOrder>, 5> kOrders = {{{"", acq_rel},
                                                                             {"relaxed", relaxed},
                                                                             {"acquire", acquire},
                                                                             {"release", release},
                                                                             {"acq_rel", acq_rel}}};
  constexpr std::array<std::pair<const char *, ir::MemScope>, 4> kScopes = {
      {{"", ir::MemScope::gpu},
       {"cta", ir::MemScope::cta},
       {"gpu", ir::MemScope::gpu},
       {"sys", ir::MemScope::sys}}};
  ir::Function &fn = s.builder.function();
  fn.setAttr(op, Attr::sem, choice(s, sem, "sem", kOrders));
  fn.setAttr(op, Attr::scope, choice(s, scope, "scope", kScopes));
}

// The atomics that there are: scalars of 32-bit integers.
void checkAtomic(const Semantics &s, const Tensor &pointer, const char *what) {
  const DType element = pointer.dtype.pointee();
  if (!pointer.isScalar() || !element.isInt() || ir::bitWidth(element.elem) != 32) {
    s.unsupported(std::string(what) + " of " + Value(pointer).describe() +
                  " is not there yet: it takes a scalar pointer to int32 or uint32");
  }
}

Value atomicRmw(Semantics &s, Args args, ir::AtomicKind kind, const char *what) {
  const Tensor pointer = requireWritable(s, args[0], what);
  checkAtomic(s, pointer, what);
  const Tensor value = valueFor(s, args[1], pointer, "val");
  const std::optional<Tensor> mask = maskFor(s, args[2], pointer);
  const ir::ValueId id =
      mask ? s.builder.make(ir::Opcode::AtomicRmw, {pointer.id, value.id, mask->id})
           : s.builder.make(ir::Opcode::AtomicRmw, {pointer.id, value.id});
  ir::Function &fn = s.builder.function();
  fn.setAttr(fn.def(id), Attr::kind, kind);
  setOrder(s, fn.def(id), args[3], args[4]);
  return Value(s.makeTensor(id, pointer.dtype.pointee()));
}

} // namespace

Value load(Semantics &s, Args args) {
  Tensor pointer = requirePointer(s, args[0], "load");
  if (args[1].isNone() && !args[2].isNone()) {
    s.fail(args[2], "load takes other only with a mask");
  }
  // A tile of pointers grows to a larger mask, as in Triton.
  if (args[1].tensor() != nullptr && !pointer.isScalar()) {
    pointer = stretch(s, pointer, commonShape(s, pointer.shape, args[1].tensor()->shape));
  }
  const DType element = pointer.dtype.pointee();
  const std::optional<Tensor> mask = maskFor(s, args[1], pointer);
  std::optional<Tensor> other;
  if (mask && !args[2].isNone()) {
    other = valueFor(s, args[2], pointer, "other");
  }
  const Tensor source = asBytes(s, pointer);
  const DType loaded = source.dtype.pointee();
  if (other) {
    other = s.cast(*other, loaded);
  }
  const ir::ValueId id = other  ? s.builder.make(ir::Opcode::Load, {source.id, mask->id, other->id})
                         : mask ? s.builder.make(ir::Opcode::Load, {source.id, mask->id})
                                : s.builder.make(ir::Opcode::Load, {source.id});
  ir::Function &fn = s.builder.function();
  setHints(s, fn.def(id), args[3], args[4], true);
  if (constantBool(s, args[5], "volatile")) {
    fn.setAttr(fn.def(id), Attr::is_volatile, AttrValue(int64_t{1}));
  }
  return Value(s.cast(s.makeTensor(id, loaded), element));
}

Value store(Semantics &s, Args args) {
  const Tensor pointer = requireWritable(s, args[0], "store");
  const Tensor value = valueFor(s, args[1], pointer, "value");
  const std::optional<Tensor> mask = maskFor(s, args[2], pointer);
  const Tensor target = asBytes(s, pointer);
  const Tensor stored = s.cast(value, target.dtype.pointee());
  std::vector<ir::ValueId> operands = {target.id, stored.id};
  if (mask) {
    operands.push_back(mask->id);
  }
  const ir::OpId op = s.builder.op(ir::Opcode::Store, operands);
  setHints(s, op, args[3], args[4], false);
  return Value::none();
}

Value atomicAdd(Semantics &s, Args args) {
  return atomicRmw(s, args, ir::AtomicKind::add, "atomic_add");
}

Value atomicXchg(Semantics &s, Args args) {
  return atomicRmw(s, args, ir::AtomicKind::xchg, "atomic_xchg");
}

Value atomicCas(Semantics &s, Args args) {
  const Tensor pointer = requireWritable(s, args[0], "atomic_cas");
  checkAtomic(s, pointer, "atomic_cas");
  const Tensor expected = valueFor(s, args[1], pointer, "cmp");
  const Tensor value = valueFor(s, args[2], pointer, "val");
  const ir::ValueId id = s.builder.make(ir::Opcode::AtomicCas, {pointer.id, expected.id, value.id});
  ir::Function &fn = s.builder.function();
  setOrder(s, fn.def(id), args[3], args[4]);
  return Value(s.makeTensor(id, pointer.dtype.pointee()));
}

Value debugBarrier(Semantics &, Args) { return Value::none(); }

} // namespace libtile::frontend::operations
