// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/emitter.h"

#include "codegen/cpu/jit.h"
#include "codegen/require_pass.h"
#include "ir/ops.h"

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::Opcode;
using ir::ValueId;
using llvm::Value;

namespace {

// Values that may wait in front of a scope for the code in it. Many more than registers only move to the
// stack and back; and LLVM's time for each grows with the blocks that it lives through, which in front of a
// thousand nests are thousands.
constexpr unsigned kMostHoisted = 128;

} // namespace

// ---- scopes

llvm::BasicBlock *Emitter::newBlock(const char *name) {
  pieces_.add(4);
  return llvm::BasicBlock::Create(module_.getContext(), name, function_);
}

void Emitter::openScope(llvm::Instruction *jump, bool mayHoistOut, ir::Effects effects) {
  scopes_.back().jump = jump;
  scopes_.back().hoisted = 0;
  Scope &scope = scopes_.emplace_back();
  scope.mayHoistOut = mayHoistOut;
  scope.writesGlobal = effects.has(ir::Effects::WritesGlobal) || effects.has(ir::Effects::Ordered);
  scope.writesBuffer = effects.has(ir::Effects::WritesBuffer);
}

void Emitter::forgetValues(size_t from) {
  auto &values = scopes_.back().values;
  for (size_t i = from; i < values.size(); ++i) {
    forms_[values[i].row][values[i].value.index] = Form();
  }
  values.resize(from);
}

void Emitter::closeScope() {
  forgetValues();
  scopes_.pop_back();
  scopes_.back().jump = nullptr;
}

void Emitter::atDepth(unsigned depth, Body body) {
  if (depth == this->depth()) {
    body();
    return;
  }
  const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(scopes_[depth].jump);
  body();
}

llvm::BasicBlock *Emitter::splitHere() {
  llvm::BasicBlock *head = builder_.GetInsertBlock();
  if (builder_.GetInsertPoint() == head->end()) {
    return newBlock("join");
  }
  llvm::BasicBlock *rest = head->splitBasicBlock(builder_.GetInsertPoint(), "join");
  head->getTerminator()->eraseFromParent();
  builder_.SetInsertPoint(head);
  return rest;
}

Emitter::Joined Emitter::branch(Value *cond, Body taken, Body skipped, llvm::MDNode *weights) {
  llvm::BasicBlock *merge = splitHere();
  llvm::BasicBlock *takenBlock = newBlock("then");
  llvm::BasicBlock *skippedBlock = newBlock("else");
  builder_.CreateCondBr(cond, takenBlock, skippedBlock, weights);
  Joined joined{};
  builder_.SetInsertPoint(takenBlock);
  taken();
  joined.taken = builder_.GetInsertBlock();
  builder_.CreateBr(merge);
  builder_.SetInsertPoint(skippedBlock);
  skipped();
  joined.skipped = builder_.GetInsertBlock();
  builder_.CreateBr(merge);
  // Before what was split off, if anything was.
  builder_.SetInsertPoint(merge, merge->begin());
  return joined;
}

// ---- values

Form &Emitter::define(ValueId value, Value *exact, unsigned depth, bool varying) {
  const unsigned row = varying && lanes_.count > 1 ? 1 + lanes_.copy : 0;
  Form &form = forms_[row][value.index];
  form = Form();
  form.exact = exact;
  form.depth = depth;
  form.lanesId = varying ? lanes_.id : -1;
  scopes_[depth].values.push_back({value, row});
  return form;
}

bool Emitter::isDefined(ValueId value) const {
  return forms_[0][value.index].exact != nullptr ||
         (lanes_.count > 1 && forms_[1 + lanes_.copy][value.index].exact != nullptr);
}

const Form &Emitter::form(ValueId value) const {
  const bool shared = lanes_.count == 1 || forms_[0][value.index].exact != nullptr;
  const Form &form = forms_[shared ? 0 : 1 + lanes_.copy][value.index];
  ir::check(form.exact != nullptr, "a value is defined before its use");
  return form;
}

