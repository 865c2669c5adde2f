// SPDX-License-Identifier: Apache-2.0
// One function of LLVM IR as PTX.
//
// A value is a register, or, of vectors and structs, one for each element; a vector of up to 64 bits may be one register as a
// whole. Either form is made from the other where it is asked for, and known to the end of that block.
#pragma once

#include "codegen/nvidia/ptx/patterns.h"
#include "codegen/nvidia/ptx/text.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/Twine.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/DebugLoc.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InstVisitor.h>

#include <string>
#include <utility>
#include <vector>

namespace libtile::codegen::nvidia::ptx {

using Operands = llvm::SmallVector<Operand, 4>;
[[nodiscard]] const char *moveOf(Size size); // "mov.b32 "

// The numbers of the source files that .loc names, from 1.
class SourceFiles {
public:
  unsigned numberOf(const llvm::DIFile *file);
  [[nodiscard]] std::string directives() const;

private:
  std::vector<std::string> paths_;
};

// Results of assembly that begin as an operand, each with the operand's place among the arguments.
[[nodiscard]] llvm::SmallVector<std::pair<unsigned, unsigned>, 8> tiedArguments(const llvm::CallInst &assembly);
// The name as PTX allows it.
[[nodiscard]] std::string nameOf(const llvm::GlobalValue &global);
[[nodiscard]] Size sizeOf(const llvm::Type *type); // of a register that holds it as a whole
[[nodiscard]] unsigned bitsOf(const llvm::Type *type);
[[nodiscard]] const char *floatName(const llvm::Type *type); // "f32"

class FunctionWriter : public llvm::InstVisitor<FunctionWriter> {
public:
  FunctionWriter(const llvm::Function &fn, SourceFiles &files);
  // What stands between the function's braces.
  [[nodiscard]] std::string body();

private:
  friend class llvm::InstVisitor<FunctionWriter>;
  static constexpr unsigned kEverywhere = 0; // blocks count from 1

  struct Held {
    Operand whole;
    int64_t bytes = 0; // an address: what is to be added to the register
    Operands elements;
    unsigned wholeIn = kEverywhere, elementsIn = kEverywhere; // the block where that form is known
  };

  // ---- function.cpp: blocks, values
  void findLive();
  void orderBlocks();
  void sink();
  [[nodiscard]] llvm::ArrayRef<const llvm::Instruction *> readersOf(const llvm::Value *value) const;
  [[nodiscard]] bool maySink(const llvm::Instruction &it) const;
  [[nodiscard]] const llvm::BasicBlock *sinkingPlace(const llvm::Instruction &it) const;
  [[nodiscard]] const llvm::BasicBlock *placeOf(const llvm::Instruction &it) const;
  void loadArguments();
  void block(const llvm::BasicBlock &block);
  void line(const llvm::Instruction &it);
  struct Copy {
    Operand target, source;
    friend bool operator==(const Copy &, const Copy &) = default;
  };
  using Copies = std::vector<Copy>;
  using Registers = llvm::DenseSet<std::pair<unsigned, uint64_t>>;
  static std::pair<unsigned, uint64_t> keyOf(Operand it) { return {static_cast<unsigned>(it.size), it.bits}; }
  static Registers targetsOf(const Copies &copies);
  Copies copiesBetween(const llvm::BasicBlock &from, const llvm::BasicBlock &to);
  Operand copied(Operand source);
  void copy(Copies copies);
  void jump(const llvm::BasicBlock &to);
  [[nodiscard]] std::string label(const llvm::BasicBlock &block) const;
  void visitBranchInst(llvm::BranchInst &it);
  void visitReturnInst(llvm::ReturnInst &it);
  void visitUnreachableInst(llvm::UnreachableInst &) { text_.line("trap"); }
  void visitPHINode(llvm::PHINode &) {}
  void visitInstruction(llvm::Instruction &it);

