// SPDX-License-Identifier: Apache-2.0
// From arguments to a launch: the table of specialisations, what is freed and when, tuples, threads.
#include "runtime/cache/reclaim.h"
#include "runtime/errors.h"
#include "runtime/launcher.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <thread>

using namespace libtile;
using runtime::CallArgument;
using runtime::Launcher;
using runtime::Specialisation;
using Kind = CallArgument::Kind;

namespace {

CallArgument integer(int64_t value) {
  CallArgument made;
  made.kind = Kind::Int;
  made.bits = static_cast<uint64_t>(value);
  return made;
}

CallArgument array(const float *data, size_t count) {
  CallArgument made;
  made.kind = Kind::Pointer;
  made.dtype = runtime::encodeType(*frontend::DType::byName("fp32"));
  made.bits = reinterpret_cast<uintptr_t>(data);
  made.bytes = count * sizeof(float);
  return made;
}

CallArgument tuple(uint16_t items) {
  CallArgument made;
  made.kind = Kind::Tuple;
  made.dtype = items;
  made.value = nullptr;
  return made;
}

std::shared_ptr<const frontend::FunctionSource> parse(const char *text, const char *name) {
  return frontend::parseFunction(std::make_shared<ir::SourceFile>(ir::SourceFile{"<test>", text, 1}), name);
}

const char *const kScale = R"(
@libtile.jit
def scale(x, out, n, pair, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * pair[0] + pair[1], i < n)
)";

struct Fixture {
  Launcher launcher{parse(kScale, "scale")};
  frontend::TableHost host;
  const runtime::LaunchDevice &cpu = runtime::openLaunchDevice("cpu");
  std::vector<float> x = std::vector<float>(16, 2.0F);

  // The sum of n elements 2 * a + b.
  float run(int64_t n, int64_t a, int64_t b, int64_t block = 16) {
    std::vector<float> out(16, 0.0F);
    const CallArgument arguments[] = {array(x.data(), 16), array(out.data(), 16), integer(n),
                                      tuple(2),            integer(a),            integer(b),
                                      integer(block)};
    const int64_t grid[] = {1, 1, 1};
    launcher.launch(cpu, arguments, nullptr, {}, 0, grid, nullptr, host);
    float sum = 0;
    for (const float each : out) {
      sum += each;
    }
    return sum;
  }
  size_t entries() {
    size_t count = 0;
    launcher.forEach([&](const Specialisation &) { ++count; });
    return count;
  }
};

// Counts how many are alive.
struct Counted {
  explicit Counted(std::atomic<int> &count) : count(count) { ++count; }
  ~Counted() { --count; }
  Counted(const Counted &) = delete;
  Counted &operator=(const Counted &) = delete;
  std::atomic<int> &count;
};

std::shared_ptr<Specialisation> entry(std::vector<uint64_t> key, std::shared_ptr<void> user) {
  auto made = std::make_shared<Specialisation>();
  made->key = std::move(key);
  made->user = std::move(user);
  return made;
}

} // namespace

