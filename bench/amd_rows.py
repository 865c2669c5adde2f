# SPDX-License-Identifier: Apache-2.0
"""Rows of AMD's targets: the lessons' inner loops by libtile and by Triton, read and modelled (amd/README.md), and compile times.

amd/<kernel>/<target> with ours and theirs (instructions by class for a unit of work, modelled cycles, resources, and LDS' bank
conflicts where the emulator counts them), cycles_ratio and compile_ratio (theirs/ours: above 1 ours is better), and over: the classes
of which ours has more than 1.1 times Triton's.
"""
import statistics
import time

from amd import cases, emulated, model
from amd.table import summed, table

ROUNDS = 3


def _timed(make):
    start = time.perf_counter()
    made = make()
    return made, time.perf_counter() - start


def row(case, target, triton):
    source = triton.source(case)
    seconds = {"ours": [], "theirs": []}
    # The first of either is warm-up: what it loads is loaded once a process.
    for _ in range(ROUNDS + 1):
        ours, taken = _timed(lambda: cases.ours(case, target))
        seconds["ours"].append(taken)
        theirs, taken = _timed(lambda: triton.compile(source, target))
        seconds["theirs"].append(taken)
    ours_s, peer_s = (statistics.median(each[1:]) for each in seconds.values())
    text, shared, work = ours.asm["asm"], theirs.metadata.shared, (target, cases.THREADS, case.flops, case.loads)
    images = {"ours": (emulated.code_object(text, target), ours.metadata["symbol"]), "theirs": (theirs.asm["hsaco"], theirs.metadata.name)}
    sides = {"ours": model.analysed(text, *work), "theirs": model.analysed(theirs.asm["amdgcn"], *work, lds_bytes=shared)}
    for side, (image, name) in images.items():  # Triton's LDS is the launch's
        sides[side]["lds"] = emulated.lds_of_unit(image, name, case, target, cases.THREADS, shared if side == "theirs" else 0)
    made = {"peer": "triton", **sides, "cycles_ratio": round(sides["theirs"]["cycles"] / sides["ours"]["cycles"], 3),
            "over": model.exceeding(**sides), "ours_s": ours_s, "peer_s": peer_s, "compile_ratio": round(peer_s / ours_s, 2)}
    return made | ({"error": f"the kernel took a fallback: {ours.fallbacks}"} if ours.fallbacks else {})


def rows(device, wanted):
    triton = cases.Triton()
    for target in cases.TARGETS:
        for case in cases.cases(target):
            name = f"{device}/{case.name}/{target}"
            if wanted.search(name):
                try:
                    yield {"name": name, **row(case, target, triton)}
                except Exception as error:  # a broken row must not hide the others
                    yield {"name": name, "error": f"{type(error).__name__}: {error}"[:500]}


def summary(found):
    whole = [each for each in found if "ours" in each]
    return f"{table(whole)}\n{summed(whole)}"
