// SPDX-License-Identifier: Apache-2.0
// A code object of AMD's GPUs as a loader reads it: the ELF file, the kernels' descriptors and their metadata (LLVM's "User Guide
// for AMDGPU Backend": ELF Code Object, Kernel Descriptor, Code Object V5 Metadata).
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

// What no hardware would run, or what this emulator does not know; the text says what and where.
class Fault : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

struct Argument {
  uint32_t offset = 0, bytes = 0; // in the kernel's arguments
  std::string kind;               // "by_value", "global_buffer", "hidden_block_count_x"
};

struct Kernel {
  std::string name;
  uint32_t sharedBytes = 0;   // LDS, static
  uint32_t scratchBytes = 0;  // private memory, of a lane
  uint32_t argumentBytes = 0; // with the hidden ones
  uint32_t rsrc1 = 0, rsrc2 = 0;
  uint16_t properties = 0;   // which user SGPRs there are
  uint16_t preload = 0;      // arguments in SGPRs: words and their first
  uint64_t entry = 0;        // in the image
  uint32_t vgprs = 0, sgprs = 0, agprs = 0, maxThreads = 1024;
  std::vector<Argument> arguments;

  [[nodiscard]] bool isWave32() const { return (properties >> 10 & 1) != 0; }
  [[nodiscard]] unsigned userSgprs() const { return rsrc2 >> 1 & 31; }
};

struct CodeObject {
  std::string target; // "gfx942"
  // What lies in memory, with relocations to `image.data()` done.
  std::vector<uint8_t> image;
  // Where instructions lie in the image: [first, end).
  uint64_t textBegin = 0, textEnd = 0;
  std::map<std::string, Kernel, std::less<>> kernels;
  std::map<std::string, std::pair<uint64_t, uint64_t>, std::less<>> variables; // address in the image, bytes
};

// Throws Fault if the bytes are no code object of AMD's.
[[nodiscard]] CodeObject readCodeObject(std::string_view bytes);

} // namespace emulator
