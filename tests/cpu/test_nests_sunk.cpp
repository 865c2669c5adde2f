// SPDX-License-Identifier: Apache-2.0
// Loops that run inside nests (sink_loops.h) and nests that end where their masks do (bound_nests.h):
// random combinations of what a loop may do and what becomes of its results, against the interpreter.
// Sums of floats are of few small multiples of 1/16, so that every order gives the same bits.
#include "tests/cpu/nests_fixture.h"
#include "tests/passes/evaluate.h"

namespace libtile::test {

namespace {

LIBTILE_NEST_TESTS(SunkLoops);

constexpr int kWords = 3000; // of each array, in front of and behind its pointer

const char *const kKernel = R"(
func @sunk stage=tile warps=4 stages=3 (%x: ptr<ELEM>, %o: ptr<ELEM>, %r: ptr<ELEM>, %n: i32, %lo: i32, %hi: i32) {
  %i = arange {start=0} : tile<BLOCKxi32>
  %ns = splat %n : tile<BLOCKxi32>
  %xs = splat %x : tile<BLOCKxptr<ELEM>>
  %os = splat %o : tile<BLOCKxptr<ELEM>>
  %oi = ptr_add %os, %i : tile<BLOCKxptr<ELEM>>
  %rs = splat %r : tile<BLOCKxptr<ELEM>>
  %ri = ptr_add %rs, %i : tile<BLOCKxptr<ELEM>>
  %xi = ptr_add %xs, %i : tile<BLOCKxptr<ELEM>>
  %x0 = load %xi : tile<BLOCKxELEM>
  %zero = constant {value=ZERO} : tile<BLOCKxELEM>
  %part = constant {value=PART} : tile<BLOCKxELEM>
  %three = constant {value=3} : i32
  %threes = constant {value=3} : tile<BLOCKxi32>
  %step = constant {value=STEP} : i32
  %inside = cmp %i, %ns {predicate=PREDICATE} : tile<BLOCKxi1>
  %a9, %b9, %p9 = for %lo, %hi, %step, INIT, %p0 : tile<BLOCKxELEM>, tile<BLOCKxELEM>, i32 {
  ^(%k: i32, %a: tile<BLOCKxELEM>, %b: tile<BLOCKxELEM>, %p: i32):
    %ks = splat %k : tile<BLOCKxi32>
    %at = add %ks, %i : tile<BLOCKxi32>
    %mask = cmp %at, %ns {predicate=PREDICATE} : tile<BLOCKxi1>
    %xp = ptr_add %xs, %at : tile<BLOCKxptr<ELEM>>
    %ps = splat %p : tile<BLOCKxi32>
    %pi = add %ps, %i : tile<BLOCKxi32>
    %q = add %p, %three : i32
BODY
  }
END
  return
}
)";

const char *const kLoads[] = {
    "%v = load %xp, %mask, %zero : tile<BLOCKxELEM>",
    "%v = load %xp, %mask : tile<BLOCKxELEM>",
    "%v = load %xp, %mask, %part : tile<BLOCKxELEM>",
    // By the carried scalar, from the array's middle.
    "%pp = ptr_add %xs, %pi : tile<BLOCKxptr<ELEM>>\n %v = load %pp : tile<BLOCKxELEM>",
    // Masked by what does not change, and by both.
    "%v = load %xp, %inside, %zero : tile<BLOCKxELEM>",
    "%both = and %inside, %mask : tile<BLOCKxi1>\n %v = load %xp, %both, %zero : tile<BLOCKxELEM>",
    // One number for all elements: as it is, masked, and as a condition.
    "%sp = ptr_add %x, %k : ptr<ELEM>\n %sv = load %sp : ELEM\n %v = splat %sv : tile<BLOCKxELEM>",
    "%sp = ptr_add %x, %k : ptr<ELEM>\n %sm = cmp %k, %n {predicate=slt} : i1\n"
    " %sv = load %sp, %sm : ELEM\n %sw = splat %sv : tile<BLOCKxELEM>\n"
    " %xv = load %xp, %mask, %zero : tile<BLOCKxELEM>\n %v = sub %xv, %sw : tile<BLOCKxELEM>",
    "%sp = ptr_add %x, %p : ptr<ELEM>\n %sv = load %sp : ELEM\n %s0 = constant {value=ZERO} : ELEM\n"
    " %sc = cmp %sv, %s0 {predicate=LESS} : i1\n %cc = splat %sc : tile<BLOCKxi1>\n"
    " %v = select %cc, %part, %x0 : tile<BLOCKxELEM>",
};

const char *const kBodies[] = {
    "%c = add %a, %v : tile<BLOCKxELEM>\n %d = MAX %b, %v : tile<BLOCKxELEM>\n yield %c, %d, %q",
    "%c = add %a, %v : tile<BLOCKxELEM>\n yield %c, %b, %q",
    // The new b is the old a; both need both.
    "%c = MAX %a, %v : tile<BLOCKxELEM>\n %d = MAX %b, %v : tile<BLOCKxELEM>\n"
    " %e = select %mask, %d, %a : tile<BLOCKxELEM>\n yield %e, %c, %q",
    "%y = sub %v, %x0 : tile<BLOCKxELEM>\n %z = select %mask, %y, %zero : tile<BLOCKxELEM>\n"
    " %c = add %a, %z : tile<BLOCKxELEM>\n %d = MIN %b, %z : tile<BLOCKxELEM>\n yield %c, %d, %q",
};
// The order of the operations on each element shows.
const char *const kOrdered =
    "%h = mul %a, %part : tile<BLOCKxELEM>\n %c = add %h, %v : tile<BLOCKxELEM>\n"
    " %d = sub %b, %c : tile<BLOCKxELEM>\n yield %c, %d, %q";

std::string reduce(const std::string &name, const std::string &input, const std::string &op) {
  return fill("  %NAME = reduce INPUT {axis=0} : ELEM {\n  ^(%left_NAME: ELEM, %right_NAME: ELEM):\n"
              "    %next_NAME = OP %left_NAME, %right_NAME : ELEM\n    yield %next_NAME\n  }\n",
              {{"NAME", name}, {"INPUT", input}, {"OP", op}});
}

std::string endOf(int which) {
  switch (which) {
  case 0: // stores, of which one is masked
    return "%u = sub %a9, %b9 : tile<BLOCKxELEM>\n store %oi, %u\n store %ri, %b9, %inside\n";
  case 1: // the loop's loads may not move behind the store
    return "store %xi, %zero\n store %oi, %a9\n store %ri, %b9\n";
  case 2: // the results begin another loop, which reads one of them each time
    return "%two = constant {value=2} : i32\n %one = constant {value=1} : i32\n"
           " %c9 = for %one, %three, %one, %a9 : tile<BLOCKxELEM> {\n"
           " ^(%j: i32, %f: tile<BLOCKxELEM>):\n %g = MAX %f, %b9 : tile<BLOCKxELEM>\n"
           " %w = sub %g, %x0 : tile<BLOCKxELEM>\n yield %w\n }\n store %oi, %c9\n";
  case 3: // two folds, so the results lie in memory
    return reduce("s", "%a9", "add") + reduce("t", "%b9", "MAX") + " store %o, %s\n store %r, %t\n";
  case 4: // one fold of both, and the scalar
    return "%m = MAX %a9, %b9 : tile<BLOCKxELEM>\n" + reduce("s", "%m", "MIN") +
           " %rp = ptr_add %r, %p9 : ptr<ELEM>\n store %rp, %s\n";
  case 5:
    return reduce("s", "%a9", "add") + " store %o, %s\n";
  // Stores over what the loop reads: of its results, of both, and where one of them says so.
  case 6:
    return "store %xi, %a9\n store %oi, %b9\n";
  case 7:
    return "%u = sub %a9, %b9 : tile<BLOCKxELEM>\n store %xi, %u, %inside\n";
  default:
    return "%u = cmp %b9, %zero {predicate=LESS} : tile<BLOCKxi1>\n store %xi, %a9, %u\n";
  }
}
constexpr int kEnds = 9;
bool reduces(int end) { return end >= 3 && end <= 5; }

struct Case {
  std::string elem;
  int block, step, n, lo, hi;
  std::string predicate, init, load, body, end;

