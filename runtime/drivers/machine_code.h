// SPDX-License-Identifier: Apache-2.0
// What a GPU's assembler makes of a kernel's text, kept in the cache on disk: a later process that finds the text there
// (variant_cache.h) assembles nothing either.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace libtile::runtime {

struct AssemblySource {
  std::string_view text;
  std::string_view architecture; // "sm_90a"
  std::string_view assembler;    // which one, of what version: another one may make better code
  bool lines = false;            // machine code keeps the source lines that the text names
};

// The machine code from the cache, or else what `assemble` gives, stored there; "" is not: there is none. Throws what
// `assemble` throws, and UserError for settings of the cache that mean nothing (cache_settings.h).
[[nodiscard]] std::string findOrAssemble(const AssemblySource &source, const std::function<std::string()> &assemble);

} // namespace libtile::runtime
