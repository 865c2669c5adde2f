// SPDX-License-Identifier: Apache-2.0
// A user's program for any C++ library: its texts, vectors, exceptions and threads are its own.
#include <libtile.h>

#include <atomic>
#include <cstdio>
#include <thread>

namespace {

const char *const kText = R"(
@libtile.jit
def scale(x, out, n, factor: tl.float32 = 2.0, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.exp(tl.load(x + i, mask=i < n) * 0) * factor + SHIFT, mask=i < n)

@libtile.jit
def wrong(x):
    tl.store(x, nowhere)
)";

// Of the program's own exceptions one with text, file and place.
bool throwsErrors(const libtile::Program &program, const libtile::Device &cpu) {
  float x = 0;
  try {
    program.function("wrong").launch(cpu, 1, {&x});
  } catch (const libtile::Error &error) {
    const std::runtime_error &base = error;
    return error.kind() == libtile::Error::Kind::User && error.file() == "host.py" && error.line() == 9 &&
           std::string(base.what()).find('^') != std::string::npos;
  }
  return false;
}

} // namespace

int main() {
  const libtile::Program program =
      libtile::Program::fromText(kText, "host.py", {{"SHIFT", 5}, {"UNUSED", std::string("a text that is long")}});
  const libtile::Device cpu = libtile::Device::open("cpu");
  const libtile::Function scale = program.function("scale");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> x(1000, 1), out(1000);
      for (int round = 0; round < 20; ++round) {
        scale.launch(cpu, {(x.size() + 63) / 64}, {x.data(), out.data(), x.size(), {"factor", t}});
        wrong += out[999] == static_cast<float>(t + 5) ? 0 : 1;
      }
      wrong += throwsErrors(program, cpu) ? 0 : 1;
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  const libtile::Kernel kernel = scale.compile("sm_80", {libtile::type("*fp32"), libtile::type("*fp32"), 16});
  wrong += kernel.text("ptx").find(".target sm_80") != std::string::npos ? 0 : 1;
  std::printf("%d wrong, libtile %s\n", wrong.load(), libtile::version().c_str());
  return wrong.load() != 0 ? 1 : 0;
}
