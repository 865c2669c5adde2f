# SPDX-License-Identifier: Apache-2.0
"""Rows of the kernels beside their peers, and the budgets' rows."""
import budgets
import kernels
import libtile
import measure

LEAST_GIVEN = 0.5  # of the peer's time, where a configuration is given to both, whatever it asks for


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
    row = {"name": case.name, "peer": case.peer, **_times(prepared, device, case.timing), "path": path, **prepared.more}
    if prepared.config:
        row["config"] = prepared.config
    prepared.check()
    if case.given:
        if row.get("ratio", 1) < LEAST_GIVEN:
            row["error"] = f"below {LEAST_GIVEN} of the peer with the same configuration"
    elif "fallback:" in row["path"]:
        row["error"] = "the kernel took a fallback"
    return row


def _times(prepared, device, timing):
    if prepared.peer is None:
        return {"ours_s": measure.interleaved(prepared.ours, prepared.ours, device, **timing)["ours_s"]}
    return measure.interleaved(prepared.ours, prepared.peer, device, **timing)


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
