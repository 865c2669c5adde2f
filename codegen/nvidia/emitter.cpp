// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/emitter.h"

#include "codegen/llvm_compat.h"
#include "ir/ops.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>
#include <array>
#include <bit>

namespace libtile::codegen::nvidia {

using ir::Opcode;
using ir::Stages;
using ir::TypeRule;

namespace {

constexpr bool isCastFunction(Opcode opcode) {
  return opcode == Opcode::Float8Decode || opcode == Opcode::Float8Encode;
}

// Rows whose ops Elementwise emits: isElementwise, at compile time.
constexpr bool isElementwiseRow(TypeRule rule) {
  return rule == TypeRule::Same || rule == TypeRule::SameInt || rule == TypeRule::SameFloat ||
         rule == TypeRule::Compare || rule == TypeRule::Select || rule == TypeRule::Cast ||
         rule == TypeRule::PtrAdd;
}

} // namespace

Emitter::Emitter(const ir::Function &fn, const ir::Target &target, const CodeOptions &options,
                 llvm::Module &module, const std::string &symbol)
    : fn_(fn), target_(target), options_(options), module_(module), context_(module.getContext()),
      builder_(context_), elementwise_(builder_), facts_(passes::computeFacts(fn)),
      values_(fn.numValues()), contracts_(options.contracts) {
  declareKernel(symbol);
}

// One parameter an argument; i1 travels as i8.
void Emitter::declareKernel(const std::string &symbol) {
  llvm::SmallVector<llvm::Type *, 16> params;
  for (ir::ValueId arg : fn_.args(fn_.body())) {
    params.push_back(elementwise_.memoryType(fn_.type(arg)));
  }
  auto *type = llvm::FunctionType::get(builder_.getVoidTy(), params, false);
  kernel_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, module_);
  kernel_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  kernel_->addFnAttr(llvm::Attribute::NoUnwind);
  const int32_t threads = fn_.numWarps * target_.warpSize;
  // Newer versions read the attribute, older ones the annotations.
  kernel_->addFnAttr("nvvm.maxntid", std::to_string(threads));
  llvm::NamedMDNode *annotations = module_.getOrInsertNamedMetadata("nvvm.annotations");
  const auto annotate = [&](const char *name, int32_t value) {
    annotations->addOperand(llvm::MDNode::get(
        context_, {llvm::ValueAsMetadata::get(kernel_), llvm::MDString::get(context_, name),
                   llvm::ConstantAsMetadata::get(i32(value))}));
  };
  annotate("kernel", 1);
  annotate("maxntidx", threads);
  if (fn_.resident > 0) {
    kernel_->addFnAttr("nvvm.minctasm", std::to_string(fn_.resident));
    annotate("minctasm", fn_.resident);
  }
  if (options_.maxRegisters > 0) {
    kernel_->addFnAttr("nvvm.maxnreg", std::to_string(options_.maxRegisters));
    annotate("maxnreg", options_.maxRegisters);
  }
}

void Emitter::run() {
  prologue_ = llvm::BasicBlock::Create(context_, "prologue", kernel_);
  llvm::BasicBlock *body = llvm::BasicBlock::Create(context_, "body", kernel_);
  builder_.SetInsertPoint(prologue_);
  thread_ = specialRegister(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  lane_ = builder_.CreateAnd(thread_, i32(target_.warpSize - 1));
  warp_ = fn_.numWarps == 1 ? static_cast<llvm::Value *>(i32(0))
                            : builder_.CreateUDiv(thread_, i32(target_.warpSize));
  for (unsigned i = 0; i < kernel_->arg_size(); ++i) {
    const ir::ValueId arg = fn_.arg(fn_.body(), i);
    set(arg, elementwise_.fromMemory(fn_.type(arg), kernel_->getArg(i)));
  }
  builder_.CreateBr(body);
  builder_.SetInsertPoint(body);
  emitBlock(fn_.body());
  removeUnused();
}

// Registers that nothing reads: of index tiles that went into addresses, of masks whose neighbours
// are equal. Here they cost nothing; instruction selection would look at each.
void Emitter::removeUnused() {
  for (llvm::BasicBlock &block : llvm::reverse(*kernel_)) {
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (llvm::isInstructionTriviallyDead(&instruction)) {
        instruction.eraseFromParent();
      }
    }
  }
}

