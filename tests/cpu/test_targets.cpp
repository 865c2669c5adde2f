// SPDX-License-Identifier: Apache-2.0
// The table of targets, objects for machines other than this one, loading, and errors.
#include "codegen/cpu/recent_objects.h"
#include "tests/cpu/run_nested.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace libtile::test {
namespace {

const char *const kKernel = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<f16>, %o: ptr<f16>, %n: i32) {
  nest {extents=[100], lanes=8} {
  ^(%i: i32):
    %m = cmp %i, %n {predicate=slt} : i1
    %p = ptr_add %x, %i : ptr<f16>
    %q = ptr_add %o, %i : ptr<f16>
    %v = load %p, %m : f16
    %e = exp %v : f16
    store %q, %e, %m
    yield
  }
  return
}
)";

TEST(Targets, Names) {
  const std::vector<std::string> names = codegen::targetNames();
  for (const char *name : {"x86-64-v3", "avx512", "avx512vnni", "avx512bf16", "amx", "aarch64", "aarch64-dotprod", "aarch64-bf16"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
    EXPECT_EQ(codegen::findTarget(name).name, name);
  }
  EXPECT_EQ(codegen::findTarget("cpu").name, codegen::hostTarget().name);
  EXPECT_THROW((void)codegen::findTarget("pdp11"), ir::UserError);
}

// Each row includes those before it; a GPU's code runs on no CPU.
TEST(Targets, RunsHere) {
  const std::vector<std::string> here = runnableTargets();
  ASSERT_FALSE(here.empty());
  EXPECT_TRUE(codegen::runsHere(codegen::hostTarget()));
  EXPECT_FALSE(codegen::runsHere(codegen::findTarget("sm_80")));
#if defined(__x86_64__)
  EXPECT_EQ(here.front(), "x86-64-v3");
  EXPECT_FALSE(codegen::runsHere(codegen::findTarget("aarch64")));
#endif
}

TEST(Targets, ObjectForAnotherMachine) {
  const codegen::Code code = codegen::generate(expanded(kKernel, "aarch64"), codegen::findTarget("aarch64"));
  // ELF, 64 bits, little endian, machine 183.
  ASSERT_GT(code.object.size(), 64u);
  EXPECT_EQ(std::string(code.object.data(), 6), std::string("\x7f"
                                                            "ELF\x02\x01"));
  EXPECT_EQ(static_cast<uint8_t>(code.object[18]), 183);
  EXPECT_THROW(codegen::cpu::CpuModule("not an object", "f"), ir::InternalError);
}

TEST(Targets, SameInputSameBytes) {
  for (const std::string &target : {std::string("aarch64"), codegen::hostTarget().name}) {
    const codegen::Code first = codegen::generate(expanded(kKernel, target), codegen::findTarget(target));
    const codegen::Code second = codegen::generate(expanded(kKernel, target), codegen::findTarget(target));
    EXPECT_EQ(first.object, second.object) << target;
  }
}

// The object of equal LLVM IR is taken as it is; what differs in a number, a name or the machine is made.
TEST(Targets, ReusedObjects) {
  codegen::CodeOptions reuse;
  reuse.reuse = true;
  const std::string host = codegen::hostTarget().name;
  const auto object = [](const std::string &text, const std::string &target, const codegen::CodeOptions &options) {
    return codegen::generate(expanded(text, target), codegen::findTarget(target), options).object;
  };
  std::string longer = kKernel, named = kKernel;
  longer.replace(longer.find("100"), 3, "108");
  named.replace(named.find("@f"), 2, "@g");
  for (const auto &[text, target] : {std::pair(std::string(kKernel), host), {longer, host}, {named, host}, {kKernel, "aarch64"}}) {
    const std::vector<char> made = object(text, target, {});
    for (int times = 0; times < 2; ++times) {
      EXPECT_EQ(object(text, target, reuse), made) << target << text;
    }
  }
  codegen::forgetRecentCode();
  EXPECT_EQ(object(kKernel, host, reuse), object(kKernel, host, {}));
}

TEST(Targets, RecentObjectsAreFew) {
  codegen::cpu::RecentObjects recent;
  using Key = codegen::cpu::RecentObjects::Key;
  constexpr auto kMost = static_cast<uint8_t>(codegen::cpu::RecentObjects::kMost);
  for (uint8_t i = 0; i < kMost; ++i) {
    recent.keep(Key{i}, {static_cast<char>(i)});
  }
  EXPECT_EQ(recent.find(Key{0}), std::vector<char>{0}); // and is not the next to go
  recent.keep(Key{kMost}, std::vector<char>(codegen::cpu::RecentObjects::kLargest));
  recent.keep(Key{kMost + 1}, std::vector<char>(codegen::cpu::RecentObjects::kLargest + 1));
  EXPECT_FALSE(recent.find(Key{1}).has_value());
  EXPECT_FALSE(recent.find(Key{kMost + 1}).has_value());
  EXPECT_TRUE(recent.find(Key{0}) && recent.find(Key{2}) && recent.find(Key{kMost}));
  recent.clear();
  EXPECT_FALSE(recent.find(Key{2}).has_value());
}

TEST(Targets, TextsOnDemand) {
  codegen::CodeOptions options;
  const codegen::Code plain = codegen::generate(expanded(kKernel, "cpu"), codegen::hostTarget());
  EXPECT_TRUE(plain.llvm.empty() && plain.assembly.empty());
  options.keepLlvm = options.keepAssembly = true;
  const codegen::Code code = codegen::generate(expanded(kKernel, "cpu"), codegen::hostTarget(), options);
  EXPECT_NE(code.llvm.find("define i64 @kernel.f("), std::string::npos);
  EXPECT_NE(code.assembly.find("kernel.f:"), std::string::npos);
}

TEST(Targets, CompilesAndLoadsInThreads) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      for (int round = 0; round < 5; ++round) {
        NestedKernel kernel(kKernel, codegen::hostTarget().name);
        constexpr uint16_t kOne = 0x3c00, kMinusOne = 0xbc00; // of f16
        std::vector<uint16_t> x(100), out(100, kMinusOne);
        kernel.run({slot(x.data()), slot(out.data()), slot(90)});
        for (int i = 0; i < 100; ++i) {
          wrong[t] += out[i] != (i < 90 ? kOne : kMinusOne);
        }
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4));
}

// Names that mean something to LLVM or to C's libraries are no trouble.
TEST(Targets, AnyKernelName) {
  for (const char *name : {"expf", "fmodf", "memcpy", "main", "llvm.exp", "harmless"}) {
    ir::Function fn = expanded(kKernel, "cpu");
    fn.name = name;
    const codegen::Code code = codegen::generate(fn, codegen::hostTarget());
    const codegen::cpu::CpuModule module(code);
    EXPECT_NE(module.entry(), nullptr) << name;
    EXPECT_GT(module.bytes(), 0u);
  }
}

TEST(Targets, OpsOfOtherStagesAreRefused) {
  ir::Function fn = expanded(kKernel, "cpu");
  fn.stage = ir::Stage::Tile;
  EXPECT_THROW((void)codegen::generate(fn, codegen::hostTarget()), ir::InternalError);
}

} // namespace
} // namespace libtile::test
