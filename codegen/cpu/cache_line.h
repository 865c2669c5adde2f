// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace libtile::codegen::cpu {

inline constexpr int64_t kCacheLine = 64; // bytes, of each CPU that has a description here

} // namespace libtile::codegen::cpu
