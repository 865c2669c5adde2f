// SPDX-License-Identifier: Apache-2.0
// DLPack's structures, as its specification gives them, and the table of C functions that a type of
// arrays may offer beside __dlpack__() (DLPack 1.3, torch from 2.10): an array is read without a call
// through the interpreter. https://dmlc.github.io/dlpack/latest/
#pragma once

#include <cstdint>

namespace libtile::python {

struct DlTensor {
  void *data;
  int32_t deviceType, deviceId;
  int32_t rank;
  uint8_t typeCode, typeBits;
  uint16_t lanes;
  int64_t *shape, *strides; // in elements
  uint64_t byteOffset;
};

// deviceType
constexpr int32_t kDlCpu = 1, kDlCuda = 2, kDlCudaHost = 3, kDlRocm = 10, kDlRocmHost = 11;

struct DlVersion {
  uint32_t major, minor;
};

// The owning form of version 1; `flags` bit 0: read-only.
struct DlManagedTensor {
  DlVersion version;
  void *manager;
  void (*deleter)(DlManagedTensor *self);
  uint64_t flags;
  DlTensor tensor;
};

// type.__dlpack_c_exchange_api__, a capsule. It lives as long as the process.
struct DlExchange {
  static constexpr const char *kAttribute = "__dlpack_c_exchange_api__";
  static constexpr const char *kCapsule = "dlpack_exchange_api";
  DlVersion version;
  DlExchange *previous;
  void *allocate, *managedFromPython, *managedToPython;
  // 0, or -1 with a Python error. Borrowed: shape and strides are the object's own.
  int (*fromPython)(void *object, DlTensor *out);
  // The stream that the library runs its own work on.
  int (*currentStream)(int32_t deviceType, int32_t deviceId, void **out);
};

} // namespace libtile::python
