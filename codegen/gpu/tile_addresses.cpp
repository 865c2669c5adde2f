// SPDX-License-Identifier: Apache-2.0
// The making of TileAddress: forward along pointer tiles, and for each ptr_add backward along its
// index tile, to the leaves of the sum.
#include "codegen/gpu/emitter.h"
#include "ir/ops.h"

#include "passes/gpu/layout_maps.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace libtile::codegen::gpu {

using ir::Attr;
using ir::HwDim;
using ir::Opcode;

namespace {

template <class T>
std::vector<T> inOrder(const std::vector<T> &from, const std::vector<int32_t> &registers) {
  std::vector<T> out;
  out.reserve(registers.size());
  for (const int32_t reg : registers) {
    out.push_back(from[static_cast<size_t>(reg)]);
  }
  return out;
}

// Modulo 2^64, as addresses are.
int64_t product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Ops that only rename the registers of a tile.
bool isShapeOp(Opcode opcode) {
  return opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims || opcode == Opcode::Reshape ||
         opcode == Opcode::Trans;
}

} // namespace

TileAddress TileAddress::moved(const std::vector<int32_t> &registers) const {
  TileAddress result{base, inOrder(constants, registers), {}};
  for (const Term &term : terms) {
    result.terms.push_back({inOrder(term.counts, registers),
                            term.values.empty() ? term.values : inOrder(term.values, registers),
                            term.factor});
  }
  return result;
}

// Adds index tiles to an address.
class OffsetSum {
public:
  // Registers of the index tile, for each of the pointer tile.
  using Registers = std::vector<int32_t>;
  struct Scale {
    int64_t constant = 1;
    llvm::Value *factor = nullptr; // as of a term
  };

  OffsetSum(Emitter &emitter, TileAddress &address)
      : e_(emitter), fn_(emitter.fn_), builder_(emitter.builder_), address_(address) {}

  void add(ir::ValueId index, const Registers &registers, const Scale &scale) {
    const ir::Type &type = fn_.type(index);
    if (const auto number = fn_.constantInt(index)) {
      return addCounts(std::vector<int64_t>(registers.size(), *number), scale);
    }
    if (!type.isTile()) {
      return addShared(e_.scalar(index), scale);
    }
    // Narrow integers wrap where the program says so.
    const ir::OpId op = fn_.def(index);
    if (!op.valid() || type.elementBits() < 32 || !addOperands(op, registers, scale)) {
      addValues(index, registers, scale);
    }
  }

