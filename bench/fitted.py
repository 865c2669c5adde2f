# SPDX-License-Identifier: Apache-2.0
"""The best of a list of configurations for one case, as a user's tuner finds it."""
import statistics

import libtile


def fitted(language, kernel, configs, key, launch):
    """Keywords of the fastest configuration; `launch(kernel, **keywords)` launches it and gives the compiled kernel.

    Of ours one that takes no fallback, if there is any: where a configuration asks for more stages than there is room for,
    another one asks for what it gets.
    """
    tuner = language.autotune(configs, key=key, warmup=2, rep=15)(kernel)
    launch(tuner)
    if language is not libtile:
        return tuner.best_config.all_kwargs()
    ranked = sorted((config for config in tuner.configs if config not in tuner.skipped),
                    key=lambda config: _milliseconds(tuner.configs_timings[config]))
    plain = (config for config in ranked if not launch(kernel, **config.all_kwargs()).fallbacks)
    return next(plain, tuner.best_config).all_kwargs()


def _milliseconds(timing):
    return timing if isinstance(timing, float) else statistics.median(timing)
