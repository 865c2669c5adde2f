// SPDX-License-Identifier: Apache-2.0
#include "frontend/prelude/prelude.h"

#include "frontend/syntax/parser.h"
#include "frontend/prelude/prelude_texts.h"
#include "frontend/specialise/walker.h"

namespace libtile::frontend {

namespace {

using Table = std::map<std::string, std::shared_ptr<const FunctionSource>, std::less<>>;

Table readAll() {
  Table table;
  for (const PreludeText &text : preludeTexts()) {
    const auto file =
        std::make_shared<const ir::SourceFile>(ir::SourceFile{text.name, text.text, 1});
    const std::shared_ptr<const Ast> ast = parse(file, true);
    for (const AstFunction &fn : ast->functions) {
      if (fn.error) {
        throw ir::UserError(*fn.error);
      }
      table[(*ast)[fn.name]] = makeFunction(ast, fn, nullptr);
    }
  }
  return table;
}

} // namespace

std::shared_ptr<const FunctionSource> preludeFunction(std::string_view name) {
  // Never destroyed: threads may compile until the process is gone.
  static const Table &table = *new Table(readAll());
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

ir::Function scalarBody(const FunctionSource &function, std::span<const DType> parameters) {
  ir::Function made(function.name);
  TableHost nobody;
  Walker(made, nobody, nullptr).scalarBody(function, parameters);
  return made;
}

} // namespace libtile::frontend
