// SPDX-License-Identifier: Apache-2.0
// Weak stand-ins, so that everything links while emitters are being written: the real definition of
// a member wins. Listed last in meson.build.
#include "codegen/nvidia/emitter.h"

namespace libtile::codegen::nvidia {

namespace {

[[noreturn]] void pending(const ir::Function &fn, ir::OpId op) {
  throw ir::Unsupported(std::string(fn.opInfo(op).mnemonic) + " on an NVIDIA target",
                        fn.locationOf(op));
}

} // namespace

__attribute__((weak)) void Emitter::lowerReduce(ir::OpId op) { pending(fn_, op); }
__attribute__((weak)) void Emitter::lowerConvertLayout(ir::OpId op) { pending(fn_, op); }
__attribute__((weak)) void Emitter::lowerAlloc(ir::OpId op) { pending(fn_, op); }
__attribute__((weak)) void Emitter::lowerBufferSlot(ir::OpId op) { pending(fn_, op); }
__attribute__((weak)) void Emitter::lowerBufferRead(ir::OpId op) { pending(fn_, op); }
__attribute__((weak)) void Emitter::lowerBufferWrite(ir::OpId op) { pending(fn_, op); }
__attribute__((weak)) void Emitter::lowerAsyncCopy(ir::OpId op) { pending(fn_, op); }
__attribute__((weak)) void Emitter::lowerAsyncCommit(ir::OpId op) { pending(fn_, op); }
__attribute__((weak)) void Emitter::lowerAsyncWait(ir::OpId op) { pending(fn_, op); }
__attribute__((weak)) void Emitter::lowerBarrier(ir::OpId) { barrier(); }
__attribute__((weak)) void Emitter::lowerDot(ir::OpId op) { pending(fn_, op); }

} // namespace libtile::codegen::nvidia
