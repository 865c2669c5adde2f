// SPDX-License-Identifier: Apache-2.0
// Precompiled for codegen/: pch/core_pch.h and what emitters use of LLVM.
#include "core_pch.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
