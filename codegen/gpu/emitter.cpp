// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/emitter.h"

#include "codegen/gpu/elementwise_runs.h"
#include "ir/ops.h"
#include "passes/gpu/live_tiles.h"
#include "passes/gpu/shared_accesses.h"

#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>
#include <array>
#include <bit>

namespace libtile::codegen::gpu {

using ir::Opcode;
using ir::Stages;
using ir::TypeRule;

namespace {

// Rows whose ops Elementwise emits: isElementwise, at compile time.
constexpr bool isElementwiseRow(TypeRule rule) {
  return rule == TypeRule::Same || rule == TypeRule::SameInt || rule == TypeRule::SameFloat ||
         rule == TypeRule::Compare || rule == TypeRule::Select || rule == TypeRule::Cast ||
         rule == TypeRule::PtrAdd;
}

// Registers that nothing reads: of index tiles that went into addresses, of masks whose neighbours
// are equal. Here they cost nothing; instruction selection would look at each.
void removeUnused(llvm::Function &kernel) {
  for (llvm::BasicBlock &block : llvm::reverse(kernel)) {
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (llvm::isInstructionTriviallyDead(&instruction)) {
        instruction.eraseFromParent();
      }
    }
  }
}

} // namespace

Emitter::Emitter(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, llvm::Module &module,
                 GpuElementwise &elementwise)
    : fn_(fn), target_(target), options_(options), module_(module), context_(module.getContext()),
      builder_(context_), elementwise_(elementwise), facts_(passes::computeFacts(fn)),
      values_(fn.numValues()), registers_(passes::threadRegisters(fn, target)), contracts_(options.contracts) {}

// One parameter an argument, where i1 travels as i8, and behind them one a tensor map; then, where programs share blocks, the
// grid's extents.
void Emitter::declareKernel(const std::string &symbol) {
  llvm::SmallVector<llvm::Type *, 16> params;
  for (ir::ValueId arg : fn_.args(fn_.body())) {
    params.push_back(elementwise_.memoryType(fn_.type(arg)));
  }
  params.resize(params.size() + fn_.maps.size(), llvm::PointerType::get(context_, 0));
  if (passes::sharesBlocks(fn_)) {
    params.append(3, builder_.getInt32Ty());
  }
  auto *type = llvm::FunctionType::get(builder_.getVoidTy(), params, false);
  kernel_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, module_);
  markKernel();
}

void Emitter::run(const std::string &symbol) {
  declareKernel(symbol);
  if (options_.lines) {
    lines_.emplace(fn_, *kernel_);
  }
  prologue_ = llvm::BasicBlock::Create(context_, "prologue", kernel_);
  llvm::BasicBlock *body = llvm::BasicBlock::Create(context_, "body", kernel_);
  builder_.SetInsertPoint(prologue_);
  thread_ = threadIndex();
  lane_ = builder_.CreateAnd(thread_, i32(target_.warpSize - 1));
  warp_ = fn_.numWarps == 1 ? static_cast<llvm::Value *>(i32(0))
                            : builder_.CreateUDiv(thread_, i32(target_.warpSize));
  for (unsigned i = 0; i < fn_.params.size(); ++i) {
    const ir::ValueId arg = fn_.arg(fn_.body(), i);
    set(arg, elementwise_.fromMemory(fn_.type(arg), kernel_->getArg(i)));
  }
  builder_.CreateBr(body);
  builder_.SetInsertPoint(body);
  emitBlock(fn_.body());
  if (lines_) {
    lines_->finish();
  }
  removeUnused(*kernel_);
}

void Emitter::emitBlock(ir::BlockId block) {
  ElementwiseRun run(*this);
  for (ir::OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
    if (!run.take(op)) {
      run.finish();
      if (!run.take(op)) {
        emitOp(op);
      }
    }
  }
  run.finish();
}

#define OURS(Name) template <> void Emitter::lowerOp<Opcode::Name>(ir::OpId op) { lower##Name(op); }
#define VENDORS OURS
#include "codegen/gpu/ops.def"

void Emitter::emitOp(ir::OpId op) {
  const LineScope line(builder_, lines_, op);
  switch (fn_.opcode(op)) {
#define OP(Name, mnemonic, operands, attributes, regions, rule, effects, stages, doc)              \
  case Opcode::Name:                                                                               \
    if constexpr (((stages) & Stages::Staged) == 0) {                                              \
      throw ir::InternalError(#Name " in a staged function", fn_.locationOf(op));                  \
    } else if constexpr (isElementwiseRow(TypeRule::rule) && Opcode::Name != Opcode::Hint) {       \
      return elementwise(op);                                                                \
    } else {                                                                                       \
      return lowerOp<Opcode::Name>(op);                                                            \
    }
#include "ir/ops.def"
  }
}

unsigned Emitter::numRegs(ir::ValueId value) const {
  const ir::Type &type = fn_.type(value);
  if (type.isToken() || type.isPlace()) {
    return 0;
  }
  return type.isTile() ? fn_.layout(type.layout()).size(ir::HwDim::Reg) : 1;
}

llvm::Type *Emitter::registerType(ir::ValueId value) const {
  const ir::Type &type = fn_.type(value);
  return type.isBuffer() ? llvm::PointerType::get(context_, 3) : elementwise_.registerType(type);
}

} // namespace libtile::codegen::gpu
