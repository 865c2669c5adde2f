// SPDX-License-Identifier: Apache-2.0
// A function of the nested stage as LLVM IR for a CPU.
//
// Idea: bodies of nests are scalar code on one element; this emitter runs them on `lanes` elements
// at once. Each value has a form: *uniform* (one LLVM scalar serves all lanes) or *varying* (a
// vector, one element a lane). Integers and pointers that grow by a constant from lane to lane have
// an *anchor* besides: the scalar that the value has where the lane index is 0. An address with an
// anchor and a stride of one element is a contiguous access at anchor + index; vectors of addresses
// are made only for gathers. (Whatever turns out unused is swept away at the end.)
//
// Scopes nest like the loops: arguments, program, each loop. A pure value is emitted in the
// outermost scope in which its operands exist, before the jump into the next scope: that hoists all
// that is invariant and has room. Reads leave a loop too if nothing in it writes that kind of memory;
// they never leave a branch or a loop of the kernel's own, which may not run at all.
//
// Lanes past the extent (the tail) compute on whatever is there, which no op minds, and touch no
// memory. The frame and the loop over programs are in entry.cpp, scopes and values in emitter.cpp.
#pragma once

#include "codegen/codegen.h"
#include "codegen/cpu/elementwise.h"
#include "codegen/cpu/forms.h"
#include "codegen/cpu/pieces.h"
#include "ir/target.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/Module.h>

#include <array>
#include <map>

namespace libtile::codegen::cpu {

// The kernel's symbol: no name of LLVM's intrinsics or of C's functions.
[[nodiscard]] std::string symbolOf(const ir::Function &fn);

class Emitter {
public:
  Emitter(const ir::Function &fn, const ir::Target &target, llvm::Module &module);
  // Adds the kernel (frame.h) to the module.
  void run();
  // Those of the code that run() made, as it numbers them.
  [[nodiscard]] const std::vector<CheckedAccess> &checkedAccesses() const { return accesses_; }
  [[nodiscard]] const std::vector<Message> &messages() const { return messages_; }

private:
  using Body = llvm::function_ref<void()>;
  using Values = std::vector<llvm::Value *>;

  const ir::Function &fn_;
  const ir::Target &target_;
  llvm::Module &module_;
  llvm::IRBuilder<> builder_;
  CpuElementwise elementwise_;
  llvm::Function *function_ = nullptr;
  llvm::Value *frame_ = nullptr;
  llvm::Value *status_ = nullptr; // the address of the launch's status word
  llvm::Value *arena_ = nullptr;
  llvm::BasicBlock *leave_ = nullptr; // returns in the midst of a program
  llvm::Value *program_[3] = {}, *grid_[3] = {};
  // By ValueId: what all lanes share, then what varies, a row for each vector of the group.
  std::vector<std::vector<Form>> forms_;
  std::vector<Scope> scopes_;
  Pieces pieces_;
  Group group_{Lanes()};
  Lanes lanes_; // the first of the group
  int numLanes_ = 0;
  std::vector<CheckedAccess> accesses_;
  std::map<uint32_t, uint32_t> accessOf_; // by OpId
  std::vector<Message> messages_;
  std::map<std::pair<llvm::Type *, size_t>, llvm::Value *> messageMemory_;
  std::map<int64_t, KnownArray> arrays_; // by parameter
  ir::IndexMap<ir::ValueId, Askers> askers_; // by what pointers begin at
  bool streams_ = false; // some store goes past the caches
  std::vector<Violation> violations_;
  llvm::BasicBlock *outOfBounds_ = nullptr; // where they meet

  // ---- entry.cpp: the function, the loop over programs
  // Loads a field of the frame, at the builder's place.
  llvm::Value *frameField(llvm::Type *type, size_t offset);
  void loadFrame();
  void emitPrograms(llvm::Value *first, llvm::Value *count);
  // Program indices, from one program to the next.
  std::array<llvm::Value *, 3> firstProgram(llvm::Value *first);
  std::array<llvm::Value *, 3> nextProgram();
  // Whether the launch's status is at least that: an i1.
  llvm::Value *statusIsFrom(uint32_t status);
  // The index of the running program in the grid, an i64.
  llvm::Value *programNumber();
  // Ends the launch, and jumps out of the program.
  void stopLaunch();
  // At the end of a loop's body: leaves the kernel if the launch is to end.
  void emitPoll();
  llvm::MDNode *unlikely();
  void sweep();

