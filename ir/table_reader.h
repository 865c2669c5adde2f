// SPDX-License-Identifier: Apache-2.0
// The tables that may stand before a function in its text form: files, locations, layouts
// (printer.h). Rows are numbered in order and refer to earlier ones only.
#pragma once

#include "ir/layout.h"
#include "ir/text_reader.h"

namespace libtile::ir {

class TableReader : public TextReader {
public:
  using TextReader::TextReader;

protected:
  struct Tables {
    std::vector<std::shared_ptr<const SourceFile>> files;
    std::vector<std::shared_ptr<const Location>> locations;
    std::vector<unsigned> callDepths; // of the locations
    std::vector<Layout> layouts;
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
