// SPDX-License-Identifier: Apache-2.0
// A kernel: mutable SSA with structured regions, owned by one Function.
//
// A function has one body block; an op may own regions, one block each. A block's arguments stand
// for what a loop carries. Values of enclosing blocks are visible inside. Ops of a block form a
// list, so inserting and erasing cost O(1); uses are kept per value. All edits go through the
// members below, which keep uses and parents right. Views that they give (types, operands, results)
// stay valid while other ops are made.
#pragma once

#include "ir/diagnostic.h"
#include "ir/layout.h"
#include "ir/opcode.h"
#include "ir/stable_vector.h"
#include "ir/tensor_map.h"

#include <llvm/ADT/SmallVector.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace libtile::ir {

using Values = llvm::SmallVector<ValueId, 4>;

struct Use {
  OpId op;
  uint32_t operand;
};

// What the caller promises of a parameter, part of the specialisation.
struct Param {
  std::string name;
  // Pointers: bytes; integers: the value is a multiple of this. 1: nothing known.
  int64_t divisible = 1;
  // Pointers: the kernel never writes through it (set by analysis of the user's annotation).
  bool readOnly = false;
};

inline constexpr int32_t kGuardedExponent = 64; // Guard::Kind::Positive

// A predicate over the parameters that the launcher evaluates; the code may rely on it.
struct Guard {
  enum class Kind : uint8_t {
    Divisible, // parameter % value == 0 (pointers: the address)
    Below,     // signed parameter < value
    Above,     // signed parameter > value
    Disjoint,  // the arrays of the two pointer parameters do not overlap
    Positive,  // 2^-64 <= fp32 parameter <= 2^64
    Within,    // 0 < signed parameter <= value
  } kind;
  // Of the text form, by kind.
  static constexpr std::array<std::string_view, 6> kWords = {"divisible", "below", "above", "disjoint", "positive", "within"};
  uint32_t param;
  int64_t value; // Disjoint: the other parameter; Positive: 0
  friend bool operator==(const Guard &, const Guard &) = default;
};

class Function {
public:
  explicit Function(std::string name);
  // Defined in function.cpp, so that the copies of all that it holds are compiled once.
  ~Function();
  Function(Function &&) noexcept;
  Function &operator=(Function &&) noexcept;
  // An exact copy; ids stay the same.
  [[nodiscard]] Function clone() const;

  std::string name;
  Stage stage = Stage::Tile;
  std::vector<Param> params; // one for each argument of body()
  std::vector<Guard> guards;
  std::vector<TensorMap> maps; // that copy_box and store_box name by index
  // Options of the launch that the compiler may override; recorded in the text form.
  int32_t numWarps = 4;
  int32_t numStages = 3;
  // Programs that one multiprocessor shall hold at least, which bounds their registers; 0: any.
  int32_t resident = 0;
  // Bytes of the arena that alloc offsets refer to, set by allocation.
  int64_t arenaBytes = 0;
  // Fallbacks taken, in words: "matmul.py:31: dot by fused multiply-adds: k = 5 is below 16".
  std::vector<std::string> fallbacks;

  [[nodiscard]] BlockId body() const { return {0}; }
  ValueId addParam(Type type, Param param, LocationId loc = {});

  // ---- ops
  // Makes an op at the end of no block; insert it with append or insertBefore.
  OpId createOp(Opcode opcode, std::span<const ValueId> operands, std::span<const Type> results,
                LocationId loc);
  void append(BlockId block, OpId op);
  void insertBefore(OpId position, OpId op);
  void insertAfter(OpId position, OpId op);
  // Takes the op out of its block without erasing it.
  void unlink(OpId op);
  // Erases the op, its regions and what they hold. Its results must have no uses.
  void erase(OpId op);
  [[nodiscard]] bool isErased(OpId op) const { return ops_[op.index].erased; }