  // ---- emitter.cpp: scopes, values
  void emitBlock(ir::BlockId block);
  void emitOps(ir::OpId first, ir::OpId end);
  void emitOp(ir::OpId op);
  void emitPure(ir::OpId op);
  // The op's code in the scope of that depth, or in a deeper one, which `depth` is then, where many values
  // wait in front of it already.
  llvm::Value *emitHoisted(ir::OpId op, llvm::ArrayRef<llvm::Value *> operands, unsigned &depth);
  void emitConstant(ir::OpId op);
  void emitAlloc(ir::OpId op), emitBufferSlot(ir::OpId op), emitRecall(ir::OpId op), openArena(), clearLines(int64_t begin, int64_t bytes); // all in kept_buffers.cpp
  void openSums(), addSums(), addPiece(ir::OpId op, llvm::Value *index, unsigned lanes); // call_sums.cpp
  // A compare that is true below some lane index, where the loop may stop at that (nests.cpp).
  bool takenForTrue(ir::OpId op);
  // The affine half of a pure op's result, where there is one.
  void deriveAnchor(ir::OpId op, Form &form);

  [[nodiscard]] unsigned depth() const { return scopes_.size() - 1; }
  // Opens a scope: jumps from the current block into `entry` (a conditional jump is made by the
  // caller, which then passes it).
  void openScope(llvm::Instruction *jump, bool mayHoistOut, ir::Effects effects);
  void closeScope();
  // Those of the innermost scope, from the given one on.
  void forgetValues(size_t from = 0);
  // Runs `body` with the builder before the jump out of that scope.
  void atDepth(unsigned depth, Body body);
  llvm::BasicBlock *newBlock(const char *name);
  // if (cond) then(), at the builder's place; values through phis by the caller. Returns the block
  // in which `then` ended and that from which it was skipped.
  struct Joined {
    llvm::BasicBlock *taken, *skipped;
  };
  Joined branch(llvm::Value *cond, Body taken, Body skipped, llvm::MDNode *weights = nullptr);
  // What follows the builder's place, in a block of its own; the place is at the end of what was before.
  llvm::BasicBlock *splitHere();

  Form &define(ir::ValueId value, llvm::Value *exact, unsigned depth, bool varying);
  [[nodiscard]] bool isDefined(ir::ValueId value) const;
  [[nodiscard]] const Form &form(ir::ValueId value) const;
  [[nodiscard]] bool isVarying(ir::ValueId value) const;
  // The value in the form that `lanes` = 1 or lanes_.count asks for.
  llvm::Value *scalar(ir::ValueId value);
  llvm::Value *vector(ir::ValueId value);
  llvm::Value *inForm(ir::ValueId value, bool asVector) { return asVector ? vector(value) : scalar(value); }
  llvm::Value *splat(llvm::Value *value, unsigned lanes);
  // The value at lane index 0 and the scope of that.
  std::pair<llvm::Value *, unsigned> anchorOf(ir::ValueId value) const;
  [[nodiscard]] unsigned depthOf(ir::ValueId value) const { return form(value).depth; }
  llvm::Constant *iota(llvm::Type *integer);

  // ---- control.cpp
  void emitFor(ir::OpId op);
  // Which of the values that a `for` carries differ between lanes.
  std::vector<bool> carriedVarying(ir::OpId loop);
  // Values in the order of the slots; of a varying one there is one for each vector of the group.
  Values slotValues(std::span<const ir::ValueId> values, const std::vector<bool> &varying);
  void defineSlots(std::span<const ir::ValueId> values, const std::vector<bool> &varying, llvm::ArrayRef<llvm::Value *> made);
  Values emitForBody(ir::OpId op, const std::vector<bool> &varying);
  Values emitMaskedBody(const Limits &limits, llvm::Instruction *jump, Values full, ir::Effects effects, llvm::function_ref<Values()> body);
  void emitWhile(ir::OpId op);
  void emitIf(ir::OpId op);
  // Binds the yield's operands in the form that values carried here have.
  Values yielded(ir::BlockId block, unsigned skip);
  llvm::Type *carriedType(ir::ValueId value);
  llvm::Value *carriedIn(ir::ValueId value);
  [[nodiscard]] bool carriesVarying() const { return lanes_.id >= 0; }
  llvm::Value *uniformCondition(ir::ValueId value);

