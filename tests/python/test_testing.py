# SPDX-License-Identifier: Apache-2.0
"""libtile.testing: what is measured and summed up, reports, and assert_close. (That the times of kernels are right is not
for a test: it counts calls.)"""
import sys
import time
import types

import ml_dtypes
import numpy as np
import pytest

import libtile
from libtile import testing


@pytest.fixture
def without(monkeypatch):
    """without("pandas"): the import fails."""
    def make(*names):
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
    return make


# ---- do_bench

def test_do_bench_calls_and_sums_up():
    calls = []
    assert testing.do_bench(lambda: calls.append(1), warmup=0, rep=0, device="cpu", clear_cache=False) > 0
    assert len(calls) == 1 + 3 + 1 + 3
    times = testing.do_bench(lambda: None, 1, 1, return_mode="all", device="cpu", clear_cache=False)
    assert times == sorted(times) and len(times) >= 10
    quantiles = testing.do_bench(lambda: None, 1, 1, quantiles=[0.5, 0.2, 0.8], device="cpu", clear_cache=False)
    assert 0 <= quantiles[1] <= quantiles[0] <= quantiles[2]
    assert isinstance(testing.do_bench(lambda: None, 1, 1, quantiles=[0.5], device="cpu", clear_cache=False), float)


def test_what_lies_around_calls_counts_as_time_spent():
    calls = []
    testing.samples(lambda: None, 50, 0, "cpu", clear_cache=False, before=lambda: (calls.append(1), time.sleep(5e-3)))
    assert len(calls) < 1 + 3 + 3 + 50  # without what lies around them there were thousands
    times = testing.samples(lambda: None, 0, 5, "cpu", clear_cache=False, before=lambda: time.sleep(5e-3))
    assert 10 <= len(times) < 50


def test_quantiles_are_numpys():
    times = sorted(np.random.default_rng(3).random(37))
    asked = [0, 0.2, 0.33, 0.5, 0.8, 1]
    np.testing.assert_allclose(testing.quantiles_of(times, asked), np.quantile(times, asked), rtol=1e-14)
    with pytest.raises(ValueError, match="a quantile is 1.5; it lies in 0 to 1"):
        testing.quantiles_of(times, [1.5])


def test_unknown_modes_are_refused():
    for bench in (testing.do_bench, testing.do_bench_cudagraph):
        with pytest.raises(ValueError, match="return_mode is 'best'"):
            bench(lambda: None, return_mode="best")


def test_gradients_are_dropped_before_each_call():
    tensor = types.SimpleNamespace(grad=1)
    seen = []

    def step():
        seen.append(tensor.grad)
        tensor.grad = 1

    testing.do_bench(step, 0, 0, grad_to_none=[tensor], device="cpu", clear_cache=False)
    assert seen == [None] * 8


def test_what_is_around_a_call_is_called_and_not_timed():
    import time
    order = []

    def before():
        order.append("before")
        time.sleep(0.05)

    times = testing.samples(lambda: order.append("fn"), 0, 0, "cpu", clear_cache=False, before=before,
                            after=lambda error=None: order.append(error))
    assert order == ["before", "fn", None] * 8 and times[0] < 40
    raised = KeyError("x")

    def failing():
        raise raised

    with pytest.raises(KeyError):
        testing.samples(failing, 0, 0, "cpu", before=before, after=order.append)
    assert order[-2:] == ["before", raised]


def test_a_graph_without_torch_or_gpu_is_refused(without):
    without("torch")
    with pytest.raises(libtile.DeviceError, match="do_bench_cudagraph needs torch, which is not installed"):
        testing.do_bench_cudagraph(lambda: None)


# ---- what devices can do

