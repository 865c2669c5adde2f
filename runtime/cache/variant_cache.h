// SPDX-License-Identifier: Apache-2.0
// Variants in the cache on disk.
//
// A variant is a pure function of the tile IR as text, the target, the options, the passes that are left out, whether
// guards may be asked for, and the build of the library; these make its key. Places in the source are in the key of
// those variants alone that name any: in messages, checks, assertions, fallbacks. So a comment above a kernel costs the
// others nothing. Which sort a variant is shows when it is compiled: it is looked for under both keys.
#pragma once

#include "runtime/cache/compile.h"

#include <functional>
#include <string_view>

namespace libtile::runtime {

struct VariantSource {
  const ir::Function &tile;
  const ir::Target &target;
  const Options &options;
  std::string_view disabledPasses;
  passes::Reliance relies;
};

// The variant from the cache, or else compiled and stored there; Variant::cache says what was done. Throws what `compile`
// throws, and UserError for settings of the cache that mean nothing (cache_settings.h).
[[nodiscard]] Variant findOrCompile(const VariantSource &source, const std::function<Variant()> &compile);

} // namespace libtile::runtime
