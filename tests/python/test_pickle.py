# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels and jit functions through pickle, and rebuilt without __init__."""
import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import libtile
import libtile.language as tl
from libtile import CompiledKernel, JITFunction, _libtile


@libtile.jit
def scale(x, pair, n, WHAT: tl.constexpr, BLOCK: tl.constexpr = 64):
    """Scales."""
    i = tl.arange(0, BLOCK)
    tl.store(pair[0] + i, tl.load(x + i, i < n) * pair[1] + (1 if WHAT == "b" else 0), i < n)


def launched():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    return scale[(1,)](x, (out, 2.5), 60, "a\nir\n", BLOCK=64)


def compiled(target):
    return scale.warmup(tl.float16, ("*fp16", "fp32"), "i32", "b", target=target, num_warps=2, debug=True)


def check_same(kernel, other):
    for stage in kernel.asm:
        assert other.asm[stage] == kernel.asm[stage], stage
    theirs, ours = other.metadata, kernel.metadata
    for name in set(theirs) - {"compile_ms", "cache"}:
        assert theirs[name] == ours[name]
    assert other.fallbacks == kernel.fallbacks and other.guards == kernel.guards
    assert repr(other) == repr(kernel)


@pytest.mark.parametrize("make", [launched, lambda: compiled("sm_90a"), lambda: compiled("avx512")],
                         ids=["launched", "sm_90a", "avx512"])
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_kernels(make, protocol):
    kernel = make()
    check_same(kernel, pickle.loads(pickle.dumps(kernel, protocol)))
    twice = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(kernel, protocol)), protocol))
    check_same(kernel, twice)
    check_same(kernel, copy.deepcopy(kernel))


def test_kernels_rebuilt_by_their_dict():
    kernel = launched()
    state = pickle.loads(pickle.dumps({**kernel.__dict__, "module": None, "function": None, "run": None}))
    for given in (kernel.__dict__, state):
        made = CompiledKernel.__new__(CompiledKernel)
        made.__dict__.update(given)
        check_same(kernel, made)


def test_in_another_process():
    kernel = compiled("sm_80")
    program = ("import pickle, sys; kernel = pickle.load(sys.stdin.buffer); "
               "sys.stdout.write(kernel.name + kernel.asm['ptx'])")
    result = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(kernel), capture_output=True,
                            check=True)
    assert result.stdout.decode() == kernel.name + kernel.asm["ptx"]


def test_what_is_no_kernel():
    good = launched()._kernel.__getstate__()
    head, ir = good.split(b"ir\nfunc", 1)
    bad = [b"", b"x", good[:20], good[:-20], head, head + b"ir\n", head + b"ir\nnonsense", b"ir\nfunc" + ir,
           good.replace(b"parameter 0", b"parameter 999999"), good.replace(b"parameter 0 ", b"parameter 0 x"),
           good.replace(b" *fp32", b" *fp16", 1), good.replace(b"target ", b"target no"),
           good.replace(b"signature ", b"signature 99"), good.replace(libtile.__version__.encode(), b"9.9"),
           good.replace(b"stage=tile", b"stage=nested"), good.replace(b"\nparameter", b"\noption nothing 1\nparameter", 1)]
    for state in bad:
        assert state != good
        kernel = _libtile.Kernel.__new__(_libtile.Kernel)
        kernel.__setstate__(state)
        for _ in range(2):
            with pytest.raises((ValueError, libtile.Error)):
                kernel.facts()
        assert kernel.__getstate__() == state


def test_kernels_that_nobody_initialised():
    with pytest.raises(TypeError):
        _libtile.Kernel.__new__(_libtile.Kernel).facts()
    with pytest.raises(TypeError):
        _libtile.Kernel()
    with pytest.raises(AttributeError):
        CompiledKernel.__new__(CompiledKernel).name


def test_jit_functions_by_name():
    assert pickle.loads(pickle.dumps(scale)) is scale
    assert copy.copy(scale) is scale and copy.deepcopy(scale) is scale


def check_restored(made):
    assert isinstance(made, JITFunction) and made is not scale
    assert made.__name__ == "scale" and made.__doc__ == "Scales." and made.src == scale.src
    assert made.arg_names == scale.arg_names and made.fn is None
    made.clear()
    for use in (lambda: made[(1,)](1), lambda: made.warmup(1, target="sm_80"), lambda: made(1)):
        with pytest.raises(RuntimeError, match="no function"):
            use()


def test_jit_functions_without_a_name():
    local = JITFunction(scale.fn)
    check_restored(pickle.loads(pickle.dumps(local)))
    check_restored(pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(local)))))


def test_copies_are_the_function_itself():
    local = JITFunction(scale.fn)
    assert copy.copy(local) is local and copy.deepcopy({"kernel": [local]})["kernel"][0] is local


def test_a_function_taken_away_and_given_back():
    function = JITFunction(scale.fn)
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel = function[(1,)](x, (out, 2.5), 60, "", BLOCK=64)
    fn, function.fn = function.fn, None
    with pytest.raises(RuntimeError, match="no function"):
        function[(1,)](x, (out, 2.5), 60, "", BLOCK=64)
    function.fn = fn
    assert function[(1,)](x, (out, 2.5), 60, "", BLOCK=64) is kernel
    function.fn = other.fn
    function[(1,)](out)
    assert out[0] == 5
    with pytest.raises(TypeError, match="function or None"):
        function.fn = 3


@libtile.jit
def other(out):
    tl.store(out, 5)


def test_jit_functions_rebuilt_by_their_dict():
    made = JITFunction.__new__(JITFunction)
    for use in (lambda: made[(1,)](1), lambda: made(1), lambda: made.src, lambda: made.arg_names):
        with pytest.raises(RuntimeError, match="no function"):
            use()
    made.__dict__.update(scale.__dict__)
    made.fn = scale.fn
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    made[(1,)](x, (out, 2.5), 60, "", BLOCK=64)
    assert out[59] == 2.5
    pickle.dumps({name: value for name, value in scale.__dict__.items() if name != "__wrapped__"})
