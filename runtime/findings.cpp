// SPDX-License-Identifier: Apache-2.0
// What ends a launch, in words:
//
//   assertion failed: n is too small; in scale, program (7, 0, 0)
//   x[1000] is out of bounds: x holds 0 .. 999; read by program (7, 0, 0)
//
// Indices count elements of the parameter's type from the address that the launch was given, which is not the
// begin of the memory where that is a view of a part.
#include "runtime/launch.h"

namespace libtile::runtime {

namespace {

// Towards -infinity.
int64_t elementAt(uint64_t address, uint64_t origin, int64_t bytes) {
  const auto distance = static_cast<int64_t>(address - origin);
  return distance / bytes - (distance % bytes < 0 ? 1 : 0);
}

std::string programText(const Findings &findings) {
  std::string text;
  for (const int32_t index : findings.program) {
    text += (text.empty() ? "" : ", ") + std::to_string(index);
  }
  return "program (" + text + ")";
}

const char *verbOf(ir::Effects effects) {
  const bool reads = effects.has(ir::Effects::ReadsGlobal);
  return !effects.has(ir::Effects::WritesGlobal) ? "read" : reads ? "updated" : "written";
}

[[noreturn]] void throwOutOfBounds(const Compiled &kernel, std::span<const uint64_t> slots,
                                   const Findings &findings) {
  const codegen::CheckedAccess &access = *findings.access;
  const std::vector<std::string> names = kernel.parameterNames();
  std::string where, arrays;
  for (const uint32_t parameter : access.arrays) {
    const frontend::DType &dtype = kernel.parameters()[parameter].dtype;
    const int64_t bytes = dtype.pointerDepth > 1 ? 8 : ir::byteSize(dtype.elem);
    const auto at = [&](uint64_t address) { return elementAt(address, slots[parameter], bytes); };
    const Extent &extent = findings.extents[parameter];
    const bool isWhole = bytes == access.bytes;
    where += (where.empty() ? "" : " = ") +
             (isWhole ? "" : std::to_string(access.bytes) + " bytes from ") + names[parameter] + "[" +
             std::to_string(at(findings.address)) + "]";
    arrays += (arrays.empty() ? "" : ", ") + names[parameter] + " holds " +
              (extent.begin == extent.end
                   ? "nothing"
                   : std::to_string(at(extent.begin)) + " .. " + std::to_string(at(extent.end - 1)));
  }
  throw OutOfBounds(where + " is out of bounds: " + arrays + "; " + verbOf(access.effects) + " by " +
                        programText(findings),
                    access.place);
}

} // namespace

void throwFindings(const Compiled &kernel, std::span<const uint64_t> slots, const Findings &findings) {
  if (findings.access != nullptr) {
    throwOutOfBounds(kernel, slots, findings);
  }
  if (findings.assertion != nullptr) {
    const std::string &text = findings.assertion->text;
    throw AssertionFailed("assertion failed" + (text.empty() ? "" : ": " + text) + "; in " + kernel.name() +
                              ", " + programText(findings),
                          findings.assertion->place);
  }
}

} // namespace libtile::runtime
