# SPDX-License-Identifier: Apache-2.0
"""Tests compile what they test: the cache on disk is off, here and in the processes that they start, unless a test has a
folder of its own. `LIBTILE_CACHE=1 LIBTILE_CACHE_DIR=... pytest` runs them with one."""
import os

os.environ.setdefault("LIBTILE_CACHE", "0")
