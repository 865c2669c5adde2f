# SPDX-License-Identifier: Apache-2.0
"""The best of a list of configurations for one case, as a user's tuner finds it."""
import math
import statistics

import libtile
import measure

FINALISTS = 6  # of a tuner's list; it measures one after the other, while the clock falls by more than what tells them apart


def fitted(language, kernel, configs, key, launch):
    """Keywords of the fastest configuration; `launch(kernel, **keywords)` launches it and gives the compiled kernel.

    Of ours one that takes no fallback, if there is any: where a configuration asks for more stages than there is room for,
    another one asks for what it gets.
    """
    tuner = language.autotune(configs, key=key, warmup=2, rep=15)(kernel)
    launch(tuner)
    timings = {config: timing if isinstance(timing, float) else statistics.median(timing)
               for config, timing in tuner.configs_timings.items()}
    ranked = sorted((config for config, timing in timings.items() if math.isfinite(timing)), key=timings.get)
    if language is libtile:
        plain = [config for config in ranked[:12] if not launch(kernel, **config.all_kwargs()).fallbacks]
        ranked = plain or [tuner.best_config]
    return fastest(kernel, ranked[:FINALISTS], timings, launch).all_kwargs()


def fastest(kernel, configs, timings, launch):
    """Measured again, longer and in turns: a tuner measures one after the other, for milliseconds, while clocks drift."""
    return least_in_turns(configs, lambda config: measure._cuda(lambda: launch(kernel, **config.all_kwargs()),
                                                                max(1, int(40 / max(timings[config], 1e-3)))))


def least_in_turns(choices, seconds):
    """The one of a list of choices that takes least in the median, measured one after the other, to and fro."""
    times = {choice: [] for choice in choices}
    for turn in range(6):
        for choice in choices if turn % 2 == 0 else choices[::-1]:
            times[choice].append(seconds(choice))
    return min(choices, key=lambda choice: statistics.median(times[choice]))
