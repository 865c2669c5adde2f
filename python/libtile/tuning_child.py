# SPDX-License-Identifier: Apache-2.0
"""Configurations compiled and measured in a process of its own, so that one that crashes or hangs costs only itself.

The child is started anew (no fork: a GPU's context would not survive one) and imports the kernel by its name. It gets the
arguments as copies: arrays with the whole memory that they lie in, so that strides and offsets keep their meaning. Hooks of
the user are called here, before the arguments are copied; what a launch changes, the child's copies lose with it.
"""
from __future__ import annotations

import io
import pickle
import sys

from . import errors
from .device import DeviceArray, to_device

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from typing import Any

_QUANTILES = (0.5, 0.2, 0.8)
_START_SECONDS = 300.0


class Crashed(errors.Error):
    """The process that measured a configuration has ended, or was ended since it took too long."""


class Child:
    """The process, started for the first configuration and again after each that it did not survive."""

    def __init__(self, tuner: Any, device: str) -> None:
        self._kernel = _name_of(tuner)
        self._tuner, self._device = tuner, device
        self._process: Any = None
        self._pipe: Any = None

    def measure(self, trial: Any) -> list[float]:
        """Times of a trial, as quantiles. Raises what the launch raised, or Crashed."""
        kwargs = trial.resolved()
        if kwargs is None:
            raise TypeError(f"isolate: what lies between autotune and '{trial.tuner.__name__}' is not known")
        trial.before()
        try:
            times = self._ask(self._request(trial, kwargs))
        except Exception as error:
            trial.after(error)
            raise
        trial.after()
        return times

    def close(self) -> None:
        """Ends the process, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def _request(self, trial, kwargs):
        tuner = self._tuner
        grid = trial.grid
        if callable(grid) and not isinstance(grid, tuple):
            grid = grid({**_defaults(tuner.base_fn), **dict(zip(tuner.arg_names, trial.args)), **kwargs})
        return _dumps({"kernel": self._kernel, "args": trial.args, "kwargs": kwargs, "grid": grid,
                       "device": self._device, "names": tuner.arg_names,
                       "reset_to_zero": tuner.reset_to_zero if not tuner.user_defined_pre_hook else [],
                       "restore_value": tuner.restore_value if not tuner.user_defined_pre_hook else [],
                       "warmup": 25 if tuner.num_warmups is None else tuner.num_warmups,
                       "rep": 100 if tuner.num_reps is None else tuner.num_reps})

    def _start(self):
        import multiprocessing
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()
        try:
            if not self._pipe.poll(_START_SECONDS):
                raise EOFError
            self._pipe.recv_bytes()
        except EOFError:
            self.close()
            raise RuntimeError("isolate: the process that measures did not start. A script that tunes with isolate "
                               "begins its own work under `if __name__ == \"__main__\":`") from None

    def _ask(self, request):
        if self._process is None:
            self._start()
        limit = self._tuner.time_limit
        try:
            self._pipe.send_bytes(request)
            if not self._pipe.poll(limit):
                self.close()
                raise Crashed(f"it takes longer than {limit:g} s to compile and measure")
            good, answer = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            raise Crashed(f"the process that measured it ended with {_ending(code)}") from None
        if good:
            return answer
        # A GPU that has failed serves no more calls of its process.
        self.close()
        raise answer


def _ending(code):
    import signal
    try:
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
    except ValueError:
        return f"signal {-code}"


def _name_of(tuner):
    """(module, qualified name) that lead to the kernel in another process."""
    from .jit import _named
    found = _named(tuner.__module__, tuner.__qualname__)
    while found is not None and found is not tuner.jit:
        found = getattr(found, "fn", None)
    if found is None:
        raise ValueError(f"isolate: no name leads to '{tuner.__qualname__}' from another process; define it at the top of "
                         "a module, under its own name")
    return tuner.__module__, tuner.__qualname__


def _defaults(fn):
    import inspect
    return {name: each.default for name, each in inspect.signature(fn).parameters.items()
            if each.default is not inspect.Parameter.empty}


# ---- arguments as bytes

class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if isinstance(value, DeviceArray):
            return to_device, (value.numpy(), value.device)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.ndarray) and not value.flags.c_contiguous:
            return _view, _memory_of(value)
        return NotImplemented


def _memory_of(array):
    """The bytes from the first to the last element, and how the array lies in them."""
    import ctypes
    address = array.__array_interface__["data"][0]
    if not array.size:
        return b"", array.dtype, array.shape, (0,) * array.ndim, 0
    ways = [stride * (extent - 1) for stride, extent in zip(array.strides, array.shape)]
    low = address + sum(way for way in ways if way < 0)
    size = sum(map(abs, ways)) + array.itemsize
    return ctypes.string_at(low, size), array.dtype, array.shape, array.strides, address - low


def _view(data, dtype, shape, strides, offset):
    import numpy as np
    return np.ndarray(shape, dtype, bytearray(data), offset, strides)


def _dumps(request):
    out = io.BytesIO()
    _Pickler(out, protocol=5).dump(request)
    return out.getvalue()


# ---- the child

def _serve(pipe):
    """What the child runs: one request after the other, until the parent is gone."""
    pipe.send_bytes(b"")
    while True:
        try:
            request = pipe.recv_bytes()
        except EOFError:
            return
        try:
            answer = (True, _answer(pickle.loads(request)))
        except Exception as error:
            answer = (False, error)
        try:
            data = pickle.dumps(answer)
            pickle.loads(data)
        except Exception:  # an exception that cannot be sent
            data = pickle.dumps((False, RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))
        pipe.send_bytes(data)


def _answer(request):
    from . import _libtile, testing, tuning_arrays
    module, name = request["kernel"]
    import importlib
    from .jit import _named
    if module not in sys.modules:
        importlib.import_module(module)
    kernel = _named(module, name)
    while not isinstance(kernel, _libtile.Jit):
        kernel = kernel.fn
    args, kwargs = request["args"], request["kwargs"]
    arguments = {**dict(zip(request["names"], args)), **kwargs}
    copies = {}

    def before():
        for each in request["reset_to_zero"]:
            tuning_arrays.zero(each, arguments.get(each))
        copies.update({each: tuning_arrays.kept(each, arguments.get(each)) for each in request["restore_value"]})

    def after(error=None):
        for each, copy in copies.items():
            tuning_arrays.restore(arguments.get(each), copy)

    times = testing.samples(lambda: kernel[request["grid"]](*args, **kwargs), request["warmup"], request["rep"],
                            request["device"], before=before, after=after)
    return testing.quantiles_of(times, _QUANTILES)
