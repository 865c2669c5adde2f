// SPDX-License-Identifier: Apache-2.0
#include "ir/table_reader.h"

#include "ir/type.h"

namespace libtile::ir {

namespace {

constexpr unsigned kLongestCallChain = 1000;

} // namespace

void TableReader::readTables() {
  tables_ = {};
  for (;;) {
    if (accept("#")) {
      layoutRow();
    } else if (acceptWord("file")) {
      fileRow();
    } else if (acceptWord("loc")) {
      locationRow();
    } else {
      return;
    }
  }
}

void TableReader::fileRow() {
  if (uint64_t(integer(0)) != tables_.files.size()) {
    fail("files are numbered in order");
  }
  SourceFile file;
  file.name = string();
  expect("line");
  file.firstLine = smallInteger(0);
  file.text = string();
  tables_.files.push_back(std::make_shared<SourceFile>(std::move(file)));
}

void TableReader::locationRow() {
  if (uint64_t(integer(0)) != tables_.locations.size()) {
    fail("locations are numbered in order");
  }
  Location location;
  const auto index = uint64_t(integer(0));
  if (index >= tables_.files.size()) {
    fail("unknown file");
  }
  location.file = tables_.files[index];
  location.line = smallInteger(1);
  expect(":");
  location.column = smallInteger(0);
  expect("-");
  location.endColumn = smallInteger(0);
  unsigned depth = 0;
  if (acceptWord("from")) {
    const auto caller = uint64_t(integer(0));
    if (caller >= tables_.locations.size()) {
      fail("unknown location");
    }
    location.caller = tables_.locations[caller];
    depth = tables_.callDepths[caller] + 1;
    if (depth > kLongestCallChain) {
      fail("too many callers");
    }
  }
  tables_.locations.push_back(std::make_shared<Location>(std::move(location)));
  tables_.callDepths.push_back(depth);
}

void TableReader::layoutRow() {
  const size_t start = pos_;
  const std::string_view name = expectWord("a name");
  expect("=");
  expect("layout");
  skipSpace();
  const std::string_view rest = text_.substr(pos_, text_.find('\n', pos_) - pos_);
  const std::optional<Layout> layout = Layout::parse(rest.substr(0, rest.find("//")));
  if (!layout) {
    fail("not a layout");
  }
  int64_t elements = 1;
  for (unsigned axis = 0; axis < layout->rank(); ++axis) {
    elements *= int64_t{layout->subtile()[axis]} * layout->repeats()[axis];
    if (elements > 2 * Type::kMaxElements) {
      fail("a layout of too many elements");
    }
  }
  if (!tables_.layouts.try_emplace(llvm::StringRef(name.data(), name.size()), *layout).second) {
    fail("#" + std::string(name) + " is defined twice", start);
  }
  pos_ += rest.size();
}

} // namespace libtile::ir