def test_rates_of_a_device(monkeypatch):
    monkeypatch.setattr(testing, "_properties", lambda device: {
        "mem_clock_rate": 2_619_000, "mem_bus_width": 5120, "multiprocessor_count": 132})
    assert testing.get_dram_gbps() == pytest.approx(3352.32)
    clock = 1_755_000
    for dtype, simd, matrix in [(libtile.language.float32, 1, 1), (np.float16, 2, 2), (ml_dtypes.bfloat16, 2, 2)]:
        assert testing.get_max_simd_tflops(dtype, clock) == pytest.approx(132 * 4 * clock * 32 * simd * 1e-9)
        assert testing.get_max_tensorcore_tflops(dtype, clock) == pytest.approx(132 * 4 * clock * 256 * matrix * 1e-9)
    assert testing.get_max_tensorcore_tflops(np.int8, clock) == pytest.approx(132 * 4 * clock * 1024e-9)
    with pytest.raises(ValueError, match="no rate is known of fp64"):
        testing.get_max_tensorcore_tflops(np.float64, clock)
    monkeypatch.setattr(testing, "_properties", lambda device: {"mem_clock_rate": 0, "mem_bus_width": 5120})
    with pytest.raises(libtile.DeviceError, match="the driver does not say how fast"):
        testing.get_dram_gbps()


def test_rates_of_the_cpu_are_refused():
    if "cuda:0" in libtile.available_devices():
        assert testing.get_dram_gbps() > 100
    with pytest.raises(libtile.DeviceError, match="nothing is known of the rates of cpu"):
        testing.get_dram_gbps("cpu")
    for rate in (testing.get_max_simd_tflops, testing.get_max_tensorcore_tflops):
        with pytest.raises(libtile.DeviceError, match="nothing is known of the rates of cpu"):
            rate(np.float32, 1, "cpu")


# ---- assert_close

@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int32])
def test_assert_close(dtype):
    x = np.array([1, 2, 3]).astype(dtype)
    testing.assert_close(x, x)
    testing.assert_close(x, [1, 2, 3])
    testing.assert_close(libtile.to_device(x, "cpu"), x)
    with pytest.raises(AssertionError, match="of the sum"):
        testing.assert_close(x, np.array([1, 2, 4]).astype(dtype), err_msg="of the sum")
    testing.assert_close(x, np.array([1, 2, 4]).astype(dtype), atol=1)
    testing.assert_close(x, np.array([1, 2, 4]).astype(dtype), rtol=0.25)
    asked = []
    testing.assert_close(x, x + x, atol=lambda dtype: asked.append(dtype) or 3, rtol=lambda dtype: asked.append(dtype) or 0)
    assert asked == [x.dtype, x.dtype]


def test_assert_close_of_edges():
    testing.assert_close([np.nan, np.inf], [np.nan, np.inf])
    testing.assert_close(1.0, 1.009)
    testing.assert_close(np.nan, np.nan)
    for x, y in [(1.0, 1.02), ([1.0, 2.0], [1.0, np.nan]), ([1.0], [-np.inf]), (np.inf, -np.inf), ([1.0, 2.0], [1.0] * 3)]:
        with pytest.raises(AssertionError):
            testing.assert_close(x, y)


# ---- reports

def report(**options):
    return testing.perf_report(testing.Benchmark(**{
        "x_names": ["m", "n"], "x_vals": [4, (5, 6)], "line_arg": "who", "line_vals": ["a", "b"],
        "line_names": ["Ours", "Theirs"], "plot_name": "speed", "args": {"bias": 0.5}, "ylabel": "GB/s", **options}))


def product(m, n, who, bias, more=0):
    value = m * n + bias + more
    return value if who == "a" else (value * 2, value, value * 3)


def test_a_report_prints_and_saves(tmp_path, capsys, without):
    without("matplotlib", "pandas", "matplotlib.pyplot")
    folder = tmp_path / "made" / "here"
    assert report()(product).run(print_data=True, save_path=str(folder)) is None
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "speed:" and lines[1].split("  ")[-2:] == ["Ours (GB/s)", "Theirs (GB/s)"]
    assert [line.split() for line in lines[2:]] == [["0", "4", "4", "16.5", "33"], ["1", "5", "6", "30.5", "61"]]
    assert (folder / "speed.csv").read_text() == ("m,n,Ours (GB/s),Theirs (GB/s)\n4,4,16.500000,33.000000\n"
                                                  "5,6,30.500000,61.000000\n")
    assert (folder / "results.html").read_text() == "<html><body>\n</body></html>\n"
    report()(product).run(save_path=str(folder), save_precision=1, diff_col=True, more=1)
    assert (folder / "speed.csv").read_text().splitlines() == ["m,n,Ours (GB/s),Theirs (GB/s),Diff", "4,4,17.5,35.0,17.5",
                                                               "5,6,31.5,63.0,31.5"]


