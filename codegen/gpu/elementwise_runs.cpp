// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/elementwise_runs.h"

#include "ir/ops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace libtile::codegen::gpu {

using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

constexpr size_t kEverywhere = std::numeric_limits<size_t>::max();

size_t words(const ir::Type &type) { return std::max(1U, type.elementBits() / 32); }

} // namespace

bool ElementwiseRun::isOfTiles(OpId op) const {
  const Opcode opcode = fn_.opcode(op);
  return (ir::isElementwise(opcode) || opcode == Opcode::Hold) && fn_.type(fn_.result(op)).isTile();
}

bool ElementwiseRun::needs(OpId op) const {
  return std::ranges::any_of(fn_.operands(op), [&](ValueId operand) {
    const OpId maker = fn_.def(operand);
    return maker.valid() && placeOf_.contains(maker.index);
  });
}

bool ElementwiseRun::take(OpId op) {
  const Opcode opcode = fn_.opcode(op);
  if (!isOfTiles(op)) {
    // Scalars, and tiles of one, are made of nothing that the run makes: they come in front of it.
    if (opcode != Opcode::Constant && opcode != Opcode::Splat && !ir::isElementwise(opcode)) {
      return false;
    }
    e_.emitOp(op);
    return true;
  }
  if (opcode == Opcode::Hint || fn_.type(fn_.result(op)).element().isPointer()) {
    // Pointers are addresses, which need what they are made of.
    if (needs(op)) {
      return false;
    }
    e_.emitOp(op);
    return true;
  }
  const size_t registers = e_.numRegs(fn_.result(op));
  if (registers_ != 0 && registers != registers_) {
    return false;
  }
  registers_ = registers;
  placeOf_[op.index] = ops_.size();
  ops_.push_back(op);
  return true;
}

void ElementwiseRun::finish() {
  const size_t size = groupSize();
  if (size < registers_) {
    emitByGroups(size);
  } else {
    for (const OpId op : ops_) {
      e_.emitOp(op);
    }
  }
  ops_.clear();
  placeOf_.clear();
  registers_ = 0;
}

size_t ElementwiseRun::groupSize() const {
  if (registers_ <= 1 || std::ranges::any_of(ops_, [&](OpId op) { return e_.isCall(op); })) {
    return 1;
  }
  // A thread's registers also hold what was before the run and what stays behind it.
  const auto most = static_cast<size_t>(e_.registers_) / 2;
  const size_t each = pressure();
  // Four are enough to hide an instruction's latency behind the others'.
  return each * registers_ <= most ? registers_ : std::bit_floor(std::max<size_t>(4, (most + 1) / 2 / each));
}

size_t ElementwiseRun::pressure() const {
  std::vector<size_t> freed(ops_.size(), 0); // behind the op at that place
  size_t live = 0, most = 1;
  for (size_t place = 0; place < ops_.size(); ++place) {
    const ValueId result = fn_.result(ops_[place]);
    size_t last = place;
    for (const ir::Use use : fn_.uses(result)) {
      const auto found = placeOf_.find(use.op.index);
      last = std::max(last, found == placeOf_.end() ? kEverywhere : found->second);
    }
    live += words(fn_.type(result));
    most = std::max(most, live);
    if (last != kEverywhere) {
      freed[last] += words(fn_.type(result));
    }
    live -= freed[place];
  }
  return most;
}

void ElementwiseRun::emitByGroups(size_t size) {
  // Sums of indices need nothing of the others.
  std::vector<std::pair<OpId, int32_t>> rest; // and its equal registers
  for (const OpId op : ops_) {
    if (!e_.indexOp(op)) {
      rest.emplace_back(op, e_.equalRegisters(fn_.result(op)));
      e_.set(fn_.result(op), Regs(registers_));
    }
  }
  const auto shared = std::ranges::find_if(rest, [&](const auto &each) { return e_.oneDivisor(each.first) != nullptr; });
  e_.elementwise_.shareDivisor(shared == rest.end() ? nullptr : e_.oneDivisor(shared->first), GpuElementwise::Scaling::Each);
  for (size_t first = 0; first < registers_; first += size) {
    for (const auto &[op, alike] : rest) {
      e_.elementwise(op, first, std::min(first + size, registers_), alike, {});
    }
  }
}

bool Emitter::isCall(ir::OpId op) const {
  const Opcode opcode = fn_.opcode(op);
  const bool isDouble = fn_.type(fn_.result(op)).elem() == ir::Elem::F64;
  return opcode == Opcode::FRem || (isDouble && (opcode == Opcode::FDiv || opcode == Opcode::Sqrt));
}

void Emitter::elementwise(ir::OpId op) {
  if (addressOp(op) || indexOp(op)) {
    return;
  }
  for (const ir::ValueId operand : fn_.operands(op)) {
    regs(operand); // all of an index tile's
  }
  const Regs dividends = shareDivisor(op);
  set(fn_.result(op), Regs(numRegs(fn_.result(op))));
  elementwise(op, 0, numRegs(fn_.result(op)), equalRegisters(fn_.result(op)), dividends);
}

