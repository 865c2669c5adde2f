// SPDX-License-Identifier: Apache-2.0
// Accesses from lanes: contiguous, strided, gathered, the same for all, masked, and atomic; between
// pages that must not be touched.
#include "tests/cpu/guarded.h"
#include "tests/cpu/run_nested.h"

#include <gtest/gtest.h>

#include <random>

namespace libtile::test {
namespace {

std::string replaceAll(std::string text, const std::string &key, const std::string &value) {
  for (size_t at = text.find(key); at != std::string::npos;
       at = text.find(key, at + value.size())) {
    text.replace(at, key.size(), value);
  }
  return text;
}

std::string withTypes(std::string text, const std::string &type, int extent, int lanes) {
  text = replaceAll(std::move(text), "TYPE", type);
  text = replaceAll(std::move(text), "EXTENT", std::to_string(extent));
  return replaceAll(std::move(text), "LANES", std::to_string(lanes));
}

// Copies the elements lo <= i < hi; the others become 3 in the second output.
const char *const kMaskedCopy = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<TYPE>, %o: ptr<TYPE>, %all: ptr<TYPE>, %lo: i32, %hi: i32) {
  %three = constant {value=3} : TYPE
  nest {extents=[EXTENT], lanes=LANES, unroll=2} {
  ^(%i: i32):
    %a = cmp %i, %lo {predicate=sge} : i1
    %b = cmp %i, %hi {predicate=slt} : i1
    %m = and %a, %b : i1
    %px = ptr_add %x, %i : ptr<TYPE>
    %po = ptr_add %o, %i : ptr<TYPE>
    %pa = ptr_add %all, %i : ptr<TYPE>
    %v = load %px, %m, %three : TYPE
    store %po, %v, %m
    store %pa, %v
    yield
  }
  return
}
)";

template <class T> void checkMaskedCopy(const std::string &type) {
  constexpr int kExtent = 107;
  std::mt19937 random(3);
  for (const std::string &target : runnableTargets()) {
    for (int lanes : {1, 4, 16, 64}) {
      NestedKernel kernel(withTypes(kMaskedCopy, type, kExtent, lanes), target);
      for (int trial = 0; trial < 40; ++trial) {
        int lo = random() % (kExtent + 1), hi = random() % (kExtent + 1);
        if (trial % 4 == 0) {
          lo = 0;
        }
        if (trial % 4 == 1) {
          hi = kExtent;
        }
        // Memory holds the elements inside of the mask only.
        const size_t count = hi > lo ? hi - lo : 0;
        const bool atEnd = trial % 2 == 0;
        const Guarded in(count * sizeof(T), atEnd), out(count * sizeof(T), atEnd);
        const Guarded all(kExtent * sizeof(T), atEnd);
        for (size_t i = 0; i < count; ++i) {
          in.as<T>()[i] = static_cast<T>(random());
        }
        const auto shifted = [&](const Guarded &memory) {
          return slot(reinterpret_cast<uintptr_t>(memory.data()) - lo * sizeof(T));
        };
        kernel.run({shifted(in), shifted(out), slot(all.data()), slot(lo), slot(hi)});
        for (int i = 0; i < kExtent; ++i) {
          const bool inside = i >= lo && i < hi;
          const T want = inside ? in.as<T>()[i - lo] : T(3);
          ASSERT_EQ(all.as<T>()[i], want)
              << target << " " << type << " lanes=" << lanes << " i=" << i;
          ASSERT_TRUE(!inside || out.as<T>()[i - lo] == want)
              << target << " " << type << " i=" << i;
        }
      }
    }
  }
}

TEST(Memory, MaskedLanesTouchNothing) {
  checkMaskedCopy<uint8_t>("i8");
  checkMaskedCopy<uint16_t>("i16");
  checkMaskedCopy<uint32_t>("i32");
  checkMaskedCopy<uint64_t>("i64");
}

