// SPDX-License-Identifier: Apache-2.0
// Functions that are launched with arguments: what they specialise on, how arguments are bound, what is
// refused, and that threads may do it at once.
#include <libtile.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

using namespace libtile;

struct Half {
  uint16_t bits;
};
template <> constexpr libtile_type libtile::elementType<Half> = LIBTILE_FP16;

namespace {

const char *const kText = R"(
import libtile, libtile.language as tl

@libtile.jit
def copy(out, value):
    tl.store(out, value)

@libtile.jit
def int8(out, value: tl.int8):
    tl.store(out, value)

@libtile.jit
def uint8(out, value: tl.uint8):
    tl.store(out, value)

@libtile.jit
def half(out, value: tl.float16):
    tl.store(out, value)

@libtile.jit
def defaults(out, a, b=3, c: tl.constexpr = (SIZE, TWO), d=(5, 7), *, e: tl.constexpr = tl.float32, f=None):
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c[0] * 10 + c[1])
    tl.store(out + 3, d[0] * 10 + d[1])
    if e == tl.float32:
        tl.store(out + 4, 32)
    if f is None:
        tl.store(out + 5, 1)
    else:
        tl.store(out + 5, f)

@libtile.jit
def variadic(out, *rest, last=9):
    for i in tl.static_range(len(rest)):
        tl.store(out + i, rest[i])
    tl.store(out + len(rest), last)

@libtile.jit
def option(out, num_warps: tl.constexpr = 4):
    tl.store(out, num_warps)

@libtile.jit
def twice(x):
    return x * TWO

@libtile.jit
def thrice(x):
    return x * 3

@libtile.jit
def apply(out, x, f: tl.constexpr, mode: tl.constexpr):
    if mode == "negate":
        tl.store(out, -f(x))
    else:
        tl.store(out, f(x))

@libtile.jit
def sums(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0), axis=0) + tl.program_id(0))
)";

Program program() { return Program::fromText(kText, "calls.py", {{"SIZE", 4}, {"TWO", 2}}); }
const Device &cpu() {
  static const Device device = Device::open("cpu");
  return device;
}

template <class F> std::string message(F &&body) {
  try {
    body();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}
::testing::AssertionResult contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos ? ::testing::AssertionSuccess()
                                              : ::testing::AssertionFailure() << "'" << text << "'";
}

// A kernel stores the number as a value of its own type, and of the array's.
template <class T> void roundTrip(const Function &copy, T value) {
  T out = static_cast<T>(~value);
  copy.launch(cpu(), 1, {&out, value});
  EXPECT_EQ(out, value);
}
template <class T> void roundTrips(const Function &copy) {
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 generator(3);
  for (const T value : {Limits::min(), Limits::max(), T{0}, T{1}, T{16}, static_cast<T>(generator()),
                        static_cast<T>(generator() >> 33)}) {
    roundTrip<T>(copy, value);
  }
}

} // namespace

TEST(Calls, EveryIntegerType) {
  const Function copy = program().function("copy");
  roundTrips<int8_t>(copy);
  roundTrips<int16_t>(copy);
  roundTrips<int32_t>(copy);
  roundTrips<int64_t>(copy);
  roundTrips<uint8_t>(copy);
  roundTrips<uint16_t>(copy);
  roundTrips<uint32_t>(copy);
  roundTrips<uint64_t>(copy);
  roundTrips<long long>(copy);
  roundTrips<unsigned long long>(copy);
  roundTrips<long>(copy);
  for (const bool value : {false, true}) {
    bool out = !value;
    copy.launch(cpu(), 1, {&out, value});
    EXPECT_EQ(out, value);
  }
  double out = 0;
  copy.launch(cpu(), 1, {&out, 0.5F});
  EXPECT_EQ(out, 0.5);
  copy.launch(cpu(), 1, {&out, 0.1}); // a float of a call is an fp32
  EXPECT_EQ(out, 0.1F);
}

