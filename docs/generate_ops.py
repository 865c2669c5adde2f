# SPDX-License-Identifier: Apache-2.0
"""Writes docs/ops.md from ir/ops.def. `--check` only says whether it is up to date."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGE_SETS = {"TILE_AND_LATER": "all", "TILE_TO_STAGED": "tile, laid-out, staged"}


def strings(text):
    return re.findall(r'"((?:[^"\\]|\\.)*)"', text)


def stages(text):
    text = text.strip()
    if text in STAGE_SETS:
        return STAGE_SETS[text]
    names = {"Tile": "tile", "LaidOut": "laid-out", "Staged": "staged", "Nested": "nested"}
    return ", ".join(names[name] for name in re.findall(r"Stages::(\w+)", text))


def generate():
    lines = ["# The ops of the tile IR", "",
             "Made from `ir/ops.def` by `docs/generate_ops.py`; edit that file, not this one.", "",
             "Operands: `x?` may be missing, `x*` any number. Rules and effects are in `ir/opcode.h` and",
             "`ir/effects.h`. Each op of the tile stage takes `keep?`, `lane_axis?`, `lanes?` and `unroll?`, too: pins of a CPU's",
             "plan ([debugging.md](debugging.md#which-pass)).", ""]
    for line in (ROOT / "ir" / "ops.def").read_text().splitlines():
        if line.startswith("// ---- "):
            lines += ["", f"## {line[8:].split(';')[0].strip().capitalize()}", "",
                      "| op | operands | attributes | regions | rule | effects | stages | meaning |",
                      "|---|---|---|---|---|---|---|---|"]
        row = re.match(r'(?:OP|ELEMENTWISE|ARITHMETIC|FUNCTION|CAST|CAST_FUNCTION)\((\w+), "(\w+)", "([^"]*)", "([^"]*)", "([^"]*)", (\w+), (.*?), '
                       r'([^,]*), "(.*)"\)$', line)
        if row:
            _, mnemonic, operands, attributes, regions, rule, effects, where, doc = row.groups()
            effects = ", ".join(re.findall(r"Effects::(\w+)", effects)).replace("None", "")
            cells = [f"`{mnemonic}`", operands, attributes, regions, rule, effects, stages(where), doc]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    page, path = generate(), ROOT / "docs" / "ops.md"
    if "--check" in sys.argv:
        if not path.exists() or path.read_text() != page:
            print("docs/ops.md is out of date: run python docs/generate_ops.py")
            return 1
        return 0
    path.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