// Rows of a page and longer ask for each of their cache lines once where the target asks ahead, and past the arrays' ends
// for nothing that faults.
template <class T> void checkFetchesAhead(const std::string &type, size_t ofUnrolledStep) {
  codegen::CodeOptions options;
  options.keepLlvm = true;
  for (const std::string &target : runnableTargets()) {
    const bool asks = codegen::findTarget(target).askAhead > 0;
    for (const int bytes : {4096 - 64, 4096, 12288 + 16}) {
      const int extent = bytes / int(sizeof(T));
      NestedKernel kernel(withTypes(kMaskedCopy, type, extent, 16), target, options);
      EXPECT_EQ(timesAsked(kernel.code()), !asks || bytes < 4096 ? 0 : 3 * ofUnrolledStep) << target << " " << type << " " << bytes;
      const Guarded in(bytes, true), out(bytes, true), all(bytes, true);
      for (int i = 0; i < extent; ++i) {
        in.as<T>()[i] = static_cast<T>(i * 7);
      }
      kernel.run({slot(in.data()), slot(out.data()), slot(all.data()), slot(0), slot(extent)});
      EXPECT_EQ(std::memcmp(in.data(), out.data(), bytes), 0) << target << " " << type << " " << bytes;
      EXPECT_EQ(std::memcmp(in.data(), all.data(), bytes), 0) << target << " " << type << " " << bytes;
    }
  }
}

TEST(Memory, LongRunsAreFetchedAhead) {
  checkFetchesAhead<uint8_t>("i8", 1);
  checkFetchesAhead<uint16_t>("i16", 1);
  checkFetchesAhead<uint32_t>("i32", 2);
  checkFetchesAhead<uint64_t>("i64", 4);
}

// out[i] = x[i * stride + (i % 3)] + x[0] where stride is a number, an argument, or -1.
const char *const kGather = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<i16>, %y: ptr<i64>, %o: ptr<i64>, %stride: i32) {
  %zero = constant {value=0} : i32
  %three = constant {value=3} : i32
  %back = constant {value=-1} : i32
  nest {extents=[3, 37], lanes=LANES} {
  ^(%r: i32, %i: i32):
    %row = mul %r, %stride : i32
    %k = mul %i, %three : i32
    %i0 = add %row, %k : i32
    %p0 = ptr_add %x, %i0 : ptr<i16>
    %a = load %p0 : i16
    %i1 = mul %i, %stride : i32
    %p1 = ptr_add %x, %i1 : ptr<i16>
    %b = load %p1 : i16
    %i2 = mul %i, %back : i32
    %end = ptr_add %y, %stride : ptr<i64>
    %p2 = ptr_add %end, %i2 : ptr<i64>
    %c = load %p2 : i64
    %p3 = ptr_add %y, %r : ptr<i64>
    %d = load %p3 : i64
    %a6 = sext %a : i64
    %b6 = sext %b : i64
    %s0 = add %a6, %b6 : i64
    %s1 = add %s0, %c : i64
    %s2 = add %s1, %d : i64
    %w = constant {value=37} : i32
    %ro = mul %r, %w : i32
    %io = add %ro, %i : i32
    %po = ptr_add %o, %io : ptr<i64>
    store %po, %s2
    yield
  }
  return
}
)";

int gathers(const std::string &llvm) {
  const std::string call = "call <";
  int count = 0;
  for (size_t at = llvm.find(call); at != llvm.npos; at = llvm.find(call, at + 1)) {
    count += llvm.substr(at, llvm.find('(', at) - at).find("@llvm.masked.gather") != std::string::npos;
  }
  return count;
}

TEST(Memory, StridesAndGathers) {
  constexpr int kStride = 41;
  std::vector<int16_t> x(37 * kStride + 100);
  std::vector<int64_t> y(kStride + 1);
  std::mt19937 random(5);
  for (auto &value : x) {
    value = static_cast<int16_t>(random());
  }
  for (auto &value : y) {
    value = static_cast<int64_t>(random()) << 8;
  }
  for (const std::string &target : runnableTargets()) {
    for (int lanes : {1, 8, 16}) {
      codegen::CodeOptions options;
      options.keepLlvm = true;
      NestedKernel kernel(withTypes(kGather, "i16", 37, lanes), target, options);
      // Lanes at distances that are numbers are gathered only by an instruction, or where some of them are off.
      const int ofWhole = codegen::findTarget(target).maskedAccess ? 3 : 1, ofRest = 3;
      EXPECT_EQ(gathers(kernel.code().llvm), lanes == 1 ? 0 : ofWhole + ofRest) << target << " lanes=" << lanes;
      std::vector<int64_t> out(3 * 37);
      kernel.run({slot(x.data()), slot(y.data()), slot(out.data()), slot(kStride)});
      for (int r = 0; r < 3; ++r) {
        for (int i = 0; i < 37; ++i) {
          const int64_t want = x[r * kStride + 3 * i] + x[i * kStride] + y[kStride - i] + y[r];
          ASSERT_EQ(out[r * 37 + i], want) << target << " lanes=" << lanes << " " << r << "," << i;
        }
      }
    }
  }
}

