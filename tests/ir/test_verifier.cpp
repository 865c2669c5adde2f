// SPDX-License-Identifier: Apache-2.0
// Each invariant of verifier.cpp is broken by at least one case here, and by no valid function.
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/parser.h"
#include "ir/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

namespace libtile::test {
namespace {

using namespace libtile::ir;

constexpr int kInvariants = 41;

const char *kLayouts =
    "#0 = layout regs=[] lanes=[[1],[2],[4],[8],[16]] warps=[[32],[64]] subtile=[128] repeats=[1]\n"
    "#1 = layout regs=[] lanes=[[1],[2],[4],[8],[16]] warps=[[32]] subtile=[64] repeats=[2]\n"
    "#2 = layout regs=[] lanes=[[1],[2],[4],[8],[0]] warps=[[0],[0]] subtile=[16] repeats=[1]\n"
    "#3 = layout regs=[[0,1],[8,0],[0,8],[0,16],[0,32]] lanes=[[0,2],[0,4],[1,0],[2,0],[4,0]] "
    "warps=[[16,0],[32,0]] subtile=[64,64] repeats=[1,1]\n";

struct TextCase {
  int invariant;
  const char *stage;
  const char *body; // before `return`
};

const TextCase kTexts[] = {
    {1, "tile", "%0 = if %c : i1 { yield %c } { }"},
    {1, "tile", "if %c { return } { yield }"},
    {1, "tile", "yield"},
    {7, "tile", "if %c { %0 = load %p : f32 yield } { store %p, %0 yield }"},
    {8, "tile", "barrier"},
    {8, "nested", "%0 = arange {start=0} : tile<4xi32>"},
    {10, "tile", "%0 = add %p, %p : ptr<f32>"},
    {10, "tile", "%0 = add %n, %c : i32"},
    {10, "tile", "%0 = add %n, %n : i64"},
    {10, "tile", "%0 = fdiv %n, %n : i32"},
    {10, "tile", "%0 = cmp %n, %n {predicate=eq} : i32"},
    {10, "tile", "%0 = cmp %n, %n {predicate=oeq} : i1"},
    {10, "tile", "%0 = cmp %p, %p {predicate=slt} : i1"},
    {10, "tile", "%0 = load %p : f32 %1 = cmp %0, %0 {predicate=eq} : i1"},
    {10, "tile", "%0 = select %n, %n, %n : i32"},
    {10, "tile", "%0 = ptr_add %n, %n : i32"},
    {10, "tile", "%0 = splat %p : tile<4xptr<f32>> %1 = ptr_add %0, %n : tile<4xptr<f32>>"},
    {11, "tile", "%0 = load %n : i32"},
    {11, "tile", "%0 = load %p : i32"},
    {11, "tile", "%0 = load %p, %n : f32"},
    {11, "tile", "store %p, %n"},
    {11, "tile", "%0 = load %v : i8"},
    {12, "tile", "%0 = sext %n : i32"},
    {12, "tile", "%0 = trunc %n : i64"},
    {12, "tile", "%0 = sitofp %n : tile<4xf32>"},
    {12, "tile", "%0 = bitcast %n : f64"},
    {12, "tile", "%0 = ptrtoint %p : i32"},
    {13, "tile", "%0 = constant {value=1} : ptr<f32>"},
    {13, "tile", "%0 = constant {value=1} : token"},
    {14, "tile", "%0 = program_id {axis=3} : i32"},
    {14, "tile", "%0 = num_programs {axis=0} : i64"},
    {15, "tile", "%0 = arange {start=0} : tile<4x4xi32>"},
    {15, "tile", "%0 = arange {start=2147483647} : tile<4xi32>"},
    {16, "tile", "%0 = splat %n : tile<4xf32>"},
    {16, "tile", "%0 = splat %n : tile<4xi32> %1 = broadcast %0 : tile<8xi32>"},
    {17, "tile", "%0 = splat %n : tile<4xi32> %1 = expand_dims %0 {axis=2} : tile<4x1xi32>"},
    {17, "tile", "%0 = splat %n : tile<4xi32> %1 = reshape %0 : tile<8xi32>"},
    {17, "tile", "%0 = splat %n : tile<4x2xi32> %1 = trans %0 {order=[0, 0]} : tile<4x4xi32>"},
    {17, "tile", "%0 = splat %n : tile<4x2xi32> %1 = slice %0 {axis=0, start=1, step=2} : tile<3x2xi32>"},
    {17, "tile", "%0 = splat %n : tile<4xi32> %1 = slice %0 {axis=0, start=0, step=0} : tile<2xi32>"},
    {17, "tile", "%0 = splat %n : tile<4xi32> %1 = slice %0 {axis=1, start=0, step=1} : tile<2xi32>"},
    {18, "tile", "%0 = hint %n {divisible=[0]} : i32"},
    {18, "tile", "%0 = hint %n {divisible=[4, 4]} : i32"},
    {18, "tile", "assume %n"},
    {18, "tile", "assert %n {text=\"\"}"},
    {18, "tile", "print %n {text=\"\", formats=\"\"}"},
    {18, "tile", "print %n {text=\"\", formats=\"d d\"}"},
    {18, "tile", "print %n {text=\"\", formats=\"f\"}"},
    {18, "tile", "print %n {text=\"\", formats=\"q\"}"},
    {18, "tile", "print %n {text=\"\", formats=\"x\"}"},
    {18, "tile", "print %n {text=\"\", formats=\"x17\"}"},
    {18, "tile", "print %p {text=\"\", formats=\"x16\"}"},
    {18, "tile", "print %c {text=\"\", formats=\"u\"}"},
    {19, "tile",
     "%0 = load %p : f32 %1 = atomic_rmw %p, %0 {kind=add, sem=relaxed, scope=gpu} : f32"},
    {19, "tile", "%0 = load %p {sem=acquire, scope=gpu} : f32"},
    {19, "tile", "%0 = load %p {is_volatile=true, sem=acquire} : f32"},
    {19, "tile", "%0 = load %p {is_volatile=true, sem=release, scope=gpu} : f32"},
    {19, "tile",
     "%0 = load %p : f32 store %p, %0 {is_volatile=true, sem=acquire, scope=gpu}"},
    {19, "tile", "%0 = constant {value=1.0} : f32 %1 = atomic_rmw %p, %0 {kind=fadd, sem=relaxed, scope=gpu, deferred=true} : f32"},
    {20, "tile",
     "%0 = splat %n : tile<4x4xi32> %1 = splat %n : tile<8x4xi32> "
     "%2 = dot %0, %1, %0 : tile<4x4xi32>"},
    {20, "tile",
     "%0 = splat %n : tile<4x4xi32> %f = constant {value=0.0} : tile<4x4xf32> "
     "%2 = dot %0, %0, %f : tile<4x4xf32>"},
    {20, "tile", "%0 = splat %n : tile<4x4xi32> %1 = dot %0, %0, %0 {warps=[2]} : tile<4x4xi32>"},
    {20, "tile", "%0 = splat %n : tile<4x4xi32> %1 = dot %0, %0, %0 {format_a=e5, format_b=e5} : tile<4x4xi32>"},
    {20, "tile", "%0 = trunc %n : i8 %1 = splat %0 : tile<4x4xi8> %2 = constant {value=0.0} : tile<4x4xf32> "
     "%3 = dot %1, %1, %2 {format_a=e5} : tile<4x4xf32>"},
    {20, "tile", "%0 = trunc %n : i8 %1 = splat %0 : tile<4x4xi8> %2 = splat %n : tile<4x4xi32> "
     "%3 = dot %1, %1, %2 {format_a=e5, format_b=e5} : tile<4x4xi32>"},
    {20, "tile", "%0 = splat %n : tile<4x4xi32> %1 = dot %0, %0, %0 {warps=[3, 1]} : tile<4x4xi32>"},
    {20, "tile", "%0 = splat %n : tile<4x2xi32> %1 = sort %0 {axis=1} : tile<4x3xi32>"},
    {20, "tile", "%0 = constant {value=0.0} : tile<4xf32> %1 = sort %0 {axis=0} : tile<4xf32>"},
    {21, "tile",
     "%0 = splat %n : tile<4x2xi32> %1 = scan %0 {axis=0} : tile<2xi32> "
     "{ ^(%a: i32, %b: i32): yield %a }"},
    {21, "tile",
     "%0 = splat %n : tile<4x2xi32> %1 = reduce %0 {axis=1} : tile<2xi32> "
     "{ ^(%a: i32, %b: i32): yield %a }"},
    {21, "tile",
     "%0 = splat %n : tile<4x2xi32> %1 = reduce %0 {axis=2} : tile<4xi32> "
     "{ ^(%a: i32, %b: i32): yield %a }"},
    {21, "tile",
     "%0 = splat %n : tile<4xi32> %1 = reduce %0 {axis=0} : i32 { ^(%a: i32): yield %a }"},
    {21, "tile",
     "%0 = splat %n : tile<4xi32> %1 = map %0 : tile<8xi32> { ^(%a: i32): yield %a }"},
    {21, "tile",
     "%0 = splat %n : tile<4xi32> %1 = map %0 : tile<4xf32> { ^(%a: i32): yield %a }"},
    {21, "tile",
     "%0 = splat %n : tile<4xi32> %1 = map %0 : tile<4xf32> { ^(%a: i32): %x = load %p : f32 yield %x }"},
    {21, "tile",
     "%0 = splat %n : tile<4xi32> %1 = assembly %0 {text=\"\", constraints=\"=r,r\", pack=0} : tile<4xi32>"},
    {22, "tile", "%0 = for %n, %n, %n, %c : i1 { ^(%i: i32, %x: i1): yield %i }"},
    {22, "tile", "for %n, %n, %c { ^(%i: i32): yield }"},
    {22, "tile", "for %n, %n, %n {stop=true} { ^(%i: i32): yield }"},
    {23, "tile", "while { yield %n } { yield }"},
    {23, "tile", "%0 = while %n : i32 { ^(%x: i32): yield %c } { ^(%y: i32): yield %c }"},
    {24, "tile", "if %n { yield } { yield }"},
    {24, "tile", "%0 = if %c : i32 { yield %n } { yield %c }"},
    {25, "nested", "%0 = alloc {align=3} : buffer<4xf32>"},
    {25, "laid-out", "%0 = alloc : buffer<3x4xf32> %1 = buffer_slot %0, %n : buffer<5xf32>"},
    {25, "nested", "%0 = recall %n {slots=0} : i1"},
    {25, "nested", "%0 = recall %p {slots=2} : i1"},
    {25, "nested", "%0 = constant {value=1.0} : f32 %1 = recall %n, %0 {slots=2} : i1"},
    {25, "nested", "%0 = call_sums %p {start=0} : buffer<4xf32>"},
    {25, "nested", "%0 = call_sums %p {start=0} : buffer<4xi32>"},
    {25, "nested", "%0 = call_sums %n {start=0} : buffer<4xi32>"},
    {26, "laid-out", "%0 = alloc : buffer<64xf32> %1 = buffer_read %0 : tile<128xf32, #0>"},
    {26, "laid-out",
     "%0 = alloc : buffer<64xi32> "
     "%1 = buffer_gather %0 {axis=0, extents=[32], start=0, step=1} : tile<16xi32, #0>"},
    {26, "laid-out",
     "%0 = alloc : buffer<64xi32> "
     "%1 = buffer_gather %0 {axis=0, extents=[64], start=60, step=1} : tile<16xi32, #0>"},
    {26, "laid-out", "%0 = alloc : buffer<64xf32> %1 = splat %n : tile<128xi32, #0> buffer_count %0, %1"},
    {27, "laid-out", "async_wait {count=-1}"},
    {27, "laid-out",
     "%0 = alloc : buffer<64xf32> %1 = splat %p : tile<128xptr<f32>, #0> async_copy %1, %0"},
    {28, "nested", "nest {extents=[0], lanes=1} { ^(%i: i32): yield }"},
    {28, "nested", "nest {extents=[4], lanes=1} { yield }"},
    {28, "nested",
     "%0 = fold {extent=4, lanes=1} : i32 { ^(%i: i32): yield %i } { ^(%a: i32): yield %a }"},
    {29, "nested", "%0 = alloc : buffer<4x4xf32> %1 = element_read %0, %n : f32"},
    {29, "nested", "%0 = alloc : buffer<4xf32> element_write %0, %n, %n"},
    {30, "nested", "%0 = alloc : buffer<4xf32> %1 = constant {value=1} : i1 contract %0, %0, %0, %n, %1 {unit=\"fma_f32\", block_m=1, block_n=1}"},
    {30, "nested",
     "%0 = alloc : buffer<4x4xf32> %1 = alloc : buffer<4xi64> contract %0, %0, %0, %n, %1, %n {unit=\"fma_f32\", block_m=1, block_n=1}"},
    {30, "nested",
     "%0 = alloc : buffer<4x4xf32> %1 = constant {value=1} : i1 %2 = alloc : buffer<2x3xi32> contract %0, %0, %0, %n, %1, %2, %1, %2, %1, %0, %1 {unit=\"fma_f32\", block_m=1, block_n=1}"},
    {28, "nested",
     "prefix {extent=4, lanes=1} { ^(%i: i32): yield %i } { ^(%a: i32, %b: i32): yield %a } "
     "{ ^(%j: i32): yield }"},
    {30, "nested", "%0 = alloc : buffer<4x3xi32> sort_rows %0 {lanes=1}"},
    {30, "nested", "%0 = alloc : buffer<4x12xi32> %1 = alloc : buffer<4x8xi32> %2 = alloc : buffer<8xi32> least_of_rows %0, %1, %2 {lanes=4, count=3}"},
    {30, "nested", "%0 = alloc : buffer<4x16xi32> %1 = alloc : buffer<4x8xi32> %2 = alloc : buffer<8xi32> least_of_rows %0, %1, %2 {lanes=16, count=3}"},
    {30, "nested", "%0 = alloc : buffer<4x16xi32> %1 = alloc : buffer<4x8xi32> %2 = alloc : buffer<4xi32> least_of_rows %0, %1, %2 {lanes=4, count=3}"},
    {30, "nested", "%0 = alloc : buffer<4x16xi32> %1 = alloc : buffer<4x8xi32> %2 = alloc : buffer<8xi32> least_of_rows %0, %1, %2 {lanes=4, count=9}"},
    {30, "nested", "%0 = alloc : buffer<4x16xf32> %1 = alloc : buffer<4x8xf32> %2 = alloc : buffer<8xf32> least_of_rows %0, %1, %2 {lanes=4, count=3}"},
    {30, "nested", "%0 = alloc : buffer<16x12xbf16> %1 = alloc : buffer<8x16xi32> %2 = constant {value=0} : i32 transpose_words %0, %1, %2 {lanes=16}"},
    {30, "nested", "%0 = alloc : buffer<16x16xbf16> %1 = alloc : buffer<4x16xi32> %2 = constant {value=0} : i32 transpose_words %0, %1, %2 {lanes=16}"},
    {30, "nested", "%0 = alloc : buffer<16x16xbf16> %1 = alloc : buffer<8x12xi32> %2 = constant {value=0} : i32 transpose_words %0, %1, %2 {lanes=16}"},
    {30, "nested", "%0 = alloc : buffer<16x16xbf16> %1 = alloc : buffer<8x16xi32> %2 = constant {value=0} : i32 transpose_words %0, %1, %2 {lanes=3}"},
    {30, "nested", "%0 = alloc : buffer<24x16xbf16> %1 = alloc : buffer<8x24xi32> %2 = constant {value=0} : i32 transpose_words %0, %1, %2 {lanes=16}"},
    {30, "nested", "%0 = alloc : buffer<16x16xbf16> %1 = alloc : buffer<8x16xi32> %2 = constant {value=0} : i32 transpose_words %0, %1, %2 {lanes=2}"},
    {30, "nested", "%0 = alloc : buffer<16x16xi32> %1 = alloc : buffer<16x16xbf16> %2 = constant {value=0} : i32 transpose_words %0, %1, %2 {lanes=8}"},
    {30, "nested", "%0 = alloc : buffer<16x16xbf16> %1 = alloc : buffer<8x16xi32> %2 = constant {value=1} : i32 transpose_words %0, %1, %2 {lanes=16}"},
    {30, "nested", "%0 = alloc : buffer<16x16xbf16> %1 = alloc : buffer<8x16xi32> %2 = constant {value=-1} : i32 transpose_words %0, %1, %2 {lanes=16}"},
    {31, "tile", "%0 = load %p {within=[0, 1]} : f32"},
    {31, "nested", "%0 = load %p {within=[]} : f32"},
    {32, "tile", "%0 = splat %n : tile<128xi32, #0>"},
    {33, "laid-out", "%0 = splat %n : tile<128xi32>"},
    {33, "laid-out", "%0 = splat %n : tile<4096xi32, #0>"},
    {33, "laid-out", "%0 = splat %n : tile<128xi32, #1>"},
    {34, "laid-out", "%0 = alloc : buffer<128xf32, #0>"},
    {37, "tile",
     "%0 = splat %n : tile<4x8xi32> %1 = splat %n : tile<4x4xi32> "
     "%2 = gather %0, %1 {axis=0} : tile<4x4xi32>"},
    {37, "tile", "%0 = splat %n : tile<4xi32> %1 = histogram %0 : tile<2x2xi32>"},
    {36, "nested", "nest {extents=[4], lanes=1} { ^(%i: tile<4xi32>): yield }"},
    {36, "nested", "nest {extents=[4], lanes=1} { ^(%i: place<4xi32>): yield }"},
    {33, "laid-out", "%0 = splat %n : tile<128xi32, #0> %1 = place_write %0 : place<128xi32>"},
    {38, "laid-out", "dot_wait {count=-1}"},
    {38, "laid-out", "%0 = splat %n : tile<128xi32, #0> %1 = place_write %0 : place<128xi32, #0>"},
    {38, "laid-out",
     "%0 = splat %n : tile<128xi32, #0> %1 = place_write %0 : place<128xi32, #0> "
     "%2 = place_read %1 : tile<128xi32, #0> %3 = place_read %1 : tile<128xi32, #0>"},
    {38, "laid-out",
     "%0 = splat %n : tile<16xi32, #2> %1 = place_write %0 : place<16xi32, #0> "
     "%2 = place_read %1 : tile<16xi32, #0>"},
    {38, "laid-out",
     "%0 = splat %n : tile<128xi32, #0> %1 = place_write %0 : place<128xi32, #0> "
     "if %c { %2 = place_read %1 : tile<128xi32, #0> yield } { yield }"},
    {38, "laid-out",
     "%0 = splat %n : tile<128xi32, #0> %1 = place_write %0 : place<128xi32, #0> "
     "%2 = place_write %0 : place<128xi32, #0> "
     "%3, %4 = for %n, %n, %n, %1, %2 : place<128xi32, #0>, place<128xi32, #0> "
     "{ ^(%i: i32, %x: place<128xi32, #0>, %y: place<128xi32, #0>): yield %y, %x } "
     "%5 = place_read %3 : tile<128xi32, #0> %6 = place_read %4 : tile<128xi32, #0>"},
    {40, "laid-out", "%0 = alloc : buffer<1xi32> arrivals_init %0 {count=1}"},
    {40, "laid-out", "%0 = alloc : buffer<1xi64> arrivals_init %0 {count=0}"},
    {40, "laid-out", "%0 = alloc : buffer<2xi64> arrivals_wait %0, %n"},
    {40, "laid-out", "%0 = alloc : buffer<1xi64> arrive %0, %n"},
    {40, "laid-out", "%0 = alloc : buffer<1xi64> copy_box %0, %0, %c, %n {map=0}"},
    {40, "laid-out", "%0 = alloc : buffer<1xf32> store_box %0, %n {map=0}"},
    {40, "laid-out", "store_wait %n"},
    {41, "laid-out", "producer {count=4, registers=[25, 240]} { yield }"},
    {41, "laid-out", "producer {count=0, registers=[24, 240]} { yield }"},
    {41, "laid-out", "if %c { producer {count=4, registers=[24, 240]} { yield } yield } { yield }"},
    {41, "laid-out", "producer {count=4, registers=[24, 240]} { yield } producer {count=4, registers=[24, 240]} { yield }"},
    {41, "laid-out", "%0 = load %p : f32 producer {count=4, registers=[24, 240]} { yield }"},
    {41, "laid-out", "producer {count=4, registers=[24, 240]} { %0 = load %p : f32 store %p, %0 yield }"},
};

// Places %p1 and %p2 are written; behind that what `body` says, whose dots take %ab.
std::string withPlaces(const std::string &body) {
  return "%ab = alloc : buffer<64x64xf16> %t = constant {value=0.0} : tile<64x64xf32, #3> "
         "%p1 = place_write %t : place<64x64xf32, #3> %p2 = place_write %t : place<64x64xf32, #3> " +
         body;
}
const std::string kDot1 = "%d1 = dot %ab, %ab, %p1 : place<64x64xf32, #3> ";
const std::string kDot2 = "%d2 = dot %ab, %ab, %p2 : place<64x64xf32, #3> ";
const std::string kRead1 = "%r1 = place_read %d1 : tile<64x64xf32, #3> ";
const std::string kRead2 = "%r2 = place_read %d2 : tile<64x64xf32, #3> ";
// A dot into the place that goes round, with `inside` behind it.
std::string loop(const std::string &inside) {
  return "%d1 = for %n, %n, %n, %p1 : place<64x64xf32, #3> { ^(%i: i32, %x: place<64x64xf32, #3>): "
         "%y = dot %ab, %ab, %x : place<64x64xf32, #3> " +
         inside + " yield %y } ";
}

std::set<int> numbers(const std::vector<Violation> &found) {
  std::set<int> out;
  for (const Violation &violation : found) {
    out.insert(violation.invariant);
  }
  return out;
}

std::string function(const std::string &stage, const std::string &body,
                     const std::string &options = "") {
  return kLayouts +
         ("func @f stage=" + stage + " warps=4 " + options +
          " (%p: ptr<f32>, %n: i32, %c: i1, %v: ptr<void>) {\n" + body + "\nreturn\n}\n");
}

struct EditCase {
  int invariant;
  std::function<void(Function &, Builder &)> edit; // before `return` is added
};

const EditCase kEdits[] = {
    {2,
     [](Function &fn, Builder &builder) {
       const OpId stray = fn.createOp(Opcode::Neg, fn.args(fn.body()).subspan(1, 1), {}, {});
       (void)stray; // uses a value, lies in no block
     }},
    {3, [](Function &fn,
           Builder &builder) { builder.op(Opcode::Store, fn.args(fn.body()).first(1)); }},
    {4,
     [](Function &fn, Builder &builder) {
       const OpId op = builder.op(Opcode::If, fn.args(fn.body()).subspan(2, 1));
       fn.addRegion(op);
     }},
    {5,
     [](Function &fn, Builder &builder) {
       const Type type = Type::scalar(Elem::I32);
       builder.op(Opcode::ProgramId, {}, {&type, 1});
     }},
    {5,
     [](Function &fn, Builder &builder) {
       const ValueId flag = builder.cmp(CmpPred::eq, fn.arg(fn.body(), 1), fn.arg(fn.body(), 1));
       fn.setAttr(fn.def(flag), Attr::predicate, AttrValue(int64_t{99}));
     }},
    {5,
     [](Function &fn, Builder &builder) {
       const ValueId one = builder.i32(1);
       fn.setAttr(fn.def(one), Attr::axis, AttrValue(int64_t{0}));
     }},
    {6,
     [](Function &fn, Builder &builder) {
       const ValueId one = builder.i32(1);
       fn.addResult(fn.def(one), Type::scalar(Elem::I32));
     }},
    {9, [](Function &fn, Builder &builder) { fn.setType(builder.i32(1), Type()); }},
    {9,
     [](Function &fn, Builder &builder) {
       fn.setType(builder.i32(1), Type::tile({0}, Type::scalar(Elem::I32)));
     }},
    {13,
     [](Function &fn, Builder &builder) {
       const ValueId one = builder.i32(1);
       fn.setAttr(fn.def(one), Attr::value, AttrValue(1.0));
     }},
    {13,
     [](Function &fn, Builder &builder) {
       const ValueId one = builder.constInt(Type::scalar(Elem::I8), 1);
       fn.setAttr(fn.def(one), Attr::value, AttrValue(int64_t{255}));
     }},
    {31, [](Function &fn, Builder &builder) { fn.numWarps = 3; }},
    {31, [](Function &fn, Builder &builder) { fn.params.pop_back(); }},
    {31,
     [](Function &fn, Builder &builder) { fn.guards.push_back({Guard::Kind::Disjoint, 0, 1}); }},
    {31, [](Function &fn, Builder &builder) { fn.guards.push_back({Guard::Kind::Below, 77, 1}); }},
    {31, [](Function &fn, Builder &builder) { fn.guards.push_back({Guard::Kind::Above, 0, 0}); }},
    // Maps: no dimension, no pointer, rows of 96 bytes one below another, an extent of 0.
    {40, [](Function &fn, Builder &builder) { fn.maps.push_back({0, Elem::F32, {}}); }},
    {40, [](Function &fn, Builder &builder) { fn.maps.push_back({1, Elem::F32, {{{64, -1}, {4, -1}, 32}}}); }},
    {40, [](Function &fn, Builder &builder) { fn.maps.push_back({0, Elem::F32, {{{64, -1}, {256, -1}, 8}, {{64, -1}, {4, -1}, 24}}}); }},
    {40, [](Function &fn, Builder &builder) { fn.maps.push_back({0, Elem::F32, {{{64, -1}, {4, -1}, 3}}}); }}, // of no 16 bytes
    {40, [](Function &fn, Builder &builder) { fn.maps.push_back({0, Elem::F32, {{{0, -1}, {4, -1}, 32}}}); }},
    {35,
     [](Function &fn, Builder &builder) {
       const int32_t shape[] = {64};
       const Type type = Type::buffer(shape, Elem::F32);
       builder.op(Opcode::Alloc, {}, {&type, 1});
       fn.stage = Stage::Nested;
       fn.arenaBytes = 1024;
     }},
    {35,
     [](Function &fn, Builder &builder) {
       const int32_t shape[] = {64};
       const Type type = Type::buffer(shape, Elem::F32);
       const OpId op = builder.op(Opcode::Alloc, {}, {&type, 1});
       fn.setAttr(op, Attr::offset, AttrValue(int64_t{1000}));
       fn.stage = Stage::Nested;
       fn.arenaBytes = 1024;
     }},
};

// A place is read behind a wait that ends its dots, on every path.
TEST(Verifier, PlacesAreReadBehindTheirWait) {
  const std::string other = "%r2 = place_read %p2 : tile<64x64xf32, #3> ";
  const std::pair<std::string, bool> cases[] = {
      {kDot1 + "dot_wait {count=0} " + kRead1 + other, true},
      {kDot1 + kRead1 + other, false},
      {kDot1 + "dot_wait {count=1} " + kRead1 + other, false},
      {kDot1 + kDot2 + "dot_wait {count=1} " + kRead1 + "dot_wait {count=0} " + kRead2, true},
      {kDot1 + kDot2 + "dot_wait {count=1} " + kRead1 + kRead2, false},
      {kDot2 + kDot1 + "dot_wait {count=1} " + kRead1 + "dot_wait {count=0} " + kRead2, false},
      {"dot_wait {count=0} " + kDot1 + kRead1 + other, false},
      {kDot1 + "if %c { dot_wait {count=0} yield } { yield } " + kRead1 + other, false},
      {kDot1 + "if %c { dot_wait {count=0} yield } { dot_wait {count=0} yield } " + kRead1 + other, true},
      {loop("dot_wait {count=1}") + "dot_wait {count=0} " + kRead1 + other, true},
      {loop("dot_wait {count=1}") + kRead1 + other, false},
      {loop("dot_wait {count=0}") + kRead1 + other, true},
      {loop("") + kDot2 + "dot_wait {count=1} " + kRead1 + "dot_wait {count=0} " + kRead2, true},
      {kDot2 + loop("dot_wait {count=1}") + kRead2 + "dot_wait {count=0} " + kRead1, false},
      {kDot2 + "dot_wait {count=0} " + loop("dot_wait {count=1}") + kRead2 + "dot_wait {count=0} " + kRead1, true},
      {kDot1 + "while { yield %c } { dot_wait {count=0} yield } " + kRead1 + other, false},
  };
  for (const auto &[body, valid] : cases) {
    EXPECT_EQ(numbers(verify(parse(function("laid-out", withPlaces(body))))),
              valid ? std::set<int>{} : std::set<int>{39})
        << body;
  }
}

TEST(Verifier, LanesAreThoseOfTheTarget) {
  const Function fn = parse(function("laid-out", "%0 = splat %n : tile<128xi32, #0>"));
  EXPECT_TRUE(verify(fn).empty() && verify(fn, 32).empty());
  EXPECT_EQ(numbers(verify(fn, 64)), std::set<int>{33});
  EXPECT_THROW(verifyOrThrow(fn, "a test", 64), InternalError);
}

TEST(Verifier, EachInvariantIsFound) {
  std::set<int> covered = {39}; // PlacesAreReadBehindTheirWait
  for (const TextCase &bad : kTexts) {
    const Function fn = parse(function(bad.stage, bad.body), bad.body);
    EXPECT_TRUE(numbers(verify(fn)).contains(bad.invariant)) << bad.invariant << ": " << bad.body;
    EXPECT_THROW(verifyOrThrow(fn, "a test"), InternalError);
    covered.insert(bad.invariant);
  }
  int index = 0;
  for (const EditCase &bad : kEdits) {
    Function fn = parse(function("tile", ""));
    Builder builder(fn, fn.last(fn.body()));
    bad.edit(fn, builder);
    EXPECT_TRUE(numbers(verify(fn)).contains(bad.invariant))
        << "edit " << index << " for " << bad.invariant;
    covered.insert(bad.invariant);
    ++index;
  }
  for (int invariant = 1; invariant <= kInvariants; ++invariant) {
    EXPECT_TRUE(covered.contains(invariant)) << "no test breaks invariant " << invariant;
  }
}

TEST(Verifier, ValidFunctionsPass) {
  const char *bodies[] = {
      "%0 = hint %n {divisible=[16]} : i32",
      "%0 = splat %n : tile<4x2xi32> %1 = reduce %0 {axis=1} : tile<4xi32> { ^(%a: i32, %b: i32): "
      "yield %a }",
      "%0, %1 = for %n, %n, %n, %c, %n {stop=true} : i1, i32 { ^(%i: i32, %x: i1, %y: i32): yield "
      "%x, %x, %y }",
      "%0 = while %n : i32 { ^(%x: i32): yield %c } { ^(%y: i32): yield %y }",
      "%0 = splat %n : tile<4x3xi32> %1 = trans %0 {order=[1, 0]} : tile<3x4xi32> %2 = splat %n : "
      "tile<4x4xi32> "
      "%3 = dot %0, %1, %2 : tile<4x4xi32>",
  };
  for (const char *body : bodies) {
    const std::vector<Violation> found = verify(parse(function("tile", body)));
    EXPECT_TRUE(found.empty()) << body << ": " << (found.empty() ? "" : found[0].message);
  }
}

// A violation is described with the types of its op and the place that the op comes from.
TEST(Verifier, ViolationsHaveTypesAndAPlace) {
  const Function fn = parse("file 0 \"add.py\" line 5 \"x\\ny = a + b\\n\"\n"
                            "loc 0 0 2:5-10\n" +
                            function("laid-out", "%t = splat %n : tile<128xi32, #0> "
                                                 "%s = broadcast %t : tile<256xf32> loc(0) "
                                                 "store %p, %n"));
  std::vector<std::string> seen;
  Names names;
  for (const Violation &violation : verify(fn)) {
    seen.push_back(describe(fn, violation, names));
  }
  const auto expect = [&](const std::string &text) {
    EXPECT_NE(std::ranges::find(seen, text), seen.end()) << testing::PrintToString(seen);
  };
  expect("[16] an extent that is neither 1 nor the result's: %0 = broadcast (tile<128xi32, "
         "#blocked0>) -> (tile<256xf32>), from add.py:6:5");
  expect("[11] operand value is i32, not f32: store (ptr<f32>, i32)");
  try {
    verifyOrThrow(fn, "a test");
    FAIL();
  } catch (const InternalError &error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("broadcast (tile<128xi32, #blocked0>) -> (tile<256xf32>), from add.py:6:5"),
              std::string::npos)
        << text;
  }
}

TEST(Verifier, AllViolationsAreReportedUnderTheirOps) {
  const Function fn =
      parse(function("tile", "%0 = add %n, %c : i32\n%1 = program_id {axis=7} : i32"));
  EXPECT_EQ(verify(fn).size(), 2u);
  try {
    verifyOrThrow(fn, "nothing");
    FAIL();
  } catch (const InternalError &error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("invalid function after nothing"), std::string::npos);
    const size_t op =
        text.find("program_id {axis=7} : i32\n  // ^ [14] a grid axis is 0, 1 or 2\n");
    EXPECT_NE(op, std::string::npos) << text;
  }
}

// Twice the function, about twice the time: no quadratic search hides in it.
TEST(Verifier, ManyOpsAreFast) {
  Function fn("f");
  Builder builder(fn);
  ValueId value = builder.i32(1);
  const ValueId one = value;
  for (int i = 0; i < 200000; ++i) {
    value = builder.make(Opcode::Add, {value, one});
  }
  builder.op(Opcode::Return, {});
  EXPECT_TRUE(verify(fn).empty());
}

} // namespace
} // namespace libtile::test