TEST(SpecialisationTable, FindsWhatWasInserted) {
  runtime::SpecialisationTable table;
  std::mt19937_64 generator(2);
  std::atomic<int> alive{0};
  std::vector<std::vector<uint64_t>> keys;
  std::vector<Specialisation *> entries;
  for (uint64_t i = 0; i < 500; ++i) {
    std::vector<uint64_t> key(1 + generator() % 9);
    for (uint64_t &word : key) {
      word = generator() % 3;
    }
    key.push_back(i);
    EXPECT_EQ(table.find(key), nullptr);
    auto made = entry(key, std::make_shared<Counted>(alive));
    entries.push_back(made.get());
    table.insert(std::move(made));
    keys.push_back(std::move(key));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(table.find(keys[i]), entries[i]);
  }
  table.insert(entry(keys[3], std::make_shared<Counted>(alive)));
  EXPECT_EQ(table.find(keys[3]), entries[3]) << "the first stays";
  for (size_t i = 0; i < keys.size(); i += 2) {
    table.remove(entries[i]);
    table.remove(entries[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(table.find(keys[i]), i % 2 == 0 ? nullptr : entries[i]);
  }
  EXPECT_EQ(alive, 250);
  table.clear();
  EXPECT_EQ(alive, 0);
}

TEST(SpecialisationTable, OldestMakeRoom) {
  runtime::SpecialisationTable table;
  std::atomic<int> alive{0};
  constexpr uint64_t kMany = runtime::SpecialisationTable::kCapacity * 2 + 5;
  for (uint64_t i = 0; i < kMany; ++i) {
    table.insert(entry({i}, std::make_shared<Counted>(alive)));
  }
  EXPECT_EQ(alive, static_cast<int>(runtime::SpecialisationTable::kCapacity));
  const uint64_t last = kMany - 1, first = 0;
  EXPECT_NE(table.find({&last, 1}), nullptr);
  EXPECT_EQ(table.find({&first, 1}), nullptr);
}

TEST(Reclaim, WaitsForReaders) {
  std::atomic<int> alive{0};
  {
    const runtime::ReadScope reading;
    const runtime::ReadScope again;
    runtime::retire(std::make_shared<Counted>(alive));
    runtime::collectRetired();
    runtime::collectRetired();
    EXPECT_EQ(alive, 1);
  }
  runtime::collectRetired();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(runtime::numRetired(), 0U);
}

// Readers hold what they found, writers take it out again: nobody sees what is freed.
TEST(Reclaim, ReadersAndWriters) {
  runtime::SpecialisationTable table;
  std::atomic<int> alive{0};
  std::atomic<bool> done{false};
  std::atomic<uint64_t> found{0}, wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&] {
        while (!done) {
          for (uint64_t key = 0; key < 8; ++key) {
            const runtime::ReadScope reading;
            if (const Specialisation *seen = table.find({&key, 1})) {
              ++found;
              std::this_thread::yield();
              wrong += seen->key.size() != 1 || seen->key[0] != key ? 1 : 0;
            }
          }
        }
      });
    }
    for (int round = 0; round < 4000 || found == 0; ++round) { // the readers may begin late
      const uint64_t key = static_cast<uint64_t>(round) % 8;
      auto made = entry({key}, std::make_shared<Counted>(alive));
      const Specialisation *address = made.get();
      table.insert(std::move(made));
      if (round % 3 != 0) {
        table.remove(address);
      }
    }
    done = true;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(found, 0U);
  table.clear();
  runtime::collectRetired();
  EXPECT_EQ(alive, 0);
}

TEST(Launcher, SpecialisesAndRuns) {
  Fixture fixture;
  EXPECT_EQ(fixture.run(16, 3, 4), 160);
  EXPECT_EQ(fixture.run(16, 5, 7), 272);
  EXPECT_EQ(fixture.entries(), 1U);
  EXPECT_EQ(fixture.run(7, 5, 7), 119) << "n is no multiple of 16";
  EXPECT_EQ(fixture.run(7, 1, 7), 63) << "an item is 1";
  EXPECT_EQ(fixture.run(7, 1, 7, 8), 63) << "another constant";
  EXPECT_EQ(fixture.entries(), 4U);
  fixture.launcher.clear();
  EXPECT_EQ(fixture.entries(), 0U);
  EXPECT_EQ(fixture.run(16, 3, 4), 160);
}

