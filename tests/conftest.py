# SPDX-License-Identifier: Apache-2.0
"""Tests compile what they test: the cache on disk is off, here and in the processes that they start, unless a test has a
folder of its own. `LIBTILE_CACHE=1 LIBTILE_CACHE_DIR=... pytest` runs them with one.

NumPy's products, which are references, take one thread each: they are small, and threads of BLAS that spin for the next
one take the time of the workers beside them."""
import gc
import os

os.environ.setdefault("LIBTILE_CACHE", "0")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_collection_finish():
    """What collecting made stays as long as the process, and there is much of it: the garbage collector looks through it no more."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """The slow ones first: of several processes none is left with them when the others are done."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
