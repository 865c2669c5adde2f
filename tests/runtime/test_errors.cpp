// SPDX-License-Identifier: Apache-2.0
#include "runtime/errors.h"

#include "runtime/drivers/driver.h"

#include <gtest/gtest.h>

using namespace libtile;
using runtime::describeError;

TEST(Errors, KindsAreKept) {
  EXPECT_EQ(describeError(ir::UserError("a")).kind, runtime::ErrorKind::User);
  EXPECT_EQ(describeError(ir::Unsupported("a")).kind, runtime::ErrorKind::Unsupported);
  EXPECT_EQ(describeError(ir::InternalError("a", {}, "tile-opt")).reproducer, "tile-opt");
  EXPECT_EQ(describeError(runtime::DeviceError("a")).kind, runtime::ErrorKind::Device);
  EXPECT_EQ(describeError(std::bad_alloc()).kind, runtime::ErrorKind::User);
  EXPECT_EQ(describeError(std::runtime_error("a")).kind, runtime::ErrorKind::Internal);
}

TEST(Errors, TheLineIsTheFilesOwn) {
  const auto file = std::make_shared<ir::SourceFile>(ir::SourceFile{"k.py", "one\ntwo x\n", 10});
  const runtime::ErrorRecord record = describeError(ir::UserError("bad x", {file, 2, 5, 6, nullptr}));
  EXPECT_EQ(record.file, "k.py");
  EXPECT_EQ(record.line, 11);
  EXPECT_EQ(record.column, 5);
  EXPECT_EQ(record.message, "bad x");
  EXPECT_NE(record.text.find("two x"), std::string::npos);
  EXPECT_NE(record.text.find("^"), std::string::npos);
}

TEST(Devices, UnknownNames) {
  for (const char *name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:9999", "cpu:0"}) {
    EXPECT_THROW((void)runtime::openDriver(name), runtime::DeviceError) << name;
  }
  EXPECT_EQ(runtime::openDriver("cpu"), runtime::openDriver("cpu"));
  EXPECT_EQ(runtime::availableDrivers().front(), "cpu");
}

TEST(Devices, AMachineWithoutAGpuSaysSo) {
  if (runtime::cudaDeviceCount() > 0) {
    GTEST_SKIP() << "there is a GPU";
  }
  try {
    (void)runtime::openDriver("cuda");
    FAIL();
  } catch (const runtime::DeviceError &error) {
    EXPECT_FALSE(error.message().empty());
  }
}
