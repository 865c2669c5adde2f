// SPDX-License-Identifier: Apache-2.0
// Guards decide which variant a launch runs. The driver here runs nothing: it says what it was given.
#include "ir/parser.h"
#include "runtime/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

using namespace libtile;

namespace {

struct Recorded : runtime::LoadedCode {
  std::vector<std::pair<std::string, int64_t>> properties() const override { return {{"registers", 40}}; }
};

class RecordingDriver : public runtime::Driver {
public:
  std::string name() const override { return "recording"; }
  std::string target() const override { return "avx512"; }
  bool runs(const ir::Target &) const override { return true; }
  std::shared_ptr<runtime::LoadedCode> load(const codegen::Code &) override {
    ++loads;
    return std::make_shared<Recorded>();
  }
  const char *launch(runtime::LoadedCode &, const runtime::LaunchShape &, const uint64_t *, size_t,
                     void *, const runtime::Caller &, runtime::Findings *) noexcept override {
    return nullptr;
  }
  void *allocate(size_t) override { return nullptr; }
  void free(void *) noexcept override {}
  void copyToDevice(void *, const void *, size_t) override {}
  void copyToHost(void *, const void *, size_t) override {}
  void fill(void *, int, size_t) override {}
  void synchronize(void *) override {}
  int loads = 0;
};

// out[i] = x[i] + y[i]; the pass that asks for guards wants the arrays apart.
const char *const kText = R"(
func @add stage=tile warps=4 stages=3 (%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>) {
  %0 = arange {start=0} : tile<64xi32>
  %1 = splat %x : tile<64xptr<f32>>
  %2 = ptr_add %1, %0 : tile<64xptr<f32>>
  %3 = load %2 : tile<64xf32>
  %4 = splat %y : tile<64xptr<f32>>
  %5 = ptr_add %4, %0 : tile<64xptr<f32>>
  %6 = load %5 : tile<64xf32>
  %7 = add %3, %6 : tile<64xf32>
  %8 = splat %out : tile<64xptr<f32>>
  %9 = ptr_add %8, %0 : tile<64xptr<f32>>
  store %9, %7
  return
}
)";

// sums[i] = x[i] + x[i], products[i] = x[i] * x[i].
const char *const kOutputs = R"(
func @both stage=tile warps=4 stages=3 (%x: ptr<f32>, %sums: ptr<f32>, %products: ptr<f32>) {
  %i = arange {start=0} : tile<64xi32>
  %xs = splat %x : tile<64xptr<f32>>
  %xp = ptr_add %xs, %i : tile<64xptr<f32>>
  %a = load %xp : tile<64xf32>
  %sum = add %a, %a : tile<64xf32>
  %ss = splat %sums : tile<64xptr<f32>>
  %sp = ptr_add %ss, %i : tile<64xptr<f32>>
  store %sp, %sum
  %product = mul %a, %a : tile<64xf32>
  %ps = splat %products : tile<64xptr<f32>>
  %pp = ptr_add %ps, %i : tile<64xptr<f32>>
  store %pp, %product
  return
}
)";

// A product whose rows wrap around at %m: where 32 divides it, rows are read as boxes.
const char *const kWrapped = R"(
func @dot stage=tile warps=4 stages=3 (%a: ptr<f16> {divisible=16}, %c: ptr<f32> {divisible=16}, %m: i32, %n: i32 {divisible=16}) {
  %pid = program_id {axis=0} : i32
  %c64 = constant {value=64} : i32
  %first = mul %pid, %c64 : i32
  %i = arange {start=0} : tile<64xi32>
  %firsts = splat %first : tile<64xi32>
  %rows = add %firsts, %i : tile<64xi32>
  %ms = splat %m : tile<64xi32>
  %wrapped = srem %rows, %ms : tile<64xi32>
  %r = expand_dims %wrapped {axis=1} : tile<64x1xi32>
  %ns = splat %n : tile<64x1xi32>
  %ra = mul %r, %ns : tile<64x1xi32>
  %as = splat %a : tile<64x1xptr<f16>>
  %p2 = ptr_add %as, %ra : tile<64x1xptr<f16>>
  %p3 = broadcast %p2 : tile<64x64xptr<f16>>
  %j = expand_dims %i {axis=0} : tile<1x64xi32>
  %js = broadcast %j : tile<64x64xi32>
  %ap = ptr_add %p3, %js : tile<64x64xptr<f16>>
  %end = splat %n : tile<64x64xi32>
  %zero = constant {value=0.0} : tile<64x64xf32>
  %lo = constant {value=0} : i32
  %sum = for %lo, %n, %c64, %zero : tile<64x64xf32> {
  ^(%k: i32, %acc: tile<64x64xf32>):
    %ks = splat %k : tile<64x64xi32>
    %at = ptr_add %ap, %ks : tile<64x64xptr<f16>>
    %ki = add %js, %ks : tile<64x64xi32>
    %inside = cmp %ki, %end {predicate=slt} : tile<64x64xi1>
    %x = load %at, %inside : tile<64x64xf16>
    %s = dot %x, %x, %acc : tile<64x64xf32>
    yield %s
  }
  %cs = splat %c : tile<64x64xptr<f32>>
  %cp = ptr_add %cs, %js : tile<64x64xptr<f32>>
  store %cp, %sum
  return
}
)";