TEST(Calls, NumbersThatDoNotFitAreRefused) {
  const Program calls = program();
  const Function int8 = calls.function("int8"), uint8 = calls.function("uint8"), half = calls.function("half");
  int64_t out = 0;
  for (int value = -300; value <= 300; ++value) {
    if (value >= -128 && value <= 127) {
      int8.launch(cpu(), 1, {&out, value});
      EXPECT_EQ(out, value);
    } else {
      EXPECT_EQ(message([&] { int8.launch(cpu(), 1, {&out, value}); }),
                "argument 'value': the integer " + std::to_string(value) + " does not fit int8");
    }
    if (value >= 0 && value <= 255) {
      uint8.launch(cpu(), 1, {&out, value});
      EXPECT_EQ(out, value);
    } else {
      EXPECT_TRUE(contains(message([&] { uint8.launch(cpu(), 1, {&out, value}); }), "does not fit uint8"));
    }
  }
  EXPECT_TRUE(contains(message([&] { uint8.launch(cpu(), 1, {&out, UINT64_MAX}); }), "18446744073709551615"));
  EXPECT_TRUE(contains(message([&] { uint8.launch(cpu(), 1, {&out, 1.0}); }), "the float 1.0 does not fit"));
  double rounded = 0;
  half.launch(cpu(), 1, {&rounded, 2049});
  EXPECT_EQ(rounded, 2048) << "to the nearest, ties to even";
}

TEST(Calls, DefaultsAndNames) {
  const Program calls = program();
  const Function defaults = calls.function("defaults");
  using Row = std::vector<int32_t>;
  const auto run = [&](std::vector<Argument> arguments) {
    Row out(6, -1);
    arguments.insert(arguments.begin(), out.data());
    defaults.launch(cpu(), 1, arguments);
    return out;
  };
  EXPECT_EQ(run({8}), (Row{8, 3, 42, 57, 32, 1}));
  EXPECT_EQ(run({8, 9}), (Row{8, 9, 42, 57, 32, 1}));
  EXPECT_EQ(run({{"b", 1}, {"a", 2}}), (Row{2, 1, 42, 57, 32, 1}));
  EXPECT_EQ(run({8, {"c", tuple({1, 2})}, {"d", tuple({6, 1})}}), (Row{8, 3, 12, 61, 32, 1}));
  EXPECT_EQ(run({8, {"c", tuple({1, 3})}}), (Row{8, 3, 13, 57, 32, 1}));
  EXPECT_EQ(run({8, {"e", language("float16")}, {"f", 77}}), (Row{8, 3, 42, 57, -1, 77}));
  EXPECT_EQ(run({8, {"e", language("float32")}, {"f", nullptr}}), (Row{8, 3, 42, 57, 32, 1}));
}

TEST(Calls, VariadicParameters) {
  const Function variadic = program().function("variadic");
  std::vector<int32_t> out(4, -1);
  variadic.launch(cpu(), 1, {out.data()});
  EXPECT_EQ(out[0], 9);
  variadic.launch(cpu(), 1, {out.data(), 10, 20, {"last", 30}});
  EXPECT_EQ(out, (std::vector<int32_t>{10, 20, 30, -1}));
}

TEST(Calls, FunctionsAndTextsAreConstants) {
  const Program calls = program();
  const Function apply = calls.function("apply"), twice = calls.function("twice"),
                 thrice = calls.function("thrice");
  int32_t out = 0;
  apply.launch(cpu(), 1, {&out, 7, twice, "negate"});
  EXPECT_EQ(out, -14);
  apply.launch(cpu(), 1, {&out, 7, thrice, std::string("negate")});
  EXPECT_EQ(out, -21);
  apply.launch(cpu(), 1, {&out, 7, thrice, "nothing that is longer than a short string"});
  EXPECT_EQ(out, 21);
  const Program other = program();
  try {
    apply.launch(cpu(), 1, {&out, 7, other.function("twice"), ""});
    ADD_FAILURE();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::Unsupported) << error.what();
  }
}

// A constexpr parameter of an option's name and the option have one value.
TEST(Calls, OptionsOfAParametersName) {
  const Function option = program().function("option");
  int32_t out = 0;
  option.launch(cpu(), 1, {&out});
  EXPECT_EQ(out, 4);
  option.launch(cpu(), 1, {&out}, {{"num_warps", 2}});
  EXPECT_EQ(out, 2);
  option.launch(cpu(), 1, {&out, {"num_warps", 8}});
  EXPECT_EQ(out, 8);
  const Kernel kernel = option.compile("sm_90a", {type("*i32"), {"num_warps", 8}});
  EXPECT_EQ(kernel.facts().num_warps, 8);
  EXPECT_EQ(kernel.facts().threads, 256);
  EXPECT_TRUE(contains(kernel.facts().signature, "num_warps=8"));
  EXPECT_TRUE(contains(message([&] { option.launch(cpu(), 1, {&out, {"num_warps", 1000}}); }), "num_warps"));
  EXPECT_TRUE(contains(message([] { (void)Options{{"num_wraps", 1}}; }), "no option 'num_wraps'"));
  EXPECT_TRUE(contains(message([] { (void)Options{{"num_warps", -1}}; }), "num_warps=-1"));
}

