# SPDX-License-Identifier: Apache-2.0
"""Hooks around launches."""
import numpy as np
import pytest

import libtile
import libtile.language as tl
from libtile import hooks


def metadata(grid, kernel, arguments):
    return {"flops": grid[0] * arguments["BLOCK"], "kernel": kernel.name}


@libtile.jit(launch_metadata=metadata)
def fill(out, value, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, value)


@pytest.fixture
def seen():
    events = []
    first, second = (lambda info: events.append(("first", info))), (lambda info: events.append(("second", info)))
    chains = (hooks.launch_enter, hooks.launch_exit)
    for chain in chains:
        chain.add(first)
        chain.add(second)
        chain.add(first)
    yield events
    for chain in chains:
        chain.remove(first)
        chain.remove(second)
        assert not chain


def test_order_and_contents(seen):
    out = np.zeros(32, np.float32)
    kernel = fill[(2,)](out, 3.0, BLOCK=16)
    assert (out == 3).all()
    assert [name for name, _ in seen] == ["first", "second", "second", "first"]
    assert len({id(info) for _, info in seen}) == 1
    info = seen[0][1]
    assert info.kernel is kernel and info.function is fill and info.grid == (2, 1, 1) and info.stream == 0
    assert info.arguments["out"] is out and info.arguments["BLOCK"] == 16
    assert info.get() == {"name": "fill", "function": fill, "grid": (2, 1, 1), "stream": 0, "flops": 32,
                          "kernel": "fill"}


def test_empty_grids_are_no_launches(seen):
    fill[(0,)](np.zeros(1, np.float32), 3.0, BLOCK=16)
    assert seen == []


def test_without_hooks_nothing_is_called():
    assert not hooks.launch_enter and not hooks.launch_exit
    out = np.zeros(16, np.float32)
    fill[(1,)](out, 2.0, BLOCK=16)
    assert (out == 2).all()


def test_an_error_in_a_hook_is_the_callers():
    def refuse(info):
        raise KeyError("no")

    out = np.zeros(16, np.float32)
    hooks.launch_enter.add(refuse)
    try:
        with pytest.raises(KeyError):
            fill[(1,)](out, 2.0, BLOCK=16)
    finally:
        hooks.launch_enter.remove(refuse)
    assert (out == 0).all()
    hooks.launch_exit.add(refuse)
    try:
        with pytest.raises(KeyError):
            fill[(1,)](out, 2.0, BLOCK=16)
    finally:
        hooks.launch_exit.remove(refuse)
    assert (out == 2).all()


def test_a_hook_may_launch_and_take_itself_out():
    inner, outer = np.zeros(16, np.float32), np.zeros(16, np.float32)

    def once(info):
        hooks.launch_enter.remove(once)
        fill[(1,)](inner, 5.0, BLOCK=16)

    hooks.launch_enter.add(once)
    fill[(1,)](outer, 6.0, BLOCK=16)
    assert (inner == 5).all() and (outer == 6).all()
