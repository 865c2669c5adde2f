# SPDX-License-Identifier: Apache-2.0
"""Errors in kernels name the file, line and column, and show the place."""
import numpy as np
import pytest

import libtile
import libtile.language as tl

X = np.zeros(16, np.float32)


def line_of(text):
    """The line of this file that holds the text, from 1; the first one after a marker of its own."""
    with open(__file__) as stream:
        for number, line in enumerate(stream, 1):
            if text in line and "line_of" not in line:
                return number, line.index(text) + 1
    raise AssertionError(text)


@libtile.jit
def unknown_name(x):
    tl.store(x, unknwon_value)


@libtile.jit
def unknown_operation(x):
    tl.store(x, tl.sqroot(tl.load(x)))


@libtile.jit
def shapes(x):
    a = tl.arange(0, 8) + tl.arange(0, 16)
    tl.store(x + tl.arange(0, 8), a)


@libtile.jit
def inner(x):
    return tl.arange(0, 3) + x


@libtile.jit
def outer(x):
    tl.store(x + tl.arange(0, 4), inner(tl.arange(0, 4)))


@libtile.jit
def failing_assertion(x, N: tl.constexpr):
    tl.static_assert(N == 2, "N is two")


@libtile.jit
def later(x):
    tl.store(x, tl.slice_type(tl.load(x), 0, None))


@pytest.mark.parametrize("kernel, what, place", [
    (unknown_name, "unknwon_value", "unknwon_value)"),
    (unknown_operation, "sqroot", "tl.sqroot"),
    (shapes, "8.*16", "tl.arange(0, 8) + tl"),
])
def test_place(kernel, what, place):
    with pytest.raises(libtile.CompilationError, match=what) as caught:
        kernel[(1,)](X)
    line, _ = line_of(place)
    error = caught.value
    assert error.file == __file__ and error.line == line and error.column >= 1
    assert f"{__file__}:{line}:{error.column}" in str(error)
    assert "^" in str(error)
    assert "^" not in error.message


def test_error_in_a_called_function_shows_the_call():
    with pytest.raises(libtile.CompilationError) as caught:
        outer[(1,)](X)
    text = str(caught.value)
    assert f":{line_of('tl.arange(0, 3) + x')[0]}:" in text
    assert f":{line_of('inner(tl.arange(0, 4))')[0]}:" in text


def test_static_assert():
    failing_assertion.warmup("*fp32", grid=(1,), target="avx512", N=2)
    with pytest.raises(libtile.CompilationError, match="N is two"):
        failing_assertion.warmup("*fp32", grid=(1,), target="avx512", N=3)


def test_not_there_yet():
    with pytest.raises(libtile.UnsupportedError, match="slice_type") as caught:
        later[(1,)](X)
    assert caught.value.line == line_of("tl.slice_type(tl")[0]


def test_a_process_goes_on_after_errors():
    for _ in range(3):
        with pytest.raises(libtile.CompilationError):
            unknown_name[(1,)](X)


def test_source_without_a_file():
    scope = {"libtile": libtile}
    exec("@libtile.jit\ndef kernel(x):\n    pass\n", scope)
    with pytest.raises(libtile.CompilationError, match="source"):
        scope["kernel"][(1,)](X)
