// SPDX-License-Identifier: Apache-2.0
// A variant as bytes and back, for the build of the library that made them alone. All of it but what the cache did.
#pragma once

#include "runtime/cache/compile.h"

#include <optional>
#include <string>
#include <string_view>

namespace libtile::runtime {

[[nodiscard]] std::string encodeVariant(Variant variant);
// nullopt: these are no bytes of encodeVariant.
[[nodiscard]] std::optional<Variant> decodeVariant(std::string_view bytes);

} // namespace libtile::runtime
