// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/function_library.h"

#include "frontend/prelude/prelude.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_code.h"

#include <map>
#include <mutex>

namespace libtile::runtime {

namespace {

class Prelude : public ir::FunctionLibrary {
public:
  const ir::Function *body(ir::Opcode opcode, ir::Elem elem) override {
    const std::lock_guard lock(mutex_);
    const auto [entry, isNew] = bodies_.try_emplace({opcode, elem});
    if (isNew) {
      try {
        entry->second = make(opcode, elem);
      } catch (...) {
        bodies_.erase(entry);
        throw;
      }
    }
    return entry->second.get();
  }

private:
  static std::unique_ptr<const ir::Function> make(ir::Opcode opcode, ir::Elem elem) {
    const ir::OpInfo &row = ir::info(opcode);
    const auto function = frontend::preludeFunction(row.mnemonic);
    if (function == nullptr) {
      return nullptr;
    }
    const std::vector<frontend::DType> parameters(row.operands.size(), {elem, true});
    ir::Function fn = frontend::scalarBody(*function, parameters);
    // Once here, and not wherever it is inlined.
    const ir::Target any;
    const passes::PassContext context{any};
    passes::eliminateCommonSubexpressions(fn, context);
    passes::eliminateDeadCode(fn, context);
    return std::make_unique<const ir::Function>(std::move(fn));
  }

  std::mutex mutex_;
  std::map<std::pair<ir::Opcode, ir::Elem>, std::unique_ptr<const ir::Function>> bodies_;
};

} // namespace

ir::FunctionLibrary &functionLibrary() {
  // Never destroyed: threads may compile until the process is gone.
  static Prelude &library = *new Prelude;
  return library;
}

} // namespace libtile::runtime
