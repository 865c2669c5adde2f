# SPDX-License-Identifier: Apache-2.0
"""embed.py FOLDER OUT.cpp FILE...: the functions of the files as texts in a C++ file (frontend/prelude/prelude_texts.h).

FOLDER is that of the prelude, which names of files start from. At the top level of a file are its docstring, imports
of the language as `tl`, and functions, whose names are unique in their folder.
"""
import ast
import sys
from pathlib import Path

LONGEST = 12000  # of a piece: compilers need not take long ones
IMPORTS = ("import libtile", "import libtile.language as tl")


def pieces(text):
    """The text as raw string literals, which the compiler joins."""
    assert ')PRELUDE"' not in text
    for begin in range(0, len(text), LONGEST):
        yield f'R"PRELUDE({text[begin:begin + LONGEST]})PRELUDE"'


def functions(name, text):
    """(folder, function, first line, text) of each function in the file."""
    lines = text.splitlines(keepends=True)
    folder = name.rpartition("/")[0]
    for node in ast.parse(text).body[1:]:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield folder, node.name, first, "".join(lines[first - 1:node.end_lineno])
        else:
            assert ast.unparse(node) in IMPORTS, f"{name}:{node.lineno}: functions would not see this"


def main(folder, out, files):
    rows = {}
    for file in map(Path, files):
        name = file.resolve().relative_to(Path(folder).resolve()).as_posix()
        for within, function, line, text in functions(name, file.read_text()):
            assert (within, function) not in rows, f"{name}:{line}: a second function of this name"
            rows[within, function] = (f'    {{"{within}", "{function}", "prelude/{name}", {line},\n'
                                      + "\n".join(pieces(text)) + "},\n")
    Path(out).write_text(
        '#include "frontend/prelude/prelude_texts.h"\n\n'
        "namespace libtile::frontend {\n\n"
        "std::span<const PreludeText> preludeTexts() {\n"
        "  static constexpr PreludeText kTexts[] = {\n" + "".join(rows[key] for key in sorted(rows)) + "  };\n"
        "  return kTexts;\n}\n\n} // namespace libtile::frontend\n")


main(sys.argv[1], sys.argv[2], sys.argv[3:])
