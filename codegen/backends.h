// SPDX-License-Identifier: Apache-2.0
// What each folder of a target gives to targets.cpp and generate.cpp: its rows, and its generator.
#pragma once

#include "codegen/codegen.h"

#include <span>

namespace libtile::codegen {

// Thrown by LLVM's fatal-error handler; generate() turns it into InternalError.
struct LlvmFatalError {
  std::string message;
};

// LLVM's context and module are put into `keep`: destroyed last to first, or leaked after a fatal error, which leaves them in
// an unknown state.
using Kept = std::vector<std::shared_ptr<void>>;

namespace cpu {
[[nodiscard]] std::span<const ir::Target> targets();
[[nodiscard]] const ir::Target &host();
[[nodiscard]] bool runsHere(const ir::Target &target);
[[nodiscard]] Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, Kept &keep);
void forgetRecentObjects();
} // namespace cpu

namespace nvidia {
[[nodiscard]] std::span<const ir::Target> targets();
[[nodiscard]] Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, Kept &keep);
} // namespace nvidia

namespace amd {
[[nodiscard]] std::span<const ir::Target> targets();
[[nodiscard]] Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, Kept &keep);
} // namespace amd

struct Backend {
  std::span<const ir::Target> (*targets)();
  Code (*generate)(const ir::Function &fn, const ir::Target &target, const CodeOptions &options, Kept &keep);
};
inline constexpr Backend kBackends[] = {
    {cpu::targets, cpu::generate}, {nvidia::targets, nvidia::generate}, {amd::targets, amd::generate}};

} // namespace libtile::codegen
