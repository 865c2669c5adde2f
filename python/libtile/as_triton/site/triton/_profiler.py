# SPDX-License-Identifier: Apache-2.0
"""`triton.profiler`: the names, so that programs which measure themselves run. Nothing is measured; libtile.hooks tell a
profiler of each launch."""
import contextlib

__all__ = ["activate", "cpu_timed_scope", "deactivate", "enter_scope", "exit_scope", "finalize", "profile", "scope", "start"]


def start(name=None, *args, **kwargs):
    """The number of a session, of which there is none: 0."""
    return 0


def activate(session=None, *args, **kwargs):
    """Does nothing, as the next ones."""


def deactivate(session=None, *args, **kwargs):
    pass


def finalize(session=None, *args, **kwargs):
    pass


def enter_scope(name, *args, **kwargs):
    return 0


def exit_scope(name=None, *args, **kwargs):
    return 0


class scope(contextlib.ContextDecorator):
    """Around what would be measured together."""

    def __init__(self, name=None, metrics=None):
        self.name, self.metrics = name, metrics

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


cpu_timed_scope = scope


def profile(func=None, **kwargs):
    """The function itself."""
    return func if func is not None else lambda function: function


def parse(metrics, filename, *args, **kwargs):
    """triton.profiler.viewer: the measurements in a file, of which there are none: no tree, and the names of no metrics."""
    return None, []


def print_tree(tree, metrics, *args, **kwargs):
    """triton.profiler.viewer: says that there is nothing to show."""
    print("triton.profiler measured nothing: libtile answers its names alone")
