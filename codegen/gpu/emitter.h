// SPDX-License-Identifier: Apache-2.0
// A staged function as LLVM IR for one kernel: every thread runs the same code over its registers. What the GPUs of all
// vendors share; where they differ, a vendor's emitter derives from this one (codegen/nvidia/nvidia_emitter.h).
//
// What a value is here
//   scalar   one LLVM value, the same in every thread of the program
//   tile     one LLVM value for each register of its layout (layout.size(HwDim::Reg)), in the forms
//            of codegen/emit_elementwise.h; pointers are ptr addrspace(1). Registers in the padding
//            and replicas hold anything that is not poison. Pointers into one array are a
//            TileAddress instead, and have registers only if an op asks for them.
//   buffer   one LLVM value: ptr addrspace(3) to its first byte in dynamic shared memory
//   place    nothing: registers that the vendor's text declares and names
//   token    nothing
//
// Control flow is uniform: conditions are scalars. Every op that is legal in the staged stage and not elementwise is a
// row of gpu/ops.def: ours has a member lower<Name> in emit_<family>.cpp, of the others each vendor has one.
#pragma once

#include "codegen/codegen.h"
#include "codegen/gpu/elementwise.h"
#include "codegen/gpu/lanes.h"
#include "codegen/gpu/line_table.h"
#include "codegen/gpu/tile_addresses.h"
#include "passes/analysis/facts.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <functional>
#include <map>
#include <vector>

namespace libtile {
namespace ir { enum class MemOrder : uint8_t; } // ir/ops.h
namespace passes { struct BufferAccess; struct Conversion; }
} // namespace libtile

namespace libtile::codegen::gpu {

using Regs = std::vector<llvm::Value *>;

// Registers of one access, in address order; all in one thread.
using RegGroup = llvm::SmallVector<int32_t, 8>;
// The byte of an i32.
struct WordByte {
  llvm::Value *word = nullptr;
  unsigned byte = 0;
};

class Emitter {
public:
  Emitter(const Emitter &) = delete;
  Emitter &operator=(const Emitter &) = delete;
  // Adds the kernel to the module.
  void run(const std::string &symbol);

protected:
  // `elementwise` is the vendor's, a member of the derived class.
  Emitter(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, llvm::Module &module,
          GpuElementwise &elementwise);
  virtual ~Emitter() = default;

  // ---- what a vendor's emitter has
  // Calling convention and attributes of the kernel, and of its parameters: an argument each, then a tensor map each.
  virtual void markKernel() = 0;
  virtual llvm::Value *threadIndex() = 0; // i32, in the program; next, along an axis of the grid
  virtual llvm::Value *programIndex(int64_t axis) = 0;
  virtual llvm::Value *programCount(int64_t axis) = 0;
  virtual llvm::Value *clock() = 0;  // i64, nanoseconds
  virtual void barrier() = 0;        // of all threads of the program; a producer is none of them
  virtual void warpBarrier() = 0;    // what follows may need all threads of the warp at once
  virtual void endIteration(ir::OpId) {} // of a loop, in front of the branch back
  virtual llvm::Value *shuffleWord(llvm::Value *word, const LaneExchange &exchange) = 0; // an i32
  // The word, of which neither LLVM nor an assembler behind it knows that it is the same.
  virtual llvm::Value *holdWord(llvm::Value *word) = 0; // an i32
  // Neighbouring lanes within which a shift is cheap: a scan joins rows of so many by their last lanes.
  [[nodiscard]] virtual int32_t laneRow() const { return target_.warpSize; }
  // Of the register of the user's assembly that a constraint names, for a word of so many bits. Throws where none holds it.
  virtual llvm::Type *assemblyRegister(ir::OpId op, const std::string &constraint, unsigned bits) = 0;
  // Registers of accesses to global memory (accessGroups); null: always on. With branchesOnMasks as many accesses as have one mask.
  [[nodiscard]] virtual bool branchesOnMasks() const { return false; }
  virtual Regs loadGroups(ir::OpId op, llvm::ArrayRef<RegGroup> groups, llvm::ArrayRef<AccessAddress> from, llvm::Value *on) = 0;
  virtual void storeGroup(ir::OpId op, const RegGroup &group, const AccessAddress &to, llvm::Value *on) = 0;
  // One element: the address, then values. The old value, 0 where off; null if nobody wants it.
  virtual llvm::Value *atomic(ir::OpId op, ir::MemOrder sem, const ir::Type &type, llvm::ArrayRef<llvm::Value *> operands,
                              llvm::Value *predicate, bool wantsOld) = 0;
  [[nodiscard]] virtual bool addsNeighbours(ir::OpId op) const = 0; // may it: in memory at once, each for itself
  virtual void addNeighbours(ir::OpId op, ir::MemOrder sem, const RegGroup &group, llvm::Value *predicate) = 0;
  // In the scope of the op; by the threads of the predicate, null: by all.
  virtual void fence(ir::OpId op, llvm::Value *predicate) = 0;
  // Shared memory: words that lie side by side, where the predicate holds; 1 added to a u32, null: always; what threads
  // wrote is seen by units that read by themselves; a tile by instructions that read, or write, matrices (AccessKind::Matrix).
  virtual void storeWords(llvm::Value *pointer, const Regs &words, unsigned wordBytes, llvm::Value *predicate) = 0;
  virtual void countShared(llvm::Value *pointer, llvm::Value *predicate) = 0;
  virtual void publish() = 0;
  // Bytes of shared memory that the code asks for itself; 0: the launch gives it.
  [[nodiscard]] virtual int64_t sharedExtent() const = 0;
  virtual void readMatrices(ir::OpId op, const passes::BufferAccess &access) = 0;
  virtual void writeMatrices(ir::OpId op, const passes::BufferAccess &access); // where the target does (SharedReads::writesMatrices)
  // A word of four bytes that lie in other words; null: what a vector of bytes comes to is no slower.
  virtual llvm::Value *joinBytes(const std::array<WordByte, 4> &bytes);
  // printf by the threads for which the predicate holds; the format is a text of ours.
  virtual llvm::Value *constantText(const std::string &text) = 0;
  virtual void printLine(llvm::Value *format, Regs arguments, llvm::Value *predicate) = 0;

