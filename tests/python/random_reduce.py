# SPDX-License-Identifier: Apache-2.0
"""Shrinks a random kernel (random_kernels.py) that one device computes otherwise than the CPU: lines are left out, many
at a time and then one by one, as long as the two still differ.

    python tests/python/random_reduce.py --device cuda --seed 17 --steps 40

Each trial runs in a process of its own that may hang or lose its device; what the checked mode of the CPU refuses is no
trial: a kernel without some of its lines may well leave its arrays. A device that is lost, by an assertion that holds on
the CPU for example, is a difference as well; assertions go first where others remain.
"""
import argparse
import multiprocessing
import re
import sys
import tempfile
import time

import numpy as np
import random_kernels
from spine import OnDevice, fitted

import libtile

PATIENCE = 60  # seconds for a trial


def launched(kernel, made, device, **options):
    on = OnDevice(device)
    arguments = [on(np.copy(a)) if isinstance(a, np.ndarray) else a for a in made.arguments.values()]
    kernel[(1,)](*arguments, **fitted({**made.options, **options}, device))
    return {name: on.back(held) for name, held, was in zip(made.arguments, arguments, made.arguments.values())
            if isinstance(was, np.ndarray)}


def difference(made, text, device, folder, number):
    """Names of the arrays that the two devices leave differently; '': none, or it is no kernel."""
    try:
        kernel = random_kernels.kernel_of(text, folder, number)
        with np.errstate(all="ignore"):
            launched(kernel, made, "cpu", check=True)
            want = launched(kernel, made, "cpu")
    except Exception:  # too much is left out
        return ""
    try:
        got = launched(kernel, made, device)
    except libtile.UnsupportedError:
        return ""
    return " ".join(name for name in want if not np.array_equal(want[name], got[name], equal_nan=want[name].dtype.kind == "f"))


def work(connection, options):
    with np.errstate(all="ignore"):
        made = random_kernels.Kernel(options.seed, options.steps, options.kinds)
    with tempfile.TemporaryDirectory() as folder:
        number = 0
        while True:
            number += 1
            text = connection.recv()
            try:
                connection.send((difference(made, text, options.device, folder, number), False))
            except libtile.DeviceError as error:  # no call of this process works again
                connection.send((str(error), True))


class Trials:
    def __init__(self, options):
        self.options, self.process = options, None

    def __call__(self, text):
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.connection, theirs = context.Pipe()
            self.process = context.Process(target=work, args=(theirs, self.options), daemon=True)
            self.process.start()
            theirs.close()
        try:
            self.connection.send(text)
            found, lost = self.connection.recv() if self.connection.poll(PATIENCE) else ("", True)
        except (EOFError, OSError):
            found, lost = "", True
        if lost:
            self.process.kill()
            self.process = None
        return found


def without(lines, differs, until):
    """As few of the lines as still differ, not all combinations tried."""
    size = max(1, len(lines) // 2)
    while True:
        start, shrank = 0, False
        while start < len(lines) and time.time() < until:
            fewer = lines[:start] + lines[start + size:]
            if differs(fewer):
                lines, shrank = fewer, True
            else:
                start += size
        if time.time() >= until or (size == 1 and not shrank):
            return lines
        size = size if size == 1 else size // 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--kinds", type=lambda text: text.split(","))
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    with np.errstate(all="ignore"):
        made = random_kernels.Kernel(options.seed, options.steps, options.kinds)
    differs = Trials(options)
    if not differs(made.text):
        sys.exit(f"seed {options.seed}: {options.device} and the CPU agree")
    silent = re.sub(r"tl\.device_assert\(.*", "pass", made.text)
    start = silent if differs(silent) else made.text
    found = without(start.splitlines(), lambda lines: differs("\n".join(lines) + "\n"), time.time() + options.seconds)
    text = "\n".join(found) + "\n"
    print(f"seed {options.seed}, what differs: {differs(text)}\n{made.options}\n{text}")
    for name, value in made.arguments.items():
        if text.count(name) > 1:
            print(f"{name} = {f'array of {value.shape} {value.dtype}' if isinstance(value, np.ndarray) else value}")


if __name__ == "__main__":
    main()