def test_points_of_a_report_may_be_left_out(monkeypatch, capsys):
    def lines():
        report()(product).run(print_data=True)
        return len(capsys.readouterr().out.splitlines()) - 2

    assert lines() == 2
    monkeypatch.setenv("LIBTILE_REPORT_POINTS", "1")
    assert lines() == 1
    libtile.knobs.reports.points = 3
    assert lines() == 2
    del libtile.knobs.reports.points
    assert lines() == 1
    for wrong in ("0", "-1", "few"):
        monkeypatch.setenv("LIBTILE_REPORT_POINTS", wrong)
        with pytest.raises(ValueError, match=f"LIBTILE_REPORT_POINTS is '{wrong}'; it takes a number from 1 on"):
            lines()


def test_what_is_not_installed_is_said(without):
    without("matplotlib", "pandas")
    with pytest.raises(ImportError, match="return_df needs pandas, which is not installed"):
        report()(product).run(return_df=True)
    with pytest.raises(ImportError, match="show_plots needs matplotlib, which is not installed"):
        report()(product).run(show_plots=True)


def test_points_of_another_length_are_an_error():
    with pytest.raises(ValueError, match=r"benchmark 'speed': \(1, 2, 3\) has 3 values for the 2 names m, n"):
        report(x_vals=[(1, 2, 3)])(product).run()


def test_results_so_far_are_kept_if_a_point_fails(tmp_path):
    def failing(m, n, who, bias):
        if m == 5:
            raise KeyError(m)
        return m

    marks = testing.perf_report([testing.Benchmark(["m", "n"], [4], "who", ["a"], ["A"], "first", {"bias": 0}),
                                 testing.Benchmark(["m", "n"], [5], "who", ["a"], ["A"], "second", {"bias": 0})])
    with pytest.raises(KeyError):
        marks(failing).run(save_path=str(tmp_path))
    assert {each.name for each in tmp_path.iterdir() if each.suffix != ".png"} == {"first.csv", "results.html"}


def test_plots_and_frames(monkeypatch, tmp_path):
    """With stand-ins for matplotlib and pandas: what they are asked for."""
    drawn = []

    class Axes:
        def __getattr__(self, name):
            def record(*args, **kwargs):
                drawn.append((name, args, kwargs))
                return (types.SimpleNamespace(get_color=lambda: "red"),)
            return record

    figure = types.SimpleNamespace(savefig=lambda path: open(path, "w").close())
    plots = types.ModuleType("matplotlib.pyplot")
    plots.subplots = lambda: (figure, Axes())
    plots.show = lambda: drawn.append("shown")
    plots.close = lambda figure: drawn.append("closed")
    package = types.ModuleType("matplotlib")
    package.pyplot = plots
    frames = types.ModuleType("pandas")
    frames.DataFrame = lambda rows, columns: (rows, columns)
    for module in (package, plots, frames):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    made = report(x_log=True, xlabel="size", styles=[("blue", "-"), ("green", "--")])(product).run(
        show_plots=True, save_path=str(tmp_path), return_df=True)
    assert made == ([[4, 4, 16.5, 33.0], [5, 6, 30.5, 61.0]], ["m", "n", "Ours (GB/s)", "Theirs (GB/s)"])
    assert drawn[0] == ("plot", ([4, 5], [16.5, 30.5]), {"label": "Ours (GB/s)", "color": "blue", "ls": "-"})
    assert ("fill_between", ([4, 5], (16.5, 30.5), (49.5, 91.5)), {"alpha": 0.15, "color": "red"}) in drawn
    assert ("set_xscale", ("log",), {}) in drawn and ("set_yscale", ("linear",), {}) in drawn
    assert ("set_xlabel", ("size",), {}) in drawn and drawn[-2:] == ["shown", "closed"]
    assert (tmp_path / "speed.png").exists() and 'src="speed.png"' in (tmp_path / "results.html").read_text()
    both = testing.perf_report([report()(product).benchmarks])(product).run(return_df=True)
    assert isinstance(both, list) and len(both) == 1
