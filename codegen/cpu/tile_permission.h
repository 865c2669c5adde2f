// SPDX-License-Identifier: Apache-2.0
// Leave of the operating system to use the tile registers of AMX.
#pragma once

namespace libtile::codegen::cpu {

// Asks for it, once in a process, and for all of its threads; children have it too. Linux gives tile registers
// only to who asks, since they make signal frames 8 KiB larger: it refuses if a thread has an alternate signal
// stack that is too small for that. False: there are no tiles, or they are not to be used.
[[nodiscard]] bool tilesPermitted();

} // namespace libtile::codegen::cpu