  // ---- emitter.cpp: frame and values
  void declareKernel(const std::string &symbol);
  void emitBlock(ir::BlockId block);
  void emitOp(ir::OpId op);
  // ---- elementwise_runs.cpp
  friend class ElementwiseRun;
  // A call in machine code: across it every element that is under way needs registers.
  [[nodiscard]] bool isCall(ir::OpId op) const;
  void elementwise(ir::OpId op);
  // Some registers of the result, which has room for all; `alike` are its equalRegisters.
  void elementwise(ir::OpId op, size_t first, size_t end, int32_t alike, const Regs &dividends);
  void pairs(ir::OpId op, size_t first, size_t end); // an op that takes two registers at once
  void hold(ir::OpId op, size_t first, size_t end); // registers of a tile whose result has room for all
  [[nodiscard]] llvm::Value *oneDivisor(ir::OpId op);
  // A division of many registers by one float: its dividends, which are multiplied by the reciprocal; of
  // other ops nothing.
  Regs shareDivisor(ir::OpId op);
  llvm::Value *element(ir::OpId op, size_t r, const Regs &dividends);
  // Of a mask: bits of the register's number that do not change the element, because all elements
  // of every aligned group along an axis are equal. 0 for other values.
  [[nodiscard]] int32_t equalRegisters(ir::ValueId value) const;
  // Where the builder stands: those of index and pointer tiles are made when they are asked for.
  const Regs &regs(ir::ValueId value);
  // These stand in front, in this block.
  [[nodiscard]] bool isMadeHere(ir::ValueId value) const;
  // One of them; of an index tile without the others.
  llvm::Value *registerOf(ir::ValueId value, size_t r);
  [[nodiscard]] llvm::Value *scalar(ir::ValueId value) const {
    return values_[value.index].front();
  }
  void set(ir::ValueId value, Regs regs) { values_[value.index] = std::move(regs); }
  void set(ir::ValueId value, llvm::Value *scalar) { values_[value.index] = {scalar}; }
  // Registers that a value has: of its layout, or 1; 0 for a place or token.
  [[nodiscard]] unsigned numRegs(ir::ValueId value) const;
  [[nodiscard]] const ir::Layout &layoutOf(ir::ValueId value) const {
    return fn_.layout(fn_.type(value).layout());
  }
  [[nodiscard]] llvm::Type *registerType(ir::ValueId value) const;
  [[nodiscard]] llvm::ConstantInt *i32(int64_t value) {
    return builder_.getInt32(static_cast<uint32_t>(value));
  }

