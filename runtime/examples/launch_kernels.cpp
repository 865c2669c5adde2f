// SPDX-License-Identifier: Apache-2.0
// libtile from C++: no Python is involved. Compiles vector addition from text and softmax, layer norm and
// matrix multiplication from the tutorials' files, runs them on every device that there is, and checks
// the results.
//
//     launch_kernels <folder of the tutorials>
//
// Build: g++ -std=c++17 launch_kernels.cpp -ltile
#include <libtile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

namespace {

const char *const kAdd = R"(
@libtile.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)
)";

std::vector<float> randomNumbers(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float &number : numbers) {
    number = normal(generator);
  }
  return numbers;
}

// Device memory that starts as a copy of the host's.
libtile::Buffer upload(const libtile::Device &device, const std::vector<float> &host) {
  libtile::Buffer buffer = device.allocate(host.size() * sizeof(float));
  device.copyToDevice(buffer.data(), host.data(), buffer.bytes());
  return buffer;
}

std::vector<float> download(const libtile::Device &device, const libtile::Buffer &buffer) {
  std::vector<float> host(buffer.bytes() / sizeof(float));
  device.synchronize();
  device.copyToHost(host.data(), buffer.data(), buffer.bytes());
  return host;
}

bool report(const libtile::Device &device, const char *kernel, double error, double bound) {
  std::printf("%-7s %-10s largest error %.2e, allowed %.2e: %s\n", device.name().c_str(), kernel, error,
              bound, error <= bound ? "right" : "WRONG");
  return error <= bound;
}

bool runAdd(const libtile::Device &device) {
  const libtile::Function add = libtile::Program::fromText(kAdd, "add").function("add");
  const int32_t n = 98'432;
  const std::vector<float> a = randomNumbers(n, 1);
  const std::vector<float> b = randomNumbers(n, 2);
  const libtile::Buffer x = upload(device, a);
  const libtile::Buffer y = upload(device, b);
  const libtile::Buffer out = device.allocate(x.bytes());
  add.launch(device, {(n + 1023) / 1024},
             {x.as<float>(), y.as<float>(), out.as<float>(), n, {"BLOCK", 1024}});
  const std::vector<float> got = download(device, out);
  double error = 0;
  for (int32_t i = 0; i < n; ++i) {
    error = std::max(error, std::abs(double{got[i]} - double{a[i] + b[i]}));
  }
  return report(device, "add", error, 0);
}

bool runSoftmax(const libtile::Device &device, const std::string &tutorials) {
  const libtile::Function softmax =
      libtile::Program::fromFile(tutorials + "/02_fused_softmax.py").function("softmax");
  const int32_t rows = 123, cols = 781;
  const std::vector<float> host = randomNumbers(size_t{rows} * cols, 3);
  const libtile::Buffer x = upload(device, host);
  const libtile::Buffer out = device.allocate(x.bytes());
  softmax.launch(device, {rows},
                 {out.as<float>(), x.as<float>(), cols, cols, rows, cols, {"BLOCK", 1024}});
  const std::vector<float> got = download(device, out);
  double error = 0;
  for (int32_t row = 0; row < rows; ++row) {
    const float *line = &host[size_t(row) * cols];
    const double top = *std::max_element(line, line + cols);
    double sum = 0;
    for (int32_t i = 0; i < cols; ++i) {
      sum += std::exp(line[i] - top);
    }
    for (int32_t i = 0; i < cols; ++i) {
      const double want = std::exp(line[i] - top) / sum;
      error = std::max(error, std::abs(got[size_t(row) * cols + i] - want) / want);
    }
  }
  return report(device, "softmax", error, 1e-5);
}

