# SPDX-License-Identifier: Apache-2.0
"""docs/language.md says of each name whether a target has it: a use of each is compiled, and what happens is what stands
there."""
import importlib.util
import re
import sys
from pathlib import Path

import language_bodies
import pytest

import libtile

DOCS = Path(__file__).resolve().parents[2] / "docs"
# What shows that a name was converted, in a text of the compiled kernel.
SHOWN = {"codes in memory, fp32 in arithmetic": ("tile", "float8_decode"), "plain accesses": ("ptx", "(ld|st).global"),
         "an atomic for each element": ("ptx", r"(atom|red)\S*\.global"), "a dot of fp16 or bf16": ("tile", "dot "),
         "PTX that is arithmetic on integers and floats": ("nested", "add "),
         "PTX that is arithmetic on integers and floats; AMD's own as it is": ("staged", "add ")}


@pytest.fixture(scope="module")
def targets():
    sys.path.insert(0, str(DOCS))
    try:
        import language_targets
        return language_targets
    finally:
        sys.path.remove(str(DOCS))


def names_of_the_page():
    """(name, types of libdevice or None) of each row, as EXCEPTIONS names it."""
    found = []
    for line in (DOCS / "language.md").read_text().splitlines():
        if libdevice := re.match(r"\| `(\w+)\([\w, ]*\)` \| ([^|]*->[^|]*) \|", line):
            found.append(("extra.libdevice." + libdevice[1], libdevice[2]))
        elif name := re.match(r"\| (?:(x|x only|type|descriptor|) \| )?`([\w.]+)(?:\(|` \|)", line):
            owner = {"type": "dtype.", "descriptor": "desc."}.get(name[1], "")
            found.append((owner + name[2], None))
    assert len(found) > 400
    return found


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """name -> the kernel that uses it."""
    bodies = dict(language_bodies.BODIES)
    for name, overloads in names_of_the_page():
        if overloads is not None:
            bodies[name] = language_bodies.libdevice_body(name.rsplit(".", 1)[1], overloads)
    path = tmp_path_factory.mktemp("language") / "uses_of_names.py"
    path.write_text(language_bodies.source(bodies.values()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: getattr(module, f"kernel_{number}") for number, name in enumerate(bodies)}


def outcome(kernel, said, target):
    """What the page would say of the kernel on the target, in the words of `said` where they are true."""
    what = re.match(r"(\w+)(?: \((.*)\))?$", said)
    try:
        compiled = kernel.warmup(*language_bodies.ARGUMENTS, grid=(1,), target=target)
    except libtile.UnsupportedError as error:
        return said if what[1] == "no" and what[2] in str(error) else f"no ({error.message})"
    if compiled.fallbacks:
        return f"converted ({compiled.fallbacks})"
    if what[1] != "converted":
        return "yes"
    text, pattern = SHOWN[what[2]]
    return said if re.search(pattern, compiled.asm[text]) else f"yes, no {pattern} in the {text}"


@pytest.mark.parametrize("column", ["CPU", "NVIDIA", "AMD"])
def test_the_page_is_true(targets, kernels, column):
    wrong = []
    for name, _ in names_of_the_page():
        if name not in language_bodies.IN_PYTHON:
            said = dict(zip(targets.TARGETS, targets.cells(name)))[column]
            for target in targets.TARGETS[column]:
                if (true := outcome(kernels[name], said, target)) != said:
                    wrong.append((name, target, said, true))
    assert not wrong, wrong


def test_what_is_said_is_said_of_names_that_there_are(targets):
    names = {name for name, _ in names_of_the_page()}
    assert set(targets.EXCEPTIONS) <= names and set(language_bodies.BODIES) <= names
