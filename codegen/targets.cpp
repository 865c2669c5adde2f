// SPDX-License-Identifier: Apache-2.0
#include "codegen/backends.h"
#include "codegen/llvm_compat.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::codegen {

namespace {

const ir::Target *findRow(std::string_view name) {
  for (const Backend &backend : kBackends) {
    for (const ir::Target &row : backend.targets()) {
      if (row.name == name) {
        return &row;
      }
    }
  }
  return nullptr;
}

} // namespace

std::vector<std::string> targetNames() {
  std::vector<std::string> names;
  for (const Backend &backend : kBackends) {
    for (const ir::Target &row : backend.targets()) {
      names.push_back(row.name);
    }
  }
  return names;
}

const ir::Target &interpreterTarget() {
  static const ir::Target target = [] {
    ir::Target made;
    made.name = "interpreter";
    made.functions = {{ir::Opcode::Scalb, ir::Elem::F32}, {ir::Opcode::Scalb, ir::Elem::F64}};
    // Bit for bit as the CPU that interprets.
    const ir::FunctionKey erf{ir::Opcode::Erf, ir::Elem::F32};
    if (std::ranges::find(hostTarget().functions, erf) != hostTarget().functions.end()) {
      made.functions.push_back(erf);
    }
    for (const ir::Float8 format :
         {ir::Float8::e5, ir::Float8::e4nv, ir::Float8::e4b15, ir::Float8::e4b8, ir::Float8::e5b16}) {
      made.functions.push_back({ir::Opcode::Float8Decode, ir::Elem::F32, format});
      made.functions.push_back({ir::Opcode::Float8Encode, ir::Elem::F32, format});
      made.functions.push_back({ir::Opcode::Float8Encode, ir::Elem::F64, format});
    }
    return made;
  }();
  return target;
}

const ir::Target &hostTarget() { return cpu::host(); }

bool runsHere(const ir::Target &target) { return cpu::runsHere(target); }

const ir::Target &findTarget(std::string_view name) {
  if (name == "cpu") {
    return hostTarget();
  }
  if (name == interpreterTarget().name) {
    return interpreterTarget();
  }
  const ir::Target *row = findRow(name);
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
