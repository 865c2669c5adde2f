# SPDX-License-Identifier: Apache-2.0
"""What README.md, docs/ and the heads of libtile.h and libtile_c.h show is run or compiled, as it stands there.

    ```python   a program (it begins with `import`) runs in a process of its own
    ```cpp, c   a program (it has a `main`) is built and run with the page's own commands;
                the pieces of the guides are compiled together, within what PIECES puts around them
    ```tile     what commands print, and the texts of golden tests: docs/update_ir.py, tests/ir/test_golden
    commands    indented: tile-opt and programs run, in the page's order, in an empty folder; of commands on
                files that a page leaves to the reader, and of ./dev, the options are checked
"""
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import libtile

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(libtile.__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "cpp", "c", "tile", ""}
RUN = re.compile(r"(\w+=\S+ )*(build/runtime/tools/tile-opt|\.venv/bin/python (?!-m)|g\+\+|gcc|\./(?!dev))")
# Around the cpp pieces {0}, {1}, ... of a page, so that they compile.
PIECES = {
    "adding-an-op.md": """
#include "frontend/semantics/operations.h"
#include <llvm/IR/IRBuilder.h>
using namespace libtile::frontend;
using libtile::frontend::operations::Args;
#define ARITHMETIC(Name, mnemonic, operands, attributes, regions, rule, effects, stages, doc) Name,
#define FUNCTION ARITHMETIC
enum class Opcode {{
{0}
{4}
}};
#define OPERATION(text, name, kind, parameters, doc) Value name(Semantics &, Args);
{1}
Value function(Semantics &, const Value &, Opcode, const char *);
{2}
llvm::Value *emit(llvm::IRBuilder<> &b, Opcode opcode, llvm::Value *x) {{
  switch (opcode) {{
  {3}
  case Opcode::Sin: break;
  }}
  return nullptr;
}}""",
    "adding-a-pass.md": """
#include "passes/pipeline.h"
#include <tuple>
namespace libtile::passes {{
{0}
}}
{1}
bool sameElements(const Function &, OpId, OpId) {{ return true; }}
{2}
namespace libtile::passes {{
using ir::Stage;
constexpr When kAlways = When::Always;
constexpr auto kSome = OrderConstraint::SomeBefore;
const auto rows = std::tuple{{
{3}}};
}}""",
}


def blocks(page, language):
    """(line, text) of each fenced block, without the indentation that a list gives it."""
    found = re.finditer(r"^( *)```(\S*).*\n((?:.*\n)*?)\1```$", page.read_text(), re.M)
    out = []
    for match in found:
        assert match[2] in LANGUAGES, f"{page.name}: ```{match[2]} is not checked by this test"
        if match[2] == language:
            line = page.read_text()[:match.start()].count("\n") + 2
            out.append((line, re.sub(f"^{match[1]}", "", match[3], flags=re.M)))
    return out


def commands(page):
    """Indented commands, with their continuation lines; comments at their ends are left out."""
    text = re.sub(r"```(?s:.*?)```", "", page.read_text())
    lines = re.findall(r"^ {4,}((?:.*\\\n)*.*)$", text, re.M)
    return [re.sub(r"\s+# .*$", "", re.sub(r"\\\n\s*", "", line)) for line in lines]


def cases(found):
    return [pytest.param(page, what, id=f"{page.name}:{line}") for page in PAGES for line, what in found(page)]


def run(command, folder, **options):
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture
def folder(tmp_path):
    """An empty folder in which the paths of the pages lead into the tree and the build."""
    (tmp_path / "build").symlink_to(BUILD)
    for name in ["docs", "python", "runtime"]:
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.parametrize("page, text", cases(lambda page: [
    (line, text) for line, text in blocks(page, "python") if text.startswith(("import", "from"))]))
def test_python_program(page, text, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(text.replace("/tmp/", f"{tmp_path}/"))
    run([sys.executable, program], tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(RUN.match, commands(page)))],
                         ids=lambda page: page.name)
def test_commands(page, folder):
    for _, text in blocks(page, "cpp") + blocks(page, "c"):
        name = re.match(r"(?://|/\*) (\w+\.c(?:pp)?)\b", text)
        if name:
            (folder / name[1]).write_text(text)
    for command in commands(page):
        inputs = re.findall(r"[\w/.]+\.(?:tile|form_nests|py|cpp|c)\b", command.replace("/tmp/", "").split(">")[0])
        if RUN.match(command) and "..." not in command and all((folder / name).exists() for name in inputs):
            here = command.replace("/tmp/", "").replace(".venv/bin/python", shlex.quote(sys.executable))
            run(["bash", "-eo", "pipefail", "-c", here], folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_of_commands(page):
    for command in commands(page):
        for part in re.split(r"&&|;|\|", command):
            words = part.split()
            if words[:1] == ["./dev"] and words[1:2] != ["help"]:
                known = run([sys.executable, ROOT / "dev", words[1], "--help"], ROOT)
            elif any(word.endswith("/tile-opt") for word in words):
                known = run([BUILD / "runtime" / "tools" / "tile-opt", "--help"], ROOT)
            else:
                continue
            for option in re.findall(r"(?<= )--[a-z-]+", part):
                assert option in known, f"{page.name}: {option} is not known: {part}"


def llvm_headers():
    options = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    version = next(option["value"] for option in options if option["name"] == "llvm")
    return run([f"llvm-config-{version}", "--includedir"], ROOT).strip()


def syntax(text, *options, language="c++", standard="c++20"):
    run(["g++" if language == "c++" else "gcc", f"-std={standard}", "-fsyntax-only", f"-I{ROOT}", f"-I{ROOT / 'runtime'}",
         *options, "-x", language, "-"], ROOT, input=text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_cpp_pieces(page):
    pieces = [text for _, text in blocks(page, "cpp") if "int main(" not in text]
    if pieces:
        assert page.name in PIECES, f"{page.name}: put into PIECES what makes its pieces of C++ compile"
        whole = PIECES[page.name].format(*(re.sub(r"^\.\.\.$", "", piece, flags=re.M) for piece in pieces))
        made = re.findall(r"\*\*`(\S+\.h)`", page.read_text())    # headers that the guide's reader writes
        syntax(re.sub(r'^#include "(.*)"$', lambda found: "" if found[1] in made else found[0], whole, flags=re.M),
               "-idirafter", llvm_headers())


@pytest.mark.parametrize("header, end, mark, language, standard", [
    ("libtile.h", "#pragma once", "//   ", "c++", "c++17"), ("libtile_c.h", "*/", " *     ", "c", "c99")])
def test_example_of_the_header(header, end, mark, language, standard):
    """The first indented piece of a header's head, with x, y, out and n as the text beside it names them."""
    head = (ROOT / "runtime" / header).read_text().split(end)[0]
    lines = re.findall(rf"^{re.escape(mark)}(.*)$", head, re.M)
    includes = ["#include <stdio.h>", "#include <string.h>", *(line for line in lines if line.startswith("#include"))]
    assert len(includes) > 2, "no example"
    body = "\n".join(line for line in lines if line not in includes)
    syntax("\n".join(includes) + "\nvoid example(float *x, float *y, float *out, int32_t n) {\n" + body + "\n}\n",
           language=language, standard=standard)