bool runLayerNorm(const libtile::Device &device, const std::string &tutorials) {
  const libtile::Function layerNorm =
      libtile::Program::fromFile(tutorials + "/05_layer_norm.py").function("layer_norm");
  const int32_t rows = 77, cols = 1000;
  const float eps = 1e-5F;
  const std::vector<float> host = randomNumbers(size_t{rows} * cols, 6);
  const std::vector<float> w = randomNumbers(cols, 7), b = randomNumbers(cols, 8);
  const libtile::Buffer x = upload(device, host), weight = upload(device, w), bias = upload(device, b);
  const libtile::Buffer out = device.allocate(x.bytes());
  const libtile::Buffer mean = device.allocate(rows * sizeof(float));
  const libtile::Buffer rstd = device.allocate(rows * sizeof(float));
  layerNorm.launch(device, {rows},
                   {x.as<float>(), out.as<float>(), weight.as<float>(), bias.as<float>(), mean.as<float>(),
                    rstd.as<float>(), cols, cols, eps, {"BLOCK", 256}});
  const std::vector<float> got = download(device, out);
  double error = 0;
  for (int32_t row = 0; row < rows; ++row) {
    const float *line = &host[size_t(row) * cols];
    const double average = std::accumulate(line, line + cols, 0.0) / cols;
    double variance = 0;
    for (int32_t i = 0; i < cols; ++i) {
      variance += (line[i] - average) * (line[i] - average) / cols;
    }
    for (int32_t i = 0; i < cols; ++i) {
      const double want = (line[i] - average) / std::sqrt(variance + eps) * w[i] + b[i];
      error = std::max(error, std::abs(got[size_t(row) * cols + i] - want));
    }
  }
  return report(device, "layer norm", error, 1e-4);
}

bool runMatmul(const libtile::Device &device, const std::string &tutorials) {
  // Compiled ahead, for types: no array needs to be there. Innermost strides are 1: as constants they make
  // the accesses contiguous.
  const int64_t tile = 64;
  const auto array = libtile::type("*fp32:16"), integer = libtile::type("i32");
  const libtile::Kernel matmul =
      libtile::Program::fromFile(tutorials + "/03_matmul.py")
          .function("matmul")
          .compile(device.target(), {array, array, array, integer, integer, integer,
                                     {"stride_am", integer}, {"stride_ak", 1}, {"stride_bk", integer},
                                     {"stride_bn", 1}, {"stride_cm", integer}, {"stride_cn", 1},
                                     {"BLOCK_M", tile}, {"BLOCK_N", tile}, {"BLOCK_K", 32}, {"GROUP_M", 8}});
  const int32_t m = 200, n = 170, k = 300;
  const std::vector<float> a = randomNumbers(size_t{m} * k, 4);
  const std::vector<float> b = randomNumbers(size_t{k} * n, 5);
  const libtile::Buffer deviceA = upload(device, a);
  const libtile::Buffer deviceB = upload(device, b);
  const libtile::Buffer deviceC = device.allocate(size_t{m} * n * sizeof(float));
  const int64_t tiles = ((m + tile - 1) / tile) * ((n + tile - 1) / tile);
  matmul.launch(device, {tiles}, {deviceA, deviceB, deviceC, m, n, k, k, n, n});
  const std::vector<float> got = download(device, deviceC);
  double error = 0;
  for (int32_t row = 0; row < m; ++row) {
    for (int32_t column = 0; column < n; ++column) {
      double sum = 0, size = 0;
      for (int32_t i = 0; i < k; ++i) {
        const double product = double{a[size_t(row) * k + i]} * b[size_t(i) * n + column];
        sum += product;
        size += std::abs(product);
      }
      error = std::max(error, std::abs(got[size_t(row) * n + column] - sum) / size);
    }
  }
  // Each of k sums rounds once; on a GPU the operands are rounded to TF32 first.
  const bool isGpu = device.name() != "cpu";
  return report(device, "matmul", error, isGpu ? 0x1p-9 : k * 0x1p-24);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s <folder of the tutorials>\n", argv[0]);
    return 2;
  }
  try {
    bool right = true;
    for (const std::string &name : libtile::Device::available()) {
      const libtile::Device device = libtile::Device::open(name);
      right = runAdd(device) && right;
      right = runSoftmax(device, argv[1]) && right;
      right = runLayerNorm(device, argv[1]) && right;
      right = runMatmul(device, argv[1]) && right;
    }
    return right ? 0 : 1;
  } catch (const libtile::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
