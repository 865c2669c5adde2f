# SPDX-License-Identifier: Apache-2.0
"""`line_info`: PTX names the lines of the kernel's source, and is the same code but for that."""
import inspect
import os
import re
import subprocess
import sys
import textwrap

import pytest
import test_ptx
from spine import layer_norm, matmul

import libtile
import libtile.language as tl


@libtile.jit
def twice(x):
    return tl.exp(x * 2)  # helper


@libtile.jit
def lines(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n)  # load
    total = tl.zeros([BLOCK], tl.float32)
    for j in range(n):
        total += twice(a) * j  # body
    r = tl.sum(total)  # sum
    tl.store(out + i, total / r, i < n)  # store


def text(kernel, types, constants, **options):
    return kernel.warmup(*types, grid=(1,), target="sm_90a", **constants, **options).asm["ptx"]


def lines_of(ptx):
    """The lines that the text names, by the file's name."""
    files = dict(re.findall(r'^\s*\.file\s+(\d+) "([^"]*)"', ptx, re.M))
    named = {}
    for file, line in re.findall(r"^\s*\.loc\s+(\d+) (\d+) \d+", ptx, re.M):
        named.setdefault(files[file], set()).add(int(line))
    return named


def line_with(comment):
    for function in (twice.fn, lines.fn):
        text, first = inspect.getsourcelines(function)
        for number, line in enumerate(text):
            if line.rstrip().endswith("# " + comment):
                return first + number
    raise AssertionError(comment)


CASE = (lines, ["*fp32:16", "*fp32:16", "i32"], {"BLOCK": 512})


def test_lines_of_kernel_and_helpers_are_named():
    assert ".loc" not in text(*CASE)
    ptx = text(*CASE, line_info=True)
    named = lines_of(ptx)
    assert set(named) == {__file__}
    assert {line_with(what) for what in ("helper", "load", "body", "sum", "store")} <= named[__file__]
    # An instruction stands below its line: the load's, and what a function of the library makes counts on its call.
    line = {name: max(int(found) for found in re.findall(rf"\.loc\s+1 (\d+)", ptx[:ptx.index(name)])[-1:])
            for name in ("ld.global", "st.global", "shfl.sync")}
    assert line == {"ld.global": line_with("load"), "st.global": line_with("store"), "shfl.sync": line_with("sum")}


def without_lines(ptx):
    """The instructions: labels that only lines need, blank lines and the names of blocks behind them go."""
    kept = [re.sub(r"\s*//.*", "", line) for line in ptx.splitlines()
            if not re.match(r"\s*\.(loc|file|section)\b|\$L__(tmp|func_begin|func_end)\d+:", line)]
    return [line for line in kept if line.strip() and not re.match(r"\s*[{}]\s*$", line)]


@pytest.mark.parametrize("name", test_ptx.KERNELS)
def test_the_code_is_the_same(name):
    assert without_lines(text(*test_ptx.KERNELS[name], line_info=True)) == without_lines(text(*test_ptx.KERNELS[name]))


@pytest.mark.parametrize("name, module", [("matmul_f16", matmul), ("layer_norm_f16", layer_norm)])
def test_the_assembler_keeps_lines(name, module, tmp_path):
    (tmp_path / "kernel.ptx").write_text(text(*test_ptx.KERNELS[name], line_info=True))
    subprocess.run([test_ptx.PTXAS, "-arch=sm_90a", "-lineinfo", "kernel.ptx", "-o", "kernel"], cwd=tmp_path, check=True)
    code = (tmp_path / "kernel").read_bytes()
    assert os.path.basename(module.__file__).encode() in code and b".debug_line" in code


def test_kernels_that_differ_in_their_lines_are_kept_apart(tmp_path):
    """Without line_info a cached kernel serves wherever its text stands; with it the lines are part of it."""
    kernel = textwrap.dedent("""
        import libtile, libtile.language as tl
        @libtile.jit
        def copy(x, out):
            tl.store(out, tl.load(x))
        ptx = (made := copy.warmup("*fp32", "*fp32", target="sm_90a", grid=(1,))).asm["ptx"]
        print(made.metadata["cache"], ".loc" in ptx, ".loc\\t1 LINE " in ptx)
    """)
    script, said = tmp_path / "kernel.py", []
    for line_info, blank in (("0", 0), ("0", 1), ("1", 0), ("1", 1), ("1", 1)):
        script.write_text("\n" * blank + kernel.replace("LINE", str(blank + 5)))
        environment = {**os.environ, "LIBTILE_LINE_INFO": line_info, "LIBTILE_CACHE": "1",
                       "LIBTILE_CACHE_DIR": str(tmp_path / "cache")}
        said.append(subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True,
                                   check=True).stdout.strip())
    assert said == ["stored False False", "hit False False", "stored True True", "stored True True", "hit True True"]