// A masked scatter: o[index[i]] = i where index[i] >= 0.
const char *const kScatter = R"(
func @f stage=nested warps=4 stages=3 (%index: ptr<i32>, %o: ptr<TYPE>) {
  %zero = constant {value=0} : i32
  nest {extents=[EXTENT], lanes=LANES} {
  ^(%i: i32):
    %p = ptr_add %index, %i : ptr<i32>
    %k = load %p : i32
    %m = cmp %k, %zero {predicate=sge} : i1
    %q = ptr_add %o, %k : ptr<TYPE>
    %v = CAST
    store %q, %v, %m
    yield
  }
  return
}
)";

template <class T> void checkScatter(const std::string &type, const std::string &cast) {
  constexpr int kExtent = 53;
  std::mt19937 random(11);
  for (const std::string &target : runnableTargets()) {
    NestedKernel kernel(withTypes(replaceAll(kScatter, "CAST", cast), type, kExtent, 16), target);
    std::vector<int32_t> index(kExtent);
    std::vector<T> out(200, T(99)), want(200, T(99));
    for (int i = 0; i < kExtent; ++i) {
      // Distinct places, some lanes off.
      index[i] = random() % 3 == 0 ? -1 : (i * 37) % 200;
      if (index[i] >= 0) {
        want[index[i]] = static_cast<T>(i);
      }
    }
    kernel.run({slot(index.data()), slot(out.data())});
    EXPECT_EQ(out, want) << target << " " << type;
  }
}

TEST(Memory, Scatters) {
  checkScatter<int8_t>("i8", "trunc %i : i8");
  checkScatter<int16_t>("i16", "trunc %i : i16");
  checkScatter<int32_t>("i32", "add %i, %zero : i32");
  checkScatter<double>("f64", "sitofp %i : f64");
}

// i1 lies in memory as a byte, and any byte but 0 is true.
TEST(Memory, Booleans) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<i1>, %o: ptr<i1>, %flag: i1) {
  nest {extents=[21], lanes=8} {
  ^(%i: i32):
    %p = ptr_add %x, %i : ptr<i1>
    %q = ptr_add %o, %i : ptr<i1>
    %v = load %p : i1
    %w = xor %v, %flag : i1
    store %q, %w
    yield
  }
  return
}
)";
  for (const std::string &target : runnableTargets()) {
    NestedKernel kernel(text, target);
    std::vector<uint8_t> in(21), out(22, 7);
    for (int i = 0; i < 21; ++i) {
      in[i] = i % 3 == 0 ? 0 : i;
    }
    kernel.run({slot(in.data()), slot(out.data()), slot(uint8_t{1})});
    for (int i = 0; i < 21; ++i) {
      EXPECT_EQ(out[i], in[i] == 0 ? 1 : 0) << target << " " << i;
    }
    EXPECT_EQ(out[21], 7);
  }
}

// Scalar accesses of the kernel's own level, one behind a mask that is off and a wild pointer.
TEST(Memory, ScalarMasks) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>, %on: i1) {
  %pid = program_id {axis=0} : i32
  %other = constant {value=-2.5} : f32
  %v = load %x, %on, %other : f32
  %q = ptr_add %o, %pid : ptr<f32>
  store %q, %v
  store %x, %v, %on
  return
}
)";
  for (const std::string &target : runnableTargets()) {
    NestedKernel kernel(text, target);
    float x = 4, out[3] = {};
    kernel.run({slot(&x), slot(out), slot(uint8_t{1})}, {3, 1, 1});
    EXPECT_EQ(out[2], 4);
    kernel.run({slot(uintptr_t{8}), slot(out), slot(uint8_t{0})}, {3, 1, 1});
    EXPECT_EQ(out[2], -2.5F);
  }
}

