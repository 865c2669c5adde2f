# SPDX-License-Identifier: Apache-2.0
"""Measuring kernels."""
from __future__ import annotations

import time

from . import _libtile, errors
from .device import ordinal

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_flush: dict[int, tuple[int, int]] = {}  # device -> (address, bytes), kept for ever


def _clear_cache(device):
    """Writes more memory than the last-level cache holds."""
    if device not in _flush:
        size = max(_libtile.cache_bytes(device) * 2, 64 << 20)
        _flush[device] = (_libtile.allocate(device, size), size)
    address, size = _flush[device]
    _libtile.fill(device, address, 1, size)


def _one(fn, device, clears):
    if clears:
        _clear_cache(device)
    if device < 0:
        start = time.perf_counter()
        fn()
        return (time.perf_counter() - start) * 1e3
    start = _libtile.record_time(device)
    fn()
    return _libtile.milliseconds(device, start, _libtile.record_time(device))


def _samples(fn, device, clears, rep, estimate):
    """Times until `rep` ms of calls; sooner, with at least ten, when clearing the cache between short
    calls takes ten times as long as that."""
    times = []
    until = time.perf_counter() + rep * 1e-2
    for i in range(max(3, min(10000, int(rep / estimate)))):
        if i >= 10 and time.perf_counter() > until:
            break
        times.append(_one(fn, device, clears))
    return times


def _quantile(ordered, q):
    """Linear between the neighbours, as numpy.quantile."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


# Of the times in ascending order.
_MODES = {"mean": lambda times: sum(times) / len(times), "median": lambda times: _quantile(times, 0.5),
          "min": lambda times: times[0], "max": lambda times: times[-1], "all": list}


def do_bench(fn: Callable[[], object], warmup: float = 25, rep: float = 100, grad_to_none: object = None,
             quantiles: Sequence[float] | None = None, return_mode: str = "mean",
             device: str | None = None, clear_cache: bool = True) -> Any:
    """Milliseconds of one call of fn, as Triton's function of this name.

    - `warmup`, `rep`: milliseconds to spend warming up and measuring; at least 3 calls are measured.
    - `quantiles`: a list gives these quantiles instead, a list of one the number alone.
    - `return_mode`: "mean", "median", "min", "max" or "all" (a sorted list).
    - `device`: "cpu", "cuda", ...; None: "cuda" if there is one. GPU times are taken by the device's
      clock on its default stream.
    - `clear_cache`: write more than the last-level cache holds before each call.
    - `grad_to_none` is taken and ignored.
    """
    if return_mode not in _MODES:
        raise ValueError(f"return_mode is {return_mode!r}; it is one of {', '.join(_MODES)}")
    if device is None:
        device = "cuda" if "cuda:0" in _libtile.devices() else "cpu"
    number = ordinal(device)
    fn()
    _libtile.synchronize(number)
    estimate = max(min(_one(fn, number, clear_cache) for _ in range(3)), 1e-4)
    for _ in range(max(1, min(10000, int(warmup / estimate)))):
        fn()
    times = sorted(_samples(fn, number, clear_cache, rep, estimate))
    if quantiles is not None:
        found = [_quantile(times, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    return _MODES[return_mode](times)


_LATER = ("Benchmark", "Mark", "assert_close", "do_bench_cudagraph", "do_bench_proton", "get_dram_gbps",
          "get_max_simd_tflops", "get_max_tensorcore_tflops", "perf_report")


def __getattr__(name: str):
    raise errors.missing("libtile.testing", name, _LATER)