  // ---- nests.cpp
  // index = begin, begin + step, ... < end, at least once, in a scope; `carried` goes through phis.
  struct Range {
    int64_t begin, end, step;
    llvm::Value *below = nullptr; // an i64: steps that begin there need not run, and then perhaps none does
  };
  using LoopBody = llvm::function_ref<void(llvm::Value *index)>;
  using StepBody = llvm::function_ref<void(llvm::Value *index, unsigned copies, Limits *limits)>;
  void countedLoop(Range range, ir::Effects effects, Values &carried, LoopBody body);
  // index = 0, step, ... while compares are true in whole steps; then `rest` takes single vectors up to `full`, or to the
  // op's `end` if there is one. Where stores may go past the caches, `front` takes those in front of the limits' `begin`.
  void limitedLoop(Range range, int64_t full, llvm::Value *end, ir::OpId op, Values &carried, StepBody body, LoopBody rest, LoopBody front = {});
  llvm::Value *stepsBelow(const Limits &limits, int64_t last, int64_t step);
  llvm::Value *endOf(ir::OpId op, unsigned fromLast = 0);
  llvm::Value *restEnd(llvm::Value *end, int64_t full, int64_t lanes);
  void restLoop(llvm::Value *begin, llvm::Value *end, int64_t step, ir::Effects effects, Values &carried, LoopBody body);
  // `copies` vectors from index `base` on. Returns the group around, to be given to leaveLanes.
  Group enterLanes(unsigned count, unsigned valid, llvm::Value *base, unsigned copies = 1, Limits *limits = nullptr, int64_t run = 0, llvm::Value *on = nullptr, bool isRest = false);
  void leaveLanes(Group outer);
  // With each vector of the group alone, one after the other.
  void eachVector(llvm::function_ref<void(unsigned copy)> body);
  void bindIndex(ir::ValueId argument, llvm::Value *index);
  void bindLaneIndex(ir::ValueId argument);
  void emitNestOp(ir::OpId op);
  void emitNestAxis(ir::OpId op, unsigned axis);
  void emitNestLanes(ir::OpId op);

  // ---- folds.cpp
  FoldPlan planFold(ir::OpId op);
  void emitFold(ir::OpId op);
  Values foldAll(const FoldPlan &plan), foldNumbers(const FoldPlan &plan);
  void foldSteps(const FoldPlan &plan, Range range, unsigned copies, unsigned valid, bool first, Values &accumulators);
  void foldStep(const FoldPlan &plan, llvm::Value *index, unsigned copies, unsigned valid, llvm::Value *isFirst, Values &accumulators, Limits *limits = nullptr);
  // Of several vectors or sets, one behind the other, until `sets` are left.
  Values combinePairs(const FoldPlan &plan, Values values, size_t sets);
  void accumulate(const FoldPlan &plan, unsigned valid, llvm::Value *isFirst, llvm::ArrayRef<llvm::Value *> elements,
                  llvm::MutableArrayRef<llvm::Value *> accumulators);
  void foldWithinLimits(const FoldPlan &plan, int64_t unrolled, int64_t full, Values &accumulators);
  Values combine(ir::OpId fold, llvm::ArrayRef<llvm::Value *> left, llvm::ArrayRef<llvm::Value *> right), combined(const FoldPlan &plan, llvm::ArrayRef<llvm::Value *> left, llvm::ArrayRef<llvm::Value *> right);
  // Folds the lanes of each value, of which `valid` hold something.
  void combineLanes(const FoldPlan &plan, Values &values, unsigned lanes, int64_t valid);
  std::vector<llvm::Constant *> neutrals(ir::OpId fold);

