// SPDX-License-Identifier: Apache-2.0
#include "frontend/prelude/prelude.h"

#include "frontend/prelude/prelude_texts.h"
#include "frontend/specialise/walker.h"

#include <algorithm>
#include <deque>
#include <mutex>

namespace libtile::frontend {

namespace {

// A function as the parser has it; null until it is parsed.
struct Entry {
  std::once_flag parsed;
  std::shared_ptr<const FunctionSource> function;

  void parseOnce(const PreludeText &text) {
    std::call_once(parsed, [&] {
      function = parseFunction(std::make_shared<const ir::SourceFile>(
                                   ir::SourceFile{text.file, text.text, text.firstLine, true}),
                               text.function);
    });
  }
};

const PreludeText *findText(std::string_view folder, std::string_view name) {
  const auto key = [](const PreludeText &text) {
    return std::pair<std::string_view, std::string_view>(text.folder, text.function);
  };
  const std::span<const PreludeText> texts = preludeTexts();
  const std::pair wanted(folder, name);
  const auto found = std::ranges::lower_bound(texts, wanted, {}, key);
  return found != texts.end() && key(*found) == wanted ? &*found : nullptr;
}

std::shared_ptr<const FunctionSource> parsed(const PreludeText *text) {
  // One a text. Never destroyed: threads may compile until the process is gone.
  static std::deque<Entry> &entries = *new std::deque<Entry>(preludeTexts().size());
  if (text == nullptr) {
    return nullptr;
  }
  Entry &entry = entries[static_cast<size_t>(text - preludeTexts().data())];
  entry.parseOnce(*text);
  return entry.function;
}

} // namespace

std::shared_ptr<const FunctionSource> preludeFunction(std::string_view name) {
  std::string_view folder;
  if (const size_t dot = name.rfind('.'); dot != std::string_view::npos) {
    folder = name.substr(0, dot);
    folder.remove_prefix(folder.rfind('.') + 1); // npos + 1 is 0
    name.remove_prefix(dot + 1);
  }
  return parsed(findText(folder, name));
}

std::shared_ptr<const FunctionSource> preludeFunction(std::string_view name, const FunctionSource &user) {
  std::string_view folder = user.file->name;
  folder.remove_prefix(folder.find('/') + 1);
  folder = folder.substr(0, folder.find('/') + 1);
  folder.remove_suffix(folder.empty() ? 0 : 1);
  const PreludeText *own = findText(folder, name);
  return parsed(own != nullptr && own->file == user.file->name ? own : findText("", name));
}

ir::Function scalarBody(const FunctionSource &function, std::span<const DType> parameters,
                        std::optional<DType> result) {
  ir::Function made(function.name);
  TableHost nobody;
  Walker(made, nobody, nullptr).scalarBody(function, parameters, result ? *result : parameters[0]);
  return made;
}

} // namespace libtile::frontend
