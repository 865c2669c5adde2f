// SPDX-License-Identifier: Apache-2.0
// libtile's C++ API: compile tile kernels from source text and launch them. No Python is involved.
//
//   #include <libtile.h>
//   const libtile::Program program = libtile::Program::fromFile("add.py");
//   const libtile::Device cpu = libtile::Device::open("cpu");
//   const libtile::Function add = program.function("add");
//   add.launch(cpu, {(n + 1023) / 1024}, {x, y, out, n, {"BLOCK", 1024}}); // x, y, out: addresses of n floats
//   const libtile::Kernel kernel = add.compile(
//       "sm_90a", {libtile::type("*fp32:16"), libtile::type("*fp32:16"), libtile::type("*fp32:16"),
//                  libtile::type("i32"), {"BLOCK", 1024}});
//   std::puts(kernel.text("ptx").c_str());
//
// Everything here is inline code over libtile_c.h, which has the rules for threads, lifetimes and
// unloading: no type of the C++ library and no exception crosses libtile.so, so it goes with any
// compiler of C++17 and any C++ library.
//
// Errors are exceptions of the type libtile::Error, with file, line, column and a caret for errors in a
// kernel. Objects are handles: copying one shares it; an empty one is refused.
#pragma once

#include "libtile_arguments.h"

