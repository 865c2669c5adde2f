# SPDX-License-Identifier: Apache-2.0
"""The house rules that a machine can check; prints each breach and exits non-zero if there is one.

    sizes     .cpp at most 500 lines, .h 300, a function 60
    switches  no `default:` over enumerators in ir/, passes/, codegen/: a forgotten op is a build error
    arrows    a folder includes only what stands below it (docs/architecture.md)
    heads     every source file begins with its licence line
    tests     what has tests is called test_<what>: files, programs, Python's functions; C++ has TEST(What, IsSo)
    made      pages and stubs that are made from a table are up to date

Only files that git tracks are looked at.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = {".cpp": 500, ".h": 300}
FUNCTION_LINES = 60
MAY_INCLUDE = {
    "ir": {"ir"},
    "frontend": {"ir", "frontend"},
    "passes": {"ir", "passes"},
    "codegen": {"ir", "passes", "codegen"},
    "runtime": {"ir", "frontend", "passes", "codegen", "runtime"},
}
BACKENDS = {"amd", "cpu", "nvidia"}  # folders of codegen/ that know nothing of each other, and what GPUs share nothing of them
# The first line of a definition, as clang-format leaves it: it ends in `{` and no control word opens it.
HEAD = re.compile(r"^(\s*)(?!if|for|while|switch|else|do\b|try|catch|namespace|struct|class|enum|union"
                  r"|extern|return|case)[\w:<>~&*,\[\]() =+\-!.|\"']+\)[\w\s&:>*<-]*\{$")


def tracked():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.split("\n")
    return [ROOT / name for name in names
            if name.endswith((".cpp", ".h", ".def", ".py", "meson.build")) and (ROOT / name).exists()]


def long_functions(lines):
    """(line, length) of each function that is too long."""
    i = 0
    while i < len(lines):
        match = HEAD.match(lines[i])
        if match and len(match[1]) <= 2:
            close = match[1] + "}"
            end = next((j for j in range(i + 1, len(lines)) if lines[j].rstrip(";") == close), i)
            if end - i + 1 > FUNCTION_LINES:
                yield i + 1, end - i + 1
            i = end
        i += 1


def defaults(lines):
    """Lines with a `default:` in a switch over enumerators; characters and numbers may have one."""
    labels = {}  # of the open switches, by their indentation: the last case seen
    for number, line in enumerate(lines, 1):
        label = re.match(r"(\s*)(?:case (.*?):|default:)", line)
        if label and label[2]:
            labels[label[1]] = label[2]
        elif label and not re.match(r"'|-?\d|k[A-Z]", labels.get(label[1], "")):
            yield number


def test_names(path, text):
    """Names in tests/ that break the convention."""
    if path.name == "meson.build":
        for call in re.findall(r"executable\(('.*?')(?=,)(?:[^()]|\([^()]*\))*\bgtest\b", text):
            if not call.startswith("'test_"):
                yield f"program {call} with tests is not called test_<what>"
        return
    cpp = re.findall(r"^TEST(?:_F|_P)?\((\w+), *(\w+)\)", text, re.M)
    python = re.findall(r"^\s*def (\w*test_\w*)\(", text, re.M) if path.suffix == ".py" else []
    if (cpp or any(each.startswith("test_") for each in python)) and not path.name.startswith("test_"):
        yield "a file with tests is called test_<what>"
    for name in (each for pair in cpp for each in pair):
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
            yield f"{name}: names of C++ tests are written LikeThis"
    for name in python:
        if not name.startswith(("test_", "pytest_")):
            yield f"{name}: pytest finds what begins with test_"


def breaches(path):
    name = path.relative_to(ROOT)
    text = path.read_text()
    lines = text.split("\n")
    if name.parts[0] == "tests" and path != Path(__file__).resolve():
        yield from (f"{name}: {breach}" for breach in test_names(path, text))
    if path.name == "meson.build":
        return
    limit = SIZES.get(path.suffix)
    if limit and len(lines) > limit + 1:
        yield f"{name}: {len(lines)} lines, at most {limit}"
    if not any("SPDX-License-Identifier" in line for line in lines[:2]):
        yield f"{name}:1: no licence line"
    folder = name.parts[0]
    if path.suffix not in (".cpp", ".h") or folder not in MAY_INCLUDE:
        return
    for line, length in long_functions(lines):
        yield f"{name}:{line}: a function of {length} lines, at most {FUNCTION_LINES}"
    if folder in ("ir", "passes", "codegen"):
        for number in defaults(lines):
            yield f"{name}:{number}: `default:` in a switch"
    for number, line in enumerate(lines, 1):
        include = re.match(r'#include "(\w+)/', line)
        if include and include[1] in MAY_INCLUDE and include[1] not in MAY_INCLUDE[folder]:
            yield f"{name}:{number}: {folder}/ may not use {include[1]}/"
        backend = re.match(r'#include "codegen/(\w+)/', line)
        if backend and backend[1] in BACKENDS and folder == "codegen" and len(name.parts) == 3 and name.parts[1] != backend[1]:
            yield f"{name}:{number}: codegen/{name.parts[1]}/ may not use codegen/{backend[1]}/"


def stale():
    for generator in sorted((ROOT / "docs").glob("generate_*.py")):
        result = subprocess.run([sys.executable, generator, "--check"], capture_output=True, text=True)
        if result.returncode != 0:
            yield (result.stdout + result.stderr).strip()


def main():
    found = [breach for path in sorted(tracked()) for breach in breaches(path)] + list(stale())
    print("\n".join(found) if found else "lint: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
