# SPDX-License-Identifier: Apache-2.0
"""Autotuning: of several configurations of a kernel the fastest is found when a launch first needs one.

`autotune` makes an `Autotuner` of a jit function, `heuristics` a `Heuristics`; both are launched as the function is, and
may be stacked. docs/tuning.md shows them at work. How the parts divide the work:

    tuning           what users see: configurations, keys, hooks, which results there are
    tuning_trials    configurations compiled side by side and measured one by one
    tuning_child     the same in a process of its own (isolate)
    tuning_results   the file of results
    tuning_arrays    arrays of all kinds set to zero, kept and restored
    knobs            settings and their environment variables

The launch of a kernel whose key is known happens in the extension module (bindings/tuner.cpp).
"""
from __future__ import annotations

import threading
import time

from . import _libtile, errors, knobs, tuning_arrays

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")


class Config:
    """A configuration of a kernel: values of its constants, and options of the launch.

    - `kwargs`: parameters of the kernel by name.
    - `num_warps`, `num_stages`, `num_ctas`, `maxnreg`, `ir_override`: options of the launch (docs/options.md); None:
      the launch does not name it. Without a word they are 4, 3, 1, None and None, as in Triton.
    - `pre_hook`: called before each launch with this configuration, with a dict of the launch's arguments by name.

    Configurations are equal if all of this is.
    """

    def __init__(self, kwargs: Mapping[str, Any], num_warps: int | None = 4, num_stages: int | None = 3,
                 num_ctas: int | None = 1, maxnreg: int | None = None,
                 pre_hook: Callable[[dict[str, Any]], object] | None = None, ir_override: str | None = None) -> None:
        self.kwargs = kwargs
        self.num_warps, self.num_stages, self.num_ctas = num_warps, num_stages, num_ctas
        self.maxnreg, self.ir_override = maxnreg, ir_override
        self.pre_hook = pre_hook

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A state that says less stands for the standard of the rest.
        self.__init__(state.get("kwargs", {}))  # type: ignore[misc]
        self.__dict__.update(state)

    def all_kwargs(self) -> dict[str, Any]:
        """The keywords of a launch: kwargs, and the options that are not None."""
        options = {name: getattr(self, name) for name in _OPTIONS}
        return {**self.kwargs, **{name: value for name, value in options.items() if value is not None}}

    def _compared(self):
        return (*self.all_kwargs().items(), self.pre_hook)

    def __eq__(self, other: object) -> bool:
        return self._compared() == other._compared() if isinstance(other, Config) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._compared())

    def __str__(self) -> str:
        everything = {**self.kwargs, **{name: getattr(self, name) for name in _OPTIONS}}
        return ", ".join(f"{name}: {value}" for name, value in everything.items())

    def __repr__(self) -> str:
        named = {name: getattr(self, name) for name in (*_OPTIONS, "pre_hook")}
        given = "".join(f", {name}={value!r}" for name, value in named.items() if value is not None)
        return f"Config({self.kwargs!r}{given})"


class _Wrapper:
    """What a kernel in a decorator shares with the function that it is of."""

    def _wrap(self, fn):
        """Looks through fn: gives the jit function at the bottom."""
        self.fn = fn
        jit = fn
        while not isinstance(jit, _libtile.Jit):
            jit = getattr(jit, "fn", None)
            if jit is None:
                raise TypeError(f"{type(self).__name__.lower()} decorates a jit function, not an object of type "
                                f"'{type(fn).__name__}': put it above @libtile.jit")
        self.base_fn = jit.fn
        self.__name__, self.__qualname__, self.__module__ = jit.__name__, jit.__qualname__, jit.__module__
        self.__doc__ = jit.__doc__
        self.__wrapped__ = fn
        return jit

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"'{self.__name__}' is called without a grid: a kernel is launched with "
                           f"`{self.__name__}[grid](...)`")

    def __copy__(self):
        """Itself, as jit functions are."""
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        """By name, as Python's functions are."""
        return self.__qualname__

    def __repr__(self):
        return f"<{type(self).__name__} of {self.fn!r}>"


