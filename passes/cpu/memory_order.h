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
#pragma once

#include "passes/cpu/nest_state.h"

#include <map>

namespace libtile::passes {

class MemoryOrder {
public:
  explicit MemoryOrder(NestState &state) : state_(state), fn_(state.fn) {}

  void enterBlock() { marks_.push_back(pending_.size()); }
  void leaveBlock();
  // Called when the walk has come past an op whose elements are computed where they are needed.
  void pass(ir::OpId op);
  // Called before `op` is lowered, with its effects those of the tile stage.
  void settle(ir::OpId op);
  // Called before the nest of a store or atomic on tiles is made.
  void stageOperands(ir::OpId access);

private:
  bool clobbers(ir::OpId op, ir::OpId load) const;
  bool needs(ir::ValueId value, ir::OpId except, std::vector<ir::ValueId> &toStore);
  bool needsOnce(ir::ValueId value, ir::OpId user, ir::OpId except,
                 std::vector<ir::ValueId> &toStore);
  void storeWhatNeeds(ir::OpId load, ir::OpId op);
  bool readsWhatItWrites(ir::OpId access, ir::ValueId operand) const;

  NestState &state_;
  const ir::Function &fn_;
  std::vector<ir::OpId> pending_;
  std::vector<size_t> marks_;
  ir::IndexMap<ir::OpId, bool> passed_{false};
  std::map<ir::ValueId, bool> answers_; // of needs, for the load in question
};

} // namespace libtile::passes