void Emitter::elementwise(ir::OpId op, size_t first, size_t end, int32_t alike,
                          const Regs &dividends) {
  const llvm::IRBuilder<>::FastMathFlagGuard guard(builder_);
  const LineScope line(builder_, lines_, op);
  if (fn_.opcode(op) == Opcode::Hold) {
    return hold(op, first, end);
  }
  // A product may be fused with the sum that it goes into (docs/semantics.md).
  const Opcode opcode = fn_.opcode(op);
  llvm::FastMathFlags flags;
  flags.setAllowContract(contracts_ && (opcode == Opcode::Add || opcode == Opcode::Sub || opcode == Opcode::Mul));
  builder_.setFastMathFlags(flags);
  if (elementwise_.takesPairs(fn_, op)) {
    return pairs(op, first, end);
  }
  Regs &out = values_[fn_.result(op).index];
  for (size_t r = first; r < end; ++r) {
    const auto same = r & ~static_cast<size_t>(alike);
    out[r] = same != r ? out[same] : element(op, r, dividends);
  }
}

void Emitter::pairs(ir::OpId op, size_t first, size_t end) {
  Regs &out = values_[fn_.result(op).index];
  for (; first + 1 < end; first += 2) {
    llvm::SmallVector<llvm::Value *, 3> operands;
    for (const ir::ValueId operand : fn_.operands(op)) {
      llvm::Value *a = registerOf(operand, first), *b = registerOf(operand, first + 1);
      operands.push_back(vectorOf({a, b}));
    }
    llvm::Value *both = elementwise_.emit(fn_, op, operands);
    out[first] = builder_.CreateExtractElement(both, uint64_t{0});
    out[first + 1] = builder_.CreateExtractElement(both, uint64_t{1});
  }
  if (first < end) {
    out[first] = element(op, first, {});
  }
}

// The float that all registers of a quotient are divided by; null: there is none, or nothing to gain.
llvm::Value *Emitter::oneDivisor(ir::OpId op) {
  if (fn_.opcode(op) != Opcode::FDiv || fn_.getBool(op, ir::Attr::rounded) ||
      fn_.type(fn_.result(op)).elem() != ir::Elem::F32) {
    return nullptr;
  }
  const Regs &divisors = regs(fn_.operand(op, 1));
  const bool one =
      divisors.size() > 2 &&
      std::count(divisors.begin(), divisors.end(), divisors[0]) == std::ssize(divisors);
  return one ? divisors[0] : nullptr;
}

//   if (scaled) { dividend *= scale }: nearly never, and the same for all rows of a thread
Regs Emitter::shareDivisor(ir::OpId op) {
  if (fn_.opcode(op) != Opcode::FDiv) {
    return {};
  }
  llvm::Value *divisor = oneDivisor(op);
  const auto &shared = elementwise_.shareDivisor(divisor, GpuElementwise::Scaling::Before);
  if (divisor == nullptr) {
    return {};
  }
  const std::array dividend = {fn_.operand(op, 0)};
  llvm::BasicBlock *before = builder_.GetInsertBlock();
  llvm::BasicBlock *scaling = newBlock("scale");
  llvm::BasicBlock *after = newBlock("scale.end");
  builder_.CreateCondBr(shared.isScaled, scaling, after);
  builder_.SetInsertPoint(scaling);
  Regs scaled;
  for (llvm::Value *element : regs(dividend[0])) {
    scaled.push_back(builder_.CreateFMul(element, shared.scale));
  }
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
  Regs merged = phis(regs(dividend[0]), before);
  addIncoming(merged, scaled, scaling);
  return merged;
}

llvm::Value *Emitter::element(ir::OpId op, size_t r, const Regs &dividends) {
  llvm::SmallVector<llvm::Value *, 3> operands;
  for (const ir::ValueId operand : fn_.operands(op)) {
    operands.push_back(registerOf(operand, r));
  }
  if (!dividends.empty()) {
    operands[0] = dividends[r];
  }
  if (r % 2 != 0 && elementwise_.turnsFactors(fn_, op)) {
    std::swap(operands[0], operands[1]);
  }
  return elementwise_.emit(fn_, op, operands);
}

int32_t Emitter::equalRegisters(ir::ValueId value) const {
  const ir::Type &type = fn_.type(value);
  if (!type.isTile() || !type.isBool()) {
    return 0;
  }
  // Elements that lie so far from each other along the axis are equal.
  const auto isEqual = [&](unsigned axis, int64_t distance) {
    return std::has_single_bit(static_cast<uint64_t>(distance)) && 2 * distance <= facts_.equalGroup(value, axis);
  };
  const ir::Layout &layout = layoutOf(value);
  const ir::Layout::Bases &registers = layout.bases(ir::HwDim::Reg);
  int32_t alike = 0, bit = 1;
  for (const ir::Coords &base : registers) {
    unsigned moved = 0;
    bool equal = true;
    for (unsigned axis = 0; axis < type.rank(); ++axis) {
      const int32_t distance = base[axis];
      if (distance != 0) {
        ++moved;
        equal = equal && isEqual(axis, distance);
      }
    }
    alike |= moved == 1 && equal ? bit : 0;
    bit *= 2;
  }
  // Repeats are counted in bits as long as they are powers of two.
  for (unsigned axis = type.rank(); axis-- > 0 && std::has_single_bit(static_cast<uint32_t>(layout.repeats()[axis]));) {
    for (int32_t repeat = 1; repeat < layout.repeats()[axis]; repeat *= 2) {
      alike |= isEqual(axis, int64_t{repeat} * layout.subtile()[axis]) ? bit : 0;
      bit *= 2;
    }
  }
  return alike;
}

} // namespace libtile::codegen::gpu
