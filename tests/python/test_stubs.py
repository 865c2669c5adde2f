# SPDX-License-Identifier: Apache-2.0
"""jit.pyi says what jit.py and the extension module have."""
import ast
import inspect
import sys
from pathlib import Path

import pytest

from libtile import CompiledKernel, JITFunction

module = sys.modules["libtile.jit"]
TREE = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text())
CLASSES = {node.name: node for node in TREE.body if isinstance(node, ast.ClassDef)}


def parameters(function):
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [each.arg for each in every if each is not None]


def members():
    for name, node in CLASSES.items():
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                yield pytest.param(getattr(module, name), each, id=f"{name}.{each.name}")


@pytest.mark.parametrize("owner, node", list(members()))
def test_members_are_there(owner, node):
    found = inspect.getattr_static(owner, node.name)
    decorators = [each.id for each in node.decorator_list]
    assert isinstance(found, property) == (decorators == ["property"])
    if inspect.isfunction(found):
        signature = list(inspect.signature(found).parameters)
        assert sorted(parameters(node)) == sorted(signature)


@pytest.mark.parametrize("owner", [CompiledKernel, JITFunction, module.Stages])
def test_public_members_are_in_the_stub(owner):
    stub = {each.name for each in CLASSES[owner.__name__].body if isinstance(each, ast.FunctionDef)}
    assert {name for name in vars(owner) if not name.startswith("_")} <= stub


def test_functions():
    stubs = [node for node in TREE.body if isinstance(node, ast.FunctionDef)]
    assert {node.name for node in stubs} == {"jit", "constexpr_function", "must_use_result"}
    longest = max((node for node in stubs if node.name == "jit"), key=lambda node: len(parameters(node)))
    assert parameters(longest) == list(inspect.signature(module.jit).parameters)
