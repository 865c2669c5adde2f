# SPDX-License-Identifier: Apache-2.0
"""Launches beside other threads, signals, forks and the end of the interpreter: each in a process of its own."""
import time

import processes
import pytest
from processes import finish, interrupt

KERNELS = """
import os, signal, sys, threading, time
import numpy as np
import libtile, libtile.language as tl

@libtile.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

@libtile.jit
def wait_from(flag, out, quick):
    '''Programs from `quick` on wait for the flag.'''
    program = tl.program_id(0)
    value = 1
    if program >= quick:
        value = tl.load(flag, volatile=True)
        while value == 0:
            value = tl.load(flag, volatile=True)
    tl.store(out + program, value)

@libtile.jit
def meet_from(inside, met, quick, turns):
    '''Programs from `quick` on wait until two of them are under way at once, but not for ever.'''
    program = tl.program_id(0)
    if program >= quick:
        seen = tl.atomic_add(inside, 1) + 1
        turn = 0
        while (turn < turns) & (seen < 2):
            seen = tl.atomic_add(inside, 0)
            turn += 1
        tl.store(met + program, (seen >= 2).to(tl.int32))
        tl.atomic_add(inside, -1)

@libtile.jit
def count_to(out, n):
    total = tl.full((), 0, tl.int64)
    for i in range(n):
        total ^= (i * total + 1)
    tl.store(out, total)

def check_pool():
    x, out = np.arange(100_000, dtype=np.float32), np.zeros(100_000, np.float32)
    scale[(1000,)](x, out, x.size, 3.0, BLOCK=100)
    assert (out == 3 * x).all()

flag = np.zeros(1, np.int32)
# Ignored by those whom a shell runs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


@pytest.fixture
def script(tmp_path):
    """Starts a script behind the kernels above."""
    def start(text, *arguments):
        return processes.start(tmp_path / "script.py", KERNELS + text, *arguments)
    return start


# ---- the end of the interpreter

DAEMONS = """
def work(k, kind):
    x, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    turn = 0
    while True:
        turn += 1
        mode = turn % 3 if kind == "all" else ["short", "long", "compile"].index(kind)
        block = 1024 + k * 1000 + turn % 900 if mode == 2 else 1024
        scale[(5000 if mode == 1 else 1,)](x, out, 1024, 2.0, BLOCK=block)

for k in range(8):
    threading.Thread(target=work, args=(k, sys.argv[1]), daemon=True).start()
time.sleep(0.3)
"""


@pytest.mark.parametrize("kind", ["short", "long", "compile", "all"])
def test_daemon_threads_launch_while_the_interpreter_ends(script, kind):
    for _ in range(4):
        finish(script(DAEMONS, kind))


# ---- jobs whose first programs say nothing of the others

@pytest.mark.not_interpreted("its programs run one after the other")
def test_late_work_is_shared(script):
    """First launches and later ones, after many that were short."""
    finish(script("""
libtile.set_num_threads(2)
for warm in (0, 50):
    inside, met = np.zeros(1, np.int32), np.zeros(64, np.int32)
    for _ in range(warm):
        meet_from[(64,)](inside, met, 64, 1 << 20)
    for _ in range(2):
        met[:] = 0
        meet_from[(64,)](inside, met, 16, 1 << 20)
        assert met.sum() >= 2, met
"""))


def test_other_python_threads_run_during_late_work(script):
    """The launch ends when another Python thread says so."""
    finish(script("""
def release():
    time.sleep(0.05)
    flag[0] = 1

out = np.zeros(64, np.int32)
for quick in (16, 64, 64, 64, 16, 16):
    flag[0] = 0
    thread = threading.Thread(target=release)
    thread.start()
    wait_from[(64,)](flag, out, quick)
    thread.join()
    assert (out == 1).all()
"""))


# ---- signals

LAUNCHES = {
    "one endless program": "wait_from[(1,)](flag, out, 0)",
    "endless programs": "wait_from[(64,)](flag, out, 0)",
    "an endless program late in a short job": """
for _ in range(20):
    wait_from[(64,)](flag, out, 64)
wait_from[(64,)](flag, out, 20)""",
    "many programs": "count_to[(2_000_000_000,)](np.zeros(1, np.int64), 100)",
    "a long loop": "count_to[(1,)](np.zeros(1, np.int64), 1 << 60)",
}


RACES = pytest.mark.not_interpreted("it names the element that all programs write as a fault")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("launch", [pytest.param(name, marks=RACES if name == "many programs" else ()) for name in LAUNCHES])
def test_control_c_ends_a_launch(script, launch, threads):
    body = "\n    ".join(LAUNCHES[launch].strip().splitlines())
    process = script(f"""
libtile.set_num_threads({threads})
out = np.zeros(64, np.int32)
wait_from[(64,)](flag, out, 64)
count_to[(1,)](np.zeros(1, np.int64), 10)
try:
    print("ready", flush=True)
    {body}
except KeyboardInterrupt:
    check_pool()
    print("interrupted")
""")
    interrupt(process, after=0.3)
    start = time.monotonic()
    assert finish(process) == "interrupted\n"
    # A second, and four for a busy machine: checks and the end of the process are in it.
    assert time.monotonic() - start < 5


def test_handlers_run_during_a_launch(script):
    """One that returns lets the launch go on; it may launch, too."""
    process = script("""
def handle(number, frame):
    check_pool()
    flag[0] = 5

signal.signal(signal.SIGINT, handle)
out = np.zeros(64, np.int32)
print("ready", flush=True)
wait_from[(64,)](flag, out, 0)
assert (out == 5).all()
""")
    interrupt(process, after=0.3)
    finish(process)


def test_control_c_while_another_thread_launches(script):
    """The main thread gets it; the launch goes on."""
    process = script("""
out = np.zeros(64, np.int32)
thread = threading.Thread(target=lambda: wait_from[(64,)](flag, out, 0))
thread.start()
try:
    print("ready", flush=True)
    while True:
        time.sleep(1)
except KeyboardInterrupt:
    time.sleep(0.2)
    assert thread.is_alive() and (out == 0).all()
    flag[0] = 3
    thread.join()
    assert (out == 3).all()
    print("interrupted")
""")
    interrupt(process, after=0.3)
    assert finish(process) == "interrupted\n"


# ---- forks

def test_forks_during_compiles(script):
    """Others compile without end; a fork waits for those that run, no others; children compile and launch."""
    finish(script("""
compiled = [0] * 6
def work(k):
    x, out = np.zeros(16, np.float32), np.zeros(16, np.float32)
    while True:
        scale[(1,)](x, out, 16, 2.0, BLOCK=16 + k + 10 * compiled[k])
        compiled[k] += 1

for k in range(len(compiled)):
    threading.Thread(target=work, args=(k,), daemon=True).start()
time.sleep(0.2)
for turn in range(6):
    before = sum(compiled)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        check_pool()
        x, out = np.arange(77, dtype=np.float32), np.zeros(77, np.float32)
        scale[(7,)](x, out, 77, 2.0, BLOCK=11)
        inner = os.fork()
        if inner == 0:
            check_pool()
            os._exit(0)
        os._exit(0 if (out == 2 * x).all() and os.waitpid(inner, 0)[1] == 0 else 1)
    during = sum(compiled) - before
    assert os.waitpid(child, 0)[1] == 0
    assert during <= 2 * len(compiled), during
    while sum(compiled) < before + 2 * len(compiled):
        time.sleep(0.01)
"""), timeout=120)