  [[nodiscard]] Opcode opcode(OpId op) const { return ops_[op.index].opcode; }
  [[nodiscard]] const OpInfo &opInfo(OpId op) const { return info(opcode(op)); }
  [[nodiscard]] std::span<const ValueId> operands(OpId op) const { return ops_[op.index].operands; }
  [[nodiscard]] ValueId operand(OpId op, unsigned i) const { return ops_[op.index].operands[i]; }
  [[nodiscard]] unsigned numOperands(OpId op) const { return ops_[op.index].operands.size(); }
  [[nodiscard]] std::span<const ValueId> results(OpId op) const { return ops_[op.index].results; }
  [[nodiscard]] ValueId result(OpId op, unsigned i = 0) const { return ops_[op.index].results[i]; }
  [[nodiscard]] LocationId loc(OpId op) const { return ops_[op.index].loc; }
  void setLoc(OpId op, LocationId loc) { ops_[op.index].loc = loc; }
  void setOperand(OpId op, unsigned i, ValueId value);
  void addOperand(OpId op, ValueId value);
  void eraseOperand(OpId op, unsigned i);
  ValueId addResult(OpId op, Type type);
  // The result must have no uses.
  void eraseResult(OpId op, unsigned i);
  // The op's own effects; an access with is_volatile is Ordered too.
  [[nodiscard]] Effects ownEffects(OpId op) const;
  // ownEffects and, for ops with regions, those of everything inside.
  [[nodiscard]] Effects effects(OpId op) const;

  // ---- attributes
  [[nodiscard]] bool hasAttr(OpId op, Attr attr) const { return findAttr(op, attr) != nullptr; }
  [[nodiscard]] const AttrValue *findAttr(OpId op, Attr attr) const;
  // Missing: 0, {} and "". Enumerations: getEnum<CmpPred>(op, Attr::predicate).
  [[nodiscard]] int64_t getInt(OpId op, Attr attr) const;
  [[nodiscard]] bool getBool(OpId op, Attr attr) const { return getInt(op, attr) != 0; }
  [[nodiscard]] std::span<const int64_t> getInts(OpId op, Attr attr) const;
  [[nodiscard]] std::string_view getText(OpId op, Attr attr) const;
  template <class E> [[nodiscard]] E getEnum(OpId op, Attr attr) const {
    return static_cast<E>(getInt(op, attr));
  }
  void setAttr(OpId op, Attr attr, AttrValue value);
  template <class E>
    requires std::is_enum_v<E>
  void setAttr(OpId op, Attr attr, E value) {
    setAttr(op, attr, AttrValue(static_cast<int64_t>(value)));
  }
  [[nodiscard]] std::span<const std::pair<Attr, AttrValue>> attrs(OpId op) const {
    return ops_[op.index].attrs;
  }
  // Nothing if the op does not have it.
  void eraseAttr(OpId op, Attr attr);
  // `to` gets all of `from`'s attributes.
  void copyAttrs(OpId from, OpId to) { ops_[to.index].attrs = ops_[from.index].attrs; }

  // A copy of the op, with its regions, that stands nowhere yet. Operands go through the map, as far
  // as they are in it; results and arguments are added to it.
  OpId copyOp(OpId op, IndexMap<ValueId, ValueId> &map);
  // Copies the ops of a block to the end of another.
  void copyOps(BlockId from, BlockId to, IndexMap<ValueId, ValueId> &map);

  // ---- blocks and regions
  // Adds an empty region (one block) to the op.
  BlockId addRegion(OpId op);
  [[nodiscard]] std::span<const BlockId> regions(OpId op) const { return ops_[op.index].regions; }
  [[nodiscard]] BlockId region(OpId op, unsigned i = 0) const { return ops_[op.index].regions[i]; }
  ValueId addArg(BlockId block, Type type);
  // The argument must have no uses.
  void eraseArg(BlockId block, unsigned i);
  [[nodiscard]] std::span<const ValueId> args(BlockId block) const {
    return blocks_[block.index].args;
  }
  [[nodiscard]] ValueId arg(BlockId block, unsigned i) const {
    return blocks_[block.index].args[i];
  }
  [[nodiscard]] OpId parentOp(BlockId block) const { return blocks_[block.index].parent; }
  [[nodiscard]] BlockId block(OpId op) const { return ops_[op.index].block; }
  [[nodiscard]] OpId first(BlockId block) const { return blocks_[block.index].first; }
  [[nodiscard]] OpId last(BlockId block) const { return blocks_[block.index].last; }
  [[nodiscard]] OpId next(OpId op) const { return ops_[op.index].next; }
  [[nodiscard]] OpId prev(OpId op) const { return ops_[op.index].prev; }
  // The ops of the block, in order, as they are now; edits while iterating are safe.
  [[nodiscard]] std::vector<OpId> opsIn(BlockId block) const;
  // Every op inside the block and the regions below it, in text order, owners before their regions.
  [[nodiscard]] std::vector<OpId> walk(BlockId block) const;
  [[nodiscard]] std::vector<OpId> walk() const { return walk(body()); }
  // The block lies in `ancestor` or below it (a block lies in itself).
  [[nodiscard]] bool isInside(BlockId block, BlockId ancestor) const;
  // The value is defined outside of `block` and everything below it.
  [[nodiscard]] bool isDefinedOutside(ValueId value, BlockId block) const;
  // Moves all ops of `from` before `position` (into its block); `from` is left empty.
  void spliceBefore(OpId position, BlockId from);

