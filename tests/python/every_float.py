# SPDX-License-Identifier: Apache-2.0
"""The largest errors of functions of floats, in units of the last place, and where they are: of those of one fp32 over
every bit pattern (every_float_one.py), of those of two over special and random pairs (every_float_two.py).

    python tests/python/every_float.py exp log --every 997      # two of them, a sample
    python tests/python/every_float.py --device cuda --all      # all of them, and a table of what was found
"""
import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import every_float_one
import every_float_two


def sweep(name, options):
    if name in every_float_one.FUNCTIONS:
        return every_float_one.sweep(name, options.device, options.every, options.part)
    return every_float_two.sweep(name, options.device, options.pairs, options.beside_numpy)


def told(name, options):
    start = time.time()
    findings = sweep(name, options)
    for dtype, finding in findings.items():
        print(f"{name} ({dtype}): {finding}; {time.time() - start:.0f} s", flush=True)
    return findings


def table(found):
    """A row a function: the largest errors, and in brackets what they may be."""
    lines = ["| function | fp32 | fp64 |", "|---|---|---|"]
    for name, findings in found.items():
        cells = [f"{findings[dtype].most:.3f} ({findings[dtype].bound:g})" if dtype in findings else ""
                 for dtype in ("fp32", "fp64")]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    known = [*every_float_one.FUNCTIONS, *every_float_two.FUNCTIONS]
    parser = argparse.ArgumentParser()
    parser.add_argument("functions", nargs="*", choices=[*known, []], metavar="function")
    parser.add_argument("--all", action="store_true", help="all functions, and a table")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every", type=int, default=1, help="of so many bit patterns one is taken")
    parser.add_argument("--part", type=int, default=every_float_one.PART,
                        help="of so many of these one is compared with long double")
    parser.add_argument("--pairs", type=int, default=10**8, help="random pairs beside fp64")
    parser.add_argument("--beside-numpy", type=int, default=10**6, help="random pairs beside NumPy")
    parser.add_argument("--jobs", type=int, default=0, help="functions at a time; 0: as many as there are cores on a GPU, else 1")
    options = parser.parse_args()
    jobs = options.jobs or (1 if options.device == "cpu" else os.cpu_count())
    names = known if options.all else options.functions
    with ThreadPoolExecutor(jobs) as pool:
        found = dict(zip(names, pool.map(lambda name: told(name, options), names)))
    if options.all:
        print(table(found))
    sys.exit(0 if all(finding.good for findings in found.values() for finding in findings.values()) else 1)


if __name__ == "__main__":
    main()
