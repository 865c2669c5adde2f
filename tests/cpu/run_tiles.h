// SPDX-License-Identifier: Apache-2.0
// Runs text of the tile stage on this machine: passes, code, call; and small helpers for kernels as text
// and for references in double.
#pragma once

#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/cpu/allocate_scratch.h"
#include "passes/cpu/bound_nests.h"
#include "passes/cpu/form_nests.h"
#include "passes/pipeline.h"
#include "tests/cpu/run_nested.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace libtile::test {

// A way to run a tile-stage text: a target's name, and behind it `kWhole` for the whole pipeline in
// place of form_nests, bound_nests and allocate_scratch alone.
inline const std::string kWhole = "+pipeline";

inline std::string targetOf(const std::string &way) { return way.substr(0, way.find('+')); }

// The nested function of a tile-stage text, verified after each pass.
inline ir::Function nested(const std::string &text, const std::string &way) {
  ir::Function fn = ir::parse(text);
  ir::verifyOrThrow(fn, "parse");
  passes::PassContext context = contextOf(targetOf(way));
  if (way.ends_with(kWhole)) {
    context.relies = passes::Reliance::Nothing;
    passes::PipelineOptions options;
    options.verifyEach = true;
    passes::runPipeline(fn, context, options);
    return fn;
  }
  passes::formNests(fn, context);
  ir::verifyOrThrow(fn, "form_nests");
  passes::boundNests(fn, context);
  ir::verifyOrThrow(fn, "bound_nests");
  passes::allocateScratch(fn, context);
  ir::verifyOrThrow(fn, "allocate_scratch");
  return fn;
}

class TileKernel : public NestedKernel {
public:
  TileKernel(const std::string &text, const std::string &way)
      : NestedKernel(ir::print(nested(text, way)), targetOf(way)) {}
};

// `text` with each key replaced by its value; keys are words in capitals such as SHAPE.
inline std::string fill(std::string text,
                        const std::vector<std::pair<std::string, std::string>> &values) {
  for (const auto &[key, value] : values) {
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + value.size())) {
      text.replace(at, key.size(), value);
    }
  }
  return text;
}

inline std::string times(int a, int b) { return std::to_string(a) + "x" + std::to_string(b); }

template <class T> uint64_t pointer(T *data) { return slot(reinterpret_cast<uintptr_t>(data)); }

// Values that f16 and bf16 hold exactly.
inline std::vector<float> randomFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(count);
  for (float &value : out) {
    value = float(int(random() % 129) - 64) / 16.0F;
  }
  return out;
}

inline uint16_t toBf16(float value) { return uint16_t(std::bit_cast<uint32_t>(value) >> 16); }

} // namespace libtile::test
