# SPDX-License-Identifier: Apache-2.0
"""Reports of measurements over a range of sizes: plots, tables and CSV files. Their names are in libtile.testing."""
from __future__ import annotations

import os

from . import knobs

TYPE_CHECKING = False  # importing typing takes longer than the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


class Benchmark:
    """A plot: a line for each of several values of one argument, over values of others.

    - `x_names`: arguments that go along the x axis; `x_vals`: their values: numbers (all of them have that one then), or
      tuples of one a name.
    - `line_arg`: the argument that tells the lines apart; `line_vals`, `line_names`: its values, and the lines' names.
    - `plot_name`: the title, and the name of the files; `args`: the other arguments, by name.
    - `xlabel`, `ylabel`: of the axes; `x_log`, `y_log`: whether they are logarithmic; `styles`: (color, line style) a line.
    """

    def __init__(self, x_names: Sequence[str], x_vals: Sequence[Any], line_arg: str, line_vals: Sequence[Any],
                 line_names: Sequence[str], plot_name: str, args: Mapping[str, Any], xlabel: str = "",
                 ylabel: str = "", x_log: bool = False, y_log: bool = False,
                 styles: Sequence[tuple[str, str]] | None = None) -> None:
        self.x_names, self.x_vals = x_names, x_vals
        self.line_arg, self.line_vals, self.line_names = line_arg, line_vals, line_names
        self.plot_name, self.args = plot_name, args
        self.xlabel, self.ylabel, self.x_log, self.y_log, self.styles = xlabel, ylabel, x_log, y_log, styles


class Table:
    """Measured numbers: `columns`, the names; `rows`, a list of values a point; `spreads`, for each point a (least,
    greatest) a line, or None."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns
        self.rows: list[list[Any]] = []
        self.spreads: list[list[Any]] = []

    def text(self) -> str:
        """The table for people, as pandas prints one."""
        cells = [["", *self.columns]]
        cells += [[str(i), *map(_shown, row)] for i, row in enumerate(self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in cells)
        return "\n".join(line.rstrip() for line in lines)

    def write_csv(self, path: str, precision: int) -> None:
        """A line of names and one a point; floats with that many digits behind the point."""
        import csv
        with open(path, "w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows([f"{value:.{precision}f}" if isinstance(value, float) else
                              "" if value is None else value for value in row] for row in self.rows)


def _shown(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Mark:
    """A function with its benchmarks: what `perf_report` makes."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn, self.benchmarks = fn, benchmarks

    def run(self, show_plots: bool = False, print_data: bool = False, save_path: str = "", return_df: bool = False,
            diff_col: bool = False, save_precision: int = 6, **kwargs: Any) -> Any:
        """Measures every point of every benchmark, or the first ones alone: `libtile.knobs.reports.points`.

        The function is called with the arguments of the point and `kwargs`; it gives a number, or (a number, the least,
        the greatest).

        - `show_plots`: opens windows (matplotlib); `print_data`: prints the tables.
        - `save_path`: a folder, made if need be, for `<plot_name>.csv`, `<plot_name>.png` if matplotlib is there, and
          `results.html` with the plots. `save_precision`: digits behind the point.
        - `return_df`: gives a pandas.DataFrame, or a list of them if there is a list of benchmarks.
        - `diff_col`: a column more with the difference of two.

        ImportError if matplotlib or pandas is asked for by show_plots or return_df, and is not installed.
        """
        if return_df:
            _need("pandas", "return_df")
        if show_plots:
            _need("matplotlib", "show_plots")
        is_one = isinstance(self.benchmarks, Benchmark)
        benchmarks = [self.benchmarks] if is_one else list(self.benchmarks)
        if save_path:
            os.makedirs(save_path, exist_ok=True)
        tables, pictures = [], []
        try:
            for benchmark in benchmarks:
                table = self._measure(benchmark, kwargs)
                if _draw(benchmark, table, show_plots, save_path):
                    pictures.append(benchmark.plot_name)
                if diff_col and len(table.columns) == len(benchmark.x_names) + 2:
                    _add_difference(table)
                if print_data:
                    print(f"{benchmark.plot_name}:\n{table.text()}")
                if save_path:
                    table.write_csv(os.path.join(save_path, f"{benchmark.plot_name}.csv"), save_precision)
                tables.append(table)
        finally:
            if save_path:
                _write_page(save_path, pictures)
        if not return_df:
            return None
        frames = [_frame(table) for table in tables]
        return frames[0] if is_one else frames

    def _measure(self, benchmark, kwargs):
        names = list(benchmark.x_names)
        unit = f" ({benchmark.ylabel})"
        table = Table([*names, *(f"{line}{unit}" for line in benchmark.line_names)])
        for x in list(benchmark.x_vals)[:knobs.reports.points]:
            values = list(x) if isinstance(x, (list, tuple)) else [x] * len(names)
            if len(values) != len(names):
                raise ValueError(f"benchmark '{benchmark.plot_name}': {x!r} has {len(values)} values for the "
                                 f"{len(names)} names {', '.join(names)}")
            found = [self.fn(**dict(zip(names, values)), **{benchmark.line_arg: line}, **benchmark.args, **kwargs)
                     for line in benchmark.line_vals]
            table.rows.append([*values, *(each[0] if isinstance(each, (list, tuple)) else each for each in found)])
            table.spreads.append([tuple(each[1:3]) if isinstance(each, (list, tuple)) else None for each in found])
        return table


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """Decorates a function that measures one point; `function.run(...)` of the Mark measures them all."""
    return lambda fn: Mark(fn, benchmarks)


def _need(module, option):
    import importlib
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"{option} needs {module}, which is not installed") from None


def _frame(table):
    import pandas
    return pandas.DataFrame(table.rows, columns=table.columns)


def _add_difference(table):
    for row in table.rows:
        row.append(row[-1] - row[-2])
    table.columns.append("Diff")


def _draw(benchmark, table, is_shown, folder):
    """Plots a table; whether there is a picture in the folder."""
    if not benchmark.plot_name or not (is_shown or folder):
        return False
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return False
    figure, axes = plt.subplots()
    count = len(benchmark.x_names)
    xs = [row[0] for row in table.rows]
    for i, label in enumerate(table.columns[count:]):
        color, style = benchmark.styles[i] if benchmark.styles else (None, None)
        line, = axes.plot(xs, [row[count + i] for row in table.rows], label=label, color=color, ls=style)
        spread = [point[i] for point in table.spreads]
        if spread and all(each is not None and len(each) == 2 and None not in each for each in spread):
            axes.fill_between(xs, *zip(*spread), alpha=0.15, color=line.get_color())
    axes.legend()
    axes.set_xlabel(benchmark.xlabel or benchmark.x_names[0])
    axes.set_ylabel(benchmark.ylabel)
    axes.set_xscale("log" if benchmark.x_log else "linear")
    axes.set_yscale("log" if benchmark.y_log else "linear")
    if folder:
        figure.savefig(os.path.join(folder, f"{benchmark.plot_name}.png"))
    if is_shown:
        plt.show()
    plt.close(figure)
    return bool(folder)


def _write_page(folder, pictures):
    import html
    with open(os.path.join(folder, "results.html"), "w") as page:
        images = "".join(f'<img src="{html.escape(name)}.png"/>\n' for name in pictures)
        page.write(f"<html><body>\n{images}</body></html>\n")