  // ---- phis.cpp: the registers of phis, of which some are those of other values
  void holdPhis();
  Operand registerOf(const llvm::PHINode &phi);
  void changeInPlace(const llvm::PHINode &phi);
  void selectInPlace(const llvm::Value &value, const llvm::PHINode &phi, const llvm::BasicBlock &other);
  [[nodiscard]] bool escapes(const llvm::Value &value, const llvm::DenseSet<const llvm::BasicBlock *> &blocks) const;
  [[nodiscard]] bool areAsOften(const llvm::Instruction &a, const llvm::Instruction &b) const;
  [[nodiscard]] const llvm::Value *ownResult(const llvm::CallInst &assembly, unsigned result) const;
  [[nodiscard]] const llvm::PHINode *phiFor(const llvm::CallInst &assembly, unsigned result, const llvm::Instruction &at) const;
  Operand placeOfResult(const llvm::CallInst &assembly, unsigned result, const llvm::Value *before);
  void wantInPlace(const llvm::CallInst &assembly, unsigned result, const llvm::Value &before);
  [[nodiscard]] bool isReadBefore(const llvm::PHINode &phi, const llvm::Instruction &at) const;
  [[nodiscard]] const llvm::PHINode *loopPhiLike(const llvm::PHINode &phi) const;

  // ---- values.cpp: registers of values, constants, vectors
  [[nodiscard]] bool known(unsigned in) const { return in == kEverywhere || in == here_; }
  Operand whole(const llvm::Value *value);                     // a scalar, or a vector of up to 64 bits
  Operand element(const llvm::Value *value, unsigned i);       // of a vector or struct
  Operand lane(const llvm::Value *value, unsigned i);          // of a vector the element, else the value
  Operand constant(const llvm::Constant *value);
  Operand addressOf(const llvm::Constant *value);
  // What the instruction makes of the operands, which has no effects: once in a block. Across blocks it would hold registers
  // for long, and the assembler decides that better.
  Operand made(Size size, const llvm::Twine &instruction, llvm::ArrayRef<Operand> operands);
  // The same in a register that has been another's until then.
  void makeIn(Operand place, const llvm::Instruction &it, const char *instruction, llvm::ArrayRef<Operand> operands);
  Operand inRegister(Operand operand);                         // numbers are moved into one
  Operand inRegister(const llvm::Value *value) { return inRegister(whole(value)); }
  Operand clean(Operand byte, bool isSigned);                  // 16 bits of the byte's value
  Operand word(Operand operand, unsigned bits, bool isSigned);  // 32 bits of the value of fewer
  Operand joined(llvm::ArrayRef<Operand> parts, unsigned bits); // of parts of so many bits each
  Operand joinedBytes(llvm::ArrayRef<Operand> bytes);
  Operands parted(Operand whole, unsigned bits, unsigned count);
  [[nodiscard]] Operand partedFrom(llvm::ArrayRef<Operand> parts, unsigned bits) const;
  void hold(const llvm::Instruction &it, Operand whole) { held_[&it].whole = whole; }
  void hold(const llvm::Instruction &it, Operands elements) { held_[&it].elements = std::move(elements); }
  // The result of each lane, of which a scalar has one.
  void byLanes(const llvm::Instruction &it, llvm::function_ref<Operand(unsigned)> compute);
  void visitBitCastInst(llvm::BitCastInst &it);
  void visitExtractElementInst(llvm::ExtractElementInst &it);
  void visitInsertElementInst(llvm::InsertElementInst &it);
  void visitShuffleVectorInst(llvm::ShuffleVectorInst &it);
  void visitExtractValueInst(llvm::ExtractValueInst &it);
  void visitFreezeInst(llvm::FreezeInst &it);

  // ---- arithmetic.cpp
  Operand binary(const llvm::BinaryOperator &it, unsigned i);
  Operand logic(unsigned opcode, Operand a, Operand b);
  Operand integers(unsigned opcode, unsigned bits, Operand a, Operand b);
  Operand simple(unsigned opcode, unsigned bits, Operand a, Operand b); // one instruction
  Operand floats(const llvm::BinaryOperator &it, unsigned i);
  Operand negated(Operand predicate);
  Operand selected(Operand on, Operand a, Operand b, const llvm::Type *type);
  Operand compared(const llvm::ICmpInst &it, unsigned i);
  void visitBinaryOperator(llvm::BinaryOperator &it);
  void visitUnaryOperator(llvm::UnaryOperator &it);
  void visitICmpInst(llvm::ICmpInst &it);
  void visitFCmpInst(llvm::FCmpInst &it);
  void visitSelectInst(llvm::SelectInst &it);