namespace libtile {

// Of one to three extents, of any type of integers.
struct Grid {
  template <class X, class Y = int, class Z = int,
            std::enable_if_t<std::is_integral_v<X> && std::is_integral_v<Y> && std::is_integral_v<Z>, int> = 0>
  Grid(X x, Y y = 1, Z z = 1)
      : extents{static_cast<int64_t>(x), static_cast<int64_t>(y), static_cast<int64_t>(z)} {}
  int64_t extents[3];
};

// Of compilations and launches, by name (docs/options.md): {{"num_warps", 8}, {"maxnreg", 64}}; flags are
// 0 or 1. Make a set once, and launch with it often. An empty one is the standard.
class Options : public detail::Handle<libtile_options, libtile_options_retain, libtile_options_release> {
public:
  Options() = default;
  Options(std::initializer_list<libtile_option> options) {
    detail::check(libtile_options_create(options.begin(), options.size(), place()));
  }
};

class Device : public detail::Handle<libtile_device, libtile_device_retain, libtile_device_release> {
public:
  // "cpu", "interpreter", "cuda", "cuda:1", "hip", ... Throws Error (Device) if there is none.
  static Device open(const std::string &name) {
    Device device;
    detail::check(libtile_device_open(name.c_str(), device.place()));
    return device;
  }
  static std::vector<std::string> available() {
    const char *const *names = nullptr;
    size_t count = 0;
    detail::check(libtile_devices(&names, &count));
    return {names, names + count};
  }
  [[nodiscard]] std::string name() const { return ask(libtile_device_name); }
  // The best target of the device: "avx512bf16", "sm_90a", ...
  [[nodiscard]] std::string target() const { return ask(libtile_device_target); }
  [[nodiscard]] Buffer allocate(size_t bytes) const {
    Buffer buffer;
    detail::check(libtile_buffer_create(get(), bytes, buffer.place()));
    return buffer;
  }
  void copyToDevice(void *device, const void *host, size_t bytes) const {
    detail::check(libtile_copy_to_device(get(), device, host, bytes));
  }
  void copyToHost(void *host, const void *device, size_t bytes) const {
    detail::check(libtile_copy_to_host(get(), host, device, bytes));
  }
  // Waits for the stream (a CUstream or hipStream_t); nullptr: for everything on the device.
  void synchronize(void *stream = nullptr) const {
    detail::check(libtile_device_synchronize(get(), stream));
  }

private:
  std::string ask(libtile_status (*question)(libtile_device *, const char **)) const {
    const char *answer = nullptr;
    detail::check(question(get(), &answer));
    return answer;
  }
};

// A function compiled for one signature and target.
class Kernel : public detail::Handle<libtile_kernel, libtile_kernel_retain, libtile_kernel_release> {
public:
  // The kernel that save() wrote, of the same version of libtile.
  static Kernel restore(const std::string &state) {
    Kernel kernel;
    detail::check(libtile_kernel_restore(state.data(), state.size(), kernel.place()));
    return kernel;
  }
  [[nodiscard]] std::string save() const {
    const char *text = nullptr;
    size_t length = 0;
    detail::check(libtile_kernel_save(get(), &text, &length));
    return {text, length};
  }
  // Runs the grid on the device's default stream, or on `stream` (a CUstream or hipStream_t); on a CPU it returns when
  // done. The arguments are those of parameters(), by position. Throws if they do not fit.
  void launch(const Device &device, Grid grid, std::initializer_list<Argument> arguments,
              void *stream = nullptr) const {
    run(device, grid, detail::Arguments(arguments), stream);
  }
  void launch(const Device &device, Grid grid, const std::vector<Argument> &arguments,
              void *stream = nullptr) const {
    run(device, grid, detail::Arguments(arguments), stream);
  }
  // A stage as text: "tile", "laid-out", "plan", "staged", "nested", "llvm", "ptx", "asm".
  [[nodiscard]] std::string text(const std::string &stage) const {
    const char *text = nullptr;
    size_t length = 0;
    detail::check(libtile_kernel_text(get(), stage.c_str(), &text, &length));
    return {text, length};
  }
  [[nodiscard]] std::vector<std::string> stages() const { return lines(LIBTILE_STAGES); }
  [[nodiscard]] std::vector<std::string> fallbacks() const { return lines(LIBTILE_FALLBACKS); }
  [[nodiscard]] std::vector<std::string> guards() const { return lines(LIBTILE_GUARDS); }
  [[nodiscard]] std::vector<std::string> parameters() const { return lines(LIBTILE_PARAMETERS); }
  // Its texts live as long as the kernel.
  [[nodiscard]] libtile_facts facts() const {
    libtile_facts facts = {};
    facts.size = sizeof facts;
    detail::check(libtile_kernel_facts(get(), &facts));
    return facts;
  }
  [[nodiscard]] std::string target() const { return facts().target; }

private:
  void run(const Device &device, Grid grid, const detail::Arguments &arguments, void *stream) const {
    detail::check(libtile_kernel_launch(get(), device.get(), grid.extents, arguments.list,
                                        arguments.count(), stream));
  }
  std::vector<std::string> lines(int32_t which) const {
    const char *const *texts = nullptr;
    size_t count = 0;
    detail::check(libtile_kernel_lines(get(), which, &texts, &count));
    return {texts, texts + count};
  }
};

// A jit function of a program. Arguments stand for parameters by position, then by name; those that are
// not given have their default.
class Function
    : public detail::Handle<libtile_function, libtile_function_retain, libtile_function_release> {
public:
  // Runs the grid; the function is compiled for the arguments at hand, as a launch from Python does,
  // unless it has been. On a CPU it returns when done.
  void launch(const Device &device, Grid grid, std::initializer_list<Argument> arguments,
              const Options &options = {}, void *stream = nullptr) const {
    run(device, grid, detail::Arguments(arguments), options, stream);
  }
  void launch(const Device &device, Grid grid, const std::vector<Argument> &arguments,
              const Options &options = {}, void *stream = nullptr) const {
    run(device, grid, detail::Arguments(arguments), options, stream);
  }
  // Compiles for values, or types, and a target; no such device needs to be there.
  [[nodiscard]] Kernel compile(const std::string &target, const std::vector<Argument> &arguments,
                               const Options &options = {}) const {
    const detail::Arguments given(arguments);
    Kernel kernel;
    detail::check(libtile_function_compile(get(), target.c_str(), given.list, given.count(), options.get(),
                                           kernel.place()));
    return kernel;
  }
  // Forgets everything compiled of it; kernels stay valid.
  void clear() const { detail::check(libtile_function_clear(get())); }
  // As an argument of kernels of the same program, which call it.
  operator Argument() const {
    libtile_argument argument = libtile_make(LIBTILE_FUNCTION, 0);
    argument.value.function = get();
    return Argument(argument);
  }

private:
  void run(const Device &device, Grid grid, const detail::Arguments &arguments, const Options &options,
           void *stream) const {
    detail::check(libtile_launch(get(), device.get(), grid.extents, arguments.list, arguments.count(),
                                 options.get(), stream));
  }
};

// A source text with kernels in it. `globals` are values of names that it does not define:
// {{"FACTOR", 2}, {"SHAPE", libtile::tuple({4, 8})}}.
class Program : public detail::Handle<libtile_program, libtile_program_retain, libtile_program_release> {
public:
  static Program fromText(const std::string &text, const std::string &name = "<text>",
                          const std::vector<Argument> &globals = {}) {
    Program program;
    detail::check(libtile_program_from_text(text.data(), text.size(), name.c_str(), program.place()));
    program.set(globals);
    return program;
  }
  static Program fromFile(const std::string &path, const std::vector<Argument> &globals = {}) {
    Program program;
    detail::check(libtile_program_from_file(path.c_str(), program.place()));
    program.set(globals);
    return program;
  }
  // The jit function of that name, the same each time; "": the only one.
  [[nodiscard]] Function function(const std::string &name = "") const {
    Function function;
    detail::check(libtile_program_function(get(), name.c_str(), function.place()));
    return function;
  }

private:
  void set(const std::vector<Argument> &globals) {
    for (const Argument &global : globals) {
      const detail::Arguments value(std::initializer_list<Argument>{global});
      detail::check(libtile_program_set_global(get(), value.list[0].name, value.list, value.count()));
    }
  }
};

// Ends the CPU launches under way in all threads within a second: they throw Error (Device), and their arrays
// hold whatever was written. Launches of microseconds end as they are. May be called by a signal handler.
inline void interruptLaunches() noexcept { libtile_interrupt_launches(); }
// Threads that CPU kernels use; 0: all cores. LIBTILE_NUM_THREADS sets the first value.
inline void setNumThreads(int threads) { detail::check(libtile_set_num_threads(threads)); }
inline int numThreads() { return libtile_num_threads(); }
// Who gets what kernels print on CPUs; null: C's standard output. libtile_c.h says how long the struct stays.
inline void setPrinter(const libtile_printer *printer) { detail::check(libtile_set_printer(printer)); }
// Whether, where and up to how many bytes compiled code is kept on disk (docs/caching.md); nothing: as the environment
// says. For what is compiled from here on.
inline void setCache(std::optional<bool> isOn, std::optional<std::string> folder = {},
                     std::optional<int64_t> maxBytes = {}) {
  detail::check(libtile_set_cache(isOn ? int{*isOn} : -1, folder ? folder->c_str() : nullptr, maxBytes.value_or(-1)));
}
// Of the library that runs; LIBTILE_VERSION_MAJOR ... are of this header.
inline std::string version() { return libtile_version(); }

} // namespace libtile
