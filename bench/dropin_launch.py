# SPDX-License-Identifier: Apache-2.0
"""The row of launches through the drop-in: what they cost beyond libtile's own of the same source and arguments.

    python -m libtile.as_triton bench/dropin_launch.py cpu|cuda    prints the row
"""
import json
import sys
import time

import numpy as np

import libtile
import triton

import libtile.language as tl

LAUNCHES, ROUNDS, BLOCK = 200, 300, 16


def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


def tuned(language, kernel):
    configs = [language.Config({"BLOCK": block}, num_warps=4) for block in (BLOCK, 2 * BLOCK)]
    return language.autotune(configs, key=["n"], do_bench=lambda call, quantiles: (call(), [0.0] * 3)[1])(kernel)


def main(device):
    x, y, out = (libtile.to_device(np.ones(BLOCK, np.float32), device) for _ in range(3))
    kernels = {"own": libtile.jit(add), "dropin": triton.jit(add)}
    kernels |= {"own_tuned": tuned(libtile, kernels["own"]), "dropin_tuned": tuned(triton, kernels["dropin"])}

    def seconds(name):
        kernel, constants = kernels[name], {} if name.endswith("tuned") else {"BLOCK": BLOCK, "num_warps": 4}
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            kernel[(1,)](x, y, out, BLOCK, **constants)
        return (time.perf_counter() - start) / LAUNCHES

    # Side by side; the least of many rounds is that of an idle machine.
    best = {name: seconds(name) for name in kernels}
    for _ in range(ROUNDS):
        for name in kernels:
            best[name] = min(best[name], seconds(name))
        out.numpy()  # waits for the device
    print(json.dumps({"ours_s": best["dropin"], "tuned_s": best["dropin_tuned"],
                      "own_s": best["own"], "own_tuned_s": best["own_tuned"],
                      "extra_us": round((best["dropin"] - best["own"]) * 1e6, 3),
                      "tuned_extra_us": round((best["dropin_tuned"] - best["own"]) * 1e6, 3)}))


main(sys.argv[1])
