# SPDX-License-Identifier: Apache-2.0
"""./dev demo: runs the lessons on every device, and writes a gallery of their plots.

Each lesson runs as a script of its own, as its reader runs it: it compares its kernels with NumPy in float64, and
measures them beside a peer. The exit status is 1 if any of them failed.
"""
import argparse
import csv
import html
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gallery

import libtile

TUTORIALS = Path(__file__).resolve().parent.parent / "python" / "tutorials"


def run(path, device, points):
    """(its output, [x, line, line, ...] names, unit, rows of numbers, other pictures) of a lesson on a device; no rows if it
    failed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, path, "--device", device, "--plot", folder]
        command += ["--points", str(points)] if points else []
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        tables = list(Path(folder).glob("*.csv"))
        if result.returncode != 0 or len(tables) != 1:
            return result.stdout, [], "", [], []
        (x, *lines), *rows = csv.reader(tables[0].open())
        pictures = [path.read_text() for path in Path(folder).glob("*.svg")]
    unit = re.search(r" \(([^)]*)\)$", lines[0])[1]
    names = [x, *(line.removesuffix(f" ({unit})") for line in lines)]
    return result.stdout, names, unit, [[float(value) for value in row] for row in rows], pictures


def verdict(names, unit, rows):
    """How libtile compares with each peer at the largest size; of times nothing is said."""
    if unit == "ms":
        return f"at {rows[-1][0]:,.0f}: " + ", ".join(f"{value:.0f} ms" for value in rows[-1][1:])
    x, ours, *others = rows[-1]
    return f"at {x:,.0f}: " + ", ".join(f"{ours / other:.2g} × {name}" for name, other in zip(names[2:], others))


def card(path, devices, points):
    """(HTML, whether all went well) of a lesson; prints a line for each device."""
    title, sentence, source = gallery.lesson_text(path)
    figures, is_right = [], True
    for device in devices:
        start = time.time()
        output, names, unit, rows, pictures = run(path, device, points)
        if rows:
            note = verdict(names, unit, rows)
            figures.append(gallery.figure(device, html.escape(note), names[0], names[1:], unit, rows))
            figures += [f"<figure>{picture}</figure>" for picture in pictures]
        else:
            note, is_right = f"FAILED\n{output}", False
            figures.append(gallery.failure(device, output))
        print(f"{path.stem[:2]} {title[:58]:60}{device:7}{time.time() - start:4.0f} s   "
              f"{'right' if rows else 'WRONG'}   {note}", flush=True)
    return gallery.card(path.stem[:2].lstrip("0"), title, sentence, figures, source), is_right


def processor():
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--html", default="demo.html")
    parser.add_argument("--points", type=int, help="measure the first points of each plot only")
    options = parser.parse_args()
    os.environ.pop("LIBTILE_REPORT_POINTS", None)
    devices = ["cpu", *(["cuda"] if "cuda:0" in libtile.available_devices() else [])]
    if devices == ["cpu"]:
        print("no CUDA device here: the CPU alone")
    start = time.time()
    cards, rights = zip(*(card(path, devices, options.points) for path in sorted(TUTORIALS.glob("[0-9][0-9]_*.py"))))
    paragraphs = [
        "One program over tiles, compiled in milliseconds for the CPU or for a GPU. Each lesson is a script in "
        "<code>python/tutorials</code>: it compares its kernels with NumPy in float64, and measures them beside others. "
        "More is better, but where the unit is a time.",
        f"libtile {libtile.__version__}, {html.escape(processor())}, {libtile.num_threads()} threads, "
        f"{time.strftime('%Y-%m-%d')}; {len(cards)} lessons in {time.time() - start:.0f} s, "
        + ("all of them right." if all(rights) else f"<b class='wrong'>{rights.count(False)} of them wrong.</b>")]
    Path(options.html).write_text(gallery.page(f"libtile in {len(cards)} lessons", paragraphs, cards))
    print(f"the same with plots: {options.html}")
    return 0 if all(rights) else 1


if __name__ == "__main__":
    sys.exit(main())