  // ---- values
  [[nodiscard]] const Type &type(ValueId value) const { return values_[value.index].type; }
  void setType(ValueId value, Type type) { values_[value.index].type = type; }
  // The op whose result the value is; invalid for a block argument.
  [[nodiscard]] OpId def(ValueId value) const { return values_[value.index].op; }
  // The block whose argument the value is, or in which its op lies.
  [[nodiscard]] BlockId defBlock(ValueId value) const;
  [[nodiscard]] bool isArg(ValueId value) const { return !values_[value.index].op.valid(); }
  // Position among the results or arguments.
  [[nodiscard]] unsigned defIndex(ValueId value) const { return values_[value.index].position; }
  [[nodiscard]] std::span<const Use> uses(ValueId value) const { return values_[value.index].uses; }
  [[nodiscard]] bool unused(ValueId value) const { return values_[value.index].uses.empty(); }
  void replaceAllUses(ValueId from, ValueId to);
  // The opcode that defines the value; nullopt for a block argument.
  [[nodiscard]] std::optional<Opcode> defOpcode(ValueId value) const;
  // The number if a Constant (scalar or tile) defines the value.
  [[nodiscard]] std::optional<int64_t> constantInt(ValueId value) const;
  [[nodiscard]] std::optional<double> constantFloat(ValueId value) const;
  // A constant whose bits are all 0: not -0.
  [[nodiscard]] bool isZero(ValueId value) const;

  // ---- interned side tables
  LayoutId internLayout(const Layout &layout);
  [[nodiscard]] const Layout &layout(LayoutId id) const { return layouts_[id.index]; }
  [[nodiscard]] std::span<const Layout> layouts() const { return layouts_; }
  LocationId internLocation(const Location &location);
  [[nodiscard]] const Location &location(LocationId id) const;
  [[nodiscard]] const Location &locationOf(OpId op) const { return location(loc(op)); }

  [[nodiscard]] uint32_t numOps() const { return ops_.size(); }
  [[nodiscard]] uint32_t numValues() const { return values_.size(); }
  // Text form, printer.h.
  [[nodiscard]] std::string str() const;

private:
  struct OpData {
    Opcode opcode{};
    bool erased = false;
    LocationId loc;
    BlockId block;
    OpId prev, next;
    llvm::SmallVector<ValueId, 3> operands;
    llvm::SmallVector<ValueId, 1> results;
    llvm::SmallVector<BlockId, 1> regions;
    llvm::SmallVector<std::pair<Attr, AttrValue>, 1> attrs;
  };
  struct BlockData {
    OpId parent;
    OpId first, last;
    llvm::SmallVector<ValueId, 4> args;
  };
  struct ValueData {
    Type type;
    OpId op;
    BlockId block; // for arguments
    uint32_t position = 0;
    llvm::SmallVector<Use, 2> uses;
  };

  // Copies are made by clone() alone: one by chance would cost, and its edits be lost.
  Function(const Function &);
  void addUse(ValueId value, Use use);
  void dropUse(ValueId value, Use use);
  // Marks an unlinked op and everything below it erased.
  void eraseContents(OpId op);
  void eraseBlockContents(BlockId block);

  StableVector<OpData> ops_;
  StableVector<BlockData> blocks_;
  StableVector<ValueData> values_;
  std::vector<Layout> layouts_;
  std::vector<Location> locations_;
  std::unordered_multimap<size_t, uint32_t> locationIndex_; // by hash, for internLocation
};

} // namespace libtile::ir
