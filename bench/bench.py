# SPDX-License-Identifier: Apache-2.0
"""./dev bench: one JSON line a row, ours beside the peer in one run.

    bench.py [--device cpu|cuda] [--only REGEX] [--json FILE]

Rows: device/kernel/dtype/size with ours_s, peer_s, ratio (peer/ours: above 1 we are faster), spread
and path (target, fallbacks); */launch, */compile/*, time/* with ours_s; size/* with bytes. A wrong
number, or a row on a fallback, makes the exit status 1.
"""
import argparse
import json
import re
import sys

import budgets
import kernels
import libtile
import measure


class Kept:
    """Stands for a jit function in its lesson during one call, and keeps the kernel of the launch."""

    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        launch = self.function[grid]

        def kept(*args, **options):
            self.kernel = launch(*args, **options)
            return self.kernel
        return kept


def path_of(lesson, call):
    """What the call runs on: the target, and every fallback that the kernel took."""
    name = next(name for name, value in vars(lesson).items() if isinstance(value, libtile.JITFunction))
    function = getattr(lesson, name)
    kept = Kept(function)
    setattr(lesson, name, kept)
    try:
        call()
    finally:
        setattr(lesson, name, function)
    return " ".join([kept.kernel.target] + [f"fallback: {text}" for text in kept.kernel.fallbacks])


def measure_case(case, device):
    prepared = case.prepare()
    path = path_of(prepared.lesson, prepared.ours)
    prepared.check()
    row = {"name": case.name, "peer": case.peer,
           **measure.interleaved(prepared.ours, prepared.peer, device),
           "path": path}
    prepared.check()
    if "fallback:" in row["path"]:
        row["error"] = "the kernel took a fallback"
    return row


def rows(device, wanted):
    for case in kernels.cases(device):
        if wanted.search(case.name):
            try:
                yield measure_case(case, device)
            except Exception as error:  # a broken row must not hide the others
                yield {"name": case.name, "error": f"{type(error).__name__}: {error}"[:500]}
    for name, make in budgets.rows(device):
        if wanted.search(name):
            try:
                yield {"name": name, **make()}
            except Exception as error:
                yield {"name": name, "error": f"{type(error).__name__}: {error}"[:500]}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--json", metavar="FILE", help="append the rows to this file")
    options = parser.parse_args()
    failed = False
    for row in rows(options.device, re.compile(options.only)):
        line = json.dumps(row, ensure_ascii=False)
        print(line, flush=True)
        if options.json:
            with open(options.json, "a") as out:
                out.write(line + "\n")
        failed |= "error" in row
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
