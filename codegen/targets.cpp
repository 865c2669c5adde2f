// SPDX-License-Identifier: Apache-2.0
#include "codegen/backends.h"
#include "codegen/llvm_compat.h"

namespace libtile::codegen {

namespace {

const ir::Target *findRow(std::span<const ir::Target> rows, std::string_view name) {
  for (const ir::Target &row : rows) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

} // namespace

std::vector<std::string> targetNames() {
  std::vector<std::string> names;
  for (const std::span<const ir::Target> rows : {cpu::targets(), nvidia::targets()}) {
    for (const ir::Target &row : rows) {
      names.push_back(row.name);
    }
  }
  return names;
}

const ir::Target &hostTarget() { return cpu::host(); }

bool runsHere(const ir::Target &target) { return cpu::runsHere(target); }

const ir::Target &findTarget(std::string_view name) {
  if (name == "cpu") {
    return hostTarget();
  }
  const ir::Target *row = findRow(cpu::targets(), name);
  if (row == nullptr) {
    row = findRow(nvidia::targets(), name);
  }
  if (row == nullptr) {
    std::string known = "cpu";
    for (const std::string &other : targetNames()) {
      known += ", " + other;
    }
    throw ir::UserError("unknown target '" + std::string(name) + "'; there are " + known);
  }
  if (row->llvmSince > compat::kLlvmMajor) {
    throw ir::Unsupported("target " + row->name + " needs LLVM " + std::to_string(row->llvmSince) +
                          " or newer; this build has LLVM " + std::to_string(compat::kLlvmMajor));
  }
  return *row;
}

} // namespace libtile::codegen