  [[nodiscard]] std::string str() const {
    const bool isFloat = elem == "f32";
    return fill(fill(kKernel, {{"BODY", load + "\n" + body}, {"END", end}, {"INIT", init}}),
                {{"ELEM", elem},
                 {"BLOCK", std::to_string(block)},
                 {"STEP", std::to_string(step)},
                 {"PREDICATE", predicate},
                 {"LESS", isFloat ? "olt" : "slt"},
                 {"MAX", isFloat ? "fmax" : "smax"},
                 {"MIN", isFloat ? "fmin" : "smin"},
                 {"ZERO", isFloat ? "0.0" : "0"},
                 {"PART", isFloat ? "0.75" : "5"},
                 {"%p0", "%three"}});
  }
};

template <class T, size_t N> T pick(std::mt19937 &random, const T (&from)[N]) {
  return from[random() % N];
}

Case randomCase(std::mt19937 &random) {
  Case c;
  c.elem = random() % 2 == 0 ? "i32" : "f32";
  c.block = pick(random, {16, 37, 64, 100, 128, 200, 256, 391, 512, 1000});
  c.step = pick(random, {c.block, c.block, 7, -c.block});
  const int trips = std::min(pick(random, {0, 1, 1, 2, 5}), 2500 / std::abs(c.step));
  c.lo = pick(random, {0, 0, 3, -20});
  c.hi = c.lo + trips * c.step - (trips > 0 ? int(random() % 5) * (c.step < 0 ? -1 : 1) : 0);
  c.n = int(random() % unsigned(c.block + 30)) - 20 + int(random() % 4) * c.block;
  c.n = std::min(c.n, 2000);
  c.predicate = pick(random, {"slt", "slt", "sle"});
  c.init = pick(random, {"%zero, %zero", "%x0, %zero", "%zero, %part"});
  c.load = pick(random, kLoads);
  const int end = int(random() % kEnds);
  const bool ordered = c.elem == "f32" && !reduces(end) && random() % 2 == 0;
  c.body = ordered ? kOrdered : pick(random, kBodies);
  c.end = endOf(end);
  return c;
}

// Three arrays, each pointer in the middle of its own; the whole memory is compared.
void check(const std::string &way, const Case &c) {
  const std::string text = c.str();
  const ir::Function fn = ir::parse(text);
  ir::verifyOrThrow(fn, "parse");
  std::vector<int32_t> memory(size_t{6} * kWords);
  for (size_t i = 0; i < memory.size(); ++i) {
    const int small = int(i * 7919 % 257) - 128;
    memory[i] = c.elem == "f32" ? std::bit_cast<int32_t>(float(small) / 16.0F) : small;
  }
  Machine machine;
  machine.memory.resize(memory.size() * 4);
  std::memcpy(machine.memory.data(), memory.data(), machine.memory.size());
  std::vector<Element> arguments;
  std::vector<uint64_t> slots;
  for (int array = 0; array < 3; ++array) {
    const int64_t at = int64_t{4} * kWords * (2 * array + 1);
    arguments.push_back({at, 0});
    slots.push_back(pointer(memory.data()) + uint64_t(at));
  }
  for (int32_t value : {c.n, c.lo, c.hi}) {
    arguments.push_back({value, 0});
    slots.push_back(uint64_t(uint32_t(value)));
  }
  evaluate(fn, arguments, machine);
  TileKernel(text, way).run(slots);
  for (size_t i = 0; i < memory.size(); ++i) {
    int32_t expected = 0;
    std::memcpy(&expected, machine.memory.data() + i * 4, 4);
    const bool zeros = c.elem == "f32" && ((expected | memory[i]) & INT32_MAX) == 0;
    ASSERT_TRUE(expected == memory[i] || zeros)
        << "word " << i << ": " << expected << " but " << memory[i] << ", n=" << c.n
        << " lo=" << c.lo << " hi=" << c.hi << "\n"
        << text << ir::print(nested(text, way));
  }
}

TEST_P(SunkLoops, AsInterpreted) {
  std::mt19937 random(5);
  for (int i = 0; i < 120 && !HasFatalFailure(); ++i) {
    check(GetParam(), randomCase(random));
  }
}

// Indices that wrap: a compare with the bound is true again behind the greatest number.
TEST_P(SunkLoops, Wraps) {
  std::mt19937 random(6);
  for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
    Case c = randomCase(random);
    c.elem = "i32";
    c.step = pick(random, {c.block, 3 * c.block});
    c.hi = INT32_MAX - int(random() % 600);
    c.lo = c.hi - int(random() % 900);
    c.n = pick(random, {INT32_MAX, INT32_MAX - 200, INT32_MIN, INT32_MIN + 100, 0});
    c.predicate = pick(random, {"slt", "sle", "ult"});
    c.load = "%v = select %mask, %at, %zero : tile<BLOCKxELEM>";
    c.body = kBodies[random() % 3];
    c.end = endOf(int(random() % 2) == 0 ? 3 : 5);
    check(GetParam(), c);
  }
}

