# SPDX-License-Identifier: Apache-2.0
"""embed.py OUT.cpp FILE...: the files as texts in a C++ file (frontend/prelude/prelude_texts.h)."""
import sys
from pathlib import Path


def main(out, files):
    rows = []
    for name in files:
        text = Path(name).read_text()
        assert ')PRELUDE"' not in text
        rows.append(f'    {{"prelude/{Path(name).name}", R"PRELUDE({text})PRELUDE"}},\n')
    Path(out).write_text(
        '#include "frontend/prelude/prelude_texts.h"\n\n'
        "namespace libtile::frontend {\n\n"
        "std::span<const PreludeText> preludeTexts() {\n"
        "  static constexpr PreludeText kTexts[] = {\n" + "".join(rows) + "  };\n"
        "  return kTexts;\n}\n\n} // namespace libtile::frontend\n")


main(sys.argv[1], sys.argv[2:])
