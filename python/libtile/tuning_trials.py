# SPDX-License-Identifier: Apache-2.0
"""Configurations tried: compiled side by side, then measured one after the other, with a line about the progress."""
from __future__ import annotations

import os
import sys
import threading
import time

from . import _libtile, errors, knobs

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from typing import Any

_QUANTILES = (0.5, 0.2, 0.8)
_SILENT_SECONDS = 2.0
# Options that change nothing on a CPU.
_OF_GPUS = ("num_warps", "num_ctas", "num_stages", "maxnreg")
# Measurements do not overlap, of other kernels in other threads either.
_measuring = threading.RLock()


class Result:
    """What is known of a configuration: `times`, in milliseconds, infinite if it was skipped; `reason` and `error`:
    why it was."""

    def __init__(self, times: Any, error: Exception | None = None) -> None:
        self.times, self.error = times, error

    @classmethod
    def skipped(cls, error: Exception) -> Result:
        return cls([float("inf")] * len(_QUANTILES), error)

    @property
    def reason(self) -> str | None:
        return str(self.error) if self.error is not None else None

    @property
    def milliseconds(self) -> Any:
        """What configurations are compared by: the first number of a sequence, or what do_bench gave."""
        return self.times[0] if isinstance(self.times, (list, tuple)) else self.times


