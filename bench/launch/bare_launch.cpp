// SPDX-License-Identifier: Apache-2.0
// What a launch costs by the CUDA driver alone: the floor under libtile's own launches.
//
//   bare_launch KERNEL.ptx NAME THREADS PARAMETERS
//
// launches one program of the kernel, whose parameters (eight bytes each; all zero, so that it must touch no memory), in rounds
// of as many launches as the driver queues without waiting, and prints the median round's seconds of one cuLaunchKernel.
#include "runtime/drivers/cuda_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace libtile::runtime;

constexpr int kRounds = 15, kLaunches = 500;

template <class Function> Function *find(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("the CUDA driver has no ") + name);
  }
  return reinterpret_cast<Function *>(symbol);
}

void require(cuda::Result result, const char *what) {
  if (result != 0) {
    throw std::runtime_error(std::string(what) + ": CUDA error " + std::to_string(result));
  }
}

template <class Launch, class Wait> double medianSeconds(Launch launch, Wait wait) {
  std::vector<double> seconds;
  for (int round = 0; round <= kRounds; ++round) {
    wait();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) {
      launch();
    }
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kLaunches);
  }
  seconds.erase(seconds.begin()); // it warms up
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return seconds[kRounds / 2];
}

double measure(const std::string &ptx, const char *name, unsigned threads, size_t parameters) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    throw std::runtime_error("there is no CUDA driver");
  }
#define FIND(name) auto *const name = find<std::remove_pointer_t<decltype(cuda::Api::name)>>(driver, #name)
  FIND(cuInit);
  FIND(cuDeviceGet);
  FIND(cuDevicePrimaryCtxRetain);
  FIND(cuCtxSetCurrent);
  FIND(cuCtxSynchronize);
  FIND(cuModuleLoadDataEx);
  FIND(cuModuleGetFunction);
  FIND(cuLaunchKernel);
#undef FIND
  cuda::Device device = 0;
  cuda::Context context = nullptr;
  cuda::ModuleHandle module = nullptr;
  cuda::Function function = nullptr;
  require(cuInit(0), "starting");
  require(cuDeviceGet(&device, 0), "opening the GPU");
  require(cuDevicePrimaryCtxRetain(&context, device), "making the GPU's context");
  require(cuCtxSetCurrent(context), "taking the GPU's context");
  require(cuModuleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr), "loading the kernel");
  require(cuModuleGetFunction(&function, module, name), "finding the kernel");
  std::vector<uint64_t> values(parameters);
  std::vector<void *> slots;
  for (uint64_t &value : values) {
    slots.push_back(&value);
  }
  return medianSeconds(
      [&] { require(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, nullptr, slots.data(), nullptr), "launching"); },
      [&] { require(cuCtxSynchronize(), "waiting"); });
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    std::cerr << "usage: bare_launch KERNEL.ptx NAME THREADS PARAMETERS\n";
    return 2;
  }
  try {
    std::ifstream file(argv[1]);
    std::stringstream ptx;
    ptx << file.rdbuf();
    std::cout << measure(ptx.str(), argv[2], std::strtoul(argv[3], nullptr, 10), std::strtoul(argv[4], nullptr, 10)) << "\n";
    return 0;
  } catch (const std::exception &error) {
    std::cerr << "bare_launch: " << error.what() << "\n";
    return 1;
  }
}
