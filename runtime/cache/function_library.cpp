// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/function_library.h"

#include "frontend/prelude/prelude.h"
#include "ir/ops.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_code.h"

#include <map>
#include <mutex>

namespace libtile::runtime {

namespace {

class Prelude : public ir::FunctionLibrary {
public:
  const ir::Function *body(const ir::FunctionKey &wanted) override {
    const std::lock_guard lock(mutex_);
    const auto [entry, isNew] = bodies_.try_emplace(wanted);
    if (isNew) {
      try {
        entry->second = make(wanted);
      } catch (...) {
        bodies_.erase(entry);
        throw;
      }
    }
    return entry->second.get();
  }

private:
  // Codes of 8-bit floats are unsigned.
  static frontend::DType typeOf(ir::Elem elem) { return {elem, ir::isFloat(elem)}; }

  static std::unique_ptr<const ir::Function> make(const ir::FunctionKey &wanted) {
    const ir::OpInfo &row = ir::info(wanted.opcode);
    std::string name = row.mnemonic;
    if (wanted.format) {
      name += "_" + std::string(ir::enumeratorName(ir::AttrKind::Float8, static_cast<int64_t>(*wanted.format)));
    }
    if (wanted.elem == ir::Elem::BF16) {
      name += "_bf16";
    }
    if (wanted.nonpositive) {
      name += wanted.scales ? "_nonpositive_scaled" : "_nonpositive";
    }
    const auto function = frontend::preludeFunction(name);
    if (function == nullptr) {
      return nullptr;
    }
    const bool fromCode = wanted.opcode == ir::Opcode::Float8Decode;
    const bool toCode = wanted.opcode == ir::Opcode::Float8Encode;
    const std::vector<frontend::DType> parameters(row.operands.size(),
                                                  typeOf(fromCode ? ir::Elem::I8 : wanted.elem));
    const ir::Elem result = toCode ? ir::Elem::I8 : wanted.elem;
    ir::Function fn = frontend::scalarBody(*function, parameters, typeOf(result));
    // Once here, and not wherever it is inlined.
    const ir::Target any;
    const passes::PassContext context{any};
    passes::eliminateCommonSubexpressions(fn, context);
    passes::eliminateDeadCode(fn, context);
    return std::make_unique<const ir::Function>(std::move(fn));
  }

  std::mutex mutex_;
  std::map<ir::FunctionKey, std::unique_ptr<const ir::Function>> bodies_;
};

} // namespace

ir::FunctionLibrary &functionLibrary() {
  // Never destroyed: threads may compile until the process is gone.
  static Prelude &library = *new Prelude;
  return library;
}

} // namespace libtile::runtime
