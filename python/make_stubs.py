#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Type stubs of libtile.language from frontend/language.def.

    make_stubs.py language.def __init__.pyi
"""
import re
import sys

ROW = re.compile(r'^(OPERATION|DTYPE|LANGUAGE_MODULE|LATER)\((.*)\)$')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')

HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Made from frontend/language.def by make_stubs.py.
from typing import Any

class dtype:
    name: str
    primitive_bitwidth: int
    itemsize: int
    def __getattr__(self, name: str) -> Any: ...

class constexpr:
    value: Any
    def __init__(self, value: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __index__(self) -> int: ...
    def __add__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...

class const: ...

class tensor:
    dtype: dtype
    shape: tuple[int, ...]
    type: Any
    T: tensor
    def __getitem__(self, index: Any) -> tensor: ...
'''
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift", "eq",
             "ne", "lt", "le", "gt", "ge")
OWN = {"constexpr", "tensor", "dtype", "tuple", "slice", "const"}


def rows(text):
    for line in text.splitlines():
        match = ROW.match(line)
        if match:
            strings = [re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], each)
                       for each in STRING.findall(match[2])]
            # The function and the kind are the two bare words between the strings.
            words = re.sub(STRING, "", match[2]).replace(",", " ").split()
            yield match[1], strings, words


def parameters(signature):
    """Python's own form, with every annotation Any."""
    made = []
    for part in filter(None, (each.strip() for each in re.split(r",\s*(?=[\w*])", signature))):
        name, equals, default = part.partition("=")
        if name == "*":
            made.append("*")
        else:
            made.append(f"{name}: Any" + (f" = {default!s}" if equals else "").replace("\n", "\\n"))
    return made


def main():
    source, target = sys.argv[1:]
    functions, members, names = [], [], []
    for sort, strings, words in rows(open(source).read()):
        if sort == "DTYPE":
            names.append(f"{strings[0]}: dtype")
        elif sort == "LANGUAGE_MODULE":
            names.append(f"{strings[0]}: Any")
        elif sort == "OPERATION" and strings[0] not in OWN:
            name, signature, kind = strings[0], strings[1], words[1]
            doc = strings[2].replace("\\", "\\\\").replace('"""', "'''")
            given = parameters(signature)
            if kind in ("Function", "Member", "Construct"):
                functions.append(f'def {name}({", ".join(given)}) -> Any:\n    """{doc}"""')
            if kind in ("Member", "MemberOnly"):
                members.append(f'    def {name}({", ".join(["self", *given[1:]])}) -> Any:\n'
                               f'        """{doc}"""')
    operators = [f"    def __{name}__(self, other: Any) -> tensor: ...  # type: ignore[override]"
                 for name in OPERATORS]
    operators += [f"    def __r{name}__(self, other: Any) -> tensor: ..." for name in OPERATORS[:11]]
    with open(target, "w") as stream:
        stream.write("\n".join([HEAD.rstrip(), *operators, *members, "", *names, "", *functions, ""]))


if __name__ == "__main__":
    main()