const char *const kAtomic = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<TYPE>, %v: ptr<TYPE>, %old: ptr<TYPE>, %n: i32) {
  %seven = constant {value=7} : i32
  nest {extents=[EXTENT], lanes=LANES} {
  ^(%i: i32):
    %m = cmp %i, %n {predicate=slt} : i1
    %k = and %i, %seven : i32
    %p = ptr_add %x, %k : ptr<TYPE>
    %pv = ptr_add %v, %i : ptr<TYPE>
    %a = load %pv : TYPE
    %b = atomic_rmw %p, %a, %m {kind=KIND, sem=acq_rel, scope=gpu} : TYPE
    %po = ptr_add %old, %i : ptr<TYPE>
    store %po, %b
    yield
  }
  return
}
)";

template <class T, class Fn>
void checkAtomic(const std::string &type, const std::string &kind, Fn combine, T (*make)(int)) {
  constexpr int kExtent = 45, kActive = 40;
  for (const std::string &target : runnableTargets()) {
    for (int lanes : {1, 16}) {
      NestedKernel kernel(withTypes(replaceAll(kAtomic, "KIND", kind), type, kExtent, lanes),
                          target);
      std::vector<T> x(8), want(8), values(kExtent), old(kExtent), wantOld(kExtent, T(0));
      for (int i = 0; i < kExtent; ++i) {
        values[i] = make(i * 7 % 31 - 9);
      }
      for (int i = 0; i < kActive; ++i) {
        wantOld[i] = want[i % 8];
        want[i % 8] = combine(want[i % 8], values[i]);
      }
      kernel.run({slot(x.data()), slot(values.data()), slot(old.data()), slot(kActive)});
      EXPECT_EQ(x, want) << target << " " << type << " " << kind << " lanes=" << lanes;
      EXPECT_EQ(old, wantOld) << target << " " << type << " " << kind << " lanes=" << lanes;
    }
  }
}

TEST(Memory, Atomics) {
  const auto number = [](int i) { return int32_t(i); };
  checkAtomic<int32_t>("i32", "add", [](int a, int b) { return a + b; }, number);
  checkAtomic<int32_t>("i32", "smax", [](int a, int b) { return std::max(a, b); }, number);
  checkAtomic<int32_t>("i32", "smin", [](int a, int b) { return std::min(a, b); }, number);
  checkAtomic<uint32_t>(
      "i32", "umax", [](uint32_t a, uint32_t b) { return std::max(a, b); },
      [](int i) { return uint32_t(i); });
  checkAtomic<int32_t>("i32", "xor", [](int a, int b) { return a ^ b; }, number);
  checkAtomic<int32_t>("i32", "xchg", [](int, int b) { return b; }, number);
  checkAtomic<float>(
      "f32", "fadd", [](float a, float b) { return a + b; }, [](int i) { return i / 4.F; });
  checkAtomic<double>(
      "f64", "fadd", [](double a, double b) { return a + b; }, [](int i) { return i / 4.; });
  // Bits of bf16 for small multiples of 1: exact sums.
  checkAtomic<uint16_t>(
      "bf16", "fadd",
      [](uint16_t a, uint16_t b) {
        const auto value = [](uint16_t bits) {
          const uint32_t wide = uint32_t(bits) << 16;
          float number;
          std::memcpy(&number, &wide, 4);
          return number;
        };
        const float sum = value(a) + value(b);
        uint32_t bits;
        std::memcpy(&bits, &sum, 4);
        return uint16_t(bits >> 16);
      },
      [](int i) {
        const float value = i;
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        return uint16_t(bits >> 16);
      });
}

TEST(Memory, CompareAndSwap) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<TYPE>, %o: ptr<TYPE>, %want: TYPE, %put: TYPE) {
  %old = atomic_cas %x, %want, %put {sem=acq_rel, scope=gpu} : TYPE
  store %o, %old
  return
}
)";
  for (const std::string &target : runnableTargets()) {
    NestedKernel ints(withTypes(text, "i32", 0, 0), target);
    int32_t x = 5, old = 0;
    ints.run({slot(&x), slot(&old), slot(5), slot(9)});
    EXPECT_EQ(x, 9);
    EXPECT_EQ(old, 5);
    ints.run({slot(&x), slot(&old), slot(5), slot(1)});
    EXPECT_EQ(x, 9);
    EXPECT_EQ(old, 9);
    NestedKernel floats(withTypes(text, "f32", 0, 0), target);
    float y = 1.5F, before = 0;
    floats.run({slot(&y), slot(&before), slot(1.5F), slot(-3.F)});
    EXPECT_EQ(y, -3.F);
    EXPECT_EQ(before, 1.5F);
  }
}

} // namespace
} // namespace libtile::test
