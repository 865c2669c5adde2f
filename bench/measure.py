# SPDX-License-Identifier: Apache-2.0
"""Timing two callables side by side, and what one benchmark row is.

A row is measured in rounds; each round times ours and the peer one after the other, in alternating
order, for about the same time. The ratio is the median of the rounds' peer/ours, so drifting clocks
and noisy neighbours hit both sides; the spread is (p90 - p10) / median of those ratios.

On a CPU each side runs untimed first, for as long as threads of the other's library wait busily for work behind its last call.

On a GPU launches wait behind one that sleeps until the host has made them all: the time is the GPU's, of one call behind the other.
What a launch takes of the host has rows of its own (launch, launch_torch).
"""
import statistics
import time


LONG = 1.0  # seconds
BUSY = 0.02  # seconds that libgomp's threads, which are torch's, wait busily: 300,000 pauses of 20 to 60 ns


def _wall(fn, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        fn()
    return (time.perf_counter() - start) / repeats


QUEUED = 200  # calls behind one sleep: a queue takes 1,024 launches, and a call may be several
FASTEST = 2e9  # Hz: a GPU's clock, or more
ASLEEP = 0.02  # seconds at most


def _cuda(fn, repeats):
    import torch
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    taken = 0.0
    for first in range(0, repeats, QUEUED):
        calls = min(QUEUED, repeats - first)
        torch.cuda._sleep(int(FASTEST * min(1.5 * calls * _host(fn), ASLEEP)))
        begin.record()
        for _ in range(calls):
            fn()
        end.record()
        end.synchronize()
        taken += begin.elapsed_time(end) * 1e-3
    return taken / repeats


def _host(fn):
    """Seconds that the host takes for a call."""
    import torch
    torch.cuda.synchronize()
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def _settle(fn):
    end = time.perf_counter() + BUSY
    while time.perf_counter() < end:
        fn()


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def interleaved(ours, peer, device, rounds=15, round_seconds=0.1):
    """Seconds of one call of each (medians), ratio and spread."""
    clock = _cuda if device == "cuda" else _wall
    repeats = []
    for fn in (ours, peer):
        once = clock(fn, 1)
        if once < LONG:  # else the first call of all counts, too
            once = min(clock(fn, 1) for _ in range(3))
        repeats.append(max(1, min(1000, int(round_seconds / max(once, 1e-7)))))
    times = [[], []]
    for i in range(rounds):
        sides = [(0, ours), (1, peer)]
        for side, fn in sides if i % 2 == 0 else sides[::-1]:
            if clock is _wall:
                _settle(fn)
            times[side].append(clock(fn, repeats[side]))
    ratios = [b / a for a, b in zip(*times)]
    ratio = statistics.median(ratios)
    return {"ours_s": statistics.median(times[0]), "peer_s": statistics.median(times[1]),
            "ratio": round(ratio, 4),
            "spread": round((quantile(ratios, 0.9) - quantile(ratios, 0.1)) / ratio, 4)}


def alone(fn, repeats, rounds=15, before=None):
    """Median seconds of one call of fn."""
    times = []
    for _ in range(rounds):
        if before:
            before()
        times.append(_wall(fn, repeats))
    return statistics.median(times)
