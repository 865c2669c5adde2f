// SPDX-License-Identifier: Apache-2.0
// Exchanges between lanes: by what moves words in registers, else by the crossbar of LDS.
#include "codegen/amd/amd_emitter.h"
#include "codegen/amd/description.h"
#include "codegen/llvm_compat.h"

#include <llvm/IR/IntrinsicsAMDGPU.h>

namespace libtile::codegen::amd {

using gpu::LaneExchange;
using llvm::Intrinsic::ID;

int32_t AmdEmitter::laneRow() const { return 16; } // DPP shifts within it

// Newer LLVMs know words of every type.
llvm::Function *AmdEmitter::wordIntrinsic(llvm::Intrinsic::ID id) {
  return llvm::Intrinsic::isOverloaded(id) ? compat::intrinsic(module_, id, {builder_.getInt32Ty()}) : compat::intrinsic(module_, id);
}

// ds_bpermute takes four times the lane.
llvm::Value *AmdEmitter::shuffleWord(llvm::Value *word, const LaneExchange &exchange) {
  const auto moves = exchange.sources.empty() ? std::nullopt : laneMoves(exchange.sources, laneSet(target_));
  if (moves) {
    for (const LaneMove &move : *moves) {
      word = moveWord(word, move);
    }
    return word;
  }
  llvm::Value *lane = exchange.mode == LaneExchange::Mode::Xor ? builder_.CreateXor(lane_, exchange.operand) : exchange.operand;
  return builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_ds_bpermute),
                             {builder_.CreateShl(lane, i32(2)), word});
}

// All lanes are on, and what is read from nowhere nobody looks at: there are no old words to keep.
llvm::Value *AmdEmitter::moveWord(llvm::Value *word, const LaneMove &move) {
  llvm::Type *type = word->getType();
  llvm::Value *none = llvm::PoisonValue::get(type);
  const auto call = [&](ID id, llvm::ArrayRef<llvm::Value *> operands) {
    return builder_.CreateCall(wordIntrinsic(id), operands);
  };
  const auto upper = [&](uint32_t group) {
    return builder_.CreateICmpNE(builder_.CreateAnd(lane_, i32(group)), i32(0));
  };
  switch (move.kind) {
  case LaneMove::Kind::Dpp: {
    llvm::Value *moved = call(llvm::Intrinsic::amdgcn_update_dpp, {none, word, i32(move.control), i32(15), i32(15), builder_.getTrue()});
    // LLVM 22 makes the move a part of the instruction that reads it, of v_mad_co_u64_u32 too, which RDNA 4 does not have so.
    return laneSet(target_) == LaneSet::Rdna4 ? assembly("", "=v,0", type, {moved}, false) : moved;
  }
  case LaneMove::Kind::ReadLane:
    return call(llvm::Intrinsic::amdgcn_readlane, {word, i32(move.control)});
  case LaneMove::Kind::ReadHalves: {
    llvm::Value *low = call(llvm::Intrinsic::amdgcn_readlane, {word, i32(move.control)});
    return builder_.CreateSelect(upper(32), call(llvm::Intrinsic::amdgcn_readlane, {word, i32(move.high)}), low);
  }
  case LaneMove::Kind::PermuteRow:
  case LaneMove::Kind::PermuteRows:
    return call(move.kind == LaneMove::Kind::PermuteRow ? llvm::Intrinsic::amdgcn_permlane16 : llvm::Intrinsic::amdgcn_permlanex16,
                {none, word, i32(move.control), i32(move.high), builder_.getFalse(), builder_.getTrue()});
  case LaneMove::Kind::SwapGroups: {
    // By its name: LLVM 19 does not have it.
    auto *pair = llvm::FunctionType::get(llvm::StructType::get(type, type), {type, type, builder_.getInt1Ty(), builder_.getInt1Ty()}, false);
    const std::string name = "llvm.amdgcn.permlane" + std::to_string(move.control) + ".swap";
    llvm::Value *swapped = builder_.CreateCall(module_.getOrInsertFunction(name, pair),
                                               {word, word, builder_.getFalse(), builder_.getFalse()});
    return builder_.CreateSelect(upper(move.control), builder_.CreateExtractValue(swapped, 0), builder_.CreateExtractValue(swapped, 1));
  }
  case LaneMove::Kind::Swizzle:
    return call(llvm::Intrinsic::amdgcn_ds_swizzle, {word, i32(move.control)});
  }
  throw ir::InternalError("unknown move between lanes");
}

} // namespace libtile::codegen::amd
