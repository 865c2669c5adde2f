# SPDX-License-Identifier: Apache-2.0
"""Waiting for what other programs write."""
import libtile
import libtile.language as tl


@libtile.jit
def everywhere(condition):
    """Whether all elements are true."""
    if len(condition.shape) == 0:
        return condition
    else:
        return tl.sum((~condition).to(tl.int32)) == 0


@libtile.jit
def atomic_poll(pointer, expected_value, sem=None, scope=None, timeout_ns=None):
    """Where the memory was seen to hold the expected value. An element that was is not read again."""
    tl.static_assert(timeout_ns is None, "atomic_poll with timeout_ns is not there yet: it waits for as long as it takes")
    seen = tl.atomic_load(pointer, None, sem, scope) == expected_value
    while not everywhere(seen):
        seen = seen | (tl.atomic_load(pointer, ~seen, sem, scope) == expected_value)
    return seen
