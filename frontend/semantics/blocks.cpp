// SPDX-License-Identifier: Apache-2.0
#include "frontend/semantics/blocks.h"

#include "frontend/semantics/accesses.h"

#include <limits>
#include <numeric>

namespace libtile::frontend {

namespace {

constexpr DType kInt32{ir::Elem::I32, true};
constexpr DType kInt64{ir::Elem::I64, true};

enum PointerField : uint8_t { kBase, kShape, kStrides, kOffsets, kBlockShape };
enum DescriptorField : uint8_t { kDescribedShape = 3, kPadding, kRoundsToTf32 };

// The items of a tuple, or the one value that stands for a tuple of it.
std::vector<Value> itemsOf(const Value &value) {
  return value.tuple() != nullptr ? value.tuple()->fields : std::vector<Value>{value};
}

// An integer scalar: an int64 if `wide`, else an int32 unless the value's own type holds more.
Value indexScalar(Semantics &s, const Value &value, const char *what, bool wide) {
  const Constant *constant = value.constant();
  if (value.tensor() == nullptr && (constant == nullptr || !constantBigInt(*constant))) {
    s.fail(value, std::string(what) + " must be integers, got " + value.describe());
  }
  const Tensor tensor = s.toTensor(value);
  if (!tensor.dtype.isInt()) {
    s.fail(value, std::string(what) + " must be integers, got " + value.describe());
  }
  if (irType(tensor.dtype, tensor.shape).numElements() != 1) {
    s.fail(value, std::string(what) + " must be scalars, got " + value.describe());
  }
  const unsigned bits = ir::bitWidth(tensor.dtype.elem);
  const bool holdsMore = bits == 64 || (bits == 32 && !tensor.dtype.isSigned);
  return Value(s.cast(onlyElement(s, tensor), wide || holdsMore ? kInt64 : kInt32));
}

Value indexTuple(Semantics &s, const Value &values, size_t rank, const char *what, bool wide) {
  std::vector<Value> items = itemsOf(values);
  if (items.size() != rank) {
    s.fail(values, std::string(what) + " must have an entry for each axis of the block: " +
                       std::to_string(rank) + ", not " + std::to_string(items.size()));
  }
  for (size_t i = 0; i < rank; ++i) {
    // Errors point at the argument's own values.
    items[i] = indexScalar(s, values.tuple() != nullptr ? values.tuple()->fields[i] : values, what, wide);
  }
  return Value::tuple(std::move(items));
}

Value constants(std::span<const int64_t> numbers) {
  std::vector<Value> items;
  for (const int64_t number : numbers) {
    items.push_back(Value::integer(number));
  }
  return Value::tuple(std::move(items));
}

Value constants(std::span<const int32_t> numbers) {
  return constants(std::vector<int64_t>(numbers.begin(), numbers.end()));
}

std::vector<int32_t> blockShape(const Aggregate &block) {
  const size_t field =
      block.cls == Class::tensorDescriptor() ? size_t{kDescribedShape} : size_t{kBlockShape};
  std::vector<int32_t> shape;
  for (const Value &extent : block.fields[field].tuple()->fields) {
    shape.push_back(static_cast<int32_t>(*constantBigInt(*extent.constant())));
  }
  return shape;
}

bool areDistinctAxes(std::span<const int64_t> axes, size_t rank) {
  std::vector<bool> seen(rank);
  for (const int64_t axis : axes) {
    if (axis < 0 || axis >= static_cast<int64_t>(rank) || seen[static_cast<size_t>(axis)]) {
      return false;
    }
    seen[static_cast<size_t>(axis)] = true;
  }
  return true;
}

Value typesOf(const Value &scalars) {
  std::vector<Value> types;
  for (const Value &scalar : scalars.tuple()->fields) {
    types.emplace_back(scalar.tensor()->type());
  }
  return Value::tuple(std::move(types));
}

size_t rankOf(const Aggregate &block) { return block.fields[kShape].tuple()->fields.size(); }

Tensor baseOf(const Semantics &s, const Value &value, const char *what) {
  const Tensor *tensor = value.tensor();
  const bool isBase = tensor != nullptr && tensor->isScalar() && tensor->dtype.isPointer() &&
                      tensor->dtype.irType().pointee().elem() != ir::Elem::Void;
  if (!isBase) {
    s.fail(value, std::string("the base of ") + what + " must be a pointer to elements, got " +
                      value.describe());
  }
  return *tensor;
}

DType elementOf(const Aggregate &block) { return block.fields[kBase].tensor()->dtype.pointee(); }

// What lies outside of the array by that name; None: zeros.
Value paddingOf(Semantics &s, const Value &padding, DType element) {
  const std::string text = optionalString(s, padding, "the padding");
  if (text.empty() || text == "zero") {
    return Value::none();
  }
  if (text != "nan") {
    s.fail(padding, "the padding must be '', 'zero' or 'nan', got '" + text + "'");
  }
  if (!element.isFloat()) {
    s.fail(padding, "the padding 'nan' is for floats, not for " + element.name());
  }
  return Value(Constant(std::numeric_limits<double>::quiet_NaN()));
}

const Aggregate &descriptorOf(const Semantics &s, const Value &value) {
  if (!isDescriptor(value)) {
    s.fail(value, "expected a tensor descriptor (tl.make_tensor_descriptor), got " + value.describe());
  }
  return *value.aggregate();
}

// The block of the descriptor at these offsets.
BlockAccess accessAt(Semantics &s, const Aggregate &descriptor, const Value &offsets) {
  const size_t rank = rankOf(descriptor);
  const Value at = indexTuple(s, offsets, rank, "the offsets of a block", false);
  const Value extents = descriptor.fields[kDescribedShape];
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return {callPrelude(s, "block_pointers",
                      {descriptor.fields[kBase], descriptor.fields[kStrides], at, extents}),
          callPrelude(s, "block_mask", {descriptor.fields[kShape], at, extents, constants(axes)}),
          paddingOf(s, descriptor.fields[kPadding], elementOf(descriptor))};
}

// Rows of a matrix, one of a block each, from a column on.
BlockAccess accessRows(Semantics &s, const Aggregate &descriptor, const Value &rows, const Value &column) {
  const std::vector<int32_t> extents = blockShape(descriptor);
  if (extents.size() != 2 || extents[0] != 1) {
    s.fail("gather and scatter need a descriptor of blocks of one row, [1, N], got " + shapeText(extents));
  }
  const Tensor *indices = rows.tensor();
  if (indices == nullptr || indices->shape.size() != 1 || !indices->dtype.isInt()) {
    s.fail(rows, "the rows must be a tile of integers with one axis, got " + rows.describe());
  }
  const Value at = indexScalar(s, column, "the column", false);
  const Value columns = Value::integer(extents[1]);
  return {callPrelude(s, "rows_pointers",
                      {descriptor.fields[kBase], descriptor.fields[kStrides], rows, at, columns}),
          callPrelude(s, "rows_mask", {descriptor.fields[kShape], rows, at, columns}),
          paddingOf(s, descriptor.fields[kPadding], elementOf(descriptor))};
}

Value loadAt(Semantics &s, const Aggregate &descriptor, const BlockAccess &access) {
  const Value loaded = makeLoad(s, *access.pointers.tensor(), access.mask, access.other).result;
  return constantBool(s, descriptor.fields[kRoundsToTf32], "round_f32_to_tf32")
             ? callPrelude(s, "round_to_tf32", {loaded})
             : loaded;
}

// The value of a store or a reduction, which has the block's shape.
void checkValue(const Semantics &s, const Value &value, const std::vector<int32_t> &shape) {
  const Tensor tensor = requireTensor(s, value, "the value");
  if (tensor.shape != shape) {
    s.fail(value, "the value must have the shape of the block, " + shapeText(shape) + ", got " +
                      shapeText(tensor.shape));
  }
}

void storeAt(Semantics &s, const BlockAccess &access, const Value &value) {
  makeStore(s, requireWritable(s, access.pointers, "store"), value, access.mask);
}

using Atomic = Value (*)(Semantics &, operations::Args);

// Whether Triton's descriptors reduce such elements: by the copy engine of an NVIDIA GPU from sm_90 on, elsewhere by atomics.
bool isPortableReduction(const Semantics &s, Atomic atomic, DType element) {
  const bool hasEngine = s.target.starts_with("sm_") && std::atoi(s.target.c_str() + 3) >= 90;
  const bool compares = atomic == operations::atomicMin || atomic == operations::atomicMax;
  const unsigned bits = ir::bitWidth(element.elem);
  if (element.isFloat()) {
    return compares ? bits == 16 && hasEngine : atomic == operations::atomicAdd && (bits == 16 || bits == 32);
  }
  return bits >= 32 && !(atomic == operations::atomicAdd && bits == 64 && element.isSigned);
}

Value reduceAt(Semantics &s, operations::Args args, Atomic atomic) {
  const Aggregate &descriptor = descriptorOf(s, args[0]);
  if (const DType element = elementOf(descriptor); s.portable && !isPortableReduction(s, atomic, element)) {
    s.fail(args[0], "Triton's descriptors have no such reduction of " + element.name() +
                        " on this target; with portable=False it is there");
  }
  checkValue(s, args[2], blockShape(descriptor));
  const BlockAccess access = accessAt(s, descriptor, args[1]);
  const std::array arguments = {access.pointers, args[2], access.mask, Value::string("relaxed"),
                                Value::none()};
  atomic(s, arguments);
  return Value::none();
}

Value makeDescriptor(Semantics &s, const Value &base, const Value &shape, const Value &strides,
                     const Value &block, const Value &padding, const Value &rounds) {
  const Tensor pointer = baseOf(s, base, "a tensor descriptor");
  const std::vector<int32_t> extents = constantShape(s, block, "block_shape");
  constexpr size_t kMostAxes = 5;
  if (extents.empty() || extents.size() > kMostAxes) {
    s.fail(block, "a tensor descriptor has 1 to 5 axes, got " + std::to_string(extents.size()));
  }
  const std::vector<Value> steps = itemsOf(strides);
  const Value sizes = indexTuple(s, shape, extents.size(), "the shape", false);
  const Value wide = indexTuple(s, strides, extents.size(), "the strides", true);
  const Constant *last = steps.back().constant();
  if (last == nullptr || constantBigInt(*last) != 1) {
    s.fail(strides, "the last stride of a tensor descriptor must be the constant 1, got " +
                        steps.back().describe());
  }
  static_cast<void>(paddingOf(s, padding, pointer.dtype.pointee()));
  if (constantBool(s, rounds, "round_f32_to_tf32") && pointer.dtype.pointee().elem != ir::Elem::F32) {
    s.fail(rounds, "round_f32_to_tf32 is for elements of fp32, got " + pointer.dtype.pointee().name());
  }
  return Value::aggregate(Class::tensorDescriptor(), {base, sizes, wide, constants(extents), padding, rounds});
}

} // namespace

bool isBlockPointer(const Value &value) {
  return value.aggregate() != nullptr && value.aggregate()->cls == Class::blockPointer();
}


bool isDescriptor(const Value &value) {
  return value.aggregate() != nullptr && value.aggregate()->cls == Class::tensorDescriptor();
}

std::string describeBlock(const Aggregate &block) {
  const bool described = block.cls == Class::tensorDescriptor();
  if (!described && block.cls != Class::blockPointer()) {
    return {};
  }
  const TypeValue type{elementOf(block), blockShape(block)};
  return (described ? "tensor descriptor of blocks " : "pointer to a block ") + Value(type).text();
}

BlockAccess accessBlock(Semantics &s, const Aggregate &pointer, const Value &boundaryCheck,
                        const Value &padding) {
  const std::vector<int64_t> axes = constantInts(s, boundaryCheck, "boundary_check");
  if (!areDistinctAxes(axes, rankOf(pointer))) {
    s.fail(boundaryCheck, "boundary_check names axes of the block, 0 to " +
                              std::to_string(rankOf(pointer) - 1) + ", each at most once");
  }
  const Value other = paddingOf(s, padding, elementOf(pointer));
  const std::vector<Value> &fields = pointer.fields;
  return {callPrelude(s, "block_pointers",
                      {fields[kBase], fields[kStrides], fields[kOffsets], fields[kBlockShape]}),
          callPrelude(s, "block_mask",
                      {fields[kShape], fields[kOffsets], fields[kBlockShape], constants(axes)}),
          axes.empty() ? Value::none() : other};
}

Value blockAttribute(const Aggregate &block, const std::string &name) {
  const bool described = block.cls == Class::tensorDescriptor();
  if (!described && block.cls != Class::blockPointer()) {
    return {};
  }
  const DType element = elementOf(block);
  if (name == "dtype" || (!described && name == "type")) {
    return Value(TypeValue{described ? element : block.fields[kBase].tensor()->dtype, {}});
  }
  if (described && name == "block_type") {
    return Value(TypeValue{element, blockShape(block)});
  }
  if (described && name == "type") {
    return Value::aggregate(Class::tensorDescriptorType(),
                            {Value(TypeValue{element, blockShape(block)}), typesOf(block.fields[kShape]),
                             typesOf(block.fields[kStrides])});
  }
  const auto receiver = described ? Operation::Receiver::Descriptor : Operation::Receiver::BlockPointer;
  const Operation *method = Semantics::findMember(name, receiver);
  return method != nullptr ? Value(std::make_shared<const BoundMethod>(
                                 BoundMethod{block.with(block.fields), Value(method)}))
                           : Value();
}

Value hostDescriptor(Semantics &s, const Aggregate &fields) {
  const std::vector<Value> &f = fields.fields;
  return makeDescriptor(s, f[kBase], f[kShape], f[kStrides], f[kDescribedShape], f[kPadding], f[kRoundsToTf32]);
}

namespace operations {

Value makeBlockPtr(Semantics &s, Args args) {
  baseOf(s, args[0], "make_block_ptr");
  const std::vector<int32_t> extents = constantShape(s, args[4], "block_shape");
  const size_t rank = extents.size();
  const std::vector<int64_t> order = constantInts(s, args[5], "order");
  if (order.size() != rank || !areDistinctAxes(order, rank)) {
    s.fail(args[5], "order must name each axis of the block once, 0 to " + std::to_string(rank - 1));
  }
  return Value::aggregate(Class::blockPointer(),
                          {args[0], indexTuple(s, args[1], rank, "the shape", true),
                           indexTuple(s, args[2], rank, "the strides", true),
                           indexTuple(s, args[3], rank, "the offsets", false), constants(extents),
                           constants(order)});
}

Value advance(Semantics &s, Args args) {
  if (!isBlockPointer(args[0])) {
    s.fail(args[0], "advance takes a block pointer (tl.make_block_ptr), got " + args[0].describe());
  }
  const Aggregate &pointer = *args[0].aggregate();
  const Value steps = indexTuple(s, args[1], rankOf(pointer), "the offsets of advance", false);
  std::vector<Value> offsets = pointer.fields[kOffsets].tuple()->fields;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const DType held = offsets[i].tensor()->dtype;
    const Tensor &step = *steps.tuple()->fields[i].tensor();
    if (step.dtype == kInt64 && held == kInt32) {
      s.fail(args[1], "advance by an int64 needs a block pointer whose offsets are int64");
    }
    offsets[i] = s.binary(BinaryOp::Add, offsets[i], Value(s.cast(step, held)));
  }
  std::vector<Value> fields = pointer.fields;
  fields[kOffsets] = Value::tuple(std::move(offsets));
  return pointer.with(std::move(fields));
}

Value makeTensorDescriptor(Semantics &s, Args args) {
  return makeDescriptor(s, args[0], args[1], args[2], args[3], args[4], Value::boolean(false));
}

Value descriptorLoad(Semantics &s, Args args) {
  const Aggregate &descriptor = descriptorOf(s, args[0]);
  return loadAt(s, descriptor, accessAt(s, descriptor, args[1]));
}

Value descriptorStore(Semantics &s, Args args) {
  const Aggregate &descriptor = descriptorOf(s, args[0]);
  checkValue(s, args[2], blockShape(descriptor));
  storeAt(s, accessAt(s, descriptor, args[1]), args[2]);
  return Value::none();
}

Value descriptorGather(Semantics &s, Args args) {
  const Aggregate &descriptor = descriptorOf(s, args[0]);
  return loadAt(s, descriptor, accessRows(s, descriptor, args[1], args[2]));
}

Value descriptorScatter(Semantics &s, Args args) {
  const Aggregate &descriptor = descriptorOf(s, args[0]);
  const BlockAccess access = accessRows(s, descriptor, args[2], args[3]);
  checkValue(s, args[1], access.pointers.tensor()->shape);
  storeAt(s, access, args[1]);
  return Value::none();
}

Value descriptorAtomicAdd(Semantics &s, Args args) { return reduceAt(s, args, atomicAdd); }
Value descriptorAtomicMin(Semantics &s, Args args) { return reduceAt(s, args, atomicMin); }
Value descriptorAtomicMax(Semantics &s, Args args) { return reduceAt(s, args, atomicMax); }
Value descriptorAtomicAnd(Semantics &s, Args args) { return reduceAt(s, args, atomicAnd); }
Value descriptorAtomicOr(Semantics &s, Args args) { return reduceAt(s, args, atomicOr); }
Value descriptorAtomicXor(Semantics &s, Args args) { return reduceAt(s, args, atomicXor); }

} // namespace operations

} // namespace libtile::frontend
