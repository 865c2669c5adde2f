// SPDX-License-Identifier: Apache-2.0
#include "codegen/atomic_kinds.h"

#include "ir/diagnostic.h"

namespace libtile::codegen {

llvm::AtomicOrdering orderOf(ir::MemOrder order) {
  switch (order) {
  case ir::MemOrder::relaxed:
    return llvm::AtomicOrdering::Monotonic;
  case ir::MemOrder::acquire:
    return llvm::AtomicOrdering::Acquire;
  case ir::MemOrder::release:
    return llvm::AtomicOrdering::Release;
  case ir::MemOrder::acq_rel:
    return llvm::AtomicOrdering::AcquireRelease;
  }
  throw ir::InternalError("unknown memory order");
}

llvm::AtomicRMWInst::BinOp kindOf(ir::AtomicKind kind) {
  using R = llvm::AtomicRMWInst;
  switch (kind) {
  case ir::AtomicKind::add:
    return R::Add;
  case ir::AtomicKind::fadd:
    return R::FAdd;
  case ir::AtomicKind::smax:
    return R::Max;
  case ir::AtomicKind::umax:
    return R::UMax;
  case ir::AtomicKind::smin:
    return R::Min;
  case ir::AtomicKind::umin:
    return R::UMin;
  case ir::AtomicKind::and_:
    return R::And;
  case ir::AtomicKind::or_:
    return R::Or;
  case ir::AtomicKind::xor_:
    return R::Xor;
  case ir::AtomicKind::xchg:
    return R::Xchg;
  }
  throw ir::InternalError("unknown atomic kind");
}

} // namespace libtile::codegen
