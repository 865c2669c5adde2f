// SPDX-License-Identifier: Apache-2.0
// The texts of a compiled kernel, stage by stage: what the pipeline leaves, its plans, LLVM IR and assembly.
#include "codegen/codegen.h"
#include "ir/printer.h"
#include "passes/pipeline.h"
#include "runtime/cache/compile.h"
#include "runtime/fork.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace libtile::runtime {

std::vector<std::string> Compiled::stages() const {
  std::vector<std::string> names = {ir::stageName(ir::Stage::Tile)};
  if (codegen::isInterpreted(target_)) {
    return names;
  }
  ir::Stage stage = ir::Stage::Tile;
  for (const passes::PassRow &row : passes::pipelineTable()) {
    const bool runs = row.when == passes::When::Always ||
                      (row.when == passes::When::LaysOut) == target_.laysOut;
    if (runs && row.plan != nullptr) {
      names.emplace_back("plan");
    }
    if (runs && row.gives != stage) {
      stage = row.gives;
      names.emplace_back(ir::stageName(stage));
    }
  }
  names.emplace_back("llvm");
  names.push_back(target_.assembly);
  return names;
}

std::string Compiled::text(const std::string &stage) const {
  const CompileScope scope;
  if (stage == ir::stageName(ir::Stage::Tile)) {
    return ir::print(tile_);
  }
  if (stage == target_.assembly && !preferred_.code.assembly.empty()) {
    return preferred_.code.assembly;
  }
  ir::Function fn = tile_.clone();
  const passes::PassContext context = passContext(passes::Reliance::Numbers);
  if (codegen::isInterpreted(target_)) {
    // It has no other stage.
  } else if (stage != "llvm" && stage != target_.assembly) {
    // As the last pass of the stage leaves it. A value has one name in the texts of all stages.
    ir::Names names;
    ir::PrintOptions print;
    print.names = &names;
    std::map<std::string, std::string> texts = {{"tile", ir::print(tile_, print)}};
    passes::PipelineOptions options = pipelineOptions();
    options.before = [&](const passes::PassRun &run, const ir::Function &now) {
      if (run.row.plan != nullptr) {
        texts["plan"] = run.row.plan(now, context, print);
      }
    };
    options.after = [&](const passes::PassRun &, const ir::Function &now) {
      texts[ir::stageName(now.stage)] = ir::print(now, print);
    };
    passes::runPipeline(fn, context, options);
    if (const auto found = texts.find(stage); found != texts.end()) {
      return std::move(found->second);
    }
  } else {
    passes::runPipeline(fn, context, pipelineOptions());
    codegen::CodeOptions wanted = codeOptions();
    wanted.keepLlvm = stage == "llvm";
    wanted.keepAssembly = stage != "llvm";
    codegen::Code code = codegen::generate(fn, target_, wanted);
    return stage == "llvm" ? std::move(code.llvm) : std::move(code.assembly);
  }
  std::string known;
  for (const std::string &name : stages()) {
    known += (known.empty() ? "" : ", ") + name;
  }
  throw ir::UserError("there is no stage '" + stage + "' on " + target_.name + ": " + known);
}

} // namespace libtile::runtime
