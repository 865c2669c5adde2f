# SPDX-License-Identifier: Apache-2.0
"""Rows of bench/compiler: what the compiler's steps take on the lessons' kernels.

The program's path stands in LIBTILE_BENCH_COMPILER, as ./dev bench sets it. Each row is the median of
five runs; ns_per_op divides by tokens (lex, parse) or by the ops that the step finds.
"""
import json
import os
import re
import subprocess
from pathlib import Path

TUTORIALS = Path(__file__).resolve().parent.parent / "python" / "tutorials"


def rows(device, wanted):
    command = [os.environ["LIBTILE_BENCH_COMPILER"], TUTORIALS]
    names = subprocess.run([*command, "--benchmark_list_tests"], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        if not wanted.search(f"{device}/{name}"):
            continue
        result = subprocess.run([*command, f"--benchmark_filter=^{re.escape(name)}$", "--benchmark_format=json",
                                 "--benchmark_repetitions=5", "--benchmark_min_time=0.02"],
                                capture_output=True, text=True)
        row = {"name": f"{device}/{name.removesuffix('/manual_time')}"}
        if result.returncode != 0:
            yield {**row, "error": result.stderr[-500:]}
            continue
        median = next(each for each in json.loads(result.stdout)["benchmarks"]
                      if each.get("aggregate_name") == "median")
        scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[median["time_unit"]]
        yield {**row, "ours_s": median["real_time"] * scale, "ns_per_op": median["per_op"] * 1e9}
