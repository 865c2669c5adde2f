// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/driver.h"

#include <map>
#include <mutex>

namespace libtile::runtime {

namespace {

// The number of a GPU in "cuda", "cuda:1", "hip:0"; -1: it is no such name.
int ordinalIn(const std::string &name, const std::string &kind) {
  if (name == kind) {
    return 0;
  }
  const size_t first = kind.size() + 1;
  if (!name.starts_with(kind + ":") || name.size() == first || name.size() > first + 2) {
    return -1;
  }
  int ordinal = 0;
  for (size_t i = first; i < name.size(); ++i) {
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
  static auto *drivers = new std::map<std::string, std::shared_ptr<Driver>>;
  const int cuda = ordinalIn(name, "cuda"), hip = ordinalIn(name, "hip");
  const bool isHost = name == "cpu" || name == "interpreter";
  if (cuda < 0 && hip < 0 && !isHost) {
    throw DeviceError("there is no device '" + name + "': give cpu, interpreter, cuda, cuda:N, hip or hip:N");
  }
  const std::lock_guard lock(*mutex);
  std::shared_ptr<Driver> &driver = (*drivers)[cuda >= 0 ? "cuda:" + std::to_string(cuda) : hip >= 0 ? "hip:" + std::to_string(hip) : name];
  if (driver == nullptr) {
    driver = cuda >= 0 ? openCudaDriver(cuda) : hip >= 0 ? openHipDriver(hip) : name == "cpu" ? openCpuDriver() : openInterpreterDriver();
  }
  return driver;
}

std::vector<std::string> availableDrivers() {
  std::vector<std::string> names = {"cpu"};
  for (int i = 0, count = cudaDeviceCount(); i < count; ++i) {
    names.push_back("cuda:" + std::to_string(i));
  }
  for (int i = 0, count = hipDeviceCount(); i < count; ++i) {
    names.push_back("hip:" + std::to_string(i));
  }
  return names;
}

} // namespace libtile::runtime
