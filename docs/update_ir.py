#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""update_ir.py TILE_OPT [--check]: makes the texts and pictures of docs/ir.md and docs/hopper.md again.

The commands of a page run in its order. A block of IR is what the command above it prints; a picture is the file
that a command draws. `--check` only says whether all of them are up to date.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["ir.md", "hopper.md"]
KERNELS = ROOT / "docs" / "ir_kernels.py"
TOOL = "build/runtime/tools/tile-opt"
# An indented command of one or more lines, then its output, if the page shows it.
COMMAND = re.compile(rf"((?:^    [^\n]*\\\n)*^    [^\n]*\n)(\n```tile\n(?s:.*?)^```$)?", re.M)
# The kernels of docs/ir_kernels.py where a page shows them.
SOURCE = re.compile(r"(?<=```python\n)import libtile\n(?:(?!```)[\s\S])*?def shift\([\s\S]*?(?=^```$)", re.M)
PICTURE = re.compile(r"--draw (docs/\S+\.svg)")


class Page:
    def __init__(self, tool, folder):
        self.tool, self.folder, self.pictures = tool, folder, {}

    def output(self, command):
        """What it prints; pictures, and files in /tmp, are written to a folder of our own."""
        command = command.replace("/tmp/", f"{self.folder}/").replace(TOOL, str(self.tool))  # which may lie there itself
        for path in PICTURE.findall(command):
            self.pictures[path] = self.folder / Path(path).name
            command = command.replace(path, str(self.pictures[path]))
        result = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(f"{command}\nends with {result.returncode}\n{result.stderr}")
        return result.stdout

    def shown(self, found):
        if TOOL not in found[1]:
            return found[0]
        output = self.output(found[1])
        if found[2] is None:
            return found[1]
        if output == "":
            raise SystemExit(f"{found[1]}prints nothing")
        return f"{found[1]}\n```tile\n{output}```"

    def made(self, text):
        """The page with the kernels and all outputs made again."""
        source = KERNELS.read_text().split('"""\n', 1)[1]
        text = SOURCE.sub(lambda _: source, text, count=1)
        return COMMAND.sub(self.shown, text)


def main():
    tool, old = Path(sys.argv[1]).resolve(), []
    for name in PAGES:
        path = ROOT / "docs" / name
        with tempfile.TemporaryDirectory() as folder:
            page = Page(tool, Path(folder))
            files = {path: page.made(path.read_text()).encode()}
            files |= {ROOT / picture: made.read_bytes() for picture, made in page.pictures.items()}
        for file, made in files.items():
            if "--check" not in sys.argv:
                file.write_bytes(made)
            elif not file.exists() or file.read_bytes() != made:
                old.append(str(file.relative_to(ROOT)))
    if old:
        print(f"{', '.join(old)}: out of date, run python docs/update_ir.py {TOOL}")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
