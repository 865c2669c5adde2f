// SPDX-License-Identifier: Apache-2.0
// Vector instructions whose lanes go by themselves: a function of one lane each. Their operands, modifiers, DPP and SDWA are the
// same for all (vector_step.cpp), so that a row of a table is all that such an instruction needs.
#pragma once

#include "tests/amd/numbers.h"
#include "tests/amd/wave.h"

#include <functional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace emulator {

struct VectorOp {
  Type result;
  std::vector<Type> sources;
  std::function<void(const Lanes *sources, Lanes &out, unsigned lanes)> run;
};

class VectorTable {
public:
  // `names`: those of all targets, with spaces between, without "v_".
  template <class F> void add(const std::string &names, F f) { addAll(names, describe(f, &F::operator())); }
  // Nullptr: no such row.
  [[nodiscard]] const VectorOp *find(const std::string &name) const {
    const auto found = ops_.find(name);
    return found == ops_.end() ? nullptr : &found->second;
  }

private:
  template <class F, class R, class... A> static VectorOp describe(F f, R (F::*)(A...) const) {
    return {typeOf<R>(), {typeOf<A>()...}, lanewise<F, R, A...>(f, std::index_sequence_for<A...>())};
  }
  template <class F, class R, class... A, size_t... I>
  static std::function<void(const Lanes *, Lanes &, unsigned)> lanewise(F f, std::index_sequence<I...>) {
    return [f](const Lanes *sources, Lanes &out, unsigned lanes) {
      for (unsigned lane = 0; lane < lanes; ++lane) {
        out[lane] = toBits<R>(f(fromBits<A>(sources[I][lane])...));
      }
    };
  }
  void addAll(const std::string &names, const VectorOp &op) {
    std::istringstream words(names);
    for (std::string name; words >> name;) {
      ops_["v_" + name] = op;
    }
  }

  std::unordered_map<std::string, VectorOp> ops_;
};

// All rows.
[[nodiscard]] const VectorTable &vectorTable();
void addIntegerOps(VectorTable &table);
void addFloatOps(VectorTable &table);
void addConversions(VectorTable &table);

} // namespace emulator
