// SPDX-License-Identifier: Apache-2.0
#include "codegen/amd/raise_priority.h"

#include "ir/diagnostic.h"

#include <llvm/CodeGen/MachineFunction.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineInstrBuilder.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>
#include <llvm/IR/Function.h>

namespace libtile::codegen::amd {

namespace {

constexpr const char *kAttribute = "raises-priority";
constexpr int64_t kCommon = 0, kRaised = 1; // of four
constexpr int kApart = 32;                  // other instructions between two that stand together
constexpr int kFewest = 4;                  // of fewer the unit is not busy

// Instructions by LLVM's names, which are all that it tells others of them.
unsigned setPriority(const llvm::TargetInstrInfo &instructions) {
  static const unsigned found = [&] {
    for (unsigned opcode = 0; opcode < instructions.getNumOpcodes(); ++opcode) {
      if (instructions.getName(opcode) == "S_SETPRIO") {
        return opcode;
      }
    }
    throw ir::InternalError("LLVM's backend has no instruction for a wave's priority");
  }();
  return found;
}

class RaisePriority : public llvm::MachineFunctionPass {
public:
  RaisePriority() : llvm::MachineFunctionPass(id_) {}

  llvm::StringRef getPassName() const override { return "Raise priority of matrix instructions"; }

  bool runOnMachineFunction(llvm::MachineFunction &fn) override {
    if (!fn.getFunction().hasFnAttribute(kAttribute)) {
      return false;
    }
    instructions_ = fn.getSubtarget().getInstrInfo();
    for (llvm::MachineBasicBlock &block : fn) {
      raiseIn(block);
    }
    return true;
  }

private:
  void raiseIn(llvm::MachineBasicBlock &block) {
    llvm::MachineInstr *first = nullptr, *last = nullptr;
    int count = 0, apart = 0;
    for (llvm::MachineInstr &instruction : block) {
      if (!instructions_->getName(instruction.getOpcode()).starts_with("V_MFMA")) {
        ++apart;
        continue;
      }
      if (apart > kApart || first == nullptr) {
        raise(first, last, count);
        first = &instruction;
        count = 0;
      }
      last = &instruction;
      ++count;
      apart = 0;
    }
    raise(first, last, count);
  }

  void raise(llvm::MachineInstr *first, llvm::MachineInstr *last, int count) {
    if (count >= kFewest) {
      set(*first->getParent(), first->getIterator(), kRaised);
      set(*last->getParent(), std::next(last->getIterator()), kCommon);
    }
  }

  void set(llvm::MachineBasicBlock &block, llvm::MachineBasicBlock::iterator at, int64_t priority) {
    llvm::BuildMI(block, at, llvm::DebugLoc(), instructions_->get(setPriority(*instructions_))).addImm(priority);
  }

  const llvm::TargetInstrInfo *instructions_ = nullptr;
  static char id_;
};

char RaisePriority::id_ = 0;

} // namespace

void raisePriority(llvm::Function &kernel) {
  kernel.addFnAttr(kAttribute);
}

llvm::Pass *createRaisePriority() {
  return new RaisePriority;
}

} // namespace libtile::codegen::amd
