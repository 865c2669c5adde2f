# SPDX-License-Identifier: Apache-2.0
"""Writes docs/language.md and the type stubs of libtile.language from frontend/language.def.

`--check` only says whether they are up to date.
"""
import re
import sys
from pathlib import Path

from language_targets import TARGETS, cells

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "language.md"
STUBS = ROOT / "python" / "libtile" / "language" / "__init__.pyi"
TEXT = r'"((?:[^"\\]|\\.)*)"'
MADE = "frontend/language.def by docs/generate_language.py"


def rows():
    """(section, macro, arguments) of each row, in order."""
    section = "Types"
    for line in (ROOT / "frontend" / "language.def").read_text().splitlines():
        if line.startswith("// ---- "):
            section = line[8:] if line[8:].startswith("tl.") else line[8:].capitalize()
        row = re.match(rf'OPERATION\({TEXT}, (\w+), (\w+), {TEXT}, {TEXT}\)$', line)
        if row:
            yield section, "OPERATION", row.groups()
            continue
        row = re.match(rf'LIBRARY\({TEXT}, (\w+), {TEXT}, {TEXT}\)$', line)
        if row:
            name, kind, signature, doc = row.groups()
            yield section, "OPERATION", (name, "", kind, signature, doc)
            continue
        row = re.match(rf'LIBDEVICE\({TEXT}, {TEXT}, {TEXT}, {TEXT}\)$', line)
        if row:
            yield section, "LIBDEVICE", row.groups()
            continue
        row = re.match(r'(DTYPE|LANGUAGE_MODULE|LANGUAGE_NAMESPACE|LANGUAGE_ENUM|LANGUAGE_CONSTANT|LATER)\((.*)\)$', line)
        if row:
            yield section, row[1], tuple(re.findall(TEXT, row[2]))
        elif re.match(r'(OPERATION|LIBRARY|LIBDEVICE|DTYPE|LANGUAGE_MODULE|LANGUAGE_NAMESPACE|LANGUAGE_ENUM|LANGUAGE_CONSTANT|LATER)\("', line):
            raise SystemExit(f"language.def: cannot read the row {line}")


def operations(kinds):
    return [(section, name, kind, signature, doc)
            for section, macro, row in rows() if macro == "OPERATION"
            for name, _, kind, signature, doc in [row] if kind in kinds]


def heading(*before, after=()):
    titles = [*before, *TARGETS, *after]
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]


def page():
    names = {macro: [row for _, kind, row in rows() if kind == macro] for macro in ("DTYPE", "LATER")}
    lines = ["# The names of the kernel language", "", f"Made from `{MADE.split()[0]}` by",
             "`docs/generate_language.py`; edit that file, not this one. `docs/semantics.md` says what they mean",
             "exactly, and which Python stands around them. A row marked x is also a method:",
             "`x.name(...)` with x as the first argument. What a target does not have is an error there that says so;",
             "what is converted has the meaning that stands here, by other means than the target's own.",
             "The columns are those of " + ", ".join(" and ".join(f"`{name}`" for name in targets) for targets in TARGETS.values()) + ".", "",
             "## Element types", "", *heading("type")]
    lines += [f"| `{row[0]}` | {' | '.join(cells(row[0]))} |" for row in names["DTYPE"]]
    last = None
    for section, name, kind, signature, doc in operations({"Function", "Member", "MemberOnly", "PointerMember",
                                                           "TypeMember", "DescriptorMember", "Construct"}):
        if section != last:
            lines += ["", f"## {section}", "", *heading("", "name", after=("",))]
            last = section
        mark = {"Member": "x", "PointerMember": "x", "MemberOnly": "x only", "TypeMember": "type",
                "DescriptorMember": "descriptor"}.get(kind, "")
        shown = f"`{name}({signature})`".replace("|", "\\|")
        owner = {"TypeMember": "dtype.", "DescriptorMember": "desc."}.get(kind, "")
        lines.append(f"| {mark} | {shown} | {' | '.join(cells(owner + name))} | {doc} |")
    lines += ["", "## tl.extra.libdevice", "",
              "Also under `tl.extra.cuda.libdevice`, and `from libtile.language.extra import libdevice`; on every "
              "target. fp16 and bf16 go through fp32.", "", *heading("name", "types", after=("",))]
    for _, macro, row in rows():
        if macro == "LIBDEVICE":
            name, signature, overloads, doc = row
            shown = doc.replace("|", "\\|").replace("*", "\\*")
            columns = " | ".join(cells("extra.libdevice." + name))
            lines.append(f"| `{name}({signature})` | {overloads} | {columns} | {shown} |")
    if names["LATER"]:
        lines += ["", "## Not there yet", "", ", ".join(f"`{row[0]}`" for row in names["LATER"]) + "."]
    return "\n".join(lines) + "\n"


