# SPDX-License-Identifier: Apache-2.0
"""Measuring kernels."""
from __future__ import annotations

import sys
import time

from . import _libtile, errors
from .device import DeviceArray, ordinal
from .host import dtype_name

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


def _stream_of(device):
    """torch's current stream, as an address, if torch uses the device; else the default stream."""
    torch = sys.modules.get("torch")
    if device < 0 or torch is None or not torch.cuda.is_initialized():
        return 0
    return torch.cuda.current_stream(device % 100).cuda_stream  # torch for ROCm calls its GPUs so, too


class _Measured:
    """A function whose calls are timed, between functions called around it that are not."""

    def __init__(self, fn, device, before, after):
        self._fn, self._device = fn, device
        self._before, self._after = before, after

    def call(self, work=None):
        """One call; what `work` gives, which calls the function, if there is one."""
        if self._before is not None:
            self._before()
        try:
            result = (work or self._fn)()
        except Exception as error:
            if self._after is not None:
                self._after(error)
            raise
        if self._after is not None:
            self._after()
        return result

    def milliseconds(self, clears):
        return self.call(lambda: self._time(clears))

    def _time(self, clears):
        device = self._device
        stream = _stream_of(device)
        if clears:
            _clear_cache(device)
            if stream:
                _libtile.synchronize(device)  # the cache is cleared on the default stream
        if device < 0:
            start = time.perf_counter()
            self._fn()
            return (time.perf_counter() - start) * 1e3
        start = _libtile.record_time(device, stream)
        self._fn()
        return _libtile.milliseconds(device, start, _libtile.record_time(device, stream))


def samples(fn: Callable[[], object], warmup: float, rep: float, device: str, clear_cache: bool = True,
            before: Callable[[], object] | None = None,
            after: Callable[..., object] | None = None) -> list[float]:
    """Milliseconds of calls of fn, in ascending order; arguments as of `do_bench`.

    `before()` and `after()` are called around each call, and are not timed; `after(error)` if fn raises.
    """
    number = ordinal(device)
    measured = _Measured(fn, number, before, after)
    measured.call()
    _libtile.synchronize(number)
    estimate = max(min(measured.milliseconds(clear_cache) for _ in range(3)), 1e-4)
    for _ in _turns(max(1, int(warmup / estimate)), 1, warmup):
        measured.call()
    # A CPU's cache takes longer to clear than most calls take.
    patience = rep if number >= 0 else 10 * rep
    return sorted(measured.milliseconds(clear_cache) for _ in _turns(max(3, int(rep / estimate)), 10, patience))


def _turns(count, least, milliseconds):
    """Up to count numbers, at most 10000; after the first `least` none once the milliseconds have passed, since what lies
    around a short call takes longer than the call."""
    until = time.perf_counter() + milliseconds * 1e-3
    for i in range(min(10000, count)):
        if i >= least and time.perf_counter() > until:
            return
        yield i


def _quantile(ordered, q):
    """Linear between the neighbours, as numpy.quantile."""
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile is {q!r}; it lies in 0 to 1")
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def quantiles_of(times: Sequence[float], quantiles: Sequence[float]) -> list[float]:
    """Quantiles of numbers in ascending order."""
    return [_quantile(times, q) for q in quantiles]


# Of the times in ascending order.
_MODES = {"mean": lambda times: sum(times) / len(times), "median": lambda times: _quantile(times, 0.5),
          "min": lambda times: times[0], "max": lambda times: times[-1], "all": list}


def _summary(times, quantiles, return_mode):
    if quantiles is not None:
        found = quantiles_of(times, quantiles)
        return found[0] if len(found) == 1 else found
    return _MODES[return_mode](times)


def _check_mode(return_mode):
    if return_mode not in _MODES:
        raise ValueError(f"return_mode is {return_mode!r}; it is one of {', '.join(_MODES)}")


def do_bench(fn: Callable[[], object], warmup: float = 25, rep: float = 100,
             grad_to_none: Sequence[Any] | None = None, quantiles: Sequence[float] | None = None,
             return_mode: str = "mean", device: str | None = None, clear_cache: bool = True) -> Any:
    """Milliseconds of one call of fn, as Triton's function of this name.

    - `warmup`, `rep`: milliseconds to spend warming up and measuring, with what lies around the calls (on a CPU ten times as
      long for measuring); at least 3 calls are measured, 10 of short ones.
    - `grad_to_none`: torch tensors whose `grad` is set to None before each call.
    - `quantiles`: a list gives these quantiles instead, a list of one the number alone.
    - `return_mode`: "mean", "median", "min", "max" or "all" (a sorted list).
    - `device`: "cpu", "cuda", ...; None: the first GPU, if there is one. GPU times are taken by the device's
      clock, on torch's current stream if torch uses the device, else on the default stream.
    - `clear_cache`: write more than the last-level cache holds before each call.
    """
    _check_mode(return_mode)
    if device is None:
        device = next((name for name in _libtile.devices() if name != "cpu"), "cpu")
    before = None if grad_to_none is None else lambda: _drop_gradients(grad_to_none)
    return _summary(samples(fn, warmup, rep, device, clear_cache, before), quantiles, return_mode)


def _drop_gradients(tensors):
    for tensor in tensors:
        tensor.grad = None