TEST(Calls, WrongArguments) {
  const Program calls = program();
  const Function copy = calls.function("copy"), defaults = calls.function("defaults");
  int32_t x = 0;
  const auto refused = [&](const Function &function, const std::vector<Argument> &arguments) {
    return message([&] { function.launch(cpu(), 1, arguments); });
  };
  EXPECT_TRUE(contains(refused(copy, {&x}), "'copy' is given no argument for 'value'"));
  EXPECT_TRUE(contains(refused(copy, {&x, 1, 2}), "'copy' takes 2 arguments by position, and more are given"));
  EXPECT_TRUE(contains(refused(copy, {&x, {"valeu", 2}}), "has no parameter 'valeu'; did you mean `value`?"));
  EXPECT_TRUE(contains(refused(copy, {&x, 1, {"num_stages", 2}}), "options are given by libtile_options"));
  EXPECT_TRUE(contains(refused(copy, {&x, 1, {"value", 2}}), "argument 'value': it is given twice"));
  EXPECT_TRUE(contains(refused(copy, {{"value", 2}, &x}), "argument 2 is given by position, behind one by name"));
  EXPECT_TRUE(contains(refused(copy, {static_cast<void *>(&x), 1}), "type of the array's elements is not given"));
  EXPECT_TRUE(contains(refused(copy, {&x, type("i32")}), "argument 'value': a type is for a compilation"));
  EXPECT_TRUE(contains(refused(copy, {&x, language("floaty")}), "the language has no name `floaty`"));
  EXPECT_TRUE(contains(refused(copy, {&x, nullptr}), "calls.py"));
  EXPECT_TRUE(contains(refused(copy, {std::as_const(x) == 0 ? &std::as_const(x) : nullptr, 1}), "read-only"));
  EXPECT_TRUE(contains(refused(defaults, {&x, 1, 2, tuple({1, 2}), tuple({1, 2}), 5}),
                       "'defaults' takes 5 arguments by position"));
  EXPECT_TRUE(contains(refused(defaults, {&x, 1, {"c", tuple({&x, 2})}}), "'c': an array or a type is no constant"));
  EXPECT_TRUE(contains(refused(copy, std::vector<Argument>(257, 1)), "at most 256 arguments"));
  EXPECT_TRUE(contains(refused(calls.function("variadic"), [&] {
                         std::vector<Argument> many(256, 1);
                         many[0] = &x;
                         return many;
                       }()),
                       "with its items the call has more than 256 arguments"));
  EXPECT_TRUE(contains(message([&] { copy.launch(cpu(), {1, -1}, {&x, 1}); }), "extent -1 of the grid"));
  EXPECT_EQ(x, 0);
}

