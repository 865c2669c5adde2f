# SPDX-License-Identifier: Apache-2.0
"""Options of the tests.

`pytest --device interpreter tests/python`: every launch of the tests with arrays on the CPU is interpreted, in the
processes that they start too. What libtile defines and Triton leaves open is no fault then, since tests look at it.
Tests that look at something else are marked `not_interpreted(reason)`, and left out (docs/testing.md).

`pytest --cached DIR tests/python`: compiled code is kept in DIR and found there by the next run. Tests that set the
cache up by themselves do so still."""
import os
import pathlib

import pytest

_BEFORE = pytest.StashKey()


def _kept(config):
    """What the folder of --cached holds, by name."""
    folder = pathlib.Path(config.getoption("--cached"), "kernels")
    return {path.name for path in folder.glob("**/*") if path.is_file()}


def pytest_addoption(parser):
    parser.addoption("--device", choices=["interpreter"], help="what runs the launches with arrays on the CPU")
    parser.addoption("--cached", metavar="DIR", help="a folder for compiled code, in place of no cache")


def pytest_configure(config):
    config.addinivalue_line("markers", "not_interpreted(reason): left out with --device interpreter")
    if config.getoption("--device") == "interpreter":
        os.environ.update(LIBTILE_INTERPRET="1", LIBTILE_INTERPRETER_PORTABLE="0")
    if config.getoption("--cached"):
        os.environ.update(LIBTILE_CACHE="1", LIBTILE_CACHE_DIR=os.path.abspath(config.getoption("--cached")),
                          LIBTILE_CACHE_MB="65536")
        config.stash[_BEFORE] = _kept(config)


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("--cached"):
        kept = _kept(config)
        terminalreporter.write_line(f"cached: {len(kept)} files, of which {len(kept - config.stash[_BEFORE])} are new")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--device") == "interpreter":
        for item in items:
            for mark in item.iter_markers("not_interpreted"):
                item.add_marker(pytest.mark.skip(reason=f"not interpreted: {mark.args[0]}"))
