// SPDX-License-Identifier: Apache-2.0
// The tables that may stand before a function in its text form: files, locations, layouts
// (printer.h). Files and locations are numbered in order and refer to earlier ones only; a layout has
// any name.
#pragma once

#include "ir/layout.h"
#include "ir/text_reader.h"

#include <llvm/ADT/StringMap.h>

namespace libtile::ir {

class TableReader : public TextReader {
public:
  using TextReader::TextReader;

protected:
  struct Tables {
    std::vector<std::shared_ptr<const SourceFile>> files;
    std::vector<std::shared_ptr<const Location>> locations;
    std::vector<unsigned> callDepths; // of the locations
    llvm::StringMap<Layout> layouts;
  };

  // Reads rows into new tables, up to what is no row.
  void readTables();

  Tables tables_;

private:
  void fileRow();
  void locationRow();
  void layoutRow();
};

} // namespace libtile::ir