  // ---- prefixes.cpp, sort_rows.cpp, transpose_words.cpp
  void emitPrefix(ir::OpId op);
  void emitSortRows(ir::OpId op), emitLeastOfRows(ir::OpId op), emitTransposeWords(ir::OpId op);
  void prefixStep(ir::OpId op, llvm::Value *index, unsigned lanes, unsigned valid, llvm::Value *isFirst, Values &carried);
  // Each lane combined with all that come before it in the vector.
  Values scanLanes(ir::OpId op, Values values, unsigned lanes, unsigned valid);

  // ---- memory.cpp
  void emitLoad(ir::OpId op);
  void emitStore(ir::OpId op);
  void emitElementRead(ir::OpId op);
  void emitElementWrite(ir::OpId op);
  Address addressOf(ir::ValueId pointer, const ir::Type &pointee);
  Address elementAddress(ir::ValueId buffer, std::span<const ir::ValueId> indices);
  // Scope to which a read with operands of that depth may go.
  [[nodiscard]] unsigned readDepth(unsigned depth, bool global) const;
  // Lanes that may touch memory: the user's mask and the tail's; null: all.
  llvm::Value *laneMask(llvm::Value *mask);
  [[nodiscard]] bool needsMask() const { return lanes_.valid < lanes_.count || lanes_.on != nullptr; }
  llvm::Value *readScalar(const ir::Type &type, llvm::Value *pointer, llvm::Value *mask, llvm::Value *other, bool isVolatile);
  llvm::Value *readVector(const ir::Type &type, const Address &address, llvm::Value *mask, llvm::Value *other);
  llvm::Value *readContiguous(llvm::Type *type, llvm::Value *pointer, llvm::Align align, llvm::Value *mask, llvm::Value *other);
  void write(const ir::Type &type, const Address &address, llvm::Value *value, llvm::Value *mask, bool asVector, bool isVolatile);
  llvm::Value *gather(llvm::Type *type, llvm::Value *pointers, llvm::Align align, llvm::Value *mask, llvm::Value *other), *readSteps(llvm::Type *type, const Address &address, llvm::Align align);
  void scatter(llvm::Value *value, llvm::Value *pointers, llvm::Align align, llvm::Value *mask);
  void writeContiguous(llvm::Value *value, llvm::Value *pointer, llvm::Align align, llvm::Value *mask);
  llvm::Value *allOf(llvm::Value *mask), *harmlessPointer();

  // ---- ask_ahead.cpp
  void findAskers(), askFor(llvm::Value *address, bool forWriting, bool isNear = true), askForSharedLine(llvm::Value *place);
  // By how much a value is more in the loop's next iteration, or no loop: in the next program, an i64 (of a pointer: bytes); null: not known.
  llvm::Value *advanceOf(ir::ValueId value, ir::OpId loop), *runsAgain(ir::OpId loop), *distanceAhead(ir::ValueId pointer, int64_t bytes);
  // Of an access that goes through memory step by step: asks for what comes next.
  void fetchAhead(ir::ValueId pointer, const ir::Type &type, const Address &address, bool forWriting);

  // ---- streams.cpp
  llvm::Value *writesMuch(ir::ValueId pointer, int64_t bytes);
  llvm::Value *storesPastCaches(ir::OpId op, const ir::Type &type);
  llvm::Value *streamEnd(ir::OpId nest, const Limits &limits, llvm::Value *stop, llvm::Value *end), *nextRow(ir::ValueId pointer, ir::OpId nest);

  // ---- bounds.cpp
  // In front of an access of the lanes that `mask` has on (null: all): leaves the program if one of them
  // is out of bounds. Nothing where the op's arrays are not known.
  void checkAccess(ir::OpId op, const Address &address, llvm::Value *mask, bool asVector);
  void checkScalar(ir::OpId op, llvm::Value *pointer, llvm::Value *mask);
  void checkLanes(ir::OpId op, llvm::Value *addresses, llvm::Value *mask);
  void checkRow(ir::OpId op, llvm::Value *first, llvm::Value *mask); // lanes side by side
  KnownArray &arrayOf(int64_t parameter);
  llvm::Value *unknownExtent();
  llvm::Value *roomOf(KnownArray &array, int64_t bytes);
  // Whether so many bytes from the address on (i64, or a vector of them) lie in none of the op's arrays.
  llvm::Value *isOutside(ir::OpId op, llvm::Value *address, int64_t bytes);
  void leaveIf(llvm::Value *cond, ir::OpId op, unsigned elements, llvm::function_ref<llvm::Value *()> address);
  void emitOutOfBounds();
  uint32_t numberOf(ir::OpId op);

