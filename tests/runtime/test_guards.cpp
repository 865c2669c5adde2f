// SPDX-License-Identifier: Apache-2.0
// Guards decide which variant a launch runs. The driver here runs nothing: it says what it was given.
#include "ir/parser.h"
#include "runtime/launch.h"

#include <gtest/gtest.h>

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

std::shared_ptr<const runtime::Compiled> compiled() {
  const frontend::DType pointer = *frontend::DType::byName("*fp32");
  return std::make_shared<runtime::Compiled>(
      ir::parse(kText),
      std::vector<runtime::RuntimeParameter>{{0, pointer, 1}, {1, pointer, 1}, {2, pointer, 1}},
      "", codegen::findTarget("avx512"), runtime::Options{});
}

} // namespace

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
  EXPECT_EQ(stages, (std::vector<std::string>{"tile", "nested", "llvm", "asm"}));
  for (const std::string &stage : stages) {
    const std::string text = kernel->text(stage);
    EXPECT_FALSE(text.empty()) << stage;
    EXPECT_EQ(kernel->text(stage), text) << stage;
  }
  EXPECT_THROW((void)kernel->text("ptx"), ir::UserError);
}
