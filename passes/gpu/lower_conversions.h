// SPDX-License-Identifier: Apache-2.0
// Makes explicit what goes through shared memory: a buffer, a write and a read.
//
//   %y = convert_layout %x              %buf = alloc : buffer<.., swizzled>
//                                  ->   buffer_write %buf, %x
//                                       %y = buffer_read %buf
//
// when no shuffle can do it (conversion.h). A tile that shared memory has no room for goes there in parts of its elements, one behind the
// other, where threads have the registers for it twice. A reshape that moves data writes the tile in row-major
// order and reads it under the other shape (flat_buffers.h). The operands of a dot by fused multiply-adds become
// buffers, which such a dot reads element by element; one that comes from a buffer already is read
// there. What an atomic or a volatile load of a tile gives is known to the one thread that did an element
// only: where others hold replicas of it, they read it from a buffer.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: laid-out. Ensures: laid-out; what is left of convert_layout are register moves and
// shuffles, of reshape register moves; a dot has two fragments or two buffers as operands.
bool lowerConversions(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
