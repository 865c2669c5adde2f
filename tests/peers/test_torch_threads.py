# SPDX-License-Identifier: Apache-2.0
"""Launches on the threads of torch's operators, wherever that may be: each script in a process of its own, two threads a team."""
import os

import processes
import pytest

KERNELS = """
import os, signal, sys, threading, time, types
import numpy as np
import torch

torch.set_num_threads(2)

def use_torch():
    big = torch.arange(1 << 20, dtype=torch.float32)
    assert float(torch.add(big, 1.0)[-1]) == 1 << 20

def tasks():
    return len(os.listdir("/proc/self/task"))

def load():
    import libtile, libtile.language as tl

    @libtile.jit
    def scale(x, out, n, factor, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

    @libtile.jit
    def add_tiny(x, out, n, tiny, TINY: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n) + tiny + TINY, mask=i < n)

    @libtile.jit
    def wait_from(flag, out):
        value = tl.load(flag, volatile=True)
        while value == 0:
            value = tl.load(flag, volatile=True)
        tl.store(out + tl.program_id(0), value)

    @libtile.jit
    def meet(inside, met, turns):
        # Programs but the first wait until two of them are under way at once, though not for ever.
        seen = 2
        if tl.program_id(0) > 0:
            seen = tl.atomic_add(inside, 1) + 1
            turn = 0
            while (turn < turns) & (seen < 2):
                seen = tl.atomic_add(inside, 0)
                turn += 1
            for _ in range(20_000):  # so that it seems worth sharing
                seen = tl.atomic_add(inside, 0)
        tl.store(met + tl.program_id(0), (seen >= 2).to(tl.int32))

    def check(factor=3.0):
        x = torch.arange(1_000_000, dtype=torch.float32)
        out = torch.zeros_like(x)
        for _ in range(3):
            scale[(1000,)](x, out, x.numel(), factor, BLOCK=1024)
            assert torch.equal(out, x * factor)

    def check_shared():
        # The first launch finds out that these programs last.
        for turns in (10_000_000, 2_000_000_000):
            met = torch.zeros(64, dtype=torch.int32)
            meet[(64,)](torch.zeros(1, dtype=torch.int32), met, turns)
        assert bool(met.all())

    return libtile, types.SimpleNamespace(scale=scale, wait_from=wait_from, add_tiny=add_tiny), check, check_shared
"""


def start(tmp_path, text, kernels=KERNELS, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("LIBTILE_NUM_THREADS", "OMP_NUM_THREADS")}
    return processes.start(tmp_path / "script.py", kernels + text, environment={**kept, "LIBTILE_OPENMP": "1", **environment})


def finish(process):
    return processes.finish(process, timeout=120)


@pytest.mark.parametrize("asked, more", [("", 1), ("2", 1), ("3", 3)])
def test_launches_need_no_more_threads_than_torch(tmp_path, asked, more):
    """Unless another number is asked for; the watcher of launches that last is one in any case."""
    finish(start(tmp_path, f"""
use_torch()
libtile, kernels, check, check_shared = load()
before = tasks()
check()
check_shared()
assert tasks() - before <= {more}, (before, tasks())
torch.set_num_threads(4)
check()
libtile.set_num_threads(5)
assert libtile.num_threads() == 5
check_shared()
torch.set_num_threads(5)
check_shared()
""", **({"LIBTILE_NUM_THREADS": asked} if asked else {})))


def test_launches_in_turns_with_operators(tmp_path):
    """Nobody says where they are to run."""
    finish(start(tmp_path, """
libtile, kernels, check, check_shared = load()
for turn in range(200):
    use_torch()
    check(float(turn))
    if turn % 50 == 0:
        check_shared()
""", LIBTILE_OPENMP=""))


def test_torch_comes_later(tmp_path):
    """It is found once it has been loaded."""
    finish(start(tmp_path, """
import os
import numpy as np
import libtile, libtile.language as tl

@libtile.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

def tasks():
    return len(os.listdir("/proc/self/task"))

x, out = np.arange(1_000_000, dtype=np.float32), np.zeros(1_000_000, np.float32)
scale[(1000,)](x, out, x.size, 2.0, BLOCK=1024)
import torch
torch.set_num_threads(7)
before = tasks()
for _ in range(3):
    scale[(1000,)](x, out, x.size, 3.0, BLOCK=1024)
assert (out == 3 * x).all()
assert tasks() - before >= 6, "the team begins with the launch"
""", kernels=""))


@pytest.mark.parametrize("loads", ["before the fork", "in the child"])
def test_a_forked_child_has_no_team(tmp_path, loads):
    """Torch's threads are not there; GNU's OpenMP waits for them for ever."""
    finish(start(tmp_path, f"""
use_torch()
loads = {loads!r}
if loads == "before the fork":
    libtile, kernels, check, check_shared = load()
    check_shared()
child = os.fork()
if child == 0:
    signal.alarm(60)
    if loads == "in the child":
        libtile, kernels, check, check_shared = load()
    libtile.set_num_threads(2)
    check_shared()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
if loads == "before the fork":
    check_shared()
    use_torch()
"""))


def test_control_c_ends_a_launch(tmp_path):
    process = start(tmp_path, """
libtile, kernels, check, check_shared = load()
use_torch()
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("ready", flush=True)
    kernels.wait_from[(64,)](torch.zeros(1, dtype=torch.int32), torch.zeros(64, dtype=torch.int32))
except KeyboardInterrupt:
    check()
    use_torch()
    print("interrupted")
""")
    processes.interrupt(process, after=1)
    assert finish(process) == "interrupted\n"


def test_handlers_use_torch_and_launch(tmp_path):
    process = start(tmp_path, """
libtile, kernels, check, check_shared = load()
flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
def handle(number, frame):
    use_torch()
    check()
    flag[0] = 5
signal.signal(signal.SIGINT, handle)
use_torch()
print("ready", flush=True)
kernels.wait_from[(64,)](flag, out)
assert bool((out == 5).all())
""")
    processes.interrupt(process, after=1)
    finish(process)


def test_threads_launch_beside_the_first_one(tmp_path):
    finish(start(tmp_path, """
libtile, kernels, check, check_shared = load()
wrong = []
def work():
    try:
        for _ in range(50):
            check()
            use_torch()
    except BaseException as error:
        wrong.append(error)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(50):
    check()
    use_torch()
for thread in threads:
    thread.join()
assert not wrong, wrong
"""))


def test_flushed_numbers_stay_torchs(tmp_path):
    """Threads that torch has told to flush tiny numbers to zero do not in kernels, and do again behind them; nor does
    what is compiled, or given, become zero."""
    finish(start(tmp_path, """
assert torch.set_flush_denormal(True)
use_torch()
libtile, kernels, check, check_shared = load()
x = torch.full((1_000_000,), 2.0 ** -120)
out = torch.zeros_like(x)
for _ in range(3):
    kernels.scale[(1000,)](x, out, x.numel(), 2.0 ** -20, BLOCK=1024)
    assert bool((out.view(torch.int32) == 1 << 9).all()), out.view(torch.int32)
    assert float(torch.mul(x, 2.0 ** -20).view(torch.int32).max()) == 0
x.zero_()
for _ in range(3):
    kernels.add_tiny[(1000,)](x, out, x.numel(), 2.0 ** -140, TINY=2.0 ** -141, BLOCK=1024)
    assert bool((out.view(torch.int32) == 3 << 8).all()), out.view(torch.int32)
""", LIBTILE_CACHE="0"))
