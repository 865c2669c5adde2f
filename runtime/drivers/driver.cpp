// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/driver.h"

#include <map>
#include <mutex>

namespace libtile::runtime {

namespace {

// -1: not a CUDA name.
int cudaOrdinal(const std::string &name) {
  if (name == "cuda") {
    return 0;
  }
  if (name.size() < 6 || name.size() > 8 || name.compare(0, 5, "cuda:") != 0) {
    return -1;
  }
  int ordinal = 0;
  for (size_t i = 5; i < name.size(); ++i) {
    if (name[i] < '0' || name[i] > '9') {
      return -1;
    }
    ordinal = ordinal * 10 + (name[i] - '0');
  }
  return ordinal;
}

} // namespace

std::shared_ptr<Driver> openDriver(const std::string &name) {
  // Kept for ever: modules and memory may outlive every other static object.
  static auto *mutex = new std::mutex;
  static auto *drivers = new std::map<int, std::shared_ptr<Driver>>;
  const int ordinal = cudaOrdinal(name);
  if (name != "cpu" && ordinal < 0) {
    throw DeviceError("there is no device '" + name + "': give cpu, cuda or cuda:N");
  }
  const std::lock_guard lock(*mutex);
  std::shared_ptr<Driver> &driver = (*drivers)[ordinal];
  if (driver == nullptr) {
    driver = ordinal < 0 ? openCpuDriver() : openCudaDriver(ordinal);
  }
  return driver;
}

std::vector<std::string> availableDrivers() {
  std::vector<std::string> names = {"cpu"};
  for (int i = 0, count = cudaDeviceCount(); i < count; ++i) {
    names.push_back("cuda:" + std::to_string(i));
  }
  return names;
}

} // namespace libtile::runtime
