// SPDX-License-Identifier: Apache-2.0
// An access out of bounds in words. Indices count elements of the parameter's type from the address that the
// launch was given, which is not the begin of the memory where that is a view of a part:
//
//   x[1000] is out of bounds: x holds 0 .. 999; read by program (7, 0, 0)
#include "runtime/launch.h"

#include "ir/effects.h"

namespace libtile::runtime {

namespace {

// Towards -infinity.
int64_t elementAt(uint64_t address, uint64_t origin, int64_t bytes) {
  const auto distance = static_cast<int64_t>(address - origin);
  return distance / bytes - (distance % bytes < 0 ? 1 : 0);
}

const char *verbOf(ir::Effects effects) {
  const bool reads = effects.has(ir::Effects::ReadsGlobal);
  return !effects.has(ir::Effects::WritesGlobal) ? "read" : reads ? "updated" : "written";
}

} // namespace

OutOfBounds describeOutOfBounds(const Compiled &kernel, std::span<const uint64_t> slots,
                                const BoundsCheck &bounds) {
  const std::vector<std::string> names = kernel.parameterNames();
  std::string where, arrays;
  for (const uint32_t parameter : bounds.access->arrays) {
    const frontend::DType &dtype = kernel.parameters()[parameter].dtype;
    const int64_t bytes = dtype.pointerDepth > 1 ? 8 : ir::byteSize(dtype.elem);
    const auto at = [&](uint64_t address) { return elementAt(address, slots[parameter], bytes); };
    const Extent &extent = bounds.extents[parameter];
    const bool isWhole = bytes == bounds.access->bytes;
    where += (where.empty() ? "" : " = ") +
             (isWhole ? "" : std::to_string(bounds.access->bytes) + " bytes from ") + names[parameter] +
             "[" + std::to_string(at(bounds.address)) + "]";
    arrays += (arrays.empty() ? "" : ", ") + names[parameter] + " holds " +
              (extent.begin == extent.end
                   ? "nothing"
                   : std::to_string(at(extent.begin)) + " .. " + std::to_string(at(extent.end - 1)));
  }
  std::string program;
  for (const int32_t index : bounds.program) {
    program += (program.empty() ? "" : ", ") + std::to_string(index);
  }
  return {where + " is out of bounds: " + arrays + "; " + verbOf(bounds.access->effects) +
              " by program (" + program + ")",
          bounds.access->place};
}

} // namespace libtile::runtime
