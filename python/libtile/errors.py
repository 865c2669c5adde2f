# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, by whose hands it must be mended."""
from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Error(Exception):
    """The base of all. `message` is the message alone; str() has the place and the caret too.

    `file`, `line` and `column` (from 1) tell the place in a kernel; None where there is none.
    """
    kind = 2

    def __init__(self, text: str, message: str | None = None, file: str | None = None,
                 line: int | None = None, column: int | None = None) -> None:
        super().__init__(text)
        self.message = message if message is not None else text
        self.file, self.line, self.column = file, line, column


class CompilationError(Error):
    """The kernel is wrong. (A wrong argument of a launch is a TypeError or a ValueError.)"""
    kind = 0

    @property
    def error_message(self) -> str:
        """`message`, by Triton's name."""
        return self.message


class StaticAssertionError(CompilationError):
    """A `static_assert` of the kernel does not hold."""


class OutOfBoundsError(Error, IndexError):
    """A kernel that was launched with `check=True`, or is interpreted (docs/debugging.md), reached for what lies out of its array.

    The place is that of the access. The launch has ended there; what was written by then stays written.
    """
    kind = 0


class KernelAssertionError(Error, AssertionError, RuntimeError):
    """An assertion of a kernel that was launched with `debug=True`, or is interpreted (docs/debugging.md), does not hold.

    The place is that of the assertion. The launch has ended there; what was written by then stays written. (On a
    GPU the next synchronisation fails, with an error of the device.) It is an AssertionError, and the RuntimeError that
    programs expect of a device.
    """
    kind = 0


class KernelFaultError(Error):
    """The interpreter (docs/debugging.md) found a fault of the kernel that is neither of the two above.

    The place is that of the access, or of what uses a value that is undefined. The launch has ended there; what was
    written by then stays written.
    """
    kind = 0


class UnsupportedError(Error):
    """The kernel is right and asks for what libtile does not have (yet, or on this target)."""
    kind = 1


class OutOfResources(UnsupportedError):
    """The kernel needs more than a program of the device may have: `required` of `name` ("shared memory", "threads",
    "registers" of a thread), where
    there is `limit`. Autotuning skips such a configuration."""

    def __init__(self, required: int, limit: int, name: str, text: str | None = None, message: str | None = None,
                 file: str | None = None, line: int | None = None, column: int | None = None) -> None:
        super().__init__(text or f"out of resource: {name}, required: {required}, limit: {limit}", message, file, line, column)
        self.required, self.limit, self.name = required, limit, name

    def __reduce__(self):
        return type(self), (self.required, self.limit, self.name, *self.args), self.__dict__


class NotThereYet(UnsupportedError, AttributeError):
    """A name of Triton's that libtile does not have yet: hasattr() is False, an import fails."""


class InternalError(Error):
    """libtile is wrong. `reproducer` shows it: the IR's text and a command; please report it."""
    kind = 2
    reproducer = ""


class DeviceError(Error):
    """No such device, or the device refused."""
    kind = 3


class AutotunerError(Error):
    """No configuration of an autotuned kernel is left."""
    kind = 0


def missing(owner: str, name: str, later: Collection[str]) -> AttributeError:
    """The exception for owner.name, which is not there; `later` are the names that are to come."""
    if name in later:
        return NotThereYet(f"{owner}.{name} is not there yet")
    return AttributeError(f"{owner} has no attribute '{name}'", name=name)


# What a package that stands in for another makes of an exception before it is raised; None: nothing.
translate: Callable[[Error], None] | None = None

_CLASSES = {1: UnsupportedError, 2: InternalError, 3: DeviceError}
_CALLING, _COMPILING, _RUNNING, _ASSERTING, _INTERPRETING = range(5)
_FOUND = {_RUNNING: OutOfBoundsError, _ASSERTING: KernelAssertionError, _INTERPRETING: KernelFaultError}


def _needing(message):
    """OutOfResources of what the compiler says of a kernel that needs too much."""
    import functools
    import re
    needed = re.match(r"the kernel needs (\d+)(?: bytes of)? (shared memory|threads|registers)\b.*?; \S+ has (\d+)", message)
    return functools.partial(OutOfResources, int(needed[1]), int(needed[3]), needed[2]) if needed else UnsupportedError


def translated(error: Error) -> Error:
    """The error, in the words of the package that stands in for another."""
    if translate is not None:
        translate(error)
    return error


def make(kind, text, message, line, column, reproducer, doing):
    """The exception for an error of libtile.so; the caller sets `file`."""
    # A fault of the kernel has its place there.
    if kind == 0 and (doing == _CALLING or (doing == _COMPILING and not line)):
        return ValueError(text)
    cls = _FOUND.get(doing, CompilationError) if kind == 0 else _CLASSES[kind]
    if cls is UnsupportedError and message.startswith("the kernel needs "):
        cls = _needing(message)
    if cls is CompilationError and message.startswith("static assertion failed"):
        cls = StaticAssertionError
    error = cls(text, message, None, line or None, column or None)
    if kind == 2:
        error.reproducer = reproducer
    return translated(error)
