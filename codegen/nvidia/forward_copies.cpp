// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/forward_copies.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/CodeGen/MachineFunction.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineInstr.h>
#include <llvm/CodeGen/MachineRegisterInfo.h>

namespace libtile::codegen::nvidia {

namespace {

class ForwardCopies final : public llvm::MachineFunctionPass {
public:
  ForwardCopies() : MachineFunctionPass(id) {}
  llvm::StringRef getPassName() const override { return "Forward copies"; }

  void getAnalysisUsage(llvm::AnalysisUsage &usage) const override {
    usage.setPreservesCFG();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

  // Each register has one definition here, which comes before its uses.
  bool runOnMachineFunction(llvm::MachineFunction &function) override {
    llvm::MachineRegisterInfo &registers = function.getRegInfo();
    llvm::SmallSetVector<llvm::Register, 32> sources;
    for (llvm::MachineBasicBlock &block : function) {
      for (llvm::MachineInstr &instruction : llvm::make_early_inc_range(block)) {
        if (!instruction.isCopy() || !isWhole(registers, instruction)) {
          continue;
        }
        const llvm::Register source = instruction.getOperand(1).getReg();
        registers.replaceRegWith(instruction.getOperand(0).getReg(), source);
        instruction.eraseFromParent();
        sources.insert(source);
      }
    }
    for (const llvm::Register source : sources) {
      registers.clearKillFlags(source); // it lives on, up to the last use of what was a copy
    }
    return !sources.empty();
  }

private:
  static bool isWhole(const llvm::MachineRegisterInfo &registers, const llvm::MachineInstr &copy) {
    const llvm::MachineOperand &to = copy.getOperand(0), &from = copy.getOperand(1);
    return to.getReg().isVirtual() && from.getReg().isVirtual() && to.getSubReg() == 0 && from.getSubReg() == 0 &&
           registers.getRegClass(to.getReg()) == registers.getRegClass(from.getReg());
  }

  static char id; // its address is the pass's name in LLVM
};

char ForwardCopies::id = 0;

} // namespace

llvm::MachineFunctionPass *makeForwardCopies() { return new ForwardCopies; }

} // namespace libtile::codegen::nvidia