  void finish() {
    if (shared_ != nullptr) {
      address_.base = builder_.CreateGEP(builder_.getInt8Ty(), address_.base, shared_);
    }
  }

private:
  // False: the op is none of a sum's.
  bool addOperands(ir::OpId op, const Registers &registers, const Scale &scale) {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Splat || opcode == Opcode::Hint ||
        (opcode == Opcode::SExt && isWide(op)) ||
        (opcode == Opcode::ZExt && isWide(op) && e_.facts_.range(fn_.operand(op, 0)).lo >= 0)) {
      add(fn_.operand(op, 0), registers, scale);
      return true;
    }
    if (opcode == Opcode::Arange) {
      return addCoordinates(op, registers, scale);
    }
    if (isShapeOp(opcode)) {
      const auto map = passes::shapeRegisterMap(fn_, op);
      ir::check(map.has_value(), "a shape op of a staged function moves no data");
      add(fn_.operand(op, 0), inOrder(*map, registers), scale);
      return true;
    }
    if (opcode == Opcode::Add || opcode == Opcode::Sub) {
      add(fn_.operand(op, 0), registers, scale);
      add(fn_.operand(op, 1), registers,
          {product(scale.constant, opcode == Opcode::Sub ? -1 : 1), scale.factor});
      return true;
    }
    if (opcode == Opcode::Mul) {
      for (const unsigned i : {0U, 1U}) {
        const ir::ValueId other = fn_.operand(op, 1 - i);
        if (!isSum(other)) {
          continue;
        }
        if (const auto scaled = times(scale, fn_.operand(op, i))) {
          add(other, registers, *scaled);
          return true;
        }
      }
    }
    return false;
  }

  // A factor is multiplied out over sums only: of other tiles the program's own product is exact.
  [[nodiscard]] bool isSum(ir::ValueId value) const {
    const ir::OpId op = fn_.def(value);
    if (!op.valid()) {
      return false;
    }
    const Opcode opcode = fn_.opcode(op);
    if (isShapeOp(opcode) || opcode == Opcode::SExt || opcode == Opcode::ZExt ||
        opcode == Opcode::Hint) {
      return isSum(fn_.operand(op, 0));
    }
    if (opcode == Opcode::Mul || opcode == Opcode::Add || opcode == Opcode::Sub) {
      return isSum(fn_.operand(op, 0)) || isSum(fn_.operand(op, 1));
    }
    return opcode == Opcode::Arange;
  }

  [[nodiscard]] bool isWide(ir::OpId extension) const {
    return fn_.type(fn_.operand(extension, 0)).elementBits() >= 32;
  }

  // The scale times a tile whose elements are all equal; nullopt: they may not be.
  std::optional<Scale> times(const Scale &scale, ir::ValueId value) {
    if (const auto number = fn_.constantInt(value)) {
      return Scale{product(scale.constant, *number), scale.factor};
    }
    if (!fn_.type(value).isTile()) {
      llvm::Value *factor = e_.scalar(value);
      return Scale{scale.constant, scale.factor == nullptr
                                       ? factor
                                       : builder_.CreateMul(wide(scale.factor), wide(factor))};
    }
    const ir::OpId op = fn_.def(value);
    const bool passes = op.valid() && (fn_.opcode(op) == Opcode::Splat ||
                                       fn_.opcode(op) == Opcode::Hint ||
                                       isShapeOp(fn_.opcode(op)) ||
                                       (fn_.opcode(op) == Opcode::SExt && isWide(op)));
    return passes ? times(scale, fn_.operand(op, 0)) : std::nullopt;
  }

  // arange: the thread's coordinate and the register's.
  bool addCoordinates(ir::OpId op, const Registers &registers, const Scale &scale) {
    const ir::Layout &layout = e_.layoutOf(fn_.result(op));
    const int32_t threadBits = e_.threadBits(layout, 0);
    std::vector<int64_t> counts;
    for (const int32_t reg : registers) {
      const int32_t part = layout.applyOne(HwDim::Reg, reg)[0];
      if ((part & threadBits) != 0) {
        return false; // no sum
      }
      counts.push_back(sum(part, fn_.getInt(op, Attr::start)));
    }
    if (threadBits != 0) {
      addShared(e_.threadCoord(layout, 0), scale);
    }
    addCounts(counts, scale);
    return true;
  }

  void addCounts(std::vector<int64_t> counts, const Scale &scale) {
    for (int64_t &count : counts) {
      count = product(count, scale.constant);
    }
    if (scale.factor == nullptr) {
      for (size_t r = 0; r < counts.size(); ++r) {
        address_.constants[r] = sum(address_.constants[r], counts[r]);
      }
      return;
    }
    if (std::ranges::count(counts, counts[0]) == std::ssize(counts)) {
      return addShared(scale.factor, {counts[0], nullptr});
    }
    address_.terms.push_back({std::move(counts), {}, scale.factor});
  }

  // The same in all registers.
  void addShared(llvm::Value *value, const Scale &scale) {
    value = wide(value);
    if (scale.factor != nullptr) {
      value = builder_.CreateMul(value, wide(scale.factor));
    }
    if (scale.constant != 1) {
      value = builder_.CreateMul(value, builder_.getInt64(static_cast<uint64_t>(scale.constant)));
    }
    shared_ = shared_ == nullptr ? value : builder_.CreateAdd(shared_, value);
  }

  // A tile that is no sum.
  void addValues(ir::ValueId index, const Registers &registers, const Scale &scale) {
    const Regs values = inOrder(e_.regs(index), registers);
    if (std::ranges::count(values, values[0]) == std::ssize(values)) {
      return addShared(values[0], scale);
    }
    address_.terms.push_back(
        {std::vector<int64_t>(values.size(), scale.constant), values, scale.factor});
  }

  llvm::Value *wide(llvm::Value *value) {
    return builder_.CreateSExt(value, builder_.getInt64Ty());
  }

  Emitter &e_;
  const ir::Function &fn_;
  llvm::IRBuilder<> &builder_;
  TileAddress &address_;
  llvm::Value *shared_ = nullptr; // i64, to be added to the base
};