// A remainder, and a division or root of f64, is a call in machine code, across which every element that is under way
// needs registers: a run of elementwise ops around one goes element by element, others op by op.
void Emitter::emitBlock(ir::BlockId block) {
  std::vector<ir::OpId> run; // one behind the other, each of as many registers
  const auto finishRun = [&] {
    if (std::ranges::any_of(run, [&](ir::OpId op) { return isCall(op); })) {
      elementwise(run);
    } else {
      for (const ir::OpId &op : run) {
        elementwise({&op, 1});
      }
    }
    run.clear();
  };
  for (ir::OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
    const Opcode opcode = fn_.opcode(op);
    const bool joins = ir::isElementwise(opcode) && opcode != Opcode::Hint;
    if (!run.empty() && opcode != Opcode::Constant &&
        (!joins || numRegs(fn_.result(op)) != numRegs(fn_.result(run[0])))) {
      finishRun();
    }
    if (joins) {
      run.push_back(op);
    } else {
      emitOp(op);
    }
  }
  finishRun();
}

bool Emitter::isCall(ir::OpId op) const {
  const Opcode opcode = fn_.opcode(op);
  const bool isDouble = fn_.type(fn_.result(op)).elem() == ir::Elem::F64;
  return opcode == Opcode::FRem || (isDouble && (opcode == Opcode::FDiv || opcode == Opcode::Sqrt));
}