class Trial:
    """A configuration that is tried with the arguments of a launch.

    `arguments`: what hooks get, by name.
    """

    def __init__(self, tuner: Any, config: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.tuner, self.config = tuner, config
        self.grid, self.args, self.kwargs = grid, args, {**kwargs, **config.all_kwargs()}
        self._given = frozenset(kwargs)
        self.arguments = tuner._arguments(config, grid, args, kwargs)

    def launch(self) -> None:
        """One launch, without the hooks."""
        self.tuner.fn.run(*self.args, grid=self.grid, warmup=False, **self.kwargs)

    def before(self) -> None:
        """The hooks before a launch."""
        if self.config.pre_hook is not None:
            self.config.pre_hook(self.arguments)
        self.tuner.pre_hook(self.arguments)

    def after(self, exception: Exception | None = None) -> None:
        """The hook after a launch."""
        self.tuner.post_hook(self.arguments, exception=exception)

    def call(self) -> None:
        """A launch between its hooks; what it raises, the hook after it gets too."""
        self.before()
        try:
            self.launch()
        except Exception as error:
            self.after(error)
            raise
        self.after()

    def resolved(self) -> dict[str, Any] | None:
        """The keywords that the jit function gets, those of heuristics too; None: something else lies between, that
        only a launch passes."""
        fn, kwargs = self.tuner.fn, {**self.kwargs, "grid": self.grid, "warmup": False}
        while fn is not self.tuner.jit:
            if not hasattr(fn, "_computed"):
                return None
            kwargs = fn._computed(self.args, kwargs)
            fn = fn.fn
        return {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}

    def on_cpu(self) -> Any:
        """What tells the trial's code on a CPU from that of the tuning's other trials; the trial itself: not known."""
        kwargs = self.resolved()
        if kwargs is None:
            return self
        idle = self._given.union(set(_OF_GPUS).difference(self.tuner.arg_names))
        own = ((name, type(value), value) for name, value in kwargs.items() if name not in idle)
        try:
            return frozenset(own), self.config.pre_hook
        except TypeError:  # a value without a hash
            return self


def is_skipped(error: Exception) -> bool:
    """Whether the error says that a configuration is no good here; others are the kernel's or the caller's."""
    return isinstance(error, errors.Error) and not isinstance(
        error, (errors.OutOfBoundsError, errors.KernelAssertionError))


class TimeLimit(errors.Error):
    """A configuration took too long."""


# ---- compiling

def _num_workers():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Job:
    """A compilation in a thread."""

    def __init__(self, trial, kwargs, done):
        self.trial, self.kwargs = trial, kwargs
        self.error = None
        self.began = time.perf_counter()
        self._done = done
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        try:
            self.trial.tuner.jit._prepare(*self.trial.args, **self.kwargs)
        except BaseException as error:
            self.error = error
        self._done.put(self)


def _offer_ptxas():
    """Names an assembler that came with a package: NVIDIA's own packages have one, and Triton."""
    places = [os.path.join(folder, package, "bin", "ptxas") for folder in sys.path
              for package in ("nvidia/cu13", "nvidia/cuda_nvcc", "triton/backends/nvidia")]
    for path in places:
        if os.access(path, os.X_OK):
            return _libtile.offer_ptxas(path)


def compile_side_by_side(trials: list[Trial], limit: float, progress: Progress) -> dict[Any, Exception]:
    """Compiles what the trials launch; the errors of those that are to be skipped, by configuration.

    A compilation beyond `limit` seconds is left to itself. A trial whose hook changes the arguments is compiled by its
    first launch.
    """
    import queue
    done: queue.SimpleQueue[_Job] = queue.SimpleQueue()
    waiting = [(trial, kwargs) for trial in trials if trial.config.pre_hook is None
               for kwargs in [trial.resolved()] if kwargs is not None][::-1]
    running: list[_Job] = []
    failed: dict[Any, Exception] = {}
    while waiting or running:
        while waiting and len(running) < _num_workers():
            running.append(_Job(*waiting.pop(), done))
        try:
            job = done.get(timeout=0.1)
        except queue.Empty:
            job = None
        if job in running:
            running.remove(job)
            if job.error is not None and not is_skipped(job.error):
                raise job.error
            if job.error is not None:
                failed[job.trial.config] = job.error
        for late in [job for job in running if time.perf_counter() - job.began > limit]:
            running.remove(late)
            failed[late.trial.config] = TimeLimit(f"compiling takes longer than {limit:g} s")
        progress.show("compiling", len(trials) - len(waiting) - len(running))
    return failed


# ---- measuring

def _measure(tuner, trial, device):
    """Times of a trial in milliseconds, as quantiles."""
    if not tuner._is_measured_by_us():
        return tuner.do_bench(trial.call, quantiles=_QUANTILES)
    from . import testing
    times = testing.samples(trial.launch, 25 if tuner.num_warmups is None else tuner.num_warmups,
                            100 if tuner.num_reps is None else tuner.num_reps, device, before=trial.before,
                            after=trial.after)
    return testing.quantiles_of(times, _QUANTILES)


def run(tuner: Any, trials: list[Trial], device: str) -> dict[Any, Result]:
    """A result for each trial's configuration. Raises what is no reason to skip one.

    Of trials that are the same code on a CPU the first is tried, and its result is theirs.
    """
    if device.startswith(("cuda", "hip")) or not tuner._is_measured_by_us():
        return _run(tuner, trials, device)
    first: dict[Any, Trial] = {}
    alike = [(trial, first.setdefault(trial.on_cpu(), trial)) for trial in trials]
    found = _run(tuner, list(first.values()), device)
    return {trial.config: found[tried.config] for trial, tried in alike}


def _run(tuner, trials, device):
    """A result for each trial's configuration, all of which are tried."""
    progress = Progress(tuner.__name__, len(trials))
    found: dict[Any, Result] = {}
    child = None
    try:
        if tuner.isolate:
            from . import tuning_child
            child = tuning_child.Child(tuner, device)
        if device.startswith("cuda"):
            _offer_ptxas()
        failed = compile_side_by_side(trials, tuner.time_limit, progress) if child is None else {}
        for trial in trials:
            progress.show("measuring", len(found), found)
            if knobs.autotuning.print:
                print(f"autotuning of {tuner.__name__}: {trial.config}")
            if trial.config in failed:
                found[trial.config] = Result.skipped(failed[trial.config])
                continue
            try:
                with _measuring:
                    found[trial.config] = Result(_measure(tuner, trial, device) if child is None else child.measure(trial))
            except errors.Error as error:
                if not is_skipped(error):
                    raise
                found[trial.config] = Result.skipped(error)
    finally:
        progress.end(found)
        if child is not None:
            child.close()
    return found


class Progress:
    """A line on stderr, written over again, once the tuning has lasted."""

    def __init__(self, name: str, total: int) -> None:
        self._name, self._total = name, total
        self._began = self._shown = time.perf_counter()
        self._width = 0
        asked = knobs.autotuning.progress
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._is_wanted = self._is_terminal if asked is None else asked

    def show(self, doing: str, count: int, found: dict[Any, Result] | None = None) -> None:
        """count: how many configurations are done."""
        now = time.perf_counter()
        if not self._is_wanted or now - self._began < _SILENT_SECONDS:
            return
        # A file gets a line now and then.
        if now - self._shown < (0.2 if self._is_terminal else 10.0) and self._width:
            return
        self._shown = now
        self._write(f"autotuning {self._name}: {doing}, {count} of {self._total}{_best_of(found or {})}")

    def end(self, found: dict[Any, Result]) -> None:
        """The last words, if there were any before."""
        if self._width:
            skipped = sum(result.error is not None for result in found.values())
            self._write(f"autotuning {self._name}: {len(found)} configurations in "
                        f"{time.perf_counter() - self._began:.1f} s"
                        + (f", {skipped} skipped" if skipped else "") + _best_of(found))
            if self._is_terminal:
                sys.stderr.write("\n")

    def _write(self, text):
        if self._is_terminal:
            import shutil
            text = text[:shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r{text:<{self._width}}" if self._is_terminal else f"{text}\n")
        sys.stderr.flush()
        self._width = len(text)


def _best_of(found):
    good = [(result.milliseconds, config) for config, result in found.items() if result.error is None]
    if not good:
        return ""
    milliseconds, config = min(good, key=lambda each: each[0])
    return f", best {milliseconds:.4g} ms ({config})" if isinstance(milliseconds, (int, float)) else ""