bool Emitter::addressOp(ir::OpId op) {
  const ir::ValueId result = fn_.result(op), operand = fn_.operand(op, 0);
  const ir::Type &type = fn_.type(result);
  if (!type.isTile() || !type.element().isPointer()) {
    return false;
  }
  const Opcode opcode = fn_.opcode(op);
  TileAddress address;
  if (opcode == Opcode::Splat) {
    address = {scalar(operand), std::vector<int64_t>(numRegs(result), 0), {}};
  } else if (!addresses_.contains(operand.index)) {
    return false;
  } else if (opcode == Opcode::PtrAdd) {
    address = addresses_.at(operand.index);
    std::vector<int32_t> registers(numRegs(result));
    std::iota(registers.begin(), registers.end(), 0);
    OffsetSum sum(*this, address);
    sum.add(fn_.operand(op, 1), registers, {int64_t{type.pointee().elementBytes()}, nullptr});
    sum.finish();
  } else if (isShapeOp(opcode)) {
    address = addresses_.at(operand.index).moved(*passes::shapeRegisterMap(fn_, op));
  } else if (opcode == Opcode::Hint || opcode == Opcode::Bitcast) {
    address = addresses_.at(operand.index);
  } else {
    return false;
  }
  addresses_[result.index] = std::move(address);
  // A copy's addresses are made here, in front of the barrier that the copy waits for.
  const auto copies = [&](ir::Use use) { return fn_.opcode(use.op) == Opcode::AsyncCopy; };
  if (std::ranges::any_of(fn_.uses(result), copies)) {
    regs(result);
  }
  return true;
}

bool Emitter::indexOp(ir::OpId op) {
  const ir::ValueId result = fn_.result(op);
  const ir::Type &type = fn_.type(result);
  if (!type.isTile() || !type.isInteger() || type.isBool()) {
    return false;
  }
  std::optional<TileIndices> indices = indicesOf(op, numRegs(result));
  if (indices) {
    indices_[result.index] = std::move(*indices);
  }
  return indices.has_value();
}

std::optional<TileIndices> Emitter::indicesOf(ir::OpId op, size_t registers) {
  const Opcode opcode = fn_.opcode(op);
  if (const auto number = fn_.constantInt(fn_.result(op))) {
    return TileIndices{nullptr, std::vector<int64_t>(registers, *number)};
  }
  if (opcode == Opcode::Splat) {
    const ir::ValueId operand = fn_.operand(op, 0);
    if (const auto number = fn_.constantInt(operand)) {
      return TileIndices{nullptr, std::vector<int64_t>(registers, *number)};
    }
    return TileIndices{scalar(operand), std::vector<int64_t>(registers, 0)};
  }
  if (opcode == Opcode::Arange) {
    return coordinates(op);
  }
  llvm::SmallVector<const TileIndices *, 2> operands;
  for (const ir::ValueId operand : fn_.operands(op)) {
    const auto found = indices_.find(operand.index);
    if (found == indices_.end()) {
      return std::nullopt;
    }
    operands.push_back(&found->second);
  }
  if (isShapeOp(opcode)) {
    return TileIndices{operands[0]->shared,
                       inOrder(operands[0]->constants, *passes::shapeRegisterMap(fn_, op))};
  }
  if (opcode == Opcode::Hint) {
    return *operands[0];
  }
  if (opcode == Opcode::Add || opcode == Opcode::Sub) {
    return addIndices(*operands[0], *operands[1], opcode == Opcode::Sub);
  }
  return std::nullopt;
}

std::optional<TileIndices> Emitter::coordinates(ir::OpId op) {
  const ir::Layout &layout = layoutOf(fn_.result(op));
  const int32_t bits = threadBits(layout, 0);
  TileIndices result;
  for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
    const int32_t part = layout.applyOne(HwDim::Reg, reg)[0];
    if ((part & bits) != 0) {
      return std::nullopt;
    }
    result.constants.push_back(sum(part, fn_.getInt(op, Attr::start)));
  }
  if (bits != 0) {
    result.shared =
        builder_.CreateSExtOrTrunc(threadCoord(layout, 0), registerType(fn_.result(op)));
  }
  return result;
}

TileIndices Emitter::addIndices(const TileIndices &a, const TileIndices &b, bool negative) {
  TileIndices result = a;
  for (size_t r = 0; r < result.constants.size(); ++r) {
    result.constants[r] = sum(a.constants[r], product(b.constants[r], negative ? -1 : 1));
  }
  if (b.shared != nullptr) {
    llvm::Value *zero = llvm::ConstantInt::get(b.shared->getType(), 0);
    llvm::Value *own = a.shared == nullptr ? zero : a.shared;
    result.shared = negative      ? builder_.CreateSub(own, b.shared)
                    : own == zero ? b.shared
                                  : builder_.CreateAdd(own, b.shared);
  }
  return result;
}

