# SPDX-License-Identifier: Apache-2.0
"""Settings of the package. Each is an attribute, and is read from an environment variable while nobody has set it:

    libtile.knobs.autotuning.cache = True     # LIBTILE_CACHE_AUTOTUNING=1, or TRITON_CACHE_AUTOTUNING=1

The variable is read at each use, so that a program may set it after the import; `del` of an attribute gives the variable
its say again. A variable that says what it cannot mean is a ValueError where it is used.
"""
from __future__ import annotations

import operator
import os

from . import _libtile

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FLAGS = {"": False, "0": False, "false": False, "off": False, "no": False, "1": True, "true": True, "on": True,
          "yes": True}


def _flag(variable: str, text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError(f"{variable} is '{text}'; it takes 0 or 1")
    return _FLAGS[text.lower()]


def _text(variable: str, text: str) -> str:
    return text


def _count(variable: str, text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{variable} is '{text}'; it takes a number from 1 on")
    return int(text)


class _Setting:
    """An attribute whose value, while it is not set, is what the first of the variables that is there says."""

    def __init__(self, read: Callable[[str, str], Any], standard: Any, *variables: str) -> None:
        self._read, self._standard, self._variables = read, standard, variables

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self
        if self._name in group.__dict__:
            return group.__dict__[self._name]
        for variable in self._variables:
            if variable in os.environ:
                return self._read(variable, os.environ[variable])
        return self._standard

    def __set__(self, group: Any, value: Any) -> None:
        group.__dict__[self._name] = value

    def __delete__(self, group: Any) -> None:
        group.__dict__.pop(self._name, None)


class _CacheSetting:
    """An attribute that the compiler reads: while it is not set, what the environment says."""

    def __init__(self, place: int, check: Callable[[Any], Any], show: Callable[[Any], Any]) -> None:
        self._place, self._check, self._show = place, check, show

    def __get__(self, group: Any, owner: type) -> Any:
        return self if group is None else self._show(_libtile.cache()[self._place])

    def __set__(self, group: Any, value: Any) -> None:
        group.chosen[self._place] = self._check(value)
        _libtile.set_cache(*group.chosen)

    def __delete__(self, group: Any) -> None:
        group.chosen[self._place] = _BY_ENVIRONMENT[self._place]
        _libtile.set_cache(*group.chosen)


_BY_ENVIRONMENT = (-1, None, -1)


class Cache:
    """The cache of compiled code on disk (docs/caching.md), for what is compiled from here on.

    - `enabled`: compiled code is kept for other processes, and taken from there. LIBTILE_CACHE.
    - `dir`: the folder of caches. LIBTILE_CACHE_DIR, TRITON_CACHE_DIR, or `libtile` in the user's folder of caches; an
      empty text: there is none.
    - `max_bytes`: of all compiled code that is kept. LIBTILE_CACHE_MB, in units of 2^20 bytes; 1024.
    """
    enabled = _CacheSetting(0, lambda value: int(bool(value)), bool)
    dir = _CacheSetting(1, os.fsencode, os.fsdecode)
    max_bytes = _CacheSetting(2, lambda value: max(operator.index(value), 0), int)

    def __init__(self) -> None:
        self.chosen = list(_BY_ENVIRONMENT)


class Autotuning:
    """What autotuned kernels heed (docs/tuning.md).

    - `cache`: results are kept in a file, and read back by other processes; as `autotune(cache_results=True)` says for
      one kernel. LIBTILE_CACHE_AUTOTUNING, TRITON_CACHE_AUTOTUNING.
    - `file`: the path of that file; None: `tuning.tsv` in the folder of caches, `cache.dir`. LIBTILE_TUNING_FILE.
    - `print`: what is tried and found is printed. LIBTILE_PRINT_AUTOTUNING, TRITON_PRINT_AUTOTUNING.
    - `progress`: a tuning beyond 2 s says on stderr how far it is: True, False, or None: if that is a terminal.
      LIBTILE_TUNING_PROGRESS.
    - `listener`: None, or a callable: `listener(fn=, key=, best_config=, configs_timings=, duration=, cache_hit=)` after
      each tuning; duration is in seconds, None if the results came from the file.
    """
    cache = _Setting(_flag, False, "LIBTILE_CACHE_AUTOTUNING", "TRITON_CACHE_AUTOTUNING")
    file = _Setting(_text, None, "LIBTILE_TUNING_FILE")
    print = _Setting(_flag, False, "LIBTILE_PRINT_AUTOTUNING", "TRITON_PRINT_AUTOTUNING")
    progress = _Setting(_flag, None, "LIBTILE_TUNING_PROGRESS")
    listener = _Setting(_text, None)


class Reports:
    """What `testing.perf_report` heeds.

    - `points`: the most points that are measured of each benchmark, the first ones of its `x_vals`; None: all of them.
      LIBTILE_REPORT_POINTS.
    """
    points = _Setting(_count, None, "LIBTILE_REPORT_POINTS")


class _LibrarySetting:
    """An attribute that the library keeps; it reads the variable itself, once."""

    def __init__(self, get: Callable[[], bool], put: Callable[[bool], None]) -> None:
        self._get, self._put = get, put

    def __get__(self, group: Any, owner: type) -> Any:
        return self if group is None else self._get()

    def __set__(self, group: Any, value: Any) -> None:
        self._put(bool(value))


class Interpreter:
    """What is interpreted, and what the interpreter looks for (docs/debugging.md). The variables are read once.

    - `enabled`: launches with arrays in the host's memory run in the interpreter. LIBTILE_INTERPRET, TRITON_INTERPRET.
    - `portable`: what libtile defines and Triton leaves open is a fault where it matters; True unless the variable is 0.
      LIBTILE_INTERPRETER_PORTABLE.
    """
    enabled = _LibrarySetting(_libtile.interprets, _libtile.set_interprets)
    portable = _LibrarySetting(_libtile.checks_portability, _libtile.check_portability)


cache = Cache()
autotuning = Autotuning()
reports = Reports()
interpreter = Interpreter()
