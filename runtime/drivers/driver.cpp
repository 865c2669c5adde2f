// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/driver.h"

#include <map>
#include <mutex>

namespace libtile::runtime {

namespace {

constexpr int kCpu = -1, kInterpreter = -2, kUnknown = -3;

// The number of a CUDA device, or one of these.
int numberOf(const std::string &name) {
  if (name == "cpu" || name == "interpreter") {
    return name == "cpu" ? kCpu : kInterpreter;
  }
  if (name == "cuda") {
    return 0;
  }
  if (name.size() < 6 || name.size() > 8 || name.compare(0, 5, "cuda:") != 0) {
    return kUnknown;
  }
  int ordinal = 0;
  for (size_t i = 5; i < name.size(); ++i) {
    if (name[i] < '0' || name[i] > '9') {
      return kUnknown;
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
  const int number = numberOf(name);
  if (number == kUnknown) {
    throw DeviceError("there is no device '" + name + "': give cpu, interpreter, cuda or cuda:N");
  }
  const std::lock_guard lock(*mutex);
  std::shared_ptr<Driver> &driver = (*drivers)[number];
  if (driver == nullptr) {
    driver = number == kCpu           ? openCpuDriver()
             : number == kInterpreter ? openInterpreterDriver()
                                      : openCudaDriver(number);
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
