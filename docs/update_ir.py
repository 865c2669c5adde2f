#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""update_ir.py TILE_OPT [--check]: makes the texts of docs/ir.md again.

A block of IR in the page is what the command above it prints. `--check` only says whether the page is
up to date.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "ir.md"
KERNELS = ROOT / "docs" / "ir_kernels.py"
TOOL = "build/runtime/tools/tile-opt"
# An indented command of one or more lines, then its output.
SHOWN = re.compile(r"((?:^    [^\n]*\n)+)\n```tile\n(?s:.*?)^```$", re.M)


def output(command, tool):
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command.replace(TOOL, str(tool))], cwd=ROOT,
                            capture_output=True, text=True)
    if result.returncode != 0 or result.stdout == "":
        raise SystemExit(f"{command}\nends with {result.returncode}\n{result.stderr}")
    return result.stdout


def page(text, tool):
    """The page with the kernels and all outputs made again."""
    source = KERNELS.read_text().split('"""\n', 1)[1]
    text = re.sub(r"(?<=```python\n)import libtile\n.*?(?=^```$)", lambda _: source, text, count=1,
                  flags=re.M | re.S)
    return SHOWN.sub(lambda found: f"{found[1]}\n```tile\n{output(found[1], tool)}```", text)


def main():
    tool = Path(sys.argv[1]).resolve()
    text = PAGE.read_text()
    made = page(text, tool)
    if "--check" not in sys.argv:
        PAGE.write_text(made)
    elif made != text:
        print(f"docs/ir.md is out of date: run python docs/update_ir.py {TOOL}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
