// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/recent_objects.h"

#include <llvm/IR/Module.h>
#include <llvm/Support/raw_sha1_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>

namespace libtile::codegen::cpu {

RecentObjects::Key RecentObjects::keyOf(const llvm::Module &module, const llvm::TargetMachine &machine) {
  llvm::raw_sha1_ostream stream;
  stream << machine.getTargetTriple().str() << '\n' << machine.getTargetCPU() << '\n' << machine.getTargetFeatureString() << '\n';
  module.print(stream, nullptr);
  return stream.sha1();
}

std::optional<std::vector<char>> RecentObjects::find(const Key &key) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(rows_, key, &Row::key);
  if (found == rows_.end()) {
    return std::nullopt;
  }
  rows_.splice(rows_.begin(), rows_, found);
  return found->object;
}

void RecentObjects::keep(const Key &key, const std::vector<char> &object) {
  if (object.size() > kLargest) {
    return;
  }
  const std::lock_guard lock(mutex_);
  rows_.push_front({key, object});
  if (rows_.size() > kMost) {
    rows_.pop_back();
  }
}

void RecentObjects::clear() {
  const std::lock_guard lock(mutex_);
  rows_.clear();
}

} // namespace libtile::codegen::cpu