def do_bench_cudagraph(fn: Callable[[], object], rep: float = 20, grad_to_none: Sequence[Any] | None = None,
                       quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """Milliseconds of one call of fn within a CUDA graph of many, as Triton's function of this name: what the host
    does is not measured. The cache is not cleared.

    Arguments as of `do_bench`; the graph holds as many calls as take `rep` milliseconds, and is run ten times. What fn
    launches must take torch's tensors: torch records the graph. DeviceError without torch or a GPU of its.
    """
    _check_mode(return_mode)
    torch = _torch_with_gpu("do_bench_cudagraph")
    with torch.cuda.stream(torch.cuda.Stream()):
        fn()
        for tensor in grad_to_none or ():
            tensor.detach_()
            tensor.requires_grad_(True)
            tensor.grad = None
        estimate = _torch_time(torch, lambda: [fn() for _ in range(5)]) / 5
        count = max(1, int(rep / estimate)) if estimate > 0 else 1000

        def record():
            for _ in range(count):
                _drop_gradients(grad_to_none or ())
                fn()

        graph = _graph_of(torch, record)
        times = sorted(_torch_time(torch, graph.replay) / count for _ in range(10))
    return _summary(times, quantiles, return_mode)


def _torch_with_gpu(what):
    try:
        import torch
    except ImportError:
        raise errors.DeviceError(f"{what} needs torch, which is not installed") from None
    if not torch.cuda.is_available():
        raise errors.DeviceError(f"{what} needs a GPU that torch can use; on the CPU there is do_bench")
    return torch


def _torch_time(torch, work):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


def _graph_of(torch, record):
    # A collection during the capture could free code or memory of the GPU, which a capture forbids.
    import gc
    collects = gc.isenabled()
    gc.disable()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            record()
    finally:
        if collects:
            gc.enable()
    torch.cuda.synchronize()
    return graph


def _host_array(value):
    """(NumPy array, the dtype that tolerances are asked for). Types that NumPy lacks become fp32."""
    import numpy as np
    if isinstance(value, DeviceArray):
        return value.numpy(), value.dtype
    if hasattr(value, "detach"):
        dtype, host = value.dtype, value.detach().cpu()
        try:
            return host.numpy(), dtype
        except TypeError:  # a type that NumPy lacks, or has from a package that torch does not know
            return host.float().numpy(), dtype
    array = np.asarray(value)
    return (array.astype(np.float32) if array.dtype.kind == "V" else array), array.dtype


def assert_close(x: Any, y: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """AssertionError unless |x - y| <= atol + rtol * |y| for all elements; NaN is close to NaN.

    x, y: numbers, lists, or arrays of NumPy, torch or libtile. `atol` (0.01) and `rtol` (0): numbers, or functions of
    the dtype of x that give them. `err_msg` stands in the error's text.
    """
    import numpy as np
    (x, dtype), (y, _) = _host_array(x), _host_array(y)
    atol, rtol = (tolerance(dtype) if callable(tolerance) else tolerance for tolerance in (atol, rtol))
    np.testing.assert_allclose(x, y, atol=0.01 if atol is None else atol, rtol=0.0 if rtol is None else rtol,
                               equal_nan=True, err_msg=err_msg)


def _properties(device):
    """What the driver says of a GPU."""
    name = device if isinstance(device, str) else "cuda" if device is None else f"cuda:{device}"
    number = ordinal(name)
    if number < 0:
        raise errors.DeviceError(f"nothing is known of the rates of {name}: its driver does not say them")
    return _libtile.device_properties(number)


# Multiply-adds (as two) of a quarter of a multiprocessor in a cycle, from capability 8.0 on.
_SIMD = {"fp32": 32, "fp16": 64, "bf16": 64}
_MATRIX = {"fp32": 256, "int32": 256, "fp16": 512, "bf16": 512, "int16": 512, "int8": 1024, "fp8e4nv": 1024,
           "fp8e4b15": 1024, "fp8e5": 1024}


def _tflops(dtype, clock_rate, device, table):
    properties = _properties(device)
    name = dtype_name(dtype)
    if name not in table:
        raise ValueError(f"no rate is known of {name or dtype}; there are {', '.join(table)}")
    return properties["multiprocessor_count"] * 4 * clock_rate * table[name] * 1e-9


def get_dram_gbps(device: int | str | None = None) -> float:
    """GB/s that a GPU's memory has by its clock and bus. DeviceError for the CPU, and if the driver does not say.

    device: a number, "cuda:1" ...; None: the first GPU.
    """
    properties = _properties(device)
    rate = properties["mem_clock_rate"] * properties["mem_bus_width"] * 2 / 8e6
    if rate <= 0:
        raise errors.DeviceError("the driver does not say how fast the GPU's memory is")
    return rate


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: int | str | None = None) -> float:
    """TFLOP/s that a GPU's plain units have for a type (fp32, fp16, bf16) at a clock in kHz; device as of `get_dram_gbps`."""
    return _tflops(dtype, clock_rate, device, _SIMD)


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: int | str | None = None) -> float:
    """TFLOP/s that Triton counts for the matrix units of a GPU from capability 8.0 on; newer ones have more a cycle.
    Arguments as of `get_max_simd_tflops`."""
    return _tflops(dtype, clock_rate, device, _MATRIX)


_REPORTS = ("Benchmark", "Mark", "perf_report")
_LATER = ("do_bench_proton",)


def __getattr__(name: str):
    if name in _REPORTS:
        from . import testing_reports
        return getattr(testing_reports, name)
    raise errors.missing("libtile.testing", name, _LATER)
