// SPDX-License-Identifier: Apache-2.0
// libtile's C++ API: compile tile kernels from source text and launch them. No Python is involved.
//
//   #include <libtile.h>
//   const libtile::Program program = libtile::Program::fromFile("add.py");
//   const libtile::Device cpu = libtile::Device::open("cpu");
//   const libtile::Kernel add = program.compile(
//       "add", cpu.target(), {{"x", {"*fp32"}}, {"y", {"*fp32"}}, {"out", {"*fp32"}}, {"n", {"i32"}}},
//       {{"BLOCK", int64_t{1024}}});
//   add.launch(cpu, {(n + 1023) / 1024, 1, 1}, {x, y, out, n}); // x, y, out: addresses of n floats
//
// Errors are exceptions derived from libtile::Error, with file, line, column and a caret for errors
// in a kernel. Objects are handles: copying one shares it; an empty one is refused. All calls are
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#if defined(LIBTILE_BUILDING)
#define LIBTILE_API __attribute__((visibility("default")))
#else
#define LIBTILE_API
#endif

namespace libtile {

class LIBTILE_API Error : public std::runtime_error {
public:
  enum class Kind { User, Unsupported, Internal, Device };
  Error(Kind kind, const std::string &what, std::string file = {}, int line = 0, int column = 0);
  ~Error() override;
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] const std::string &file() const { return file_; } // "" if not in a kernel
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] int column() const { return column_; }

private:
  Kind kind_;
  std::string file_;
  int line_, column_;
};

// A compile-time constant: None, bool, int, float, str.
using Constant = std::variant<std::monostate, bool, int64_t, double, std::string>;

// A run-time parameter: its type ("*fp32", "i32", "fp64", ...) and what its values are multiples of
// (pointers: bytes).
struct LIBTILE_API ParameterType {
  std::string type;
  int64_t divisible = 1;
};

class Buffer;

// A run-time argument. Pointers are device addresses; `bytes` says how much of the memory behind one the
// kernel may touch, which lets it run faster code where arrays do not overlap (0: not known).
struct LIBTILE_API Argument {
  Argument(const void *pointer, size_t bytes = 0);
  Argument(const Buffer &buffer);
  Argument(bool value);
  Argument(int32_t value);
  Argument(int64_t value);
  Argument(float value);
  Argument(double value);
  uint64_t bits = 0, bytes = 0;
  enum class Kind : uint8_t { Pointer, Bool, Int, Float32, Float64 } kind;
};

class Device;

class LIBTILE_API Kernel {
public:
  // Runs the grid on the device's default stream, or on `stream` (a CUstream); on a CPU it returns
  // when done. Throws if the arguments do not fit the signature.
  void launch(const Device &device, std::array<int64_t, 3> grid, const std::vector<Argument> &arguments,
              void *stream = nullptr) const;
  // A stage as text: "tile", "laid-out", "staged", "nested", "llvm", "ptx", "asm".
  [[nodiscard]] std::string text(const std::string &stage) const;
  [[nodiscard]] std::vector<std::string> stages() const;
  [[nodiscard]] const std::vector<std::string> &fallbacks() const;
  [[nodiscard]] const std::string &target() const;

  struct Impl;
  std::shared_ptr<Impl> impl;
};

struct LIBTILE_API CompileOptions {
  int numWarps = 0;  // 0: the compiler's choice
  int numStages = 0; // likewise
  // Others by name (docs/options.md): {"maxnreg", 64}; flags are 0 or 1.
  std::map<std::string, int64_t> others = {};
};

// A source text with kernels in it.
class LIBTILE_API Program {
public:
  static Program fromText(const std::string &text, const std::string &name = "<text>");
  static Program fromFile(const std::string &path);
  // Each parameter of the kernel stands in exactly one of `types` and `constants`, or has a default.
  // `globals` answers for names that the text does not define.
  [[nodiscard]] Kernel compile(const std::string &kernel, const std::string &target,
                               const std::map<std::string, ParameterType> &types,
                               const std::map<std::string, Constant> &constants = {},
                               const CompileOptions &options = {},
                               const std::map<std::string, Constant> &globals = {}) const;

  struct Impl;
  std::shared_ptr<Impl> impl;
};

// Memory of a device, freed with the last handle.
class LIBTILE_API Buffer {
public:
  [[nodiscard]] void *data() const;
  [[nodiscard]] size_t bytes() const;

  struct Impl;
  std::shared_ptr<Impl> impl;
};

class LIBTILE_API Device {
public:
  // "cpu", "cuda" or "cuda:1". Throws Error (Device) if there is none.
  static Device open(const std::string &name);
  static std::vector<std::string> available();
  [[nodiscard]] const std::string &name() const;
  // The best target of the device: "avx512bf16", "sm_90a", ...
  [[nodiscard]] const std::string &target() const;
  [[nodiscard]] Buffer allocate(size_t bytes) const;
  void copyToDevice(void *device, const void *host, size_t bytes) const;
  void copyToHost(void *host, const void *device, size_t bytes) const;
  void synchronize() const;

  struct Impl;
  std::shared_ptr<Impl> impl;
};

// Ends the CPU launches under way in all threads within a second: they throw Error (Device), and their arrays
// hold whatever was written. Launches of microseconds end as they are. May be called by a signal handler.
LIBTILE_API void interruptLaunches() noexcept;
// Threads that CPU kernels use; 0: all cores. LIBTILE_NUM_THREADS sets the first value.
LIBTILE_API void setNumThreads(int threads);
LIBTILE_API int numThreads();
LIBTILE_API const char *version();

} // namespace libtile