  // ---- messages.cpp
  void emitPrint(ir::OpId op);
  void emitAssert(ir::OpId op);
  llvm::Value *messageMemory(llvm::Type *type, size_t number);
  // Calls the frame's message(), if there is one, with a record of these addresses.
  void tell(uint32_t kind, Message message, llvm::ArrayRef<llvm::Value *> operands);

  // ---- atomics.cpp
  void emitAtomicRmw(ir::OpId op);
  void emitAtomicCas(ir::OpId op);
  // One lane's operation, given its scalar operands; masked by a branch.
  using LaneOp = llvm::function_ref<llvm::Value *(llvm::ArrayRef<llvm::Value *>)>;
  void eachLane(ir::OpId op, ir::ValueId mask, unsigned numOperands, LaneOp body);
  llvm::Value *atomicRmw(ir::OpId op, llvm::Value *pointer, llvm::Value *value);
  llvm::Value *mayGoWide(ir::OpId op);
  void emitAtomicLoad(ir::OpId op);
  void emitAtomicStore(ir::OpId op);
  llvm::Value *narrowAtomicAdd(ir::Elem elem, llvm::Value *pointer, llvm::Value *value, llvm::AtomicOrdering order);

  // ---- contract.cpp, contract_tiles.cpp, tiny_numbers.cpp
  void emitContract(ir::OpId op);
  void contractParts(const Contraction &whole, llvm::Value *rows, llvm::Value *direct, const ir::ContractUnit &unit), contractColumns(Contraction plan, const ir::ContractUnit &unit);
  void contractRows(const Contraction &plan, llvm::Value *n);
  llvm::SmallVector<llvm::Value *, 6> startsOfA(const Contraction &plan, llvm::Value *m), biasSums(const Contraction &plan, int32_t bias, llvm::Value *n);
  void contractBlock(const Contraction &plan, llvm::Value *m, llvm::Value *n), askAhead(const Contraction &plan, llvm::Value *m, llvm::Value *n), askForColumns(const Contraction &plan, llvm::Value *m, llvm::Value *n);
  void contractLoop(const Contraction &plan, llvm::ArrayRef<llvm::Value *> startsOfA, llvm::Value *startB, Values &sums);
  void contractStep(const Contraction &plan, llvm::function_ref<llvm::Value *(unsigned row)> placeInA, llvm::Value *rowOfB, llvm::Value *shift, Values &sums);
  void withTiles(const Contraction &plan, llvm::function_ref<void()> body);
  void contractTiles(const Contraction &plan, llvm::Value *m, llvm::Value *n), evenTiles(const Contraction &plan);
  llvm::SmallVector<TilePlace, 4> tilesOfA(const Contraction &plan, llvm::Value *m);
  // Whether a unit that flushes gives what one that does not would: an i1, for a block of columns.
  llvm::Value *nothingToFlush(const Contraction &plan, llvm::Value *leastOfA, llvm::Value *n), *rowsOf(const Contraction &plan), *packedRow(const Contraction &plan, llvm::Value *m), *packRow(const Contraction &plan, llvm::Value *m), *biasWord(const Contraction &plan, int32_t bias);
  llvm::Value *leastFieldOfA(const Contraction &plan), *leastField(llvm::Value *least), *openFindings(ir::OpId op, unsigned operand), *fieldOf(llvm::Value *table, llvm::Value *field), *known(llvm::Value *place, llvm::Value *isKnown, llvm::function_ref<llvm::Value *()> find);
  llvm::Value *leastOfPanel(const Contraction &plan, const Panel &panel, llvm::Value *least);
  void takeFindings(Contraction &plan, llvm::Value *turn), compareFindings(Contraction &plan);
};

} // namespace libtile::codegen::cpu
