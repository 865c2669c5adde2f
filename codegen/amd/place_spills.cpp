// SPDX-License-Identifier: Apache-2.0
// A slot of 20 to 44 bytes is written by 16 bytes and a rest. LLVM 22 asks whether the offset of the last whole 16 bytes
// fits its instruction, and takes that for the rest's, too: a rest at 4096 is written at -4096, outside of the thread's memory.
// So no such slot may have that offset within. They come first in the frame, and the few that would reach it begin there.
#include "codegen/amd/place_spills.h"

#include <llvm/CodeGen/MachineFrameInfo.h>
#include <llvm/CodeGen/MachineFunction.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/TargetFrameLowering.h>

#include <algorithm>

namespace libtile::codegen::amd {

namespace {

constexpr int64_t kNoOffset = 4096; // of an instruction's 13 bits with a sign
constexpr int64_t kPart = 16;
constexpr int64_t kBefore = 64; // more than the slots that LLVM lays out before all others, to save scalar registers in

class PlaceSpills : public llvm::MachineFunctionPass {
public:
  PlaceSpills() : llvm::MachineFunctionPass(id_) {}

  llvm::StringRef getPassName() const override { return "Place spilled registers"; }

  bool runOnMachineFunction(llvm::MachineFunction &fn) override {
    llvm::MachineFrameInfo &frame = fn.getFrameInfo();
    if (frame.getUseLocalStackAllocationBlock() || static_cast<int64_t>(frame.estimateStackSize(fn)) < kNoOffset - kBefore) {
      return false;
    }
    int64_t end = 0;
    for (int slot = 0; slot < frame.getObjectIndexEnd(); ++slot) {
      if (frame.isDeadObjectIndex(slot) || !frame.isSpillSlotObjectIndex(slot) ||
          frame.getStackID(slot) != llvm::TargetStackID::Default) {
        continue;
      }
      const int64_t size = frame.getObjectSize(slot);
      if (size < kPart || size % kPart == 0) {
        continue;
      }
      if (end < kNoOffset && end + size + kBefore > kNoOffset) {
        end = kNoOffset;
      }
      frame.mapLocalFrameObject(slot, end);
      end += size;
    }
    frame.setLocalFrameSize(end);
    frame.setLocalFrameMaxAlign(std::max(frame.getLocalFrameMaxAlign(), llvm::Align(4)));
    frame.setUseLocalStackAllocationBlock(end > 0);
    return false;
  }

private:
  static char id_;
};

char PlaceSpills::id_ = 0;

} // namespace

llvm::Pass *createPlaceSpills() {
  return new PlaceSpills;
}

} // namespace libtile::codegen::amd