bool Emitter::isVarying(ValueId value) const {
  return lanes_.id >= 0 && form(value).lanesId == lanes_.id;
}

Value *Emitter::scalar(ValueId value) {
  ir::check(lanes_.count == 1 || !isVarying(value), "a uniform value");
  return form(value).exact;
}

Value *Emitter::splat(Value *value, unsigned lanes) {
  if (lanes == 1) {
    return value;
  }
  if (auto *number = llvm::dyn_cast<llvm::Constant>(value)) {
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes), number);
  }
  return builder_.CreateVectorSplat(lanes, value);
}

Value *Emitter::vector(ValueId value) {
  const Form &known = form(value);
  if (lanes_.count == 1 || isVarying(value)) {
    return known.exact;
  }
  auto *made =
      llvm::cast_or_null<llvm::FixedVectorType>(known.splat ? known.splat->getType() : nullptr);
  if (made == nullptr || made->getNumElements() != lanes_.count) {
    Value *result = nullptr;
    atDepth(known.depth, [&] { result = splat(known.exact, lanes_.count); });
    forms_[0][value.index].splat = result;
  }
  return forms_[0][value.index].splat;
}

std::pair<Value *, unsigned> Emitter::anchorOf(ValueId value) const {
  const Form &known = form(value);
  return isVarying(value) ? std::pair(known.anchor, known.anchorDepth)
                          : std::pair(known.exact, known.depth);
}

llvm::Constant *Emitter::iota(llvm::Type *integer) {
  llvm::SmallVector<llvm::Constant *, 64> numbers;
  for (unsigned i = 0; i < lanes_.count; ++i) {
    numbers.push_back(llvm::ConstantInt::get(integer, i));
  }
  return llvm::ConstantVector::get(numbers);
}

// ---- pure ops

Value *Emitter::emitHoisted(ir::OpId op, llvm::ArrayRef<Value *> operands, unsigned &depth) {
  while (depth < this->depth() && scopes_[depth].hoisted >= kMostHoisted) {
    ++depth;
  }
  Value *made = nullptr;
  atDepth(depth, [&] { made = elementwise_.emit(fn_, op, operands); });
  scopes_[depth].hoisted += depth < this->depth() && llvm::isa<llvm::Instruction>(made) ? 1 : 0;
  return made;
}

void Emitter::emitPure(ir::OpId op) {
  unsigned depth = 0;
  bool varying = false;
  for (ValueId operand : fn_.operands(op)) {
    depth = std::max(depth, depthOf(operand));
    varying |= isVarying(operand);
  }
  if (varying && takenForTrue(op)) {
    llvm::Type *bits = Elementwise::widen(builder_.getInt1Ty(), lanes_.count);
    define(fn_.result(op), llvm::Constant::getAllOnesValue(bits), this->depth(), true);
    return;
  }
  llvm::SmallVector<Value *, 3> operands;
  for (ValueId operand : fn_.operands(op)) {
    operands.push_back(inForm(operand, varying));
  }
  Value *exact = emitHoisted(op, operands, depth);
  Form &made = define(fn_.result(op), exact, depth, varying);
  // The group's vectors differ in their base alone.
  const Form &first = forms_[varying && lanes_.count > 1 ? 1 : 0][fn_.result(op).index];
  if (varying && &first != &made && first.exact != nullptr) {
    made.takeAnchor(first);
  } else if (varying) {
    deriveAnchor(op, made);
  }
}

