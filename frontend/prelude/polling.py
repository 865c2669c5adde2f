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
    """Where the memory was seen to hold the expected value. An element that was is not read again; each is read
    once at least. The time, as uint64, is that of the whole operation.
    """
    element: tl.constexpr = pointer.dtype.element_ty
    tl.static_assert(element.is_int(), "atomic_poll takes pointers to integers")
    tl.static_assert(tl.to_tensor(expected_value).dtype.is_int(),
                     "the expected value of atomic_poll on integers must be an integer")
    if timeout_ns is None:
        seen = tl.atomic_load(pointer, None, sem, scope) == expected_value
        while not everywhere(seen):
            seen = seen | (tl.atomic_load(pointer, ~seen, sem, scope) == expected_value)
        return seen
    else:
        time = time_limit(timeout_ns)
        start = tl.clock()
        seen = tl.atomic_load(pointer, None, sem, scope) == expected_value
        while not everywhere(seen) and (tl.clock() - start).to(tl.uint64) < time:
            seen = seen | (tl.atomic_load(pointer, ~seen, sem, scope) == expected_value)
        return seen


@libtile.jit
def time_limit(nanoseconds):
    """The same as a uint64."""
    if isinstance(nanoseconds, tl.constexpr):
        tl.static_assert(nanoseconds >= 0, "timeout_ns of atomic_poll must not be negative")
    time = tl.to_tensor(nanoseconds)
    tl.static_assert(len(time.shape) == 0 and time.dtype.is_int(), "timeout_ns of atomic_poll must be a scalar integer")
    if time.dtype.is_int_signed():
        time = tl.maximum(time, 0)
    return time.to(tl.uint64)