// The greatest of scaled numbers, from which they are subtracted.
const char *const kScaled = R"(
func @scaled stage=tile warps=4 stages=3 (%x: ptr<f32> {divisible=16}, %out: ptr<f32> {divisible=16}, %scale: f32) {
  %i = arange {start=0} : tile<64xi32>
  %xs = splat %x : tile<64xptr<f32>>
  %xp = ptr_add %xs, %i : tile<64xptr<f32>>
  %s = load %xp : tile<64xf32>
  %f = splat %scale : tile<64xf32>
  %y = mul %s, %f : tile<64xf32>
  %m = reduce %y {axis=0} : f32 {
  ^(%a: f32, %b: f32):
    %g = fmax %a, %b : f32
    yield %g
  }
  %ms = splat %m : tile<64xf32>
  %d = sub %y, %ms : tile<64xf32>
  %os = splat %out : tile<64xptr<f32>>
  %op = ptr_add %os, %i : tile<64xptr<f32>>
  store %op, %d
  return
}
)";

std::shared_ptr<const runtime::Compiled> compiled() {
  const frontend::DType pointer = *frontend::DType::byName("*fp32");
  return std::make_shared<runtime::Compiled>(
      ir::parse(kText),
      std::vector<runtime::RuntimeParameter>{{0, pointer, 1}, {1, pointer, 1}, {2, pointer, 1}},
      "", codegen::findTarget("avx512"), runtime::Options{});
}

} // namespace

TEST(Executables, AreOneForAKernelAndADriver) {
  const auto kernel = compiled(), other = compiled();
  const auto driver = std::make_shared<RecordingDriver>(), second = std::make_shared<RecordingDriver>();
  const auto executable = runtime::executableFor(kernel, driver);
  EXPECT_EQ(runtime::executableFor(kernel, driver), executable);
  EXPECT_NE(runtime::executableFor(other, driver), executable);
  EXPECT_NE(runtime::executableFor(kernel, second), executable);
  // It lives as long as somebody holds it.
  std::weak_ptr<runtime::Executable> gone;
  {
    const auto held = runtime::executableFor(other, second);
    gone = held;
    EXPECT_EQ(runtime::executableFor(other, second), held);
  }
  EXPECT_TRUE(gone.expired());
  EXPECT_NE(runtime::executableFor(other, second), nullptr);
}

TEST(Guards, ChooseTheVariant) {
  const auto kernel = compiled();
  ASSERT_FALSE(kernel->preferred().guards.empty());
  auto driver = std::make_shared<RecordingDriver>();
  runtime::Executable executable(kernel, driver);
  ASSERT_TRUE(executable.needsExtents());
  const uint64_t slots[] = {1024, 2048, 4096};
  const runtime::Extent apart[] = {{1024, 1280}, {2048, 2304}, {4096, 4352}};
  const runtime::Extent over[] = {{1024, 1280}, {2048, 4097}, {4096, 4352}};
  const runtime::Extent unknown[] = {{1024, 1280}, {0, 0}, {4096, 4352}};

  EXPECT_EQ(executable.select(slots, apart), nullptr);
  executable.prepare(slots, apart);
  runtime::LoadedCode *preferred = executable.select(slots, apart);
  ASSERT_NE(preferred, nullptr);
  EXPECT_EQ(driver->loads, 1);

  using Extents = std::span<const runtime::Extent>;
  for (const Extents &extents : {Extents(over), Extents(unknown), Extents()}) {
    EXPECT_NE(executable.select(slots, extents), preferred);
  }
  executable.prepare(slots, over);
  EXPECT_EQ(driver->loads, 2);
  EXPECT_NE(executable.select(slots, over), nullptr);
  EXPECT_EQ(executable.select(slots, {}), executable.select(slots, over));
  EXPECT_TRUE(kernel->general().guards.empty());
  EXPECT_EQ(executable.select(slots, apart), preferred);
}

