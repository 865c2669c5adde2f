# SPDX-License-Identifier: Apache-2.0
"""Options of the tests.

`pytest --device interpreter tests/python`: every launch of the tests with arrays on the CPU is interpreted, in the
processes that they start too. What libtile defines and Triton leaves open is no fault then, since tests look at it.
Tests that look at something else are marked `not_interpreted(reason)`, and left out (docs/testing.md).

`pytest --emulate gfx942 tests/python`: the tests that run on device "hip", and no others, on an emulated GPU (tests/amd).
What such a GPU has no room for is listed with its reason in tests/amd/misfits.txt, and left out where it says so itself.

`pytest --cached DIR tests/python`: compiled code is kept in DIR and found there by the next run. Tests that set the
cache up by themselves do so still."""
import fnmatch
import importlib.util
import os
import pathlib

import pytest

_BEFORE = pytest.StashKey()
_MISFITS = pathlib.Path(__file__).parents[1] / "amd" / "misfits.txt"


def _kept(config):
    """What the folder of --cached holds, by name."""
    folder = pathlib.Path(config.getoption("--cached"), "kernels")
    return {path.name for path in folder.glob("**/*") if path.is_file()}


def pytest_addoption(parser):
    parser.addoption("--device", choices=["interpreter"], help="what runs the launches with arrays on the CPU")
    parser.addoption("--emulate", metavar="TARGET", help="an AMD GPU, whose tests run on an emulator")
    parser.addoption("--cached", metavar="DIR", help="a folder for compiled code, in place of no cache")


def pytest_configure(config):
    config.addinivalue_line("markers", "not_interpreted(reason): left out with --device interpreter")
    if config.getoption("--device") == "interpreter":
        os.environ.update(LIBTILE_INTERPRET="1", LIBTILE_INTERPRETER_PORTABLE="0")
    if config.getoption("--emulate"):
        spec = importlib.util.find_spec("libtile")
        library = pathlib.Path(spec.origin).parents[2] / "tests" / "amd" / "libamdhip64_emulated.so"
        os.environ.update(LIBTILE_HIP=str(library), LIBTILE_EMULATED_GPU=config.getoption("--emulate"))
    if config.getoption("--cached"):
        os.environ.update(LIBTILE_CACHE="1", LIBTILE_CACHE_DIR=os.path.abspath(config.getoption("--cached")),
                          LIBTILE_CACHE_MB="65536")
        config.stash[_BEFORE] = _kept(config)


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("--cached"):
        kept = _kept(config)
        terminalreporter.write_line(f"cached: {len(kept)} files, of which {len(kept - config.stash[_BEFORE])} are new")


def _is_on_hip(item):
    return hasattr(item, "callspec") and any(isinstance(value, str) and value == "hip" for value in item.callspec.params.values())


def _misfits():
    """Patterns of tests, and why the GPU is too small for them."""
    lines = [line.split("\t") for line in _MISFITS.read_text().splitlines() if line and not line.startswith("#")]
    return [(pattern, reason) for pattern, reason in lines]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    try:
        return (yield)
    except Exception as error:
        known = [reason for pattern, reason in _misfits() if fnmatch.fnmatch(pyfuncitem.name.replace("[", "("), pattern)] \
            if _is_on_hip(pyfuncitem) and type(error).__name__ == "OutOfResources" else []
        if known:
            pytest.skip(f"{known[0]}: {error}")
        raise


def pytest_collection_modifyitems(config, items):
    if config.getoption("--emulate"):
        config.hook.pytest_deselected(items=[item for item in items if not _is_on_hip(item)])
        items[:] = [item for item in items if _is_on_hip(item)]
    if config.getoption("--device") == "interpreter":
        for item in items:
            for mark in item.iter_markers("not_interpreted"):
                item.add_marker(pytest.mark.skip(reason=f"not interpreted: {mark.args[0]}"))
