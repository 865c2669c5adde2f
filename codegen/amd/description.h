// SPDX-License-Identifier: Apache-2.0
// Facts of a GPU that only its own code generation asks for; all others are in ir/target.h.
#pragma once

#include "codegen/amd/lane_moves.h"
#include "ir/target.h"

namespace libtile::codegen::amd {

// What moves words between its lanes.
[[nodiscard]] LaneSet laneSet(const ir::Target &target);

// The last word of a descriptor of bytes, whose bounds are checked against the offset.
[[nodiscard]] uint32_t bufferWord(const ir::Target &target);

// Its instructions add and multiply two f32.
[[nodiscard]] bool addsPairs(const ir::Target &target);
// Two operations on f32 are one instruction of its (VOPD) where each operand's two registers lie in different banks.
[[nodiscard]] bool joinsPairs(const ir::Target &target);

// Its matrix instructions go on by themselves: other waves of the SIMD use the VALU meanwhile.
[[nodiscard]] bool matricesBeside(const ir::Target &target);

} // namespace libtile::codegen::amd