// Only addresses use anchors, and 32-bit index arithmetic that wraps makes a wild pointer (ptr_add in
// ops.def): so arithmetic passes through, and sign extension of what is such arithmetic throughout. A
// truncation is low bits, and narrower arithmetic wraps: neither grows by a constant from lane to lane.
void Emitter::deriveAnchor(ir::OpId op, Form &made) {
  const Opcode opcode = fn_.opcode(op);
  const auto strideOf = [&](unsigned i) {
    return isVarying(fn_.operand(op, i)) ? form(fn_.operand(op, i)).stride : 0;
  };
  const bool isCast = opcode == Opcode::SExt ||
                      (opcode == Opcode::Bitcast && fn_.type(fn_.result(op)).isPointer());
  const bool isSum = opcode == Opcode::Add || opcode == Opcode::Sub || opcode == Opcode::PtrAdd;
  const bool isProduct = opcode == Opcode::Mul || opcode == Opcode::Shl;
  const ir::Type type = fn_.type(fn_.result(op));
  if ((!isCast && !isSum && !isProduct) || type.isFloating() || type.isBool()) {
    return;
  }
  llvm::SmallVector<Value *, 2> operands;
  unsigned depth = 0;
  for (ValueId operand : fn_.operands(op)) {
    if (isVarying(operand) && !form(operand).affine) {
      return;
    }
    const auto [anchor, anchorDepth] = anchorOf(operand);
    operands.push_back(anchor);
    depth = std::max(depth, anchorDepth);
  }
  int64_t stride = strideOf(0);
  if (opcode == Opcode::Add) {
    stride += strideOf(1);
  } else if (opcode == Opcode::Sub) {
    stride -= strideOf(1);
  } else if (opcode == Opcode::PtrAdd) {
    stride += strideOf(1) * type.pointee().elementBytes();
  } else if (isProduct) {
    const auto isNumber = [&](unsigned i) {
      return fn_.constantInt(fn_.operand(op, i)).has_value();
    };
    const unsigned number = isNumber(1) ? 1 : 0;
    if (!isNumber(number) || (opcode == Opcode::Shl && number == 0)) {
      return;
    }
    const int64_t factor = *fn_.constantInt(fn_.operand(op, number));
    if (opcode == Opcode::Shl && (factor < 0 || factor > 30)) {
      return;
    }
    stride = strideOf(1 - number) * (opcode == Opcode::Shl ? int64_t{1} << factor : factor);
  }
  if (stride > INT32_MAX || stride < INT32_MIN) {
    return;
  }
  made.anchor = emitHoisted(op, operands, depth);
  made.anchorDepth = depth;
  made.stride = stride;
  made.affine = true;
  made.counts = stride == 1 && (opcode == Opcode::Add || opcode == Opcode::Sub) && !type.isPointer();
  for (ValueId operand : fn_.operands(op)) {
    made.counts &= !isVarying(operand) || form(operand).counts;
  }
}

void Emitter::emitConstant(ir::OpId op) {
  define(fn_.result(op), elementwise_.constant(fn_, op), 0, false);
}

// ---- dispatch

void Emitter::emitBlock(ir::BlockId block) {
  for (ir::OpId op = fn_.first(block); op.valid();) {
    ir::OpId end = op;
    while (end.valid() && (fn_.opcode(end) != Opcode::For || group_.size() == 1)) {
      end = fn_.next(end);
    }
    eachVector([&](unsigned) { emitOps(op, end); });
    if (end.valid()) {
      emitFor(end);
      end = fn_.next(end);
    }
    op = end;
  }
}

void Emitter::emitOps(ir::OpId first, ir::OpId end) {
  OpenPiece piece = pieces_.begin();
  for (ir::OpId op = first; op != end; op = fn_.next(op)) {
    // Hoisted when this block was emitted before, or shared with another vector.
    const bool repeats = !fn_.effects(op).removable();
    if (repeats || fn_.results(op).empty() || !isDefined(fn_.result(op))) {
      emitOp(op);
      pieces_.add(1);
    }
    if (lanes_.id < 0) {
      pieces_.endIfLong(piece);
    }
  }
}

