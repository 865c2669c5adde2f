# SPDX-License-Identifier: Apache-2.0
"""What profilers and tracers have called around each launch and each compilation.

`launch_enter` and `launch_exit` are HookChains, called before a launch, and when it is done (CPU) or in the stream's queue
(GPU); `compile_enter` and `compile_exit` before a kernel is compiled, and when it is:

    libtile.hooks.launch_enter.add(lambda launch: print(launch.get()["name"]))

A hook gets a LaunchInfo or a CompileInfo; what it raises, the launch raises. Launches of empty grids call none. One of
`compile_enter` that returns true refuses: nothing is compiled, nothing runs, and the launch returns None. Without hooks a
launch takes no time for them.
"""
from __future__ import annotations

from . import _libtile

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class LaunchInfo:
    """A launch: its compiled kernel, jit function, grid, stream (an address; 0: the default one) and
    arguments by name."""

    def __init__(self, kernel: Any, function: Any, grid: tuple[int, int, int], stream: int,
                 arguments: dict[str, Any]) -> None:
        self.kernel, self.function, self.grid, self.stream = kernel, function, grid, stream
        self.arguments = arguments

    def get(self) -> dict[str, Any]:
        """Name, grid and stream, and what `jit(launch_metadata=)` adds: it is called with the grid, the
        kernel and the arguments by name."""
        facts = {"name": self.kernel.name, "function": self.function, "grid": self.grid, "stream": self.stream}
        if self.function.launch_metadata is not None:
            facts.update(self.function.launch_metadata(self.grid, self.kernel, self.arguments))
        return facts


class CompileInfo:
    """A compilation: its jit function, the target's name (None: that of the arguments' device), options and arguments by
    name, and the compiled kernel; None before it is there."""

    def __init__(self, kernel: Any, function: Any, target: str | None, options: dict[str, int],
                 arguments: dict[str, Any]) -> None:
        self.kernel, self.function, self.target = kernel, function, target
        self.options, self.arguments = options, arguments


class HookChain:
    """Callables, in the order of adding, or from the last to the first."""

    def __init__(self, reverse: bool = False) -> None:
        self.calls: list[Callable[[Any], object]] = []
        self._reverse = reverse

    def add(self, hook: Callable[[Any], object]) -> None:
        """Appends a callable, once."""
        if hook not in self.calls:
            self.calls.append(hook)
        _install()

    def remove(self, hook: Callable[[Any], object]) -> None:
        """Takes it out, if it is there."""
        if hook in self.calls:
            self.calls.remove(hook)
        _install()

    def replace(self, hooks: Iterable[Callable[[Any], object]]) -> None:
        """Takes these instead of what there is."""
        self.calls[:] = hooks
        _install()

    def __call__(self, *info: Any) -> bool:
        """Calls all; whether one of them returned true."""
        return any([hook(*info) for hook in (self.calls[::-1] if self._reverse else list(self.calls))])

    def __bool__(self) -> bool:
        return bool(self.calls)


launch_enter = HookChain()
launch_exit = HookChain(reverse=True)
compile_enter = HookChain()
compile_exit = HookChain(reverse=True)


def _install() -> None:
    _libtile.set_launch_hooks(launch_enter or None, launch_exit or None)
    _libtile.set_compile_hooks(compile_enter or None, compile_exit or None)
