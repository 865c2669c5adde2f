// SPDX-License-Identifier: Apache-2.0
// The linker that one kernel needs: from LLVM's relocatable object to the shared object that AMD's loaders take (LLVM's "User
// Guide for AMDGPU Backend": ELF Code Object; the System V ABI for what is not AMD's own).
#pragma once

#include <string>
#include <string_view>

namespace libtile::codegen::amd {

// Throws InternalError for an object that has what no kernel of ours needs: undefined symbols, addresses that a loader would
// have to fill in, sections of other kinds.
[[nodiscard]] std::string linkCodeObject(std::string_view object);

} // namespace libtile::codegen::amd
