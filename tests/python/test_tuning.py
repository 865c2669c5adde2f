# SPDX-License-Identifier: Apache-2.0
"""autotune, heuristics and Config: what is chosen, measured, skipped, reset and told. do_bench is the test's own where
a choice must be a certain one."""
import copy
import io
import pickle
import re
import sys
import threading
import time

import numpy as np
import pytest

import libtile
import libtile.language as tl
from libtile import Config, errors, knobs

OWN = "interpreter" if knobs.interpreter.enabled else "cpu"  # what runs arrays on the CPU


@pytest.fixture(autouse=True)
def no_file(monkeypatch):
    for variable in ("LIBTILE_CACHE_AUTOTUNING", "TRITON_CACHE_AUTOTUNING", "LIBTILE_PRINT_AUTOTUNING",
                     "TRITON_PRINT_AUTOTUNING", "LIBTILE_TUNING_PROGRESS"):
        monkeypatch.delenv(variable, raising=False)


def add_one(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def accumulate(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(out + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)


def configs(*blocks, **options):
    return [Config({"BLOCK": block}, **options) for block in blocks]


def fastest(block, calls=None):
    """A do_bench for which the configuration with this BLOCK is the fastest; it calls once."""
    def bench(call, quantiles):
        call()
        kernel = bench.kernel
        current = kernel.running.pop()
        if calls is not None:
            calls.append(current)
        return [0.0 if current == block else 1.0 + current] * len(quantiles)
    return bench


def grid(meta):
    return (libtile.cdiv(meta["n"], meta["BLOCK"]),)


def tuned(fn, blocks, best, key=("n",), calls=None, **options):
    """A kernel of configurations with these blocks, of which `best` wins; what was measured is added to calls."""
    bench = fastest(best, calls)
    running = []
    made = [Config({"BLOCK": block}, pre_hook=None) for block in blocks]
    kernel = libtile.autotune(made, list(key), do_bench=bench, **options)(libtile.jit(fn))
    kernel.running = running
    bench.kernel = kernel
    inner = kernel.post_hook

    def after(arguments, exception=None):
        running.append(arguments["BLOCK"])
        inner(arguments, exception=exception)

    kernel.post_hook = after
    return kernel


def arrays(n=100, dtype="f4"):
    x = np.arange(n).astype(dtype)
    return x, np.zeros_like(x)


# ---- Config

def test_config_says_what_triton_says():
    config = Config({"BLOCK": 64}, num_warps=8, maxnreg=128)
    assert config.all_kwargs() == {"BLOCK": 64, "num_warps": 8, "num_ctas": 1, "num_stages": 3, "maxnreg": 128}
    assert str(config) == "BLOCK: 64, num_warps: 8, num_ctas: 1, num_stages: 3, maxnreg: 128, ir_override: None"
    assert repr(config) == "Config({'BLOCK': 64}, num_warps=8, num_ctas=1, num_stages=3, maxnreg=128)"
    assert (Config({}).num_warps, Config({}).num_stages, Config({}).num_ctas) == (4, 3, 1)
    assert Config({}, num_warps=None, num_stages=None, num_ctas=None).all_kwargs() == {}


def test_equal_configs_are_one_key():
    hook = print
    same = [Config({"B": 1}, pre_hook=hook), Config({"B": 1}, 4, 3, 1, None, hook)]
    assert same[0] == same[1] and hash(same[0]) == hash(same[1]) and len(set(same)) == 1
    others = [Config({"B": 1}), Config({"B": 2}, pre_hook=hook), Config({"B": 1}, num_warps=8, pre_hook=hook),
              Config({"B": 1}, num_stages=2, pre_hook=hook), Config({"B": 1}, ir_override="a", pre_hook=hook)]
    assert all(same[0] != other for other in others) and same[0] != "B"


def test_config_is_pickled_and_restored_from_less():
    config = Config({"B": 3}, num_warps=2, num_ctas=2, maxnreg=9, ir_override="f")
    assert pickle.loads(pickle.dumps(config)) == config == copy.deepcopy(config)
    old = Config.__new__(Config)
    old.__setstate__({"kwargs": {"B": 3}, "num_warps": 2})
    assert old == Config({"B": 3}, num_warps=2)


# ---- choosing

def test_the_fastest_is_launched_and_kept_by_key():
    calls = []
    kernel = tuned(add_one, [16, 32, 64], 32, calls=calls)
    x, out = arrays()
    made = kernel[grid](x, out, 100)
    assert (out == x + 1).all() and calls == [16, 32, 64]
    assert kernel.best_config.kwargs == {"BLOCK": 32} and "BLOCK=32" in made.signature
    assert kernel.cache == {(100, "fp32", "fp32", OWN): kernel.configs[1]}
    assert kernel.configs_timings[kernel.configs[1]] == [0.0] * 3 and kernel.bench_time > 0
    out[:] = 0
    kernel[grid](x, out=out, n=100)
    assert (out == x + 1).all() and len(calls) == 3


def test_another_value_of_the_key_or_type_of_an_array_is_tuned_anew():
    calls = []
    kernel = tuned(add_one, [16, 32], 16, calls=calls)
    for n, dtype, count in [(100, "f4", 2), (100, "f4", 2), (99, "f4", 4), (100, "i4", 6), (99, "f4", 6)]:
        x, out = arrays(dtype=dtype)
        kernel[grid](x, out, n)
        assert (out[:n] == x[:n] + 1).all() and len(calls) == count
    assert list(kernel.cache) == [(100, "fp32", "fp32", OWN), (99, "fp32", "fp32", OWN),
                                  (100, "int32", "int32", OWN)]


def test_types_in_tuples_and_descriptors_are_in_the_key():
    from libtile.tools.tensor_descriptor import TensorDescriptor

    @libtile.autotune(configs(16, 32), key=[], do_bench=lambda call, quantiles: call() or [1.0])
    @libtile.jit
    def copy_row(pair, rows, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(pair[1] + i, tl.load(pair[0] + i) + rows.load([0, 0]).reshape(16).sum().to(tl.float32))

    x, out = np.ones(32, "f4"), np.zeros(32, "f8")
    copy_row[(1,)]((x, out), TensorDescriptor.from_tensor(np.ones((1, 16), "i4"), [1, 16]))
    assert (out[:16] == 17).all()
    assert list(copy_row.cache) == [("fp32", "fp64", "int32", OWN)]


def test_the_cache_may_be_changed():
    calls = []
    kernel = tuned(add_one, [16, 32, 64], 64, calls=calls)
    x, out = arrays()
    kernel[grid](x, out, 100)
    key, = kernel.cache
    kernel.cache[key] = kernel.configs[0]
    assert "BLOCK=16" in kernel[grid](x, out, 100).signature and kernel.best_config is kernel.configs[0]
    kernel.cache.clear()
    assert "BLOCK=64" in kernel[grid](x, out, 100).signature and len(calls) == 6
    kernel.cache = {}
    kernel.configs = kernel.configs[:1]
    assert "BLOCK=16" in kernel[grid](x, out, 100).signature and len(calls) == 6


def test_one_configuration_is_not_measured():
    kernel = tuned(add_one, [16], 16, calls=(calls := []))
    x, out = arrays()
    kernel[grid](x, out, 100)
    assert (out == x + 1).all() and calls == [] and kernel.best_config is kernel.configs[0]


def test_a_cpu_measures_what_differs_in_options_of_gpus_once():
    tried = []
    made = [Config({"BLOCK": block}, num_warps=warps, num_stages=stages) for block in (16, 32) for warps in (1, 2)
            for stages in (2, 3)] + [Config({"BLOCK": 16}, pre_hook=lambda args: None), Config({"BLOCK": True})]
    kernel = libtile.autotune(made, [], warmup=1, rep=1, pre_hook=lambda args, reset_only=False: tried.append(
        (args["BLOCK"], args["num_warps"], args["num_stages"])))(libtile.jit(add_one))
    x, out = arrays()
    kernel[grid](x, out, 100)
    assert (out == x + 1).all() and set(tried[:-1]) == {(16, 1, 2), (32, 1, 2), (16, 4, 3), (True, 4, 3)}
    times = list(kernel.configs_timings.values())
    assert list(kernel.configs_timings) == made and times[:4] == times[:1] * 4 and times[4:8] == times[4:5] * 4

    def add_warps(x, out, n, num_warps: tl.constexpr):  # a parameter, here
        i = tl.arange(0, 128)
        tl.store(out + i, tl.load(x + i, mask=i < n) + num_warps, mask=i < n)

    tried.clear()
    read = libtile.autotune([Config({}, num_warps=warps) for warps in (1, 2)], [], warmup=1, rep=1,
                            pre_hook=lambda args, reset_only=False: tried.append(args["num_warps"]))(libtile.jit(add_warps))
    read[(1,)](x, out, 100)
    assert (out == x + read.best_config.num_warps).all() and set(tried[:-1]) == {1, 2}
    tried.clear()
    counted = libtile.autotune(made[:4], [], do_bench=lambda call, quantiles: call() or [1.0] * 3,
                               pre_hook=lambda args, reset_only=False: tried.append(args["num_warps"]))(libtile.jit(add_one))
    counted[grid](x, out, 100)
    assert tried[:-1] == [1, 1, 2, 2]  # the user's own do_bench hears of each


def test_no_configuration_is_the_standard_one():
    @libtile.autotune([], key=["n"])
    @libtile.jit
    def one(out, n):
        tl.store(out, n)

    out = np.zeros(1, "i4")
    one[(1,)](out, 7)
    assert out[0] == 7 and one.configs == [Config({}, num_warps=4, num_stages=3, num_ctas=1)]


def test_key_parameters_may_have_defaults_or_be_given_by_name():
    @libtile.autotune(configs(16, 32), key=["n", "scale"], do_bench=lambda call, quantiles: call() or [1.0])
    @libtile.jit
    def scaled(out, n, scale=3, BLOCK: tl.constexpr = 16):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, i * scale, mask=i < n)

    out = np.zeros(16, "i4")
    scaled[(1,)](out, 16)
    scaled[(1,)](n=16, out=out, scale=3)
    assert list(scaled.cache) == [(16, 3, "int32", OWN)] and (out == np.arange(16) * 3).all()


def test_libtile_measures():
    kernel = libtile.autotune(configs(16, 128), key=["n"], warmup=1, rep=1)(libtile.jit(add_one))
    x, out = arrays(1000)
    kernel[grid](x, out, 1000)
    assert (out == x + 1).all()
    for low, middle, high in ((each[1], each[0], each[2]) for each in kernel.configs_timings.values()):
        assert 0 < low <= middle <= high


def test_run_and_warmup():
    kernel = tuned(add_one, [16, 32], 32)
    x, out = arrays()
    assert "BLOCK=32" in kernel.run(x, out, 100, grid=grid, warmup=False).signature
    kernels = kernel.warmup(x, out, 100, grid=(1,))
    assert ["BLOCK=16" in kernels[0].signature, "BLOCK=32" in kernels[1].signature] == [True, True]
    for_gpu = kernel.warmup(tl.float32, tl.float32, "i32", grid=(1,), target="sm_80")
    assert [each.target for each in for_gpu] == ["sm_80"] * 2
    assert kernel.run(x, out, 100, grid=grid, warmup=True)[1].signature == kernels[1].signature


def test_a_class_with_launches_of_its_own_keeps_them():
    seen = []

    class Hooked(libtile.JITFunction):
        def __getitem__(self, grid):
            return lambda *args, **kwargs: (seen.append(kwargs["BLOCK"]), libtile.JITFunction.__getitem__(self, grid)(
                *args, **kwargs))[1]

    function = libtile.JITFunction(add_one)
    kernel = libtile.autotune(configs(16), [])(function)
    x, out = arrays()
    kernel[grid](x, out, 100)
    function.__class__ = Hooked
    kernel[grid](x, out, 100)
    assert seen == [16] and (out == x + 1).all()


def test_attributes():
    function = libtile.jit(add_one)
    kernel = libtile.autotune(configs(16, 32), ["n"], reset_to_zero=["out"])(function)
    assert kernel.fn is function and kernel.base_fn is add_one and kernel.arg_names == ["x", "out", "n", "BLOCK"]
    assert kernel.keys == ["n"] and kernel.reset_to_zero == ["out"] and kernel.restore_value == []
    assert not kernel.user_defined_pre_hook and not kernel.user_defined_post_hook and kernel.perf_model is None
    assert kernel.__name__ == "add_one" and kernel.nargs is None and not hasattr(kernel, "best_config")
    assert copy.deepcopy(kernel) is kernel and "add_one" in repr(kernel)
    with pytest.raises(RuntimeError, match="without a grid"):
        kernel()


# ---- heuristics

def test_heuristics_see_arguments_and_those_before():
    @libtile.heuristics({"BLOCK": lambda args: libtile.next_power_of_2(args["n"]),
                         "EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @libtile.jit
    def fill(out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, i + EVEN, mask=i < n)

    out = np.zeros(16, "i4")
    assert "BLOCK=16" in fill[(1,)](out, 16).signature
    assert (out == np.arange(16) + 1).all()
    made = fill[lambda meta: (meta["n"] // 9,)](out, n=9)
    assert "BLOCK=16" in made.signature and (out[:9] == np.arange(9)).all()
    assert "BLOCK=8" in fill.warmup("*i32:16", 8, grid=(1,)).signature
    assert fill.arg_names == ["out", "n", "BLOCK", "EVEN"] and set(fill.values) == {"BLOCK", "EVEN"}


@pytest.mark.parametrize("is_outside", [False, True])
def test_heuristics_and_autotune_in_both_orders(is_outside):
    grids = []
    function = libtile.jit(lambda_free)
    choose = libtile.autotune(configs(16, 32), ["n"], do_bench=lambda call, quantiles: call() or [1.0 + len(grids)])
    compute = libtile.heuristics({"HALF": lambda args: args["n"] % 2 == 0 and args.get("BLOCK", 0) >= 0})
    kernel = compute(choose(function)) if is_outside else choose(compute(function))

    def counted(meta):
        grids.append(meta["BLOCK"])
        return grid(meta)

    x, out = arrays(50)
    made = kernel[counted](x, out, 50)
    assert (out == x * 2).all() and "HALF=True" in made.signature and "BLOCK=16" in made.signature
    x, out = arrays(51)
    assert "HALF=False" in kernel[counted](x, out, 51).signature
    assert (out == x).all() and grids == [16, 32, 16, 16, 32, 16]
    count = len(grids)
    kernel[counted](x, out, 51)
    assert len(grids) == count + 1
    tuner = kernel.fn if is_outside else kernel
    assert isinstance(tuner, libtile.Autotuner) and len(tuner.cache) == 2


def lambda_free(x, out, n, BLOCK: tl.constexpr, HALF: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * (2 if HALF else 1), mask=i < n)


# ---- pruning

def test_early_prune_and_model():
    seen = {}

    def prune(candidates, named, **kwargs):
        seen["prune"] = (len(candidates), dict(named), kwargs)
        return candidates[:3]

    def model(x, out, n, BLOCK, num_warps, **rest):
        seen["model"] = rest
        return -BLOCK

    calls = []
    kernel = tuned(add_one, [16, 32, 64, 128], 32, calls=calls,
                   prune_configs_by={"early_config_prune": prune, "perf_model": model, "top_k": 2})
    x, out = arrays()
    kernel[(7,)](x, out, n=100)
    count, named, kwargs = seen["prune"]
    assert count == 4 and list(named) == ["x", "out"] and kwargs == {"n": 100, "grid": (7,), "warmup": False}
    assert calls == [64, 32] and set(seen["model"]) == {"grid", "warmup", "num_ctas", "num_stages"}


@pytest.mark.parametrize("top, left", [(1, 1), (0.5, 2), (0.1, 1), (1.0, 4), (9, 4)])
def test_top_k_is_a_number_or_a_share(top, left):
    kernel = libtile.autotune(configs(16, 32, 64, 128), [], {"perf_model": lambda **args: args["BLOCK"], "top_k": top})(
        libtile.jit(add_one))
    kernel.nargs = {}
    assert len(kernel.prune_configs({})) == left


def test_pruning_everything_is_an_error():
    kernel = libtile.autotune(configs(16, 32), ["n"], {"early_config_prune": lambda *args, **kwargs: []})(
        libtile.jit(add_one))
    with pytest.raises(errors.AutotunerError, match="early_config_prune leaves no configuration"):
        kernel[grid](*arrays(), 100)
    with pytest.raises(TypeError, match="top_k is 2.5; it takes an int, or a float up to 1.0"):
        libtile.autotune(configs(16, 32), ["n"], {"perf_model": len, "top_k": 2.5})(
            libtile.jit(add_one))[grid](*arrays(), 100)


def test_one_left_is_not_measured():
    kernel = tuned(add_one, [16, 32], 16, calls=(calls := []),
                   prune_configs_by={"early_config_prune": lambda found, named, **kwargs: found[1:]})
    x, out = arrays()
    kernel[grid](x, out, 100)
    assert (out == x + 1).all() and calls == [] and kernel.best_config is kernel.configs[1]


# ---- hooks, reset and restore

def test_zeroed_and_restored_arrays_are_as_after_one_launch():
    for options, before in [({"reset_to_zero": ["out"]}, 5.0), ({"restore_value": ["out"]}, 5.0)]:
        kernel = libtile.autotune(configs(16, 32, 64), ["n"], warmup=1, rep=1, **options)(libtile.jit(accumulate))
        x, _ = arrays(1000)
        out = np.full(1000, before, "f4")
        kernel[grid](x, out, 1000)
        assert (out == x + (0 if "reset_to_zero" in options else before)).all()
        kernel[grid](x, out, 1000)
        assert (out == 2 * x + (0 if "reset_to_zero" in options else before)).all()


@pytest.mark.parametrize("kind", ["libtile", "none"])
def test_reset_and_restore_of_other_arrays(kind):
    kernel = libtile.autotune(configs(16, 32), ["n"], restore_value=["out", "other"], reset_to_zero=["zero", "other"],
                              warmup=1, rep=1)(libtile.jit(accumulate_both))
    x, _ = arrays()
    wrap = (lambda array: libtile.to_device(array, "cpu")) if kind == "libtile" else (lambda array: array)
    out, zero = wrap(np.full(100, 3, "f4")), wrap(np.full(100, 3, "f4"))
    kernel[grid](wrap(x), out, zero, None, 100)
    read = (lambda array: array.numpy()) if kind == "libtile" else (lambda array: array)
    assert (read(out) == x + 3).all() and (read(zero) == x).all()


def accumulate_both(x, out, zero, other, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(out + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)
    tl.store(zero + i, tl.load(zero + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)
    tl.static_assert(other is None)


def test_what_cannot_be_restored_is_an_error():
    kernel = libtile.autotune(configs(16, 32), [], restore_value=["n"])(libtile.jit(add_one))
    with pytest.raises(TypeError, match="autotune cannot reset or restore argument 'n', an object of type 'int'"):
        kernel[grid](*arrays(), 100)


def test_a_kernel_that_raises_leaves_the_arrays_as_asked():
    def failing(call, quantiles):
        call()
        call()
        raise KeyError("bench")

    kernel = libtile.autotune(configs(16, 32), ["n"], restore_value=["out"], do_bench=failing)(libtile.jit(accumulate))
    x, _ = arrays()
    out = np.full(100, 3, "f4")
    with pytest.raises(KeyError, match="bench"):
        kernel[grid](x, out, 100)
    assert (out == 3).all() and kernel.cache == {} and kernel.nargs is None
    kernel = libtile.autotune(configs(16, 32), ["n"], reset_to_zero=["out"], do_bench=failing)(libtile.jit(accumulate))
    with pytest.raises(KeyError, match="bench"):
        kernel[grid](x, out, 100)
    assert (out == 0).all()


def test_an_error_of_the_launch_reaches_the_hook_and_restores():
    seen = []
    kernel = libtile.autotune(configs(16, 32), [], warmup=1, rep=1, pre_hook=lambda args, reset_only=False: seen.append(
        ("pre", reset_only)), post_hook=lambda args, exception: seen.append(("post", type(exception))))(
            libtile.jit(out_of_bounds))
    out = np.zeros(4, "i4")
    with pytest.raises(libtile.OutOfBoundsError):
        kernel[(1,)](out, check=True)
    assert seen == [("pre", False), ("post", libtile.OutOfBoundsError), ("pre", True)]


def out_of_bounds(out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), 1)


def test_hooks_get_the_arguments():
    seen = []
    before = [Config({"BLOCK": 16}, pre_hook=lambda args: seen.append(("config", args["BLOCK"]))),
              Config({"BLOCK": 32})]
    kernel = libtile.autotune(before, ["n"], do_bench=lambda call, quantiles: call() or [len(seen)],
                              pre_hook=lambda args, reset_only=False: seen.append(("pre", reset_only, dict(args))),
                              post_hook=lambda args, exception: seen.append(("post", exception, dict(args))))(
                                  libtile.jit(add_one))
    x, out = arrays()
    kernel[grid](x, out, n=100)
    assert [each[0] for each in seen] == ["config", "pre", "post", "pre", "post", "pre", "config"]
    assert [each[1] for each in seen if each[0] == "pre"] == [False, False, True]
    arguments = seen[1][2]
    assert arguments["x"] is x and arguments["n"] == 100 and arguments["BLOCK"] == 16 and arguments["num_warps"] == 4
    assert arguments["grid"] is grid and arguments["warmup"] is False
    assert kernel.user_defined_pre_hook and kernel.user_defined_post_hook
    kernel[grid](x, out, 100)
    assert [each[0] for each in seen[7:]] == ["config"] and (out == x + 1).all()


def test_hooks_of_configurations_may_change_descriptors():
    from libtile.tools.tensor_descriptor import TensorDescriptor

    def block(args):
        args["rows"].block_shape = [1, args["BLOCK"]]

    @libtile.autotune([Config({"BLOCK": b}, pre_hook=block) for b in (16, 32)], key=[], warmup=1, rep=1)
    @libtile.jit
    def total(rows, out, BLOCK: tl.constexpr):
        tl.store(out, rows.load([0, 0]).reshape(BLOCK).sum())

    rows, out = TensorDescriptor.from_tensor(np.ones((1, 64), "f4"), [1, 8]), np.zeros(1, "f4")
    total[(1,)](rows, out)
    assert out[0] == total.best_config.kwargs["BLOCK"] == rows.block_shape[1]


# ---- what is skipped

def asserts(out, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK != 32, "not with 32")
    tl.store(out + tl.arange(0, BLOCK), BLOCK)


@pytest.mark.parametrize("is_hooked", [False, True])
def test_a_configuration_that_does_not_compile_is_skipped_and_named(is_hooked):
    made = [Config({"BLOCK": b}, pre_hook=(lambda args: None) if is_hooked else None) for b in (16, 32, 64)]
    kernel = libtile.autotune(made, key=[], warmup=1, rep=1)(libtile.jit(asserts))
    out = np.zeros(64, "i4")
    kernel[(1,)](out)
    assert out[0] == kernel.best_config.kwargs["BLOCK"] != 32
    assert list(kernel.skipped) == [made[1]] and "not with 32" in kernel.skipped[made[1]]
    assert kernel.configs_timings[made[1]] == [float("inf")] * 3 and len(kernel.configs_timings) == 3


def test_too_much_shared_memory_is_skipped_for_a_target():
    @libtile.autotune(configs(64, 512), key=[])
    @libtile.jit
    def pick(a, places, out, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        at = i[:, None] * BLOCK + i[None, :]
        tl.store(out + at, tl.gather(tl.load(a + at), tl.load(places + at), 0))

    made, = pick.warmup(tl.float32, tl.int32, tl.float32, grid=(1,), target="sm_80")
    assert "BLOCK=64" in made.signature and list(pick.skipped) == [pick.configs[1]]
    assert "the kernel needs 1048576 bytes of shared memory; sm_80 has 166912" in pick.skipped[pick.configs[1]]


def test_all_reasons_are_told_if_none_is_left():
    @libtile.autotune(configs(16, 64), key=[])
    @libtile.jit
    def nothing(out, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK != 16, "not sixteen")
        tl.static_assert(BLOCK != 64, "not sixty-four")

    with pytest.raises(errors.AutotunerError) as caught:
        nothing[(1,)](np.zeros(64, "i4"))
    text = str(caught.value)
    assert "nothing(): every configuration fails" in text and "not sixteen" in text and "not sixty-four" in text
    assert isinstance(caught.value.__cause__, libtile.CompilationError) and len(nothing.skipped) == 2
    assert nothing.cache == {}
    with pytest.raises(errors.AutotunerError, match="not sixteen"):
        nothing.warmup("*i32", grid=(1,))


def test_a_fault_of_the_kernel_is_told_as_it_is():
    @libtile.autotune(configs(16, 64), key=[])
    @libtile.jit
    def wrong(out, BLOCK: tl.constexpr):
        tl.store(out, unknown_name)

    with pytest.raises(libtile.CompilationError, match="unknown_name") as caught:
        wrong[(1,)](np.zeros(64, "i4"))
    assert caught.value.line is not None


def test_a_compilation_beyond_the_limit_is_skipped():
    release = threading.Event()

    @libtile.constexpr_function
    def slow(block):
        if block == 32:
            release.wait(20)
        return block

    @libtile.autotune(configs(16, 32, 64), key=[], warmup=1, rep=1, time_limit=0.5)
    @libtile.jit
    def waiting(out, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), slow(BLOCK))

    out = np.zeros(64, "i4")
    try:
        waiting[(1,)](out)
    finally:
        release.set()
    assert list(waiting.skipped.values()) == ["compiling takes longer than 0.5 s"]
    assert list(waiting.skipped) == [waiting.configs[1]] and out[0] in (16, 64)


def test_errors_of_arguments_are_the_callers():
    kernel = libtile.autotune(configs(16, 32), ["n"])(libtile.jit(add_one))
    x, out = arrays()
    with pytest.raises(TypeError, match="parameter 'n' is missing"):
        kernel[grid](x, out)
    with pytest.raises(ValueError, match=r"add_one\(\): BLOCK: given by the launch, and by the configurations"):
        kernel[grid](x, out, 100, BLOCK=16)
    kernel.cache[(100, "fp32", "fp32", OWN)] = kernel.configs[0]
    for given in ({"BLOCK": 16}, {"num_warps": 8}):
        with pytest.raises(ValueError, match="given by the launch, and by the configurations"):
            kernel[grid](x, out, 100, **given)
    unknown = libtile.autotune([Config({"BLOKC": 16}), Config({"BLOKC": 32})], ["n"])(libtile.jit(add_one))
    with pytest.raises(TypeError, match="there is no parameter or option 'BLOKC'; did you mean `BLOCK`"):
        unknown[(7,)](x, out, 100)
    with pytest.raises(TypeError, match="unhashable"):
        libtile.autotune(configs(16, 32), ["x"])(libtile.jit(add_one))[grid](x, out, 100)


@pytest.mark.parametrize("what", ["key", "reset_to_zero", "restore_value"])
def test_a_name_of_no_parameter_is_an_error_with_its_place(what):
    options = {"key": [], what: ["m", "n"]}
    line = add_one.__code__.co_firstlineno
    with pytest.raises(ValueError, match=rf"test_tuning\.py:{line}: autotune: {what} names 'm'; the parameters of "
                       "'add_one' are x, out, n, BLOCK"):
        libtile.autotune(configs(16), **options)(libtile.jit(add_one))


def test_only_kernels_are_tuned():
    for decorator in (libtile.autotune([], []), libtile.heuristics({})):
        with pytest.raises(TypeError, match="decorates a jit function, not an object of type 'function'"):
            decorator(add_one)


# ---- telling

def test_the_listener_hears_of_each_tuning():
    heard = []
    kernel = tuned(add_one, [16, 32], 32)
    x, out = arrays()
    knobs.autotuning.listener = lambda **said: heard.append(said)
    try:
        kernel[grid](x, out, 100)
        kernel[grid](x, out, 100)
    finally:
        del knobs.autotuning.listener
    said, = heard
    assert said["fn"] is kernel.fn and said["best_config"] is kernel.configs[1] and said["cache_hit"] is False
    assert said["key"] == (100, "fp32", "fp32", OWN) and said["configs_timings"] == kernel.configs_timings
    assert said["duration"] > 0


def test_printing(monkeypatch, capsys):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    kernel = libtile.autotune(configs(16, 32, 64), key=[], warmup=1, rep=1)(libtile.jit(asserts))
    kernel[(1,)](np.zeros(64, "i4"))
    text = capsys.readouterr().out
    assert text.count("autotuning of asserts: BLOCK: ") == 3 and "skipped BLOCK: 32" in text
    assert re.search(rf"autotuning of asserts for \('int32', '{OWN}'\): BLOCK: (16|64), .* \(\d+\.\d\d s\)", text)


@pytest.mark.parametrize("is_terminal, asked, expected", [
    (True, None, True), (False, None, False), (False, True, True), (True, False, False)])
def test_progress_is_told_beyond_two_seconds(monkeypatch, is_terminal, asked, expected):
    from libtile import tuning_trials
    text = io.StringIO()
    text.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stderr", text)
    if asked is not None:
        monkeypatch.setenv("LIBTILE_TUNING_PROGRESS", str(int(asked)))
    assert tuning_trials._SILENT_SECONDS == 2
    monkeypatch.setattr(tuning_trials, "_SILENT_SECONDS", 1000.0)
    kernel = libtile.autotune(configs(16, 32, 64), key=[], warmup=1, rep=1)(libtile.jit(asserts))
    kernel[(1,)](np.zeros(64, "i4"))
    assert text.getvalue() == ""
    monkeypatch.setattr(tuning_trials, "_SILENT_SECONDS", 0.0)
    kernel.cache.clear()
    kernel[(1,)](np.zeros(64, "i4"))
    said = text.getvalue()
    assert bool(said) == expected
    if expected:
        assert "autotuning asserts: " in said and "3 configurations in" in said and "1 skipped" in said
        assert said.count("\n") == 1 if is_terminal else said.count("\n") <= 2


def test_knobs_say_what_they_do_not_take(monkeypatch):
    monkeypatch.setenv("LIBTILE_CACHE_AUTOTUNING", "perhaps")
    with pytest.raises(ValueError, match="LIBTILE_CACHE_AUTOTUNING is 'perhaps'; it takes 0 or 1"):
        knobs.autotuning.cache
    knobs.autotuning.cache = True
    assert knobs.autotuning.cache is True
    del knobs.autotuning.cache
    monkeypatch.setenv("LIBTILE_CACHE_AUTOTUNING", "")
    assert knobs.autotuning.cache is False


# ---- threads, pickling

def test_two_threads_tune_once():
    calls = []
    kernel = tuned(add_one, [16, 32, 64], 64, calls=calls)
    x, _ = arrays(1000)
    outs = [np.zeros_like(x) for _ in range(8)]
    begin = threading.Barrier(8)
    failed = []

    def launch(out):
        try:
            begin.wait()
            for _ in range(20):
                kernel[grid](x, out, 1000)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=launch, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and calls == [16, 32, 64] and all((out == x + 1).all() for out in outs)


at_the_top = libtile.autotune(configs(16, 32), ["n"])(libtile.jit(add_one))
at_the_top.__qualname__ = "at_the_top"


def test_pickled_by_name():
    assert pickle.loads(pickle.dumps(at_the_top)) is at_the_top


def test_tuners_are_collected():
    import gc
    import weakref
    kernel = tuned(add_one, [16, 32], 32)
    x, out = arrays()
    kernel[grid](x, out, 100)
    gone = weakref.ref(kernel)
    del kernel
    until = time.perf_counter() + 20  # the last thread that compiled may not be over yet
    while gone() is not None and time.perf_counter() < until:
        gc.collect()
    assert gone() is None


def test_the_key_names_the_interpreter():
    kernel = libtile.autotune(configs(32, 64), key=["n"], warmup=0, rep=0)(libtile.jit(add_one))
    x, out = np.zeros(100, np.float32), np.zeros(100, np.float32)
    kernel[grid](x, out, x.size, device="interpreter")
    kernel[grid](x, out, x.size)
    assert (out == 1).all()
    assert [key[-1] for key in kernel.cache] == list(dict.fromkeys(["interpreter", OWN]))
