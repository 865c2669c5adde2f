// SPDX-License-Identifier: Apache-2.0
// A staged function as LLVM IR for AMD's GPUs: what codegen/gpu/emitter.h leaves to a vendor. A warp is a wave of the target's
// 32 or 64 lanes. What is masked off is branched around, since an access has no predicate.
#pragma once

#include "codegen/amd/elementwise.h"
#include "codegen/amd/lane_moves.h"
#include "codegen/gpu/emitter.h"

#include <functional>

namespace libtile::codegen::amd {

using gpu::AccessAddress;
using gpu::RegGroup;
using gpu::Regs;

class AmdEmitter final : public gpu::Emitter {
public:
  AmdEmitter(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, llvm::Module &module);

  // What the kernel may say, by number.
  [[nodiscard]] const std::vector<DeviceLine> &records() const { return records_; }

  // When all is emitted: tells LLVM that no read of LDS meets a copy that is under way (emit_copies.cpp).
  void separateReads();

private:
  friend class MatrixDot;
  void markKernel() override;
  [[nodiscard]] int32_t leastWaves() const;
  llvm::Value *threadIndex() override;
  llvm::Value *programIndex(int64_t axis) override;
  llvm::Value *programCount(int64_t axis) override;
  llvm::Value *clock() override;
  void barrier() override;
  void warpBarrier() override;
  void endIteration(ir::OpId loop) override;
  llvm::Value *holdWord(llvm::Value *word) override;
  // ---- emit_lanes.cpp
  llvm::Value *shuffleWord(llvm::Value *word, const gpu::LaneExchange &exchange) override;
  [[nodiscard]] int32_t laneRow() const override;
  llvm::Value *moveWord(llvm::Value *word, const LaneMove &move);
  llvm::Function *wordIntrinsic(llvm::Intrinsic::ID id); // for words of 32 bits
  // ----
  llvm::Type *assemblyRegister(ir::OpId op, const std::string &constraint, unsigned bits) override;
  [[nodiscard]] int64_t sharedExtent() const override;
  // ---- emit_accesses.cpp
  [[nodiscard]] bool branchesOnMasks() const override { return true; }
  Regs loadGroups(ir::OpId op, llvm::ArrayRef<RegGroup> groups, llvm::ArrayRef<AccessAddress> from, llvm::Value *on) override;
  Regs otherWords(ir::OpId op, const RegGroup &group, unsigned bytes);
  void storeGroup(ir::OpId op, const RegGroup &group, const AccessAddress &to, llvm::Value *on) override;
  void storeWords(llvm::Value *pointer, const Regs &words, unsigned wordBytes, llvm::Value *predicate) override;
  void countShared(llvm::Value *pointer, llvm::Value *predicate) override;
  llvm::Value *atomic(ir::OpId op, ir::MemOrder sem, const ir::Type &type, llvm::ArrayRef<llvm::Value *> operands,
                      llvm::Value *predicate, bool wantsOld) override;
  [[nodiscard]] bool addsNeighbours(ir::OpId op) const override;
  void addNeighbours(ir::OpId op, ir::MemOrder sem, const RegGroup &group, llvm::Value *predicate) override;
  void fence(ir::OpId op, llvm::Value *predicate) override;
  void publish() override;
  void readMatrices(ir::OpId op, const passes::BufferAccess &access) override;
  llvm::Value *joinBytes(const std::array<gpu::WordByte, 4> &bytes) override;
  // ---- emit_copies.cpp
  llvm::MDNode *copied();
  void copyByRegisters(ir::OpId op, const std::vector<RegGroup> &groups);
  // ---- emit_masked.cpp
  struct BufferPlace {
    llvm::Value *resource, *offset;
  };
  // Of the register's element, out of bounds where the mask is off; nullopt: always on, or not within 31 bits of one base.
  std::optional<BufferPlace> bufferPlace(ir::OpId op, int32_t reg, llvm::Value *on);
  llvm::Value *uniformPointer(const passes::AffineForm &form);
  llvm::Value *bufferAt(llvm::Value *pointer);
  llvm::Value *loadBuffer(const BufferPlace &from, llvm::Type *type);
  void storeBuffer(const BufferPlace &to, llvm::Value *value);
  // ---- emit_records.cpp
  llvm::Value *constantText(const std::string &text) override; // its number
  void printLine(llvm::Value *line, Regs arguments, llvm::Value *predicate) override;
  llvm::GlobalVariable *recordsVariable();
  void appendRecord(llvm::Value *line, llvm::ArrayRef<llvm::Value *> arguments);

#define VENDORS(Name) void lower##Name(ir::OpId op) override;
#include "codegen/gpu/ops.def"

  // What `then` computes where the predicate holds, else the values of `otherwise`; null: always.
  Regs where(llvm::Value *predicate, const Regs &otherwise, const std::function<Regs()> &then);
  // Address of an access, as one pointer.
  llvm::Value *pointerOf(const AccessAddress &address);
  [[nodiscard]] llvm::SyncScope::ID scopeOf(ir::OpId op) const;
  // Volatile, of a cache level, or atomic in its scope, as the op's attributes say; whether they do.
  [[nodiscard]] bool isMarked(ir::OpId op) const;
  template <class Access> Access *marked(ir::OpId op, Access *access) const;
  [[noreturn]] void unsupported(ir::OpId op) const;

  AmdElementwise elements_{builder_};
  std::vector<DeviceLine> records_;
  llvm::MDNode *copied_ = nullptr; // what copies to LDS write, as a scope of aliases; null: there are none yet
};

} // namespace libtile::codegen::amd
