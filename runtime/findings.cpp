// SPDX-License-Identifier: Apache-2.0
// Indices count elements of the parameter's type from the address that the launch was given, which is not the
// begin of the memory where that is a view of a part.
#include "runtime/findings.h"

#include "runtime/cache/compile.h"

namespace libtile::runtime {

namespace {

// Towards -infinity.
int64_t elementAt(uint64_t address, uint64_t origin, int64_t bytes) {
  const auto distance = static_cast<int64_t>(address - origin);
  return distance / bytes - (distance % bytes < 0 ? 1 : 0);
}

std::string listed(std::span<const int32_t> indices) {
  std::string text;
  for (const int32_t index : indices) {
    text += (text.empty() ? "" : ", ") + std::to_string(index);
  }
  return "(" + text + ")";
}

std::string programText(std::span<const int32_t> program) { return "program " + listed(program); }

const char *verbOf(ir::Effects effects) {
  const bool reads = effects.has(ir::Effects::ReadsGlobal);
  return !effects.has(ir::Effects::WritesGlobal) ? "read" : reads ? "updated" : "written";
}

// What the arrays of a launch are called, and where things lie in them.
class Arrays {
public:
  Arrays(const Compiled &kernel, std::span<const uint64_t> slots, const Extent *extents)
      : kernel_(kernel), names_(kernel.parameterNames()), slots_(slots), extents_(extents) {}

  // "x[1000]", "8 bytes from x[9]": the access under each of the names that it may have.
  [[nodiscard]] std::string where(const Finding &access) const {
    std::string text;
    for (const uint32_t array : access.arrays) {
      const bool isWhole = elementBytes(array) == access.bytes;
      text += (text.empty() ? "" : " = ") +
              (isWhole ? "" : std::to_string(access.bytes) + " bytes from ") + names_[array] + "[" +
              std::to_string(indexAt(array, access.address)) + "]";
    }
    return text.empty() ? "the element at address " + std::to_string(access.address) : text;
  }

  // "x holds 0 .. 999, y holds nothing"
  [[nodiscard]] std::string contents(const Finding &access) const {
    std::string text;
    for (const uint32_t array : access.arrays) {
      const Extent &extent = extents_[array];
      text += (text.empty() ? "" : ", ") + names_[array] + " holds " +
              (extent.begin == extent.end ? "nothing"
                                          : std::to_string(indexAt(array, extent.begin)) + " .. " +
                                                std::to_string(indexAt(array, extent.end - 1)));
    }
    return text;
  }

private:
  [[nodiscard]] int64_t elementBytes(uint32_t array) const {
    const frontend::DType &dtype = kernel_.parameters()[array].dtype;
    return dtype.pointerDepth > 1 ? 8 : ir::byteSize(dtype.elem);
  }
  [[nodiscard]] int64_t indexAt(uint32_t array, uint64_t address) const {
    return elementAt(address, slots_[array], elementBytes(array));
  }

  const Compiled &kernel_;
  std::vector<std::string> names_;
  std::span<const uint64_t> slots_;
  const Extent *extents_;
};

std::string atCause(const Finding &finding) {
  return finding.cause.known() ? " at " + finding.cause.place().str() : "";
}

// "; read by program (7, 0, 0), element (104)"
std::string byWhom(const Finding &finding) {
  const std::string verb = finding.arrays.empty() && finding.bytes == 0 ? "" : std::string(verbOf(finding.effects)) + " by ";
  return "; " + verb + programText(finding.program) +
         (finding.element.empty() ? "" : ", element " + listed(finding.element));
}

std::string raceText(const Finding &finding, const std::string &where) {
  return where + " is " + verbOf(finding.effects) + " by " + programText(finding.program) +
         (finding.element.empty() ? "" : ", element " + listed(finding.element)) + ", and " +
         verbOf(finding.otherEffects) + " by " + programText(finding.otherProgram) + atCause(finding) +
         ": nothing says which comes first";
}

} // namespace

std::string describeFinding(const Compiled &kernel, std::span<const uint64_t> slots, const Extent *extents,
                            const Finding &finding) {
  using Kind = Finding::Kind;
  const Arrays arrays(kernel, slots, extents);
  switch (finding.kind) {
  case Kind::Assertion:
    return "assertion failed" + (finding.text.empty() ? "" : ": " + finding.text) + "; in " + kernel.name() +
           ", " + programText(finding.program);
  case Kind::OutOfBounds:
    return arrays.where(finding) + " is out of bounds: " + arrays.contents(finding) + finding.text +
           byWhom(finding);
  case Kind::Misaligned:
    return arrays.where(finding) + " is misaligned: its address is no multiple of " +
           std::to_string(finding.bytes) + byWhom(finding);
  case Kind::Unwritten:
    return arrays.where(finding) + " is not initialised: nothing was written there" + byWhom(finding);
  case Kind::Overflow:
    return arrays.where(finding) + " is wrong: an int32 of its offset overflows" + atCause(finding) +
           byWhom(finding);
  case Kind::Undefined:
    return finding.text + atCause(finding) + byWhom(finding);
  case Kind::Race:
    return raceText(finding, arrays.where(finding));
  case Kind::Conflict:
    return arrays.where(finding) + " is written by elements " + listed(finding.otherElement) + " and " +
           listed(finding.element) + " of one store, which differ: nothing says which comes first; " +
           programText(finding.program);
  case Kind::BrokenPromise:
    return finding.text + byWhom(finding);
  }
  return {};
}

void throwFindings(const Compiled &kernel, std::span<const uint64_t> slots, const Findings &findings) {
  if (!findings.found) {
    return;
  }
  const Finding &finding = *findings.found;
  std::string text = describeFinding(kernel, slots, findings.extents, finding);
  switch (finding.kind) {
  case Finding::Kind::OutOfBounds:
    throw OutOfBounds(std::move(text), finding.place);
  case Finding::Kind::Assertion:
    throw AssertionFailed(std::move(text), finding.place);
  case Finding::Kind::Misaligned:
  case Finding::Kind::Unwritten:
  case Finding::Kind::Overflow:
  case Finding::Kind::Undefined:
  case Finding::Kind::Race:
  case Finding::Kind::Conflict:
  case Finding::Kind::BrokenPromise:
    throw KernelFault(std::move(text), finding.place);
  }
}

} // namespace libtile::runtime
