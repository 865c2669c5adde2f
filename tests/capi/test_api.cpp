// SPDX-License-Identifier: Apache-2.0
// libtile.h as a C++ program uses it: compiled kernels, what fits, what is refused, errors with their place.
#include <libtile.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>
#include <unistd.h>

using namespace libtile;

namespace {

const char *const kText = R"(
SIZE = 4

@libtile.jit
def twice(x):
    return x * FACTOR

@libtile.jit
def kernel(x, out, n, BLOCK: tl.constexpr, SHIFT: tl.constexpr = 0):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, twice(tl.load(x + i, mask=i < n)) + SHIFT, mask=i < n)

@libtile.jit
def wrong(x):
    tl.store(x, nowhere)

@libtile.jit
def wait(flag, out):
    value = tl.load(flag, volatile=True)
    while value == 0:
        value = tl.load(flag, volatile=True)
    tl.store(out + tl.program_id(0), value)
)";

const Argument kFloats = type("*fp32"), kInteger = type("i32");

// For a *fp32, a *fp32, an i32, and what is given beside.
Kernel compileIt(std::vector<Argument> constants = {{"BLOCK", 64}}, const Argument &factor = {"FACTOR", 2}) {
  constants.insert(constants.begin(), {kFloats, kFloats, kInteger});
  return Program::fromText(kText, "text.py", {factor})
      .function("kernel")
      .compile(Device::open("cpu").target(), constants);
}

template <class F> Error failure(F &&body) {
  try {
    body();
  } catch (const Error &error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error({sizeof(libtile_error), LIBTILE_ERROR_INTERNAL, 0, 0, "", "", "", ""});
}

} // namespace

TEST(Api, GlobalsConstantsAndDefaults) {
  const Device cpu = Device::open("cpu");
  std::vector<float> x(100, 3), out(100);
  compileIt().launch(cpu, {2}, {x.data(), out.data(), 100});
  EXPECT_EQ(out, std::vector<float>(100, 6));
  compileIt({{"BLOCK", 64}, {"SHIFT", 1}}).launch(cpu, {2}, {x.data(), out.data(), 100});
  EXPECT_EQ(out, std::vector<float>(100, 7));
  compileIt({{"BLOCK", 64}}, {"FACTOR", 0.5}).launch(cpu, {2}, {x.data(), out.data(), 100});
  EXPECT_EQ(out, std::vector<float>(100, 1.5));
}

// Functions whose bodies are in the kernel language themselves, in a program without Python.
TEST(Api, CompiledCodeIsKeptOnDisk) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("cache" + std::to_string(getpid()));
  const auto cache = [] {
    const Function twice = Program::fromText(kText, "text.py", {{"FACTOR", 2}}).function("kernel");
    return std::string(twice.compile("cpu", {kFloats, kFloats, kInteger, 64}).facts().cache);
  };
  setCache(true, folder.string());
  EXPECT_EQ(cache(), "stored");
  EXPECT_EQ(cache(), "hit");
  setCache(true, folder.string(), 0);
  EXPECT_TRUE(cache().starts_with("not stored: "));
  setCache(false);
  EXPECT_EQ(cache(), "off");
  setCache({});
  std::filesystem::remove_all(folder);
  EXPECT_EQ(libtile_set_cache(2, nullptr, -1), LIBTILE_ERROR_USER);
}

TEST(Api, ElementaryFunctions) {
  const char *const text = R"(
import libtile.language as tl

@libtile.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    tl.store(out + i, tl.log(1 + tl.exp(a)) + tl.cdiv(n, 8), mask=i < n)
)";
  const Kernel kernel = Program::fromText(text, "text.py")
                            .function()
                            .compile(Device::open("cpu").target(), {kFloats, kFloats, kInteger, {"BLOCK", 128}});
  std::vector<float> x(100), out(100);
  for (int i = 0; i < 100; ++i) {
    x[static_cast<size_t>(i)] = 0.25F * static_cast<float>(i - 50);
  }
  kernel.launch(Device::open("cpu"), 1, {x.data(), out.data(), 100});
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(out[i], std::log1p(std::exp(static_cast<double>(x[i]))) + 13, 3e-6);
  }
}

TEST(Api, ErrorsHaveTheirPlace) {
  const Error error = failure([] {
    (void)Program::fromText(kText, "text.py").function("wrong").compile("avx512", {kFloats});
  });
  EXPECT_EQ(error.kind(), Error::Kind::User);
  EXPECT_EQ(error.file(), "text.py");
  EXPECT_EQ(error.line(), 15);
  EXPECT_EQ(error.column(), 17);
  EXPECT_NE(std::string(error.what()).find("^"), std::string::npos);
}