// What only the C interface can say.
TEST(Calls, WrongListsOfArguments) {
  const Function copy = program().function("copy");
  const int64_t grid[3] = {1, 1, 1};
  int32_t x = 0;
  const auto refused = [&](std::vector<libtile_argument> list) {
    list.insert(list.begin(), libtile_array(LIBTILE_INT32, &x, 4));
    return message([&] {
      detail::check(libtile_launch(copy.get(), cpu().get(), grid, list.data(), list.size(), nullptr, nullptr));
    });
  };
  EXPECT_TRUE(contains(refused({libtile_make(77, 0)}), "argument 'value': there is no kind of argument 77"));
  EXPECT_TRUE(contains(refused({libtile_array(19, &x, 4)}), "there is no type 19"));
  EXPECT_TRUE(contains(refused({libtile_array(LIBTILE_FP32 + 9 * LIBTILE_POINTER, &x, 4)}), "there is no type"));
  EXPECT_TRUE(contains(refused({libtile_text(LIBTILE_STRING, nullptr)}), "the text is NULL"));
  EXPECT_TRUE(contains(refused({libtile_make(LIBTILE_FUNCTION, 0)}), "the function is an empty handle"));
  EXPECT_TRUE(contains(refused({libtile_tuple(2), libtile_int(1)}), "a tuple of more items than follow it"));
  EXPECT_TRUE(contains(refused({libtile_tuple(UINT32_MAX), libtile_int(1)}), "more items than follow it"));
  EXPECT_TRUE(contains(refused({libtile_tuple(1), libtile_named("value", libtile_int(1))}), "has a name"));
  libtile_argument flagged = libtile_int(3);
  flagged.flags = 2;
  EXPECT_TRUE(contains(refused({flagged}), "there is no flag 2"));
  const Program fresh = program();
  const libtile_argument global = libtile_array(LIBTILE_INT32, &x, 4), two = libtile_int(2);
  const auto set = [&](const char *name, const libtile_argument *value, size_t count) {
    return message([&] { detail::check(libtile_program_set_global(fresh.get(), name, value, count)); });
  };
  EXPECT_TRUE(contains(set("G", &global, 1), "'G': an array or a type is no constant"));
  EXPECT_TRUE(contains(set("G", &two, 0), "not one constant"));
  EXPECT_TRUE(contains(set(nullptr, &two, 1), "the global's name is NULL"));
  (void)fresh.function("copy");
  EXPECT_TRUE(contains(set("G", &two, 1), "'G' comes too late"));
}

TEST(Calls, DefaultsHaveTheirPlace) {
  const Program wrong = Program::fromText("@libtile.jit\ndef f(x, y=nowhere):\n    pass\n", "f.py");
  for (int round = 0; round < 2; ++round) {
    try {
      (void)wrong.function("f");
      ADD_FAILURE();
    } catch (const Error &error) {
      EXPECT_EQ(error.file(), "f.py");
      EXPECT_EQ(error.line(), 2);
      EXPECT_EQ(error.column(), 12);
    }
  }
}

TEST(Calls, ElementsOfTypesOfOnesOwn) {
  const Function copy = program().function("copy");
  Half half = {0};
  copy.launch(cpu(), 1, {&half, 1.5F});
  EXPECT_EQ(half.bits, 0x3E00);
  uint16_t bfloat = 0;
  copy.launch(cpu(), 1, {Argument(libtile_array(LIBTILE_BF16, &bfloat, sizeof bfloat)), 1.5F});
  EXPECT_EQ(bfloat, 0x3FC0);
  const Buffer buffer = cpu().allocate(sizeof half);
  copy.launch(cpu(), 1, {buffer.as<Half>(), -2.0F});
  cpu().copyToHost(&half, buffer.data(), sizeof half);
  EXPECT_EQ(half.bits, 0xC000);
}

TEST(Calls, ArraysOfAddresses) {
  const Function function = Program::fromText("@libtile.jit\n"
                                              "def f(arrays, out):\n"
                                              "    i = tl.program_id(0)\n"
                                              "    tl.store(out + i, tl.load(tl.load(arrays + i)))\n")
                                .function();
  float a = 3, b = 5, out[2] = {};
  const float *arrays[] = {&a, &b};
  function.launch(cpu(), 2, {Argument(libtile_array(LIBTILE_FP32 + LIBTILE_POINTER, arrays, sizeof arrays)), out});
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 5);
}

// The same specialisations and others, found, compiled and forgotten by all at once.
TEST(Calls, SixteenThreads) {
  const Program calls = program();
  const Function sums = calls.function("sums");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> x(200, 1), out(40);
      const Function own = calls.function(t % 2 == 0 ? "sums" : "copy");
      for (int round = 0; round < 30; ++round) {
        const int n = 100 + (t + round) % 3 * 16;
        sums.launch(cpu(), out.size(), {x.data(), out.data(), n, {"BLOCK", 256 + round % 2}});
        for (size_t i = 0; i < out.size(); ++i) {
          wrong += out[i] == static_cast<float>(n) + static_cast<float>(i) ? 0 : 1;
        }
        if (t == 0 && round % 10 == 9) {
          own.clear();
        }
        wrong += message([&] { sums.launch(cpu(), 1, {x.data()}); }).empty() ? 1 : 0;
      }
      const Kernel kernel = sums.compile(cpu().target(), {type("*fp32"), type("*fp32"), type("i32"), 64 + t % 4});
      kernel.launch(cpu(), 1, {x.data(), out.data(), 50});
      wrong += out[0] == 50 ? 0 : 1;
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong.load(), 0);
}