const Regs &Emitter::regs(ir::ValueId value) {
  const auto address = addresses_.find(value.index);
  const auto indices = indices_.find(value.index);
  if (address == addresses_.end() && indices == indices_.end()) {
    return values_[value.index];
  }
  if (isMadeHere(value)) {
    return values_[value.index];
  }
  Regs out;
  AccessAddresses addresses(*this, value);
  for (unsigned reg = 0; reg < numRegs(value); ++reg) {
    out.push_back(address != addresses_.end() ? addresses.pointerTo(static_cast<int32_t>(reg))
                                              : indexAt(value, indices->second, reg));
  }
  madeIn_[value.index] = builder_.GetInsertBlock();
  set(value, std::move(out));
  return values_[value.index];
}

bool Emitter::isMadeHere(ir::ValueId value) const {
  const auto made = madeIn_.find(value.index);
  return made != madeIn_.end() && made->second == builder_.GetInsertBlock();
}

llvm::Value *Emitter::registerOf(ir::ValueId value, size_t r) {
  const auto indices = indices_.find(value.index);
  return indices == indices_.end() || isMadeHere(value) ? regs(value)[r]
                                                        : indexAt(value, indices->second, r);
}

llvm::Value *Emitter::indexAt(ir::ValueId value, const TileIndices &indices, size_t reg) {
  auto *type = llvm::cast<llvm::IntegerType>(registerType(value));
  const llvm::APInt constant(64, static_cast<uint64_t>(indices.constants[reg]));
  llvm::Value *number = llvm::ConstantInt::get(type, constant.trunc(type->getBitWidth()));
  if (indices.shared == nullptr) {
    return number;
  }
  return constant.isZero() ? indices.shared : builder_.CreateAdd(indices.shared, number);
}

AccessAddresses::AccessAddresses(Emitter &emitter, ir::ValueId pointers)
    : e_(emitter), pointers_(pointers) {
  const auto found = e_.addresses_.find(pointers.index);
  tile_ = found == e_.addresses_.end() || e_.isMadeHere(pointers) ? nullptr : &found->second;
}

AccessAddress AccessAddresses::of(int32_t reg) {
  const auto index = static_cast<size_t>(reg);
  if (tile_ == nullptr) {
    return {e_.regs(pointers_)[index]};
  }
  AccessAddress address{tile_->base, tile_->constants[index]};
  for (const TileAddress::Term &term : tile_->terms) {
    if (term.counts[index] != 0) {
      addTerm(address, term, index);
    }
  }
  // What every access instruction has room for.
  constexpr int64_t kImmediate = 1 << 23;
  if (address.bytes < -kImmediate || address.bytes >= kImmediate) {
    address.pointer =
        plus(address.pointer, e_.builder_.getInt64(static_cast<uint64_t>(address.bytes)));
    address.bytes = 0;
  }
  return address;
}

// One product is left to the access, others go into the pointer.
void AccessAddresses::addTerm(AccessAddress &address, const TileAddress::Term &term, size_t reg) {
  llvm::IRBuilder<> &builder = e_.builder_;
  llvm::Type *word = builder.getInt64Ty();
  llvm::Value *own = term.values.empty() ? nullptr : term.values[reg];
  const int64_t count = term.counts[reg];
  llvm::Value *index = own == nullptr ? term.factor : own;
  if (own != nullptr && term.factor != nullptr) {
    index = builder.CreateMul(builder.CreateSExt(own, word), builder.CreateSExt(term.factor, word));
  }
  constexpr int64_t kImmediate = int64_t{1} << 30;
  if (address.index == nullptr && -kImmediate < count && count < kImmediate) {
    address.index = index->getType()->getIntegerBitWidth() < 32
                        ? builder.CreateSExt(index, builder.getInt32Ty())
                        : index;
    address.scale = count;
    return;
  }
  llvm::Value *offset = builder.CreateMul(builder.CreateSExt(index, word),
                                          llvm::ConstantInt::getSigned(word, count));
  address.pointer = plus(address.pointer, offset);
}

llvm::Value *AccessAddresses::plus(llvm::Value *pointer, llvm::Value *offset) {
  return e_.builder_.CreateGEP(e_.builder_.getInt8Ty(), pointer, offset);
}

llvm::Value *AccessAddresses::pointerTo(int32_t reg) {
  const AccessAddress address = of(reg);
  if (address.index == nullptr && address.bytes == 0) {
    return address.pointer;
  }
  llvm::IRBuilder<> &builder = e_.builder_;
  llvm::Type *word = builder.getInt64Ty();
  llvm::Value *offset = builder.getInt64(static_cast<uint64_t>(address.bytes));
  if (address.index != nullptr) {
    llvm::Value *product = builder.CreateMul(builder.CreateSExt(address.index, word),
                                             llvm::ConstantInt::getSigned(word, address.scale));
    offset = builder.CreateAdd(product, offset);
  }
  return plus(address.pointer, offset);
}

} // namespace libtile::codegen::gpu