TEST(Api, WhatDoesNotFit) {
  const Device cpu = Device::open("cpu");
  const Kernel kernel = compileIt();
  float x = 0;
  EXPECT_EQ(failure([&] { kernel.launch(cpu, {1, 1, 1}, {&x, &x}); }).kind(), Error::Kind::User);
  EXPECT_EQ(failure([&] { kernel.launch(cpu, {1, 1, 1}, {&x, 1, 1}); }).kind(), Error::Kind::User);
  EXPECT_EQ(failure([&] { kernel.launch(cpu, {1, 1, 1}, {&x, &x, 1.0}); }).kind(), Error::Kind::User);
  EXPECT_EQ(failure([&] { kernel.launch(cpu, {1, 1, 1}, {&x, &x, int64_t{1} << 40}); }).kind(),
            Error::Kind::User);
  EXPECT_EQ(failure([&] { kernel.launch(cpu, {-1, 1, 1}, {&x, &x, 1}); }).kind(), Error::Kind::User);
  kernel.launch(cpu, {0, 1, 1}, {&x, &x, 1});
  const float *constant = &x;
  const Error readOnly = failure([&] { kernel.launch(cpu, {1, 1, 1}, {constant, constant, 1}); });
  EXPECT_STREQ(readOnly.what(), "argument 'out' is a read-only array, and the kernel stores to it");
  const Kernel aligned = Program::fromText(kText, "text.py", {{"FACTOR", 2}})
                             .function("kernel")
                             .compile(cpu.target(), {type("*fp32:16"), kFloats, kInteger, {"BLOCK", 64}});
  alignas(16) float four[4] = {};
  EXPECT_EQ(failure([&] { aligned.launch(cpu, {1, 1, 1}, {four + 1, four, 1}); }).kind(),
            Error::Kind::User);
}

TEST(Api, RefusedCompilations) {
  const Function kernel = Program::fromText(kText, "text.py", {{"FACTOR", 2}}).function("kernel");
  const auto message = [&](const char *target, std::vector<Argument> arguments) {
    return std::string(failure([&] { (void)kernel.compile(target, arguments); }).what());
  };
  EXPECT_NE(message("z80", {kFloats, kFloats, kInteger, 64}).find("z80"), std::string::npos);
  EXPECT_NE(message("avx512", {kFloats, kFloats, kInteger}).find("no argument for 'BLOCK'"), std::string::npos);
  EXPECT_NE(message("avx512", {kFloats, kFloats, kInteger, 64, {"z", kInteger}}).find("'z'"), std::string::npos);
  EXPECT_NE(message("avx512", {kFloats, kFloats, type("i33"), 64}).find("i33"), std::string::npos);
  EXPECT_NE(message("avx512", {kFloats, kFloats, kInteger, kInteger}).find("'BLOCK' is a constexpr"),
            std::string::npos);
  EXPECT_NE(std::string(failure([&] { (void)Program::fromText(kText).function("nothing"); }).what())
                .find("nothing"),
            std::string::npos);
  EXPECT_THROW((void)Program::fromFile("/nowhere.py"), Error);
  EXPECT_THROW((void)Device::open("cuda:77"), Error);
}

TEST(Api, CodeForAnotherTargetIsNotRun) {
  const Kernel kernel = Program::fromText(kText, "text.py", {{"FACTOR", 2}})
                            .function("kernel")
                            .compile("sm_80", {kFloats, kFloats, kInteger, 64});
  float x = 0;
  EXPECT_EQ(failure([&] { kernel.launch(Device::open("cpu"), {1, 1, 1}, {&x, &x, 1}); }).kind(),
            Error::Kind::User);
  EXPECT_NE(kernel.text("ptx").find(".target sm_80"), std::string::npos);
}

TEST(Api, Stages) {
  const Kernel kernel = compileIt();
  ASSERT_FALSE(kernel.stages().empty());
  for (const std::string &stage : kernel.stages()) {
    EXPECT_FALSE(kernel.text(stage).empty()) << stage;
  }
  EXPECT_TRUE(kernel.fallbacks().empty());
  EXPECT_EQ(kernel.parameters(), (std::vector<std::string>{"x", "out", "n"}));
  EXPECT_EQ(kernel.guards(), (std::vector<std::string>{"x and out do not overlap"}));
  EXPECT_THROW((void)kernel.text("nothing"), Error);
}

TEST(Api, SavedAndRestored) {
  const Device cpu = Device::open("cpu");
  const std::string state = compileIt().save();
  std::vector<float> x(100, 3), out(100);
  Kernel::restore(state).launch(cpu, {2}, {x.data(), out.data(), 100});
  EXPECT_EQ(out, std::vector<float>(100, 6));
  EXPECT_THROW((void)Kernel::restore(state.substr(3)), Error);
}