class Heuristics(_Wrapper):
    """A kernel some of whose parameters are computed from the others at each launch: what `heuristics` makes."""

    def __init__(self, fn: Any, arg_names: Sequence[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        self._wrap(fn)
        self.arg_names = list(arg_names)
        self.values = values

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def _computed(self, args, kwargs):
        """The keywords with the values; each function sees those before it."""
        for name, function in self.values.items():
            kwargs[name] = function({**dict(zip(self.arg_names, args)), **kwargs})
        return kwargs

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the values and runs the function: as of `JITFunction.run`."""
        return self.fn.run(*args, **self._computed(args, kwargs))

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        """Compiles without launching: as of `JITFunction.warmup`."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)


class Autotuner(_Wrapper, _libtile.Tuner):
    """A kernel that chooses among configurations: what `autotune` makes.

    `kernel[grid](*args, **kwargs)` launches it with the best configuration for the key, which the first launch finds.
    Its attributes:

    - `configs`: the candidates; `cache`: key -> the best one. A key is a tuple: the values of the parameters that
      `keys` names, the types of all arrays, and the device.
    - `best_config`: that of the last launch.
    - `configs_timings`: of the last tuning, configuration -> milliseconds `[median, 20%, 80%]` or what `do_bench` gave;
      infinite for those that were skipped; `skipped`: configuration -> why. `bench_time`: seconds that measuring took.
    - `fn`, `base_fn`, `arg_names`: the kernel that is tuned, its Python function and its parameters.
    """

    def __init__(self, fn: Any, arg_names: Sequence[str], configs: Sequence[Config] | None, key: Sequence[str],
                 reset_to_zero: Sequence[str] | None = None, restore_value: Sequence[str] | None = None,
                 pre_hook: Callable[..., object] | None = None, post_hook: Callable[..., object] | None = None,
                 prune_configs_by: Mapping[str, Any] | None = None, warmup: float | None = None,
                 rep: float | None = None, use_cuda_graph: bool = False,
                 do_bench: Callable[..., Any] | None = None, cache_results: bool = False, *,
                 isolate: bool = False, time_limit: float = 60.0) -> None:
        self.jit = self._wrap(fn)
        self.arg_names = list(arg_names)
        self.keys = list(key)
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self._check_names()
        if not configs:
            configs = [Config({})]
        super().__init__(self.jit, tuple(self.keys), configs if isinstance(configs, list) else list(configs),
                         fn is self.jit)
        self._set_hooks(pre_hook, post_hook)
        prune = prune_configs_by or {}
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        self.do_bench = do_bench or self._bench
        if isolate and (do_bench is not None or use_cuda_graph):
            raise ValueError("isolate measures with libtile.testing.do_bench: it goes with neither do_bench nor "
                             "use_cuda_graph")
        self.cache_results, self.isolate, self.time_limit = cache_results, isolate, time_limit
        self.nargs: dict[str, Any] | None = None
        self.bench_time = 0.0
        self.configs_timings: dict[Config, Any] = {}
        self.skipped: dict[Config, str] = {}
        self._lock = threading.RLock()

    def _check_names(self):
        named = {"key": self.keys, "reset_to_zero": self.reset_to_zero, "restore_value": self.restore_value}
        for what, names in named.items():
            unknown = [name for name in names if name not in self.arg_names]
            if unknown:
                code = self.base_fn.__code__
                raise ValueError(f"{code.co_filename}:{code.co_firstlineno}: autotune: {what} names "
                                 f"{', '.join(map(repr, unknown))}; the parameters of '{self.__name__}' are "
                                 f"{', '.join(self.arg_names)}")

    def _set_hooks(self, pre_hook, post_hook):
        self.user_defined_pre_hook, self.user_defined_post_hook = bool(pre_hook), bool(post_hook)
        self.restore_copies: dict[str, Any] = {}
        self.pre_hook = pre_hook or self._reset_and_keep
        self.post_hook = post_hook or self._restore

    def _reset_and_keep(self, arguments, reset_only=False):
        """The pre_hook, if the user has none."""
        for name in self.reset_to_zero:
            tuning_arrays.zero(name, arguments.get(name))
        if not reset_only:
            self.restore_copies = {name: tuning_arrays.kept(name, arguments.get(name)) for name in self.restore_value}

    def _restore(self, arguments, exception=None):
        """The post_hook, if the user has none."""
        copies, self.restore_copies = self.restore_copies, {}
        for name, copy in copies.items():
            tuning_arrays.restore(arguments.get(name), copy)

    # ---- measuring

    def _bench(self, call, quantiles):
        """The do_bench, if the user has none."""
        from . import testing
        rep = 100 if self.num_reps is None else self.num_reps
        if self.use_cuda_graph:
            return testing.do_bench_cudagraph(call, rep=rep, quantiles=quantiles)
        return testing.do_bench(call, 25 if self.num_warmups is None else self.num_warmups, rep, quantiles=quantiles)

    def _is_measured_by_us(self):
        """Whether launches are measured without their hooks: by testing.samples."""
        return self.do_bench == self._bench and not self.use_cuda_graph

    # ---- launches

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """`kernel[grid](*args, **kwargs)`; with warmup `kernel.warmup(*args, grid=grid, **kwargs)`."""
        return self.warmup(*args, grid=grid, **kwargs) if warmup else self[grid](*args, **kwargs)

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> list[Any]:
        """Compiles all configurations that pruning leaves, without launching; the list of compiled kernels.

        Arguments as of `JITFunction.warmup`, `target` too. Those that fail are in `skipped`; if all do, that is the error.
        """
        with self._lock:
            made, failed = [], {}
            for config in self._pruned({**kwargs, "grid": grid, "warmup": True}, args):
                try:
                    made.append(self.fn.warmup(*args, grid=grid, **kwargs, **config.all_kwargs()))
                except errors.Error as error:
                    failed[config] = error
            self.skipped = {config: str(error) for config, error in failed.items()}
            if failed and not made:
                raise _nothing_left(self.__name__, failed)
            return made

    def _launch_slowly(self, key, grid, args, kwargs):
        """What the extension module calls for a key without a choice, and for choices that are more than arguments."""
        config = self.configs[0] if len(self.configs) == 1 else self._choice(key, grid, args, kwargs)
        self.best_config = config
        self._refuse_conflicts(config, kwargs)
        if config.pre_hook is not None:
            config.pre_hook(self._arguments(config, grid, args, kwargs))
        return self.fn.run(*args, grid=grid, warmup=False, **kwargs, **config.all_kwargs())

    def _arguments(self, config, grid, args, kwargs):
        """What hooks get: the launch's arguments by name, those of the configuration too."""
        return {**dict(zip(self.arg_names, args)), **kwargs, "grid": grid, "warmup": False, **config.all_kwargs()}

    def _refuse_conflicts(self, config, kwargs):
        twice = kwargs.keys() & config.all_kwargs().keys()
        if twice:
            raise ValueError(f"{self.__name__}(): {', '.join(sorted(twice))}: given by the launch, and by the "
                             "configurations of autotune")

    # ---- tuning

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Config]:
        """The configurations to be tried: those that early_config_prune leaves, of them the top_k that perf_model
        likes best. `kwargs`: the launch's keywords; its other arguments are in `nargs`."""
        configs = self.configs
        if self.early_config_prune is not None:
            configs = self.early_config_prune(configs, self.nargs, **kwargs)
            if not configs:
                raise errors.translated(errors.AutotunerError(f"{self.__name__}(): early_config_prune leaves no configuration"))
        if self.perf_model is None:
            return configs
        top = self.configs_top_k
        if isinstance(top, float) and top <= 1.0:
            top = max(1, int(len(configs) * top))
        elif not isinstance(top, int):
            raise TypeError(f"{self.__name__}(): top_k is {top!r}; it takes an int, or a float up to 1.0")
        if len(configs) <= top:
            return configs
        cost = [self.perf_model(**self.nargs, **kwargs, **config.all_kwargs()) for config in configs]
        return [configs[i] for i in sorted(range(len(configs)), key=cost.__getitem__)[:top]]

    def _pruned(self, kwargs, args):
        self.nargs = dict(zip(self.arg_names, args))
        try:
            return self.prune_configs(kwargs)
        finally:
            self.nargs = None

    def _choice(self, key, grid, args, kwargs):
        with self._lock:
            if key not in self.cache:
                configs = list(self._pruned({**kwargs, "grid": grid, "warmup": False}, args))
                self.cache[key] = configs[0] if len(configs) == 1 else self._tune(configs, key, grid, args, kwargs)
            return self.cache[key]

    def _tune(self, configs, key, grid, args, kwargs):
        from . import tuning_results, tuning_trials
        for config in configs:
            self._refuse_conflicts(config, kwargs)
        started = time.perf_counter()
        store = tuning_results.store(self, key) if self.cache_results or knobs.autotuning.cache else None
        found = store.known(configs) if store is not None else {}
        asked = [config for config in configs if config not in found]
        best = configs[0]
        try:
            if asked:
                trials = [tuning_trials.Trial(self, config, grid, args, kwargs) for config in asked]
                measured = tuning_trials.run(self, trials, device=key[-1])
                self.bench_time = time.perf_counter() - started
                if store is not None:
                    store.add(measured)
                found.update(measured)
            self.configs_timings = {config: found[config].times for config in configs}
            self.skipped = {config: found[config].reason for config in configs if found[config].reason is not None}
            if len(self.skipped) == len(configs):
                raise _nothing_left(self.__name__, {config: found[config].error for config in configs})
            best = min(configs, key=lambda config: found[config].milliseconds)
        finally:
            if asked:
                self.pre_hook(self._arguments(best, grid, args, kwargs), reset_only=True)
        self._tell(key, best, time.perf_counter() - started if asked else None)
        return best

    def _tell(self, key, best, seconds):
        """seconds: None if all results came from the file."""
        if knobs.autotuning.print:
            where = "results of the file" if seconds is None else f"{seconds:.2f} s"
            print(f"autotuning of {self.__name__} for {key}: {best} ({where})")
            for config, reason in self.skipped.items():
                print(f"  skipped {config}: {reason}")
        if knobs.autotuning.listener is not None:
            knobs.autotuning.listener(fn=self.jit, key=key, best_config=best, configs_timings=self.configs_timings,
                                      duration=seconds, cache_hit=seconds is None)


def _nothing_left(name, failed):
    """The error if all configurations fail: theirs if it is the same of all."""
    first = next(iter(failed.values()))
    if len({str(error) for error in failed.values()}) == 1:
        return first
    reasons = "".join(f"\n- {config}:\n    " + str(error).replace("\n", "\n    ") for config, error in failed.items())
    error = errors.AutotunerError(f"{name}(): every configuration fails{reasons}")
    error.__cause__ = first
    return error


def autotune(configs: Sequence[Config], key: Sequence[str], prune_configs_by: Mapping[str, Any] | None = None,
             reset_to_zero: Sequence[str] | None = None, restore_value: Sequence[str] | None = None,
             pre_hook: Callable[..., object] | None = None, post_hook: Callable[..., object] | None = None,
             warmup: float | None = None, rep: float | None = None, use_cuda_graph: bool = False,
             do_bench: Callable[..., Any] | None = None, cache_results: bool = False, *, isolate: bool = False,
             time_limit: float = 60.0) -> Callable[[Any], Autotuner]:
    """Decorates a jit function (or what `heuristics` makes of one): its launches use the fastest of the configurations.

    The first launch with a key tries all of them: they are compiled side by side, and measured one after the other with the
    launch's own arguments. One that does not compile, asks for more than the device has, or takes too long is skipped
    and named in `kernel.skipped`.

    - `configs`: the candidates; one alone is taken as it is.
    - `key`: parameters; another value of one of them is tuned anew, and so is another type of an array, or another device.
      A name that is no parameter is a ValueError.
    - `prune_configs_by`: a dict of "early_config_prune", a function `(configs, named_args, **kwargs) -> configs`;
      "perf_model", a function of all arguments by name that estimates a time; and "top_k", how many of the best
      estimates are tried, an int or a share up to 1.0.
    - `reset_to_zero`: arrays that are set to zero before each launch that is measured, and before the one that was
      asked for. `restore_value`: arrays that have their contents again after each measured launch.
    - `pre_hook(arguments, reset_only=False)`, `post_hook(arguments, exception)`: called around each measured launch in
      place of these two, with the arguments by name; `reset_only`: there is no post_hook after it; `exception`: what the
      launch raised, or None.
    - `warmup`, `rep`: milliseconds for each configuration (25 and 100), as of `testing.do_bench`; `use_cuda_graph`: as of
      `testing.do_bench_cudagraph`; `do_bench(call, quantiles)`: measures in place of these.
    - `cache_results`: results are kept in a file for other processes (docs/tuning.md).
    - `isolate`: configurations are compiled and measured in a process of its own, with copies of the arrays; one that
      crashes or hangs is skipped, too. The kernel must stand at the top of a module, under its own name.
    - `time_limit`: seconds that a configuration may take to compile; with isolate, to compile and be measured.
    """

    def decorate(fn):
        return Autotuner(fn, fn.arg_names if hasattr(fn, "arg_names") else (), configs, key, reset_to_zero,
                         restore_value, pre_hook, post_hook, prune_configs_by, warmup, rep, use_cuda_graph, do_bench,
                         cache_results, isolate=isolate, time_limit=time_limit)

    return decorate


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Decorates a jit function (or what `autotune` makes of one): parameters that are computed at each launch.

    `values`: name -> a function that gets the launch's arguments by name, and gives the parameter's value.
    """
    return lambda fn: Heuristics(fn, fn.arg_names if hasattr(fn, "arg_names") else (), values)