// clang-format off
// No `default`: an op without a case here does not build.
void Emitter::emitOp(ir::OpId op) {
  switch (fn_.opcode(op)) {
  case Opcode::Constant: return emitConstant(op);
  case Opcode::ProgramId:
    define(fn_.result(op), program_[fn_.getInt(op, Attr::axis)], 1, false);
    return;
  case Opcode::NumPrograms:
    define(fn_.result(op), grid_[fn_.getInt(op, Attr::axis)], 0, false);
    return;
  case Opcode::Clock: {
    llvm::Type *time = builder_.getInt64Ty();
    const auto clock = module_.getOrInsertFunction(kClock, llvm::FunctionType::get(time, false));
    define(fn_.result(op), builder_.CreateCall(clock), depth(), false);
    return;
  }
#define ELEMENTWISE(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    return emitPure(op);
  case Opcode::Load: return emitLoad(op);
  case Opcode::Store: return emitStore(op);
  case Opcode::AtomicRmw: return emitAtomicRmw(op);
  case Opcode::AtomicCas: return emitAtomicCas(op);
  case Opcode::Print: return emitPrint(op);
  case Opcode::Assert: return emitAssert(op);
  case Opcode::For: return emitFor(op);
  case Opcode::While: return emitWhile(op);
  case Opcode::If: return emitIf(op);
  // The owner of the region reads the yielded values.
  case Opcode::Yield:
  case Opcode::Return: return;
  case Opcode::Alloc: return emitAlloc(op);
  case Opcode::BufferSlot: return emitBufferSlot(op);
  case Opcode::Recall: return emitRecall(op);
  case Opcode::CallSums: return emitAlloc(op);
  case Opcode::Nest: return emitNestOp(op);
  case Opcode::Fold: return emitFold(op);
  case Opcode::Prefix: return emitPrefix(op);
  case Opcode::SortRows: return emitSortRows(op);
  case Opcode::LeastOfRows: return emitLeastOfRows(op);
  case Opcode::TransposeWords: return emitTransposeWords(op);
  case Opcode::ElementRead: return emitElementRead(op);
  case Opcode::ElementWrite: return emitElementWrite(op);
  case Opcode::Contract: return emitContract(op);
  case Opcode::Arange: case Opcode::Splat: case Opcode::Broadcast: case Opcode::ExpandDims:
  case Opcode::Reshape: case Opcode::Trans: case Opcode::Slice: case Opcode::Hint: case Opcode::Hold: case Opcode::Assume:
  case Opcode::Dot: case Opcode::Reduce: case Opcode::Scan: case Opcode::Sort: case Opcode::Resize:
  case Opcode::CompareExchange: case Opcode::Gather: case Opcode::Histogram: case Opcode::Map:
  case Opcode::Assembly: case Opcode::ConvertLayout: case Opcode::BufferRead:
  case Opcode::BufferWrite: case Opcode::BufferGather: case Opcode::BufferCount: case Opcode::AsyncCopy: case Opcode::AsyncCommit: case Opcode::AsyncWait:
  case Opcode::ArrivalsInit: case Opcode::CopyBox: case Opcode::StoreBox: case Opcode::StoreWait: case Opcode::ArrivalsWait: case Opcode::Arrive: case Opcode::ArrivalsEnd:
  case Opcode::Producer: case Opcode::BeginTurns: case Opcode::TakeTurn: case Opcode::GiveTurn: case Opcode::PlaceWrite: case Opcode::PlaceRead: case Opcode::DotWait:
  case Opcode::Worker: case Opcode::NumWorkers: case Opcode::Barrier: case Opcode::GridWait: case Opcode::LaunchDependents:
  case Opcode::ClusterBarrier: case Opcode::ClusterSize: break;
  }
  throw ir::InternalError(std::string(fn_.opInfo(op).mnemonic) + " is not an op of the nested stage",
                          fn_.locationOf(op));
}
// clang-format on

} // namespace libtile::codegen::cpu
