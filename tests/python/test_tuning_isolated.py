# SPDX-License-Identifier: Apache-2.0
"""isolate=True: configurations measured in a process of its own, which may crash, hang or refuse."""
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import libtile
import libtile.language as tl
from libtile import Config


def configs(*blocks):
    return [Config({"BLOCK": block}) for block in blocks]


@libtile.constexpr_function
def trap(block):
    """What a broken compiler could do with a configuration."""
    if block == 32:
        os.abort()
    if block == 64:
        time.sleep(1000)
    if block == 128:
        os._exit(7)
    return block


isolated = {"isolate": True, "warmup": 1, "rep": 1}


@libtile.autotune(configs(16, 32, 64, 128, 256), ["n"], time_limit=10, **isolated)
@libtile.jit
def trapped(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + trap(BLOCK) * 0, mask=i < n)


@libtile.autotune(configs(16, 32), ["n"], reset_to_zero=["out"], restore_value=["count"], **isolated)
@libtile.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@libtile.jit
def strided(x, row, column, out, count, n, scale=2, BLOCK: tl.constexpr = 16, EVEN: tl.constexpr = False):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.static_assert(EVEN)
    v = tl.load(x + i * row, mask=i < n) + tl.load(x + i * row + column, mask=i < n)
    tl.store(out + i, tl.load(out + i, mask=i < n) + v * scale, mask=i < n)
    tl.atomic_add(count, 1)


@libtile.autotune(configs(16, 32, 64), [], **isolated)
@libtile.jit
def refusing(out, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK != 32, "not with 32")
    tl.store(out + tl.arange(0, BLOCK), BLOCK)


@libtile.autotune(configs(16, 32), [], **isolated)
@libtile.jit
def far(out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK) + (1 << 40), BLOCK)


def test_crashes_and_hangs_are_skipped_and_named():
    x, out = np.arange(100).astype("f4"), np.zeros(100, "f4")
    trapped[lambda meta: (libtile.cdiv(meta["n"], meta["BLOCK"]),)](x, out, 100)
    assert (out == x).all() and trapped.best_config.kwargs["BLOCK"] in (16, 256)
    reasons = {config.kwargs["BLOCK"]: reason for config, reason in trapped.skipped.items()}
    assert reasons == {32: "the process that measured it ended with signal SIGABRT",
                       64: "it takes longer than 10 s to compile and measure",
                       128: "the process that measured it ended with code 7"}
    times = {config.kwargs["BLOCK"]: each for config, each in trapped.configs_timings.items()}
    assert 0 < times[16][1] <= times[16][0] <= times[16][2] < np.inf == times[32][0]


def test_the_child_has_strided_arrays_and_its_own_memory():
    x = np.arange(400).reshape(100, 4).astype("f4")[::-1, 1:3]
    out, count = np.full(100, 7, "f4"), np.zeros(1, "i4")
    strided[lambda meta: (libtile.cdiv(100, meta["BLOCK"] * meta["scale"] // 2),)](
        x, x.strides[0] // 4, x.strides[1] // 4, out, count, 100)
    assert (out == x.sum(axis=1) * 2).all()
    assert count[0] == libtile.cdiv(100, strided.best_config.kwargs["BLOCK"])


def test_what_does_not_compile_is_skipped():
    out = np.zeros(64, "i4")
    refusing[(1,)](out)
    assert out[0] in (16, 64) and list(refusing.skipped) == [refusing.configs[1]]
    assert "not with 32" in refusing.skipped[refusing.configs[1]]


@pytest.mark.not_interpreted("a store out of bounds is an error there")
def test_a_kernel_that_crashes_always_is_an_error():
    with pytest.raises(libtile.Error, match="the process that measured it ended with signal SIGSEGV"):
        far[(1,)](np.zeros(64, "i4"))


def test_what_another_process_cannot_name_is_refused():
    def local(out, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), BLOCK)

    kernel = libtile.autotune(configs(16, 32), [], **isolated)(libtile.jit(local))
    with pytest.raises(ValueError, match="isolate: no name leads to '.*local' from another process"):
        kernel[(1,)](np.zeros(64, "i4"))
    for more in ({"do_bench": print}, {"use_cuda_graph": True}):
        with pytest.raises(ValueError, match="it goes with neither do_bench nor use_cuda_graph"):
            libtile.autotune(configs(16, 32), [], isolate=True, **more)(kernel.fn)


SCRIPT = """
import numpy as np, libtile
import libtile.language as tl

@libtile.autotune([libtile.Config({"BLOCK": b}) for b in (16, 32)], [], isolate=True, warmup=1, rep=1)
@libtile.jit
def fill(out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), BLOCK)

%s
    out = np.zeros(32, "i4")
    fill[(1,)](out)
    print("filled", out[0], len(fill.skipped))
"""


@pytest.mark.parametrize("begin", ['if __name__ == "__main__":', "if True:"])
def test_scripts_and_their_main(begin, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT % begin)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    if "__name__" in begin:
        assert done.returncode == 0 and done.stdout in ("filled 16 0\n", "filled 32 0\n"), done.stderr
    else:
        assert done.returncode != 0 and 'begins its own work under `if __name__ == "__main__":`' in done.stderr
