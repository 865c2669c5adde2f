// SPDX-License-Identifier: Apache-2.0
// libtile.h as a C++ program uses it: what fits, what is refused, errors with their place.
#include <libtile.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

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

const std::map<std::string, ParameterType> kTypes = {{"x", {"*fp32"}}, {"out", {"*fp32"}}, {"n", {"i32"}}};
const std::map<std::string, Constant> kGlobals = {{"FACTOR", int64_t{2}}};

Kernel compileIt(const std::map<std::string, Constant> &constants = {{"BLOCK", int64_t{64}}},
                 const std::map<std::string, Constant> &globals = kGlobals) {
  return Program::fromText(kText, "text.py")
      .compile("kernel", Device::open("cpu").target(), kTypes, constants, {}, globals);
}

template <class F> Error failure(F &&body) {
  try {
    body();
  } catch (const Error &error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(Error::Kind::Internal, "");
}

} // namespace

TEST(Api, GlobalsConstantsAndDefaults) {
  const Device cpu = Device::open("cpu");
  std::vector<float> x(100, 3), out(100);
  compileIt().launch(cpu, {2, 1, 1}, {x.data(), out.data(), 100});
  EXPECT_EQ(out, std::vector<float>(100, 6));
  compileIt({{"BLOCK", int64_t{64}}, {"SHIFT", int64_t{1}}}).launch(cpu, {2, 1, 1}, {x.data(), out.data(), 100});
  EXPECT_EQ(out, std::vector<float>(100, 7));
  compileIt({{"BLOCK", int64_t{64}}}, {{"FACTOR", 0.5}}).launch(cpu, {2, 1, 1}, {x.data(), out.data(), 100});
  EXPECT_EQ(out, std::vector<float>(100, 1.5));
}

// Functions whose bodies are in the kernel language themselves, in a program without Python.
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
                            .compile("kernel", Device::open("cpu").target(), kTypes, {{"BLOCK", int64_t{128}}});
  std::vector<float> x(100), out(100);
  for (int i = 0; i < 100; ++i) {
    x[static_cast<size_t>(i)] = 0.25F * static_cast<float>(i - 50);
  }
  kernel.launch(Device::open("cpu"), {1, 1, 1}, {x.data(), out.data(), 100});
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(out[i], std::log1p(std::exp(static_cast<double>(x[i]))) + 13, 3e-6);
  }
}

