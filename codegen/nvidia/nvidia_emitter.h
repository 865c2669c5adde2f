// SPDX-License-Identifier: Apache-2.0
// A staged function as LLVM IR for NVIDIA's GPUs: what codegen/gpu/emitter.h leaves to a vendor, mostly PTX that LLVM has
// no instruction for. In nvidia_emitter.cpp what is short; accesses, atomics, asynchronous copies, messages, dots and
// the user's assembly in files of their own.
#pragma once

#include "codegen/gpu/emitter.h"
#include "codegen/nvidia/description.h"
#include "codegen/nvidia/elementwise.h"

#include <string>

namespace libtile::codegen::nvidia {

using gpu::AccessAddress;
using gpu::AccessAddresses;
using gpu::RegGroup;
using gpu::Regs;

// The operands of one piece of inline assembly, numbered as they are named; results come first.
class AssemblyOperands {
public:
  // Each returns the text that stands for the operand.
  std::string result(const char *constraint);
  std::string use(llvm::Value *value, const char *constraint);
  // "[$2+16]"; a product is computed by what `before` has to begin with, in braces around the text.
  std::string address(const AccessAddress &address, std::string &before);

  [[nodiscard]] const std::string &constraints() const { return constraints_; }
  [[nodiscard]] llvm::ArrayRef<llvm::Value *> values() const { return values_; }

private:
  std::string number(const std::string &constraint);
  std::string constraints_;
  llvm::SmallVector<llvm::Value *, 8> values_;
  unsigned count_ = 0;
};

class NvidiaEmitter final : public gpu::Emitter {
public:
  NvidiaEmitter(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, llvm::Module &module);

private:
  void markKernel() override;
  [[nodiscard]] int32_t leastPrograms() const;
  llvm::Value *threadIndex() override;
  llvm::Value *programIndex(int64_t axis) override;
  llvm::Value *programCount(int64_t axis) override;
  llvm::Value *clock() override;
  void barrier() override;
  void warpBarrier() override;
  llvm::Value *holdWord(llvm::Value *word) override;
  llvm::Value *shuffleWord(llvm::Value *word, const gpu::LaneExchange &exchange) override;
  // ---- emit_accesses.cpp
  Regs loadGroups(ir::OpId op, llvm::ArrayRef<RegGroup> groups, llvm::ArrayRef<AccessAddress> from, llvm::Value *on) override;
  void storeGroup(ir::OpId op, const RegGroup &group, const AccessAddress &to, llvm::Value *on) override;
  void storeWords(llvm::Value *pointer, const Regs &words, unsigned wordBytes, llvm::Value *predicate) override;
  void countShared(llvm::Value *pointer, llvm::Value *predicate) override;
  // ---- emit_atomic.cpp
  llvm::Value *atomic(ir::OpId op, ir::MemOrder sem, const ir::Type &type, llvm::ArrayRef<llvm::Value *> operands,
                      llvm::Value *predicate, bool wantsOld) override;
  [[nodiscard]] bool addsNeighbours(ir::OpId op) const override;
  void addNeighbours(ir::OpId op, ir::MemOrder sem, const RegGroup &group, llvm::Value *predicate) override;
  void fence(ir::OpId op, llvm::Value *predicate) override;
  [[nodiscard]] std::string atomicText(ir::OpId op, ir::MemOrder sem, const ir::Type &type, bool wantsOld) const;
  // ---- emit_copies.cpp, emit_matrices.cpp
  void publish() override;
  [[nodiscard]] int64_t sharedExtent() const override { return 0; }
  void copyGroup(ir::OpId op, llvm::ArrayRef<int32_t> group, const AccessAddress &from, std::pair<llvm::Value *, int32_t> to);
  void readMatrices(ir::OpId op, const passes::BufferAccess &access) override;
  void writeMatrices(ir::OpId op, const passes::BufferAccess &access) override;
  // Up to four matrices that one instruction takes: the bits of the register index that count their elements and them, and where lanes look.
  struct Matrices {
    unsigned count = 1;
    std::vector<int32_t> bits;
    BufferOffsets offsets;
  };
  Matrices matricesOf(const ir::Layout &registers, const ir::Layout &buffer, unsigned elementBytes, const passes::BufferAccess &access);
  Regs loadMatrices(llvm::Value *pointer, unsigned count, bool transposed);
  void storeMatrices(llvm::Value *pointer, const Regs &units, bool transposed);
  // ---- emit_boxes.cpp
  void startCopiesBefore(ir::OpId dot); // that waited for its start
  void startCopies(ir::OpId last);
  std::string copyText(ir::OpId op, AssemblyOperands &operands);
  // ---- emit_messages.cpp
  llvm::Value *constantText(const std::string &text) override;
  void printLine(llvm::Value *format, Regs arguments, llvm::Value *predicate) override;
  // ---- emit_assembly.cpp
  // ---- emit_dot.cpp
  void waitForDots(int64_t left);
  friend class MatrixDot;

#define VENDORS(Name) void lower##Name(ir::OpId op) override;
#include "codegen/gpu/ops.def"

  llvm::Value *warpNumber(); // of the block, a producer's among them
  llvm::Value *isFirstWarp();
  // An intrinsic without operands: tid, ctaid, ...
  llvm::Value *specialRegister(llvm::Intrinsic::ID id);
  // ---- inline_assembly.cpp
  using Emitter::assembly;
  llvm::Type *assemblyRegister(ir::OpId op, const std::string &constraint, unsigned bits) override;
  // An access; its text may use scratch registers that no other text sees.
  llvm::Value *assembly(const std::string &text, const AssemblyOperands &operands, llvm::Type *result);
  void turnBarrier(const char *instruction, int32_t teamsOn); // of the team that is so many further on
  // ptr addrspace(3) as the i32 that instructions take.
  llvm::Value *sharedAddress(llvm::Value *pointer);

  NvidiaElementwise elements_{builder_, capabilityOf(target_)};
  const bool inCluster_; // its programs copy boxes for each other (passes/gpu/plan_cluster.h)
  // Of a tile that was read from a buffer by matrices: its 32-bit units, by their first register.
  std::map<uint32_t, std::map<int32_t, llvm::Value *>> units_;
};

} // namespace libtile::codegen::nvidia