  // ---- thread_coordinates.cpp: where this thread's registers lie
  // A linear map over F2: XOR of outputs[i] over the set bits i of the source.
  llvm::Value *linear(llvm::Value *source, std::span<const int32_t> outputs);
  // Coordinate along the axis that lane and warp contribute; made in the kernel's first block.
  llvm::Value *threadCoord(const ir::Layout &layout, unsigned axis);
  // Coordinate of the register's element.
  llvm::Value *coord(const ir::Layout &layout, int32_t reg, unsigned axis);
  // Bits of that coordinate.
  static int32_t threadBits(const ir::Layout &layout, unsigned axis);
  // The register's element lies in the tile; null: always. `false` where it never does.
  llvm::Value *inTile(const ir::Type &tile, int32_t reg);
  // This thread holds the canonical replica of what it holds; null: every thread does.
  llvm::Value *isCanonicalThread(const ir::Layout &layout);
  // The lowest register with the same element on every thread (zero bases), itself if none.
  [[nodiscard]] static int32_t firstReplica(const ir::Layout &layout, int32_t reg);
  // What `make` makes of this thread, once and in the prologue; known by the key from then on.
  llvm::Value *inPrologue(const std::string &key, const std::function<llvm::Value *()> &make);
  llvm::Value *isFirstThread(); // this is thread 0
  llvm::Value *both(llvm::Value *a, llvm::Value *b); // a && b, where null is true

  // ---- words.cpp
  // Dynamic shared memory of the program, ptr addrspace(3).
  llvm::Value *sharedBase();
  // Elements (register form) as `count` words of `wordBytes`, and back.
  // What has been a vector before is that vector.
  llvm::Value *vectorOf(llvm::ArrayRef<llvm::Value *> parts);
  Regs packWords(const ir::Type &type, llvm::ArrayRef<llvm::Value *> elements, unsigned wordBytes);
  Regs unpackWords(const ir::Type &type, llvm::ArrayRef<llvm::Value *> words, unsigned wordBytes, unsigned count);

  // ---- tile_addresses.cpp
  // Makes the TileAddress of the op's result, a pointer tile; false: it has none.
  bool addressOp(ir::OpId op);
  // The same for TileIndices.
  bool indexOp(ir::OpId op);
  std::optional<TileIndices> indicesOf(ir::OpId op, size_t registers);
  std::optional<TileIndices> coordinates(ir::OpId op); // of an arange
  TileIndices addIndices(const TileIndices &a, const TileIndices &b, bool negative);
  llvm::Value *indexAt(ir::ValueId value, const TileIndices &indices, size_t reg);
  friend class OffsetSum;
  friend class AccessAddresses;

  // ---- emit_memory.cpp
  // Registers of a pointer tile that one access can take together, given what facts say of the
  // addresses and the mask (may be invalid). Registers outside of the tile and second replicas are
  // in no group.
  std::vector<RegGroup> accessGroups(ir::ValueId pointer, ir::ValueId mask, unsigned elementBytes);
  // The widest access along the axis; `bits` gets the register bits that count its elements.
  void vectorAlong(ir::ValueId pointer, ir::ValueId mask, unsigned axis, unsigned elementBytes,
                   RegGroup &bits) const;
  // ---- emit_atomic.cpp
  // The first operands, the pointer among them, are values; the next one is the mask.
  void lowerAtomic(ir::OpId op, unsigned numValues);
  // The scalar that thread 0 has, in every thread (passes/gpu/shared_accesses.h: tellsOthers).
  llvm::Value *tellOthers(ir::OpId op, llvm::Value *value);
  // ---- emit_control.cpp
  [[nodiscard]] bool isCarriedByWords(ir::ValueId value) const;
  Regs carried(std::span<const ir::ValueId> values);
  Regs phis(llvm::ArrayRef<llvm::Value *> incoming, llvm::BasicBlock *from);
  void bind(std::span<const ir::ValueId> values, llvm::ArrayRef<llvm::Value *> flat);
  void addIncoming(llvm::ArrayRef<llvm::Value *> phis, llvm::ArrayRef<llvm::Value *> values,
                   llvm::BasicBlock *from);
  llvm::BasicBlock *newBlock(const char *name);
  // ---- emit_shape.cpp
  void renameRegisters(ir::OpId op);
  llvm::Value *gridExtent(int64_t axis);