void Emitter::emitOp(ir::OpId op) {
  switch (fn_.opcode(op)) {
#define OP(Name, mnemonic, operands, attributes, regions, rule, effects, stages, doc)              \
  case Opcode::Name:                                                                               \
    if constexpr (((stages) & Stages::Staged) == 0) {                                              \
      throw ir::InternalError(#Name " in a staged function", fn_.locationOf(op));                  \
    } else if constexpr (isElementwiseRow(TypeRule::rule) && Opcode::Name != Opcode::Hint) {       \
      return elementwise({&op, 1});                                                                \
    } else {                                                                                       \
      return lower##Name(op);                                                                      \
    }
#include "ir/ops.def"
  }
}

void Emitter::elementwise(std::span<const ir::OpId> run) {
  if (run.size() == 1 && (addressOp(run[0]) || indexOp(run[0]))) {
    return;
  }
  if (run.size() == 1 && isCastFunction(fn_.opcode(run[0]))) {
    return castPairs(run[0]);
  }
  std::vector<int32_t> alike;
  Regs dividends;
  for (const ir::OpId op : run) {
    dividends = shareDivisor(op, run.size() == 1);
    alike.push_back(equalRegisters(fn_.result(op)));
    set(fn_.result(op), Regs(numRegs(fn_.result(op))));
  }
  const llvm::IRBuilder<>::FastMathFlagGuard guard(builder_);
  const size_t count = regs(fn_.result(run[0])).size();
  for (size_t r = 0; r < count; ++r) {
    for (size_t k = 0; k < run.size(); ++k) {
      Regs &out = values_[fn_.result(run[k]).index];
      const auto first = r & ~static_cast<size_t>(alike[k]);
      out[r] = first != r ? out[first] : element(run[k], r, dividends);
    }
  }
}

void Emitter::castPairs(ir::OpId op) {
  const Regs from = regs(fn_.operand(op, 0));
  Regs out;
  for (size_t r = 0; r + 1 < from.size(); r += 2) {
    llvm::Value *pair = llvm::PoisonValue::get(llvm::FixedVectorType::get(from[r]->getType(), 2));
    pair = builder_.CreateInsertElement(pair, from[r], uint64_t{0});
    pair = builder_.CreateInsertElement(pair, from[r + 1], uint64_t{1});
    llvm::Value *both = elementwise_.emit(fn_, op, {pair});
    out.push_back(builder_.CreateExtractElement(both, uint64_t{0}));
    out.push_back(builder_.CreateExtractElement(both, uint64_t{1}));
  }
  if (from.size() % 2 != 0) {
    out.push_back(elementwise_.emit(fn_, op, {from.back()}));
  }
  set(fn_.result(op), std::move(out));
}

//   if (scaled) { dividend *= scale }: nearly never, and the same for all rows of a thread
Regs Emitter::shareDivisor(ir::OpId op, bool mayShare) {
  if (fn_.opcode(op) != Opcode::FDiv || fn_.getBool(op, ir::Attr::rounded) ||
      fn_.type(fn_.result(op)).elem() != ir::Elem::F32) {
    return {};
  }
  const Regs &divisors = regs(fn_.operand(op, 1));
  const bool one =
      mayShare && divisors.size() > 2 &&
      std::count(divisors.begin(), divisors.end(), divisors[0]) == std::ssize(divisors);
  const auto &shared = elementwise_.shareDivisor(one ? divisors[0] : nullptr);
  if (!one) {
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
  Regs merged = phis(dividend, regs(dividend[0]), before);
  addIncoming(merged, scaled, scaling);
  return merged;
}

llvm::Value *Emitter::element(ir::OpId op, size_t r, const Regs &dividends) {
  llvm::SmallVector<llvm::Value *, 3> operands;
  for (const ir::ValueId operand : fn_.operands(op)) {
    operands.push_back(regs(operand)[r]);
  }
  if (!dividends.empty()) {
    operands[0] = dividends[r];
  }
  // A product may be fused with the sum that it goes into (docs/semantics.md).
  const Opcode opcode = fn_.opcode(op);
  llvm::FastMathFlags flags;
  flags.setAllowContract(contracts_ && (opcode == Opcode::Add || opcode == Opcode::Sub ||
                                        opcode == Opcode::Mul));
  builder_.setFastMathFlags(flags);
  return elementwise_.emit(fn_, op, operands);
}

int32_t Emitter::equalRegisters(ir::ValueId value) const {
  const ir::Type &type = fn_.type(value);
  if (!type.isTile() || !type.isBool()) {
    return 0;
  }
  const ir::Layout &layout = layoutOf(value);
  const ir::Layout::Bases &registers = layout.bases(ir::HwDim::Reg);
  int32_t alike = 0;
  for (size_t bit = 0; bit < registers.size(); ++bit) {
    unsigned moved = 0;
    bool equal = true;
    for (unsigned axis = 0; axis < type.rank(); ++axis) {
      const int32_t distance = registers[bit][axis];
      if (distance != 0) {
        ++moved;
        equal = equal && std::has_single_bit(static_cast<uint32_t>(distance)) &&
                2 * int64_t{distance} <= facts_.equalGroup(value, axis);
      }
    }
    alike |= moved == 1 && equal ? 1 << bit : 0;
  }
  return alike;
}

unsigned Emitter::numRegs(ir::ValueId value) const {
  const ir::Type &type = fn_.type(value);
  if (type.isToken()) {
    return 0;
  }
  return type.isTile() ? fn_.layout(type.layout()).size(ir::HwDim::Reg) : 1;
}

llvm::Value *Emitter::specialRegister(llvm::Intrinsic::ID id) {
  return builder_.CreateCall(compat::intrinsic(module_, id));
}

llvm::Type *Emitter::registerType(ir::ValueId value) const {
  const ir::Type &type = fn_.type(value);
  return type.isBuffer() ? llvm::PointerType::get(context_, 3) : elementwise_.registerType(type);
}

} // namespace libtile::codegen::nvidia