// Rows and columns: lanes along the reduced axis, or along the other one.
TEST_P(SunkLoops, TwoAxes) {
  const char *text = R"(
func @axes stage=tile warps=4 stages=3 (%x: ptr<i32>, %o: ptr<i32>, %n: i32) {
  %i = arange {start=0} : tile<ROWSxi32>
  %j = arange {start=0} : tile<COLSxi32>
  %i1 = expand_dims %i {axis=1} : tile<ROWSx1xi32>
  %w = constant {value=COLS} : tile<ROWSx1xi32>
  %iw = mul %i1, %w : tile<ROWSx1xi32>
  %ib = broadcast %iw : tile<ROWSxCOLSxi32>
  %j1 = expand_dims %j {axis=0} : tile<1xCOLSxi32>
  %jb = broadcast %j1 : tile<ROWSxCOLSxi32>
  %at = add %ib, %jb : tile<ROWSxCOLSxi32>
  %ns = splat %n : tile<ROWSxCOLSxi32>
  %xs = splat %x : tile<ROWSxCOLSxptr<i32>>
  %zero = constant {value=0} : tile<ROWSxCOLSxi32>
  %lo = constant {value=0} : i32
  %size = constant {value=SIZE} : i32
  %a9 = for %lo, %n, %size, %at : tile<ROWSxCOLSxi32> {
  ^(%k: i32, %a: tile<ROWSxCOLSxi32>):
    %ks = splat %k : tile<ROWSxCOLSxi32>
    %here = add %at, %ks : tile<ROWSxCOLSxi32>
    %m = cmp %here, %ns {predicate=slt} : tile<ROWSxCOLSxi1>
    %xp = ptr_add %xs, %here : tile<ROWSxCOLSxptr<i32>>
    %v = load %xp, %m, %zero : tile<ROWSxCOLSxi32>
    %b = add %a, %v : tile<ROWSxCOLSxi32>
    yield %b
  }
  %s = reduce %a9 {axis=AXIS} : tile<LEFTxi32> {
  ^(%l: i32, %r: i32):
    %c = smax %l, %r : i32
    yield %c
  }
  %e = arange {start=0} : tile<LEFTxi32>
  %os = splat %o : tile<LEFTxptr<i32>>
  %op = ptr_add %os, %e : tile<LEFTxptr<i32>>
  store %op, %s
  return
}
)";
  for (const int axis : {0, 1}) {
    for (const auto &[rows, cols] : {std::pair(5, 37), std::pair(40, 64), std::pair(33, 3)}) {
      const int left = axis == 0 ? cols : rows;
      TileKernel kernel(fill(text, {{"ROWS", std::to_string(rows)},
                                    {"COLS", std::to_string(cols)},
                                    {"SIZE", std::to_string(rows * cols)},
                                    {"AXIS", std::to_string(axis)},
                                    {"LEFT", std::to_string(left)}}),
                        GetParam());
      for (const int n : {0, 1, rows * cols - 1, rows * cols, 3 * rows * cols - 7}) {
        std::vector<int32_t> x(size_t(std::max(n, 1))), o(left, -1), expected(left, INT32_MIN);
        for (size_t i = 0; i < x.size(); ++i) {
          x[i] = int(i * 7919 % 501) - 250;
        }
        for (int at = 0; at < rows * cols; ++at) {
          int sum = at;
          for (int k = at; k < n; k += rows * cols) {
            sum += x[k];
          }
          int &most = expected[axis == 0 ? at % cols : at / cols];
          most = std::max(most, sum);
        }
        kernel.run({pointer(x.data()), pointer(o.data()), slot(n)});
        EXPECT_EQ(o, expected) << rows << "x" << cols << " along " << axis << ", n " << n;
      }
    }
  }
}

} // namespace

} // namespace libtile::test
