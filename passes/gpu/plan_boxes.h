// SPDX-License-Identifier: Apache-2.0
// Copies ahead that the machine makes by itself (op copy_box), and stores and additions (op store_box): which accesses are such,
// what the launcher makes for them, and how a box lies in shared memory.
#pragma once

#include "passes/analysis/access_box.h"
#include "passes/pass.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libtile::passes {

// The layouts into which a tile is converted: under them it is read from a buffer, should there be one.
[[nodiscard]] std::vector<ir::Layout> convertedLayouts(const ir::Function &fn, ir::ValueId tile);

// What a load gives where its mask is false is 0, or may be.
[[nodiscard]] bool isZeroOutside(const ir::Function &fn, ir::OpId load);

inline constexpr int32_t kRowAlignment = 128; // of a box that is not swizzled; bytes

// An access as that of a box.
struct PlannedBox {
  ir::TensorMap map;
  std::vector<ir::Guard> guards;       // without which there is no such map
  std::vector<Polynomial> coordinates; // one a dimension of the map, elements
  ir::Layout slot;                     // of the buffer that it is copied into, or stored from
};

// Requires: laid-out; `load` gives 0 where its mask is false, lies in the body of a `for` and no store of it writes
// to what is loaded. nullopt, with `why` in words: threads have to copy it.
[[nodiscard]] std::optional<PlannedBox> planBox(const ir::Function &fn, ir::OpId load, const Facts &facts,
                                                const PassContext &context, std::string &why);

// The box that a store or an atomic addition writes where its mask is true, and the buffer of `tile`, which is what it writes as
// threads have it. Requires: laid-out. nullopt: it is no box, or its tile is not made of whole ones.
[[nodiscard]] std::optional<PlannedBox> planStore(const ir::Function &fn, ir::OpId store, ir::ValueId tile, const Facts &facts,
                                                  const PassContext &context);

// A buffer as what instructions fill or read, one a part: rows along one axis, one behind the other, swizzled as in
// matrix_buffers.h; of a buffer with one axis a single row, as it is.
struct BoxParts {
  unsigned fastAxis = 0;
  int32_t fast = 0, slow = 0; // extents of each part
  struct Part {
    ir::Coords first; // its first element
    int32_t byte = 0; // where that lies
  };
  std::vector<Part> parts;
};
// nullopt: the layout is not made of such parts.
[[nodiscard]] std::optional<BoxParts> boxParts(const ir::Layout &buffer, std::span<const int32_t> shape,
                                               int32_t elementBytes);

} // namespace libtile::passes