// An array without whole tiles costs what follows from that alone: its rows are still copied ahead.
TEST(Guards, OnWholeTilesAreOneStep) {
  const auto type = [](const char *name) { return *frontend::DType::byName(name); };
  const auto kernel = std::make_shared<runtime::Compiled>(
      ir::parse(kWrapped),
      std::vector<runtime::RuntimeParameter>{{0, type("*fp16"), 16}, {1, type("*fp32"), 16}, {2, type("i32"), 1}, {3, type("i32"), 16}},
      "", codegen::findTarget("sm_90a"), runtime::Options{});
  EXPECT_NE(kernel->text("ptx").find("cp.async.bulk.tensor"), std::string::npos);
  auto driver = std::make_shared<RecordingDriver>();
  runtime::Executable executable(kernel, driver);
  const runtime::Extent apart[] = {{1024, 2048}, {4096, 8192}, {}, {}};
  const runtime::Extent over[] = {{1024, 5000}, {4096, 8192}, {}, {}};
  std::vector<runtime::LoadedCode *> codes;
  const auto launch = [&](uint64_t m, std::span<const runtime::Extent> extents) {
    const uint64_t slots[] = {1024, 4096, m, 64};
    if (executable.select(slots, extents) == nullptr) {
      executable.prepare(slots, extents);
    }
    codes.push_back(executable.select(slots, extents));
  };
  launch(192, apart);
  launch(100, apart);
  launch(0, apart);
  launch(64, apart);
  launch(100, over);
  launch(192, over);
  ASSERT_EQ(std::count(codes.begin(), codes.end(), nullptr), 0);
  EXPECT_EQ(driver->loads, 3);
  EXPECT_EQ(codes[3], codes[0]);
  EXPECT_EQ(codes[2], codes[1]);
  EXPECT_EQ(codes[5], codes[4]);
  const runtime::Variant &ragged = kernel->variant(passes::Reliance::Arguments);
  EXPECT_NE(ragged.code.assembly.find("cp.async.c"), std::string::npos);
  EXPECT_EQ(ragged.code.assembly.find("cp.async.bulk.tensor"), std::string::npos);
}

// Outputs that are views of one allocation cost what follows from their being apart alone.
TEST(Guards, OutputsMayOverlapEachOther) {
  const auto type = [](const char *name) { return *frontend::DType::byName(name); };
  const auto kernel = std::make_shared<runtime::Compiled>(
      ir::parse(kOutputs),
      std::vector<runtime::RuntimeParameter>{{0, type("*fp32"), 1}, {1, type("*fp32"), 1}, {2, type("*fp32"), 1}}, "",
      codegen::findTarget("avx512"), runtime::Options{});
  using enum passes::Reliance;
  EXPECT_EQ(kernel->guardTexts(), (std::vector<std::string>{"x and sums do not overlap", "x and products do not overlap",
                                                            "sums and products do not overlap"}));
  EXPECT_EQ(&kernel->variant(Arguments), &kernel->preferred());
  ASSERT_EQ(kernel->variant(Inputs).guards.size(), 2U);
  for (const ir::Guard &guard : kernel->variant(Inputs).guards) {
    EXPECT_EQ(guard.param, 0U);
  }
  EXPECT_TRUE(kernel->general().guards.empty());
  const auto driver = std::make_shared<RecordingDriver>();
  runtime::Executable executable(kernel, driver);
  const uint64_t slots[] = {1024, 4096, 8192};
  std::vector<runtime::LoadedCode *> codes;
  for (const auto &extents : {std::array<runtime::Extent, 3>{{{1024, 2048}, {4096, 8192}, {8192, 12288}}},
                              std::array<runtime::Extent, 3>{{{1024, 2048}, {4096, 12288}, {4096, 12288}}},
                              std::array<runtime::Extent, 3>{{{1024, 5000}, {4096, 12288}, {4096, 12288}}}}) {
    if (executable.select(slots, extents) == nullptr) {
      executable.prepare(slots, extents);
    }
    codes.push_back(executable.select(slots, extents));
  }
  EXPECT_EQ(driver->loads, 3);
  EXPECT_NE(codes[0], codes[1]);
  EXPECT_NE(codes[1], codes[2]);
  // With one array that it writes, there is nothing between the last two.
  const runtime::Compiled one(ir::parse(kText), {{0, type("*fp32"), 1}, {1, type("*fp32"), 1}, {2, type("*fp32"), 1}}, "",
                              codegen::findTarget("avx512"), runtime::Options{});
  EXPECT_EQ(&one.variant(Inputs), &one.preferred());
}