  // ---- buffer_addresses.cpp, emit_buffers.cpp
  // Where the registers of a layout lie in a buffer: byte offset = (the thread's part, one value made in
  // the prologue) XOR a constant + a constant.
  struct BufferOffsets {
    llvm::Value *thread = nullptr;
    int32_t threadBits = 0;            // that `thread` may have set
    std::vector<int32_t> inner, outer; // of each register: XORed, added; bytes
    // Pointers that an access has made, by what was XORed.
    std::map<int32_t, llvm::Value *> made;
  };
  BufferOffsets bufferOffsets(const ir::Layout &registers, const ir::Layout &buffer, unsigned elementBytes);
  // The same with other bits of the lane: columns of the lane's bits, in elements.
  BufferOffsets bufferOffsets(const ir::Layout &registers, const ir::Layout &buffer, unsigned elementBytes, std::span<const int32_t> laneColumns);
  // Address of the register's element: ptr addrspace(3), and bytes to add.
  std::pair<llvm::Value *, int32_t> bufferAddress(llvm::Value *buffer, BufferOffsets &offsets, int32_t reg);
  // The same as one pointer.
  llvm::Value *bufferPointer(llvm::Value *buffer, BufferOffsets &offsets, int32_t reg);
  // Addresses of a tile's elements in a buffer, by their register; in the padding, where it has no place of its own
  // (flat_buffers.h), any address of the buffer.
  std::function<llvm::Value *(int32_t)> elementAddresses(const ir::Type &tile, ir::ValueId buffer);
  llvm::Value *flatIndex(const ir::Type &tile, int32_t reg);
  // Address of the element at a row-major index of a buffer with one axis.
  llvm::Value *flatAddress(ir::ValueId buffer, llvm::Value *index);
  void readVectors(ir::OpId op, const std::vector<int32_t> &bits);
  void writeVectors(ir::OpId op);
  // Registers that have none of the bits, each with the group that counts through the bits.
  static std::vector<RegGroup> groupsOf(int32_t registers, std::span<const int32_t> bits);
  llvm::Value *loadShared(const ir::Type &element, llvm::Value *pointer);
  void storeShared(const ir::Type &element, llvm::Value *value, llvm::Value *pointer);
  void storeShared(const ir::Type &element, llvm::ArrayRef<llvm::Value *> elements, llvm::Value *pointer, llvm::Value *predicate); // neighbours; null: always
  // ---- emit_convert.cpp: the value of another lane
  llvm::Value *shuffle(const ir::Type &element, llvm::Value *value, const LaneExchange &exchange);
  Regs exchangeRegisters(const ir::Type &element, const Regs &from, const passes::Conversion &plan);
  Regs shuffleRegisters(const ir::Type &element, const Regs &from, const passes::Conversion &plan);
  // ---- emit_messages.cpp
  Regs programIndices();
  void printElements(ir::ValueId value, const ir::PrintFormat &format, const std::string &text);
  // ---- emit_map.cpp
  Regs mapElement(ir::OpId op, llvm::Value *predicate);
  std::vector<Regs> mapEach(ir::OpId op, bool parts), mapInLoop(ir::OpId op, bool parts);
  // ---- emit_gather.cpp
  llvm::Value *gatheredIndex(ir::OpId op, int32_t reg);
  // ---- combine.cpp, emit_reduce.cpp, emit_scan.cpp
  friend class CombineEmitter;
  friend class ReduceEmitter;
  friend class ScanEmitter;
  // ---- emit_assembly.cpp
  friend class AssemblyEmitter;
  // Several results are a struct. `effects`: keeps its place among accesses; `convergent`: all threads of the warp run it.
  llvm::Value *assembly(const std::string &text, const std::string &constraints, llvm::Type *result,
                        llvm::ArrayRef<llvm::Value *> operands, bool effects, bool convergent = false);
  // ---- emit_multiply_add.cpp
  void multiplyAddDot(ir::OpId op);
  friend class MultiplyAddDot;
  friend class FragmentDot;

  // lower<Name> of the opcode, for rows of gpu/ops.def.
  template <ir::Opcode opcode> void lowerOp(ir::OpId op);
#define OURS(Name) void lower##Name(ir::OpId op);
#define VENDORS(Name) virtual void lower##Name(ir::OpId op) = 0;
#include "codegen/gpu/ops.def"

  const ir::Function &fn_;
  const ir::Target &target_;
  const CodeOptions &options_;
  llvm::Module &module_;
  llvm::LLVMContext &context_;
  llvm::IRBuilder<> builder_;
  GpuElementwise &elementwise_;
  std::optional<LineTable> lines_; // with the option
  passes::Facts facts_;
  llvm::Function *kernel_ = nullptr;
  llvm::BasicBlock *prologue_ = nullptr; // ends in a branch to the body
  llvm::Value *thread_ = nullptr;        // i32
  llvm::Value *lane_ = nullptr;          // i32
  llvm::Value *warp_ = nullptr;          // i32
  std::vector<Regs> values_;
  std::map<uint32_t, TileAddress> addresses_; // of pointer tiles, by value
  std::map<uint32_t, TileIndices> indices_;   // of index tiles, by value
  std::map<uint32_t, llvm::BasicBlock *> madeIn_; // where the registers of these were made last
  std::map<std::string, llvm::Value *> threadValues_; // of this thread, made in the prologue, by text
  int64_t registers_; // of 32 bits, that a thread has
  bool contracts_; // a product may be fused with the sum that it goes into
};

} // namespace libtile::codegen::gpu
