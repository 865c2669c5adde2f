# SPDX-License-Identifier: Apache-2.0
"""embed.py FOLDER OUT.cpp FILE...: the files as texts in a C++ file (frontend/prelude/prelude_texts.h).

FOLDER is that of the prelude, which names of files start from.
"""
import re
import sys
from pathlib import Path

LONGEST = 12000  # of a piece: compilers need not take long ones


def pieces(text):
    """The text as raw string literals, which the compiler joins."""
    for begin in range(0, len(text), LONGEST):
        yield f'R"PRELUDE({text[begin:begin + LONGEST]})PRELUDE"'


def main(folder, out, files):
    rows = []
    for file in map(Path, files):
        text = file.read_text()
        assert ')PRELUDE"' not in text
        name = file.resolve().relative_to(Path(folder).resolve()).as_posix()
        functions = " ".join(re.findall(r"^def (\w+)", text, re.M))
        rows.append(f'    {{"prelude/{name}", "{functions}",\n' + "\n".join(pieces(text)) + "},\n")
    Path(out).write_text(
        '#include "frontend/prelude/prelude_texts.h"\n\n'
        "namespace libtile::frontend {\n\n"
        "std::span<const PreludeText> preludeTexts() {\n"
        "  static constexpr PreludeText kTexts[] = {\n" + "".join(rows) + "  };\n"
        "  return kTexts;\n}\n\n} // namespace libtile::frontend\n")


main(sys.argv[1], sys.argv[2], sys.argv[3:])
