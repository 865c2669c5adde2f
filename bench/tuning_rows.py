# SPDX-License-Identifier: Apache-2.0
"""The row of tuning: seconds that autotuning the matmul of the lesson takes, measuring not counted, beside Triton's.

Both tune the same source over the same configurations, in a process of its own with nothing compiled before. The
`do_bench` of both makes one launch and says that it took no time, so what is left is compiling, loading and choosing.

    python bench/tuning_rows.py ours|triton        the seconds of one tuning
"""
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time

CONFIGS = [({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}, {"num_warps": warps, "num_stages": stages})
           for m, n, k, warps, stages in itertools.product((64, 128), (64, 128), (32, 64), (4, 8), (3, 4))]
ROUNDS = 3


def launched_once(call, quantiles):
    call()
    return [0.0] * len(quantiles)


def tuning_seconds(who):
    import kernels
    import torch
    if who == "ours":
        import libtile as language
        kernel = kernels.matmul.matmul
    else:
        import triton as language
        kernel = kernels.triton_twin(kernels.matmul.matmul)
    size = 512
    a, b, c = (torch.zeros(size, size, device="cuda", dtype=torch.float16) for _ in range(3))
    configs = [language.Config(constants, **options) for constants, options in CONFIGS]
    tuned = language.autotune(configs, key=["M", "N", "K"], do_bench=launched_once)(kernel)
    torch.cuda.synchronize()
    start = time.perf_counter()
    tuned[lambda meta: (-(-size // meta["BLOCK_M"]) * -(-size // meta["BLOCK_N"]),)](
        a, b, c, size, size, size, size, 1, size, 1, size, 1)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _in_new_process(who):
    with tempfile.TemporaryDirectory() as folder:
        # Neither the caches of the two nor the driver's own may know the kernels.
        environment = {**os.environ, "CUDA_CACHE_DISABLE": "1", "TRITON_CACHE_DIR": folder, "LIBTILE_CACHE_DIR": folder}
        out = subprocess.run([sys.executable, __file__, who], capture_output=True, text=True, env=environment)
        if out.returncode != 0:
            raise RuntimeError(out.stderr[-500:])
        return float(out.stdout.strip().splitlines()[-1])


def row():
    ours, theirs = zip(*[(_in_new_process("ours"), _in_new_process("triton")) for _ in range(ROUNDS)])
    ratios = [b / a for a, b in zip(ours, theirs)]
    ratio = statistics.median(ratios)
    return {"peer": "triton", "ours_s": statistics.median(ours), "peer_s": statistics.median(theirs),
            "ratio": round(ratio, 4), "spread": round((max(ratios) - min(ratios)) / ratio, 4)}


if __name__ == "__main__":
    print(tuning_seconds(sys.argv[1]))
