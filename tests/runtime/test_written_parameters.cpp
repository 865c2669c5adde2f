// SPDX-License-Identifier: Apache-2.0
#include "ir/parser.h"
#include "runtime/cache/compile.h"

#include <gtest/gtest.h>

using namespace libtile;

namespace {

std::vector<bool> written(const char *body) {
  const std::string head = "func @f stage=tile warps=4 stages=3 (%a: ptr<f32>, %b: ptr<f32>, %n: i32) {\n";
  return runtime::writtenParameters(ir::parse(head + body + "  return\n}\n"));
}
using Flags = std::vector<bool>;

} // namespace

TEST(WrittenParameters, NothingStored) {
  EXPECT_EQ(written("  %0 = load %a : f32\n"), (Flags{false, false, false}));
}

TEST(WrittenParameters, ThroughPointerArithmetic) {
  EXPECT_EQ(written("  %0 = load %a : f32\n"
                    "  %1 = ptr_add %b, %n : ptr<f32>\n"
                    "  store %1, %0\n"),
            (Flags{false, true, false}));
}

TEST(WrittenParameters, ThroughALoopAndByPosition) {
  EXPECT_EQ(written("  %0 = constant {value=0} : i32\n"
                    "  %1 = constant {value=1} : i32\n"
                    "  %2, %3 = for %0, %n, %1, %a, %b : ptr<f32>, ptr<f32> {\n"
                    "  ^(%iv: i32, %p: ptr<f32>, %q: ptr<f32>):\n"
                    "    %4 = load %p : f32\n"
                    "    store %q, %4\n"
                    "    %5 = ptr_add %p, %1 : ptr<f32>\n"
                    "    %6 = ptr_add %q, %1 : ptr<f32>\n"
                    "    yield %5, %6\n"
                    "  }\n"),
            (Flags{false, true, false}));
}

TEST(WrittenParameters, SwappedInALoop) {
  EXPECT_EQ(written("  %0 = constant {value=0} : i32\n"
                    "  %1 = constant {value=1} : i32\n"
                    "  %2, %3 = for %0, %n, %1, %a, %b : ptr<f32>, ptr<f32> {\n"
                    "  ^(%iv: i32, %p: ptr<f32>, %q: ptr<f32>):\n"
                    "    %4 = load %p : f32\n"
                    "    store %q, %4\n"
                    "    yield %q, %p\n"
                    "  }\n"),
            (Flags{true, true, false}));
}

TEST(WrittenParameters, ThroughIntegers) {
  EXPECT_EQ(written("  %0 = ptrtoint %a : i64\n"
                    "  %1 = inttoptr %0 : ptr<f32>\n"
                    "  %2 = load %b : f32\n"
                    "  store %1, %2\n"),
            (Flags{true, false, false}));
}