TEST(Launcher, Refuses) {
  Fixture fixture;
  const int64_t grid[] = {1, 1, 1};
  const auto message = [&](std::span<const CallArgument> arguments) -> std::string {
    try {
      fixture.launcher.launch(fixture.cpu, arguments, nullptr, {}, 0, grid, nullptr, fixture.host);
    } catch (const ir::UserError &error) {
      return error.message();
    }
    return "";
  };
  CallArgument readOnly = array(fixture.x.data(), 16);
  readOnly.flags = CallArgument::kReadOnly;
  const CallArgument good = array(fixture.x.data(), 16);
  EXPECT_NE(message(std::vector{good, good}).find("takes 5 arguments"), std::string::npos);
  EXPECT_NE(message(std::vector{good, good, integer(1), tuple(2), integer(1)}).find("takes 5"),
            std::string::npos);
  EXPECT_EQ(message(std::vector{good, readOnly, integer(2), tuple(2), integer(2), integer(2), integer(8)}),
            "argument 'out' is a read-only array, and the kernel stores to it");
  EXPECT_EQ(message(std::vector{good, good, integer(2), tuple(2), integer(2), integer(2), good}),
            "parameter 'BLOCK' is a constexpr: it takes a constant, not an array or a type");
}

// Of 64 programs one is wrong; the others are not harmed, nor is the next launch.
TEST(Launcher, OutOfBounds) {
  const char *const text = "@libtile.jit\n"
                           "def f(x, out, n, wrong):\n"
                           "    p = tl.program_id(0)\n"
                           "    i = p * 100 + tl.arange(0, 100)\n"
                           "    shift = (p == wrong).to(tl.int32) * n\n"
                           "    tl.store(out + i, tl.load(x + i + shift))\n";
  Launcher launcher(parse(text, "f"));
  frontend::TableHost host;
  const runtime::LaunchDevice &cpu = runtime::openLaunchDevice("cpu");
  const std::vector<float> x(6400, 2.0F);
  std::vector<float> out(6400, 0.0F);
  const int64_t grid[] = {64, 1, 1};
  runtime::Options options;
  options.set(runtime::Option::check, 1);
  const auto failure = [&](int64_t wrong, bool isKnown) -> std::string {
    const CallArgument arguments[] = {array(x.data(), 6400), array(out.data(), 6400), integer(6400),
                                      integer(wrong)};
    const auto extentOf = [&](const std::vector<float> &of) {
      return runtime::Extent::of(reinterpret_cast<uintptr_t>(of.data()), of.size() * sizeof(float));
    };
    const runtime::Extent extents[] = {extentOf(x), extentOf(out), {0, 0}, {0, 0}};
    try {
      launcher.launch(cpu, arguments, isKnown ? extents : nullptr, options,
                      options.normalised(cpu.target).id(), grid, nullptr, host);
    } catch (const runtime::OutOfBounds &error) {
      EXPECT_EQ(error.location().line, 6U);
      EXPECT_EQ(runtime::describeError(error).kind, runtime::ErrorKind::User);
      return error.message();
    }
    return "";
  };
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(failure(100, true), "");
    for (const int64_t wrong : {2, 31, 63}) {
      EXPECT_EQ(failure(wrong, true),
                "x[" + std::to_string(6400 + 100 * wrong) + "] is out of bounds: x holds 0 .. 6399; read by program (" +
                    std::to_string(wrong) + ", 0, 0)");
    }
  }
  EXPECT_EQ(failure(100, false), "") << "nothing is known, and nothing checked";
  EXPECT_EQ(out, x);
}

TEST(Launcher, NamesOfItems) {
  const Launcher launcher(parse("@libtile.jit\ndef f(a, b, c):\n    pass\n", "f"));
  const CallArgument arguments[] = {tuple(2), integer(0), tuple(1),   integer(0),
                                    tuple(0), tuple(3),   integer(0), integer(0), integer(0)};
  const char *const names[] = {"a", "a[0]", "a[1]", "a[1][0]", "b", "c", "c[0]", "c[1]", "c[2]"};
  for (size_t i = 0; i < std::size(arguments); ++i) {
    EXPECT_EQ(launcher.nameOf(arguments, i), names[i]);
  }
}

TEST(Launcher, Threads) {
  Fixture fixture;
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 16; ++t) {
      threads.emplace_back([&] {
        for (int64_t i = 0; i < 60; ++i) {
          const int64_t n = 1 + i % 4;
          wrong += fixture.run(n, 3, 4) != static_cast<float>(n * 10) ? 1 : 0;
          if (i % 20 == 19) {
            fixture.launcher.clear();
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}
