// SPDX-License-Identifier: Apache-2.0
// Loads and stores, by pointers and by block pointers. An int1 in memory is a byte: read as != 0, written
// as 0 or 1.
#include "frontend/semantics/accesses.h"
#include "frontend/semantics/blocks.h"
#include "ir/ops.h"

namespace libtile::frontend {

namespace {

using ir::Attr;
using ir::AttrValue;

constexpr DType kInt1{ir::Elem::I1, false};
constexpr DType kByte{ir::Elem::I8, false};

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
  const std::string whose = what + std::string(" and pointer: ");
  if (commonShape(s, x.shape, pointer.shape, argument, whose) != pointer.shape) {
    s.fail(argument, std::string(what) + " has shape " + shapeText(x.shape) +
                         ", which the pointer's shape " + shapeText(pointer.shape) +
                         " does not hold");
  }
  return stretch(s, x, pointer.shape);
}

// That a value which nothing reads is one that valueFor() takes; a constant makes no op.
void checkUnread(Semantics &s, const Value &value, const Tensor &pointer, const char *what) {
  if (value.constant() != nullptr) {
    (void)operandType(s, value);
  } else {
    (void)valueFor(s, value, pointer, what);
  }
}

} // namespace

Tensor requirePointer(const Semantics &s, const Value &value, const char *what) {
  const Tensor *tensor = value.tensor();
  if (tensor == nullptr || !tensor->dtype.isPointer()) {
    s.fail(value, std::string("the pointer of ") + what + " must be a pointer or a tile of pointers, got " +
                      value.describe() +
                      (isDescriptor(value) ? ", which has methods: load, store, atomic_add and others" : ""));
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

std::optional<Tensor> maskFor(Semantics &s, const Value &mask, const Tensor &pointer) {
  if (mask.isNone()) {
    return std::nullopt;
  }
  const Constant *constant = mask.constant();
  const bool isBoolean = mask.tensor() != nullptr ? mask.tensor()->dtype.isBool()
                                                  : constant != nullptr && constantBigInt(*constant).has_value();
  if (!isBoolean) {
    s.fail(mask, "mask must be boolean, got " + mask.describe());
  }
  if (constant == nullptr) {
    return likePointer(s, *mask.tensor(), pointer, mask, "mask");
  }
  return constantBool(s, mask, "mask")
             ? std::nullopt
             : std::optional(constantTensor(s, kInt1, pointer.shape, Constant(false)));
}

Tensor valueFor(Semantics &s, const Value &value, const Tensor &pointer, const char *what) {
  const DType element = pointer.dtype.pointee();
  const bool fits =
      value.constant() != nullptr && (element.isFloat() || holds(element, *value.constant()));
  if (fits && !element.isBool()) {
    return s.toComputation(value, element, pointer.shape);
  }
  return s.cast(likePointer(s, s.toTensor(value), pointer, value, what), element);
}

Tensor asBytes(Semantics &s, const Tensor &pointer) {
  return pointer.dtype.pointee().isBool() ? s.cast(pointer, kByte.pointerTo()) : pointer;
}

MadeAccess makeLoad(Semantics &s, Tensor pointer, const Value &mask, const Value &other) {
  if (mask.isNone() && !other.isNone()) {
    s.fail(other, "load takes other only with a mask");
  }
  // A tile of pointers grows to a larger mask, as in Triton.
  if (mask.tensor() != nullptr && !pointer.isScalar()) {
    const std::vector<int32_t> &shape = mask.tensor()->shape;
    pointer = stretch(s, pointer, commonShape(s, pointer.shape, shape, mask, "pointer and mask: "));
  }
  const DType element = pointer.dtype.pointee();
  const Tensor source = asBytes(s, pointer);
  const DType loaded = source.dtype.pointee();
  std::vector<ir::ValueId> operands = {source.id};
  if (const std::optional<Tensor> on = maskFor(s, mask, pointer)) {
    operands.push_back(on->id);
    if (!other.isNone()) {
      operands.push_back(s.cast(valueFor(s, other, pointer, "other"), loaded).id);
    }
  } else if (!other.isNone()) {
    checkUnread(s, other, pointer, "other");
  }
  const ir::ValueId id = s.builder.make(ir::Opcode::Load, operands);
  const ir::OpId op = s.builder.function().def(id);
  return {Value(s.cast(s.makeTensor(id, loaded), element)), op};
}

MadeAccess makeStore(Semantics &s, const Tensor &pointer, const Value &value, const Value &mask) {
  const Tensor given = valueFor(s, value, pointer, "value");
  const std::optional<Tensor> on = maskFor(s, mask, pointer);
  const Tensor target = asBytes(s, pointer);
  std::vector<ir::ValueId> operands = {target.id, s.cast(given, target.dtype.pointee()).id};
  if (on) {
    operands.push_back(on->id);
  }
  return {Value::none(), s.builder.op(ir::Opcode::Store, operands)};
}

namespace operations {

namespace {

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

// boundary_check and padding_option belong to block pointers, which know where their array ends.
void refuseBoundary(const Semantics &s, const Value &check, const Value &padding, const char *what) {
  const bool checks = check.tuple() == nullptr || !check.tuple()->fields.empty();
  if (checks || !optionalString(s, padding, "padding_option").empty()) {
    s.fail(checks ? check : padding, std::string(what) + " takes " +
                                         (checks ? "boundary_check" : "padding_option") +
                                         " for a block pointer (tl.make_block_ptr) only");
  }
}

void refuseMask(const Semantics &s, const Value &mask, const char *name, const char *what) {
  if (!mask.isNone()) {
    s.fail(mask, std::string(what) + " takes no " + name +
                     " for a block pointer: boundary_check says along which axes it may leave its array");
  }
}

} // namespace

Value load(Semantics &s, Args args) {
  MadeAccess made;
  if (isBlockPointer(args[0])) {
    refuseMask(s, args[1], "mask", "load");
    refuseMask(s, args[2], "other", "load");
    const BlockAccess block = accessBlock(s, *args[0].aggregate(), args[3], args[4]);
    made = makeLoad(s, *block.pointers.tensor(), block.mask, block.other);
  } else {
    refuseBoundary(s, args[3], args[4], "load");
    made = makeLoad(s, requirePointer(s, args[0], "load"), args[1], args[2]);
  }
  setHints(s, made.op, args[5], args[6], true);
  if (constantBool(s, args[7], "volatile")) {
    s.builder.function().setAttr(made.op, Attr::is_volatile, AttrValue(int64_t{1}));
  }
  return made.result;
}

Value store(Semantics &s, Args args) {
  MadeAccess made;
  if (isBlockPointer(args[0])) {
    refuseMask(s, args[2], "mask", "store");
    const BlockAccess block = accessBlock(s, *args[0].aggregate(), args[3], Value::none());
    made = makeStore(s, requireWritable(s, block.pointers, "store"), args[1], block.mask);
  } else {
    refuseBoundary(s, args[3], Value::none(), "store");
    made = makeStore(s, requireWritable(s, args[0], "store"), args[1], args[2]);
  }
  setHints(s, made.op, args[4], args[5], false);
  return Value::none();
}

Value debugBarrier(Semantics &, Args) { return Value::none(); }

} // namespace operations

} // namespace libtile::frontend
