// SPDX-License-Identifier: Apache-2.0
// How a kernel on AMD's GPUs says something: it appends records to a buffer of the device, which the driver reads after it has
// waited, and writes out. The buffer's address is in a variable of the kernel's code, `libtile_records`, that the driver sets when
// it loads the code.
#pragma once

#include <cstdint>

namespace libtile::codegen::amd {

inline constexpr char kRecordsVariable[] = "libtile_records";

struct RecordsVariable {
  uint64_t buffer;   // address of a RecordBuffer on the device
  uint32_t firstLine; // what the code's first line (KernelInfo::records) is called in records
  uint32_t reserved;
};

// Records follow: the number of the line, how many arguments it has, and these, 8 bytes each: integers in the low bits, floats as
// doubles. What is asked for behind `capacity` is not written.
struct RecordBuffer {
  uint32_t used;     // bytes of records, asked for so far
  uint32_t capacity;
};

} // namespace libtile::codegen::amd
