// SPDX-License-Identifier: Apache-2.0
// Loops of dots whose operands are copied ahead, as text: what plans of loops are tested with.
#pragma once

#include <cstdint>
#include <string>

namespace libtile::tests {

struct Nest {
  int dots = 1;                 // of each iteration, each with its own accumulator and loads
  bool outer = false;           // the loop stands in one of three iterations
  std::string attributes = "";  // of the dots
  std::string scale = "";       // between the first dot's accumulator and the dot
  std::string inside = "";      // behind the dots
  std::string result = "%d0"; // what goes on as the first accumulator
  bool bounded = false; // the index stays below 1024, so that loads may be boxes
  std::string odd = "";  // operands whose rows start at odd addresses, x or y: threads cannot copy them asynchronously
  bool held = false;    // tf32, of which threads read the left operands from their slots
};

inline std::string textOf(const Nest &nest) {
  const std::string elem = nest.held ? "f32" : "f16", unit = nest.held ? "wgmma_m64k8_tf32_regs\", precision=tf32" : "wgmma_m64k16_f16\"";
  std::string text = R"(
func @dot stage=tile warps=4 stages=3 (%a: ptr<)" + elem + R"(> {divisible=16}, %c: ptr<f32> {divisible=16}, %flag: ptr<i32>, %n: i32) {
  %i = arange {start=0} : tile<64xi32>
  %r = expand_dims %i {axis=1} : tile<64x1xi32>
  %c1 = expand_dims %i {axis=0} : tile<1x64xi32>
  %w = constant {value=64} : tile<64x1xi32>
  %rw = mul %r, %w : tile<64x1xi32>
  %rb = broadcast %rw : tile<64x64xi32>
  %cb = broadcast %c1 : tile<64x64xi32>
  %off = add %rb, %cb : tile<64x64xi32>
  %as = splat %a : tile<64x64xptr<)" + elem + R"(>>
  %cs = splat %c : tile<64x64xptr<f32>>
  %ap = ptr_add %as, %off : tile<64x64xptr<)" + elem + R"(>>
  %cp = ptr_add %cs, %off : tile<64x64xptr<f32>>
  %zero = constant {value=0.0} : tile<64x64xf32>
  %half = constant {value=0.5} : tile<64x64xf32>
  %lo = constant {value=0} : i32
  %one = constant {value=1} : i32
  %step = constant {value=64} : i32
  %three = constant {value=192} : i32
)";
  const std::string tile = ": tile<64x64xf32>";
  std::string results, types, inits, args, body, yields, stores;
  int block = 0;
  for (int i = 0; i < nest.dots; ++i) {
    const std::string n = std::to_string(i), comma = i == 0 ? "" : ", ";
    results += comma + "%sum" + n;
    types += comma + "tile<64x64xf32>";
    inits += ", %zero";
    args += ", %acc" + n + ": tile<64x64xf32>";
    for (const std::string &name : {"x" + n, "y" + n}) {
      block += 4096;
      const int odd = nest.odd.find(name[0]) == std::string::npos ? 0 : 1;
      body += "    %at" + name + " = constant {value=" + std::to_string(block + odd) + "} : tile<64x64xi32>\n    %p" + name +
              " = ptr_add %pa, %at" + name + " : tile<64x64xptr<" + elem + ">>\n    %" + name + " = load %p" + name +
              " : tile<64x64x" + elem + ">\n";
    }
    body += nest.held ? "    %t" + n + " = trans %y" + n + " {order=[1, 0]} : tile<64x64xf32>\n" : "";
    const bool scaled = i == 0 && !nest.scale.empty();
    body += scaled ? nest.scale + "\n" : "";
    body += "    %d" + n + " = dot %x" + n + (nest.held ? ", %t" : ", %y") + n + (scaled ? ", %scaled" : ", %acc" + n) + " {unit=\"" + unit +
            nest.attributes + "} " + tile + "\n";
    yields += comma + (i == 0 ? nest.result : "%d" + n);
    stores += "  store %cp, %sum" + n + "\n";
  }
  text += nest.bounded ? "  %most = constant {value=1024} : i32\n  %end = smin %n, %most : i32\n" : "";
  text += nest.outer ? "  for %lo, %three, %step {\n  ^(%o: i32):\n" : "";
  text += "  " + results + " = for %lo, " + (nest.bounded ? "%end" : "%n") + ", %step" + inits + " : " + types + " {\n  ^(%k: i32" + args +
          "):\n    %ks = splat %k : tile<64x64xi32>\n    %pa = ptr_add %ap, %ks : tile<64x64xptr<" + elem + ">>\n" + body +
          nest.inside + "\n    yield " + yields + "\n  }\n" + stores;
  return text + (nest.outer ? "  yield\n  }\n" : "") + "  return\n}\n";
}

// A loop with a dot that is fed by what threads make of another one's sums: attention's, with square blocks of keys and values.
struct FedNest {
  int width = 128;    // of a block, and of a row
  int functions = 2;  // between the dots
  bool outer = false; // the loop stands in one of three iterations
  int behind = 1;     // iterations by which the second dot may be late; 0 is pinned
};

// Rows of 128 and blocks of `width` of the array, and in front of a loop what is read of it.
inline std::string headOf(const std::string &name, int width, const std::string &more = "") {
  const std::string w = std::to_string(width), block = w + "x" + w, rows = "128x" + w, row = std::to_string(3 * width);
  const auto offsets = [&](const std::string &of, const std::string &height) {
    const std::string at = "  %" + of, tile = height + "x" + w;
    return at + "i = arange {start=0} : tile<" + height + "xi32>\n" + at + "e = expand_dims %" + of + "i {axis=1} : tile<" + height +
           "x1xi32>\n" + at + "w = constant {value=" + w + "} : tile<" + height + "x1xi32>\n" + at + "r = mul %" + of + "e, %" + of +
           "w : tile<" + height + "x1xi32>\n" + at + "b = broadcast %" + of + "r : tile<" + tile + "xi32>\n" + at +
           "c = broadcast %ce : tile<" + tile + "xi32>\n" + at + " = add %" + of + "b, %" + of + "c : tile<" + tile + "xi32>\n";
  };
  return "func @" + name + " stage=tile warps=8 stages=3 (%a: ptr<f16> {divisible=16}, %c: ptr<f32> {divisible=16}, "
         "%flag: ptr<i32>, %n: i32" + more + ") {\n  %ci = arange {start=0} : tile<" + w + "xi32>\n  %ce = expand_dims %ci {axis=0} : tile<1x" + w +
         "xi32>\n" + offsets("q", "128") + offsets("k", w) +
         "  %aq = splat %a : tile<" + rows + "xptr<f16>>\n  %pq = ptr_add %aq, %q : tile<" + rows + "xptr<f16>>\n  %x = load %pq : tile<" +
         rows + "xf16>\n  %ak = splat %a : tile<" + block + "xptr<f16>>\n  %ap = ptr_add %ak, %k : tile<" + block + "xptr<f16>>\n" +
         "  %cs = splat %c : tile<" + rows + "xptr<f32>>\n  %cp = ptr_add %cs, %q : tile<" + rows + "xptr<f32>>\n" +
         "  %zero = constant {value=0.0} : tile<" + rows + "xf32>\n  %half = constant {value=0.5} : tile<" + rows + "xf32>\n" +
         "  %lo = constant {value=0} : i32\n  %step = constant {value=" + w + "} : i32\n  %three = constant {value=" + row +
         "} : i32\n  %most = constant {value=4096} : i32\n  %end = smin %n, %most : i32\n";
}

// The block at `from` behind the iteration's pointers.
inline std::string loadOf(const std::string &name, int width, int64_t from) {
  const std::string w = std::to_string(width), block = w + "x" + w;
  return "    %f" + name + " = constant {value=" + std::to_string(from) + "} : tile<" + block + "xi32>\n    %p" + name +
         " = ptr_add %pa, %f" + name + " : tile<" + block + "xptr<f16>>\n    %" + name + " = load %p" + name + " : tile<" + block +
         "xf16>\n";
}

inline std::string textOf(const FedNest &nest) {
  const std::string w = std::to_string(nest.width), block = w + "x" + w, rows = "128x" + w;
  std::string work, last = "s";
  for (int i = 0; i < nest.functions; ++i) {
    const std::string next = "e" + std::to_string(i);
    work += "    %" + next + " = exp2 %" + last + " : tile<" + rows + "xf32>\n";
    last = next;
  }
  const std::string pinned = nest.behind == 0 ? " {behind=0}" : "";
  std::string text = headOf("fed", nest.width) + (nest.outer ? "  for %lo, %three, %step {\n  ^(%o: i32):\n" : "");
  text += "  %sum = for %lo, %end, %step, %zero : tile<" + rows + "xf32> {\n  ^(%i: i32, %acc: tile<" + rows + "xf32>):\n    %is = splat %i : tile<" +
          block + "xi32>\n    %pa = ptr_add %ap, %is : tile<" + block + "xptr<f16>>\n" + loadOf("y", nest.width, 8192) + "    %s = dot %x, %y, %zero : tile<" + rows +
          "xf32>\n" + work + "    %p = fptrunc %" + last + " : tile<" + rows + "xf16>\n" + loadOf("v", nest.width, 65536) + "    %scaled = mul %acc, %half : tile<" + rows + "xf32>\n    %d = dot %p, %v, %scaled" +
          pinned + " : tile<" + rows + "xf32>\n    yield %d\n  }\n  store %cp, %sum\n";
  return text + (nest.outer ? "  yield\n  }\n" : "") + "  return\n}\n";
}

// A loop like that of attention's way back: two dots need nothing of the threads, two take what these make of the first ones, and
// each of two blocks is read by one of either kind.
struct CrossedNest {
  int width = 64;
  bool outer = false; // the loop stands in one of three iterations
  int behind = 1;     // 0: the first dot is pinned to end at once
  bool adds = false;  // a fifth one's sums are added to an array
};

// Rows of 128: a tile that the fifth dot takes, and places of its sums, which move on with the iteration.
inline std::string wideOf(const std::string &height) {
  const auto at = [](const std::string &name, const std::string &rows, const std::string &index) {
    const std::string tile = " : tile<" + rows + "x128xi32>\n", column = " : tile<" + rows + "x1xi32>\n";
    return "  %" + name + "w = constant {value=128}" + column + "  %" + name + "r = mul " + index + ", %" + name + "w" + column + "  %" + name +
           "b = broadcast %" + name + "r" + tile + "  %" + name + "c = broadcast %we" + tile + "  %" + name + " = add %" + name + "b, %" + name +
           "c" + tile;
  };
  return "  %wi = arange {start=0} : tile<128xi32>\n  %we = expand_dims %wi {axis=0} : tile<1x128xi32>\n" + at("z", "128", "%qe") +
         at("g0", height, "%ke") + "  %za = splat %a : tile<128x128xptr<f16>>\n  %zp = ptr_add %za, %z : tile<128x128xptr<f16>>\n" +
         "  %wide = load %zp : tile<128x128xf16>\n  %gs = splat %added : tile<" + height + "x128xptr<f32>>\n  %gp = ptr_add %gs, %g0 : tile<" +
         height + "x128xptr<f32>>\n  %none = constant {value=0.0} : tile<" + height + "x128xf32>\n";
}
inline std::string addedOf(const std::string &shape) {
  const std::string sums = " : tile<" + shape + "xf32>\n";
  return "    %dq = dot %bt, %wide, %none" + sums + "    %on = splat %i : tile<" + shape + "xi32>\n    %pg = ptr_add %gp, %on : tile<" + shape +
         "xptr<f32>>\n    %old = atomic_rmw %pg, %dq {kind=fadd, sem=relaxed, scope=gpu}" + sums;
}

inline std::string textOf(const CrossedNest &nest) {
  const std::string w = std::to_string(nest.width), block = w + "x" + w, tile = " : tile<128x" + w + "xf32>\n", half = " : tile<128x" + w + "xf16>\n";
  const std::string sums = "tile<128x" + w + "xf32>", turned = " {order=[1, 0]} : tile<" + block + "xf16>\n";
  const std::string adds = !nest.adds ? "" : "    %bt = trans %b {order=[1, 0]} : tile<" + w + "x128xf16>\n" + addedOf(w + "x128");
  std::string text = headOf("crossed", nest.width, nest.adds ? ", %added: ptr<f32> {divisible=16}" : "");
  text += nest.adds ? wideOf(w) : "";
  text += nest.outer ? "  for %lo, %three, %step {\n  ^(%o: i32):\n" : "";
  text += "  %sum, %other = for %lo, %end, %step, %zero, %zero : " + sums + ", " + sums + " {\n  ^(%i: i32, %acc: " + sums + ", %more: " + sums +
          "):\n    %is = splat %i : tile<" + block + "xi32>\n    %pa = ptr_add %ap, %is : tile<" + block + "xptr<f16>>\n" +
          loadOf("y", nest.width, 8192) + loadOf("v", nest.width, 65536) + "    %yt = trans %y" + turned + "    %vt = trans %v" + turned +
          "    %s = dot %x, %yt, %zero" + (nest.behind == 0 ? " {behind=0}" : "") + tile + "    %e = exp2 %s" + tile + "    %p = fptrunc %e" + half +
          "    %d = dot %p, %v, %acc" + tile + "    %t = dot %x, %vt, %zero" + tile + "    %m = mul %e, %t" + tile +
          "    %b = fptrunc %m" + half + "    %g = dot %b, %y, %more" + tile + adds + "    yield %d, %g\n  }\n  store %cp, %sum\n  store %cp, %other\n";
  return text + (nest.outer ? "  yield\n  }\n" : "") + "  return\n}\n";
}

} // namespace libtile::tests