TEST(Api, LaunchesAreInterrupted) {
  const Device cpu = Device::open("cpu");
  const Kernel wait =
      Program::fromText(kText, "text.py").function("wait").compile(cpu.target(), {type("*i32"), type("*i32")});
  std::vector<int32_t> flag(1), out(64);
  std::atomic<bool> ended{false};
  std::thread user([&] {
    const Error error = failure([&] { wait.launch(cpu, {64, 1, 1}, {flag.data(), out.data()}); });
    EXPECT_EQ(error.kind(), Error::Kind::Device);
    EXPECT_STREQ(error.what(), "the launch was interrupted");
    ended.store(true);
  });
  while (!ended.load()) {
    interruptLaunches();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  user.join();
  // The pool is as it was, and so is the kernel.
  flag[0] = 3;
  wait.launch(cpu, {64, 1, 1}, {flag.data(), out.data()});
  EXPECT_EQ(out, std::vector<int32_t>(64, 3));
}

// A handle that no call made is refused, not followed.
TEST(Api, EmptyHandles) {
  const Device cpu = Device::open("cpu");
  float x = 0;
  const Kernel kernel;
  const Device device;
  const Buffer buffer;
  for (const Error &error :
       {failure([&] { kernel.launch(cpu, {1, 1, 1}, {&x}); }), failure([&] { (void)kernel.text("tile"); }),
        failure([&] { (void)kernel.target(); }), failure([&] { (void)kernel.stages(); }),
        failure([&] { (void)kernel.fallbacks(); }), failure([&] { (void)Program().function("k"); }),
        failure([&] { (void)Function().compile("cpu", {}); }), failure([&] { Function().launch(cpu, 1, {}); }),
        failure([&] { Function().clear(); }), failure([&] { (void)kernel.save(); }),
        failure([&] { compileIt().launch(device, {1, 1, 1}, {&x, &x, 1}); }),
        failure([&] { (void)device.name(); }), failure([&] { (void)device.target(); }),
        failure([&] { (void)device.allocate(1); }), failure([&] { device.copyToHost(&x, &x, 4); }),
        failure([&] { device.synchronize(); }), failure([&] { (void)Argument(buffer); })}) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
    EXPECT_NE(std::string(error.what()).find("is an empty handle"), std::string::npos) << error.what();
  }
}

TEST(Api, MultiplesAreAtLeastOne) {
  const Function kernel = Program::fromText(kText, "text.py", {{"FACTOR", 2}}).function("kernel");
  for (const char *wrong : {"*fp32:0", "*fp32:-16", "*fp32:", "*fp32:x", "*fp32:4294967296"}) {
    const Error error = failure([&] { (void)kernel.compile("avx512", {type(wrong), kFloats, kInteger, 64}); });
    EXPECT_EQ(error.kind(), Error::Kind::User);
    EXPECT_EQ(std::string(error.what()),
              "argument 'x': '" + std::string(wrong) + "' says no multiple behind the colon");
  }
}

// out[i] = 2 x[i] for all i before any of them is stored: by the general code where the arrays overlap, or
// where nobody says how long they are.
TEST(Api, ArraysThatOverlap) {
  const Device cpu = Device::open("cpu");
  const Kernel kernel = compileIt({{"BLOCK", 256}});
  const size_t bytes = 200 * sizeof(float);
  for (const size_t said : {size_t{0}, bytes}) {
    for (const int shift : {0, 1, 7, 200}) {
      std::vector<float> memory(400), want(400);
      for (int i = 0; i < 400; ++i) {
        memory[i] = want[i] = static_cast<float>(i);
      }
      for (int i = 0; i < 200; ++i) {
        want[i + shift] = 2 * static_cast<float>(i);
      }
      kernel.launch(cpu, {1, 1, 1}, {{memory.data(), said}, {memory.data() + shift, said}, 200});
      EXPECT_EQ(memory, want) << said << " " << shift;
    }
  }
  const Buffer buffer = cpu.allocate(bytes);
  std::vector<float> x(200, 3), out(200);
  kernel.launch(cpu, {1, 1, 1}, {Argument(x.data(), bytes), buffer, 200});
  cpu.copyToHost(out.data(), buffer.data(), bytes);
  EXPECT_EQ(out, std::vector<float>(200, 6));
}

