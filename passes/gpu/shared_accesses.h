// SPDX-License-Identifier: Apache-2.0
// Which ops touch which buffers of shared memory: what allocation and barriers have in common.
#pragma once

#include "ir/function.h"
#include "ir/target.h"

#include <vector>

namespace libtile::passes {

// A scalar that one thread gets and tells the others: the old value of an atomic, and what a
// volatile load reads, which may change between the reads of two threads.
[[nodiscard]] bool tellsOthers(const ir::Function &fn, ir::OpId op);

// Something that needs shared memory: an alloc, or an op inside of which warps meet: a reduce, a
// scan, or one that tells others.
struct SharedObject {
  ir::OpId owner;
  int64_t bytes = 0;
  int64_t align = 16;
};
[[nodiscard]] std::vector<SharedObject> sharedObjects(const ir::Function &fn);

// The op names bytes of a buffer anew and touches none: a slot of it, or its axes permuted.
[[nodiscard]] bool isBufferView(const ir::Function &fn, ir::OpId op);
// The alloc that the buffer is a view of, or is.
[[nodiscard]] ir::OpId allocOf(const ir::Function &fn, ir::ValueId buffer);

// Where a slot lies in its ring, seen from those that a loop's numbers name now. A number that goes round, one slot further
// with each iteration, stays as far from the others that do as it is in the first one.
struct RingPhase {
  ir::BlockId body;   // of the loop that carries the number; invalid: nothing is known of the slot
  int64_t at = 0;     // the number in the first iteration, less the iterations since the access
  int64_t slots = 0;
  [[nodiscard]] bool isApart(const RingPhase &other) const {
    return body.valid() && body == other.body && slots == other.slots && at != other.at;
  }
  // The loop's next iteration begins.
  void recede() { at = (at + slots - 1) % slots; }
  friend bool operator==(const RingPhase &, const RingPhase &) = default;
};
// Of the slot that the buffer is, or is a view of.
[[nodiscard]] RingPhase phaseOf(const ir::Function &fn, ir::ValueId buffer);

// The layout under which threads access their buffer, if each element is accessed by one thread: of two accesses of a buffer under one such
// layout a thread meets its own alone. Invalid: not known.
[[nodiscard]] ir::LayoutId ownersOf(const ir::Function &fn, ir::OpId op, const ir::SharedReads &reads);

struct SharedAccess {
  ir::OpId owner;
  bool write = false;
  RingPhase phase = {};
  friend bool operator==(const SharedAccess &, const SharedAccess &) = default;
};
// The warps meet inside of the op: it writes its shared memory, all wait, it reads it.
[[nodiscard]] bool meetsInside(const ir::Function &fn, ir::OpId op);
// The producer whose body the op lies in, if any.
[[nodiscard]] ir::OpId producerAround(const ir::Function &fn, ir::OpId op);
// Warps of the block: those of the function, and of a producer.
[[nodiscard]] int32_t blockWarps(const ir::Function &fn);
// Blocks run programs in turn (op worker).
[[nodiscard]] bool sharesBlocks(const ir::Function &fn);
// Programs of its clusters (plan_cluster.h); 1: it has none.
[[nodiscard]] int32_t clusterOf(const ir::Function &fn);
// Its loop over programs (share_blocks.h).
[[nodiscard]] bool isOverPrograms(const ir::Function &fn, ir::OpId loop);
// A dot into a place (ir/places.h): its buffers are read until a dot_wait ends it.
[[nodiscard]] bool startsDot(const ir::Function &fn, ir::OpId op);
// Accesses of the op itself, not of its regions.
[[nodiscard]] std::vector<SharedAccess> sharedAccesses(const ir::Function &fn, ir::OpId op);

} // namespace libtile::passes
