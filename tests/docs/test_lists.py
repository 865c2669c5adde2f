# SPDX-License-Identifier: Apache-2.0
"""What docs/ lists in full is listed in full: variables of the environment, and passes; and its links lead somewhere."""
import re
import subprocess
from pathlib import Path

import libtile

ROOT = Path(__file__).resolve().parents[2]
TILE_OPT = Path(libtile.__file__).resolve().parents[2] / "runtime" / "tools" / "tile-opt"


def test_variables():
    """Those that the library and the package ask for, against the table of options.md."""
    sources = [path for folder in ["runtime", "codegen", "python/libtile", "python/bindings"] for path in (ROOT / folder).rglob("*.*")
               if path.suffix in {".cpp", ".h", ".def", ".py"}]
    asked = {name for path in sources for name in re.findall(r'"(LIBTILE_[A-Z_]+)"', path.read_text())}
    table = (ROOT / "docs" / "options.md").read_text().split("## Variables of the environment")[1]
    assert set(re.findall(r"`(LIBTILE_[A-Z_]+)`", table)) == asked


def test_passes():
    """Those of the pipeline, against the table of architecture.md."""
    listed = subprocess.run([TILE_OPT, "--list-passes"], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^(\w+):", listed, re.M))
    assert "plan_dots" in names
    assert names - set(re.findall(r"`(\w+)`", (ROOT / "docs" / "architecture.md").read_text())) == set()


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_links():
    """To files, and to the headings that stand in them."""
    broken = []
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"`[^`\n]*`", "", page.read_text())
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            name, _, heading = link.partition("#")
            target = page.parent / name if name else page
            if not link.startswith("http") and (not target.exists() or (heading and heading not in anchors(target))):
                broken.append(f"{page.name}: {link}")
    assert broken == []