def stub(name, signature, doc, indent=""):
    parts = []
    for part in re.findall(r"(?:'(?:[^'\\]|\\.)*'|[^,'])+", signature):
        part = part.strip()
        if part and part != "*":
            part = re.sub(r"^(\*{0,2})(\w+)(=.*)?$", lambda m: f"{m[1]}{m[2]}: Any" +
                          (f" {m[3][0]} {m[3][1:]}" if m[3] else ""), part)
        parts.append(part)
    result = "None" if name in ("store", "assume", "static_assert", "static_print") else "Any"
    return [f"{indent}def {name}({', '.join(filter(None, parts))}) -> {result}:",
            f'{indent}    """{doc}"""', f"{indent}    ..."]


def stubs():
    lines = ["# SPDX-License-Identifier: Apache-2.0", f"# Made from {MADE}.",
             "from typing import Any", "", "class dtype:", "    name: str", "    primitive_bitwidth: int",
             "    itemsize: int", "    element_ty: dtype"]
    for _, name, _, signature, doc in operations({"TypeMember"}):
        lines += stub(name, signature, doc, "    ")
    lines += ["", "class constexpr:", "    value: Any", "    def __init__(self, value: Any) -> None: ...",
              "    def __getattr__(self, name: str) -> Any: ...", "    def __index__(self) -> int: ...",
              "", "class tensor:", "    shape: tuple[int, ...]", "    dtype: dtype", "    type: Any",
              "    numel: int", "    T: tensor", "    def __getitem__(self, index: Any) -> tensor: ..."]
    for sign in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift",
                 "rshift", "lt", "le", "gt", "ge"):
        lines.append(f"    def __{sign}__(self, other: Any) -> tensor: ...")
    for sign in ("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rand", "ror", "rxor"):
        lines.append(f"    def __{sign}__(self, other: Any) -> tensor: ...")
    for sign in ("eq", "ne"):
        lines.append(f"    def __{sign}__(self, other: Any) -> tensor: ...  # type: ignore[override]")
    lines += ["    def __neg__(self) -> tensor: ...", "    def __invert__(self) -> tensor: ..."]
    for _, name, _, signature, doc in operations({"Member", "MemberOnly", "PointerMember"}):
        first, _, rest = signature.partition(",")
        lines += stub(name, "self," + rest, doc, "    ")
    lines += ["", "class tensor_descriptor:", "    shape: tuple[Any, ...]", "    strides: tuple[Any, ...]",
              "    block_shape: tuple[int, ...]", "    block_type: Any", "    dtype: dtype"]
    for _, name, _, signature, doc in operations({"DescriptorMember"}):
        lines += stub(name, signature, doc, "    ")
    lines.append("")
    lines += [f"{row[0]}: dtype" for _, macro, row in rows() if macro == "DTYPE"]
    lines.append("")
    classes = {"tensor", "dtype", "constexpr", "tensor_descriptor"}
    for _, name, kind, signature, doc in operations({"Function", "Member", "PointerMember", "Construct"}):
        if name not in classes and "." not in name:
            lines += stub(name, signature, doc)
    for _, macro, row in rows():
        if macro == "LANGUAGE_ENUM":
            lines += ["", f"class {row[0]}:"] + [f"    {member}: Any" for member in row[1].split(", ")]
    lines.append("")
    lines += [f"{row[0]}: int" for _, macro, row in rows() if macro == "LANGUAGE_CONSTANT"]
    lines += [f"{row[0]}: Any" for _, macro, row in rows()
              if macro in ("LANGUAGE_MODULE", "LANGUAGE_NAMESPACE") and "." not in row[0]] + [""]
    return "\n".join(lines)


def main():
    stale = False
    for path, text in ((PAGE, page()), (STUBS, stubs())):
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                print(f"{path.relative_to(ROOT)} is out of date: run python docs/generate_language.py")
                stale = True
        else:
            path.write_text(text)
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