  // ---- division.cpp: by numbers, which the assembler divides by as by anything else
  Operand divided(bool isSigned, bool isRemainder, unsigned bits, Operand a, int64_t by);
  Operand quotient(unsigned bits, Operand a, uint64_t by);
  Operand signedQuotient(unsigned bits, Operand a, int64_t by);

  // ---- conversions.cpp
  Operand truncated(Operand from, unsigned fromBits, unsigned bits);
  Operand resized(Operand from, unsigned fromBits, unsigned bits); // cut off, or below zeros
  Operand generic(Operand address, unsigned space);
  Operand extended(Operand from, unsigned fromBits, unsigned bits, bool isSigned);
  Operand toInteger(Operand from, const llvm::Type *type, unsigned bits, bool isSigned);
  void visitTruncInst(llvm::TruncInst &it);
  void visitCastInst(llvm::CastInst &it);
  void visitAddrSpaceCastInst(llvm::AddrSpaceCastInst &it);

  // ---- memory.cpp
  std::string address(const llvm::Value *pointer, int64_t bytes); // "[%rd1+16]"
  Operand scaled(const llvm::Value *index, int64_t size);
  void sharedAddress(const llvm::GetElementPtrInst &it, const Distance &distance);
  void visitGetElementPtrInst(llvm::GetElementPtrInst &it);
  void visitLoadInst(llvm::LoadInst &it);
  void visitStoreInst(llvm::StoreInst &it);
  void visitAllocaInst(llvm::AllocaInst &it);

  // ---- calls.cpp
  void visitCallInst(llvm::CallInst &it);
  void assembly(const llvm::CallInst &it);
  void intrinsic(const llvm::IntrinsicInst &it);
  Operand function(const llvm::IntrinsicInst &it, unsigned i);
  Operand ofSingleBits(const llvm::IntrinsicInst &it, unsigned i);
  Operand bitFunction(const llvm::IntrinsicInst &it, unsigned i);
  void call(const llvm::CallInst &it);

  const llvm::Function &fn_;
  const llvm::DataLayout &layout_;
  SourceFiles &files_;
  Text text_;
  llvm::DenseMap<const llvm::Value *, Held> held_;
  llvm::DenseSet<const llvm::Value *> live_;
  // Who reads a value's registers: not each user, since patterns look through what stands between.
  llvm::DenseMap<const llvm::Value *, llvm::SmallVector<const llvm::Instruction *, 2>> readers_;
  // The registers that results of assembly are written to, by their place among its results: of phis that may have them so.
  llvm::DenseMap<std::pair<const llvm::Value *, unsigned>, Operand> inPlace_;
  llvm::DenseMap<const llvm::Value *, Operand> wanted_; // the registers that products and selected values are to be computed in
  // What is written at the beginning of another block than it stands in, last first; and where each of them is.
  llvm::DenseMap<const llvm::BasicBlock *, std::vector<const llvm::Instruction *>> sunk_;
  llvm::DenseMap<const llvm::Instruction *, const llvm::BasicBlock *> sunkTo_;
  std::vector<const llvm::BasicBlock *> order_;
  llvm::DenseMap<const llvm::BasicBlock *, unsigned> places_; // in the order, from 1
  unsigned here_ = kEverywhere, edges_ = 0; // the block that is written; ways out of blocks that have copies of their own
  llvm::StringMap<Operand> made_; // in this block, by instruction and operands
  // Where shared memory begins: once, since the machine computes it. And what registers of 64 bits were before they were extended.
  llvm::DenseMap<const llvm::GlobalValue *, Operand> bases_;
  llvm::DenseMap<std::pair<unsigned, uint64_t>, Operand> narrow_;
  // The registers that others were parted into: by that register its whole, and which part of it.
  struct Part {
    Operand whole;
    unsigned index, count, bits;
  };
  llvm::DenseMap<std::pair<unsigned, uint64_t>, Part> partOf_; // by keyOf
  llvm::DominatorTree dominators_;
  llvm::LoopInfo loops_;
  const llvm::BasicBlock *next_ = nullptr; // which the block that is being written falls into
  std::string locals_;                     // declarations of local memory
  unsigned numLocals_ = 0, calls_ = 0, statements_ = 0; // of local memory, calls, inline assembly
  std::pair<unsigned, std::pair<unsigned, unsigned>> place_; // file, line and column of the last .loc
};

} // namespace libtile::codegen::nvidia::ptx
