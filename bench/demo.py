# SPDX-License-Identifier: Apache-2.0
"""./dev demo: the tutorials' kernels on real data, checked against NumPy in float64.

Prints one line a run and writes the same as a page with plots. The exit status is 1 if any number is
wrong.
"""
import argparse
import html
import importlib
import sys
import time
from pathlib import Path

import numpy as np

import libtile

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "tutorials"))
add = importlib.import_module("01_vector_add")
softmax = importlib.import_module("02_fused_softmax")
layer_norm = importlib.import_module("05_layer_norm")
matmul = importlib.import_module("03_matmul")

COLUMNS = ("kernel", "shape", "dtype", "device", "compile ms", "run ms", "rate", "NumPy ms",
           "largest error", "")


def best(fn, seconds=0.5):
    times = []
    until = time.perf_counter() + seconds
    while not times or (time.perf_counter() < until and len(times) < 50):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return min(times)


def softmax_numpy(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm_numpy(x, weight, bias):
    mean = x.mean(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * weight + bias


def jobs(rng):
    """(kernel, shape, dtype, inputs, outputs, run, NumPy, float64 reference, bound, work, unit)."""
    for n in (1 << 20, 1 << 24):
        x, y = (rng.standard_normal(n, dtype=np.float32) for _ in range(2))
        yield ("add", f"{n}", "f32", [x, y], [np.empty_like(x)],
               lambda x, y, out: add.run(x, y, out, 4096), lambda x, y: x + y,
               x.astype(np.float64) + y, lambda want: 2.0**-24 * np.abs(want), 12 * n, "GB/s")
    for rows, cols in ((2048, 781), (1024, 4096), (256, 16384)):
        x = rng.standard_normal((rows, cols), dtype=np.float32)
        yield ("softmax", f"{rows}x{cols}", "f32", [x], [np.empty_like(x)], softmax.run, softmax_numpy,
               softmax.reference(x), lambda want: 1e-5 * want + 1e-9, 8 * x.size, "GB/s")
    for rows, cols in ((2048, 781), (256, 16384)):
        x = rng.standard_normal((rows, cols), dtype=np.float32)
        weight, bias = (rng.standard_normal(cols, dtype=np.float32) for _ in range(2))
        outputs = [np.empty_like(x), np.empty(rows, np.float32), np.empty(rows, np.float32)]
        yield ("layer norm", f"{rows}x{cols}", "f32", [x, weight, bias], outputs, layer_norm.run,
               layer_norm_numpy, layer_norm.reference(x, weight, bias)[0],
               lambda want: 1e-4 * np.abs(want) + 1e-5, 8 * x.size, "GB/s")
    for m, n, k in ((512, 512, 512), (1024, 1024, 1024), (300, 411, 777)):
        a, b = rng.standard_normal((m, k), dtype=np.float32), rng.standard_normal((k, n), dtype=np.float32)
        absolute = np.abs(a).astype(np.float64) @ np.abs(b)
        yield ("matmul", f"{m}x{n}x{k}", "f32", [a, b], [np.empty((m, n), np.float32)],
               lambda a, b, c: matmul.run(a, b, c, 192, 256, 64), lambda a, b: a @ b,
               a.astype(np.float64) @ b, lambda want, bound=absolute * k * 2.0**-24: bound,
               2 * m * n * k, "GFLOP/s")


def run_job(job, device):
    name, shape, dtype, inputs, outputs, run, numpy_form, want, bound, work, unit = job
    if device == "cpu":
        arrays, sync = inputs + outputs, (lambda: None)
    else:
        arrays = [libtile.to_device(array, device) for array in inputs + outputs]
        sync = arrays[-1].synchronize
    call = (lambda: (run(*arrays), sync()))
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    seconds = best(call)
    numpy_seconds = best(lambda: numpy_form(*inputs), 0.3)
    out = outputs[0] if device == "cpu" else arrays[len(inputs)].numpy()
    error = np.abs(out.astype(np.float64) - want)
    right = bool((error <= bound(want)).all())
    return {"kernel": name, "shape": shape, "dtype": dtype, "device": device,
            "compile ms": f"{max(first - seconds, 0) * 1e3:.1f}", "run ms": f"{seconds * 1e3:.3f}",
            "rate": f"{work / seconds / 1e9:.1f} {unit}", "NumPy ms": f"{numpy_seconds * 1e3:.3f}",
            "largest error": f"{error.max():.2e}", "": "right" if right else "WRONG",
            "speedup": numpy_seconds / seconds}


def devices():
    found = ["cpu"]
    try:
        libtile.to_device(np.zeros(1, np.float32), "cuda")
        found.append("cuda")
    except libtile.DeviceError:
        print("no CUDA device here: the CPU alone")
    return found


def show(row, widths=(11, 15, 6, 7, 11, 10, 15, 10, 14, 6)):
    print(" ".join(str(row[c] if isinstance(row, dict) else c).ljust(w)
                   for c, w in zip(COLUMNS, widths)), flush=True)


def page(rows, seconds):
    """A page of its own: the table, and for each device a bar for each run, beside NumPy's."""
    bars = []
    for device in dict.fromkeys(row["device"] for row in rows):
        mine = [row for row in rows if row["device"] == device]
        widest = max(max(row["speedup"] for row in mine), 1.0)
        y, parts = 10, []
        for row in mine:
            width = 420 * row["speedup"] / widest
            parts.append(
                f'<text x="190" y="{y + 13}" text-anchor="end">{html.escape(row["kernel"])} '
                f'{html.escape(row["shape"])}</text><rect x="200" y="{y}" width="{width:.1f}" '
                f'height="17" fill="#3b6ea5"/><text x="{206 + width:.1f}" y="{y + 13}">'
                f'{row["speedup"]:.1f}x</text>')
            y += 24
        line = 200 + 420 / widest
        bars.append(f'<h2>{html.escape(device)}: speed, NumPy = 1</h2><svg width="720" height="{y + 6}" '
                    f'font-family="sans-serif" font-size="13">{"".join(parts)}'
                    f'<line x1="{line:.1f}" x2="{line:.1f}" y1="4" y2="{y}" stroke="#c33"/></svg>')
    head = "".join(f"<th>{html.escape(c)}</th>" for c in COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(row[c]))}</td>" for c in COLUMNS) + "</tr>"
                   for row in rows)
    return (f"<!doctype html><meta charset='utf-8'><title>libtile demo</title><style>body{{font-family:"
            f"sans-serif;margin:2em}}td,th{{padding:.2em .8em;text-align:left}}tr:nth-child(even)"
            f"{{background:#f2f4f7}}</style><h1>libtile demo</h1><p>Every result is compared with NumPy "
            f"in float64. {seconds:.0f} s in all, {libtile.__version__}.</p><table><tr>{head}</tr>{body}"
            f"</table>{''.join(bars)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--html", default="demo.html")
    options = parser.parse_args()
    start = time.time()
    rng = np.random.default_rng(0)
    found, rows = devices(), []
    show(COLUMNS)
    for job in jobs(rng):
        for device in found:
            rows.append(run_job(job, device))
            show(rows[-1])
    Path(options.html).write_text(page(rows, time.time() - start))
    print(f"the same with plots: {options.html}")
    return 1 if any(row[""] != "right" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
