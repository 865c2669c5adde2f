# SPDX-License-Identifier: Apache-2.0
"""What the lessons share: where they run, their arrays, who they are compared with, and their command line.

    python 01_vector_add.py                    checks the lesson's kernels against NumPy in float64
    python 01_vector_add.py --plot plots       and measures them beside a peer; plots/ gets a CSV file and, if
                                               matplotlib is installed, a picture
    python 01_vector_add.py --device cpu       on the CPU, even if there is a GPU
    python 01_vector_add.py --plot plots --points 2    the first two points only, as with LIBTILE_REPORT_POINTS=2

Peers are NumPy and, where they are installed, torch and (on a GPU) Triton, which runs the lesson's own text.
"""
import argparse
import functools
import importlib
import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np

import libtile
import libtile.testing


def default_device():
    """A GPU if there is one."""
    return "cuda" if any(name.startswith("cuda") for name in libtile.available_devices()) else "cpu"


def place(device, *arrays, provider="libtile"):
    """NumPy arrays where the provider (libtile, Triton, torch or NumPy) takes them from: one array, or a list of them.

    For libtile on the CPU and for NumPy that is the arrays themselves. On a GPU they are torch's tensors if torch is
    installed, else libtile's own `DeviceArray`.
    """
    if provider == "NumPy" or (provider == "libtile" and device == "cpu"):
        placed = list(arrays)
    elif provider == "libtile" and not has_torch():
        placed = [libtile.to_device(array, device) for array in arrays]
    else:
        placed = [torch().from_numpy(array).to(device) for array in arrays]
    return placed[0] if len(placed) == 1 else placed


def host(array):
    """What an array of any kind holds, as a NumPy array."""
    if hasattr(array, "cpu"):
        return array.cpu().numpy()
    return array if isinstance(array, np.ndarray) else array.numpy()


def unwritten(shape, dtype=np.float32):
    """A NumPy array for results that looks wrong until a kernel has written all of it."""
    array = np.empty(shape, dtype)
    array.view(np.uint8).fill(0xA5)
    return array


@functools.cache
def has_torch():
    return importlib.util.find_spec("torch") is not None


def torch():
    """The module, which is imported when it is needed first."""
    return importlib.import_module("torch")


def providers(device):
    """libtile, and the peers that this machine has for the device. On a GPU NumPy stands in for torch where that is not
    installed."""
    found = ["libtile"]
    if device != "cpu" and has_torch() and importlib.util.find_spec("triton") is not None:
        found.append("Triton")
    if has_torch():
        found.append("torch")
    if device == "cpu" or not has_torch():
        found.append("NumPy")
    return found


@functools.cache
def by_triton(path):
    """The lesson in this file as a module of its own whose kernels Triton compiles: the same text, with the other name."""
    text = Path(path).read_text().replace("libtile", "triton")
    copy = Path(tempfile.mkdtemp(prefix="lesson_")) / f"triton_{Path(path).stem}.py"  # Triton reads files
    copy.write_text(text)
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def milliseconds(call, device, provider="libtile"):
    """The best time of a call. Caches are cleared on a GPU alone: on a CPU that takes longer than the calls."""
    where = "cpu" if provider == "NumPy" else device
    return libtile.testing.do_bench(call, warmup=5, rep=40, return_mode="min", device=where,
                                    clear_cache=where != "cpu")


def rate(call, work, device, provider):
    """Thousands of millions a second of what a call does `work` of: bytes give GB/s, operations GFLOP/s."""
    return work / milliseconds(call, device, provider) * 1e-6


def heat_map(names, values):
    """A picture (SVG) of a square of numbers up to 1: the larger, the darker."""
    cell, left, top = 13, 150, 150
    size = cell * len(names)
    marks = [f"<rect x='{left + j * cell}' y='{top + i * cell}' width='{cell}' height='{cell}' fill-opacity='{max(value, 0):.2f}'>"
             f"<title>{names[i]}, {names[j]}: {value:.2f}</title></rect>"
             for i, row in enumerate(values) for j, value in enumerate(row)]
    for i, name in enumerate(names):
        place = i * cell + cell * 0.75
        marks.append(f"<text x='{left - 6}' y='{top + place}' text-anchor='end'>{name}</text>")
        marks.append(f"<text transform='translate({left + place},{top - 6}) rotate(-60)'>{name}</text>")
    return (f"<svg xmlns='http://www.w3.org/2000/svg' class='heat' viewBox='0 0 {left + size + 90} {top + size + 6}'>"
            "<style>.heat rect { fill: var(--ours, #1f5fd0) } .heat text { font: 11px sans-serif; fill: var(--soft, #5d6673) }</style>"
            f"{''.join(marks)}</svg>\n")


def main(check, measure, title, x, values, unit, lines=None, picture=None):
    """The command line of a lesson.

    - `check(device)` compares the kernels with NumPy and raises AssertionError if they are wrong.
    - `measure(x, provider, device)` gives one point of the plot `title`: its axes are the argument named `x`, which has
      `values`, and a number in `unit`. `lines`: the providers, if they are not libtile and its peers, or a function
      from the device to them.
    - `picture(device)` gives another picture for the folder (SVG), or None.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=default_device(), help="cpu, cuda, cuda:1, ...")
    parser.add_argument("--plot", metavar="FOLDER", help="measure, and write CSV and plots there")
    parser.add_argument("--points", type=int, help="measure the first points only")
    options = parser.parse_args()
    check(options.device)
    if options.plot:
        lines = (lines or providers)(options.device) if lines is None or callable(lines) else lines
        benchmark = libtile.testing.Benchmark(
            x_names=[x], x_vals=values[:options.points], x_log=values[-1] > 8 * values[0], line_arg="provider",
            line_vals=lines, line_names=lines, plot_name=title, ylabel=unit, args={})
        report = libtile.testing.perf_report(benchmark)(measure)
        report.run(print_data=True, save_path=options.plot, device=options.device)
        drawn = picture(options.device) if picture else None
        if drawn:
            Path(options.plot, f"{title}.svg").write_text(drawn)
