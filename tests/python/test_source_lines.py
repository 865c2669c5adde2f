# SPDX-License-Identifier: Apache-2.0
"""Where a function's source ends: as inspect says, without its tokenizer."""
import importlib
import inspect
import linecache
import types

import pytest

jit = importlib.import_module("libtile.jit")  # libtile.jit itself is the decorator

MODULES = ["contextlib", "heapq", "inspect", "pydoc", "statistics", "textwrap", "typing", "unittest.case"]


def functions(owner, module):
    for value in list(vars(owner).values()):
        value = getattr(value, "__func__", value)
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            yield value
        elif isinstance(value, type) and value.__module__ == module.__name__ and value is not owner:
            yield from functions(value, module)


@pytest.mark.parametrize("name", MODULES)
def test_blocks_are_those_of_inspect(name):
    module = importlib.import_module(name)
    for fn in functions(module, module):
        code = fn.__code__
        lines, first = linecache.getlines(code.co_filename), code.co_firstlineno
        if fn.__name__ != "<lambda>" and code.co_filename == module.__file__ and 0 < first <= len(lines):
            assert jit.block(lines[first - 1:]) == inspect.getblock(lines[first - 1:]), fn


ENDS = ["return (x +\n1)", "x = '''\nhere\n'''", "return x\n\n    # a comment", "return x\n# not its own", "'only a docstring'", "pass",
        "return x\n    '''nothing\ncomes of this'''", "return x\n    (1,\n2)", "return x \\\n+ 1", "if x:\n        return 1\n    else:\n        pass",
        "def g():\n        return (1,\n2)\n    return g", "return lambda: (x,\n  1)", "x: int", "return x\n    1 + \\\n1", "return [\nx\n]"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("after", ["", "\n", "\n\ny = 1\n", "\n\n\n@print\ndef other():\n    pass\n", "\nprint(\n1)\n", "\n# last"])
@pytest.mark.parametrize("head", ["def f(x):\n    ", "@keep\ndef f(x):\n    ", "@keep\ndef f(\n  x\n):\n    "])
def test_odd_ends(head, end, after):
    text = head + end + after
    found = {}
    exec(compile(text.replace("@print\n", ""), "<test>", "exec"), {"keep": lambda f: f, "print": lambda *_: None}, found)
    lines = text.splitlines(keepends=True)
    assert jit.block(lines) == inspect.getblock(lines)
