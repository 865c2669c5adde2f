// SPDX-License-Identifier: Apache-2.0
#include "frontend/prelude/prelude.h"

#include "frontend/syntax/parser.h"
#include "frontend/prelude/prelude_texts.h"
#include "frontend/specialise/walker.h"

#include <map>
#include <mutex>

namespace libtile::frontend {

namespace {

// The functions of one file; empty until it is parsed.
struct File {
  const PreludeText *text = nullptr;
  std::once_flag parsed;
  std::map<std::string, std::shared_ptr<const FunctionSource>, std::less<>> functions;

  void parseOnce() {
    std::call_once(parsed, [this] {
      const auto file =
          std::make_shared<const ir::SourceFile>(ir::SourceFile{text->name, text->text, 1, true});
      const std::shared_ptr<const Ast> ast = parse(file);
      for (const AstFunction &fn : ast->functions) {
        if (fn.error) {
          throw ir::UserError(*fn.error);
        }
        functions[(*ast)[fn.name]] = makeFunction(ast, fn, nullptr);
      }
    });
  }
};

// Folder ("" or "libdevice") and name of each function -> its file.
using Index = std::map<std::pair<std::string_view, std::string_view>, File *>;

Index makeIndex() {
  Index index;
  for (const PreludeText &text : preludeTexts()) {
    auto *file = new File;
    file->text = &text;
    std::string_view folder = text.name;
    folder.remove_prefix(folder.find('/') + 1);
    folder = folder.substr(0, std::min(folder.find('/'), folder.size()));
    folder = folder.ends_with(".py") ? "" : folder;
    std::string_view names = text.functions;
    while (!names.empty()) {
      const size_t end = std::min(names.find(' '), names.size());
      index[{folder, names.substr(0, end)}] = file;
      names.remove_prefix(std::min(end + 1, names.size()));
    }
  }
  return index;
}

} // namespace

std::shared_ptr<const FunctionSource> preludeFunction(std::string_view name) {
  // Never destroyed: threads may compile until the process is gone.
  static const Index &index = *new Index(makeIndex());
  std::string_view folder;
  if (const size_t dot = name.rfind('.'); dot != std::string_view::npos) {
    folder = name.substr(0, dot);
    folder.remove_prefix(folder.rfind('.') + 1); // npos + 1 is 0
    name.remove_prefix(dot + 1);
  }
  const auto found = index.find({folder, name});
  if (found == index.end()) {
    return nullptr;
  }
  found->second->parseOnce();
  return found->second->functions.find(name)->second;
}

ir::Function scalarBody(const FunctionSource &function, std::span<const DType> parameters,
                        std::optional<DType> result) {
  ir::Function made(function.name);
  TableHost nobody;
  Walker(made, nobody, nullptr).scalarBody(function, parameters, result ? *result : parameters[0]);
  return made;
}

} // namespace libtile::frontend
