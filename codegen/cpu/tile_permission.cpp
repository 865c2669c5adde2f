// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/tile_permission.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace libtile::codegen::cpu {

namespace {

bool ask() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023; // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  constexpr long kTileData = 18;              // the component of XSAVE
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

} // namespace

bool tilesPermitted() {
  static const bool permitted = ask();
  return permitted;
}

} // namespace libtile::codegen::cpu
