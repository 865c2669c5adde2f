// SPDX-License-Identifier: Apache-2.0
// From a jit function and a signature to machine code: specialise, pipeline, generate; and the cache
// in memory of what has been compiled.
//
// A kernel has up to four variants, by what their code relies on (passes::Reliance). The preferred one may carry all
// guards, predicates over the arguments; the second one, of kernels whose first asks for whole tiles or positive scales, all others; the
// third one, of kernels that write several arrays, those but that its outputs are apart; the general one carries none. Each is
// compiled when a launch first fails a guard of the one before, so it costs nothing where none ever does. A kernel without
// guards has one variant.
//
// Texts of the stages are not kept: the tile stage is, and everything after it is a pure function of
// it, so a text is made again when somebody asks.
#pragma once

#include "codegen/codegen.h"
#include "frontend/syntax/source.h"
#include "passes/pass.h"
#include "runtime/options.h"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace libtile::passes {
struct PipelineOptions;
} // namespace libtile::passes

namespace libtile::runtime {

// A run-time parameter: what each launch gives.
struct RuntimeParameter {
  uint32_t argument = 0; // index among the call's arguments, constants and items of tuples included
  frontend::DType dtype;
  int64_t divisible = 1; // what the code was promised of the value
};

// Where the value of one parameter of the machine code comes from: a variant's launch recipe is a list
// of these.
struct RecipeSlot {
  enum class Kind : uint8_t {
    Argument,  // a run-time parameter's value
    Computed,  // a number computed from them
    TensorMap, // a descriptor of an array made from them
    Scratch,   // memory of this launch
  } kind = Kind::Argument;
  uint32_t index = 0; // Argument: among the run-time parameters; TensorMap: among the maps of the code
};

struct Variant {
  codegen::Code code;
  std::vector<RecipeSlot> recipe;
  std::vector<ir::Guard> guards; // over run-time parameters, by index
  std::vector<std::string> fallbacks; // and what options change nothing
  int32_t numWarps = 0, numStages = 0; // as the compiler chose
  // What the cache on disk did: "off", "hit", "stored", or "not stored: " and why.
  std::string cache;
};

class Compiled {
public:
  Compiled(ir::Function tile, std::vector<RuntimeParameter> parameters, std::string signature,
           const ir::Target &target, const Options &options);

  [[nodiscard]] const std::string &name() const { return tile_.name; }
  [[nodiscard]] const ir::Function &tile() const { return tile_; }
  [[nodiscard]] const Options &options() const { return options_; }
  // Whether its code compares accesses with the extents of arrays, which a launch then gives it.
  [[nodiscard]] bool checksAccesses() const {
    return codegen::isInterpreted(target_) || (!target_.laysOut && options_[Option::check] != 0);
  }
  // Whether its code prints, asserts or checks on a CPU: a launch then has a place for what it finds.
  [[nodiscard]] bool reports() const { return reports_; }
  // "x=*fp32:16, n=i32, BLOCK=1024".
  [[nodiscard]] const std::string &signature() const { return signature_; }
  [[nodiscard]] const ir::Target &target() const { return target_; }
  [[nodiscard]] const std::vector<RuntimeParameter> &parameters() const { return parameters_; }
  // One a run-time parameter.
  [[nodiscard]] std::vector<std::string> parameterNames() const;
  // What the preferred variant relies on: "x % 16 == 0", "x and out do not overlap".
  [[nodiscard]] std::vector<std::string> guardTexts() const;
  // One a run-time parameter: the kernel may write through this pointer.
  [[nodiscard]] const std::vector<bool> &written() const { return written_; }
  [[nodiscard]] const Variant &preferred() const { return preferred_; }
  // The variant that relies on no more than this; compiled on the first call, unless one that relies on more asks for
  // nothing beyond it.
  [[nodiscard]] const Variant &variant(passes::Reliance relies) const;
  [[nodiscard]] const Variant &general() const { return variant(passes::Reliance::Nothing); }
  // Milliseconds that the front end and everything after it took.
  double frontendMs = 0, backendMs = 0;

  // "tile", and but for the interpreter then "plan" and "nested" or "laid-out", "plan" and "staged", then "llvm", then "asm" or "ptx".
  [[nodiscard]] std::vector<std::string> stages() const;
  // Throws UserError for an unknown stage.
  [[nodiscard]] std::string text(const std::string &stage) const;

private:
  // Without the passes that LIBTILE_DISABLE_PASSES names.
  [[nodiscard]] static const passes::PipelineOptions &pipelineOptions();
  [[nodiscard]] passes::PassContext passContext(passes::Reliance relies) const;
  [[nodiscard]] codegen::CodeOptions codeOptions() const;
  // From the cache on disk, if it is there.
  [[nodiscard]] Variant makeVariant(passes::Reliance relies) const;
  [[nodiscard]] Variant compileVariant(passes::Reliance relies) const;
  [[nodiscard]] Variant makeInterpreted() const;
  // Whether this variant may do without a guard that the preferred one has.
  [[nodiscard]] bool maySpare(const ir::Guard &guard, passes::Reliance relies) const;
  [[nodiscard]] std::vector<RecipeSlot> recipe(size_t maps) const; // of code with so many tensor maps

  ir::Function tile_;
  std::vector<RuntimeParameter> parameters_;
  std::string signature_;
  const ir::Target &target_;
  Options options_;
  std::vector<bool> written_;
  bool reports_;
  Variant preferred_;
  mutable std::mutex othersMutex_;
  mutable std::unique_ptr<const Variant> others_[3]; // by their reliance
};

// A jit function and what was compiled of it last. Thread-safe; two threads that miss at once both
// compile, and one result is kept.
class KernelFunction {
public:
  explicit KernelFunction(std::shared_ptr<const frontend::FunctionSource> source)
      : source_(std::move(source)) {}
  [[nodiscard]] const frontend::FunctionSource &source() const { return *source_; }
  [[nodiscard]] const std::shared_ptr<const frontend::FunctionSource> &sourcePtr() const {
    return source_;
  }

  struct Result {
    std::shared_ptr<const Compiled> kernel;
    std::shared_ptr<const std::vector<frontend::HostAnswer>> answers;
    // Keeps alive the objects whose addresses stand in the key.
    std::shared_ptr<const frontend::Signature> signature;
  };
  // The key: the signature with its constants, the target with its features, the options as the target
  // normalises them. An entry whose host answers no longer hold is compiled anew.
  [[nodiscard]] Result compile(const frontend::Signature &signature, const ir::Target &target,
                               const Options &options, frontend::Host &host);
  void clear();

private:
  std::shared_ptr<const frontend::FunctionSource> source_;
  // How much is kept: keys, and results of one key that differ in the host's answers.
  static constexpr size_t kMostKeys = 1024, kMostAnswers = 4;
  void keep(const std::string &key, const Result &result);

  std::mutex mutex_;
  std::map<std::string, std::vector<Result>> cache_;
  std::deque<std::string> keys_; // of the cache, oldest first
};

// The text of a constant, distinct for distinct values: 1, 1.0, True and '1' differ.
[[nodiscard]] std::string constantKey(const frontend::Value &value);

// For each parameter of a tile-stage function: whether it may be written through. A pointer that was
// loaded from memory belongs to no parameter; one made from an integer may be any of them.
[[nodiscard]] std::vector<bool> writtenParameters(const ir::Function &fn);

} // namespace libtile::runtime