// They are checked with the option alone, and a launch goes on as ever after one that failed.
TEST(Api, Assertions) {
  const Device cpu = Device::open("cpu");
  const Function copy = Program::fromText("@libtile.jit\n"
                                          "def copy(x, out, n, BLOCK: tl.constexpr):\n"
                                          "    i = tl.arange(0, BLOCK)\n"
                                          "    a = tl.load(x + i, mask=i < n)\n"
                                          "    tl.device_assert(a > 0, '100% above 0', mask=i < n)\n"
                                          "    tl.store(out + i, a, mask=i < n)\n",
                                          "copy.py")
                            .function("copy");
  std::vector<float> x(100, 3), out(100);
  const auto run = [&](int n, const Options &options) {
    copy.launch(cpu, {1}, {x.data(), out.data(), n, 128}, options);
  };
  x[99] = 0;
  run(99, {{"debug", 1}});
  run(100, {});
  EXPECT_EQ(out, x);
  out.assign(100, 7);
  const Error error = failure([&] { run(100, {{"debug", 1}}); });
  EXPECT_EQ(error.kind(), Error::Kind::User);
  EXPECT_EQ(error.file(), "copy.py");
  EXPECT_EQ(error.line(), 5);
  const std::string text = error.what();
  EXPECT_NE(text.find("assertion failed: 100% above 0; in copy, program (0, 0, 0)"), std::string::npos) << text;
  EXPECT_EQ(out, std::vector<float>(100, 7));
}

// Of arrays whose size is said; of others nothing is known.
TEST(Api, AccessesOutOfBounds) {
  const Device cpu = Device::open("cpu");
  const Function copy = Program::fromText("@libtile.jit\n"
                                          "def copy(x, out, n, BLOCK: tl.constexpr):\n"
                                          "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
                                          "    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)\n",
                                          "copy.py")
                            .function("copy");
  const Options checked = {{"check", 1}};
  const std::vector<float> x(1000, 3);
  std::vector<float> out(1000);
  const auto run = [&](size_t bytes, int n) {
    copy.launch(cpu, {8}, {Argument(x.data(), bytes), out.data(), n, 128}, checked);
  };
  run(1000 * sizeof(float), 1000);
  EXPECT_EQ(out, x);
  run(0, 1000);
  const Error error = failure([&] { run(950 * sizeof(float), 1000); });
  EXPECT_EQ(error.kind(), Error::Kind::User);
  EXPECT_EQ(error.file(), "copy.py");
  EXPECT_EQ(error.line(), 4);
  const std::string text = error.what();
  EXPECT_NE(text.find("x[950] is out of bounds: x holds 0 .. 949; read by program (7, 0, 0)"), std::string::npos)
      << text;
  const Kernel kernel = copy.compile(cpu.target(), {kFloats, kFloats, kInteger, 128}, checked);
  const Buffer buffer = cpu.allocate(100 * sizeof(float));
  kernel.launch(cpu, {1}, {buffer, out.data(), 100});
  EXPECT_NE(std::string(failure([&] { kernel.launch(cpu, {1}, {buffer, out.data(), 101}); }).what())
                .find("x[100] is out of bounds: x holds 0 .. 99; read by program (0, 0, 0)"),
            std::string::npos);
}

// Of its own memory the interpreter knows what was written; of other memory what it is told.
TEST(Api, TheInterpreter) {
  const Device interpreter = Device::open("interpreter");
  EXPECT_EQ(interpreter.target(), "interpreter");
  const Function function = Program::fromText(kText, "text.py", {{"FACTOR", 2}}).function("kernel");
  const Kernel kernel =
      function.compile(interpreter.target(), {kFloats, kFloats, kInteger, {"BLOCK", 64}, {"SHIFT", 5}});
  std::vector<float> x(100), out(100);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
  }
  const auto run = [&](const Argument &from, int n) { kernel.launch(interpreter, {2}, {from, out.data(), n}); };
  function.launch(interpreter, {2}, {x.data(), out.data(), 100, 64, 5});
  EXPECT_EQ(out[0], 5);
  EXPECT_EQ(out[99], 203);
  const auto says = [&](const Argument &from, int n) {
    const Error error = failure([&] { run(from, n); });
    EXPECT_EQ(error.kind(), Error::Kind::User);
    EXPECT_EQ(error.line(), 11);
    return std::string(error.what());
  };
  EXPECT_NE(says({x.data(), 396}, 100).find("x[99] is out of bounds: x holds 0 .. 98; read by program (1, 0, 0), "
                                            "element (35)"),
            std::string::npos);
  const Buffer buffer = interpreter.allocate(400);
  interpreter.copyToDevice(buffer.data(), x.data(), 200);
  EXPECT_NE(says(buffer, 100).find("x[50] is not initialised: nothing was written there; read by program (0, 0, 0), "
                                   "element (50)"),
            std::string::npos);
  run(buffer, 50);
}
