// SPDX-License-Identifier: Apache-2.0
// Keeps the order of memory accesses while loads move down to the nests that use them.
//
// A load that is inline is executed at its users' places. That is the same as at its own as long as
// nothing between writes what it reads. So, walking in program order: before an op that may write what
// a pending load reads, everything that still needs the load afterwards is stored (settle). A store
// whose own operands read what it writes is right element by element only if each element reads
// exactly what it overwrites; otherwise the operands are stored first (stageOperands). What a nest reads
// is what walkExpression names (expression.h).
// The loads of a sunk loop move with the loop, the scalar ones too; what is stored are its results.
// Atomic and volatile accesses count as writes to everything.
//
// Code may have thousands of loads and of stores, so not each meets each: loads pend by their array, whole
// arrays are passed by where the op cannot write to them, and a load pends no longer than its last user's place.
#pragma once

#include "passes/cpu/nest_state.h"

#include <map>
#include <set>

namespace libtile::passes {

class MemoryOrder {
public:
  // Requires: sunk loops are planned, nothing is lowered.
  explicit MemoryOrder(NestState &state);

  void enterBlock() { marks_.push_back(loads_.size()); }
  void leaveBlock();
  // Called when the walk has come past an op whose elements are computed where they are needed.
  void pass(ir::OpId op);
  // Called before `op` is lowered, with its effects those of the tile stage.
  void settle(ir::OpId op);
  // Called before the nest of a store or atomic on tiles is made.
  void stageOperands(ir::OpId access);

private:
  // Parameters that the op or an op in it may write to; invalid: anywhere.
  std::set<ir::ValueId> written(ir::OpId op) const;
  ir::ValueId arrayOf(ir::OpId access) const;
  void findLastNeeds(ir::BlockId block);
  // Where the last user stands that is not computed element by element.
  size_t lastNeed(ir::ValueId value) const;
  bool clobbers(ir::OpId op, ir::OpId load) const;
  bool needs(ir::ValueId value, ir::OpId except, std::vector<ir::ValueId> &toStore);
  bool needsOnce(ir::ValueId value, ir::OpId user, ir::OpId except,
                 std::vector<ir::ValueId> &toStore);
  void storeWhatNeeds(ir::OpId load, ir::OpId op);
  bool readsWhatItWrites(ir::OpId access, ir::ValueId operand) const;

  NestState &state_;
  const ir::Function &fn_;
  std::vector<ir::OpId> loads_; // those of the blocks around the walk's place
  std::vector<size_t> marks_;
  std::map<ir::ValueId, std::vector<ir::OpId>> pending_; // of each array, in program order
  ir::IndexMap<ir::OpId, size_t> places_{0};              // in program order, from 1 on
  ir::IndexMap<ir::ValueId, size_t> lastNeeds_{0};
  ir::IndexMap<ir::OpId, bool> passed_{false};
  std::map<ir::ValueId, bool> answers_; // of needs, for the load in question
};

} // namespace libtile::passes
