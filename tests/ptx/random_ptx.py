#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random functions of LLVM IR through our writer of PTX; what a machine for PTX makes of the text, and what the IR means.

    tests/ptx/random_ptx.py build/tests/ptx/write_ptx --count 1000 --seed 7
    tests/ptx/random_ptx.py build/tests/ptx/write_ptx --only 12 --keep folder   # one of them, to look at
"""
import argparse
import random
import subprocess
import sys
from pathlib import Path

from llvm_functions import SHARED, Function
from ptx_machine import Machine, kernels

IN, OUT, MEMORY = 0x7F0000000000, 0x7E0000000000, 0x400


def module(functions):
    declarations = sorted(set().union(*(each.declarations for each in functions)))
    return "\n".join([f"@memory = internal addrspace(3) global [{SHARED} x i8] poison, align 16\n", *declarations,
                      *(each.text() for each in functions)])


def wrong(function, kernel, rng):
    """What is wrong with what the kernel stores; None: nothing."""
    memory = bytearray(rng.randbytes(256))
    out = bytearray(16 * len(function.stored))
    want = function.run(memory)
    try:
        Machine(kernel, [IN, OUT], {IN: memory, OUT: out, MEMORY: bytearray(SHARED)}, {"memory": MEMORY}).run()
    except RuntimeError as error:
        return str(error)
    for at, (type, lanes) in enumerate(want):
        size = type.width // 8
        got = tuple(int.from_bytes(out[16 * at + i * size:16 * at + (i + 1) * size], "little") for i in range(type.count))
        if got != lanes:
            return f"result {at} of {type}: {[hex(each) for each in got]}, not {[hex(each) for each in lanes]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("writer")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    seeds = [options.only] if options.only is not None else range(options.seed, options.seed + options.count)
    functions = [Function(seed, options.steps) for seed in seeds]
    text = module(functions)
    result = subprocess.run([options.writer, options.target], input=text, capture_output=True, text=True)
    if options.keep:
        (options.keep / "functions.ll").write_text(text)
        (options.keep / "functions.ptx").write_text(result.stdout)
    if result.returncode != 0:
        sys.exit(f"the writer fails: {result.stderr}")
    written, failed = kernels(result.stdout), 0
    for seed, function in zip(seeds, functions):
        rng = random.Random(seed)
        for _ in range(3):
            found = wrong(function, written[function.name], rng)
            if found:
                failed += 1
                print(f"---- seed {seed}: {found}", flush=True)
                break
    print(f"{len(functions)} functions, {failed} wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
