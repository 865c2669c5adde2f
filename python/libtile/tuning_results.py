# SPDX-License-Identifier: Apache-2.0
"""The file of tuning results: a line for each configuration that was measured or skipped.

    kernel <tab> hash <tab> device <tab> key <tab> configuration <tab> milliseconds <tab> reason

- hash: of the kernel's source, of the functions and constants that it names, and of libtile's version;
- device: the target, and the device's own name or the number of threads;
- key: a list in JSON; configuration: its keywords, in JSON; milliseconds: median, 20% and 80% in JSON;
- reason: in JSON, why it was skipped (milliseconds are empty then), else empty.

Files are merged by `cat`: of several lines about one configuration the last one counts. Lines that begin with `#`, and lines
that are no such row, are passed over. A configuration that has no line is measured, so that adding one to a kernel measures
that one alone.
"""
from __future__ import annotations

import os

from . import _libtile, errors, knobs

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from typing import Any

    from .tuning_trials import Result

_HEAD = "# libtile: times of autotuned kernels (docs/tuning.md); files are merged by cat\n"
# Path -> (what the file's state was, its rows).
_read: dict[str, tuple[Any, dict[tuple[str, ...], tuple[str, str]]]] = {}


class SkippedBefore(errors.Error):
    """The file says that a configuration was skipped; the message is the reason of then."""


def path() -> str:
    """The file's path."""
    if knobs.autotuning.file:
        return knobs.autotuning.file
    return os.path.join(knobs.cache.dir, "tuning.tsv")


def store(tuner: Any, key: tuple[Any, ...]) -> Store | None:
    """The results for a key of a tuner; None: the key is made of what no other process can name."""
    import json
    try:
        text = json.dumps(key[:-1], allow_nan=False)
    except (TypeError, ValueError):
        return None
    return Store(path(), (tuner.jit.__name__, source_hash(tuner.jit), _device(key[-1]), text))


class Store:
    """The rows of one kernel, device and key."""

    def __init__(self, file: str, head: tuple[str, str, str, str]) -> None:
        self._file, self._head = file, head

    def known(self, configs: list[Any]) -> dict[Any, Result]:
        """What the file knows of these configurations."""
        from .tuning_trials import Result
        rows = _rows(self._file)
        found = {}
        for config in configs:
            row = rows.get((*self._head, _text_of(config)))
            if row is not None:
                found[config] = _result(Result, *row)
        return {config: result for config, result in found.items() if result is not None}

    def add(self, measured: dict[Any, Result]) -> None:
        """Appends rows, in one write. A file that cannot be written is a warning."""
        import json
        lines = []
        for config, result in measured.items():
            times = "" if result.error is not None else json.dumps(result.times)
            reason = json.dumps(result.reason) if result.error is not None else ""
            lines.append("\t".join([*self._head, _text_of(config), times, reason]) + "\n")
        try:
            _append(self._file, "".join(lines))
        except OSError as error:
            import warnings
            warnings.warn(f"results of autotuning are not kept: {error}", stacklevel=2)


def _append(file, text):
    os.makedirs(os.path.dirname(os.path.abspath(file)), mode=0o700, exist_ok=True)
    handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        _lock(handle)
        size = os.fstat(handle).st_size
        # A line that was cut off stays the only one that is lost.
        is_whole = size == 0 or os.pread(handle, 1, size - 1) == b"\n"
        os.write(handle, (("" if is_whole else "\n") + (_HEAD if size == 0 else "") + text).encode())
    finally:
        os.close(handle)


def _lock(handle):
    """For this process until the file is closed. Without locks an empty line may come between two writers' lines."""
    try:
        import fcntl
        fcntl.flock(handle, fcntl.LOCK_EX)
    except (ImportError, OSError):
        pass


def _rows(file):
    """(kernel, hash, device, key, configuration) -> (milliseconds, reason)."""
    try:
        state = os.stat(file)
    except OSError:
        return {}
    state = (state.st_ino, state.st_size, state.st_mtime_ns)
    if file in _read and _read[file][0] == state:
        return _read[file][1]
    rows = {}
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                fields = line.rstrip("\n").split("\t")
                if len(fields) == 7 and not line.startswith("#") and line.endswith("\n"):
                    rows[tuple(fields[:5])] = (fields[5], fields[6])
    except OSError:
        return {}
    _read[file] = (state, rows)
    return rows


def _result(make, times, reason):
    """None: the fields say nothing that can be understood."""
    import json
    try:
        if reason:
            return make.skipped(SkippedBefore(str(json.loads(reason))))
        read = json.loads(times)
    except ValueError:
        return None
    numbers = read if isinstance(read, list) else [read]
    is_good = numbers and all(isinstance(each, (int, float)) and not isinstance(each, bool) and each >= 0
                              for each in numbers)
    return make(read) if is_good else None


def _text_of(config):
    import json
    named = config.all_kwargs()
    if config.pre_hook is not None:
        named["pre_hook"] = getattr(config.pre_hook, "__qualname__", type(config.pre_hook).__qualname__)
    return json.dumps(named, default=str)


def _device(device):
    from .device import ordinal
    number = ordinal(device)
    target = _libtile.target(number)
    return f"{target} {_libtile.num_threads()} threads" if number < 0 else f"{target} {_libtile.device_model(number)}"


def source_hash(jit: Any) -> str:
    """Of a jit function: its source, those of the functions that it names and they name, the constants, libtile's version."""
    import hashlib
    seen: dict[int, Any] = {}
    parts = [_libtile.version]
    _collect(jit, seen, parts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _collect(jit, seen, parts):
    if id(jit) in seen or jit.fn is None:
        return
    seen[id(jit)] = jit
    parts.append(jit.src)
    names = {*jit.fn.__code__.co_names, *jit.fn.__code__.co_freevars}
    for owner in _namespaces(jit.fn):
        for name in sorted(names & owner.keys()):
            value = owner[name]
            if isinstance(value, _libtile.Jit):
                _collect(value, seen, parts)
            elif hasattr(type(value), "__name__") and type(value).__name__ == "constexpr":
                parts.append(f"{name}={value.value!r}")
            elif isinstance(value, (bool, int, float, str)):
                parts.append(f"{name}={value!r}")


def _namespaces(fn):
    """The function's globals and closure, and what is in the modules and classes that it names there."""
    closure = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    spaces = [fn.__globals__, closure]
    for space in list(spaces):
        for name in sorted({*fn.__code__.co_names, *fn.__code__.co_freevars} & space.keys()):
            value = space[name]
            package = getattr(value, "__name__", "").partition(".")[0]
            if hasattr(value, "__dict__") and not callable(value) and package not in ("libtile", "triton"):
                spaces.append(dict(vars(value)))
    return spaces