TEST(Api, ErrorsHaveTheirPlace) {
  const Error error = failure([] {
    (void)Program::fromText(kText, "text.py").compile("wrong", "avx512", {{"x", {"*fp32"}}});
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
  const Kernel aligned = Program::fromText(kText).compile(
      "kernel", cpu.target(), {{"x", {"*fp32", 16}}, {"out", {"*fp32"}}, {"n", {"i32"}}},
      {{"BLOCK", int64_t{64}}}, {}, kGlobals);
  alignas(16) float four[4] = {};
  EXPECT_EQ(failure([&] { aligned.launch(cpu, {1, 1, 1}, {four + 1, four, 1}); }).kind(),
            Error::Kind::User);
}

TEST(Api, RefusedCompilations) {
  const Program program = Program::fromText(kText);
  const std::map<std::string, Constant> block = {{"BLOCK", int64_t{64}}};
  const auto compile = [&](const char *name, const char *target, auto types, auto constants) {
    return failure([&] { (void)program.compile(name, target, types, constants, {}, kGlobals); });
  };
  EXPECT_NE(std::string(compile("nothing", "avx512", kTypes, block).what()).find("nothing"),
            std::string::npos);
  EXPECT_NE(std::string(compile("kernel", "z80", kTypes, block).what()).find("z80"), std::string::npos);
  EXPECT_NE(std::string(compile("kernel", "avx512", kTypes, std::map<std::string, Constant>{}).what())
                .find("BLOCK"),
            std::string::npos);
  auto more = kTypes;
  more["z"] = {"i32"};
  EXPECT_NE(std::string(compile("kernel", "avx512", more, block).what()).find("'z'"), std::string::npos);
  auto strange = kTypes;
  strange["n"] = {"i33"};
  EXPECT_NE(std::string(compile("kernel", "avx512", strange, block).what()).find("i33"), std::string::npos);
  EXPECT_THROW((void)Program::fromFile("/nowhere.py"), Error);
  EXPECT_THROW((void)Device::open("cuda:77"), Error);
}

TEST(Api, CodeForAnotherTargetIsNotRun) {
  const Kernel kernel = Program::fromText(kText).compile("kernel", "sm_80", kTypes, {{"BLOCK", int64_t{64}}},
                                                         {}, kGlobals);
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
  EXPECT_THROW((void)kernel.text("nothing"), Error);
}

TEST(Api, ThreadsCompileAndLaunch) {
  const Program program = Program::fromText(kText);
  const Device cpu = Device::open("cpu");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Kernel kernel = program.compile("kernel", cpu.target(), kTypes,
                                            {{"BLOCK", int64_t{32}}, {"SHIFT", t % 4}}, {}, kGlobals);
      std::vector<float> x(1000, 1), out(1000);
      for (int round = 0; round < 20; ++round) {
        kernel.launch(cpu, {32, 1, 1}, {x.data(), out.data(), 1000});
        wrong += out == std::vector<float>(1000, 2 + static_cast<float>(t % 4)) ? 0 : 1;
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong.load(), 0);
}

// A handle that no call made is refused, not followed.
TEST(Api, LaunchesAreInterrupted) {
  const Device cpu = Device::open("cpu");
  const Kernel wait = Program::fromText(kText, "text.py")
                          .compile("wait", cpu.target(), {{"flag", {"*i32"}}, {"out", {"*i32"}}});
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

TEST(Api, EmptyHandles) {
  const Device cpu = Device::open("cpu");
  float x = 0;
  const Kernel kernel;
  const Device device;
  const Buffer buffer;
  for (const Error &error :
       {failure([&] { kernel.launch(cpu, {1, 1, 1}, {&x}); }), failure([&] { (void)kernel.text("tile"); }),
        failure([&] { (void)kernel.target(); }), failure([&] { (void)kernel.stages(); }),
        failure([&] { (void)kernel.fallbacks(); }), failure([&] { (void)Program().compile("k", "cpu", {}); }),
        failure([&] { compileIt().launch(device, {1, 1, 1}, {&x, &x, 1}); }),
        failure([&] { (void)device.name(); }), failure([&] { (void)device.target(); }),
        failure([&] { (void)device.allocate(1); }), failure([&] { device.copyToHost(&x, &x, 4); }),
        failure([&] { device.synchronize(); }), failure([&] { (void)Argument(buffer); })}) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
    EXPECT_NE(std::string(error.what()).find("is an empty handle"), std::string::npos) << error.what();
  }
}

TEST(Api, MultiplesAreAtLeastOne) {
  for (const int64_t divisible : {int64_t{0}, int64_t{-16}, INT64_MIN}) {
    auto types = kTypes;
    types["x"].divisible = divisible;
    const Error error = failure([&] {
      (void)Program::fromText(kText).compile("kernel", "avx512", types, {{"BLOCK", int64_t{64}}}, {}, kGlobals);
    });
    EXPECT_EQ(error.kind(), Error::Kind::User);
    EXPECT_NE(std::string(error.what()).find("`x` cannot be a multiple of"), std::string::npos) << error.what();
  }
}

// out[i] = 2 x[i] for all i before any of them is stored: by the general code where the arrays overlap, or
// where nobody says how long they are.
TEST(Api, ArraysThatOverlap) {
  const Device cpu = Device::open("cpu");
  const Kernel kernel = compileIt({{"BLOCK", int64_t{256}}});
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
