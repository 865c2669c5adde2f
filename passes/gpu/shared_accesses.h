// SPDX-License-Identifier: Apache-2.0
// Which ops touch which buffers of shared memory: what allocation and barriers have in common.
#pragma once

#include "ir/function.h"

#include <vector>

namespace libtile::passes {

// Something that needs shared memory: an alloc, or a reduce whose warps meet.
struct SharedObject {
  ir::OpId owner;
  int64_t bytes = 0;
  int64_t align = 16;
};
[[nodiscard]] std::vector<SharedObject> sharedObjects(const ir::Function &fn);

// The alloc that the buffer is (a slot of).
[[nodiscard]] ir::OpId allocOf(const ir::Function &fn, ir::ValueId buffer);

struct SharedAccess {
  ir::OpId owner; // alloc or reduce
  bool write = false;
};
// Accesses of the op itself, not of its regions. A reduce writes its scratch, waits, and reads it.
[[nodiscard]] std::vector<SharedAccess> sharedAccesses(const ir::Function &fn, ir::OpId op);

} // namespace libtile::passes