// A scale that is not positive, or whose products overflow, costs what follows from its sign alone.
TEST(Guards, OnPositiveScalesAreTheSameStep) {
  const auto type = [](const char *name) { return *frontend::DType::byName(name); };
  const auto kernel = std::make_shared<runtime::Compiled>(
      ir::parse(kScaled), std::vector<runtime::RuntimeParameter>{{0, type("*fp32"), 16}, {1, type("*fp32"), 16}, {2, type("fp32"), 1}}, "",
      codegen::findTarget("sm_90a"), runtime::Options{});
  EXPECT_EQ(kernel->preferred().guards.size(), 2U);
  EXPECT_EQ(kernel->variant(passes::Reliance::Arguments).guards.size(), 1U);
  runtime::Executable executable(kernel, std::make_shared<RecordingDriver>());
  const runtime::Extent apart[] = {{1024, 2048}, {4096, 8192}, {}};
  const auto launch = [&](float scale) {
    const uint64_t slots[] = {1024, 4096, std::bit_cast<uint32_t>(scale)};
    if (executable.select(slots, apart) == nullptr) {
      executable.prepare(slots, apart);
    }
    return executable.select(slots, apart);
  };
  const runtime::LoadedCode *positive = launch(0.125F), *other = launch(-0.125F);
  EXPECT_NE(positive, other);
  for (const float scale : {1.0F, 0x1p-64F, 0x1p64F, 0x1.fffffep63F}) {
    EXPECT_EQ(launch(scale), positive) << scale;
  }
  for (const float scale : {0.0F, -0.0F, -1.0F, 0x1.fffffep-65F, 0x1.000002p64F, INFINITY, -INFINITY, NAN, -NAN, 1e-45F}) {
    EXPECT_EQ(launch(scale), other) << scale;
  }
}

TEST(Loading, NeedsNoLaunchAndIsDoneOnce) {
  auto driver = std::make_shared<RecordingDriver>();
  runtime::Executable executable(compiled(), driver);
  EXPECT_TRUE(executable.properties().empty());
  executable.load();
  executable.load();
  using Properties = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_EQ(executable.properties(), (Properties{{"registers", 40}}));
  const uint64_t slots[] = {1024, 2048, 4096};
  const runtime::Extent apart[] = {{1024, 1280}, {2048, 2304}, {4096, 4352}};
  EXPECT_NE(executable.select(slots, apart), nullptr);
  executable.prepare(slots, apart);
  EXPECT_EQ(driver->loads, 1);
}

TEST(Stages, AreMadeOnDemandAndTheSameEachTime) {
  const auto kernel = compiled();
  const std::vector<std::string> stages = kernel->stages();
  EXPECT_EQ(stages, (std::vector<std::string>{"tile", "plan", "nested", "llvm", "asm"}));
  for (const std::string &stage : stages) {
    const std::string text = kernel->text(stage);
    EXPECT_FALSE(text.empty()) << stage;
    EXPECT_EQ(kernel->text(stage), text) << stage;
  }
  EXPECT_THROW((void)kernel->text("ptx"), ir::UserError);
}
